"""Figures that more than one page draws, and the look of all. Pure: SI in, `go.Figure` out."""
