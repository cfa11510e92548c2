"""What a user asks for, and the parameter that just meets it, from the safe side."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from privsample._checks import number, positive, probability, renyi_orders
from privsample._value import put, value
from privsample.accounting.base import Accountant
from privsample.accounting.conversion import crossing, log_delta_from_renyi, safe_side
from privsample.errors import UnreachableTarget

M = TypeVar("M")


class Target(ABC):
    """A guarantee to be met."""

    __slots__ = ()

    @abstractmethod
    def met_by(self, account: Accountant) -> bool:
        """Whether the account certifies the guarantee."""

    @abstractmethod
    def _excess(self, account: Accountant) -> float:
        """How far the account lies above the guarantee, in a smooth measure that a search may trust."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The guarantee in one phrase."""


@value
class RDP(Target):
    """(order, epsilon)-Renyi differential privacy."""

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        order = float(renyi_orders(number(order=self.order)))
        put(self, order=order, epsilon=positive(epsilon=self.epsilon))

    def met_by(self, account: Accountant) -> bool:
        """rdp(order) <= epsilon."""
        return bool(account.rdp(self.order) <= self.epsilon)

    def _excess(self, account: Accountant) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log(account.rdp(self.order)) - np.log(self.epsilon))

    @property
    def words(self) -> str:
        """The guarantee in one phrase."""
        return f"Renyi privacy of {self.epsilon:g} at order {self.order:g}"


@value
class DP(Target):
    """(epsilon, delta)-differential privacy; delta = 0 asks for pure differential privacy."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        put(self, epsilon=positive(epsilon=self.epsilon), delta=probability(delta=self.delta))

    def met_by(self, account: Accountant) -> bool:
        """epsilon(delta) <= epsilon, by delta(epsilon) where that is cheaper."""
        if account.max_loss <= self.epsilon and account.failure <= self.delta:
            return True
        return self.delta > 0 and bool(account.log_delta(self.epsilon) <= np.log(self.delta))

    def _excess(self, account: Accountant) -> float:
        if self.delta == 0:
            return float(account.max_loss / self.epsilon - 1)
        if account._has_curve:
            return float(account._log_curve_draft(np.float64(self.epsilon)) - np.log(self.delta))
        return log_delta_from_renyi(account._renyi, account._renyi_limit, self.epsilon) - float(np.log(self.delta))

    @property
    def words(self) -> str:
        """The guarantee in one phrase."""
        return f"epsilon {self.epsilon:g} at delta {self.delta:g}"


@value
class ZCDP(Target):
    """rho-zero-concentrated differential privacy."""

    rho: float

    def __post_init__(self) -> None:
        put(self, rho=positive(rho=self.rho))

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


def require(target: Target, account: Accountant, advice: str) -> None:
    """Raise UnreachableTarget, with the order limit and the advice, unless the account meets the target."""
    if target.met_by(account):
        return
    reason, limit = "", account.order_limit
    if isinstance(target, RDP) and target.order >= limit:
        reason = f": its Renyi divergence is infinite from order {limit:g} on, and order {target.order:g} was asked for"
    elif isinstance(target, DP) and target.delta == 0.0 and np.isinf(account.max_loss):
        reason, advice = ": this mechanism's loss is unbounded", "ask for delta > 0"
    elif isinstance(target, ZCDP) and np.isfinite(account.order_limit):
        reason, advice = (
            f": its Renyi divergence is infinite from order {account.order_limit:g} on",
            "ask for RDP or DP",
        )
    elif isinstance(target, DP) and target.delta > 0.0:
        cost = float(account.epsilon(target.delta))
        reason = f": this mechanism costs epsilon {cost:.4g} at that delta (its order limit is {limit:g})"
    elif isinstance(target, RDP):
        reason = f": this mechanism costs {float(account.rdp(target.order)):.4g} at that order"
    raise UnreachableTarget(f"{target.words} cannot be met{reason}; {advice}")


def largest(
    build: Callable[[float], M], account: Callable[[M], Accountant], target: Target, *, most: float, advice: str
) -> M:
    """The mechanism with the largest parameter in (0, most] whose account meets the target; cost grows with it.

    Within 1e-9 relative of the true parameter, and certified: the returned account was checked.
    Raises: UnreachableTarget, with `advice`.
    """
    top = build(most)
    if target.met_by(account(top)):
        return top
    root = crossing(lambda inverse: target._excess(account(build(min(1.0 / inverse, most)))), start=1.0 / most)
    if np.isfinite(root) and root > 0:
        found = safe_side(lambda p: p <= most and p > 0 and target.met_by(account(build(p))), 1.0 / root, upward=False)
        if found > 0:
            return build(found)
    require(target, account(build(most)), advice)
    raise UnreachableTarget(f"{target.words} cannot be met by any parameter in (0, {most:g}]; {advice}")


def smallest(build: Callable[[float], M], account: Callable[[M], Accountant], target: Target, *, advice: str) -> M:
    """The mechanism with the smallest parameter > 0 whose account meets the target; cost falls with the parameter.

    Accuracy, certificate and errors as `largest`.
    """
    root = crossing(lambda p: target._excess(account(build(p))), start=1.0)
    if np.isfinite(root) and root > 0:
        found = safe_side(lambda p: np.isfinite(p) and target.met_by(account(build(p))), root, upward=True)
        if np.isfinite(found):
            return build(found)
    raise UnreachableTarget(f"{target.words} cannot be met by any finite parameter; {advice}")
