"""What a mechanism costs that runs on a subsample."""
