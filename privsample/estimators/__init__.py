"""Private estimators and hyperparameter search with the interface of scikit-learn."""
