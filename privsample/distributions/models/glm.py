"""The posterior of a logistic regression with a Gaussian prior, in units of the prior, and its exact sampler.

Proofs are in docs/notes/glm.md.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from privsample._checks import FloatArray
from privsample._entropy import draw_with_entropy_check
from privsample._value import frozen_value, set_fields
from privsample.distributions.models.rejection_envelope import RejectionEnvelope

_CELLS = 1 << 21  # records times proposals held at once
_FACTORS = 512  # records whose factors, each at most 2, are multiplied before the logarithm
_CACHED = 1 << 16  # records times points that stay in the cache of a processor
CONSTANT_STEPS = 40  # Newton steps in constant time; 35 were needed in the worst of the cases of glm.md, section 5
_MOST_STEPS = 2000


@frozen_value
class LogisticPosteriorDensity:
    """The density e^-U on R^d up to a constant, with U(w) = |w|^2/2 + weight sum_i log(1 + e^-(z_i.w)).

    `rows` holds the z_i, shape (n, d): a record's features in units of the prior, times +1 or -1 by its label.
    """

    rows: FloatArray
    weight: float

    def __post_init__(self) -> None:
        rows = np.array(self.rows, dtype=np.float64)
        rows.flags.writeable = False
        set_fields(self, rows=rows)

    def energy(self, points: FloatArray) -> FloatArray:
        """U at points of shape (k, d); shape (k,)."""
        losses = np.zeros(len(points))
        for start in range(0, len(self.rows), _FACTORS):
            rows = self.rows[start : start + _FACTORS].T
            for first in range(0, len(points), _CACHED // _FACTORS):
                some = slice(first, first + _CACHED // _FACTORS)
                margins = points[some] @ rows
                losses[some] -= np.minimum(margins, 0.0).sum(axis=1)
                np.exp(np.negative(np.abs(margins, out=margins), out=margins), out=margins)
                losses[some] += np.log((1.0 + margins).prod(axis=1))  # of each record it would cost three times as much
        return np.asarray(0.5 * (points * points).sum(axis=1) + self.weight * losses)

    def gradient(self, point: FloatArray) -> FloatArray:
        """The gradient of U at one point, shape (d,)."""
        return np.asarray(point - self.weight * (special.expit(-(self.rows @ point)) @ self.rows))

    def information(self, point: FloatArray) -> FloatArray:
        """The Hessian of U minus the identity of the prior, H, shape (d, d)."""
        chance = special.expit(self.rows @ point)
        return np.asarray(self.weight * (self.rows.T * (chance * (1.0 - chance))) @ self.rows)

    def near_mode(self, *, tolerance: float = 1e-6, least_steps: int = 0) -> FloatArray:
        """A point where the gradient is at most `tolerance` in norm, by at least `least_steps` Newton steps.

        A step of length t times Newton's, t = log(1 + d)/d with d the largest norm of a row times the length of
        Newton's step, lowers U without a search along the line, because the third derivative of U is bounded by that
        norm times the second (Sun and Tran-Dinh 2019). The sampler is exact for any point; it accepts most at the mode.
        """
        point, identity = np.zeros(self.rows.shape[1]), np.eye(self.rows.shape[1])
        reach = float(np.sqrt((self.rows * self.rows).sum(axis=1).max(initial=0.0)))
        for count in range(_MOST_STEPS):
            slope = self.gradient(point)
            if count >= least_steps and np.sqrt(slope @ slope) <= tolerance:
                break
            step = -linalg.solve(identity + self.information(point), slope, assume_a="pos")
            distance = reach * float(np.sqrt(step @ step))
            point = point + (np.log1p(distance) / distance if distance else 1.0) * step
        return point

    def sample(self, count: int, shells: RejectionEnvelope, rng: np.random.Generator) -> tuple[FloatArray, int]:
        """`count` independent exact draws, shape (count, d), and the number of proposals.

        Rejection from Gaussian functions above the density, one for each shell around a point near the mode. A proposal
        from the function of shell k is accepted only inside shell k, so accepted points follow the posterior for any
        centre. Raises OSError if the operating system provides no entropy.
        """
        envelope = _Envelope.around(self, self.near_mode(tolerance=shells.gradient_tolerance), shells)
        drawn, found, tried, batch = [np.empty((0, self.rows.shape[1]))], 0, 0, 2 * count
        while found < count:
            batch = self._at_once(batch)
            accepted, last = draw_with_entropy_check(rng, partial(envelope.accepted, batch, count - found, rng))
            drawn.append(accepted)
            found, tried, batch = found + len(accepted), tried + last, 2 * batch
        return np.concatenate(drawn), tried

    def sample_in_constant_time(
        self, count: int, proposals: int, shells: RejectionEnvelope, rng: np.random.Generator
    ) -> tuple[FloatArray, int]:
        """The first `count` accepted of a public number of proposals, shape (count, d), and how many were accepted.

        Where too few are accepted, draws from the prior take the missing places (glm.md, section 5). The density is
        computed at every proposal, so that the number of visits to a record does not depend on the records.
        """
        centre = self.near_mode(tolerance=shells.gradient_tolerance, least_steps=CONSTANT_STEPS)
        slope = self.gradient(centre)
        if not np.sqrt(slope @ slope) <= shells.gradient_tolerance:  # not known to happen; exact at any centre
            drawn, _ = self.sample(count, shells, rng)
            return drawn, count
        envelope = _Envelope.around(self, centre, shells)
        drawn = draw_with_entropy_check(rng, lambda: rng.standard_normal((count, self.rows.shape[1])))
        found, block = 0, self._at_once(proposals)
        for start in range(0, proposals, block):
            size = min(block, proposals - start)
            points, passed = draw_with_entropy_check(rng, partial(envelope.propose, size, rng, every=True))
            chosen = points[passed][: max(count - found, 0)]
            drawn[found : found + len(chosen)] = chosen
            found += int(passed.sum())
        return drawn, found

    def _at_once(self, proposals: int) -> int:
        """The number of proposals whose margins fit in memory, at most the given one."""
        return max(1, min(proposals, _CELLS // max(len(self.rows), 1)))


@frozen_value
class _Envelope:
    """Gaussian functions e^(height - g.v - v'Pv/2), one for each shell, above e^(U(w0) - U(w0 + v)) in that shell."""

    distribution: LogisticPosteriorDensity
    shells: RejectionEnvelope
    centre: FloatArray
    slope: FloatArray
    information: FloatArray
    roots: FloatArray
    means: FloatArray
    shares: FloatArray

    @classmethod
    def around(
        cls, distribution: LogisticPosteriorDensity, centre: FloatArray, shells: RejectionEnvelope
    ) -> "_Envelope":
        """The envelope around `centre`.

        `roots` holds the Cholesky factors L of P = LL', shape (shells, d, d); `shares` the relative masses of the
        functions.
        """
        slope, information = distribution.gradient(centre), distribution.information(centre)
        precisions = shells.tilt[:, None, None] * np.eye(len(centre)) + shells.curvature[:, None, None] * information
        roots: FloatArray = np.linalg.cholesky(precisions).astype(np.float64, copy=False)
        scaled = np.linalg.solve(roots, np.broadcast_to(slope, (len(roots), len(slope)))[..., None])[..., 0]
        means = -np.linalg.solve(np.swapaxes(roots, 1, 2), scaled[..., None])[..., 0]
        log_masses = (
            shells.log_heights
            + 0.5 * (scaled**2).sum(axis=1)
            - np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        )
        return cls(
            distribution=distribution,
            shells=shells,
            centre=centre,
            slope=slope,
            information=information,
            roots=roots,
            means=means,
            shares=special.softmax(log_masses),
        )

    def accepted(self, proposals: int, wanted: int, rng: np.random.Generator) -> tuple[FloatArray, int]:
        """The first `wanted` accepted points at most, among `proposals` proposals, and the number of proposals used."""
        points, passed = self.propose(proposals, rng)
        places = np.flatnonzero(passed)[:wanted]
        return points[places], proposals if len(places) < wanted else int(places[-1]) + 1

    def propose(
        self, proposals: int, rng: np.random.Generator, *, every: bool = False
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Proposals, shape (proposals, d), and which are accepted, shape (proposals,).

        With `every`, the density is computed also at proposals outside of their shell, which are never accepted.
        """
        which = rng.choice(len(self.shares), size=proposals, p=self.shares)
        noise = rng.standard_normal((proposals, len(self.centre)))
        steps = np.empty_like(noise)
        for k in np.unique(which):
            mine = which == k
            steps[mine] = self.means[k] + linalg.solve_triangular(self.roots[k], noise[mine].T, trans="T", lower=True).T
        chance = -rng.standard_exponential(proposals)
        length = np.sqrt((steps * steps).sum(axis=1))
        inside = (length > self.shells.inner[which]) & (length <= self.shells.outer[which])
        passed = np.zeros(proposals, dtype=np.bool_)
        tested = np.arange(proposals) if every else np.flatnonzero(inside)
        own, shell = steps[tested], which[tested]
        bent = ((own @ self.information) * own).sum(axis=1) * self.shells.curvature[shell]
        above = self.shells.log_heights[shell] - own @ self.slope
        above -= 0.5 * (self.shells.tilt[shell] * length[tested] ** 2 + bent)
        density = self.distribution.energy(self.centre[None])[0] - self.distribution.energy(self.centre + own)
        passed[tested] = inside[tested] & (chance[tested] <= density - above)
        return self.centre + steps, passed
