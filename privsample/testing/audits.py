"""Laws that need neighbours: they are neighbours, an audit does not refute the account, and it catches the mutant."""

from typing import Any

import numpy as np

from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.audit import audit as run_audit
from privsample.simulations.audit.distance import check_neighbours, check_statistics, innermost_statistical
from privsample.testing.base import Broken, NotApplicable, require, short
from privsample.testing.case import Case, reads_records

_SLACK = 1e-9


def neighbours(case: Case) -> None:
    """The worst neighbours are neighbours, can be drawn from, and are held to the account of the mechanism."""
    pairs: Any = case.neighbours()
    require(
        isinstance(pairs, tuple) and pairs and all(isinstance(pair, Neighbours) for pair in pairs),
        f"worst_neighbours() returned {short(pairs)}",
        "return a tuple of privsample.Neighbours, one at least",
    )
    for pair in pairs:
        _are_neighbours(case, pair)
        _are_drawn(case, pair)
        _are_priced(case, pair)


def _are_neighbours(case: Case, pair: Neighbours) -> None:
    first, second = (build() for build in pair.datasets)
    relation, innermost = case.mechanism.accountant.relation, innermost_statistical(case.mechanism)
    try:
        if innermost is not None:
            check_statistics(innermost, first, second, 1)
        elif reads_records(case.mechanism, first) or reads_records(case.mechanism, second):
            check_neighbours(relation, first, second, 1)
    except ValueError as error:
        raise Broken(
            f"the pair ({pair.words[0]}; {pair.words[1]}) are no neighbours: {error}",
            "let worst_neighbours give datasets that the relation of the account calls neighbours",
        ) from error


def _are_drawn(case: Case, pair: Neighbours) -> None:
    count, widths = 4, set()
    for build in pair.datasets:
        outputs = np.asarray(pair.draw(build(), count, case.rng()), dtype=np.float64)
        require(
            len(outputs) == count and np.isfinite(outputs).all(),
            f"draw(data, {count}, rng) gave {short(outputs)}",
            f"let draw return an array of finite numbers whose first axis has length {count}",
        )
        table = outputs.reshape(count, -1)
        widths.add(table.shape[1])
        if pair.loss is not None:
            losses = np.asarray(pair.loss(table))
            require(
                losses.shape == (count,) and not np.isnan(losses).any(),
                f"loss gave {short(losses)} for outputs of shape {table.shape}",
                "let loss return the log density ratio of each row, shape (count,)",
            )
    require(
        len(widths) == 1,
        f"one output has {sorted(widths)} numbers, which depends on the dataset",
        "let draw return as many numbers for each dataset",
    )


def _are_priced(case: Case, pair: Neighbours) -> None:
    if pair.account is None:
        return
    own = case.mechanism.accountant
    require(
        pair.account.relation == own.relation,
        f"the account of the pair is about {pair.account.relation}, and the mechanism's about {own.relation}",
        "let Neighbours(account=...) be the account of one draw",
    )
    for epsilon in (0.0, 0.1, 1.0):
        one, all_draws = float(pair.account.delta(epsilon)), float(own.delta(epsilon))
        require(
            one <= all_draws * (1 + _SLACK),
            f"the account of the pair allows delta = {one:.6g} at epsilon = {epsilon:g}, and the mechanism's own "
            f"{all_draws:.6g}: an audit would be held to less than the mechanism promises",
            "let Neighbours(account=...) be the account of one draw",
        )


def audit(case: Case) -> None:
    """An audit of few draws does not refute the account."""
    pairs = case.neighbours()
    known = all(pair.loss is not None for pair in pairs)
    most = case.samples if case.example is None else case.example.samples
    samples = most if known else min(most, case.samples)
    verdict = run_audit(case.mechanism, samples=samples, level=case.level, rng=case.rng())
    require(
        not verdict.violated,
        f"the account is refuted. {verdict.statement}",
        "find out which is wrong, the bounds of the accountant, _draw, or the loss of worst_neighbours",
    )


def mutant(case: Case) -> None:
    """An audit held to the account catches the broken copy: it could have caught the mechanism, too."""
    if case.example is None:
        raise NotApplicable("this mechanism is no example of its class, so there is no mutant")
    example = case.example
    require(
        example.mutant != example.mechanism,
        "the mutant is equal to the mechanism",
        "let the example's mutant break what the account rests on",
    )
    case.neighbours()
    claim: Any = example.claim
    verdict = run_audit(example.mutant, claim=claim, samples=example.samples, level=case.level, rng=case.rng())
    require(
        verdict.violated,
        f"the mutant ({example.bug}) was not caught with samples = {example.samples:,}. {verdict.statement}",
        "raise samples of the example, break the mutant more, or let worst_neighbours give a pair that is worse",
    )
