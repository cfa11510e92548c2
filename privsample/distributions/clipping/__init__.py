"""Sums of clipped records observed with noise: moments and exact likelihood. docs/notes/clipping.md."""
