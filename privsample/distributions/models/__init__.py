"""Models: from records to a statistic, from a statistic to a posterior."""
