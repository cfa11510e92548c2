"""Distributions and models: parameters, log mass or density, and exact samplers. None depends on accounts."""
