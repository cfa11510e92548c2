"""Calibrated rules for keys that are not public: the rule of a kind that needs the fewest units for a target."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args, overload

import numpy as np

from privsample._checks import one_of, positive_integer
from privsample.accounting.curves.conversion import crossing
from privsample.accounting.keys.optimal import composed_responses
from privsample.accounting.keys.threshold import moved_counts
from privsample.accounting.targets import DP, check_target, is_met, require
from privsample.distributions.keep_probabilities import LARGEST_EPSILON
from privsample.distributions.noise import noise_distribution
from privsample.errors import UnreachableTarget
from privsample.mechanisms.keys.optimal import OptimalKeys
from privsample.mechanisms.keys.threshold import NoiseName, ThresholdKeys
from privsample.relations import AddRemove, Relation

Rule = Literal["optimal", "gaussian", "laplace", "discrete gaussian", "discrete laplace"]
_ADD_REMOVE = AddRemove()
_BELOW = 1.0 - 1e-12  # leaves room for the rounding of the account
_LEAST_SHARE = -4.0  # log of the smallest part of delta that is tried for the keys of one unit
_WIDEST = 1.0  # log of the largest scale that is tried, as a multiple of the least one


@overload
def private_keys(
    target: DP, *, rule: Literal["optimal"] = "optimal", keys_per_unit: int = 1, relation: Relation = _ADD_REMOVE
) -> OptimalKeys: ...
@overload
def private_keys(
    target: DP, *, rule: NoiseName, keys_per_unit: int = 1, relation: Relation = _ADD_REMOVE
) -> ThresholdKeys: ...
def private_keys(
    target: DP, *, rule: Rule = "optimal", keys_per_unit: int = 1, relation: Relation = _ADD_REMOVE
) -> OptimalKeys | ThresholdKeys:
    """The mechanism for keys that are not public that meets a target and keeps keys of the fewest units.

    "optimal" releases which keys are kept, and nothing else; for one key per unit no other rule keeps a key with a
    larger probability. The other rules release the noisy number of units of each key, too, and need a smaller number of
    units from about four keys per unit on. The search runs over how the target is divided between the privacy loss of
    the keys of many units and the probability of releasing a key of one unit.

    Parameters
    ----------
    target : DP
        The guarantee to meet, with delta > 0.
    rule : {"optimal", "gaussian", "laplace", "discrete gaussian", "discrete laplace"}, default "optimal"
        "optimal" for `OptimalKeys`, or the noise of `ThresholdKeys`.
    keys_per_unit : int, default 1
        Largest number of keys for which a unit counts, >= 1.
    relation : Relation, default AddRemove()
        The neighbouring relation, `AddRemove(unit=...)`: one unit with all of its rows is added or removed.

    Returns
    -------
    OptimalKeys or ThresholdKeys
        The mechanism, whose account was checked against the target.

    Raises
    ------
    TypeError
        If the target is not a `DP`.
    ValueError
        If the rule is unknown, or a number is outside its range.
    UnreachableTarget
        If the target has delta = 0: a key that one unit alone has is then never released.

    Notes
    -----
    Desfontaines, Voss, Gipson and Mandayam 2022; Wilkins, Kifer, Zhang and Karrer 2024; docs/notes/keys.md, section 5.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.private_keys(ps.DP(1, 1e-6), keys_per_unit=3, rule="gaussian")
    >>> round(mechanism.scale, 2), round(mechanism.threshold, 1)
    (7.32, 37.4)
    >>> bool(mechanism.accountant.epsilon(1e-6) <= 1)
    True
    """
    if not isinstance(check_target(target), DP):
        raise TypeError(
            f"target must be a DP, got {type(target).__name__}: a key of one unit is released with positive "
            "probability, so that no other kind of guarantee holds"
        )
    if not one_of(rule, get_args(Rule)):
        raise ValueError(f"rule must be one of {', '.join(map(repr, get_args(Rule)))}, got {rule!r}")
    count = positive_integer(keys_per_unit=keys_per_unit)
    if not target.delta > 0.0:
        raise UnreachableTarget(
            "delta must be > 0: with delta = 0 no key of one unit may be released, and so none at all"
        )
    if rule == "optimal":
        return _optimal(target, count, relation)
    return _threshold(target, rule, count, relation)


def _optimal(target: DP, count: int, relation: Relation) -> OptimalKeys:
    """The rule whose keys need the fewest units, by a search over the part of delta for keys of one unit."""
    largest = -np.expm1(np.log1p(-target.delta) / count) * _BELOW

    def parameters(log_share: float) -> tuple[float, float]:
        """The epsilon and delta of one key, by the composition of randomized responses."""
        delta = float(largest * np.exp(log_share))

        def excess(inverse: float) -> float:
            pair = composed_responses(1.0 / inverse, delta, count)
            return float(pair.log_delta(np.array([target.epsilon]))[0] - np.log(target.delta))

        return min(_BELOW / crossing(excess, start=count / target.epsilon), LARGEST_EPSILON), delta

    def units_for_half(log_share: float) -> float:
        """The number of units, as a real number, at which the first part of the recursion reaches about one half."""
        epsilon, delta = parameters(log_share)
        return float(np.log1p(np.expm1(epsilon) * (1.0 - delta) / (1.0 + np.exp(epsilon)) / delta) / epsilon)

    epsilon, delta = parameters(0.0 if count == 1 else _least(units_for_half, _LEAST_SHARE, 0.0))
    found = OptimalKeys(key_epsilon=epsilon, key_delta=delta, keys_per_unit=count, relation=relation)
    require(target, found.accountant, "ask for a larger delta")
    return found


def _threshold(target: DP, noise: NoiseName, count: int, relation: Relation) -> ThresholdKeys:
    """The rule with the smallest threshold, by a search over the scale of the noise."""

    def moved(scale: float, times: int) -> float:
        """log delta of so many counts that move, without the keys of single units."""
        pair = moved_counts(noise_distribution(noise, scale), times)
        return float(pair.log_delta(np.array([target.epsilon]))[0])

    def threshold(log_scale: float) -> float:
        scale = float(np.exp(log_scale))
        allowed = np.log(target.delta)
        for new in range(1, count + 1):
            lost = np.exp(moved(scale, count - new)) if new < count else 0.0
            each = -np.expm1(np.log1p(-max((target.delta - lost) / (1.0 - lost), 1e-300)) / new)
            allowed = min(allowed, float(np.log(each)))
        return scale * _tail_quantile(noise, allowed)

    least = crossing(lambda scale: moved(scale, count) - float(np.log(target.delta)), start=1.0) * (1.0 + 1e-8)
    low = float(np.log(least))
    best = low if count == 1 else _least(threshold, low, low + _WIDEST)
    scale = float(np.exp(best))
    lowest = ThresholdKeys(scale=scale, threshold=1.0, noise=noise, keys_per_unit=count, relation=relation)
    if is_met(target, lowest.accountant):
        return lowest
    found = ThresholdKeys.calibrate(target=target, scale=scale, noise=noise, keys_per_unit=count, relation=relation)
    # discrete noise exceeds a number exactly where it exceeds the whole number below it
    whole = noise.startswith("discrete")
    return replace(found, threshold=float(np.floor(found.threshold))) if whole else found


def _tail_quantile(noise: NoiseName, log_probability: float) -> float:
    """The number that noise of scale 1 exceeds with this probability, without the rounding of discrete noise."""
    from scipy import special

    if noise.endswith("gaussian"):
        return float(-special.ndtri_exp(log_probability))
    return max(-log_probability - float(np.log(2.0)), 0.0)


def _least(function: Callable[[float], float], low: float, high: float) -> float:
    """The place of the minimum of a function with one minimum, to three digits."""

    from scipy import optimize

    return float(optimize.minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": 1e-3}).x)
