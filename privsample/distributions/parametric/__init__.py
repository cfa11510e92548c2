"""Distributions of parameters: densities, moments, exact samplers."""
