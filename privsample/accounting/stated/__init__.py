"""Accounts of guarantees that a user states: tables of two distributions, trade-off functions, privacy curves, PLDs."""
