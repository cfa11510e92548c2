"""Plots of accounts, releases, posterior draws and verdicts on Matplotlib axes, from plain arrays and labels."""
