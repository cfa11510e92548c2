"""Accounts of mechanisms that run on a random subsample of the records."""
