"""Accounts of draws from the posterior of a logistic regression with a Gaussian prior.

Source: Gopi, Lee and Liu 2022, "Private Convex Optimization via Exponential Mechanism" (arXiv 2203.00263), Gaussian
differential privacy of strongly log-concave distributions. Its proof and those of the gradient bounds are in
docs/notes/glm.md.
"""

import math
from dataclasses import replace
from typing import Self

import numpy as np

from privsample._checks import open_unit_interval, positive, positive_integer, prior_factor
from privsample._logspace import half_square
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.relations import ReplaceOne

SCALAR = 1.0516339915453223  # sup over a >= 0 of sigma(a) + sup_{u <= 1} u sigma(-ua), rounded up; at a = 4.0316
_UP = 1.0 + 2.0**-50  # more than rounding takes away from the shift


@frozen_value
class LogisticAccountant(Accountant):
    """`draws` draws from one posterior of n labelled rows, under ReplaceOne(n). Kind: upper bound.

    Rows of `features` numbers have L2 norm at most `norm`; the coefficients are N(0, prior_std^2) beforehand and the
    intercept N(0, intercept_std^2), or left out (None). Each record counts `data_weight` times, and the prior's
    variances are divided by `prior_weight`. A group of `group_size` records moves the gradient that many times as
    far.
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
        positive(**{"norm * prior_std * data_weight / sqrt(prior_weight)": self.shift})

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """n is public; row and label of one record may be any other."""
        return ReplaceOne(n=self.n, unit=self.unit, members=self.group_size)

    @property
    def source(self) -> str:
        """The theorem and the proof note."""
        return (
            "Gopi, Lee and Liu 2022 (strongly log-concave distributions); privsample notes, glm.md (gradients, several "
            "draws)"
        )

    @property
    def reach(self) -> float:
        """The largest norm of a row, intercept included, in units of the prior's deviations."""
        return reach(self.norm, self.prior_std, self.intercept_std, self.prior_weight)

    @property
    def shift(self) -> float:
        """G / sqrt(mu): all draws together are shift-GDP (Dong, Roth and Su 2022)."""
        scalar = self.features == 1 and self.intercept_std is None
        lipschitz = (SCALAR if scalar else 2.0) * self.reach * self.data_weight * self.group_size
        return lipschitz * math.sqrt(self.draws) * _UP

    def _bounds(self) -> PrivacyBounds:
        """By one Gaussian pair, its own reverse, which no record need attain."""
        pair = GaussianPair(mu=self.shift)
        return PrivacyBounds.from_pairs([pair], zcdp=half_square(self.shift), exact=frozenset())

    def group(self, size: int) -> Self:
        """`size` times the shift."""
        size = positive_integer(size=size)
        return replace(self, group_size=self.group_size * size)


def reach(norm: float, prior_std: float, intercept_std: float | None, prior_weight: float) -> float:
    """The largest norm of a row, intercept included, in units of the prior's deviations; +inf where it overflows."""
    return float(np.hypot(norm * prior_std, intercept_std or 0.0) / np.sqrt(prior_weight))
