"""Searches over many priced designs: fronts, bins, thinning, tiles."""
