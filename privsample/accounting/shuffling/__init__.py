"""Accounts of local responses that a shuffler collects."""
