"""Noisy statistics as PyMC distributions: the hidden statistic of the records, plus the noise of the release."""
