"""Accounts of private Gibbs sampling of a hidden Markov model, by either of two methods. Proofs: gibbs.md."""

import math
from collections.abc import Sequence
from dataclasses import replace

from privsample._checks import check_memory, nonnegative_integer, positive, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.guarantees import BoundedRangeAccountant
from privsample.accounting.noise.statistics import StatisticsAccountant
from privsample.accounting.posterior.random_scan import RandomScanAccountant
from privsample.accounting.posterior.tempered import TemperedAccountant
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.noise import Noise
from privsample.distributions.record_sensitivity import ONE_HOT
from privsample.relations import ReplaceOne

FIXED_PARTS = frozenset({Assumption.FIXED_PARTS})
_IDEAL = frozenset({Assumption.IDEAL_REALS})
_ASSUMED = FIXED_PARTS | _IDEAL


@frozen_value
class EmissionAccountant(Accountant):
    """One tempered draw of a feature's emission probabilities in all states of a hidden Markov model.

    The draw is one update of a Gibbs sampler, given the states of the time steps, which are already released. Each
    record belongs to one time step and hence to one state, and each state that has records has at least `min_records`
    of them. The account is that of a tempered Dirichlet posterior given `min_records` records, with a symmetric prior
    and truncated to probabilities of at least `truncation`. It holds under ReplaceOne(n).

    Parameters
    ----------
    n : int
        Number of records, >= 1; public.
    min_records : int
        Smallest number of records of a time step that has any, from 1 to n; public.
    categories : int
        Number of categories of the feature, >= 1.
    prior : float
        Concentration of the symmetric Dirichlet prior, finite and > 0.
    temperature : float
        Temperature of the draw, finite and >= 1.
    truncation : float
        Lower bound of each emission probability, > 0 and below 1/categories.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    assumptions : frozenset of Assumption, default {IDEAL_REALS, FIXED_PARTS}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    tempered.md, sections 1 and 2 (bounds that decrease in the number of records); gibbs.md, section 2 (parallel
    composition over the states). Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.EmissionAccountant(
    ...     n=1000, min_records=50, categories=3, prior=1.0, temperature=5.0, truncation=0.05
    ... )
    >>> round(float(account.pure_epsilon), 4), account.kind("epsilon")
    (1.1561, 'upper bound')
    """

    n: int
    min_records: int
    categories: int
    prior: float
    temperature: float
    truncation: float
    unit: str = "record"
    assumptions: frozenset[Assumption] = _ASSUMED

    def __post_init__(self) -> None:
        set_fields(self, n=positive_integer(n=self.n), min_records=positive_integer(min_records=self.min_records))
        set_fields(self, categories=positive_integer(categories=self.categories), prior=positive(prior=self.prior))
        check_memory(self.categories, lower="categories")
        if not self.min_records <= self.n:
            raise ValueError(f"min_records must be at most n = {self.n}, got {self.min_records}")
        one = self._one
        set_fields(self, temperature=one.temperature, truncation=one.truncation)

    @property
    def relation(self) -> ReplaceOne:  # type: ignore[override]
        """Replacement of one of the n records; n is public."""
        return ReplaceOne(n=self.n, unit=self.unit)

    @property
    def source(self) -> str:
        """Author, year and theorem of the guarantee, and the note with the proof."""
        return f"{self._one.source}; gibbs.md (parallel composition over states)"

    @property
    def _one(self) -> TemperedAccountant:
        """The account of one draw from the posterior of `min_records` records."""
        model = DirichletCategorical(alpha=(self.prior,) * self.categories)
        return TemperedAccountant(
            model=model, n=self.min_records, temperature=self.temperature, truncation=self.truncation, unit=self.unit
        )

    def for_sizes(self, low: int, high: int) -> "EmissionAccountant":
        """The account for the smallest number of records, which holds for more.

        If the records lie in several steps, a sample of any size may leave one record in the step of the replaced one.
        """
        low, high = nonnegative_integer(low=low), positive_integer(high=high)
        return replace(self, n=high, min_records=max(low, 1) if self.min_records == self.n else 1)

    def _bounds(self) -> PrivacyBounds:
        """The closed-form bounds for `min_records` records; they hold for more records, because they decrease."""
        closed_forms, _ = self._one.bounds.per_release or (self._one.bounds, 1)
        return replace(closed_forms, exact=frozenset())


def histograms_account(
    *, features: int, n: int, noise: Noise, unit: str = "record", assumptions: frozenset[Assumption] = _ASSUMED
) -> StatisticsAccountant:
    """The account of noise added once to the histogram of each feature at each step.

    The number of records at each step is public. A replaced record stays in its time step and changes two cells of
    each feature's histogram by one. Kind: exact.
    """
    differences = ONE_HOT.for_features(features)
    return StatisticsAccountant(differences=differences, n=n, noise=noise, unit=unit, assumptions=assumptions)


def tables_account(
    *, tables: int, n: int, noise: Noise, unit: str = "record", assumptions: frozenset[Assumption] = _IDEAL
) -> StatisticsAccountant:
    """The account of noise added once to each of several tables of all records, such as those of a Bayesian network.

    A replaced record changes two cells of each table by one. Kind: exact, attained by two records that differ in all
    variables.
    """
    differences = ONE_HOT.for_features(tables)
    return StatisticsAccountant(differences=differences, n=n, noise=noise, unit=unit, assumptions=assumptions)


def sweeps_account(
    *,
    categories: Sequence[int],
    entries: Sequence[int],
    states: int,
    prior: float,
    temperature: float,
    truncation: float,
    sweeps: int,
    scan: int | None = None,
    unit: str = "record",
    assumptions: frozenset[Assumption] = _ASSUMED,
) -> Composed:
    """The account of `sweeps` sweeps of exponential-mechanism updates, all of which are released.

    Each sweep draws the emission probabilities of every feature, with one account for each feature, and the states of
    all time steps, with one account. The states compose in parallel; the log likelihood of one step's state has range
    at most twice the sum over the features of log(largest / smallest emission probability). With `scan`, each sweep
    draws the states of that many time steps only, chosen at random among those that have records.
    """
    n, min_records = sum(entries), min(count for count in entries if count > 0)
    listed: list[Accountant] = [
        EmissionAccountant(
            n=n,
            min_records=min_records,
            categories=count,
            prior=prior,
            temperature=temperature,
            truncation=truncation / count,
            unit=unit,
            assumptions=assumptions,
        )
        for count in categories
    ]
    if states > 1:
        ratios = [math.log((1 - (k - 1) * truncation / k) * k / truncation) for k in categories]
        total = 2.0 * math.fsum(ratios) / temperature * (1.0 + 2.0**-46)
        relation = ReplaceOne(n=n, unit=unit)
        update: Accountant = BoundedRangeAccountant(loss_range=total, relation=relation, assumptions=assumptions)
        if scan is not None:
            steps = sum(count > 0 for count in entries)
            update = RandomScanAccountant(base=update, updated=scan, variables=steps)
        listed.append(update)
    return Composed(entries=tuple((account, sweeps) for account in listed))
