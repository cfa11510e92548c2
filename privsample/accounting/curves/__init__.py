"""Numerical tools for privacy curves and Rényi curves: quadrature, discretization, tables and conversions."""
