"""The test of the chosen events on the evaluation draws, confidence bounds and the verdict (audit.md, section 2)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privsample._checks import FloatArray, renyi_orders
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.binomials import (
    Counts,
    draws_needed,
    empirical_epsilon,
    excess_limits,
    excess_lower,
    excess_p_value,
)
from privsample.simulations.audit.events import Choice, TestedEvent
from privsample.simulations.audit.renyi import renyi_from_curves
from privsample.simulations.audit.task import AuditTask
from privsample.simulations.audit.verdict import Verdict

ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0)

RenyiLimits = Callable[[float, float], Sequence[float]]


def make_verdict(
    task: AuditTask,
    case: Neighbours,
    choices: tuple[Choice, ...],
    evidence: tuple[Any, Any],
    *,
    draws: Counts,
    informative: tuple[Sequence[TestedEvent], Sequence[TestedEvent]],
    overhead: float,
    renyi: RenyiLimits | None = None,
    describe: Callable[[Choice], str] | None = None,
) -> Verdict:
    """Test the chosen events on the evaluation draws `evidence` and return the verdict.

    draws: numbers of evaluation draws of both distributions. informative: for each direction, an event for the
    confidence bounds at each epsilon. renyi: further lower bounds at (order, error probability). describe: the event
    of a choice in plain words.
    """
    epsilons, claims, level = task.epsilons, task.claims, task.level
    first, second = evidence
    factors = np.exp(epsilons)

    def tested(choice: Choice) -> tuple[float, Choice]:
        hits = choice.event.counts(first, second)
        return excess_p_value(hits, draws, float(factors[choice.at]), float(claims[choice.at])), choice

    tests = len(choices)
    p_value, choice = min(map(tested, choices), key=lambda found: found[0])

    def limit(one: Choice) -> float:
        return excess_lower(one.event.counts(first, second), draws, float(factors[one.at]), level / tests)

    lower = limit(choice)
    if tests * p_value > level and claims[choice.at] == lower == 0.0:  # this point carries no information
        lower, choice = max(((limit(one), one) for one in choices), key=lambda found: (found[0], claims[found[1].at]))
    at, event = choice.at, choice.event
    needed = [draws_needed(float(factors[one.at]), float(claims[one.at]), level / tests) for one in choices]
    # Bonferroni: the simultaneous bounds share `level`. There are two directions with two bounds each at every epsilon,
    # and the clipped Rényi estimates in two directions at every order.
    each = level / (4 * len(epsilons) + 2 * len(ORDERS))
    counts = [[one.counts(first, second) for one in row] for row in informative]
    limits = [[excess_limits(hits, draws, f, each) for hits, f in zip(row, factors, strict=True)] for row in counts]
    forward, backward = np.array(limits)
    lowers = np.maximum(forward[:, 0], backward[:, 0])
    if claims[at] == lower == 0.0 and (lowers.max() > 0.0 or claims.max() > 0.0):
        at = int(np.argmax(lowers if lowers.max() > 0.0 else claims))
        lower = float(lowers[at])
    empirical = [empirical_epsilon(hits, draws, claims, each) for row in counts for hits in row]
    here, there = case.descriptions
    return Verdict(
        pair=f"{there}, against {here}" if event.swapped else f"{here}, against {there}",
        epsilon=float(epsilons[at]),
        claim=float(claims[at]),
        p_value=min(tests * p_value, 1.0),
        lower=max(lower, float(claims[at])) if tests * p_value <= level else lower,
        samples=draws[0],
        needed=min(needed),
        overhead=overhead,
        level=level,
        epsilons=epsilons,
        claims=claims,
        lowers=lowers,
        uppers=np.maximum(forward[:, 1], backward[:, 1]),
        orders=renyi_orders(ORDERS),
        renyi=_renyi(epsilons, forward[:, 0], backward[:, 0], renyi, each),
        event="" if describe is None else describe(choice),
        **_empirical(np.max(empirical, axis=0), epsilons, claims),
    )


def _empirical(found: FloatArray, epsilons: FloatArray, claims: FloatArray) -> dict[str, float]:
    """Return the fields of the claim at which the empirical epsilon `found` is largest relative to the claimed one."""
    claimed = np.array([epsilons[claims <= delta].min() for delta in claims])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(claimed > 0.0, found / claimed, -1.0)  # no ratio to a claimed epsilon of 0
    at = int(np.lexsort((claimed, share))[-1])
    return {
        "empirical_epsilon": float(found[at]),
        "empirical_delta": float(claims[at]),
        "claimed_epsilon": float(claimed[at]),
    }


def _renyi(
    epsilons: FloatArray, forward: FloatArray, backward: FloatArray, further: RenyiLimits | None, level: float
) -> FloatArray:
    """Return lower confidence bounds on the Rényi divergence at each order, the larger of both directions."""
    found = []
    for order in ORDERS:
        both = [
            renyi_from_curves(order, epsilons, forward, backward),
            renyi_from_curves(order, epsilons, backward, forward),
        ]
        found.append(max(*both, *(() if further is None else further(order, level))))
    return np.array(found)
