"""Random steps after a release."""
