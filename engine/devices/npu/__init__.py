"""Brainwave-like soft vector processors: instruction chains, their timing and arithmetic, pinned weights."""
