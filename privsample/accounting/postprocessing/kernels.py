"""Account of a Markov kernel that is applied to a private output (privacy amplification by mixing)."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np

from privsample._checks import FloatArray, positive_integer
from privsample._logspace import log1mexp
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.curves import zcdp
from privsample.accounting.curves.conversion import Curve
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import CurveBound, PrivacyBounds, RenyiBound
from privsample.accounting.engine.routes import affordable
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.loss.codes import CodeDistributions, code_distributions_of
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.postprocessing.mixing import MixingConstants
from privsample.accounting.selection.chosen import ChosenAccountant, point_bound, pure_bounds, pure_renyi
from privsample.distributions.steps.kernels import kernel_power

_ULP = float(np.finfo(np.float64).eps)
_VALUES, _CALL = 200, 100.0  # approximate number of values of the base that are needed; cost of a call for one value
_LEAST = float(np.finfo(np.float64).smallest_subnormal)


@frozen_value
class KernelAccountant(ChosenAccountant):
    """A Markov kernel applied to a private categorical output.

    The mechanism of account `base` releases one code, which is replaced by a random outcome with probabilities
    `matrix[code]`. The relation is that of the base. If the account of the base knows the distributions of the code
    (`code_distributions`), the account is exact unless there are too many distributions; the code may then be one of
    several independent codes, of which each neighbour changes one. Otherwise the account is the minimum of several
    upper bounds, which `explain` lists.

    Parameters
    ----------
    base : Accountant
        The account of the code.
    matrix : array of float, shape (codes, outcomes)
        Transition probabilities; each row sums to 1.
    assumptions : frozenset of Assumption, default {IDEAL_REALS}
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account.
    ValueError
        If `matrix` is not row-stochastic or has the wrong number of rows.

    Notes
    -----
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 1; sharper bounds: docs/notes/kernels.md.

    Kind: exact or upper bound; see `kind`.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.RandomizedResponseAccountant(log_odds=1.0, categories=2, relation=ps.ReplaceOne(n=1))
    >>> account = ps.KernelAccountant(base=base, matrix=[[0.8, 0.2], [0.2, 0.8]])
    >>> round(account.pure_epsilon, 3), account.kind("delta")
    (0.569, 'exact')
    """

    base: Accountant
    matrix: FloatArray
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})
    _constants: MixingConstants = field(init=False, repr=False, compare=False)
    _pairs: tuple[LossPair, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(f"base must be an account, got {type(self.base).__name__}; use mechanism.accountant")
        constants = MixingConstants(matrix=self.matrix)
        set_fields(self, matrix=constants.matrix, _constants=constants)
        set_fields(self, assumptions=self.assumptions | self.base.assumptions)
        known = code_distributions_of(self.base)
        if known is not None and known.distributions.shape[1] != len(self.matrix):
            raise ValueError(
                f"matrix must have one row for each of the base's {known.distributions.shape[1]} codes, "
                f"got {len(self.matrix)}"
            )
        constant = constants.dobrushin == 0.0
        set_fields(self, _pairs=() if known is None or constant else known.through(self.matrix).pairs)

    @property
    def constants(self) -> MixingConstants:
        """The mixing constants of the kernel."""
        return self._constants

    def after(self, steps: int) -> "KernelAccountant":
        """The account of several steps of this kernel.

        Parameters
        ----------
        steps : int
            Number of steps, >= 1.

        Returns
        -------
        KernelAccountant
            The account with the power of the matrix.
        """
        return replace(self, matrix=kernel_power(self.matrix, steps))

    @property
    def source(self) -> str:
        """The theorem, and the source of the base."""
        return f"Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 1; docs/notes/kernels.md; {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """One pair for all ordered pairs of output distributions if they are known; otherwise the least bound."""
        infinity_mass = self.base.infinity_mass if self._constants.dobrushin > 0.0 else 0.0
        pure = self._pairs[0].max_divergence if self._pairs else self._bound_on_loss
        base = self._base
        known: dict[str, Any] = {
            "infinity_mass": infinity_mass,
            "order_limit": np.inf if np.isfinite(pure) else base.order_limit,
            "pure_epsilon": pure,
            "zcdp": min(base.zcdp, zcdp.of_pure(pure)) if infinity_mass == 0.0 else np.inf,
            "curve_bounds": self._curves()
            + (pure_bounds("contracted pure guarantee", self._bound_on_loss) if infinity_mass == 0.0 else ()),
            "renyi_bounds": (self._contracted_curve,),
            "own_curve_cost": 3 * (_CALL + base.curve_cost),
            "tabulated": not self._pairs and base.from_table,
        }
        if not self._pairs:
            known |= {"own_renyi_cost": 0.5 + base.renyi_cost, "exact": frozenset(), "curve_is_least": True}
            return PrivacyBounds.from_renyi(self._least, **known)
        return PrivacyBounds.from_pairs(self._pairs, exact=base.exact, curve_name="output distributions", **known)

    @cached
    def _base(self) -> PrivacyBounds:
        """The bounds of the base, tabulated if a search needs too many values."""
        return affordable(within_budget(self.base.bounds, curve=_VALUES, renyi=_VALUES))

    @property
    def _bound_on_loss(self) -> float:
        """Pure epsilon for all output distributions with the base's pure epsilon."""
        return contracted_loss(self.base.pure_epsilon, self._constants.log_range)

    def code_distributions(self) -> CodeDistributions | None:
        """The output distributions after the kernel, where those of the base are known.

        Returns
        -------
        CodeDistributions or None
            The distributions, or None if those of the base are unknown.
        """
        known = code_distributions_of(self.base)
        return None if known is None else known.through(self.matrix)

    def group(self, size: int) -> Accountant:  # type: ignore[override]
        """The kernel after the base's guarantee for groups; codes that change independently pass it independently.

        If the distributions of the codes are unknown, several codes may change at once, and the general bound is used.
        """
        if code_distributions_of(self.base) is None:
            return self if positive_integer(size=size) == 1 else Accountant.group(self, size)
        match self.base.group(size):
            case Composed(entries=entries):
                return Composed(entries=tuple((self._over(each), times) for each, times in entries))
            case changed:
                return self._over(changed)

    def _least(self, orders: FloatArray) -> FloatArray:
        """The contracted Rényi curve, or that of the pure guarantee if it is smaller."""
        return np.minimum(self._contracted_curve.renyi(orders), pure_renyi(self._bound_on_loss, orders))

    @property
    def _contracted_curve(self) -> RenyiBound:
        """Rényi curve contracted by Dobrushin's coefficient.

        Power divergences contract by this coefficient (Raginsky 2016; Cohen et al. 1993).
        """
        gamma, base = self._constants.dobrushin, self._base.renyi
        return RenyiBound(name=f"Dobrushin {gamma:.4g}, by Rényi curve", renyi=contracted_renyi(base, gamma))

    def _curves(self) -> tuple[CurveBound, ...]:
        """Theorem 1 applied at each epsilon of the base's privacy curve, in its sharper forms."""
        constants = self._constants
        gamma, ultra = constants.doeblin, constants.ultra_mixing
        curves = [point_bound("(gamma, epsilon)-Dobrushin", self._by_dobrushin)]
        if gamma < 1.0:
            common = constants.beyond_common
            curves.append(point_bound(f"Doeblin {gamma:.4g}", lambda e: by_common(self._base, e, gamma, common)))
        if ultra < 1.0:
            curves.append(point_bound(f"ultra-mixing {ultra:.4g}", lambda e: by_common(self._base, e, ultra, None)))
        return tuple(curves)

    def _by_dobrushin(self, epsilon: float) -> float:
        """Theorem 1, part 2, with the constants of the matrix."""
        return by_dobrushin(self._base, epsilon, self._constants.hockey_stick)


