"""Exact draws from the posterior of a logistic regression: rejection that is decided in ball arithmetic.

A proposal is an enclosure that is refined until its acceptance and its grid point are certain. The envelope is built
from enclosures, so that it lies above the density for every dataset. Proofs are in docs/notes/glm.md, section 6.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.exact.balls import WorkingPrecision, enclose, flint, power_of_two
from privsample.distributions.exact.choice import exact_choice
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.laws import normal
from privsample.distributions.exact.lazy import LazyMap, LazyReal, LazyUniform, decide, less, rounded
from privsample.distributions.exact.words import WordStream
from privsample.distributions.models.rejection_envelope import RejectionEnvelope

_SETUP = 256  # bits of the enclosures from which the envelope is made
_SHRINK = -40  # log2 of the relative amount by which the envelope's precision matrices are lowered


@frozen_value
class ExactLogistic:
    """The posterior of coefficients b: e^(-sum_j b_j^2/(2 s_j^2) - weight sum_i log(1 + e^-(rows_i . b))), exactly.

    `rows` are exact: signed by the labels, the intercept's column last, shape (n, d). The prior standard deviation of
    coefficient j is s_j = stds[j] / sqrt(prior_weight). `reach` encloses the largest norm of a row of any dataset in
    units of the prior; the caller proves that no row is longer.
    """

    rows: FloatArray
    stds: tuple[Fraction, ...]
    prior_weight: Fraction
    weight: Fraction

    def deviations(self) -> list[Any]:
        """Enclosures of the prior standard deviations at the working precision."""
        root = enclose(self.prior_weight).sqrt()
        return [enclose(std) / root for std in self.stds]

    def odds(self, matrix: Any, coefficients: Sequence[Any]) -> list[Any]:
        """Enclosures of e^-(rows_i . b)."""
        column = flint().arb_mat(len(coefficients), 1, list(coefficients))
        return [(-margin).exp() for margin in (matrix * column).entries()]


class ExactEnvelope:
    """Gaussian functions above the density, one in each shell around a centre, and proposals from them.

    Parameters
    ----------
    density : ExactLogistic
        The density.
    centre : array, shape (d,)
        Any coefficients; proposals are accepted most often at the mode.
    shells : RejectionEnvelope
        The public plan: radii and precisions in units of the prior.
    reach : Fraction
        Square of the largest norm of a row in units of the prior, for any dataset.
    """

    def __init__(self, density: ExactLogistic, centre: FloatArray, shells: RejectionEnvelope, reach: Fraction) -> None:
        self.density, self.centre = density, [Fraction(float(x)) for x in centre]
        self._known: dict[int, tuple[list[Any], list[Any], Any]] = {}
        with WorkingPrecision(_SETUP):
            self._rows = flint().arb_mat(density.rows.tolist())
            self.bounds = [
                (enclose(Fraction(float(a))) ** 2, _square(float(b)))
                for a, b in zip(shells.inner, shells.outer, strict=True)
            ]
            slope, information = self._derivatives()
            self.gradient_norm = float(sum((x * x for x in slope), start=enclose(0)).upper().sqrt().upper())
            root = enclose(reach).sqrt()
            made = [self._function(k, shells, root, slope, information) for k in range(len(shells.outer))]
        self.matrices, self.means, self.heights = (list(part) for part in zip(*made, strict=True))

    def weights(self) -> list[Any]:
        """The masses of the Gaussian functions up to a factor, as functions from a precision to enclosures."""
        return [lambda bits, k=k: self._mass(k, bits) for k in range(len(self.heights))]

    def log_ratio(self, k: int, standard: Sequence[Any], bits: int) -> tuple[bool | None, Any]:
        """Whether the proposal lies in shell k, and the log of density over envelope, by balls of its normal numbers.

        The ratio is computed also outside of the shell, so that each proposal visits each record.
        """
        deviations, scaled, base = self._at(bits)
        steps = self.steps(k, standard)
        coefficients = [enclose(c) + s * v for c, s, v in zip(self.centre, deviations, steps, strict=True)]
        product = flint().arb(1)
        for odds in self.density.odds(self._rows, coefficients):
            product *= 1 + odds
        prior = sum((w * v + v * v / 2 for w, v in zip(scaled, steps, strict=True)), start=enclose(0))
        rise = prior + enclose(self.density.weight) * (product.log() - base)
        length = sum((v * v for v in steps), start=enclose(0))
        half = sum((z * z for z in standard), start=enclose(0)) / 2
        return self._is_inside(k, length), half - self.heights[k] - rise

    def steps(self, k: int, standard: Sequence[Any]) -> list[Any]:
        """The proposal's distance from the centre in units of the prior, by balls of its standard normal numbers."""
        return [
            mean + sum((m * z for m, z in zip(row, standard, strict=True)), start=enclose(0))
            for mean, row in zip(self.means[k], self.matrices[k], strict=True)
        ]

    def propose(self, words: WordStream) -> tuple[list[LazyReal], bool]:
        """One proposal, as coefficients that can be refined, and whether it is accepted, with certainty."""
        k = exact_choice(self.weights(), words)
        standard, uniform = [normal(words) for _ in self.centre], LazyUniform(words)

        def accepted(bits: int) -> bool | None:
            inside, log_ratio = self.log_ratio(k, [z.ball(bits) for z in standard], bits)
            passed = less(uniform.ball(bits).log(), log_ratio)
            if inside is False or passed is False:
                return False
            return None if inside is None else passed

        return [self._coefficient(k, j, standard) for j in range(len(self.centre))], decide(accepted)

    def _coefficient(self, k: int, j: int, standard: list[LazyReal]) -> LazyReal:
        """Coefficient j of a proposal."""

        def value(*balls: Any) -> Any:
            return enclose(self.centre[j]) + self.density.deviations()[j] * self.steps(k, balls)[j]

        return LazyMap(value, *standard)

    def _is_inside(self, k: int, length: Any) -> bool | None:
        """Whether a squared length lies in shell k; None if it is not certain."""
        low, high = self.bounds[k]
        above = True if k == 0 else less(low, length)
        below = True if high is None else less(length, high)
        if above is False or below is False:
            return False
        return None if above is None or below is None else True

    def _at(self, bits: int) -> tuple[list[Any], list[Any], Any]:
        """Deviations, the centre in units of the prior, and the log of the product of 1 + e^-margin at the centre."""
        if bits not in self._known:
            deviations, product = self.density.deviations(), flint().arb(1)
            for odds in self.density.odds(self._rows, [enclose(c) for c in self.centre]):
                product *= 1 + odds
            scaled = [enclose(c) / s for c, s in zip(self.centre, deviations, strict=True)]
            self._known[bits] = deviations, scaled, product.log()
        return self._known[bits]

    def _mass(self, k: int, bits: int) -> Any:
        """e^height times the determinant of the factor, relative to the first shell."""
        del bits
        found = (self.heights[k] - self.heights[0]).exp()
        for j in range(len(self.centre)):
            found *= self.matrices[k][j][j]
        return found

    def _derivatives(self) -> tuple[list[Any], Any]:
        """Enclosures of U's gradient and the data's part of its Hessian at the centre, in units of the prior."""
        deviations, scaled, _ = self._at(_SETUP)
        odds = self.density.odds(self._rows, [enclose(c) for c in self.centre])
        chances = [x / (1 + x) for x in odds]
        weight, library, d = enclose(self.density.weight), flint(), len(self.centre)
        pull = (library.arb_mat(1, len(chances), chances) * self._rows).entries()
        slope = [w - weight * s * x for w, s, x in zip(scaled, deviations, pull, strict=True)]
        curved = [x * (1 - x) for x in chances]
        table = self._rows.tolist()
        bent = self._rows.transpose() * library.arb_mat(
            [[c * x for x in row] for c, row in zip(curved, table, strict=True)]
        )
        scale = library.arb_mat([[deviations[i] * deviations[j] * weight for j in range(d)] for i in range(d)])
        return slope, library.arb_mat([[bent[i, j] * scale[i, j] for j in range(d)] for i in range(d)])

    def _function(
        self, k: int, shells: RejectionEnvelope, reach: Any, slope: list[Any], information: Any
    ) -> tuple[list[list[Any]], list[Any], Any]:
        """The factor M, the mean m and the log height c of the Gaussian function of shell k, all of them exact numbers.

        With P = (M M')^-1, e^(c - (v - m)'P(v - m)/2) is at least the density inside the shell (glm.md, section 6).
        """
        library, d = flint(), len(slope)
        tilt = enclose(Fraction(float(shells.tilt[k])))
        curvature = _curvature(reach, float(shells.outer[k]))
        full = library.arb_mat(
            [[(tilt if i == j else 0) + curvature * information[i, j] for j in range(d)] for i in range(d)]
        )
        lowered = full * (1 - power_of_two(_SHRINK))
        inverse = _cholesky(lowered).inv().transpose()
        factor = library.arb_mat(
            [[inverse[i, j].mid() if j >= i else library.arb(0) for j in range(d)] for i in range(d)]
        )
        column = library.arb_mat(d, 1, slope)
        mean = [-x.mid() for x in (factor * factor.transpose() * column).entries()]
        back = factor.inv()
        precision = back.transpose() * back
        residual = (column + precision * library.arb_mat(d, 1, mean)).entries()
        first = sum((abs(x) for x in residual), start=enclose(0))  # above the Euclidean norm
        second = sum((abs(x) for x in (lowered - precision).entries()), start=enclose(0))  # above the Frobenius norm
        gap = tilt * power_of_two(_SHRINK) - second
        if not gap > 0:
            raise ArithmeticError(f"the envelope could not be certified with {_SETUP} bits; please report the fields")
        moved = (library.arb_mat(1, d, mean) * precision * library.arb_mat(d, 1, mean))[0, 0] / 2
        height = moved - (1 - tilt) * self.bounds[k][0] / 2 + first * first / (2 * gap)
        return factor.tolist(), mean, height.upper()


