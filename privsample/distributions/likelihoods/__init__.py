"""Likelihoods of one record of a regression, with the constants that determine the privacy cost of gradient steps."""
