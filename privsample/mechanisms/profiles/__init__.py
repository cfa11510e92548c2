"""Mechanisms for profile-based privacy."""
