"""The only importers of PyMC, ArviZ and dp_accounting, always inside functions."""
