"""Searches over many priced designs: fronts, thinning, tiles."""
