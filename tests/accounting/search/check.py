"""Compare accounts with the truth at random orders, epsilons and deltas."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, log
from typing import Any

import numpy as np
from flint import arb, ctx

from privsample.errors import NumericalFailure
from tests.accounting.search import losses as true
from tests.accounting.search.families import FAMILIES, Case, Rng, power


@dataclass(frozen=True)
class Comparison:
    """What an account reports and what is true, of one view at one argument."""

    view: str
    argument: float
    reported: float
    truth: float
    excess: float  # relative for divergences, absolute for log delta; negative if the account is below the truth


def compare(case: Case, rng: Rng) -> Iterator[Comparison]:
    """Compare the three views of one account at random arguments."""
    account = case.account
    for order in (1 + power(rng, -6, 0), 1 + power(rng, 0, 3)):
        for parts in case.truths:
            try:
                divergence = true.composed_renyi(parts, order)
            except ArithmeticError:
                continue
            reported = float(account.rdp(order))
            if divergence.is_nan() or reported == inf:
                continue
            excess = (
                -inf
                if not divergence.is_finite()
                else float((arb(reported) - arb(divergence.mid())) / arb(divergence.mid()))
            )
            yield Comparison("rdp", order, reported, float(divergence.mid()), excess)
    delta = 10.0 ** -float(rng.choice([rng.uniform(0.1, 3), rng.uniform(2, 12), rng.uniform(12, 300)]))
    epsilon = float(account.epsilon(delta))
    if 0 < epsilon < inf:
        yield from _log_deltas(case, "epsilon", epsilon, log_delta=log(delta))
    for further in case.epsilons or [
        epsilon * float(rng.uniform(0.2, 1.5)) if 0 < epsilon < inf else power(rng, -3, 1)
    ]:
        yield from _log_deltas(case, "delta", further, log_delta=float(account.log_delta(further)))


def _log_deltas(case: Case, view: str, epsilon: float, *, log_delta: float) -> Iterator[Comparison]:
    for truth in case.true_log_deltas(epsilon):
        value = float(truth.mid()) if truth.is_finite() else -inf
        excess = inf if value == -inf else -inf if log_delta == -inf else float(arb(log_delta) - truth.mid())
        yield Comparison(view, epsilon, log_delta, value, excess)


@dataclass
class Summary:
    """What a search in one family found."""

    settings: int = 0
    comparisons: int = 0
    refused: int = 0
    unstated: list[Any] = field(default_factory=list)
    below: list[tuple[Any, Comparison]] | None = None

    def text(self) -> str:
        worst = min((c.excess for _, c in self.below or []), default=0.0)
        counts = f"{self.settings} settings, {self.comparisons} comparisons, {self.refused} refused"
        counts += f", {len(self.unstated)} without a number"
        return f"{counts}, {len(self.below or [])} below the truth (at most by {-worst:.2g})"


def search(name: str, count: int, seed: int, slack: float) -> Summary:
    """Search `count` random accounts of a family for values below the truth by more than the slack."""
    found = Summary(below=[])
    digits, ctx.dps = ctx.dps, true.DIGITS
    try:
        for index in range(count):
            rng = np.random.default_rng([seed, sorted(FAMILIES).index(name), index])
            found.settings += 1
            try:
                case = FAMILIES[name](rng)
            except ValueError:  # a setting that the account refuses
                found.refused += 1
                continue
            try:
                comparisons = list(compare(case, rng))
            except NumericalFailure:  # a declared refusal to state a number
                found.unstated.append(case.account)
                continue
            for comparison in comparisons:
                found.comparisons += 1
                scale = 1 + abs(comparison.truth) if comparison.view != "rdp" else 1.0
                if not comparison.excess >= (-slack * scale if slack else 0.0):
                    found.below.append((case.account, comparison))
    finally:
        ctx.dps = digits
    return found
