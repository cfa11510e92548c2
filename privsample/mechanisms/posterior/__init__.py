"""Mechanisms that draw from posteriors."""
