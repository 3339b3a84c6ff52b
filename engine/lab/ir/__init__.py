"""Vector code that numba does not write by itself, generated for the instruction set of this machine."""
