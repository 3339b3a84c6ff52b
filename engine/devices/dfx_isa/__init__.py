"""The DFX transformer core as an instruction-set machine: its programs, their timing and their arithmetic."""
