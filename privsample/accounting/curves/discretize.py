"""From a privacy curve to a discrete pair that dominates it: the curve's values, joined by straight lines in e^epsilon.

Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Algorithm 1 ("connect the dots"); docs/notes/lattice.md.
"""

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.curves.conversion import Curve

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_ROUNDING = 4 * np.finfo(np.float64).eps


def joined(curve: Curve, reverse: Curve, nodes: FloatArray) -> tuple[FloatArray, float]:
    """log P masses at increasing losses `nodes`, at least two, and the log mass at an infinite loss; rounded up.

    `curve` and `reverse` give log delta of (P, Q) and of (Q, P), rounded up, at any real epsilon. P's mass at losses
    below the first node is moved up to it. Below zero the masses come from the reversed curve, so that nothing cancels.
    """
    gaps, zero = np.diff(nodes), int(np.searchsorted(nodes, 0.0))
    log_p = np.empty_like(nodes)
    if zero < len(nodes):
        log_p[zero:] = _above(curve, nodes, gaps, zero)
    if zero > 0:
        log_p[:zero] = _below(reverse, nodes, gaps, zero)
    return log_p, float(curve(nodes[-1:])[0])


def connect_the_dots(curve: Curve, reverse: Curve, nodes: FloatArray, count: int) -> tuple[FloatArray, float]:
    """The same from about `count` values of each curve where nodes are more: their masses are shared out among them."""
    if len(nodes) <= count:
        return joined(curve, reverse, nodes)
    end = max(abs(nodes[0]), abs(nodes[-1]))
    few = end * np.arange(-count // 2, count // 2 + 1) / (count // 2)  # symmetric: one value may serve both curves
    few = few[max(int(np.searchsorted(few, nodes[0])) - 1, 0) :]
    log_p, infinite = joined(curve, reverse, few)
    masses, more = split_mass(log_p, few, nodes)
    return masses, float(np.logaddexp(infinite, more))


def _above(curve: Curve, nodes: FloatArray, gaps: FloatArray, zero: int) -> FloatArray:
    """Masses at nodes[zero:]: p = (d[i-1] - d[i])/(1 - e^-gap) - (d[i] - d[i+1])/(e^gap - 1), scaled by d[i-1]."""
    if zero == 0:  # every loss below the first node has slope -1
        before, gap = nodes[0] - 1.0, 1.0
        nodes, gaps, zero = np.append(before, nodes), np.append(gap, gaps), 1
        log_d = np.append(np.logaddexp(curve(nodes[1:2]), nodes[1] + np.log(-np.expm1(-gap))), curve(nodes[1:]))
    else:
        log_d = curve(nodes[zero - 1 :])
    before, after = gaps[zero - 1 :], np.append(gaps[zero:], np.inf)
    fall = _fall(log_d)
    ratio = np.exp(np.minimum(_difference(log_d[1:], log_d[:-1]), 0.0))
    later = np.append(fall[1:], 0.0) * ratio
    with np.errstate(over="ignore"):
        share = fall / -np.expm1(-before) - later / np.expm1(after)
    return log_d[:-1] + _log_share(share, before, after)


def _below(reverse: Curve, nodes: FloatArray, gaps: FloatArray, zero: int) -> FloatArray:
    """Masses at nodes[:zero], from r(e) = d(e) - (1 - e^e) = e^e times the reversed curve at -e, which rises from 0."""
    used = nodes[: zero + 1]
    log_r = used + reverse(-used)
    if zero == len(nodes):  # above the last node the curve of what is left is flat
        used, flat = np.append(used, used[-1] + gaps[-1]), used[-1] + np.log(np.expm1(gaps[-1]))
        log_r = np.append(log_r, np.logaddexp(log_r[-1], flat))
    before, after = np.append(np.inf, np.diff(used)[:-1]), np.diff(used)
    fall = _fall(log_r[::-1])[::-1]
    ratio = np.exp(np.minimum(_difference(log_r[:-1], log_r[1:]), 0.0))
    earlier = np.append(1.0, fall[:-1]) * ratio  # r is zero at e^e = 0: what Q alone has stays at a loss of -infinity
    with np.errstate(over="ignore"):
        share = fall / np.expm1(after) - earlier / -np.expm1(-before)
    return log_r[1:] + _log_share(share, before, after)


def _difference(to: FloatArray, start: FloatArray) -> FloatArray:
    """to - start, and -inf from -inf on."""
    return np.where(np.isneginf(to), -np.inf, to - np.where(np.isneginf(start), 0.0, start))


def _fall(log_values: FloatArray) -> FloatArray:
    """1 - v[i+1]/v[i] of values given by their logarithms."""
    return -np.expm1(np.minimum(_difference(log_values[1:], log_values[:-1]), 0.0))


def _log_share(share: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
    """log of a share, with what rounding can have taken away."""
    return np.log(np.maximum(share, 0.0) + _ROUNDING * (1.0 + 1.0 / before + 1.0 / after))


def split_mass(log_p: FloatArray, loss: FloatArray, nodes: FloatArray) -> tuple[FloatArray, float]:
    """The same for finitely many outcomes, exactly: (outcomes,) log P masses and losses to masses at the nodes.

    An outcome between two nodes goes to both, p = p_low + p_high with the Q mass kept; one below the first node moves
    up to it; one above the last goes to it with its Q mass, and to an infinite loss with what is left of its P mass.
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
        np.logaddexp.at(result, low, log_mass + np.log(_grown(to_low, to_high, gap)))
        return result, float(np.logaddexp.reduce(log_mass + np.log(-np.expm1(beyond)), initial=-np.inf))


def _grown(part: FloatArray, rest: FloatArray, whole: FloatArray) -> FloatArray:
    """(e^part - 1)/(e^whole - 1), whole = part + rest: each is given, as differences of nodes lose digits."""
    return np.exp(-rest) * np.expm1(-part) / np.expm1(-whole)


def exponential_dots(nodes: FloatArray, end: float) -> tuple[FloatArray, float]:
    """The same for P density e^(l/2) and Q density e^(-l/2) of the loss l on [-end, end], without cancellation."""
    left, right = np.clip(nodes[:-1], -end, end), np.clip(nodes[1:], -end, end)
    gaps, middle, log_mass = np.diff(nodes), (left + right) / 2, _log_exponential(left, right)
    first, last = np.clip(nodes[[0, -1]], -end, end)
    below, above = _log_exponential(np.array([-end, last]), np.array([first, end]))
    to_last = min(nodes[-1] - (last + end) / 2, 0.0)
    with np.errstate(divide="ignore"):
        to_low, to_high = np.maximum(nodes[1:] - middle, 0.0), np.maximum(middle - nodes[:-1], 0.0)
        low = log_mass + np.log(_grown(to_low, to_high, gaps))
        high = log_mass + np.log(np.expm1(-to_high) / np.expm1(-gaps))
        infinite = float(above + np.log(-np.expm1(to_last)))
    return _by_node(low, high, below, above + to_last), infinite


def _log_exponential(left: FloatArray, right: FloatArray) -> FloatArray:
    """log of the integral of e^(l/2) from left to right, rounded up."""
    with np.errstate(divide="ignore"):
        return right / 2 + np.log(-2.0 * np.expm1((left - right) / 2)) + _ROUNDING


def density_dots(log_density: Curve, nodes: FloatArray, below: float, last: float) -> FloatArray:
    """log P masses from the log density of the loss, by quadrature in each cell; cells narrow beside its features.

    `below` and `last`: log mass under the first node, and what the last node gets from above it.
    """
    gaps = np.diff(nodes)
    half, middle = gaps[:, None] / 2, ((nodes[:-1] + nodes[1:]) / 2)[:, None]
    log_mass = log_density(middle + half * _NODES)
    top = log_mass.max(axis=1)
    mass = np.exp(log_mass - top[:, None]) * half * _WEIGHTS
    with np.errstate(divide="ignore"):
        low = top + np.log((mass * np.expm1(half * (1 - _NODES))).sum(axis=1) / np.expm1(gaps))
        high = top + np.log((mass * np.expm1(-half * (1 + _NODES))).sum(axis=1) / np.expm1(-gaps))
    return _by_node(low, high, below, last)


def _by_node(low: FloatArray, high: FloatArray, below: float, last: float) -> FloatArray:
    """Log masses at nodes, (nodes,), from what each cell gives its lower and its upper end, (nodes - 1,)."""
    inner = np.logaddexp(high[:-1], low[1:])
    return np.concatenate([[np.logaddexp(low[0], below)], inner, [np.logaddexp(high[-1], last)]])
