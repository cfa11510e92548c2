"""What happens to a value afterwards: kernels, maps, diffusions, steps of descent."""
