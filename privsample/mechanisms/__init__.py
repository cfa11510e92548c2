"""What is drawn. No divergence is computed here: every mechanism asks its accountant."""
