"""What a user asks for, and the parameter that just meets it, from the safe side."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import TypeVar

import numpy as np

from privsample._checks import number, positive, probability, renyi_orders
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import crossing, safe_side
from privsample.accounting.engine import views
from privsample.errors import UnreachableTarget

M = TypeVar("M")


class Target(ABC):
    """A guarantee to be met."""

    __slots__ = ()

    @abstractmethod
    def met_by(self, account: Accountant) -> bool:
        """Whether the account certifies the guarantee."""

    def _met_as_reported(self, account: Accountant) -> bool:
        """Whether all views that report this guarantee stay within it: the test on which calibration ends."""
        return self.met_by(account)

    @abstractmethod
    def _excess(self, account: Accountant) -> float:
        """How far the account lies above the guarantee, in a smooth measure that a search may trust."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The guarantee in one phrase."""


@frozen_value
class RDP(Target):
    """(order, epsilon)-Rényi differential privacy."""

    order: float = field(kw_only=False)
    epsilon: float = field(kw_only=False)

    def __post_init__(self) -> None:
        order = float(renyi_orders(number(order=self.order)))
        set_fields(self, order=order, epsilon=positive(epsilon=self.epsilon))

    def met_by(self, account: Accountant) -> bool:
        """rdp(order) <= epsilon."""
        return bool(account.rdp(self.order) <= self.epsilon)

    def _excess(self, account: Accountant) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log(account.rdp(self.order)) - np.log(self.epsilon))

    @property
    def words(self) -> str:
        """The guarantee in one phrase."""
        return f"Rényi privacy of {self.epsilon:g} at order {self.order:g}"


@frozen_value
class DP(Target):
    """(epsilon, delta)-differential privacy; delta = 0 asks for pure differential privacy."""

    epsilon: float = field(kw_only=False)
    delta: float = field(default=0.0, kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, epsilon=positive(epsilon=self.epsilon), delta=probability(delta=self.delta))

    def met_by(self, account: Accountant) -> bool:
        """epsilon(delta) <= epsilon, by delta(epsilon) where that is cheaper."""
        if account.pure_epsilon <= self.epsilon and account.infinity_mass <= self.delta:
            return True
        if not account.bounds.inverts_exactly:
            return bool(account.epsilon(self.delta) <= self.epsilon)
        return self.delta > 0 and bool(account.log_delta(self.epsilon) <= np.log(self.delta))

    def _met_as_reported(self, account: Accountant) -> bool:
        """delta(epsilon) <= delta and epsilon(delta) <= epsilon.

        Either proves the guarantee, but each view is rounded up by itself: one may miss it by its last digits where the
        other meets it. delta(epsilon) comes first: it is one point of the curve that the other view inverts.
        """
        return bool(account.delta(self.epsilon) <= self.delta and account.epsilon(self.delta) <= self.epsilon)

    def _excess(self, account: Accountant) -> float:
        if self.delta == 0:
            return float(account.pure_epsilon / self.epsilon - 1)
        return views.approx_log_delta(account.bounds, self.epsilon) - float(np.log(self.delta))

    @property
    def words(self) -> str:
        """The guarantee in one phrase."""
        return f"epsilon {self.epsilon:g} at delta {self.delta:g}"


@frozen_value
class ZCDP(Target):
    """rho-zero-concentrated differential privacy."""

    rho: float = field(kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, rho=positive(rho=self.rho))

    def met_by(self, account: Accountant) -> bool:
        """zcdp <= rho."""
        return account.zcdp <= self.rho

    def _excess(self, account: Accountant) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log(account.zcdp) - np.log(self.rho))

    @property
    def words(self) -> str:
        """The guarantee in one phrase."""
        return f"zCDP of rho {self.rho:g}"


def unreachable(target: Target, account: Accountant, advice: str) -> UnreachableTarget:
    """The error that says what was asked, what this account gives and where that ends, and the advice."""
    limit, reason = account.order_limit, ""
    match target:
        case RDP(order=order) if order >= limit:
            reason = f": its Rényi divergence is infinite from order {limit:g} on, and order {order:g} was asked for"
        case RDP(order=order):
            reason = f": this mechanism costs {float(account.rdp(order)):.4g} at that order"
        case DP(delta=0.0) if np.isinf(account.pure_epsilon):
            reason, advice = ": this mechanism's loss is unbounded", "ask for delta > 0"
        case DP(epsilon=epsilon, delta=delta):
            cost = float(account.epsilon(delta))
            reason = f": this mechanism costs epsilon {cost:.4g} at that delta (its order limit is {limit:g})"
            if cost <= epsilon:  # by the last digits only
                reason = f": this mechanism costs delta {float(account.delta(epsilon))!r} at that epsilon"
        case ZCDP() if np.isfinite(limit):
            reason, advice = f": its Rényi divergence is infinite from order {limit:g} on", "ask for RDP or DP"
    return UnreachableTarget(f"{target.words} cannot be met{reason}; {advice}")


def require(target: Target, account: Accountant, advice: str) -> None:
    """Raise UnreachableTarget unless the account meets the target in all its views."""
    if not target._met_as_reported(account):
        raise unreachable(target, account, advice)


def largest(
    build: Callable[[float], M], account: Callable[[M], Accountant], target: Target, *, most: float, advice: str
) -> M:
    """The mechanism with the largest parameter in (0, most] whose account meets the target; cost grows with it.

    Within 1e-9 relative of the true parameter, and certified: the returned account was checked, and all views that
    report the target meet it.
    Raises: UnreachableTarget, with `advice`.
    """
    top = build(most)
    if target._met_as_reported(account(top)):
        return top

    def meets(parameter: float) -> bool:
        return 0.0 < parameter <= most and target._met_as_reported(account(build(parameter)))

    inverse = crossing(lambda x: target._excess(account(build(min(1.0 / x, most)))), start=1.0 / most)
    found = safe_side(meets, 1.0 / max(inverse, 1.0 / most), upward=False)
    if found > 0.0:
        return build(found)
    raise unreachable(target, account(top), advice)


def smallest(build: Callable[[float], M], account: Callable[[M], Accountant], target: Target, *, advice: str) -> M:
    """The mechanism with the smallest parameter > 0 whose account meets the target; cost falls with the parameter.

    Accuracy, certificate and errors as `largest`.
    """

    def meets(parameter: float) -> bool:
        return 0.0 < parameter < np.inf and target._met_as_reported(account(build(parameter)))

    root = crossing(lambda p: target._excess(account(build(p))), start=1.0)
    found = safe_side(meets, root, upward=True)
    if np.isfinite(found):
        return build(found)
    raise unreachable(target, account(build(1.0)), advice)