def contracted_renyi(base: Curve, gamma: float) -> Curve:
    """Rényi curve after a kernel with this Dobrushin coefficient, rounded up.

    Power divergences contract by the coefficient (Raginsky 2016; Cohen et al. 1993).
    """

    def contracted(orders: FloatArray) -> FloatArray:
        s = orders - 1.0
        with np.errstate(over="ignore", divide="ignore"):
            moment = s * base(orders)
            near = np.log1p(gamma * np.expm1(np.minimum(moment, 1.0)))
            far = np.logaddexp(np.log1p(-gamma), np.log(gamma) + moment)
        bound = np.where(moment < 1.0, near, far) / s * (1 + 16 * _ULP)
        return np.where(gamma < 1.0, bound, base(orders))

    return contracted


def by_dobrushin(base: PrivacyBounds, epsilon: float, hockey_stick: Callable[[float], Any]) -> float:
    """log of delta(e) times the kernel's constant at log(1 + (e^e - 1)/delta(e)) (Theorem 1, part 2).

    `hockey_stick` maps e' to an upper bound on the divergence of two rows at e^e'.
    """
    log_delta = float(views.log_delta(base, np.asarray(epsilon)))
    if np.isneginf(log_delta):
        return -np.inf
    with np.errstate(divide="ignore"):
        inner = float(np.logaddexp(0.0, _log_expm1(epsilon) - log_delta))
        factor = np.log(hockey_stick(inner * (1 - 8 * _ULP)))
    # rounding error of the two logarithms
    return min(log_delta + float(factor) + 8 * _ULP * (1.0 - max(log_delta, -1e300)), 0.0)


