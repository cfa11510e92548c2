"""Private estimators and hyperparameter search with the interface of scikit-learn."""

from privsample._optional import require

for _package in ("sklearn", "joblib", "threadpoolctl"):
    require(_package, "learn", "an estimator")
