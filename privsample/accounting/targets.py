"""Target guarantees, and the search for the parameter with the largest cost within a target, by directed rounding."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeVar

import numpy as np

from privsample._checks import number, positive, probability, renyi_orders
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import crossing, safe_side
from privsample.accounting.engine import views
from privsample.accounting.gaussian_dp import sampling_note
from privsample.accounting.statement import large_delta
from privsample.errors import LargeDeltaWarning, UnreachableTarget
from privsample.relations import Relation

M = TypeVar("M")


class Target(ABC):
    """Abstract base class of target guarantees: `DP`, `RDP`, `ZCDP`, `GDP` and `Risk`.

    Mechanisms are calibrated to a target, and a ledger has a target other than `Risk` as its budget.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.LaplaceAccountant(sensitivity=1, scale=2)
    >>> [target.met_by(account) for target in (ps.DP(epsilon=0.5), ps.ZCDP(rho=0.1))]
    [True, False]
    """

    __slots__ = ()

    @abstractmethod
    def met_by(self, account: Accountant) -> bool:
        """Return whether the account certifies the target guarantee.

        Parameters
        ----------
        account : Accountant
            The account.

        Returns
        -------
        bool
            True if the account certifies it.
        """

    def _met_as_reported(self, account: Accountant) -> bool:
        """Return whether all views that report this guarantee stay within it: the final test of calibration."""
        return self.met_by(account)

    @abstractmethod
    def _excess(self, account: Accountant) -> float:
        """Signed distance of the account from the target in a smooth measure, for root finding."""

    def _shortfall(self, account: Accountant) -> str:
        """What an account that does not meet the target gives instead, as a clause; empty by default."""
        del account
        return ""

    @property
    @abstractmethod
    def description(self) -> str:
        """The guarantee in one phrase."""


@frozen_value
class RDP(Target):
    """(order, epsilon)-Rényi differential privacy; with delta > 0 its approximate form.

    Parameters
    ----------
    order : float
        Rényi order, finite and > 1.
    epsilon : float
        Largest Rényi divergence at this order, in nats, finite and > 0.
    delta : float, default 0.0
        Largest infinity mass, a probability in [0, 1). The divergence is conditional on a finite privacy loss
        (`Accountant.conditional_rdp`).

    Notes
    -----
    The approximate form is that of zCDP at one order (Bun and Steinke 2016, Definition 8.1).

    Examples
    --------
    >>> import privsample as ps
    >>> ps.RDP(order=4, epsilon=1).met_by(ps.GaussianAccountant(sensitivity=1, noise_std=2))
    True
    >>> posterior = ps.LogisticPosterior(n=100, features=2, norm=1, prior_std=1, data_weight=0.5)
    >>> [ps.RDP(order=4, epsilon=2.5, delta=delta).met_by(posterior.accountant) for delta in (0, 1e-12)]
    [False, True]
    """

    order: float = field(kw_only=False)
    epsilon: float = field(kw_only=False)
    delta: float = field(default=0.0, kw_only=False)

    def __post_init__(self) -> None:
        order = float(renyi_orders(number(order=self.order)))
        set_fields(self, order=order, epsilon=positive(epsilon=self.epsilon), delta=probability(delta=self.delta))

    def met_by(self, account: Accountant) -> bool:
        """Return whether the divergence at the order is <= epsilon, and the infinity mass <= delta."""
        return account.infinity_mass <= self.delta and bool(account.conditional_rdp(self.order) <= self.epsilon)

    def _excess(self, account: Accountant) -> float:
        """log of the Rényi divergence over epsilon; +inf if the infinity mass is too large."""
        if account.infinity_mass > self.delta:
            return np.inf
        with np.errstate(divide="ignore"):
            return float(np.log(account.conditional_rdp(self.order)) - np.log(self.epsilon))

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"Rényi privacy of {self.epsilon:g} at order {self.order:g}{_up_to(self.delta)}"


@frozen_value
class DP(Target):
    """(epsilon, delta)-differential privacy; delta = 0 is pure differential privacy.

    Parameters
    ----------
    epsilon : float
        Largest privacy loss, in nats, finite and > 0.
    delta : float, default 0.0
        Probability in [0, 1).

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.GaussianMechanism.calibrate(target=ps.DP(epsilon=1, delta=1e-6), sensitivity=1)
    >>> round(mechanism.noise_std, 3)
    4.225
    """

    epsilon: float = field(kw_only=False)
    delta: float = field(default=0.0, kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, epsilon=positive(epsilon=self.epsilon), delta=probability(delta=self.delta))

    def met_by(self, account: Accountant) -> bool:
        """Return whether epsilon(delta) <= epsilon; evaluated as delta(epsilon) where that is cheaper."""
        if account.pure_epsilon <= self.epsilon and account.infinity_mass <= self.delta:
            return True
        if not account.bounds.inverts_exactly:
            return bool(account.epsilon(self.delta) <= self.epsilon)
        return self.delta > 0 and bool(account.log_delta(self.epsilon) <= np.log(self.delta))

    def _met_as_reported(self, account: Accountant) -> bool:
        """Return whether delta(epsilon) <= delta and epsilon(delta) <= epsilon.

        Either inequality proves the guarantee, but each view is rounded up separately, so one may miss the target by
        its last digits while the other meets it. delta(epsilon) is evaluated first: it is one point of the curve that
        epsilon(delta) inverts.
        """
        return bool(account.delta(self.epsilon) <= self.delta and account.epsilon(self.delta) <= self.epsilon)

    def _excess(self, account: Accountant) -> float:
        """log of delta(epsilon) over delta, approximately; for delta = 0 the relative excess of the pure epsilon."""
        if self.delta == 0:
            return float(account.pure_epsilon / self.epsilon - 1)
        return views.approx_log_delta(account.bounds, self.epsilon) - float(np.log(self.delta))

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"epsilon {self.epsilon:g} at delta {self.delta:g}"


@frozen_value
class ZCDP(Target):
    """rho-zero-concentrated differential privacy (zCDP); with delta > 0 delta-approximate rho-zCDP.

    Parameters
    ----------
    rho : float
        rho, in nats, finite and > 0: the Rényi divergence is at most rho a at every order a.
    delta : float, default 0.0
        Largest infinity mass, a probability in [0, 1). The divergences are conditional on a finite privacy loss
        (`Accountant.conditional_zcdp`).

    Notes
    -----
    Bun and Steinke 2016, Definitions 1.1 and 8.1.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.ZCDP(rho=0.1).met_by(ps.GaussianAccountant(sensitivity=1, noise_std=2))
    False
    >>> posterior = ps.LogisticPosterior(n=100, features=2, norm=1, prior_std=1, data_weight=0.1)
    >>> [ps.ZCDP(rho=0.1, delta=delta).met_by(posterior.accountant) for delta in (0, 1e-12)]
    [False, True]
    """

    rho: float = field(kw_only=False)
    delta: float = field(default=0.0, kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, rho=positive(rho=self.rho), delta=probability(delta=self.delta))

    def met_by(self, account: Accountant) -> bool:
        """Return whether zCDP holds with rho, given an event whose complement has at most the probability delta."""
        return account.infinity_mass <= self.delta and account.conditional_zcdp <= self.rho

    def _excess(self, account: Accountant) -> float:
        """log of the account's rho over rho; +inf if the infinity mass is too large."""
        if account.infinity_mass > self.delta:
            return np.inf
        with np.errstate(divide="ignore"):
            return float(np.log(account.conditional_zcdp) - np.log(self.rho))

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"zCDP of rho {self.rho:g}{_up_to(self.delta)}"


