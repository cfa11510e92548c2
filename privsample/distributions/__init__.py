"""Distributions and models: parameters, log mass or density, and exact samplers. This package knows nothing of privacy.
"""
