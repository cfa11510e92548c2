"""The loss of one epoch of random allocation as a table, for compositions (allocation.md, step 7)."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.curves.discretize import split_mass
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.subsampling.ratio_law import RatioCurves, RatioLaw

_DEEPEST = -110.0  # log delta, relative to that at epsilon 0, at which the table ends
_LOWEST = 12.0  # the lowest loss of the table, negated: the mass of lower losses under P is at most e^-12
_FINE = (
    2.5e-4  # spacing of the losses next to 0, relative to their deviation, and of far losses, relative to themselves
)
_LINEAR = 3.0  # deviations up to which the spacing is nearly uniform
_ULP = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, eq=False)
class LossTable:
    """A discrete pair that dominates a pair of which both privacy curves are known.

    loss, log_p: losses and log P masses, both shape (k,). log_infinite: log of the P mass at an infinite loss. end: the
    loss up to which the table is tight; +inf if no loss is larger than those of the table.
    """

    loss: FloatArray
    log_p: FloatArray
    log_infinite: float
    end: float

    @classmethod
    def of(cls, pair: LossPair) -> Self:
        """Connect the dots of the likelihood ratio's curve, which is convex on both sides of 1, with one slope at 1."""
        log_scale = float(pair.log_delta(np.zeros(1))[0])
        scale = 2.5 * float(np.exp(log_scale))  # the deviation of a Gaussian loss with this delta
        top = pair.least_epsilon(log_scale + _DEEPEST)
        bottom = min(pair.reverse().least_epsilon(log_scale + _DEEPEST), _LOWEST)
        ends = top >= pair.max_divergence * (1.0 - 4 * _ULP)
        near, far = np.expm1(_losses(pair.max_divergence if ends else top, scale)), -np.expm1(-_losses(bottom, scale))
        curves = RatioCurves(pair=pair, above=True)
        ahead, back = curves.near(near), curves.far(far)
        if ends:  # no ratio is larger than that of the last node, which is rounded up
            near[-1] *= 1.0 + 2 * _ULP
            ahead[-1] = 0.0
        law = RatioLaw.of_values(ahead, back, near, far, hull=True)
        with np.errstate(divide="ignore"):
            ratio = np.concatenate([1.0 - far[:0:-1], 1.0 + near])
            log_p = np.log(law.masses * ratio * (1.0 + 4 * _ULP)) + 4 * _ULP * len(ratio)
            infinite = float(np.log(law.infinite))
        loss = np.concatenate([np.log1p(-far[:0:-1]) * (1.0 - 2 * _ULP), np.log1p(near) * (1.0 + 2 * _ULP)])
        return cls(loss, log_p, infinite, np.inf if ends else top)

    def discretize(self, nodes: FloatArray) -> tuple[FloatArray, float]:
        """Log P masses at increasing losses and the log infinity mass; both total masses are kept."""
        masses, more = split_mass(self.log_p, self.loss, nodes)
        return masses, float(np.logaddexp(self.log_infinite, more))


def _losses(end: float, scale: float) -> FloatArray:
    """Losses from 0 to `end`, spaced uniformly near 0 and geometrically beyond a few times `scale`."""
    width = _LINEAR * scale
    count = int(np.ceil(np.arcsinh(end / width) / _FINE)) + 8
    found: FloatArray = width * np.sinh(np.arcsinh(end / width) * np.arange(count + 1) / count)
    found[-1] = end
    return found
