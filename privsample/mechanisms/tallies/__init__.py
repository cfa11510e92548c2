"""Tallies: integer statistics of parts of the data, which add up to the statistic of all of them."""
