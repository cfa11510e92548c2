"""Accounts of private selection among repeated runs of a mechanism."""
