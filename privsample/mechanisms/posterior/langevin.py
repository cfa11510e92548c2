"""Posterior draws of a regression by Langevin chains, whose account needs no convergence."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from privsample._checks import (
    FloatArray,
    check_memory,
    count_noun,
    nonnegative_integer,
    number,
    open_unit_interval,
    positive,
    positive_integer,
    prior_factor,
)
from privsample._data import ROWS
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.posterior.langevin import LangevinAccountant
from privsample.distributions.likelihoods.base import RegressionLikelihood
from privsample.distributions.likelihoods.logistic import LogisticLikelihood
from privsample.distributions.likelihoods.normal import HuberLikelihood
from privsample.distributions.models.regression_potential import RegressionPotential, RegressionScale
from privsample.distributions.record_format import LabelledFormat
from privsample.distributions.regression_records import read_chunks, read_pair, regression_records
from privsample.distributions.rows import count_clipped_rows
from privsample.distributions.steps.langevin import langevin_states
from privsample.distributions.steps.langevin_bias import LangevinBias, best_step_size, default_steps
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter, inverse
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, TOO_MUCH_WEIGHT, Example
from privsample.mechanisms.intervals import column_names
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.langevin_neighbours import langevin_neighbours, rows_of_draws
from privsample.relations import AddRemove, ReplaceOne, check_single_record_relation

_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee"
_UP = 1.0 + 2.0**-49  # bounds the relative rounding error of a few products
_LEAST_WEIGHT = 1e-12  # where a search for a weight that allows a step size ends


def _largest_data_weight(fields: Mapping[str, Any]) -> float:
    """The largest data weight in (0, 1] for which a given step size is at most 2/M; 1 without one, or if none is."""
    return _largest_amount(fields, lambda amount: {"data_weight": amount})


def _largest_prior_divisor(fields: Mapping[str, Any]) -> float:
    """The same for the inverse of the prior weight."""
    return _largest_amount(fields, lambda amount: {"prior_weight": 1.0 / amount})


def _largest_amount(fields: Mapping[str, Any], weight: Callable[[float], dict[str, float]]) -> float:
    """The largest amount in (0, 1] whose weight allows the step size; the smoothness M increases with the amount."""
    step_size = fields["step_size"]
    if step_size is None:
        return 1.0
    step_size, chosen = positive(step_size=step_size), dict(fields) | {"step_size": None, "steps": 1}

    def is_allowed(amount: float) -> bool:
        return bool(step_size * LangevinPosterior(**chosen | weight(amount)).bias.smoothness <= 2.0 * (1.0 - 1e-12))

    if is_allowed(1.0) or not is_allowed(_LEAST_WEIGHT):
        return 1.0  # if no weight allows the step size, building the mechanism says so
    low, high = math.log(_LEAST_WEIGHT), 0.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_allowed(math.exp(middle)) else (low, middle)
    return math.exp(low)


@frozen_value
class LangevinPosterior(Mechanism):
    """Draws of the coefficients of a regression by Langevin chains, with an account for the steps that are made.

    Each draw is the last state of its own chain, which starts at 0 and makes `steps` steps of gradient descent on the
    negative log posterior, each with Gaussian noise. The account holds for any number of steps and does not assume
    convergence; `bias` states how far the last state may be from the power posterior. A data weight that `calibrate`
    finds for chains that may stay near their start (`bias.largest_start` near 1) says nothing about a posterior: give
    more `steps`, for which the data weight falls. The prior is N(0, prior_std^2) for each coefficient and
    N(0, intercept_std^2) for the intercept.

    `release` takes a pair (rows of shape (n, features), targets of shape (n,)), and releases "coefficients", shape
    (draws, features), and "intercept", shape (draws,), unless it is left out; with several classes, the shapes are
    (draws, classes, features) and (draws, classes). In place of the pair, data that do not fit in memory are given by a
    function without arguments, which is called anew for each step and returns an iterator of such pairs, which hold all
    records together. Arrays of 32-bit or 64-bit floats, also those of numpy.memmap, are not copied. An entry that is
    not a finite number counts as 0, a row longer than `norm` in L2 is scaled down to it, and targets are cleaned as the
    likelihood documents.

    The number of steps and passes is public. The account does not cover the running time of a pass, which depends on
    how many rows have to be cleaned.

    Parameters
    ----------
    likelihood : RegressionLikelihood
        The likelihood, such as `LogisticLikelihood()`. For one of your own the account assumes STATED: that its loss is
        convex, and its constants are correct.
    features : int
        Number of features of a record, >= 1.
    norm : float
        Largest L2 norm of a row, finite and > 0. Longer rows are scaled down to it.
    relation : ReplaceOne or AddRemove
        Neighbouring relation for one record. Under ReplaceOne(n), data with another number of records are refused with
        SchemaError.
    prior_std : float, default 1.0
        Prior standard deviation of each coefficient, > 0. With inf the prior is flat, and the posterior may be
        improper; the account still holds.
    intercept_std : float, optional
        Prior standard deviation of the intercept, > 0, or inf. None leaves the intercept out.
    max_records : int, optional
        Under AddRemove, a public bound on the number of records, >= 1: the guarantee compares datasets of at most this
        many records (assumption BOUNDED_SIZE), and larger ones are refused with SchemaError. Must be left out under
        ReplaceOne.
    data_weight : float, default 1.0
        Weight of each record's log likelihood, in (0, 1] (power posterior).
    prior_weight : float, default 1.0
        The number by which the prior's variances are divided, finite and >= 1.
    draws : int, default 1
        Number of independent chains, >= 1. The account covers all of them together.
    steps : int, optional
        Number of steps, >= 1; it must be given with a flat prior. None chooses 10 (m + M)/m steps, or, with a given
        step size, enough to reduce the influence of the start to 1 %; at most 100,000, and fewer, but at least 100, if
        more than 2e10 numbers would be read.
    step_size : float, optional
        Step size in units of the prior, > 0 and at most 2/M; `calibrate` searches among the data weights (or prior
        weights) for which a given one is allowed. None minimises the bound `bias.wasserstein` among the step sizes up
        to 1/(m + M) that reduce the influence of the start to 1 %; it is 1/(m + M) if none does, and 1/M for a flat
        prior.

    Raises
    ------
    TypeError
        If `likelihood` or `relation` has the wrong type.
    ValueError
        If a field lies outside its range, or `max_records` and `relation` do not match.

    Notes
    -----
    docs/notes/langevin.md, sections 1 to 5. In units of the prior, the negative log posterior is m-strongly convex with
    m = 1 (0 if a prior is flat), and its gradient has the Lipschitz constant M = 1 + data_weight n beta (without the 1
    if all priors are flat), with the smoothness beta of the likelihood and n records, at most `max_records` under
    AddRemove. Kind: upper bound.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> mechanism = ps.LangevinPosterior.calibrate(
    ...     likelihood=ps.LogisticLikelihood(),
    ...     features=2,
    ...     norm=1,
    ...     relation=ps.ReplaceOne(40),
    ...     target=ps.DP(epsilon=1, delta=1e-6),
    ... )
    >>> round(mechanism.data_weight, 4), mechanism.accountant.steps
    (0.1236, 33)
    >>> mechanism.release((np.ones((40, 2)), np.arange(40) % 2))["coefficients"].shape
    (1, 2)
    """

    likelihood: RegressionLikelihood
    features: int
    norm: float
    relation: ReplaceOne | AddRemove
    prior_std: float = 1.0
    intercept_std: float | None = None
    max_records: int | None = None
    data_weight: float = 1.0
    prior_weight: float = 1.0
    draws: int = 1
    steps: int | None = None
    step_size: float | None = None
    free_parameters = (
        FreeParameter(name="data_weight", advice=_ADVICE, allowed=_largest_data_weight),
        FreeParameter(name="prior_weight", value=inverse, advice=_ADVICE, allowed=_largest_prior_divisor),
    )
    _checks_entropy: ClassVar[bool] = True
    command = CommandLine(
        data=("labelled rows",),
        help={
            "likelihood": 'e.g. "logistic-likelihood"',
            "prior_std": "the prior's standard deviation of each coefficient (default: 1)",
            "intercept_std": "the prior's standard deviation of the intercept (default: no intercept)",
            "max_records": "under add-remove, the public bound on the number of records",
            "steps": "the number of steps of each chain (default: chosen from the other options)",
            "step_size": "the step size in units of the prior (default: chosen from the other options)",
        },
    )

    def __post_init__(self) -> None:
        if not isinstance(self.likelihood, RegressionLikelihood):
            raise TypeError(
                f"likelihood must be a RegressionLikelihood, such as LogisticLikelihood(), got "
                f"{type(self.likelihood).__name__}"
            )
        check_single_record_relation(self.relation)
        set_fields(self, features=positive_integer(features=self.features), norm=positive(norm=self.norm))
        set_fields(self, prior_std=_deviation(prior_std=self.prior_std))
        if self.intercept_std is not None:
            set_fields(self, intercept_std=_deviation(intercept_std=self.intercept_std))
        set_fields(self, data_weight=open_unit_interval(data_weight=self.data_weight))
        set_fields(self, prior_weight=prior_factor(prior_weight=self.prior_weight))
        set_fields(self, draws=positive_integer(draws=self.draws))
        if self.max_records is not None:
            set_fields(self, max_records=positive_integer(max_records=self.max_records))
        if (self.max_records is None) == isinstance(self.relation, AddRemove):
            raise ValueError(
                "max_records must be given under AddRemove, where the step size needs a public bound on the number of "
                "records, and left out under ReplaceOne(n)"
            )
        for name, check in (("steps", positive_integer), ("step_size", positive)):
            if getattr(self, name) is not None:
                set_fields(self, **{name: check(**{name: getattr(self, name)})})
        check_memory(self.draws * self._dimension, lower="draws or features")
        self.accountant  # noqa: B018 - building it checks the rest

    @cached
    def accountant(self) -> LangevinAccountant:
        """The account of all draws, for the steps that are made, without an assumption of convergence."""
        bias = self.bias
        sensitivity = self.likelihood.gradient_sensitivity(self._scale.row_norm, self.relation, self._dimension)
        return LangevinAccountant(
            gradient_sensitivity=sensitivity * self.data_weight * _UP,
            strong_convexity=bias.strong_convexity,
            smoothness=bias.smoothness,
            step_size=bias.step_size,
            steps=bias.steps,
            draws=self.draws,
            relation=self.relation,
            assumptions=self._assumptions,
        )

    @cached
    def bias(self) -> LangevinBias:
        """How far the draws may be from the power posterior, in units of the prior; not part of the account."""
        convexity, weight = float(self._proper.min()), self.data_weight * self._most_records
        smoothness = positive(
            **{
                "norm * prior_std": float(self._proper.max())
                + weight * self.likelihood.smoothness(self._scale.row_norm) * _UP
            }
        )
        smoothness *= _UP
        pull = weight * self.likelihood.gradient_norm(self._scale.row_norm)
        dimension = self._dimension
        start = (pull + float(np.hypot(pull, 2.0 * np.sqrt(dimension)))) / 2.0  # langevin.md, section 6
        steps = self.steps or default_steps(
            convexity, smoothness, self.step_size, visits=self._most_records * self._dimension
        )
        step_size = self.step_size or best_step_size(
            convexity, smoothness, steps=steps, dimension=dimension, start_distance=start
        )
        return LangevinBias(
            strong_convexity=convexity,
            smoothness=smoothness,
            step_size=step_size,
            steps=steps,
            dimension=dimension,
            start_distance=start,
        )

    @property
    def record_format(self) -> LabelledFormat | None:  # type: ignore[override]
        """Rows of features with their targets; None under AddRemove, where a sample might exceed `max_records`."""
        return LabelledFormat(features=self.features) if isinstance(self.relation, ReplaceOne) else None

    @property
    def quantity(self) -> str:
        """The label "coefficient"."""
        return "coefficient"

    def for_size(self, size: int) -> Mechanism:
        """The same mechanism for another number of records, for fewer records with the steps and step size of this one.

        The account of this mechanism then holds for all of them (`LangevinAccountant.for_sizes`).
        """
        size = nonnegative_integer(size=size)
        if self.record_format is None or size > self._most_records:
            return Mechanism.for_size(self, size)
        fixed = replace(self, steps=self.bias.steps, step_size=self.bias.step_size)
        return Mechanism.for_size(fixed, size)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Mutants with less noise than stated, and with a record that counts more than stated."""
        logistic = cls(
            likelihood=LogisticLikelihood(),
            features=1,
            norm=4.0,
            relation=ReplaceOne(1),
            data_weight=0.5,
            steps=8,
            step_size=0.1,
        )
        huber = cls(
            likelihood=HuberLikelihood(threshold=1.0),
            features=2,
            norm=1.0,
            relation=AddRemove(),
            max_records=3,
            intercept_std=1.0,
            data_weight=0.5,
            steps=8,
        )
        # Half the variance of the noise is the same chain, in other units, as twice the weight and shorter rows.
        half = {"data_weight": 1.0, "norm": 0.5**0.5, "intercept_std": 0.5**0.5, "step_size": huber.bias.step_size}
        return (
            Example.with_wrong_fields("langevin-logistic", logistic, data_weight=1.0, bug=TOO_MUCH_WEIGHT),
            Example.with_wrong_fields("langevin-huber", huber, bug=TOO_LITTLE_NOISE, **half),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The longest row with either extreme target, or with and without it."""
        return langevin_neighbours(self, positive_integer(group=group))

    def extreme_records(self) -> FloatArray:
        """The longest rows with either extreme target, and a row of zeros."""
        first, second = self.likelihood.extreme_targets
        records = np.zeros((3, self.features + 1))
        records[:2, 0], records[:, -1] = self.norm, (first, second, second)
        return records

    def _many_draws(self, outer: Mechanism) -> Draw | None:
        return partial(rows_of_draws, self) if outer is self and self.draws == 1 else None

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        if self.likelihood.score_columns == 1:
            return {"coefficients": ("feature",)}
        return {"coefficients": ("class", "feature"), "intercept": ("class",)}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        names = () if callable(data) else column_names(data[0])
        return {"feature": names} if len(names) == self.features else {}

    def _statistic(self, data: Any) -> RegressionPotential:
        records, count, targets = regression_records(data, self.features, self.norm, self.likelihood.clean_targets)
        self._check_size(count, targets)
        return RegressionPotential(
            likelihood=self.likelihood,
            scale=self._scale,
            weight=self.data_weight,
            records=records,
            proper=self._proper,
        )

    def _draw(self, statistic: RegressionPotential, rng: np.random.Generator) -> Draws:
        start = np.zeros((self.draws, self.likelihood.score_columns, self._scale.width))
        account = self.accountant
        states = langevin_states(statistic.gradient, start, step_size=account.step_size, steps=account.steps, rng=rng)
        single = self.likelihood.score_columns == 1
        coefficients = states[..., : self.features] * self._scale.deviation
        draws = {"coefficients": coefficients[:, 0] if single else coefficients}
        if self._scale.intercept_deviation is not None:
            intercept = states[..., -1] * self._scale.intercept_deviation
            draws["intercept"] = intercept[:, 0] if single else intercept
        return draws

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        facts: Counter[str] = Counter()
        count = labels = 0
        pairs = read_chunks(data, self.features) if callable(data) else iter([read_pair(data, self.features)])
        for rows, targets in pairs:
            count, labels = count + len(rows), labels + len(targets)
            for start in range(0, len(rows), ROWS):
                facts.update(count_clipped_rows(np.asarray(rows[start : start + ROWS], dtype=np.float64), self.norm))
            facts.update(self.likelihood.count_problems(targets))
        self._check_size(count, labels)
        flat = "" if self._proper.all() else "; the prior is flat, and the posterior may be improper"
        return CuratorNotes(
            title=f"{count_noun(count, 'row')} of {count_noun(self.features, 'number')} with targets{flat}",
            facts={reason: found for reason, found in facts.items() if found},
        )

    @property
    def _most_records(self) -> int:
        """The largest number of records that the guarantee allows; public."""
        return self.relation.n if isinstance(self.relation, ReplaceOne) else self.max_records or 1

    @property
    def _dimension(self) -> int:
        """Number of coefficients of one draw, with the intercepts."""
        return (self.features + (self.intercept_std is not None)) * self.likelihood.score_columns

    @property
    def _assumptions(self) -> frozenset[Assumption]:
        """A bound on the size under AddRemove, and the constants of a likelihood from outside the library."""
        found = {Assumption.FLOAT_CHAIN}
        if isinstance(self.relation, AddRemove):
            found.add(Assumption.BOUNDED_SIZE)
        if not type(self.likelihood).__module__.startswith("privsample."):
            found.add(Assumption.STATED)
        return frozenset(found)

    @cached
    def _scale(self) -> RegressionScale:
        root = float(np.sqrt(self.prior_weight))
        own, intercept = self.prior_std / root, self.intercept_std
        if intercept is not None:
            intercept = intercept / root if np.isfinite(intercept) else 1.0
        return RegressionScale(
            features=self.features,
            norm=self.norm,
            deviation=own if np.isfinite(own) else 1.0,
            intercept_deviation=intercept,
        )

    @cached
    def _proper(self) -> FloatArray:
        """1 for coordinates with a proper prior, 0 for those with a flat one, the intercept last."""
        deviations = [self.prior_std] * self.features
        if self.intercept_std is not None:
            deviations.append(self.intercept_std)
        return np.isfinite(deviations).astype(np.float64)

    def _check_size(self, rows: int, targets: int) -> None:
        """Raise SchemaError if the numbers of rows and targets are not those that are public."""
        if isinstance(self.relation, ReplaceOne):
            for words, count in (("rows", rows), ("targets", targets)):
                if count != self.relation.n:
                    raise SchemaError(f"n = {self.relation.n} records were declared, the data hold {count} {words}")
        elif rows != targets:
            raise SchemaError("data must hold one target for each row")
        elif rows > self._most_records:
            raise SchemaError(
                f"max_records = {self.max_records} was declared, the data hold more records: declare a larger public "
                "bound"
            )


def _deviation(**named: Any) -> float:
    """A prior standard deviation: > 0, or inf for a flat prior. Raises TypeError or ValueError."""
    ((name, item),) = named.items()
    found = number(**named)
    if not found > 0.0:
        raise ValueError(f"{name} must be > 0, or inf for a flat prior, got {item!r}")
    return found
