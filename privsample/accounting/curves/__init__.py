"""From the distribution of a loss to its curves: integrals without cancellation, dominating masses, conversions."""
