"""Laws and models: parameters, log mass or density, exact samplers. Nothing here speaks of privacy."""
