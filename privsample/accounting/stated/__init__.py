"""Accounts that a user states: from a table of two distributions, a trade-off function, a privacy curve or a PLD."""
