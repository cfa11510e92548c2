"""Mechanisms: they draw, and their accountants state the privacy cost. No divergence is computed in this package."""
