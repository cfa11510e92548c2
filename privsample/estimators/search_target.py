"""Calibration of a search to a target: privacy of trainings and scores, and the number of runs (search.md, section 2).

All numbers are public: number of records and features, folds, search space, target and division of the budget.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privsample._checks import real_array
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import DP, RDP, Target, check_target, require, smallest
from privsample.distributions.finite_repetitions import TruncatedRepetitions
from privsample.distributions.repetitions import (
    RepetitionDistribution,
    TruncatedNegativeBinomial,
    check_maximum,
    check_repetition_distribution,
)
from privsample.estimators.candidates import candidate_count
from privsample.estimators.scoring import NoisyScore
from privsample.estimators.search_frame import SearchFrame
from privsample.estimators.training_target import CalibratedTraining, calibrated_steps
from privsample.mechanisms.log_root import log_distance, log_root

PARTS = ("training", "scores", "repetitions")
DEFAULT_DIVISION = (0.5, 0.05, 0.45)  # measured: docs/notes/search.md, section 2
_FEWEST, _MOST, _PER_CANDIDATE = 2.0, 50.0, 3.0  # mean number of runs: limits, and most for each listed candidate
_LONGEST = 3  # in constant time: largest number of runs over the mean before truncation
_LEAST_SHARE = 1e-9
_CLOSE = 1e-5  # relative accuracy of the scale


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Privacy parameters of a search, and the account of the whole."""

    account: Accountant
    repetitions: RepetitionDistribution
    noise: NoisyScore | None
    costs: Mapping[int, Accountant]
    estimator: Any
    training_mu: float | None = None
    calibrated: CalibratedTraining | None = None
    shares: Mapping[str, float] = field(default_factory=dict)


def calibrated_settings(frame: SearchFrame) -> SearchSettings:
    """Return settings whose account meets the target of the search. Raises UnreachableTarget, ValueError, TypeError."""
    target, division = check_target(frame.search.target), check_division(frame.search.division)
    return _Calibration.of(frame, target, division).settings()


def check_division(division: Any) -> tuple[float, float, float]:
    """Return the shares of trainings, scores and repetitions, with sum 1; the default for None."""
    if division is None:
        return DEFAULT_DIVISION
    given = real_array(division=division)
    if given.shape != (3,) or not np.all((given > 0.0) & (given < np.inf)):
        raise ValueError(
            f"division must be three finite numbers > 0, the shares of {', '.join(PARTS)}, got {division!r}"
        )
    shares = given / given.max()
    if not shares.min() >= _LEAST_SHARE:
        raise ValueError(f"division must not hold shares below {_LEAST_SHARE:g} of the largest one, got {division!r}")
    training, scores, repetitions = (shares / shares.sum()).tolist()
    return training, scores, repetitions


