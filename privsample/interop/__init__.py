"""Conversions to and from PyMC, ArviZ, OpenDP and dp_accounting, which are imported inside functions only."""
