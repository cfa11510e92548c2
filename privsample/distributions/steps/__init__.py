"""Markov kernels, Lipschitz maps, diffusions and gradient steps, which act on a statistic or a release."""
