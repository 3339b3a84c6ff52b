"""Entries of the catalogs as files have them: read within bounds, checked, and refused in one sentence."""
