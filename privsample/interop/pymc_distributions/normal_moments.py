"""Moments of clipped normal numbers, by Gauss-Legendre rules between the kinks. docs/notes/moments.md, section 4."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

_ENDS = 8.5  # standard deviations; 2e-17 of the probability lies beyond
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_PANELS = np.linspace(-_ENDS, _ENDS, 10)
_FEWER = np.linspace(0.0, 1.0, 3)


def clipped_normal(mean: Any, deviation: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return points and weights (..., k) of a normal number clipped to [low, high]: exact to rounding for moments."""
    left, right = (low - mean) / deviation, (high - mean) / deviation
    z, weights = _rule(pt.clip(_PANELS, left[..., None], right[..., None]))
    atoms = [normal_below(left)[..., None], normal_below(-right)[..., None]]
    points = [at[..., None] + pt.zeros_like(z[..., 0])[..., None] for at in (low, high)]
    return (
        pt.concatenate([*points, mean[..., None] + deviation[..., None] * z], axis=-1),
        pt.concatenate([*atoms, weights], axis=-1),
    )


def clipped_mean(mean: Any, deviation: Any, low: Any, high: Any) -> Any:
    """Return the mean of a normal number clipped to [low, high], in closed form."""
    near, far = (mean - low) / deviation, (mean - high) / deviation
    return low + deviation * (_mean_above(near) - _mean_above(far))


def clipped_product(means: Any, deviations: Any, correlation: Any, lows: Any, highs: Any) -> Any:
    """Return the mean of the product of two correlated normal numbers, each clipped; arguments are pairs.

    Given the first number the mean of the second is known in closed form; the rule has ends at the kinks of both.
    """
    off = pt.sqrt(pt.maximum(1 - correlation**2, 1e-14))
    slope = pt.switch(abs(correlation) < 1e-6, 1e-6, correlation)  # a kink far away
    kinks = [(end - means[0]) / deviations[0] for end in (lows[0], highs[0])]
    kinks += [(end - means[1]) / (deviations[1] * slope) for end in (lows[1], highs[1])]
    kinks = pt.sort(pt.stack([pt.clip(kink + pt.zeros_like(off), -_ENDS, _ENDS) for kink in kinks], axis=-1), axis=-1)
    end = pt.zeros_like(kinks[..., 0])[..., None] + _ENDS
    edges = pt.concatenate([-end, kinks, end], axis=-1)
    edges = edges[..., :-1, None] + (edges[..., 1:] - edges[..., :-1])[..., None] * _FEWER
    z, weights = _rule(edges)
    z, weights = z.flatten(z.ndim - 1), weights.flatten(z.ndim - 1)
    first = pt.clip(means[0][..., None] + deviations[0][..., None] * z, lows[0][..., None], highs[0][..., None])
    centre = means[1][..., None] + (deviations[1] * correlation)[..., None] * z
    second = clipped_mean(centre, (deviations[1] * off)[..., None], lows[1][..., None], highs[1][..., None])
    return (weights * first * second).sum(-1)


def normal_below(z: Any) -> Any:
    """Return the standard normal distribution function."""
    return 0.5 * pt.erfc(-z / 2**0.5)


def _mean_above(z: Any) -> Any:
    """Return E max(z + Z, 0) for a standard normal Z."""
    return z * normal_below(z) + pt.exp(-0.5 * z**2) / (2 * np.pi) ** 0.5


def _rule(edges: Any) -> tuple[Any, Any]:
    """Return points z (..., panels * k) and weights of the standard normal distribution in panels between edges."""
    sizes = edges[..., 1:] - edges[..., :-1]
    z = edges[..., :-1, None] + sizes[..., None] * ((1 + _NODES) / 2)
    weights = sizes[..., None] * (_WEIGHTS / 2) * pt.exp(-0.5 * z**2) / (2 * np.pi) ** 0.5
    return _joined(z), _joined(weights)


def _joined(x: Any) -> Any:
    """Merge the last two axes."""
    lengths = [x.shape[i] if length is None else length for i, length in enumerate(x.type.shape)]
    return x.reshape((*lengths[:-2], lengths[-2] * lengths[-1]))
