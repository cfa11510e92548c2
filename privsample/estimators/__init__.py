"""scikit-learn faces over frozen mechanisms."""
