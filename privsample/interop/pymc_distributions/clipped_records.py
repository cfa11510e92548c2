"""The distribution of one clipped record of any univariate PyMC distribution, as points and weights in PyTensor.

docs/notes/clipping.md, step 7.
"""

from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.abstract import _logcdf, _logprob
from pytensor.gradient import disconnected_grad
from pytensor.tensor.random.basic import ExponentialRV, LogNormalRV, NormalRV
from scipy import special

_LEVELS = special.ndtr(np.array([-7.4, -5.0, -3.2, -1.6, 0.0, 1.6, 3.2, 5.0, 7.4]))  # share of the inner probability
_DEVIATIONS = np.array([-8.3, -5.8, -3.6, -1.7, 0.0, 1.7, 3.6, 5.8, 8.3])  # edges of panels, in standard deviations
_TIMES = np.array([0.0, 0.5, 1.5, 3.0, 6.0, 10.0, 16.0, 24.0, 36.0])  # edges of panels, in mean waiting times
_GRIDS = (512, 64, 64)  # panels of the grids in which quantiles are located: 2e6 panels between the bounds
_NEAR = 1e-10  # share of the range at a bound in which a support that begins there must have probability
_RULE = 16  # Gauss-Legendre points in a panel: they integrate e^(itx) over 20 radians to 1e-13
PHASE = 16.0  # radians in a panel
_LOST = 1e-9  # probability that the rule misses, from which it is moved to an end


class ClippedRecordTensor(NamedTuple):
    """One clipped record: the atom at the lower bound, the atom at the upper bound, then the points between.

    `points` and `weights` are of shape (..., points); gradients pass through the weights only.
    """

    points: Any
    weights: Any

    @property
    def mean(self) -> Any:
        """The mean of a clipped record."""
        return (self.weights * self.points).sum(-1)

    @property
    def variance(self) -> Any:
        """The variance of a clipped record, a sum of positive terms."""
        off = self.points - self.mean[..., None]
        return (self.weights * off**2).sum(-1)


def log_density(op: Any, x: Any, params: Any) -> Any:
    """Return PyMC's log density of the record at x."""
    return _logprob(op, (x,), None, None, *params)


def probability_below(op: Any, x: Any, params: Any) -> Any:
    """Return P(record <= x), in closed form for some distributions, otherwise by PyMC's distribution function."""
    if isinstance(op, NormalRV | LogNormalRV):  # PyMC takes the square root of 2 in float32: an error of 3e-8
        return 0.5 * pt.erfc(-_standardized(op, x, params) / 2**0.5)
    if isinstance(op, ExponentialRV):
        return -pt.expm1(-pt.maximum(x, 0.0) / params[0])
    return pt.exp(_logcdf(op, x, None, None, *params))


def probability_above(op: Any, x: Any, params: Any) -> Any:
    """Return P(record > x)."""
    if isinstance(op, NormalRV | LogNormalRV):
        return 0.5 * pt.erfc(_standardized(op, x, params) / 2**0.5)
    if isinstance(op, ExponentialRV):
        return pt.exp(-pt.maximum(x, 0.0) / params[0])
    return pt.maximum(-pt.expm1(_logcdf(op, x, None, None, *params)), 0.0)


def _standardized(op: Any, x: Any, params: Any) -> Any:
    mean, deviation = params
    return ((pt.log(pt.maximum(x, 1e-300)) if isinstance(op, LogNormalRV) else x) - mean) / deviation


def _closed_edges(op: Any, params: Any) -> Any:
    """Edges of panels that hold all but 1e-15 of the records' distribution, if they are known in closed form."""
    if isinstance(op, NormalRV):
        return params[0] + params[1] * _DEVIATIONS
    if isinstance(op, LogNormalRV):
        return pt.exp(pt.clip(params[0] + params[1] * _DEVIATIONS, -700.0, 700.0))
    return params[0] * _TIMES if isinstance(op, ExponentialRV) else None


