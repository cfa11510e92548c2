"""Private selection among repeated runs of a mechanism."""
