"""Dominating pairs of distributions, and the privacy curves of their compositions."""
