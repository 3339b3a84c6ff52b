"""DFX transformer cores: programs, their timing and arithmetic, tiles, a ring of cards."""
