"""Accounts of draws from posteriors: conjugate, tempered and truncated, logistic regression, Gibbs sampling."""
