"""Local responses that a shuffler collects."""
