"""Accounts of releases for public groups of the records."""
