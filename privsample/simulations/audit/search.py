"""A search among pairs of neighbours for the one that comes nearest to its claim, on draws that are then discarded."""

from collections.abc import Callable, Iterable

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.events import most_informative_events

Scores = tuple[FloatArray, FloatArray]

_IN_FULL = 2  # so many pairs need no search: the audit's own draws for choosing tell them apart
_LEAST = 200  # draws from each dataset of a pair, in each round
_DOUBT = 2.0  # standard errors


def select_pair(
    cases: tuple[Neighbours, ...],
    draws: int,
    epsilons: FloatArray,
    claims: FloatArray,
    scored: Callable[[Neighbours, int], Iterable[Scores]],
) -> tuple[Neighbours, ...]:
    """The pair that comes nearest to its claim, or both of two: in each round the half that comes less near drops out.

    Parameters: draws, from each side, shared by all rounds and pairs, but 200 a pair and round at least;
    `scored(case, draws)`, scores of draws of both distributions, for each way to score. Source: successive halving
    (Karnin, Koren and Somekh 2013).
    """
    if len(cases) <= _IN_FULL:
        return cases
    rounds, left = int(np.ceil(np.log2(len(cases)))), list(cases)
    while len(left) > 1:
        each = max(draws // (rounds * len(left)), _LEAST)
        shares = [max(claim_ratio(*scores, epsilons, claims) for scores in scored(case, each)) for case in left]
        best = np.argsort(shares, kind="stable")[::-1][: (len(left) + 1) // 2]
        left = [left[at] for at in np.sort(best)]
    return tuple(left)


def claim_ratio(first: FloatArray, second: FloatArray, epsilons: FloatArray, claims: FloatArray) -> float:
    """The largest share of its claim that a pair reaches at some epsilon, doubt taken off; above 1 it breaks the claim.

    With few draws a claim that is next to nothing does not count as reached: doubt is added to it as well.
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
