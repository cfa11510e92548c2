"""Mechanisms, which draw; their accountants state the privacy cost. No divergence is computed in this package."""
