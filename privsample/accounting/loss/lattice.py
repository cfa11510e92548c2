"""A discretized privacy loss whose lattice ends at the largest loss (grid.md, section 8)."""

from dataclasses import dataclass

import numpy as np

from privsample._checks import FloatArray

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class LatticeLoss:
    """Tilted masses at the losses ..., top - step, top, which add up to 1, in increasing order of the loss.

    `log_moment` is the logarithm of E_P e^{c loss} of the finite losses, `log_mass` that of their P mass and
    `log_infinite` that of the infinity mass. All are rounded up.
    """

    top: float
    tilted: FloatArray
    log_moment: float
    log_mass: float
    log_infinite: float

    @classmethod
    def of(cls, nodes: FloatArray, log_p: FloatArray, log_infinite: float, c: float) -> "LatticeLoss":
        """Tilt log P masses at increasing nodes by e^{c node}."""
        height = log_p + c * nodes
        top = height.max()
        spread = np.minimum(top - height, 1e3)
        rounding = 2.0 + abs(top) + spread + 2 * c * np.abs(nodes)  # sizes of the exponents, in units of their ulp
        mass = np.exp(-spread) * (1.0 + 2 * _EPS * rounding)
        total = float(mass.sum())
        return cls(
            top=float(nodes[-1]),
            tilted=mass / total,
            log_moment=float(top + np.log(total)),
            log_mass=float(np.logaddexp.reduce(log_p)),
            log_infinite=log_infinite,
        )
