"""The posterior of a logistic regression with a Gaussian prior, in units of the prior, and its exact sampler.

Proofs are in docs/notes/glm.md.
"""

from functools import partial

import numpy as np
from scipy import linalg, special

from privsample._checks import FloatArray
from privsample._entropy import draw_with_entropy_check
from privsample._value import frozen_value, set_fields
from privsample.distributions.models.rejection_envelope import RejectionEnvelope

_CELLS = 1 << 21  # records times proposals held at once
_STEPS = 100


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
        margins = points @ self.rows.T
        losses = np.maximum(-margins, 0.0) + np.log1p(np.exp(-np.abs(margins)))
        return np.asarray(0.5 * (points * points).sum(axis=1) + self.weight * losses.sum(axis=1))

    def gradient(self, point: FloatArray) -> FloatArray:
        """The gradient of U at one point, shape (d,)."""
        return np.asarray(point - self.weight * (special.expit(-(self.rows @ point)) @ self.rows))

    def information(self, point: FloatArray) -> FloatArray:
        """The Hessian of U minus the identity of the prior, H, shape (d, d)."""
        chance = special.expit(self.rows @ point)
        return np.asarray(self.weight * (self.rows.T * (chance * (1.0 - chance))) @ self.rows)

    def near_mode(self) -> FloatArray:
        """An approximate mode, by Newton's method with step halving.

        The sampler is exact for any point; its acceptance rate is largest at the mode.
        """
        point = np.zeros(self.rows.shape[1])
        identity = np.eye(len(point))
        for _ in range(_STEPS):
            slope = self.gradient(point)
            step = -linalg.solve(identity + self.information(point), slope, assume_a="pos")
            fall = -float(slope @ step)
            if fall <= 1e-16 * len(point):
                break
            lengths = 0.5 ** np.arange(30)
            trials = self._energies(point + lengths[:, None] * step)
            better = np.flatnonzero(trials <= self.energy(point[None])[0] - 1e-4 * lengths * fall)
            if not len(better):
                break
            point = point + lengths[better[0]] * step
        return point

    def sample(self, count: int, shells: RejectionEnvelope, rng: np.random.Generator) -> tuple[FloatArray, int]:
        """`count` independent exact draws, shape (count, d), and the number of proposals.

        Rejection from Gaussian functions above the density, one for each shell around a point near the mode. A proposal
        from the function of shell k is accepted only inside shell k, so accepted points follow the posterior for any
        centre. Raises OSError if the operating system provides no entropy.
        """
        envelope = _Envelope.around(self, self.near_mode(), shells)
        drawn, found, tried, batch = [np.empty((0, self.rows.shape[1]))], 0, 0, 2 * count
        while found < count:
            batch = max(1, min(batch, _CELLS // max(len(self.rows), 1)))
            accepted, last = draw_with_entropy_check(rng, partial(envelope.accepted, batch, count - found, rng))
            drawn.append(accepted)
            found, tried, batch = found + len(accepted), tried + last, 2 * batch
        return np.concatenate(drawn), tried

    def _energies(self, points: FloatArray) -> FloatArray:
        """`energy` in blocks that fit in memory."""
        width = max(1, _CELLS // max(len(self.rows), 1))
        return np.concatenate([self.energy(points[k : k + width]) for k in range(0, len(points), width)])


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
        which = rng.choice(len(self.shares), size=proposals, p=self.shares)
        noise = rng.standard_normal((proposals, len(self.centre)))
        steps = np.empty_like(noise)
        for k in np.unique(which):
            mine = which == k
            steps[mine] = self.means[k] + linalg.solve_triangular(self.roots[k], noise[mine].T, trans="T", lower=True).T
        chance = -rng.standard_exponential(proposals)
        length = np.sqrt((steps * steps).sum(axis=1))
        inside = np.flatnonzero((length > self.shells.inner[which]) & (length <= self.shells.outer[which]))
        steps, which = steps[inside], which[inside]
        bent = ((steps @ self.information) * steps).sum(axis=1) * self.shells.curvature[which]
        above = self.shells.log_heights[which] - steps @ self.slope
        above -= 0.5 * (self.shells.tilt[which] * length[inside] ** 2 + bent)
        points = self.centre + steps
        density = self.distribution.energy(self.centre[None])[0] - self.distribution.energy(points)
        passed = np.flatnonzero(chance[inside] <= density - above)[:wanted]
        used = proposals if len(passed) < wanted else int(inside[passed[-1]]) + 1
        return points[passed], used
