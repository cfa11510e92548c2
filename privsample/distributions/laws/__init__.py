"""Laws of parameters: densities, moments, exact samplers."""
