"""Account of a user's Markov kernel, whose mixing constants are stated, after a private output."""

from typing import Any

import numpy as np

from privsample._checks import FloatArray, coefficient, number
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.curves import zcdp
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import CurveBound, PrivacyBounds
from privsample.accounting.engine.routes import affordable
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.postprocessing.kernels import by_common, by_dobrushin, contracted_loss, contracted_renyi
from privsample.accounting.selection.chosen import ChosenAccountant, point_bound, pure_bounds, pure_renyi
from privsample.distributions.steps.transition_kernels import check_privacy_points

_UP = 1 + 2.0**-48  # exceeds the rounding error of a few operations
_VALUES, _CALL = 200, 100.0  # approximate number of values of the base that are needed; cost of a call for one value


@frozen_value
class AppliedKernelAccountant(ChosenAccountant):
    """A Markov kernel of the user, applied to the whole output of a mechanism, by constants that the user states.

    Every stated constant gives a bound, and the account is their minimum. The relation is that of the base.

    Parameters
    ----------
    base : Accountant
        The account of the output to which the kernel is applied.
    dobrushin : float, default 1.0
        Dobrushin's coefficient: the largest total variation distance between K(x) and K(x'), in [0, 1].
    doeblin : float, default 1.0
        Doeblin's coefficient gamma, in [0, 1]: K(x) >= (1 - gamma) w for one distribution w and every x.
    ultra_mixing : float, default 1.0
        Ultra-mixing coefficient gamma, in [0, 1]: K(x) >= (1 - gamma) K(x') for all x and x'.
    displacement_zcdp : float, default inf
        rho > 0, such that the Rényi divergence of K(x + v) from K(x) is at most a rho |v|^2 at every order a, for all x
        and v. A finite value requires a Gaussian base.
    privacy_points : array of float, shape (points, 2), optional
        Rows (epsilon, gamma), epsilon >= 0 in nats and gamma in [0, 1]: the hockey-stick divergence of K(x) from K(x')
        at e^epsilon is at most gamma for all x and x'. Such a kernel is (gamma, epsilon)-Dobrushin, or an
        (epsilon, gamma)-locally private randomizer.
    assumptions : frozenset of Assumption, default {STATED, IDEAL_REALS}
        Assumptions of the guarantee. Those of the base are added.

    Raises
    ------
    TypeError
        If `base` is not an account, or not that of Gaussian noise where `displacement_zcdp` is finite.
    ValueError
        If a constant is outside its range.

    Notes
    -----
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 1 (mixing) and Theorem 2 (couplings, here translations);
    docs/notes/kernels.md.

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.GaussianAccountant(sensitivity=1, noise_std=2)
    >>> account = ps.AppliedKernelAccountant(base=base, displacement_zcdp=1 / 8)  # a further Gaussian noise of 2
    >>> round(float(base.rdp(2)), 6), round(float(account.rdp(2)), 6)
    (0.25, 0.125)
    """

    base: Accountant
    dobrushin: float = 1.0
    doeblin: float = 1.0
    ultra_mixing: float = 1.0
    displacement_zcdp: float = np.inf
    privacy_points: FloatArray | None = None
    assumptions: frozenset[Assumption] = frozenset({Assumption.STATED, Assumption.IDEAL_REALS})

    def __post_init__(self) -> None:
        if not isinstance(self.base, Accountant):
            raise TypeError(f"base must be an account, got {type(self.base).__name__}; use mechanism.accountant")
        set_fields(self, dobrushin=coefficient(dobrushin=self.dobrushin), doeblin=coefficient(doeblin=self.doeblin))
        set_fields(self, ultra_mixing=coefficient(ultra_mixing=self.ultra_mixing))
        if not number(displacement_zcdp=self.displacement_zcdp) > 0.0:
            raise ValueError(f"displacement_zcdp must be > 0, got {self.displacement_zcdp!r}")
        if self.displacement_zcdp < np.inf and not isinstance(self.base, GaussianAccountant):
            raise TypeError(
                "displacement_zcdp needs a base of Gaussian noise, whose shift it covers in part, got "
                f"{type(self.base).__name__}; state mixing constants in its place"
            )
        set_fields(self, displacement_zcdp=float(self.displacement_zcdp))
        set_fields(self, privacy_points=check_privacy_points(self.privacy_points))
        set_fields(self, assumptions=self.assumptions | self.base.assumptions)

    @property
    def source(self) -> str:
        """The theorems, and the source of the base."""
        return "Balle, Barthe, Gaboardi and Geumlek 2019, Theorems 1 and 2; docs/notes/kernels.md; " + self.base.source

    @property
    def _doeblin(self) -> float:
        """Ultra-mixing implies Doeblin's condition with the same constant."""
        return min(self.doeblin, self.ultra_mixing)

    @property
    def _dobrushin(self) -> float:
        """Doeblin's condition implies Dobrushin's with the same constant, and so does a privacy point with another.

        An (e, gamma)-private pair has at most the total variation distance (e^e - 1 + 2 gamma)/(e^e + 1).
        """
        stated = min(self.dobrushin, self._doeblin)
        if self.privacy_points is None:
            return stated
        epsilon, gamma = self.privacy_points.T
        distances = np.tanh(epsilon / 2) + (1.0 - np.tanh(epsilon / 2)) * gamma
        return min(stated, float(distances.min()) * _UP)

    def _hockey_stick(self, epsilon: float) -> float:
        """Upper bound on the divergence of two rows at e^epsilon, in which it is convex and does not increase."""
        assert self.privacy_points is not None
        epsilons, gammas = np.vstack([[0.0, self._dobrushin], self.privacy_points]).T
        gammas = np.minimum.accumulate(gammas)
        after = int(np.searchsorted(epsilons, epsilon, side="right"))
        if after == len(epsilons):
            return float(gammas[-1])
        low, high = epsilons[after - 1], epsilons[after]
        share = np.expm1(epsilon - low) / np.expm1(high - low) * (2.0 - _UP)
        return min(float(gammas[after - 1] + (gammas[after] - gammas[after - 1]) * share) * _UP, 1.0)

    @property
    def _log_range(self) -> float:
        """Bound on the log ratio of two rows: by ultra-mixing, or by a privacy point with gamma 0."""
        with np.errstate(divide="ignore"):
            found = float(-np.log1p(-self.ultra_mixing)) * _UP
        if self.privacy_points is not None:
            epsilon, gamma = self.privacy_points.T
            found = min([found, *epsilon[gamma == 0.0].tolist()])
        return found

    @cached
    def _base(self) -> PrivacyBounds:
        """The bounds of the base, tabulated if a search needs too many values."""
        return affordable(within_budget(self.base.bounds, curve=_VALUES, renyi=_VALUES))

    @property
    def _pure(self) -> float:
        """Pure epsilon, given the log ratio of two rows."""
        return contracted_loss(self.base.pure_epsilon, self._log_range)

    @property
    def _displaced(self) -> float:
        """zCDP of Theorem 2: the noise covers one part of the shift, the kernel the other (kernels.md, "Translations").

        The least of (d - w)^2 / (2 s^2) + rho w^2 over w is d^2 / (2 s^2 + 1/rho).
        """
        if not isinstance(self.base, GaussianAccountant) or self.displacement_zcdp == np.inf:
            return np.inf
        ratio = self.base.sensitivity / np.hypot(np.sqrt(2.0) * self.base.noise_std, self.displacement_zcdp**-0.5)
        return float(ratio * ratio * _UP)

    def _bounds(self) -> PrivacyBounds:
        """The least of all bounds that follow from the stated constants."""
        base, pure, displaced, gamma = self._base, self._pure, self._displaced, self._dobrushin
        infinity_mass = self.base.infinity_mass if gamma > 0.0 else 0.0
        contracted = contracted_renyi(base.renyi, gamma)

        def renyi(orders: FloatArray) -> FloatArray:
            least = np.minimum(contracted(orders), pure_renyi(pure, orders))
            return np.minimum(least, displaced * orders) if displaced < np.inf else least

        known: dict[str, Any] = {
            "infinity_mass": infinity_mass,
            "order_limit": np.inf if np.isfinite(pure) or gamma == 0.0 else base.order_limit,
            "pure_epsilon": 0.0 if gamma == 0.0 else pure,
            "zcdp": min(base.zcdp, zcdp.of_pure(pure), displaced) if infinity_mass == 0.0 else np.inf,
            "exact": frozenset(),
            "curve_bounds": self._curves(gamma)
            + (pure_bounds("contracted pure guarantee", pure) if infinity_mass == 0.0 else ()),
            "own_curve_cost": 3 * (_CALL + base.curve_cost),
            "own_renyi_cost": 0.5 + base.renyi_cost,
            "tabulated": base.from_table,
        }
        return PrivacyBounds.from_renyi(renyi, **known)

    def _curves(self, gamma: float) -> tuple[CurveBound, ...]:
        """Theorem 1 applied at each epsilon of the base's privacy curve."""
        with np.errstate(divide="ignore"):
            log_gamma = float(np.log(gamma))
        curves = [
            point_bound(
                f"Dobrushin {gamma:.4g}",
                lambda e: min(log_gamma + float(views.log_delta(self._base, np.asarray(e))), 0),
            )
        ]
        if self.privacy_points is not None:
            curves.append(
                point_bound("(gamma, epsilon)-Dobrushin", lambda e: by_dobrushin(self._base, e, self._hockey_stick))
            )
        if 0.0 < self._doeblin < 1.0:
            common = self._doeblin  # largest possible divergence of a row from the common distribution
            curves.append(
                point_bound(f"Doeblin {common:.4g}", lambda e: by_common(self._base, e, common, lambda _: common))
            )
        if 0.0 < self.ultra_mixing < 1.0:
            curves.append(
                point_bound(
                    f"ultra-mixing {self.ultra_mixing:.4g}",
                    lambda e: by_common(self._base, e, self.ultra_mixing, None),
                )
            )
        return tuple(curves)
