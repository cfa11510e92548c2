"""Accounts of random steps after a release (privacy amplification by post-processing)."""
