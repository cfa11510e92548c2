"""scikit-learn's face over private mechanisms."""
