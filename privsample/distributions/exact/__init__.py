"""Exact draws: random bits are revealed until the released grid point, or the released integer, is certain."""
