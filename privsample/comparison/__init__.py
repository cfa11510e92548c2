"""Comparison of the errors of mechanisms at one privacy target, on simulated data."""
