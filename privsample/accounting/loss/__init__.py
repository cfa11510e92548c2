"""Dominating pairs of distributions: the privacy loss that every account is made of, and sums of such losses."""
