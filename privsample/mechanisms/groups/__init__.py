"""Mechanisms for public groups of the records."""
