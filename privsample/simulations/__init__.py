"""Simulations: Monte-Carlo audits of the accounts, figures, and the report in HTML."""
