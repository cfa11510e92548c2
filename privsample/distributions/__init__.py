"""Distributions and models: parameters, log mass or density, and exact samplers. They know nothing of privacy."""
