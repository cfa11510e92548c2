"""Tables of masses and convex functions in exact rational arithmetic; only logarithms are rounded, at the end.

A float is a rational number, so sums, slopes and convex hulls of stated numbers are computed without error.
"""

import itertools
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from privsample._checks import FloatArray
from privsample.accounting.loss.pair import DiscretePair

Point = tuple[Fraction, Fraction]
Masses = tuple[Point, ...]  # masses of each outcome under P and under Q; each column is divided by its sum at the end

_CONTEXT = Context(prec=34, Emin=-999999, Emax=999999)  # two distinct floats have a ratio of at least 1 + 1e-16
_NEAR = Fraction(1, 10**10)
_ULP = float(np.finfo(np.float64).eps)


def exponential(x: float) -> Fraction:
    """e^x with a relative error of 1e-34; for small x also e^x - 1 has this relative error.

    The results for x and -x are exact reciprocals.
    """
    size = Decimal(abs(x))
    context = _CONTEXT.copy()
    context.prec += max(-size.adjusted(), 0) if x else 0
    grown = Fraction(context.exp(size))
    return grown if x >= 0 else 1 / grown


def log_of(x: Fraction) -> float:
    """log x, rounded to the nearest float; -inf at zero."""
    if x == 0:
        return -np.inf
    if abs(x - 1) < _NEAR:  # 34 digits of x leave few digits of x - 1
        d = x - 1
        return float(d - d**2 / 2 + d**3 / 3)
    return float(_CONTEXT.ln(_CONTEXT.divide(Decimal(x.numerator), Decimal(x.denominator))))


def lower_hull(points: Iterable[Point]) -> list[Point]:
    """The vertices, from left to right, of the largest convex function that is nowhere above the points."""
    lowest: dict[Fraction, Fraction] = {}
    for x, y in points:
        lowest[x] = min(y, lowest.get(x, y))
    kept: list[Point] = []
    for point in sorted(lowest.items()):
        while len(kept) > 1 and not _turns_left(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    return kept


def _turns_left(first: Point, second: Point, third: Point) -> bool:
    """Return whether the slope increases at the second point."""
    return (second[1] - first[1]) * (third[0] - second[0]) < (third[1] - second[1]) * (second[0] - first[0])


def normalize_masses(masses: Iterable[Point]) -> Masses:
    """Scale both columns to the same sum, merge outcomes of equal likelihood ratio, and sort by that ratio."""
    listed = [(p, q) for p, q in masses if p or q]
    total_p, total_q = sum(p for p, _ in listed), sum(q for _, q in listed)
    merged: dict[Fraction | None, Point] = {}
    for p, q in listed:
        ratio = p / q if q else None
        before = merged.get(ratio, (Fraction(0), Fraction(0)))
        merged[ratio] = (before[0] + p * total_q, before[1] + q * total_p)
    finite = [merged[ratio] for ratio in sorted(ratio for ratio in merged if ratio is not None)]
    return (*finite, merged[None]) if None in merged else tuple(finite)


def table_of(masses: Masses) -> DiscretePair:
    """The dominating pair of normalised masses, sorted by loss; masses are rounded up."""
    total = sum(p for p, _ in masses)
    log_p, log_q = (np.array([log_of(row[side] / total) for row in masses]) for side in (0, 1))
    loss = [log_of(p / q) if p and q else (np.inf if p else -np.inf) for p, q in masses]
    return DiscretePair(log_p=_round_up(log_p), log_q=_round_up(log_q), loss=np.array(loss))


def _round_up(log_mass: FloatArray) -> FloatArray:
    """Round logarithms up by one unit in the last place."""
    return log_mass + _ULP * (1.0 + np.abs(np.where(np.isfinite(log_mass), log_mass, 0.0)))


def swapped(masses: Masses) -> Masses:
    """The pair (Q, P), sorted by its losses."""
    return tuple((q, p) for p, q in reversed(masses))


def trade_off(masses: Masses) -> list[Point]:
    """The vertices (false positive rate, false negative rate) of the trade-off function of normalised masses."""
    total = sum(p for p, _ in masses)
    x, y = Fraction(0), Fraction(1)
    vertices = [(x, y)]
    for p, q in masses:
        x, y = x + p / total, y - q / total
        vertices.append((x, y))
    return vertices


def masses_of_trade_off(vertices: Sequence[Point]) -> Masses:
    """The masses of P, which is uniform, and of Q on the cells of a convex trade-off function from 0 to 1.

    Source: Dong, Roth and Su 2022, Proposition 2.2 (proof).
    """
    cells = [(right[0] - left[0], left[1] - right[1]) for left, right in itertools.pairwise(vertices)]
    return normalize_masses([(Fraction(0), 1 - vertices[0][1]), *cells, (1 - vertices[-1][0], vertices[-1][1])])


def envelope(tables: Iterable[Masses]) -> Masses:
    """The pair, its own reverse, whose privacy curve is the maximum over these pairs and their reverses.

    Privacy curves are dual to trade-off functions, so the maximum of the curves belongs to the convex hull of the
    minimum of the trade-off functions (stated.md, section 4).
    """
    both = [way for table in tables for way in (table, swapped(table))]
    return masses_of_trade_off(lower_hull(vertex for table in both for vertex in trade_off(table)))
