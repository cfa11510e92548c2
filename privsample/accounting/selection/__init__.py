"""What the best of several private runs costs."""
