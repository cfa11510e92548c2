"""Certificates: files with the pairs of distributions behind a claimed (epsilon, delta), for privsample/verify.py."""
