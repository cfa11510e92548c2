"""Engines: tallies of data in files, tables and databases, computed where the data are."""
