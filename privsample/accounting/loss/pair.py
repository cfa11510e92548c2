"""Dominating pairs of distributions and the curves that follow from their privacy loss distribution."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privsample._checks import FloatArray, real_array
from privsample._logspace import expm1_excess, log1mexp, resolved
from privsample._value import Memo, cached, frozen_value, set_fields
from privsample.accounting.curves.conversion import least_epsilon
from privsample.accounting.curves.discretize import connect_the_dots, split_mass
from privsample.accounting.loss.exact import CertifiedCase, CertifiedPair, CertifiedRenyi, Claims, exact, finite_table
from privsample.accounting.loss.lattice import LatticeLoss
from privsample.errors import NotCertified, NumericalFailure

_EXPENSIVE_VALUES = 512  # number of values of an expensive privacy curve that one discretization computes
_FEW_OUTCOMES = 64  # outcomes up to which a discrete pair has a cheap Rényi curve
_ULP = float(np.finfo(np.float64).eps)

ComplexArray = NDArray[np.complex128]


class LossPair(Memo, ABC):
    """A dominating pair of distributions (P, Q), which bounds the privacy loss for one ordered pair of neighbours.

    P stands for the output distribution on one dataset and Q for that on its neighbour. The privacy loss is L = log
    dP/dQ. A subclass defines the privacy curve, the Rényi curve, the max divergence and the reversed pair. All other
    methods have defaults that are valid for every pair; a subclass overrides them to be faster or tighter.

    Notes
    -----
    Zhu, Dong and Wang 2022, Definition 7: (P, Q) dominates a mechanism if its hockey-stick divergence is at least the
    mechanism's for every epsilon. Every returned number is rounded up.

    Examples
    --------
    >>> import numpy as np
    >>> from privsample.accounting.loss.gaussian import GaussianPair
    >>> pair = GaussianPair(mu=1.0)  # N(1, 1) against N(0, 1)
    >>> round(float(np.exp(pair.log_delta(np.array([1.0]))[0])), 4), round(pair.least_epsilon(np.log(1e-5)), 4)
    (0.1269, 4.3772)
    """

    __slots__ = ()

    @abstractmethod
    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Natural logarithm of the privacy curve delta(epsilon), rounded up.

        The privacy curve, also called privacy profile, is the hockey-stick divergence D_{e^epsilon}(P || Q).

        Parameters
        ----------
        epsilon : array, any shape
            Any real values, in nats; negative ones included.

        Returns
        -------
        array, shape of `epsilon`
            At most 0; -inf where delta is 0.
        """

    @abstractmethod
    def renyi(self, orders: FloatArray) -> FloatArray:
        """Rényi divergence R_a(P || Q), rounded up.

        Parameters
        ----------
        orders : array, any shape
            Orders a, finite and > 1.

        Returns
        -------
        array, shape of `orders`
            Divergences in nats, >= 0; +inf at and above `order_limit`.
        """

    @property
    @abstractmethod
    def max_divergence(self) -> float:
        """Max divergence of P from Q in nats: the essential supremum of the privacy loss under P."""

    @property
    def order_limit(self) -> float:
        """Order below which the Rényi divergence is finite; +inf by default."""
        return np.inf

    @property
    def gaussian_part(self) -> tuple[float, float]:
        """A pair that dominates this one: a Gaussian shift m and an independent loss of at most c nats, as (m, c).

        The privacy curve is at most that of the Gaussian pair at epsilon - c. The default has no Gaussian shift, and
        c is the max divergence.
        """
        return 0.0, self.max_divergence

    def least_epsilon(self, log_delta: float) -> float:
        """Smallest epsilon at which the privacy curve is at most a given delta, rounded up.

        Parameters
        ----------
        log_delta : float
            Natural logarithm of delta.

        Returns
        -------
        float
            Epsilon >= 0 in nats; +inf if no epsilon is found.
        """
        return least_epsilon(self.log_delta, self.approx_log_delta, log_delta)

    @abstractmethod
    def reverse(self) -> "LossPair":
        """The reversed pair (Q, P).

        Returns
        -------
        LossPair
            The pair of the same two distributions in the other order.
        """

    def certified_pair(self) -> CertifiedPair:
        """The pair in the notation of certificates, with exact parameters (docs/notes/certificates.md).

        Returns
        -------
        dict
            The kind of the pair and its parameters, from which `privsample verify` computes both curves.

        Raises
        ------
        NotCertified
            If certificates have no notation for the pair; this is the default.
        """
        raise NotCertified(
            f"{type(self).__name__} has no notation in certificates: its curve is the result of a search or of an "
            "integral, and not of a pair with a closed form"
        )

    def certified_renyi(self) -> CertifiedRenyi:
        """A Rényi bound in the notation of certificates, for compositions in which it is tighter than pairs.

        Returns
        -------
        Fraction
            The rho of a zCDP guarantee, by default half the square of the larger max divergence of
            both orders.
        tuple of Fraction
            Lengths of intervals that contain the losses of further draws.

        Raises
        ------
        NotCertified
            If no such bound is known.
        """
        largest = max(self.max_divergence, self.reverse().max_divergence)  # zCDP is a guarantee for both orders
        if not np.isfinite(largest):
            raise NotCertified(f"no Rényi bound of {type(self).__name__} has a notation in certificates")
        return Fraction(largest) ** 2 / 2, ()

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """Releases that together dominate this pair, one tuple for each worst case.

        Parameters
        ----------
        claims : tuple of (float, float)
            Pairs of epsilon and log delta that are to be proved. An envelope divides its family accordingly.

        Returns
        -------
        tuple of tuples of (int, dict)
            Multiplicities and certified pairs; by default one release of `certified_pair`.

        Raises
        ------
        NotCertified
            As `certified_pair`.
        """
        del claims
        return (((1, self.certified_pair()),),)

    def dominates(self, other: "LossPair") -> bool:
        """Whether this pair's privacy curve is known to be at least that of another pair everywhere.

        Parameters
        ----------
        other : LossPair
            The pair to compare with.

        Returns
        -------
        bool
            True only if domination is known. False makes no claim.
        """
        return self == other

    @property
    def alternatives(self) -> "tuple[LossPair, ...]":
        """Pairs of which at least one dominates each ordered pair of neighbours; by default only this pair."""
        return (self,)

    @property
    def is_envelope(self) -> bool:
        """True if this pair dominates several pairs; composition by their Rényi curves may then be tighter."""
        return False

    @property
    def is_expensive(self) -> bool:
        """True if one value of the privacy curve costs more than a closed form; `discretize` then computes fewer."""
        return False

    @property
    def curve_cost(self) -> float:
        """Approximate cost of one value of the privacy curve, in units of one closed form (about a microsecond).

        The costs select the method of a composition. They depend only on the parameters and not on measured times, so
        that every machine selects the same method and reports the same number.
        """
        return 50.0 if self.is_expensive else 0.5

    @property
    def renyi_cost(self) -> float:
        """Approximate cost of one value of the Rényi curve, in the unit of `curve_cost`."""
        return 0.2

    @property
    def from_table(self) -> bool:
        """True if the curves are upper bounds from a table, because exact values are too expensive."""
        return False

    def approx_log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Approximation of `log_delta` that guides searches and is never reported; by default `log_delta` itself.

        Parameters
        ----------
        epsilon : array, any shape
            Any real values, in nats.

        Returns
        -------
        array, shape of `epsilon`
            Approximate values, not rounded up.
        """
        return self.log_delta(epsilon)

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Discretize the privacy loss to a grid, which gives a discrete pair that dominates this one.

        The discrete pair's privacy curve connects this pair's values at the nodes by straight lines in e^epsilon. Its
        Q mass at a node is the P mass times e^-node. The P masses are rounded up, so they may add up to more than one.

        Parameters
        ----------
        nodes : array, shape (nodes,)
            Increasing losses in nats, at least two.

        Returns
        -------
        array, shape (nodes,)
            Natural logarithms of the P masses at the nodes.
        float
            Natural logarithm of the infinity mass: the P mass at an infinite loss.

        Notes
        -----
        Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Algorithm 1 (connect the dots). Kind: upper bound.
        """
        count = _EXPENSIVE_VALUES if self.is_expensive else len(nodes)
        return connect_the_dots(self.log_delta, self.reverse().log_delta, nodes, count)

    def approx_discretize(self, nodes: FloatArray) -> FloatArray:
        """Approximation of the masses of `discretize`, for the choice of a grid; never reported.

        Parameters
        ----------
        nodes : array, shape (nodes,)
            Increasing losses in nats, at least two.

        Returns
        -------
        array, shape (nodes,)
            Approximate natural logarithms of the P masses at the nodes.
        """
        return (
            connect_the_dots(self.approx_log_delta, self.reverse().approx_log_delta, nodes, _EXPENSIVE_VALUES // 4)[0]
            if self.is_expensive
            else self.discretize(nodes)[0]
        )

    @property
    def largest_loss(self) -> float | None:
        """Largest absolute loss in nats, for pairs with few losses or a closed form; None, the default, otherwise.

        A composition of many such pairs is planned from their Rényi curves, and each is discretized on all its losses.
        """
        return None

    @property
    def log_top_mass(self) -> float:
        """Logarithm of a lower bound on the P mass of the largest loss; -inf by default."""
        return -np.inf

    def tilted_lattice(self, c: float, step: float, low: float, high: float) -> LatticeLoss:
        """Discretize the loss to the nodes high, high - step, ... down to `low`, and tilt the masses by e^{c loss}.

        Parameters
        ----------
        c : float
            The tilt, >= 0.
        step : float
            Distance of the nodes in nats, > 0.
        low, high : float
            Truncation bounds in nats, low <= high: the lowest node is at most `low`.

        Returns
        -------
        LatticeLoss
            A discrete loss that dominates this one, rounded up.
        """
        below = np.arange(max(int(np.ceil((high - low) / step - 1e-9)), 1), -1, -1)  # steps below the last node
        nodes: FloatArray = high - np.float64(step) * below
        return LatticeLoss.of(nodes, *self.discretize(nodes), c)

    @classmethod
    def approx_log_mgf(cls, pairs: Sequence[Self], tilts: FloatArray) -> FloatArray:
        """Approximate log moment generating functions of many pairs of this class, for the choice of a grid.

        Parameters
        ----------
        pairs : sequence of LossPair
            Pairs of this class, at least one.
        tilts : array, shape (tilts,)
            Arguments c > 0 with c + 1 below the order limits.

        Returns
        -------
        array, shape (pairs, tilts)
            log E_P e^{c loss}, not rounded up; by default c times the Rényi divergence of order c + 1.
        """
        return np.array([tilts * pair.renyi(1.0 + tilts) for pair in pairs])

    @classmethod
    def worst_renyi(cls, pairs: Sequence[Self], orders: FloatArray) -> FloatArray:
        """Largest Rényi divergence of several pairs of this class at each order.

        Parameters
        ----------
        pairs : sequence of LossPair
            Pairs of this class, at least one.
        orders : array, any shape
            Orders, finite and > 1.

        Returns
        -------
        array, shape of `orders`
            Divergences in nats.
        """
        result: FloatArray = np.max([pair.renyi(orders) for pair in pairs], axis=0)
        return result

    @classmethod
    def worst_log_delta(cls, pairs: Sequence[Self], epsilon: FloatArray) -> FloatArray:
        """Largest privacy curve of several pairs of this class at each epsilon.

        Parameters
        ----------
        pairs : sequence of LossPair
            Pairs of this class, at least one.
        epsilon : array, any shape
            Any real values, in nats.

        Returns
        -------
        array, shape of `epsilon`
            Natural logarithms of the largest delta.
        """
        result: FloatArray = np.max([pair.log_delta(epsilon) for pair in pairs], axis=0)
        return result


class Envelope(LossPair):
    """An upper bound on the curves of many pairs of neighbours, in both orders. It is its own reverse.

    Different members of a composition may attain their envelopes at different neighbours. The composed Rényi curve,
    which is a sum, may then be tighter than the composed privacy curve of the envelopes.
    """

    __slots__ = ()

    @property
    def members(self) -> tuple[LossPair, ...]:
        """Single pairs that are known to attain, or nearly attain, the envelope; empty if none are known."""
        return ()

    @property
    def is_envelope(self) -> bool:
        """Always True."""
        return True

    @property
    def is_expensive(self) -> bool:
        """True, because each value is a search for the largest member."""
        return True

    def reverse(self) -> Self:
        """The envelope itself, because it bounds both orders of the neighbours.

        Returns
        -------
        Envelope
            This object.
        """
        return self

    def product(self, others: "Sequence[tuple[LossPair, int]]") -> "Envelope | None":
        """The envelope of the products of each member with further smooth pairs.

        Parameters
        ----------
        others : sequence of (LossPair, int)
            Smooth pairs and their multiplicities.

        Returns
        -------
        Envelope or None
            None if no such envelope is known; this is the default.
        """
        del others
        return None


class SmoothPair(LossPair):
    """A dominating pair whose loss has a density and a known moment generating function M.

    A pair overrides `log_decay` if |M(c + iw)| is not decreasing in |w|.
    """

    __slots__ = ()

    @property
    def suits_contours(self) -> bool:
        """True if compositions usually have a tight contour integral, so that their curves count as exact."""
        return True

    @abstractmethod
    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Logarithm of the moment generating function, log E_P e^{tL}.

        Parameters
        ----------
        t : complex array, any shape
            Arguments with 0 < Re t < order_limit - 1.

        Returns
        -------
        complex array, shape of `t`
            Values on any branch of the logarithm: they are multiplied by integers and exponentiated.
        """

    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """`log_mgf` with a bound on its error beyond a few ulp of the exponents.

        Parameters
        ----------
        t : complex array, any shape
            As in `log_mgf`.

        Returns
        -------
        complex array, shape of `t`
            The logarithms.
        array, shape of `t`
            The error bounds; zero by default.
        """
        return self.log_mgf(t), np.zeros(t.shape)

    def log_decay(self, c: float, widths: FloatArray) -> FloatArray:
        """Logarithm of an upper bound on |M(c + iw)/M(c)| for all w >= each width.

        The default evaluates at the width itself and is valid for a decreasing |M(c + iw)|.

        Parameters
        ----------
        c : float
            Real part, 0 < c < order_limit - 1.
        widths : array, shape (widths,)
            Imaginary parts > 0.

        Returns
        -------
        array, shape (widths,)
            Natural logarithms of the bounds.
        """
        fall: FloatArray = self.log_mgf(c + 1j * np.append(0.0, widths)).real
        return fall[1:] - fall[0]

    @property
    def rows(self) -> "SmoothPair | SmoothRows":
        """This pair in a form that evaluates several pairs of one class together; by default the pair itself."""
        return self

    @abstractmethod
    def reverse(self) -> "SmoothPair":
        """The reversed pair (Q, P), which is smooth too.

        Returns
        -------
        SmoothPair
            The pair of the same two distributions in the other order.
        """


class SmoothRows(ABC):
    """Smooth pairs of one class, one in each row, whose privacy curves are computed together."""

    __slots__ = ()

    @abstractmethod
    def log_mgf(self, t: ComplexArray) -> ComplexArray:
        """Logarithm of each row's moment generating function, as `SmoothPair.log_mgf`.

        Parameters
        ----------
        t : complex array, shape (rows, points)
            Arguments for the pair of each row.

        Returns
        -------
        complex array, shape (rows, points)
            The logarithms.
        """

    @abstractmethod
    def log_mgf_with_error(self, t: ComplexArray) -> tuple[ComplexArray, FloatArray]:
        """`log_mgf` with a bound on its error, as `SmoothPair.log_mgf_with_error`.

        Parameters
        ----------
        t : complex array, shape (rows, points)
            Arguments for the pair of each row.

        Returns
        -------
        complex array, shape (rows, points)
            The logarithms.
        array, shape (rows, points)
            The error bounds.
        """

    @abstractmethod
    def select_rows(self, rows: NDArray[np.bool_]) -> Self:
        """The pairs of the selected rows.

        Parameters
        ----------
        rows : boolean array, shape (rows,)
            True for each row to keep.

        Returns
        -------
        SmoothRows
            The selected pairs, in order.
        """

    def log_decay(self, c: FloatArray, widths: FloatArray) -> FloatArray:
        """Logarithm of an upper bound on |M(c + iw)/M(c)| for all w >= each width, as `SmoothPair.log_decay`.

        Parameters
        ----------
        c : array, shape (rows,)
            Real parts.
        widths : array, shape (rows, widths)
            Imaginary parts > 0.

        Returns
        -------
        array, shape (rows, widths)
            Natural logarithms of the bounds.
        """
        along = np.concatenate([np.zeros((len(c), 1)), widths], axis=1)
        fall: FloatArray = self.log_mgf(c[:, None] + 1j * along).real
        return fall[:, 1:] - fall[:, :1]


def worst_renyi(pairs: Sequence[LossPair], orders: FloatArray) -> FloatArray:
    """Largest Rényi divergence of several pairs of any classes at each order."""
    kinds = dict.fromkeys(type(pair) for pair in pairs)
    found = [kind.worst_renyi([pair for pair in pairs if type(pair) is kind], orders) for kind in kinds]
    return found[0] if len(found) == 1 else np.max(found, axis=0)


def worst_log_delta(pairs: Sequence[LossPair], epsilon: FloatArray) -> FloatArray:
    """Logarithm of the largest privacy curve of several pairs of any classes at each epsilon."""
    kinds = dict.fromkeys(type(pair) for pair in pairs)
    found = [kind.worst_log_delta([pair for pair in pairs if type(pair) is kind], epsilon) for kind in kinds]
    return found[0] if len(found) == 1 else np.max(found, axis=0)


def largest_parts(pairs: Sequence[LossPair]) -> tuple[float, float]:
    """The `gaussian_part` of a pair that dominates each of the pairs: the largest shift and the largest rest."""
    shifts, rests = zip(*(pair.gaussian_part for pair in pairs), strict=True)
    return max(shifts), max(rests)


def certified_maximum(pairs: Sequence[LossPair]) -> CertifiedPair:
    """The certified pair that dominates all of these pairs in both orders. Raises NotCertified."""
    if not pairs:
        raise NotCertified("the account has a Rényi curve and no dominating pair, so that certificates cannot name one")
    (first, *others) = pairs
    if not others and first.reverse() == first:
        return first.certified_pair()
    return {"kind": "maximum", "pairs": [pair.certified_pair() for pair in pairs]}


def delta_below_zero(epsilon: FloatArray, log_delta_reversed: FloatArray) -> FloatArray:
    """Logarithm of D_{e^eps}(P||Q) at eps < 0 from the reversed pair's curve at -eps.

    The identity is D_{e^eps}(P||Q) = 1 - e^eps + e^eps D_{e^-eps}(Q||P), a sum of two nonnegative terms, without
    cancellation (Balle, Barthe and Gaboardi 2018, section 2).
    """
    below = np.minimum(epsilon, 0.0)
    return np.minimum(np.logaddexp(log1mexp(below), below + log_delta_reversed), 0.0)


def checked_divergence(divergence: FloatArray) -> FloatArray:
    """Check computed divergences; values that rounding made slightly negative become zero.

    Raises NumericalFailure for NaN and for values below -1e-12, since no guarantee can be derived from them.
    """
    if np.isnan(divergence).any() or (divergence < -1e-12).any():
        raise NumericalFailure("a computed divergence is NaN or negative, so no guarantee is stated")
    return np.maximum(divergence, 0.0)


@frozen_value
class DiscretePair(LossPair):
    """Two distributions on the same finite set, given by the logarithms of their probabilities.

    Parameters
    ----------
    log_p, log_q : array, shape (outcomes,)
        Logs of the probabilities under one dataset and under its neighbour; each adds up to one.
    loss : array, shape (outcomes,), optional
        The privacy loss log_p - log_q in nats, if it is known more accurately than by that difference.
    factors : tuple of (LossPair, int), default ()
        Independent pairs, each with its multiplicity, whose product this is; a certificate names these. Empty if the
        pair is no product.

    Notes
    -----
    The curves are computed by the definitions of the hockey-stick and Rényi divergences. Small Rényi divergences
    are computed as log1p of positive terms, so that tiny losses keep full precision. Kind: exact.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> pair = ps.DiscretePair(log_p=np.log([0.5, 0.5]), log_q=np.log([0.25, 0.75]))
    >>> round(pair.max_divergence, 6), round(pair.reverse().max_divergence, 6)
    (0.693147, 0.405465)
    """

    log_p: FloatArray
    log_q: FloatArray
    loss: FloatArray = field(default_factory=lambda: np.empty(0))
    factors: "tuple[tuple[LossPair, int], ...]" = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        p, q = (_log_masses(log_p=self.log_p), _log_masses(log_q=self.log_q))
        if p.shape != q.shape:
            raise ValueError(f"log_p and log_q must have one shape, got {p.shape} and {q.shape}")
        with np.errstate(invalid="ignore"):
            computed = np.where(np.isneginf(p), -np.inf, p - q)
            loss = real_array(loss=self.loss).copy() if np.size(self.loss) else computed
            if loss.shape != p.shape or not np.all((loss == computed) | (np.abs(loss - computed) <= 1e-9)):
                raise ValueError("loss must be log_p - log_q")
        loss.flags.writeable = False
        set_fields(self, log_p=p, log_q=q, loss=loss)

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Logarithm of the sum of [p - e^eps q]_+ over the outcomes, rounded up."""
        e = np.asarray(epsilon)[..., None]
        with np.errstate(invalid="ignore"):  # rounding error of epsilon - loss, subtracted so that the result grows
            error = _ULP * np.where(np.isfinite(self.loss), np.abs(self.loss) + np.abs(e), 0.0)
        gap = np.where(e < self.loss, np.minimum(e - self.loss, 0.0) - error, 0.0)
        total = np.logaddexp.reduce(self.log_p + log1mexp(gap), axis=-1)
        return np.minimum(total + 4 * _ULP * (1.0 + np.abs(np.maximum(total, -1e300))), 0.0)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """log(sum p e^{(a-1) L}) / (a-1); each term is rounded up by the rounding error of its exponent and factors."""
        if self._renyi_terms is None:
            return np.full(np.shape(orders), np.inf)
        s = np.asarray(orders)[..., None] - 1.0
        loss, log_p, mass, error, loss_error, excess, p_zero = self._renyi_terms
        # Sum p e^{sL} - 1 = sum p [(e^{sL} - 1 - sL) + s (e^{-L} - 1 + L)] + s Q(p = 0): all terms are positive.
        with np.errstate(over="ignore", invalid="ignore"):
            exponent = s * loss
            exponent_error = error + 2 * _ULP * np.abs(exponent)
            p = mass * (1.0 + exponent_error + loss_error)
            found = np.log1p((p * (expm1_excess(exponent) + s * excess)).sum(-1) + s[..., 0] * p_zero)
            if not (found < 1.0).all():
                terms = log_p + exponent + exponent_error
                top = terms.max(axis=-1)
                far = top + np.log(np.exp(terms - top[..., None]).sum(axis=-1)) + 8 * _ULP * (1.0 + np.abs(top))
                found = np.where(found < 1.0, found, np.where(np.isposinf(top), np.inf, far))
        return checked_divergence(found / s[..., 0] * (1.0 + 16 * _ULP))

    @cached
    def _renyi_terms(
        self,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, float] | None:
        """What the Rényi divergence of each order takes from the outcomes; None if a loss is infinite.

        Losses where P is positive, log P and P there, the rounding errors of the exponents and of the losses,
        e^{-L} - 1 + L, and the mass of Q where P is zero, rounded up.
        """
        if np.isposinf(self.loss).any():
            return None
        present = ~np.isneginf(self.loss)
        loss, log_p, only_q = self.loss[present], self.log_p[present], self.log_q[~present]
        p_zero = np.exp(only_q * (1.0 - 2 * _ULP)).sum() * (1.0 + 8 * _ULP)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = expm1_excess(-loss)
        return loss, log_p, np.exp(log_p), _ULP * (8.0 - 2 * log_p), 2 * _ULP * np.abs(loss), excess, p_zero

    @property
    def max_divergence(self) -> float:
        """Largest loss of all outcomes, in nats."""
        return float(self.loss.max())

    @property
    def curve_cost(self) -> float:
        """Proportional to the number of outcomes."""
        return 0.2 + len(self.loss) / 50

    @property
    def renyi_cost(self) -> float:
        """Proportional to the number of outcomes."""
        return 0.3 + len(self.loss) / 20

    @cached
    def largest_loss(self) -> float | None:
        """Largest absolute loss in nats; None if a loss is infinite or there are many outcomes."""
        largest = float(np.abs(self.loss).max())
        return largest if np.isfinite(largest) and len(self.loss) <= _FEW_OUTCOMES else None

    @cached
    def log_top_mass(self) -> float:
        """Logarithm of the P mass of the largest loss."""
        return float(np.logaddexp.reduce(self.log_p[self.loss == self.max_divergence]))

    def reverse(self) -> "DiscretePair":
        """The pair with the two distributions exchanged.

        Returns
        -------
        DiscretePair
            (Q, P), with the losses negated.
        """
        factors = tuple((pair.reverse(), times) for pair, times in self.factors)
        return DiscretePair(log_p=self.log_q, log_q=self.log_p, loss=-self.loss, factors=factors)

    def certified_pair(self) -> CertifiedPair:
        """Randomized response if the pair is that, otherwise the table of masses.

        Returns
        -------
        dict
            The pair.
        """
        return _certified_response(self) or finite_table(self.log_p, self.log_q)

    def certified_cases(self, claims: Claims) -> tuple[CertifiedCase, ...]:
        """The releases of `factors` together if the pair is their product, otherwise one release of the pair.

        Parameters
        ----------
        claims : tuple of (float, float)
            Not used.

        Returns
        -------
        tuple of tuples of (int, dict)
            One case.
        """
        del claims
        return (tuple((times, pair.certified_pair()) for pair, times in self.factors) or ((1, self.certified_pair()),),)

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Split the mass of each outcome between the two neighbouring nodes, which preserves its P and Q masses."""
        return split_mass(self.log_p, self.loss, nodes)


def _log_masses(**named: ArrayLike) -> FloatArray:
    """A checked, read-only copy of log masses that add up to one."""
    ((name, _),) = named.items()
    result = real_array(**named).copy()
    if result.ndim != 1 or not abs(np.logaddexp.reduce(result)) <= 1e-9:
        raise ValueError(f"{name} must be the log masses of one distribution, shape (outcomes,), adding up to one")
    result.flags.writeable = False
    return result


def binary_pair(epsilon: float) -> DiscretePair:
    """Randomized response with losses +-epsilon, which dominates every epsilon-DP mechanism.

    Kairouz, Oh and Viswanath 2015, Theorem 2. Kind: exact.
    """
    e = resolved(epsilon)
    log_p = np.array([-np.logaddexp(0.0, -e), -np.logaddexp(0.0, e)])
    return DiscretePair(log_p=log_p, log_q=log_p[::-1], loss=np.array([e, -e]))


def _certified_response(pair: DiscretePair) -> CertifiedPair | None:
    """A certified randomized response with this pair's losses and masses; None if the pair is another one."""
    finite = np.isfinite(pair.loss)
    top, failure = float(pair.loss[finite].max(initial=0.0)), float(np.exp(pair.log_p[np.isposinf(pair.loss)]).sum())
    likely = float(np.exp(pair.log_p[pair.loss == top]).sum())
    if not (top > 0.0 and failure < 1.0 and set(pair.loss[finite].tolist()) <= {top, -top, 0.0}):
        return None
    others = max(round(((1.0 - failure) / likely - 1.0) * np.exp(min(top, 500.0))), 1)
    text = {"epsilon": exact(top), "delta": exact(failure), "others": others}
    log_w = np.log1p(-failure) - np.log1p(others * np.exp(-top))
    masses = {top: log_w, -top: log_w - top, 0.0: log_w - top + np.log(max(others - 1.0, 1e-300))}
    for sign, log_masses in ((1.0, pair.log_p), (-1.0, pair.log_q)):
        for loss, expected in masses.items():
            found = np.logaddexp.reduce(log_masses[sign * pair.loss == loss], initial=-np.inf)
            if not (abs(found - expected) <= 1e-12 or (np.isneginf(found) and expected < -600.0)):
                return None
    return {"kind": "randomized_response", **text}
