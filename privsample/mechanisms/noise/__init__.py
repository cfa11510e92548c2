"""Mechanisms that add noise to statistics."""
