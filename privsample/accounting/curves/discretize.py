"""Connect-the-dots discretization: discrete pairs that dominate a given privacy loss distribution (grid.md, section 2).

The privacy curve of the discrete pair connects the given curve's values at the nodes by straight lines in e^epsilon.
Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Algorithm 1.
"""

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.curves.conversion import Curve

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_ROUNDING = 4 * np.finfo(np.float64).eps  # bounds the rounding error of one difference of the curve


def discretize_curve(curve: Curve, reverse: Curve, nodes: FloatArray) -> tuple[FloatArray, float]:
    """Logarithms of the P masses at increasing losses `nodes` and of the infinity mass, rounded up.

    `curve` and `reverse` return log delta of (P, Q) and of (Q, P), rounded up, at any real epsilon. At least two nodes
    are needed. P mass below the first node is moved to it, which increases the loss. At losses below zero, 1 - delta
    would cancel; there the masses are computed from the reversed curve.
    """
    gaps, zero = np.diff(nodes), int(np.searchsorted(nodes, 0.0))
    log_p = np.empty_like(nodes)
    if zero < len(nodes):
        log_p[zero:] = _above(curve, nodes, gaps, zero)
    if zero > 0:
        log_p[:zero] = _below(reverse, nodes, gaps, zero)
    return log_p, float(curve(nodes[-1:])[0])


