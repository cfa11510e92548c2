"""Accounts of noise that is added to a statistic."""
