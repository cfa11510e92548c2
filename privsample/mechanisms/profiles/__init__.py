"""Profile-based privacy."""
