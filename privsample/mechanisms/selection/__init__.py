"""The best of several private runs."""
