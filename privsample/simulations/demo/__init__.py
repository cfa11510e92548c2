"""Demonstration on public data, run by `python -m privsample.simulations.demo FOLDER`."""
