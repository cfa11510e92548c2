"""Exact Bayesian inference from a noisy release, by Markov chains over hidden records (docs/notes/inference.md)."""
