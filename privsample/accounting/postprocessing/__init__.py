"""What random steps after a release take off its cost."""
