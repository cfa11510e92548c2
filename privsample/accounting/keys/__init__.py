"""Accounts of keys that are released only where enough units have them."""