@dataclass(frozen=True, kw_only=True)
class _Calibration:
    """The parts of a search that a target leaves free.

    `budget` is the zCDP parameter of the single Gaussian release that meets the target. `training` is None if the
    accounts of training are fixed; `costs` holds them then. `training_rho` and `score_rho` are the planned zCDP
    parameters of one training and of the score of a run.
    """

    frame: SearchFrame
    target: Target
    budget: float
    training: CalibratedTraining | None
    costs: Mapping[int, Accountant]
    training_rho: float
    score_rho: float

    @staticmethod
    def of(frame: SearchFrame, target: Target, division: tuple[float, float, float]) -> "_Calibration":
        """Divide the budget of the target among the parts that the search has."""
        search, training, costs = frame.search, None, {}
        steps = () if search.training_account is not None else calibrated_steps(search.estimator)
        if steps:
            training = CalibratedTraining.of(search.estimator, steps, frame.space, frame.n, frame.features)
        else:
            costs = frame.stated_costs()
        planned = dict(zip(PARTS, division, strict=True))
        if frame.noise is None:
            planned["scores"] = 0.0
        if search.repetitions is not None:
            planned["repetitions"] = 0.0
        budget, total = gaussian_budget(target), sum(planned.values())
        return _Calibration(
            frame=frame,
            target=target,
            budget=budget,
            training=training,
            costs=costs,
            training_rho=planned["training"] / total * budget / frame.trainings,
            score_rho=planned["scores"] / total * budget,
        )

    def settings(self) -> SearchSettings:
        """Return settings that meet the target. Raises UnreachableTarget."""
        repetitions = self._repetitions()
        if not self._is_scaled:
            return self._checked(self._at(1.0, repetitions))

        def excess(scale: float) -> float:
            return log_distance(self.target, self._at(scale, repetitions).account)

        scale = log_root(excess, 1.0, accuracy=_CLOSE, power=0.5)
        for k in range(12):  # searches read approximate curves: a step back makes the certified account meet the target
            found = self._at(scale * (1.0 - _CLOSE * (2.0**k - 1.0) / 2.0), repetitions)
            if self.target._met_as_reported(found.account):
                return self._with_shares(found)
        return self._checked(self._at(scale, repetitions))

    @property
    def _noise_is_free(self) -> bool:
        return self.frame.noise is not None and self.frame.noise.noise_std is None

    @property
    def _is_scaled(self) -> bool:
        """Whether trainings or scores are calibrated."""
        return self.training is not None or self._noise_is_free

    def _at(self, scale: float, repetitions: RepetitionDistribution) -> SearchSettings:
        """Return the settings with a multiple of the planned budget for the trainings and scores that are free.

        If there are such parts, Laplace noise on scores is charged as Gaussian noise that dominates it, whose
        composition with the trainings is in closed form.
        """
        frame, noise, costs = self.frame, self.frame.noise, self.costs
        estimator, mu = frame.search.estimator, None
        if noise is not None and self._noise_is_free:
            noise = noise.calibrated(frame.score_weight, scale * self.score_rho)
        if self.training is not None:
            mu = math.sqrt(2.0 * scale * self.training_rho)
            estimator, costs = self.training.configured(mu), {m: self.training.account(mu, m) for m in frame.sizes}
        charged = noise.as_gaussian() if self._is_scaled and noise is not None else noise
        return SearchSettings(
            account=frame.account(costs, charged, repetitions),
            repetitions=repetitions,
            noise=noise,
            costs=costs,
            estimator=estimator,
            training_mu=mu,
            calibrated=self.training,
        )

    def _repetitions(self) -> RepetitionDistribution:
        """Return the given distribution, or the logarithmic one with the largest mean that the budget allows."""
        given = self.frame.search.repetitions
        if given is not None:
            found = check_repetition_distribution(given)
            if self.frame.constant_time:
                check_maximum(found)
            return found
        most = min(_MOST, max(_FEWEST, _PER_CANDIDATE * candidate_count(self.frame.space)))

        def excess(mean: float) -> float:
            mean = min(max(mean, _FEWEST), most)
            repetitions = TruncatedNegativeBinomial.logarithmic(mean=mean)
            return log_distance(self.target, self._at(1.0, repetitions).account)

        mean = _FEWEST
        if excess(mean) < 0.0:
            mean = most if excess(most) <= 0.0 else _bisected(excess, mean, most)
        distribution: RepetitionDistribution = TruncatedNegativeBinomial.logarithmic(mean=mean)
        if self.frame.constant_time:
            distribution = TruncatedRepetitions(distribution=distribution, maximum=math.ceil(_LONGEST * mean))
        return distribution

    def _checked(self, found: SearchSettings) -> SearchSettings:
        """Return the settings with their shares. Raises UnreachableTarget unless their account meets the target."""
        require(self.target, found.account, self._advice())
        return self._with_shares(found)

    @property
    def _given(self) -> list[str]:
        """Names of the parts that are fixed by parameters of the search."""
        given = ["accounts of training"] if self.training is None else []
        if self.frame.noise is not None and not self._noise_is_free:
            given.append("noise_std")
        return given + (["repetitions"] if self.frame.search.repetitions is not None else [])

    def _advice(self) -> str:
        """What to change, if even a search without information in its free parts costs too much."""
        if not self._given:
            return "a search costs at least that much whatever its noise: use a target of kind RDP, or DP with delta"
        changes = {
            "accounts of training": "leave epsilon, delta and training_account of the trainings out",
            "noise_std": "leave noise_std of NoisyScore out",
            "repetitions": "leave repetitions out",
        }
        return (
            f"a search with the given {' and '.join(self._given)} costs at least that much: "
            f"{', or '.join(changes[name] for name in self._given)}, so that the search chooses; or raise the target"
        )

    def _with_shares(self, found: SearchSettings) -> SearchSettings:
        """Return the settings with the shares of the budget that the parts have."""
        frame, scores = self.frame, 0.0
        if found.training_mu is not None:
            trainings = frame.trainings * found.training_mu**2 / 2.0
        else:
            trainings = frame.trainings * equivalent_rho(self.costs[max(self.costs)], self.target)
        if found.noise is not None:
            scores = found.noise.rho(frame.score_weight)
        rest = max(self.budget - trainings - scores, 0.0)
        total = trainings + scores + rest
        shares = dict(zip(PARTS, (trainings / total, scores / total, rest / total), strict=True))
        return replace(found, shares=shares)


def gaussian_budget(target: Target) -> float:
    """Return the zCDP parameter mu^2/2 of the single Gaussian release that meets the target."""
    if isinstance(target, DP) and target.delta == 0.0:
        return target.epsilon**2 / 2.0
    account = smallest(
        lambda noise: GaussianAccountant(sensitivity=1.0, noise_std=noise), lambda one: one, target, advice="raise it"
    )
    return account.zcdp


def equivalent_rho(account: Accountant, target: Target) -> float:
    """Return the zCDP parameter of the Gaussian release that costs as much as an account, as the target measures it."""
    match target:
        case DP(delta=delta) if delta > 0.0:
            epsilon = float(account.epsilon(delta))
            return gaussian_budget(DP(epsilon=epsilon, delta=delta)) if 0.0 < epsilon < math.inf else epsilon
        case RDP(order=order):
            return float(account.rdp(order)) / order
    return account.zcdp


def _bisected(excess: Any, low: float, high: float) -> float:
    """Return about the largest mean whose account meets the target, rounded down to two digits."""
    mean = log_root(excess, math.sqrt(low * high), accuracy=0.02, power=0.1)
    digits = 1 if mean >= 10.0 else 10
    return max(math.floor(mean * digits) / digits, low)