def exact_draws(
    envelope: ExactEnvelope,
    count: int,
    proposals: int | None,
    grids: Sequence[Grid],
    rng: np.random.Generator,
) -> tuple[FloatArray, int, int]:
    """`count` draws on the grids, shape (count, d), the number of proposals, and how many were accepted.

    With `proposals`, exactly so many are made, the first accepted ones are kept, and draws from the prior take the
    missing places. With None, proposals are made until enough are accepted.
    """
    kept: list[list[int]] = []
    words, made, accepted = WordStream(rng), 0, 0
    while made < proposals if proposals is not None else accepted < count:
        point, passed = envelope.propose(words)
        made, accepted = made + 1, accepted + passed
        if passed and len(kept) < count:
            kept.append([rounded(x, grid) for x, grid in zip(point, grids, strict=True)])
    while len(kept) < count:
        prior = [LazyMap(lambda z, j=j: envelope.density.deviations()[j] * z, normal(words)) for j in range(len(grids))]
        kept.append([rounded(x, grid) for x, grid in zip(prior, grids, strict=True)])
    drawn = [[grid.point(index) for index, grid in zip(row, grids, strict=True)] for row in kept]
    return np.array(drawn, dtype=np.float64), made, accepted


def _square(radius: float) -> Any:
    """The square of a radius, exactly; None for infinity."""
    return enclose(Fraction(radius)) ** 2 if np.isfinite(radius) else None


def _curvature(reach: Any, radius: float) -> Any:
    """2 psi(reach * radius) rounded down, psi(t) = (e^-t + t - 1)/t^2; 0 at infinity (glm.md, section 3)."""
    if not np.isfinite(radius):
        return flint().arb(0)
    t = reach * enclose(Fraction(radius))
    return (2 * ((-t).expm1() + t) / (t * t)).lower()


def _cholesky(matrix: Any) -> Any:
    """The lower triangular L with L L' near a symmetric matrix, in ball arithmetic."""
    library, d = flint(), matrix.nrows()
    found = [[library.arb(0)] * d for _ in range(d)]
    for i in range(d):
        for j in range(i + 1):
            rest = matrix[i, j] - sum((found[i][m] * found[j][m] for m in range(j)), start=library.arb(0))
            found[i][j] = rest.sqrt() if i == j else rest / found[j][j]
    return library.arb_mat(found)
