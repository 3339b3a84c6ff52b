"""The Brainwave NPU as an instruction-set machine: instruction chains, their timing and their arithmetic."""
