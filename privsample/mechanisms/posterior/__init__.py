"""Draws from posteriors."""
