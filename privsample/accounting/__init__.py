"""What is promised: privacy-loss laws, accountants and their composition. No data, no random numbers, no mechanism."""
