"""The account of a Markov kernel that is applied to a private output: what a random step afterwards gains."""

from dataclasses import field, replace
from functools import singledispatch
from typing import Any

import numpy as np

from privsample._checks import FloatArray, Real, positive_integer
from privsample._logspace import half_square, log1mexp
from privsample._value import put, value
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Kind, Route, View
from privsample.accounting.composition.composed import Composed
from privsample.accounting.curves.conversion import Curve, PointCurve
from privsample.accounting.loss import LossPair
from privsample.accounting.postprocessing.mixing import MixingConstants
from privsample.accounting.profiles import ProfileAccountant, WorstPair
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.accounting.selection.chosen import ChosenAccountant, pure_curve, pure_renyi
from privsample.distributions.steps.kernels import iterated, normalised

_ULP = float(np.finfo(np.float64).eps)
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_MOST = 1 << 20  # masses of output laws that are compared


@value
class KernelAccountant(ChosenAccountant):
    """One code that `base` accounts for, sent through a row-stochastic `matrix`, (codes, outcomes).

    Where the base's account knows the laws of the code (`code_laws`) it may stand among independent others, of which
    each neighbour changes one, and the account is exact unless the laws are too many; `explain` names the bounds beside
    it. Else the least of the bounds. Kind: exact, or upper bound. Source: Balle, Barthe, Gaboardi and Geumlek 2019,
    Theorem 1, and what is sharper: docs/notes/kernels.md.
    """

    base: Accountant
    matrix: FloatArray
    assumptions: frozenset[Assumption] = frozenset({Assumption.IDEAL_REALS})
    _constants: MixingConstants = field(init=False, repr=False, compare=False)
    _pairs: tuple[WorstPair, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(
                f"base must be an account, got {type(self.base).__name__}; a mechanism's is its .accountant"
            )
        constants = MixingConstants(matrix=self.matrix)
        put(self, matrix=constants.matrix, _constants=constants)
        put(self, assumptions=self.assumptions | self.base.assumptions)
        known = code_laws(self.base)
        if known is not None and known.laws.shape[1] != len(self.matrix):
            raise ValueError(
                f"matrix must have one row for each of the base's {known.laws.shape[1]} codes, got {len(self.matrix)}"
            )
        forgets = constants.dobrushin == 0.0
        put(self, _pairs=() if known is None or forgets else known.through(self.matrix).pairs)

    @property
    def constants(self) -> MixingConstants:
        """The kernel's mixing constants."""
        return self._constants

    def after(self, steps: int) -> "KernelAccountant":
        """The account of `steps` steps of this kernel."""
        return replace(self, matrix=iterated(self.matrix, steps))

    @property
    def source(self) -> str:
        """The theorem, and the base's."""
        return f"Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 1; docs/notes/kernels.md; {self.base.source}"

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """One pair for all ordered pairs of output laws, where they are known."""
        return self._pairs

    @property
    def failure(self) -> float:
        """The base's."""
        return self.base.failure if self._constants.dobrushin > 0.0 else 0.0

    @property
    def max_loss(self) -> float:
        """2 artanh(tanh(e/2) tanh(r/2)), e the base's and r the kernel's largest log ratio in a column (Birkhoff)."""
        return self.pairs[0].max_loss if self.pairs else self._bound_on_loss

    @property
    def _bound_on_loss(self) -> float:
        """Whatever the output laws are."""
        return contracted_loss(self.base.max_loss, self._constants.log_range)

    @property
    def zcdp(self) -> float:
        """The base's, or what the pure guarantee implies."""
        return min(self.base.zcdp, half_square(self.max_loss)) if self.failure == 0.0 else np.inf

    @property
    def _renyi_limit(self) -> float:
        return np.inf if np.isfinite(self.max_loss) else self.base._renyi_limit

    @property
    def _adds_by_curve(self) -> bool:
        return bool(self.pairs)

    @property
    def _curve_is_least(self) -> bool:
        return bool(self.pairs)

    @property
    def _curve_name(self) -> str:
        return "output laws"

    def _kind(self, view: View) -> Kind:
        return "exact" if self.pairs and self.base.kind(view) == "exact" else "upper bound"

    def group(self, size: int) -> Accountant:  # type: ignore[override]
        """The kernel behind the base's own group; codes that change each by itself go through it each by itself.

        Where nothing is known of the codes, several may change at once: then the general bound.
        """
        if code_laws(self.base) is None:
            return self if positive_integer(size=size) == 1 else Accountant.group(self, size)
        match self.base.group(size):
            case Composed(entries=entries):
                return Composed(entries=tuple((self._over(each), times) for each, times in entries))
            case changed:
                return self._over(changed)

    def _renyi(self, orders: FloatArray) -> FloatArray:
        if self.pairs:
            return self.pairs[0].renyi(orders)
        return np.minimum(self._least(orders), pure_renyi(self.max_loss, orders))

    def _log_curve_draft(self, epsilon: Real) -> FloatArray:
        return (Accountant if self.pairs else ChosenAccountant)._log_curve_draft(self, epsilon)

    def _routes(self, delta: float, *, every: bool = False) -> list[Route]:
        exact = Accountant._routes(self, delta) if self.pairs else []
        return exact if exact and not every else exact + ChosenAccountant._routes(self, delta)[bool(exact) :]

    def _bounds(self) -> dict[str, Curve]:
        """Renyi: power divergences contract by Dobrushin's constant (Raginsky 2016; Cohen et al. 1993)."""
        gamma, base = self._constants.dobrushin, self.base._renyi

        def contracted(orders: FloatArray) -> FloatArray:
            s = orders - 1.0
            with np.errstate(over="ignore", divide="ignore"):
                moment = s * base(orders)
                near = np.log1p(gamma * np.expm1(np.minimum(moment, 1.0)))
                far = np.logaddexp(np.log1p(-gamma), np.log(gamma) + moment)
            bound = np.where(moment < 1.0, near, far) / s * (1 + 16 * _ULP)
            return np.where(gamma < 1.0, bound, base(orders))

        return {f"Dobrushin {gamma:.4g}, by Renyi curve": contracted}

    def _curves(self, least: float) -> dict[str, PointCurve]:
        """Theorem 1 at each epsilon of the base's whole privacy curve, in its sharper forms."""
        del least
        constants = self._constants
        gamma, ultra = constants.doeblin, constants.ultra_mixing
        curves: dict[str, PointCurve] = {"(gamma, epsilon)-Dobrushin": self._by_dobrushin}
        if gamma < 1.0:
            curves[f"Doeblin {gamma:.4g}"] = lambda e: self._by_common(e, gamma, constants.beyond_common)
        if ultra < 1.0:
            curves[f"ultra-mixing {ultra:.4g}"] = lambda e: self._by_common(e, ultra, None)
        return curves

    def _all_curves(self, least: float = -np.inf) -> dict[str, PointCurve]:
        pure = np.isfinite(self._bound_on_loss) and self.failure == 0.0
        return self._curves(least) | ({"contracted pure guarantee": pure_curve(self._bound_on_loss)} if pure else {})

    def _by_dobrushin(self, epsilon: float) -> float:
        """delta(e) times the kernel's constant at log(1 + (e^e - 1)/delta(e)) (Theorem 1, part 2)."""
        base = float(self.base.log_delta(epsilon))
        if np.isneginf(base):
            return -np.inf
        with np.errstate(divide="ignore"):
            inner = float(np.logaddexp(0.0, _log_expm1(epsilon) - base))
            factor = np.log(self._constants.hockey_stick(inner * (1 - 8 * _ULP)))
        return base + float(factor) + 8 * _ULP * (1.0 - max(base, -1e300))

    def _by_common(self, epsilon: float, gamma: float, beyond: Any) -> float:
        """(1 - b) B + gamma b delta(e'), e^e' = 1 + (e^e - 1)/gamma, b = e^(e - e') (Theorem 1, parts 3 and 4).

        B: what a row has beyond e^e times the common law, in place of 1; ultra-mixing needs no such term.
        """
        if gamma == 0.0:
            return -np.inf
        log_gamma, grown = np.log(gamma), _log_expm1(epsilon)
        log_denominator = float(np.logaddexp(log_gamma, grown))  # log(gamma e^e')
        inner = float(np.logaddexp(0.0, grown - log_gamma)) * (1 - 8 * _ULP)
        found = float(2 * log_gamma + epsilon - log_denominator + self.base.log_delta(inner))
        if beyond is not None:
            with np.errstate(divide="ignore"):
                rest = grown - log_denominator + np.log1p(-gamma) + np.log(beyond(epsilon))
            found = float(np.logaddexp(found, rest))
        return min(found + 32 * _ULP * (1.0 + abs(max(found, -1e300))), 0.0)


def contracted_loss(epsilon: float, log_range: float) -> float:
    """The loss that a pure guarantee of `epsilon` has behind a kernel of this `log_range`. Kind: exact for the worst.

    log((1 + e^(e + r))/(e^e + e^r)): a column between m and m e^r is largest in ratio for two-valued columns and two
    laws of randomized response. Source: Birkhoff 1957; docs/notes/kernels.md.
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


@value
class CodeLaws:
    """What neighbours can do to one code: `laws`, (inputs, codes), and which inputs they can exchange, (pairs, 2)."""

    laws: FloatArray
    exchanged: Any

    @property
    def pairs(self) -> tuple[WorstPair, ...]:
        """One for all ordered pairs of laws; none where they are too many."""
        first, second = np.concatenate([self.exchanged, self.exchanged[:, ::-1]]).T
        if first.size * self.laws.shape[1] > _MOST:
            return ()
        with np.errstate(divide="ignore"):
            log_laws = np.log(self.laws)
        slack = _ULP * (self.laws.shape[1] + 16)
        return (WorstPair(log_p=log_laws[first], log_q=log_laws[second], slack=slack),)

    def through(self, matrix: FloatArray) -> "CodeLaws":
        """The laws behind a kernel."""
        return replace(self, laws=self.laws @ normalised(matrix))


@singledispatch
def code_laws(account: Accountant) -> CodeLaws | None:
    """The laws of the one code that neighbours change, where the account knows them."""
    del account
    return None


@code_laws.register
def _(account: RandomizedResponseAccountant) -> CodeLaws:
    count = account.categories
    laws = np.exp(np.where(np.eye(count) > 0, 0.0, -account.log_odds))
    exchanged = np.argwhere(np.triu(np.ones((count, count)), 1))
    return CodeLaws(laws=laws / laws.sum(axis=1, keepdims=True), exchanged=exchanged)


@code_laws.register
def _(account: ProfileAccountant) -> CodeLaws | None:
    ends = account.relation.graph.ends
    return CodeLaws(laws=account.laws, exchanged=ends) if len(ends) else None


@code_laws.register
def _(account: KernelAccountant) -> CodeLaws | None:
    known = code_laws(account.base)
    return None if known is None else known.through(account.matrix)
