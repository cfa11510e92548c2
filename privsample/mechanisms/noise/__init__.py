"""Statistics released with noise."""
