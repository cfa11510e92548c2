"""Sums of clipped records, observed with noise: their moments, and their exact likelihood. docs/notes/clipping.md."""
