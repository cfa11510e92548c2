"""Small PyMC models of records that come with the library, for examples and audits."""

from typing import Any

import numpy as np

from privsample._checks import finite, positive, positive_integer
from privsample._optional import require
from privsample._value import frozen_value, set_fields
from privsample.distributions.models.record_model import RecordModel
from privsample.distributions.record_columns import RecordColumn


@frozen_value
class NormalMeanModel(RecordModel):
    """Normal records "y" with an unknown mean "theta", which has a normal prior.

    Parameters
    ----------
    prior_mean : float, default 0.0
        Mean of the prior, finite.
    prior_std : float, default 1.0
        Standard deviation of the prior, finite and > 0.
    noise_std : float, default 1.0
        Standard deviation of a record given the mean, finite and > 0.

    Raises
    ------
    ValueError
        If a field is outside its range.

    Examples
    --------
    >>> import privsample as ps
    >>> model = ps.NormalMeanModel(prior_std=3.0)
    >>> model.extreme_records()[0]
    {'y': 3000000.0}
    """

    prior_mean: float = 0.0
    prior_std: float = 1.0
    noise_std: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, prior_mean=finite(prior_mean=self.prior_mean))
        set_fields(self, prior_std=positive(prior_std=self.prior_std), noise_std=positive(noise_std=self.noise_std))

    def __call__(self, data: Any) -> Any:
        """Build the model of the column "y"."""
        require("pymc", "bayes", "a model of PyMC")
        import pymc as pm

        with pm.Model() as model:
            theta = pm.Normal("theta", self.prior_mean, self.prior_std)
            pm.Normal("y", theta, self.noise_std, observed=data["y"])
        return model

    @property
    def columns(self) -> dict[str, RecordColumn]:
        """The column of numbers."""
        return {"y": RecordColumn()}

    @property
    def released_numbers(self) -> int:
        """One: the mean."""
        return 1

    def extreme_records(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Records far above and far below the prior mean."""
        far = 1e6 * max(self.prior_std, self.noise_std)
        return {"y": self.prior_mean + far}, {"y": self.prior_mean - far}


@frozen_value
class LogisticModel(RecordModel):
    """Logistic regression of labels "label" in {0, 1} on rows "rows", with independent normal priors on "slope".

    Parameters
    ----------
    features : int
        Number of features, >= 1: the column "rows" has this width.
    prior_std : float, default 1.0
        Standard deviation of the prior of each slope, finite and > 0.

    Raises
    ------
    ValueError
        If a field is outside its range.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.LogisticModel(features=3).columns["rows"].width
    3
    """

    features: int
    prior_std: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, features=positive_integer(features=self.features))
        set_fields(self, prior_std=positive(prior_std=self.prior_std))

    def __call__(self, data: Any) -> Any:
        """Build the model of the columns "rows" and "label"."""
        require("pymc", "bayes", "a model of PyMC")
        import pymc as pm

        with pm.Model() as model:
            slope = pm.Normal("slope", 0.0, self.prior_std, shape=self.features)
            pm.Bernoulli("label", logit_p=data["rows"] @ slope, observed=data["label"])
        return model

    @property
    def columns(self) -> dict[str, RecordColumn]:
        """The columns of the data."""
        return {"rows": RecordColumn(width=self.features), "label": RecordColumn(bounds=(0, 1), integer=True)}

    @property
    def released_numbers(self) -> int:
        """The number of slopes."""
        return self.features

    def extreme_records(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Long rows in opposite directions, both with label 1."""
        row = np.zeros(self.features)
        row[0] = 1e6
        return {"rows": row, "label": 1.0}, {"rows": -row, "label": 1.0}
