"""What a draw from a posterior costs."""
