"""Gaussian differential privacy of an account: the least mu, and the regret of a given mu.

Proofs: docs/notes/gaussian_dp.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from privsample._checks import FloatArray, nonnegative, probability
from privsample.accounting.curves.conversion import Curve, log_delta_at
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.directions import Direction, DirectionCurve, direction_bounds
from privsample.accounting.engine.gaussian_domination import UpperCurve, least_mu, least_regret
from privsample.accounting.engine.gaussian_tails import LossTail
from privsample.accounting.engine.tables import BUDGET, with_renyi_table
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.product import ProductPair

if TYPE_CHECKING:
    from privsample.accounting.base import Accountant

_EXPENSIVE = 300.0  # cost of one value of a privacy curve above which conversions of the Rényi curve are tried first
_ORDERS, _MOST = 240, 1e6  # number of orders of these conversions, and the largest cost of their Rényi divergences
_SEARCHED = 200  # number of values of a privacy curve for which it is decided whether a search can pay for them
_BLOCK = 4096  # epsilons converted at once


class GaussianBounds:
    """The part of `Accountant` on Gaussian differential privacy (GDP).

    A guarantee is mu-GDP if telling neighbours apart is at least as hard as telling N(mu, 1) from N(0, 1), from one
    draw: delta(epsilon) <= delta_mu(epsilon) for every epsilon >= 0, in both directions of the relation, where delta_mu
    is the privacy curve of Gaussian noise with sensitivity mu and standard deviation 1.
    """

    __slots__ = ()

    def mu(self, regret: float = 0.0, *, direction: Direction | None = None) -> float:
        """The least mu for which the account is mu-GDP, up to a regret: certified for every epsilon >= 0.

        Parameters
        ----------
        regret : float, default 0.0
            Number in [0, 1) by which delta(epsilon) may exceed delta_mu(epsilon). Then every test between neighbours
            with type I error a has a type II error of at least G_mu(a + regret) - regret, where G_mu is the trade-off
            curve of N(0, 1) against N(mu, 1).
        direction : {"remove", "add"}, optional
            Direction of the relation whose privacy curve is bounded, for `AddRemove`. None takes the larger mu.

        Returns
        -------
        float
            mu >= 0, never below the least one; +inf if no finite mu can be certified, for example if the privacy loss
            has an infinity mass above `regret` or a heavier tail than that of a Gaussian.

        Raises
        ------
        ValueError
            If an argument is outside its range.
        RelationMismatch
            If a direction is named under a relation other than AddRemove.

        Notes
        -----
        Dong, Roth and Su 2022, Definition 3 and Corollary 2.13; docs/notes/gaussian_dp.md. Kind: exact up to a relative
        1e-9 if the privacy curve is, otherwise an upper bound.

        At regret 0, the least mu of a *subsampled* Gaussian mechanism is that of the mechanism without sampling,
        whatever the sampling rate, because that is the limit of mu as epsilon grows. State a mu with its regret there.

        Examples
        --------
        >>> import privsample as ps
        >>> ps.GaussianAccountant(sensitivity=1, noise_std=4).mu()
        0.25
        >>> round(ps.LaplaceAccountant(sensitivity=1, scale=1).mu(), 6)
        1.030064
        >>> whole = ps.GaussianAccountant(sensitivity=1, noise_std=1)
        >>> sampled = ps.SubsampledAccountant(base=whole, scheme=ps.PoissonSampling(rate=0.01))
        >>> sampled.mu(), round(sampled.mu(regret=1e-4), 4)
        (1.0, 0.0287)
        """
        allowed = probability(regret=regret)
        found = 0.0
        for curve in direction_bounds(cast("Accountant", self), direction):
            found = max(found, _least_mu(curve, allowed))
        return float(found)

    def regret(self, mu: float, *, direction: Direction | None = None) -> float:
        """The least regret of a mu: the largest excess of delta(epsilon) over delta_mu(epsilon) at any epsilon >= 0.

        Parameters
        ----------
        mu : float
            Finite and >= 0.
        direction : {"remove", "add"}, optional
            Direction of the relation whose privacy curve is bounded, for `AddRemove`. None takes the larger regret.

        Returns
        -------
        float
            The regret in [0, 1], never below the least one; 0 only if the account is mu-GDP.

        Raises
        ------
        ValueError
            If an argument is outside its range.
        RelationMismatch
            If a direction is named under a relation other than AddRemove.

        Notes
        -----
        docs/notes/gaussian_dp.md. Kind: exact up to a relative 1e-9 if the privacy curve is, otherwise an upper bound.

        Examples
        --------
        >>> import privsample as ps
        >>> account = 1000 * ps.LaplaceAccountant(sensitivity=1, scale=100)
        >>> f"{account.regret(0.315):.1e}", account.regret(0.4)
        ('2.9e-04', 0.0)
        """
        shift = nonnegative(mu=mu)
        return max(_least_regret(curve, shift) for curve in direction_bounds(cast("Accountant", self), direction))


def sampling_note(account: "Accountant") -> str:
    """What to say beside the least mu of Gaussian noise on samples, after a semicolon; empty for other accounts."""
    tail = LossTail.of(account.bounds)
    parts = [part for pair in account.bounds.pairs for part, _ in ProductPair.of(pair, 1).members]
    sampled = hasattr(account, "scheme") or not all(isinstance(part, GaussianPair) for part in parts)
    if not (tail.dominating_mu <= tail.least_mu < np.inf and sampled):
        return ""
    return (
        "; that of a subsampled Gaussian mechanism is the mu of the mechanism without sampling, whatever the sampling "
        "rate: state a mu with its regret, account.mu(regret=1e-6)"
    )


def _least_mu(curve: DirectionCurve, regret: float) -> float:
    """The least mu of one direction; computed once for each regret."""
    if curve.bounds.parts:  # the curve is the largest of theirs
        return max(_least_mu(part, regret) for part in _parts(curve))
    known: dict[float, float] = curve.bounds.memo.setdefault("mu", {})
    if regret not in known:
        tail = LossTail.of(curve.bounds)
        if curve.bounds.infinity_mass > regret and np.isinf(tail.least_mu):
            known[regret] = np.inf
        elif regret == 0.0 and tail.dominating_mu <= tail.least_mu:
            known[regret] = tail.least_mu  # Gaussian noise, also on samples; or +inf
        else:
            known[regret] = least_mu(_nodes(curve), tail=tail, regret=regret)
    return known[regret]


def _least_regret(curve: DirectionCurve, mu: float) -> float:
    """The least regret of mu in one direction, computed once; for mu = 0 the total variation distance."""
    if mu == 0.0:
        return float(min(np.nextafter(np.exp(curve.log_delta(np.zeros(1))[0]) * (1.0 + 1e-15), 1.0), 1.0))
    if curve.bounds.parts:
        return max(_least_regret(part, mu) for part in _parts(curve))
    known: dict[float, float] = curve.bounds.memo.setdefault("regret", {})
    if mu not in known:
        known[mu] = min(least_regret(_nodes(curve), mu, tail=LossTail.of(curve.bounds)), 1.0)
    return known[mu]


def _parts(curve: DirectionCurve) -> Iterator[DirectionCurve]:
    """The curves of the parts of a parallel composition."""
    for part, back in zip(curve.bounds.parts, curve.reversed_bounds.parts, strict=True):
        yield DirectionCurve(bounds=part, reversed_bounds=back)


def _nodes(curve: DirectionCurve) -> UpperCurve:
    """The curve with its first nodes, from which every search starts, so that no result depends on earlier ones."""
    memo = curve.bounds.memo
    if "gaussian" not in memo:
        parts = 4 if any(isinstance(pair, ProductPair) and pair.smooth for pair in curve.bounds.pairs) else 24
        made = UpperCurve(sharp=_searchable(curve).log_delta, rough=_by_orders(curve.bounds), most_parts=parts)
        memo["gaussian"] = made.with_first_nodes()
    found: UpperCurve = memo["gaussian"]
    return found


def _searchable(curve: DirectionCurve) -> DirectionCurve:
    """The curve, with a table of the Rényi curve if conversions of that at every node of a search cost too much."""
    bounds = curve.bounds
    if not bounds.pairs or bounds.curve_is_least or _SEARCHED * bounds.curve_cost <= BUDGET:
        return curve
    return replace(curve, bounds=with_renyi_table(bounds))


def _by_orders(bounds: PrivacyBounds) -> Curve | None:
    """Conversions of the Rényi curve at a fixed set of orders, if the privacy curve is dearer; otherwise None."""
    if bounds.curve_cost < _EXPENSIVE or _ORDERS * bounds.renyi_cost > _MOST or bounds.order_limit <= 1.0:
        return None
    top = 1e6 if np.isinf(bounds.order_limit) else (bounds.order_limit - 1.0) * (1 - 1e-9)
    orders = 1.0 + np.geomspace(top * 1e-9, top, _ORDERS)

    def log_delta(epsilon: FloatArray) -> FloatArray:
        if "gaussian_orders" not in bounds.memo:
            bounds.memo["gaussian_orders"] = bounds.renyi(orders)
        divergences = bounds.memo["gaussian_orders"][:, None]
        parts = np.array_split(epsilon, len(epsilon) // _BLOCK + 1)
        found = [log_delta_at(orders[:, None], divergences, part).min(axis=0) for part in parts]  # type: ignore[arg-type]
        return np.minimum(views.add_infinity_mass(bounds, np.concatenate(found), epsilon), 0.0)

    return log_delta