@frozen_value
class GDP(Target):
    """mu-Gaussian differential privacy (GDP).

    Parameters
    ----------
    mu : float
        mu, finite and > 0: telling neighbours apart is at least as hard as telling N(mu, 1) from N(0, 1), from one
        draw.

    Notes
    -----
    Dong, Roth and Su 2022, Definition 3. A subsampled Gaussian mechanism meets no smaller mu than the same mechanism
    without sampling (see `Accountant.mu`); calibrate it to a `DP` target, and state a mu with its regret.

    Examples
    --------
    >>> import privsample as ps
    >>> round(ps.GaussianMechanism.calibrate(target=ps.GDP(0.5), sensitivity=1).noise_std, 9)
    2.0
    >>> ps.GDP(mu=1.1).met_by(ps.LaplaceAccountant(sensitivity=1, scale=1))
    True
    """

    mu: float = field(kw_only=False)

    def __post_init__(self) -> None:
        set_fields(self, mu=positive(mu=self.mu))

    def met_by(self, account: Accountant) -> bool:
        """Return whether the least mu is <= mu."""
        return account.mu() <= self.mu

    def _excess(self, account: Accountant) -> float:
        """log of the least mu over mu."""
        with np.errstate(divide="ignore"):
            return float(np.log(account.mu()) - np.log(self.mu))

    def _obstacle(self, account: Accountant) -> str:
        """Why the account misses the target, after the target's description."""
        if account.infinity_mass > 0.0:
            return f": with an infinity mass of {account.infinity_mass:g} no mu is finite"
        if np.isinf(account.mu()):
            return ": no finite mu bounds the tail of its privacy loss; use a target of kind RDP or DP"
        return f": the least mu of this mechanism is {account.mu():.4g}{sampling_note(account)}"

    @property
    def description(self) -> str:
        """The guarantee in one phrase."""
        return f"Gaussian differential privacy of mu {self.mu:g}"


