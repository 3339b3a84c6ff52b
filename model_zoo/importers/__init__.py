"""Readers of other formats; each needs its own optional package and says so in one sentence when it is missing."""
