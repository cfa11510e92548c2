"""Losses that add up: accounts put together, exactly where a transform can be inverted and from above on a lattice."""
