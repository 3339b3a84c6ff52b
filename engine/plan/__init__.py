"""Which part of a network runs where, and what crosses which link."""