def connect_the_dots(curve: Curve, reverse: Curve, nodes: FloatArray, count: int) -> tuple[FloatArray, float]:
    """As `discretize_curve`, but with at most about `count` values of each curve.

    If there are more nodes, the curve is discretized on a coarser grid whose masses are then split among the nodes.
    """
    if len(nodes) <= count:
        return discretize_curve(curve, reverse, nodes)
    end = max(abs(nodes[0]), abs(nodes[-1]))
    few = end * np.arange(-count // 2, count // 2 + 1) / (count // 2)  # symmetric, so that both curves share values
    few = few[max(int(np.searchsorted(few, nodes[0])) - 1, 0) :]
    log_p, infinite = discretize_curve(curve, reverse, few)
    masses, more = split_mass(log_p, few, nodes)
    return masses, float(np.logaddexp(infinite, more))


def _above(curve: Curve, nodes: FloatArray, gaps: FloatArray, zero: int) -> FloatArray:
    """Log masses at nodes[zero:], from the second differences of the curve d (grid.md, section 2, step 2).

    p = (d[i-1] - d[i])/(1 - e^-gap) - (d[i] - d[i+1])/(e^gap' - 1), computed relative to d[i-1].
    """
    if zero == 0:  # below the first node the curve 1 - x has slope -1 in x = e^epsilon
        before, gap = nodes[0] - 1.0, 1.0
        nodes, gaps, zero = np.append(before, nodes), np.append(gap, gaps), 1
        log_d = np.append(np.logaddexp(curve(nodes[1:2]), nodes[1] + np.log(-np.expm1(-gap))), curve(nodes[1:]))
    else:
        log_d = curve(nodes[zero - 1 :])
    before, after = gaps[zero - 1 :], np.append(gaps[zero:], np.inf)
    fall = _relative_drop(log_d)
    ratio = np.exp(np.minimum(_log_ratio(log_d[1:], log_d[:-1]), 0.0))
    later = np.append(fall[1:], 0.0) * ratio
    with np.errstate(over="ignore"):
        share = fall / -np.expm1(-before) - later / np.expm1(after)
    return log_d[:-1] + _log_mass_factor(share, before, after)


def _below(reverse: Curve, nodes: FloatArray, gaps: FloatArray, zero: int) -> FloatArray:
    """Log masses at nodes[:zero] from r(e) = d(e) - (1 - e^e), which does not cancel (grid.md, section 2, step 3).

    r(e) equals e^e times the reversed curve at -e and increases from 0.
    """
    used = nodes[: zero + 1]
    log_r = used + reverse(-used)
    if zero == len(nodes):  # above the last node delta stays constant, so that r grows like e^e
        used, flat = np.append(used, used[-1] + gaps[-1]), used[-1] + np.log(np.expm1(gaps[-1]))
        log_r = np.append(log_r, np.logaddexp(log_r[-1], flat))
    before, after = np.append(np.inf, np.diff(used)[:-1]), np.diff(used)
    fall = _relative_drop(log_r[::-1])[::-1]
    ratio = np.exp(np.minimum(_log_ratio(log_r[:-1], log_r[1:]), 0.0))
    earlier = np.append(1.0, fall[:-1]) * ratio  # r is 0 at e^e = 0: Q mass where P is zero stays at a loss of -inf
    with np.errstate(over="ignore"):
        share = fall / np.expm1(after) - earlier / -np.expm1(-before)
    return log_r[1:] + _log_mass_factor(share, before, after)


def _log_ratio(to: FloatArray, start: FloatArray) -> FloatArray:
    """to - start; -inf if `to` is -inf."""
    return np.where(np.isneginf(to), -np.inf, to - np.where(np.isneginf(start), 0.0, start))


def _relative_drop(log_values: FloatArray) -> FloatArray:
    """1 - v[i+1]/v[i] for values given by their logarithms; expm1 avoids cancellation between neighbouring values."""
    return -np.expm1(np.minimum(_log_ratio(log_values[1:], log_values[:-1]), 0.0))


def _log_mass_factor(share: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
    """Logarithm of a second difference, raised by its rounding error; a negative difference counts as zero first."""
    return np.log(np.maximum(share, 0.0) + _ROUNDING * (1.0 + 1.0 / before + 1.0 / after))


def split_mass(log_p: FloatArray, loss: FloatArray, nodes: FloatArray) -> tuple[FloatArray, float]:
    """Discretize finitely many outcomes, given by log P masses and losses of shape (outcomes,).

    The P mass of an outcome between two nodes is split between them such that its Q mass is preserved too (grid.md,
    section 2, step 4). An outcome below the first node moves to it. An outcome above the last node contributes its Q
    mass there; the rest of its P mass becomes infinity mass. Returns log P masses at the nodes and the log infinity
    mass.
    """
    present = ~np.isneginf(log_p)
    log_mass, at = log_p[present] + _ROUNDING, loss[present]
    after = np.searchsorted(nodes, at)
    inside, above = (after > 0) & (after < len(nodes)), after == len(nodes)
    low, high = np.clip(after - 1, 0, len(nodes) - 1), np.clip(after, 0, len(nodes) - 1)
    gap = np.where(inside, nodes[high] - nodes[low], 1.0)
    to_low, to_high = np.where(inside, nodes[high] - at, 0.0), np.where(inside, at - nodes[low], 1.0)
    beyond = np.where(above, np.minimum(nodes[-1] - at, 0.0), 0.0)
    result = np.full(len(nodes), -np.inf)
    with np.errstate(divide="ignore"):
        shares = np.expm1(-to_high) / np.expm1(-gap)
        np.logaddexp.at(result, high, log_mass + np.where(inside, np.log(shares), beyond))
        np.logaddexp.at(result, low, log_mass + np.log(_expm1_ratio(to_low, to_high, gap)))
        return result, float(np.logaddexp.reduce(log_mass + np.log(-np.expm1(beyond)), initial=-np.inf))


def _expm1_ratio(part: FloatArray, rest: FloatArray, whole: FloatArray) -> FloatArray:
    """(e^part - 1)/(e^whole - 1) for whole = part + rest; all three are arguments, because differences lose digits."""
    return np.exp(-rest) * np.expm1(-part) / np.expm1(-whole)


def discretize_exponential(nodes: FloatArray, end: float) -> tuple[FloatArray, float]:
    """Discretize a loss l on [-end, end] with P density e^(l/2) and Q density e^(-l/2), in closed form.

    All terms are positive, so that nothing cancels. Returns log P masses at the nodes and the log infinity mass.
    """
    left, right = np.clip(nodes[:-1], -end, end), np.clip(nodes[1:], -end, end)
    gaps, middle, log_mass = np.diff(nodes), (left + right) / 2, _log_exponential(left, right)
    first, last = np.clip(nodes[[0, -1]], -end, end)
    below, above = _log_exponential(np.array([-end, last]), np.array([first, end]))
    to_last = min(nodes[-1] - (last + end) / 2, 0.0)
    with np.errstate(divide="ignore"):
        to_low, to_high = np.maximum(nodes[1:] - middle, 0.0), np.maximum(middle - nodes[:-1], 0.0)
        low = log_mass + np.log(_expm1_ratio(to_low, to_high, gaps))
        high = log_mass + np.log(np.expm1(-to_high) / np.expm1(-gaps))
        infinite = float(above + np.log(-np.expm1(to_last)))
    return _masses_at_nodes(low, high, below, above + to_last), infinite


def _log_exponential(left: FloatArray, right: FloatArray) -> FloatArray:
    """Logarithm of the integral of e^(l/2) from left to right, rounded up."""
    with np.errstate(divide="ignore"):
        return right / 2 + np.log(-2.0 * np.expm1((left - right) / 2)) + _ROUNDING


def discretize_density(log_density: Curve, nodes: FloatArray, below: float, last: float) -> FloatArray:
    """Log P masses at the nodes from the log density of the loss, by Gauss-Legendre quadrature in each cell.

    The cells must be narrow relative to the scale of the density; the caller adds the quadrature error. `below` is the
    log mass below the first node, `last` the log mass that the last node receives from above it.
    """
    gaps = np.diff(nodes)
    half, middle = gaps[:, None] / 2, ((nodes[:-1] + nodes[1:]) / 2)[:, None]
    log_mass = log_density(middle + half * _NODES)
    top = log_mass.max(axis=1)
    mass = np.exp(log_mass - top[:, None]) * half * _WEIGHTS
    with np.errstate(divide="ignore"):
        low = top + np.log((mass * np.expm1(half * (1 - _NODES))).sum(axis=1) / np.expm1(gaps))
        high = top + np.log((mass * np.expm1(-half * (1 + _NODES))).sum(axis=1) / np.expm1(-gaps))
    return _masses_at_nodes(low, high, below, last)


def _masses_at_nodes(low: FloatArray, high: FloatArray, below: float, last: float) -> FloatArray:
    """Log masses at the nodes, (nodes,), from the contributions of each cell to its two ends, (nodes - 1,) each."""
    inner = np.logaddexp(high[:-1], low[1:])
    return np.concatenate([[np.logaddexp(low[0], below)], inner, [np.logaddexp(high[-1], last)]])
