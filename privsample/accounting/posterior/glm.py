"""Accounts of draws from the posterior of a logistic regression with a Gaussian prior (glm.md).

Gopi, Lee and Liu 2022, "Private Convex Optimization via Exponential Mechanism" (arXiv 2203.00263): Gaussian
differential privacy of strongly log-concave distributions. The note proves this theorem and the bounds on the
gradients.
"""

import math
from dataclasses import replace
from typing import Self

import numpy as np

from privsample._checks import open_unit_interval, positive, positive_integer, prior_factor, probability
from privsample._logspace import half_square
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.failure import FailurePair
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.distributions.likelihoods.logistic import SCALAR_GRADIENT_FACTOR
from privsample.relations import ReplaceOne

_UP = 1.0 + 2.0**-50  # bounds the relative rounding error of the shift


@frozen_value
class LogisticAccountant(Accountant):
    """Draws from the power posterior of a logistic regression with a Gaussian prior, under ReplaceOne(n).

    The prior of the coefficients is N(0, prior_std^2 / prior_weight) and that of the intercept
    N(0, intercept_std^2 / prior_weight). The likelihood is raised to the power `data_weight`. All draws are from one
    posterior.

    Parameters
    ----------
    n : int
        Number of rows, >= 1; public.
    features : int
        Number of features, >= 1, without the intercept.
    norm : float
        Largest L2 norm of the features of one row, finite and > 0.
    prior_std : float
        Prior standard deviation of each coefficient, finite and > 0.
    intercept_std : float or None, default None
        Prior standard deviation of the intercept, finite and > 0; None for a model without intercept.
    data_weight : float, default 1.0
        Exponent of the likelihood, in (0, 1]; smaller values cost less.
    prior_weight : float, default 1.0
        Divisor >= 1 of the prior variances; larger values cost less.
    draws : int, default 1
        Number of independent draws from the posterior, >= 1.
    unit : str, default "record"
        What one row represents.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Conditions that the account does not prove.
    group_size : int, default 1
        Number of rows that are replaced together, >= 1; at most n is used.
    failure_probability : float, default 0.0
        Infinity mass: a probability in [0, 1) with which the draws are not from the posterior, and may be anything. It
        bounds the chance that a fixed number of proposals holds too few accepted ones, for any data, and is for all
        draws together. If it is positive, the Rényi curve and zCDP are +inf, and `conditional_rdp` and
        `conditional_zcdp` hold given that the draws are from the posterior.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or if the shift overflows or underflows.

    Notes
    -----
    Gopi, Lee and Liu 2022 (Gaussian differential privacy of strongly log-concave distributions); glm.md, sections 1 and
    2 (gradients, several draws, groups) and 5 (failure). Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.LogisticAccountant(n=1000, features=5, norm=1.0, prior_std=1.0, data_weight=0.25)
    >>> round(account.shift, 4), round(float(account.epsilon(1e-6)), 4)
    (0.5, 2.2541)
    """

    n: int
    features: int
    norm: float
    prior_std: float
    intercept_std: float | None = None
    data_weight: float = 1.0
    prior_weight: float = 1.0
    draws: int = 1
    unit: str = "record"
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})
    group_size: int = 1
    failure_probability: float = 0.0

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), features=positive_integer(features=self.features))
        set_fields(self, norm=positive(norm=self.norm), prior_std=positive(prior_std=self.prior_std))
        if self.intercept_std is not None:
            set_fields(self, intercept_std=positive(intercept_std=self.intercept_std))
        set_fields(
            self,
            data_weight=open_unit_interval(data_weight=self.data_weight),
            prior_weight=prior_factor(prior_weight=self.prior_weight),
        )
        set_fields(self, draws=positive_integer(draws=self.draws))
        set_fields(self, group_size=min(positive_integer(group_size=self.group_size), self.n))
        set_fields(self, failure_probability=probability(failure_probability=self.failure_probability))
        positive(**{"norm * prior_std * data_weight / sqrt(prior_weight)": self.shift})

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """Replacement of the rows and labels of `group_size` of the n records; n is public."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """Theorem and note that prove the account."""
        return (
            "Gopi, Lee and Liu 2022 (strongly log-concave distributions); privsample notes, glm.md (gradients, several "
            "draws)"
        )

    @property
    def scaled_row_norm(self) -> float:
        """Largest L2 norm of a row with intercept, after scaling each entry by its prior standard deviation."""
        return scaled_row_norm(self.norm, self.prior_std, self.intercept_std, self.prior_weight)

    @property
    def shift(self) -> float:
        """mu of Gaussian differential privacy of all draws together (Dong, Roth and Su 2022)."""
        scalar = self.features == 1 and self.intercept_std is None
        lipschitz = (
            (SCALAR_GRADIENT_FACTOR if scalar else 2.0) * self.scaled_row_norm * self.data_weight * self.group_size
        )
        return lipschitz * math.sqrt(self.draws) * _UP

    def _bounds(self) -> PrivacyBounds:
        """Bounds by one Gaussian pair, which no pair of records need attain, with the failure (glm.md, section 5)."""
        pair = GaussianPair(mu=self.shift)
        if not self.failure_probability:
            return PrivacyBounds.from_pairs([pair], zcdp=half_square(self.shift), exact=frozenset())
        return PrivacyBounds.from_pairs(
            [FailurePair(base=pair, mass=self.failure_probability)],
            renyi=pair.renyi,
            order_limit=np.inf,
            infinity_mass=self.failure_probability,
            pure_epsilon=np.inf,
            zcdp=half_square(self.shift),
            exact=frozenset(),
        )

    def for_sizes(self, low: int, high: int) -> Self:
        """The account itself: the shift does not depend on the number of rows (glm.md, section 1)."""
        del low, high
        return self

    def group(self, size: int) -> Self:
        """The account of groups of `size` records, with `size` times the shift."""
        size = positive_integer(size=size)
        return replace(self, group_size=self.group_size * size)


def scaled_row_norm(norm: float, prior_std: float, intercept_std: float | None, prior_weight: float) -> float:
    """Largest L2 norm of a row with intercept, each entry scaled by its prior standard deviation; +inf on overflow."""
    return float(np.hypot(norm * prior_std, intercept_std or 0.0) / np.sqrt(prior_weight))
