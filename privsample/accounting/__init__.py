"""What is promised: privacy-loss distributions, accountants and their composition. No data, no random numbers, no
mechanism.
"""
