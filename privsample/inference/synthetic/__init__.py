"""Synthetic data from noisy marginal tables, and the combining rules for their analyses."""
