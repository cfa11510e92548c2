"""Requirements on accounts: consistency of their curves, bounds, files and conversions."""

import copy
import json
import pickle
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import LossPair, delta_below_zero
from privsample.relations import AddRemove, ProfileEdge, Relation, ReplaceOne
from privsample.testing.base import (
    CheckedRequirement,
    NotApplicable,
    Requirement,
    Violation,
    check_requirements,
    check_skipped,
    require,
    short,
)

ORDERS: FloatArray = np.array([1.01, 1.1, 1.5, 2.0, 2.5, 4.0, 8.0, 16.0, 40.0, 300.0])
EPSILONS: FloatArray = np.array([-2.0, -0.5, 0.0, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0])
DELTAS = (1e-9, 1e-6, 1e-3, 0.1)
_DELTA = 1e-6
_CLOSE = 1e-9


def some_numbers(account: Accountant) -> FloatArray:
    """Return Rényi curve, privacy curve and epsilon of an account at a few points."""
    return np.concatenate([account.rdp(ORDERS), account.delta(EPSILONS[2:7:2]), [account.epsilon(1e-6)]])


def same_numbers(one: Accountant, other: Accountant) -> bool:
    """Return whether two accounts agree in Rényi curve, privacy curve and epsilon at a few points."""
    return np.array_equal(some_numbers(one), some_numbers(other))


def _value(account: Accountant) -> None:
    """Check that the account is an immutable value with its own fields, source and assumptions."""
    advice = "write @dataclass(frozen=True, kw_only=True) above the class, with the fields relation and assumptions"
    cls: Any = type(account)
    require(is_dataclass(cls), f"{cls.__name__} is not a dataclass", advice)
    for field in fields(cls):
        require(
            field.name in ("relation", "assumptions") or not hasattr(Accountant, field.name),
            f"its field {field.name} overrides the attribute {field.name} of Accountant",
            "give the field another name",
        )
    try:
        other = cls(**{field.name: getattr(account, field.name) for field in fields(cls) if field.init})
        equal = other == account and hash(other) == hash(account)
    except TypeError as error:
        raise Violation(f"an account of the same fields cannot be made or hashed: {error}", advice) from error
    require(equal, "an account of the same fields is not equal to it", advice)
    require(same_numbers(other, account), "an account of the same fields gives different numbers", advice)
    copied = (copy.deepcopy(account), pickle.loads(pickle.dumps(account)))
    require(all(one == account for one in copied), "a copy or a pickled copy is not equal to it", advice)
    require(isinstance(account.relation, Relation), f"its relation is {short(account.relation)}", advice)
    require(
        str(account.source).strip(),
        f"source is {account.source!r}",
        "let source name the author, the year and the theorem of the bound",
    )
    more = account.assuming(Assumption.CONVERGED_CHAIN)
    require(
        more.assumptions >= account.assumptions | {Assumption.CONVERGED_CHAIN},
        "an assumption that was added is missing: the field assumptions is not kept",
        advice,
    )


def _bounds(account: Accountant) -> None:
    """Check that `bounds` is a PrivacyBounds with values in range."""
    found: Any = account.bounds
    require(
        isinstance(found, PrivacyBounds),
        f"bounds is a {type(found).__name__}",
        "return PrivacyBounds.from_pairs(...) or PrivacyBounds.from_renyi(...) from _bounds",
    )
    require(
        0.0 <= found.infinity_mass < 1.0 and found.order_limit >= 1.0 and found.pure_epsilon >= 0.0 <= found.zcdp,
        f"infinity_mass = {found.infinity_mass!r}, order_limit = {found.order_limit!r}, "
        f"pure_epsilon = {found.pure_epsilon!r}, zcdp = {found.zcdp!r}",
        "check the arguments that _bounds passes to PrivacyBounds",
    )


def _renyi_curve(account: Accountant) -> None:
    """Check that the Rényi curve is nonnegative, monotone, and below the zCDP and pure bounds."""
    values, advice = account.rdp(ORDERS), "check renyi of the pairs, or the curve given to PrivacyBounds.from_renyi"
    table = ", ".join(f"{value:.6g} at order {order:g}" for order, value in zip(ORDERS, values, strict=True))
    require(
        values.shape == ORDERS.shape and not np.isnan(values).any() and (values >= 0).all(), f"rdp is {table}", advice
    )
    require(
        np.array_equal(np.isinf(values), account.order_limit <= ORDERS),
        f"rdp must be infinite exactly at orders >= order_limit = {account.order_limit:g}: {table}",
        advice,
    )
    finite = values[np.isfinite(values)]
    if account.kind("rdp") == "exact":  # an upper bound need not be monotone: it may be looser at a lower order
        require(
            np.all(np.diff(finite) >= -_CLOSE * finite[1:]), f"rdp must be nondecreasing in the order: {table}", advice
        )
    ceiling = np.minimum(account.zcdp * ORDERS, account.pure_epsilon)[np.isfinite(values)]
    require(
        np.all(finite <= ceiling * (1 + _CLOSE)),
        f"rdp is above zcdp * order or above the pure guarantee, {account.zcdp:g} and "
        f"{account.pure_epsilon:g}: {table}",
        "check zcdp and pure_epsilon of the bounds",
    )


