"""Estimators for scikit-learn, made of private mechanisms."""
