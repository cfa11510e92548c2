"""Privacy curve of the best of K runs, derived from the privacy curve of one run: the pointwise bound.

For epsilon >= 0, delta(epsilon) <= E_{L ~ P} sup_u (phi(u) - e^(epsilon - L) phi(v(u)))_+. The right side is an
f-divergence of (P, Q), so a dominating pair can replace (P, Q). Proof: docs/notes/selection.md, section 2.
"""

from dataclasses import replace

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.selection.ranks import RankCells, ResolvedPair, rank_cells
from privsample.distributions.runs import RepetitionDistribution

_STEP, _MOST_STEPS, _BLOCK, _MOST_RUNS, _HIGHEST = 0.005, 4000, 1 << 21, 1000, 600.0


@frozen_value
class SelectedPair:
    """One ordered pair of neighbours of the base, with the bounds on the ranks of the selected run.

    `factors` are increasing values of c, and `gains` are sup_u (phi(u) - c phi(v(u)))_+ at these values, rounded up.
    """

    resolved: ResolvedPair
    cells: RankCells
    factors: FloatArray
    gains: FloatArray

    @staticmethod
    def of(pair: LossPair, runs: RepetitionDistribution, log_share: float) -> "SelectedPair":
        """The pair with losses resolved until at most a fraction e^log_share of the outcomes is left."""
        resolved = ResolvedPair.of(pair, log_share)
        cells = rank_cells(resolved, runs)
        factors, gains = _gains(cells)
        return SelectedPair(resolved=resolved, cells=cells, factors=factors, gains=gains)

    def refined(self, log_share: float) -> "SelectedPair":
        """The same pair with losses resolved down to a smaller fraction of the outcomes."""
        return replace(self, resolved=ResolvedPair.of(self.resolved.pair, log_share))

    def log_delta(self, epsilon: float) -> float:
        """log of the pointwise bound at epsilon >= 0.

        The gain is convex in c = e^(epsilon - L), so linear interpolation between nodes is an upper bound
        (selection.md,
        section 2, (iii)).
        """
        c = np.exp(np.minimum(epsilon - self.resolved.losses, _HIGHEST))
        with np.errstate(divide="ignore"):
            gain = np.log(np.interp(c, self.factors, self.gains))
        total = np.logaddexp.reduce(
            self.resolved.log_mass + gain, initial=self.resolved.log_infinite + np.log(self.gains[0])
        )
        return min(float(total) + 1e-13, 0.0)


def _gains(cells: RankCells) -> tuple[FloatArray, FloatArray]:
    """Increasing factors c from 0, and sup_u (phi(u) - c phi(v(u)))_+ at each, rounded up; zero at the last factor."""
    log_ratio = cells.log_ratio
    least = min(-8.0, log_ratio - 8.0)
    count = int(min((log_ratio - least) / _STEP, _MOST_STEPS)) + 2
    factors = np.append(0.0, np.exp(np.linspace(least, min(log_ratio, _HIGHEST), count)))
    best, other = np.exp(cells.best), np.exp(cells.other)
    rows = max(1, _BLOCK // len(best))
    gains = [(best - factors[start : start + rows, None] * other).max(axis=1) for start in range(0, len(factors), rows)]
    found = np.maximum(np.concatenate(gains), 0.0) + 4e-16 * best.max()
    if log_ratio <= _HIGHEST:
        found[-1] = 0.0
        factors[-1] *= 1.0 + 1e-14
    return factors, found


def all_runs_log_delta(mu: float, runs: RepetitionDistribution, epsilon: float) -> float:
    """log of sum_k P(K = k) D_{e^epsilon} of k composed Gaussian runs, at epsilon >= 0: K and all outputs are released.

    The probability of more than `_MOST_RUNS` runs is added to delta. Source: joint convexity; Dong, Roth and Su 2022,
    Corollary 3.3; docs/notes/selection.md, section 3.
    """
    k = np.arange(1.0, min(runs.maximum, _MOST_RUNS) + 1.0)
    mass, shift = np.exp(runs.log_mass(k)), mu * np.sqrt(k)
    with np.errstate(over="ignore"):
        away = epsilon / shift
    upper = special.ndtr(shift / 2 - away)
    lower = np.exp(np.minimum(epsilon + special.log_ndtr(-shift / 2 - away), 0.0))
    rest = max(-np.expm1(runs.log_zero_probability) - mass.sum(), 0.0) + 1e-13
    return min(float(np.log(mass @ np.maximum(upper - lower, 0.0) + rest)), 0.0)