def _privacy_curve(account: Accountant) -> None:
    """Check that the privacy curve is a nonincreasing probability, at least 1 - e^epsilon."""
    values, advice = account.delta(EPSILONS), "check log_delta of the pairs: log of sum [p - e^epsilon q]_+"
    table = ", ".join(f"{value:.6g} at epsilon {e:g}" for e, value in zip(EPSILONS, values, strict=True))
    require(values.shape == EPSILONS.shape and bool(np.all((values >= 0) & (values <= 1))), f"delta is {table}", advice)
    require(np.all(np.diff(values) <= _CLOSE * values[:-1]), f"delta must be nonincreasing in epsilon: {table}", advice)
    require(
        np.all(values >= -np.expm1(EPSILONS) * (1 - _CLOSE)),
        f"below epsilon = 0, delta must be at least 1 - e^epsilon: {table}",
        advice,
    )
    if np.isfinite(account.pure_epsilon):
        left = float(account.delta(account.pure_epsilon * (1 + 1e-12)))
        require(
            left <= account.infinity_mass * (1 + _CLOSE),
            f"at the pure guarantee, epsilon = {account.pure_epsilon:.6g}, delta is {left:.6g}; the infinity mass is "
            f"{account.infinity_mass:.6g}",
            "check max_divergence of the pairs and pure_epsilon of the bounds",
        )


def _inverse(account: Accountant) -> None:
    """Check that `epsilon` inverts `delta`."""
    before = np.inf
    for delta in DELTAS:
        epsilon = float(account.epsilon(delta))
        advice = "check that log_delta of the pairs is nonincreasing in epsilon, and least_epsilon, if it is defined"
        require(
            0.0 <= epsilon <= before * (1 + 1e-12), f"epsilon({delta:g}) is {epsilon:.9g}, above {before:.9g}", advice
        )
        before = epsilon
        if np.isfinite(epsilon):
            # On a grid, epsilon and delta come from two grids; each is an upper bound within about 3e-7 of epsilon.
            grid_error = 0.0 if account.bounds.inverts_exactly else 1e-6
            back = float(account.log_delta(epsilon + grid_error))
            require(
                back <= np.log(delta) + 1e-8,
                f"epsilon({delta:g}) is {epsilon:.9g}, where delta is {np.exp(back):.9g}",
                advice,
            )


def _same_pair(account: Accountant) -> None:
    """Check that the Rényi curve and the privacy curve of a dominating pair belong to the same two distributions."""
    pairs = account.bounds.pairs
    if not pairs:
        raise NotApplicable("the account has a Rényi curve only")
    for pair in pairs:
        _conversion(pair)
        if pair.reverse() != pair:
            _reversed(pair)


def _conversion(pair: LossPair) -> None:
    """Check delta against the bound from the Rényi curve (Canonne, Kamath and Steinke 2020, Proposition 12)."""
    orders = ORDERS[pair.order_limit > ORDERS]
    if not orders.size:
        return
    epsilons = EPSILONS[EPSILONS >= 0]
    renyi = np.asarray(pair.renyi(orders))
    tails = (orders - 1) * (renyi - epsilons[:, None]) - np.log(orders) + (orders - 1) * np.log1p(-1 / orders)
    implied, known = tails.min(axis=1), np.asarray(pair.log_delta(epsilons))
    at = int(np.argmax(known - implied))
    require(
        np.all(known <= implied + 1e-6),
        f"log_delta({epsilons[at]:g}) of {short(pair)} is {known[at]:.6g}, and its Rényi curve implies at most "
        f"{implied[at]:.6g}",
        "check log_delta and renyi of the pair: they must belong to the same two distributions",
    )


def _reversed(pair: LossPair) -> None:
    """Check delta at negative epsilon against the pair with exchanged distributions."""
    above = EPSILONS[EPSILONS > 0]
    expected = delta_below_zero(-above, np.asarray(pair.reverse().log_delta(above)))
    found = np.asarray(pair.log_delta(-above))
    require(
        np.all(np.abs(np.expm1(found - expected)) <= 1e-6),
        f"log_delta({(-above).tolist()}) of {short(pair)} is {found.tolist()}, and its reverse implies "
        f"{expected.tolist()}",
        "let reverse() return the pair with exchanged distributions, and let log_delta be correct for negative epsilon",
    )


