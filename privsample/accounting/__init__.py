"""Accounting: privacy-loss distributions, accountants and composition. No data, random numbers or mechanisms."""