def clipped_record(op: Any, params: Any, lower: Any, upper: Any, *, panels: Any = 4, whole: bool = False) -> Any:
    """Return the clipped record with these parameters; `panels` equal panels are added to those by quantiles.

    Where `whole`, records and bounds are whole numbers.
    """
    params = [param[..., None] for param in params]
    lower, upper = lower[..., None], upper[..., None]
    if whole:
        return _whole(op, params, lower, upper, (upper - lower).max() + 1)
    fixed = [disconnected_grad(param) for param in params]

    def below(x: Any) -> Any:
        return disconnected_grad(probability_below(op, x, fixed))

    edges = _closed_edges(op, fixed)
    at_low, at_high = below(lower), below(upper)
    closed = edges is not None
    if closed:
        ends = pt.clip(edges, lower, upper)
        first, last = ends[..., 0][..., None], ends[..., -1][..., None]
    else:
        edges, first, last = _quantiles(below, lower, upper, at_low, at_high)
    steps = pt.arange(panels + 1) / panels
    edges = pt.concatenate([pt.clip(edges, first, last), first + (last - first) * steps], axis=-1)
    edges = disconnected_grad(pt.sort(edges, axis=-1))
    nodes, masses = np.polynomial.legendre.leggauss(_RULE)
    starts, sizes = edges[..., :-1, None], pt.maximum(edges[..., 1:, None] - edges[..., :-1, None], 0.0)
    x = _flat(starts + sizes * (1 + nodes) / 2)
    rule = _flat(sizes * masses / 2)
    inner = pt.exp(log_density(op, x, params)) * rule
    safe_low, safe_high = lower, upper
    if not closed:  # an atom of probability 0 is computed inside the support, where its derivatives are finite
        safe_low = pt.switch(at_low > 0, lower, first + (last - first) / 2)
        safe_high = pt.switch(at_high < 1, upper, first + (last - first) / 2)
    low, high = probability_below(op, safe_low, params), probability_above(op, safe_high, params)
    if not closed:
        low, high = pt.switch(at_low > 0, low, 0.0), pt.switch(at_high < 1, high, 0.0)
    # A density that is infinite at an end loses probability in its first panel, which belongs close to that end.
    lost = 1.0 - low - high - inner.sum(axis=-1, keepdims=True)
    lost = pt.switch(lost > _LOST, lost, 0.0)
    at_first = disconnected_grad(inner[..., :_RULE].sum(axis=-1, keepdims=True))
    at_last = disconnected_grad(inner[..., -_RULE:].sum(axis=-1, keepdims=True))
    low, high = low + pt.switch(at_first >= at_last, lost, 0.0), high + pt.switch(at_first < at_last, lost, 0.0)
    weights = pt.concatenate(_alike(low, high, inner), axis=-1)
    points = disconnected_grad(pt.concatenate(_alike(lower, upper, x), axis=-1))
    return ClippedRecordTensor(points, weights)


def _whole(op: Any, params: Any, lower: Any, upper: Any, width: Any) -> ClippedRecordTensor:
    """The record of whole numbers: every point is an atom. Groups with fewer points repeat the last with weight 0."""
    x = lower + pt.arange(1, pt.maximum(width - 1, 2))
    inside = x < upper
    x = pt.switch(inside, x, lower)
    inner = pt.switch(inside, pt.exp(log_density(op, x, params)), 0.0)
    low = probability_below(op, lower, params)
    high = probability_above(op, upper - 1, params)
    weights = pt.concatenate(_alike(low, high, inner), axis=-1)
    points = pt.concatenate(_alike(lower, upper, x), axis=-1)
    return ClippedRecordTensor(disconnected_grad(points), weights)


def _quantiles(below: Any, lower: Any, upper: Any, at_low: Any, at_high: Any) -> tuple[Any, Any, Any]:
    """Quantiles of the record between the bounds, and the ends of the part of its support between the bounds.

    A grid is refined around each quantile. Where no probability lies beyond an end, the end is moved inside.
    """
    wanted = at_low + (at_high - at_low) * _LEVELS
    low, high = (bound + pt.zeros_like(wanted) for bound in (lower, upper))
    for points in _GRIDS:
        size = (high - low) / points
        steps = np.arange(1, points)
        if points == _GRIDS[0]:  # the same grid for all quantiles
            values = below(lower + size[..., 0][..., None] * steps)[..., None, :]
        else:
            values = below(_flat(low[..., None] + size[..., None] * steps))
            values = values.reshape((*batch_shape(values, 1), len(_LEVELS), points - 1))
        found = pt.lt(values, wanted[..., None]).sum(-1)
        low, high = low + size * found, low + size * (found + 1)
    near = (upper - lower) * _NEAR  # Gauss points lie inside: the density is never computed at the end of a support
    first = pt.switch(below(lower + near) > 0, low[..., 0][..., None], high[..., 0][..., None])
    last = pt.switch(below(upper - near) < 1, high[..., -1][..., None], low[..., -1][..., None])
    return (low + high) / 2, *(disconnected_grad(end) for end in (first, pt.maximum(first, last)))


def batch_shape(x: Any, axes: int) -> list[Any]:
    """The lengths of all axes but the last `axes`; as numbers where they are known, so that 1 can be broadcast."""
    lengths = x.type.shape[: x.type.ndim - axes]
    return [x.shape[i] if length is None else length for i, length in enumerate(lengths)]


def _flat(x: Any) -> Any:
    """Merge the last two axes."""
    return x.reshape((*batch_shape(x, 2), x.shape[-2] * x.shape[-1]))


def _alike(*parts: Any) -> list[Any]:
    """The parts with equal batch shapes."""
    whole = pt.zeros_like(sum(part[..., 0] for part in parts))[..., None]
    return [whole + part for part in parts]