def _groups(account: Accountant) -> None:
    """Check that the bounds of a group are not smaller than those of one record."""
    advice = "use group of the base class, or correct it: a larger group must not have a smaller bound"
    one, relation = account.group(1), account.relation
    require(
        np.all(one.rdp(ORDERS) >= account.rdp(ORDERS) * (1 - _CLOSE)),
        "group(1) has a smaller bound than the account itself",
        advice,
    )
    try:
        two = account.group(2)
    except ValueError as error:
        raise NotApplicable(f"group(2) raised ValueError: {error}") from None
    if isinstance(relation, AddRemove) or (isinstance(relation, ReplaceOne) and relation.n > 1):
        require(
            two.relation == relation.group(2),
            f"group(2) has the relation {two.relation}, expected {relation.group(2)}",
            advice,
        )
    if np.isfinite(account.rdp(ORDERS)).any():
        require(
            np.all(two.rdp(ORDERS) >= account.rdp(ORDERS) * (1 - _CLOSE)),
            "the Rényi curve of group(2) is below that of one record",
            advice,
        )
        return
    cost, least = float(two.delta(0.1)), float(account.delta(0.1))
    require(
        cost >= least * (1 - _CLOSE),
        f"group(2) has delta = {cost:.6g} at epsilon = 0.1, and one record {least:.6g}",
        advice,
    )


def _repeated(account: Accountant) -> None:
    """Check that two releases compose, to a bound not smaller than that of one."""
    single = account
    if isinstance(account.relation, ProfileEdge):
        single = account.assuming(Assumption.INDEPENDENT_OBSERVATIONS)
    both, advice = 2 * single, "check the pairs and the Rényi curve of the bounds"
    require(both == single + single, "2 * account is not account + account", "compare accounts by content")
    cost, least = float(both.epsilon(_DELTA)), float(single.epsilon(_DELTA))
    require(
        cost >= least * (1 - _CLOSE),
        f"two releases have epsilon = {cost:.6g} at delta = {_DELTA:g}, and one has {least:.6g}",
        advice,
    )
    if single.infinity_mass == 0.0:
        require(
            np.allclose(both.rdp(ORDERS), 2 * single.rdp(ORDERS), rtol=1e-6, atol=1e-12),
            "the Rényi curve of two releases is not twice that of one",
            advice,
        )


def _stored(account: Accountant) -> None:
    """Check that the account is equal after it was stored and loaded."""
    advice = 'register the class: privsample.register(package="...") above @dataclass, and every value in its fields'
    try:
        loaded = Accountant.from_dict(json.loads(json.dumps(account.to_dict(), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise Violation(f"it cannot be stored and loaded: {error}", advice) from error
    require(loaded == account, f"the loaded account is {short(loaded)}, expected {short(account)}", advice)
    require(same_numbers(loaded, account), "the loaded account gives different numbers", advice)


_ADVICE = "let the accountant compute its bounds for all parameters that its __post_init__ accepts"
ACCOUNT_REQUIREMENTS = tuple(
    Requirement(name, check, _ADVICE)
    for name, check in (
        ("account-bounds", _bounds),
        ("account-value", _value),
        ("renyi-curve", _renyi_curve),
        ("privacy-curve", _privacy_curve),
        ("epsilon-inverts-delta", _inverse),
        ("one-pair-two-curves", _same_pair),
        ("group", _groups),
        ("repeated-release", _repeated),
        ("stored-account", _stored),
    )
)


def check_accountant(account: Accountant, *, skip: Collection[str] = ()) -> tuple[CheckedRequirement, ...]:
    """Check that an accountant satisfies the requirements on all accounts.

    The check tests consistency, such as between the Rényi curve and the privacy curve. It cannot verify that the bound
    is correct; `check_mechanism` audits a mechanism that has this account.

    Parameters
    ----------
    account : Accountant
        The accountant, with parameters for which it is fast.
    skip : collection of str
        Names of requirements that are not checked.

    Returns
    -------
    tuple of CheckedRequirement
        The results in the order of the checks.

    Raises
    ------
    RequirementViolated
        For the first violation. The message names the requirement, the failing case and a correction.
    TypeError
        If `account` is not an Accountant.
    ValueError
        If `skip` names something that is not a requirement.

    Examples
    --------
    >>> import privsample as ps
    >>> from privsample.testing import check_accountant
    >>> [requirement.requirement for requirement in check_accountant(ps.LaplaceAccountant(sensitivity=1, scale=2))][:3]
    ['account-bounds', 'account-value', 'renyi-curve']
    """
    if not isinstance(account, Accountant):
        raise TypeError(f"account must be an Accountant, got {short(account)}")
    return check_requirements(ACCOUNT_REQUIREMENTS, account, short(account), check_skipped(skip, ACCOUNT_REQUIREMENTS))
