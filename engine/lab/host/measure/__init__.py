"""Measure kernels and networks on this host; see `run` and `network`."""
