"""Random post-processing of releases."""
