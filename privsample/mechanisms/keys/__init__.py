"""Mechanisms that release keys which are not public."""