def by_common(base: PrivacyBounds, epsilon: float, gamma: float, beyond: Any) -> float:
    """(1 - b) B + gamma b delta(e'), e^e' = 1 + (e^e - 1)/gamma, b = e^(e - e') (Theorem 1, parts 3 and 4).

    B is the divergence of a row from e^e times the common distribution, in place of 1; ultra-mixing has no such term.
    """
    if gamma == 0.0:
        return -np.inf
    log_gamma, grown = np.log(gamma), _log_expm1(epsilon)
    log_denominator = float(np.logaddexp(log_gamma, grown))  # log(gamma e^e')
    # rounded down, so that the decreasing curve of the base is rounded up
    inner = float(np.logaddexp(0.0, grown - log_gamma)) * (1 - 8 * _ULP)
    found = float(2 * log_gamma + epsilon - log_denominator + float(views.log_delta(base, np.asarray(inner))))
    if beyond is not None:
        with np.errstate(divide="ignore"):
            rest = grown - log_denominator + np.log1p(-gamma) + np.log(beyond(epsilon))
        found = float(np.logaddexp(found, rest))
    return min(found + 32 * _ULP * (1.0 + abs(max(found, -1e300))), 0.0)


def contracted_loss(epsilon: float, log_range: float) -> float:
    """Pure epsilon after a kernel of this `log_range`, given a pure guarantee of `epsilon`. Kind: exact for the worst.

    It is log((1 + e^(e + r))/(e^e + e^r)): the ratio of a column between m and m e^r is largest for two-valued columns
    and two distributions of randomized response. Source: Birkhoff 1957; docs/notes/kernels.md.
    """
    small, large = sorted((epsilon, log_range))
    if np.isinf(small):
        return np.inf
    if small < 1.0:
        found = np.log1p(np.expm1(small) * -np.expm1(-large) / (1.0 + np.exp(small - large)))
    else:
        found = small + np.log1p(np.exp(-small - large)) - np.log1p(np.exp(small - large))
    return float(min(found * (1 + 16 * _ULP) + _LEAST, small))


def _log_expm1(epsilon: float) -> float:
    """log(e^e - 1) for e >= 0."""
    return float(epsilon + log1mexp(-np.float64(epsilon)))
