"""Search for the pair of neighbours that comes closest to the claim, on draws that are then discarded."""

from collections.abc import Callable, Iterable

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.events import most_informative_events

Scores = tuple[FloatArray, FloatArray]

_IN_FULL = 2  # up to this many pairs, the selection draws of the audit decide
_LEAST = 200  # minimum number of draws from each dataset of a pair, per round
_DOUBT = 2.0  # standard errors


def select_pair(
    cases: tuple[Neighbours, ...],
    draws: int,
    epsilons: FloatArray,
    claims: FloatArray,
    scored: Callable[[Neighbours, int], Iterable[Scores]],
    *,
    in_full: int = _IN_FULL,
) -> tuple[Neighbours, ...]:
    """Return the pair that comes closest to its claim by successive halving, or all pairs if at most `in_full`.

    `draws` from each dataset are shared by all rounds and pairs, but each pair gets at least 200 per round.
    `scored(case, draws)` returns scores of draws of both distributions, for each score function. Karnin, Koren and
    Somekh 2013.
    """
    if len(cases) <= in_full:
        return cases
    rounds, left = int(np.ceil(np.log2(len(cases)))), list(cases)
    while len(left) > 1:
        each = max(draws // (rounds * len(left)), _LEAST)
        shares = [max(claim_ratio(*scores, epsilons, claims) for scores in scored(case, each)) for case in left]
        best = np.argsort(shares, kind="stable")[::-1][: (len(left) + 1) // 2]
        left = [left[at] for at in np.sort(best)]
    return tuple(left)


def claim_ratio(first: FloatArray, second: FloatArray, epsilons: FloatArray, claims: FloatArray) -> float:
    """Return the largest ratio of estimated delta to claimed delta over all epsilons; above 1, the claim looks false.

    Two standard errors are subtracted from the estimate and added to the claim, so that noise at a tiny claim does not
    count as a large ratio.
    """
    factors, found = np.exp(epsilons), []
    for swapped in (False, True):
        for event, factor, claim in zip(
            most_informative_events(first, second, factors, swapped), factors, claims, strict=True
        ):
            (hits, others), (n, m) = event.counts(first, second), (len(first), len(second))
            p, q = hits / n, others / m
            variance = (p * (1 - p) + 1 / n) / n + factor**2 * (q * (1 - q) + 1 / m) / m
            doubt = _DOUBT * float(np.sqrt(variance))
            found.append((p - factor * q - doubt) / (claim + doubt))
    return float(max(found))
