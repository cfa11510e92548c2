"""What noise costs that is added to a statistic."""