def _up_to(delta: float) -> str:
    """The delta of an approximate guarantee, as the end of its description; empty for 0."""
    return f", up to an infinity mass of {delta:g}" if delta else ""


def check_target(target: object) -> Target:
    """Return the target. Raises TypeError for anything else, and says how to write a pair of numbers."""
    if isinstance(target, Target):
        return target
    expected = "a Target such as DP(epsilon=1, delta=1e-6)"
    match target:
        case (float() | int() as epsilon, float() | int() as delta):
            raise TypeError(
                f"target must be {expected}, got {type(target).__name__}: "
                f"write ps.DP(epsilon={epsilon!r}, delta={delta!r})"
            )
        case _:
            raise TypeError(f"target must be {expected}, got {type(target).__name__}")


def missing_target(given: Mapping[str, object]) -> TypeError:
    """The error for a calibration without a target; it writes the target that was given as epsilon and delta."""
    wrong = [name for name in ("epsilon", "delta") if name in given]
    epsilon, delta = given.get("epsilon", 1), given.get("delta", 1e-6)
    pair = (epsilon, delta)
    written = f"DP{pair!r}" if all(isinstance(one, (int, float)) for one in pair) else "DP(1, 1e-6)"
    instead = f" in place of {' and '.join(wrong)}" if wrong else ""
    return TypeError(f"target must be given{instead}: write target=ps.{written}")


def warn_of_large_delta(target: Target, relation: Relation, *, stacklevel: int) -> None:
    """Warn with LargeDeltaWarning if the target is a DP whose delta is at least 1/n, and n is public.

    `stacklevel` counts from this function, as in `warnings.warn`.
    """
    caution = large_delta(relation, target.delta) if isinstance(target, DP) else ""
    if caution:
        warnings.warn(caution, LargeDeltaWarning, stacklevel=stacklevel)


def unreachable(target: Target, account: Accountant, advice: str) -> UnreachableTarget:
    """The error for a target that cannot be met: the target, what the account gives, and the advice."""
    limit, reason = account.bounds.order_limit, ""
    match target:
        case RDP(delta=delta) | ZCDP(delta=delta) if account.infinity_mass > delta:
            reason = f": with an infinity mass of {account.infinity_mass:g} every Rényi divergence is infinite"
            advice = advice if "delta" in advice else f"give the target a delta of at least this mass, or {advice}"
        case RDP(order=order) if order >= limit:
            reason = f": its Rényi divergence is infinite from order {limit:g} on, and the target has order {order:g}"
        case RDP(order=order):
            reason = f": this mechanism costs {float(account.conditional_rdp(order)):.4g} at that order"
        case DP(delta=0.0) if np.isinf(account.pure_epsilon):
            reason, advice = ": the privacy loss of this mechanism is unbounded", "use a target with delta > 0"
        case DP(epsilon=epsilon, delta=delta):
            cost = float(account.epsilon(delta))
            reason = f": this mechanism costs epsilon {cost:.4g} at that delta (its order limit is {limit:g})"
            if cost <= epsilon:  # it differs in the last digits only
                reason = f": this mechanism costs delta {float(account.delta(epsilon))!r} at that epsilon"
        case GDP():
            reason = target._obstacle(account)
        case ZCDP() if np.isfinite(limit):
            reason, advice = (
                f": its Rényi divergence is infinite from order {limit:g} on",
                "use a target of kind RDP or DP",
            )
        case _ if words := target._shortfall(account):
            reason = f": {words}"
    return UnreachableTarget(f"{target.description} cannot be met{reason}; {advice}")


def is_met(target: Target, account: Accountant) -> bool:
    """Whether the account meets the target in all its views."""
    return target._met_as_reported(account)


def require(target: Target, account: Accountant, advice: str) -> None:
    """Raise UnreachableTarget unless the account meets the target in all its views."""
    if not is_met(target, account):
        raise unreachable(target, account, advice)


def largest(
    build: Callable[[float], M], account: Callable[[M], Accountant], target: Target, *, most: float, advice: str
) -> M:
    """The mechanism with the largest parameter in (0, most] whose account meets the target; cost increases with it.

    The parameter is within a relative 1e-9 of the true one. The returned account was checked: all views that report the
    target meet it. Raises UnreachableTarget with `advice`.
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
    """The mechanism with the smallest parameter > 0 whose account meets the target; cost decreases with the parameter.

    Accuracy, certificate and errors are those of `largest`.
    """

    def meets(parameter: float) -> bool:
        return 0.0 < parameter < np.inf and target._met_as_reported(account(build(parameter)))

    root = crossing(lambda p: target._excess(account(build(p))), start=1.0)
    found = safe_side(meets, root, upward=True)
    if np.isfinite(found):
        return build(found)
    raise unreachable(target, account(build(1.0)), advice)
