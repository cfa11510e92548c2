"""Trainings that a search calibrates: each candidate meets one Gaussian guarantee, which is the account of all."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import GDP
from privsample.estimators.candidates import Space, configure, sample_candidates
from privsample.estimators.pipelines import is_stateless
from privsample.estimators.run_account import training_cost
from privsample.relations import ReplaceOne

_OWN = ("epsilon", "delta", "target")
_UP = 1 + 1e-12  # exceeds the rounding error of a root of a sum of squares


def gaussian_shift(account: Accountant) -> float:
    """Return a mu such that the account is mu-GDP; of a composition, the root of the sum of squares; +inf if none."""
    if isinstance(account, Composed):
        return math.sqrt(sum(times * gaussian_shift(one) ** 2 for one, times in account.entries)) * _UP
    return account.mu()


def calibrated_steps(estimator: Any) -> tuple[str, ...]:
    """Return the parameter prefixes of the steps to calibrate: "" for an estimator, "name__" for a step of a pipeline.

    These are all private steps, if each of them has a parameter `target` and declares no guarantee; none otherwise.
    Raises ValueError if some steps of a pipeline declare a guarantee and others do not.
    """
    steps = [("", estimator)]
    if isinstance(estimator, Pipeline):
        steps = [(f"{name}__", step) for name, step in estimator.steps if not is_stateless(step)]
    free = [prefix for prefix, step in steps if _takes_target(step) and not _declared(step)]
    private = [step for _, step in steps if hasattr(step, "accountant_for") or hasattr(step, "accountant")]
    if free and len(free) < len(private):
        raise ValueError(
            "with target, all private steps of a pipeline must declare epsilon, delta or target, or none of them: "
            f"{', '.join(prefix.removesuffix('__') for prefix in free)} does not"
        )
    return tuple(free)


def _takes_target(step: Any) -> bool:
    return callable(getattr(step, "accountant_for", None)) and "target" in step.get_params(deep=False)


def _declared(step: Any) -> bool:
    given = step.get_params(deep=False)
    return any(given.get(name) is not None for name in _OWN)


@dataclass(frozen=True, kw_only=True)
class CalibratedTraining:
    """Steps of an estimator that a search calibrates, and what their accounts assume and protect."""

    estimator: Any
    steps: tuple[str, ...]
    unit: str
    assumptions: frozenset[Assumption]

    @staticmethod
    def of(estimator: Any, steps: tuple[str, ...], space: Space, n: int, features: int | None) -> "CalibratedTraining":
        """Try candidates that differ in settings other than numbers. Raises what their calibration raises."""
        for name in (name for part in space for name in part):
            if any(name in {f"{prefix}{own}" for own in _OWN} or prefix == f"{name}__" for prefix in steps):
                raise ValueError(
                    f"param_distributions must not name {name!r} with target: the search calibrates it; leave it out, "
                    "or declare epsilon and delta of the estimator"
                )
        draft = CalibratedTraining(estimator=estimator, steps=steps, unit="record", assumptions=frozenset())
        made = draft.configured(1.0)

        def cost(candidate: Mapping[str, Any]) -> Accountant:
            return training_cost(configure(made, candidate), None, n, features)

        candidates = list(sample_candidates(space))
        found = [cost(one) for one in {_settings(candidate): candidate for candidate in candidates}.values()]
        calibrated = CalibratedTraining(
            estimator=estimator,
            steps=steps,
            unit=getattr(found[0].relation, "unit", "record"),
            assumptions=frozenset().union(*(account.assumptions for account in found)),
        )
        if not any(calibrated.covers(one, 1.0, n) for one in chain(found, map(cost, candidates))):
            raise ValueError(
                "estimator must meet the target GDP(mu) that a search with target passes to it, under ReplaceOne(n), "
                f"got mu = {gaussian_shift(found[0]):.4g} for mu = 1 under {found[0].relation}: mend its "
                "accountant_for, or pass training_account to the search"
            )
        return calibrated

    def configured(self, mu: float) -> Any:
        """Return a clone of the estimator, calibrated to mu; several private steps divide mu^2 equally."""
        each = mu if len(self.steps) == 1 else mu / math.sqrt(len(self.steps)) / _UP**3
        return clone(self.estimator).set_params(**{f"{prefix}target": GDP(mu=each) for prefix in self.steps})

    def account(self, mu: float, size: int) -> Accountant:
        """Return the account of a training to `size` records by any candidate."""
        relation = ReplaceOne(n=size, unit=self.unit)
        return GaussianAccountant(sensitivity=mu, noise_std=1.0, relation=relation, assumptions=self.assumptions)

    def covers(self, cost: Accountant, mu: float, size: int) -> bool:
        """Return whether a candidate's own account of a training to `size` records is covered by `account`."""
        same = cost.relation == ReplaceOne(n=size, unit=self.unit) and cost.assumptions <= self.assumptions
        return same and gaussian_shift(cost) <= mu


def _settings(candidate: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the settings that are no numbers: only these change what an account assumes."""
    return tuple(
        (name, repr(value))
        for name, value in candidate.items()
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number))
    )
