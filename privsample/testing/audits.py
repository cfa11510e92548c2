"""Requirements on the worst neighbours and on audits of the mechanism and of its mutant."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Neighbours
from privsample.relations import ReplaceOne
from privsample.simulations.audit.audit import audit as run_audit
from privsample.simulations.audit.distance import check_neighbours, check_statistics, innermost_statistical
from privsample.testing.base import NotApplicable, Violation, require, short
from privsample.testing.case import Case, reads_records, worst_neighbours_of
from privsample.testing.content import record_pairs

_TOLERANCE = 1e-9  # relative
_MANY = 12  # draws in place of one, so that what is not paid for shows in few releases


def neighbours(case: Case) -> None:
    """Check that the worst neighbours are neighbours, can be drawn from, and have the mechanism's account."""
    pairs: Any = case.neighbours()
    require(
        isinstance(pairs, tuple) and pairs and all(isinstance(pair, Neighbours) for pair in pairs),
        f"worst_neighbours() returned {short(pairs)}",
        "return a nonempty tuple of privsample.Neighbours",
    )
    for pair in pairs:
        _check_related(case, pair)
        _check_draws(case, pair)
        _check_account(case, pair)


def _check_related(case: Case, pair: Neighbours) -> None:
    """Check that the datasets of a pair are neighbours under the relation of the account."""
    first, second = (build() for build in pair.datasets)
    innermost = innermost_statistical(case.mechanism)
    try:
        if innermost is not None:
            check_statistics(innermost, first, second, 1)
        elif reads_records(case.mechanism, first) or reads_records(case.mechanism, second):
            check_neighbours(case.mechanism.accountant.relation, first, second, 1)
    except ValueError as error:
        raise Violation(
            f"the datasets ({pair.descriptions[0]}; {pair.descriptions[1]}) are not neighbours: {error}",
            "let worst_neighbours return datasets that are neighbours under the relation of the account",
        ) from error


def _check_draws(case: Case, pair: Neighbours) -> None:
    """Check the shape and the values of a pair's draws and of its log density ratio."""
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
        f"the length of one output depends on the dataset: {sorted(widths)}",
        "let draw return outputs of equal length for all datasets",
    )


def _check_account(case: Case, pair: Neighbours) -> None:
    """Check that the account of a pair, which is that of one draw, has at most the mechanism's delta."""
    if pair.account is None:
        return
    own = case.mechanism.accountant
    require(
        pair.account.relation == own.relation,
        f"the account of the pair has the relation {pair.account.relation}, and the mechanism's has {own.relation}",
        "let Neighbours(account=...) be the account of one draw",
    )
    for epsilon in (0.0, 0.1, 1.0):
        one, all_draws = float(pair.account.delta(epsilon)), float(own.delta(epsilon))
        require(
            one <= all_draws * (1 + _TOLERANCE),
            f"the account of the pair has delta = {one:.6g} at epsilon = {epsilon:g}, and the mechanism's has "
            f"{all_draws:.6g}: the audit would test a weaker claim",
            "let Neighbours(account=...) be the account of one draw",
        )


def audit(case: Case) -> None:
    """Check that an audit with few draws does not refute the account."""
    pairs = case.neighbours()
    known = all(pair.loss is not None for pair in pairs)
    most = case.samples if case.example is None else case.example.samples
    samples = most if known else min(most, case.samples)
    _stands(case, "the account", case.mechanism, samples)


def many_draws(case: Case) -> None:
    """Check that the account of more draws is no smaller, and that an audit of all of them does not refute it."""
    mechanism: Any = case.mechanism
    if not any(field.name == "draws" for field in fields(mechanism)):
        raise NotApplicable("the mechanism has no field draws")
    many = replace(mechanism, draws=_MANY * mechanism.draws)
    for epsilon in (0.0, 0.1, 1.0):
        few, more = (float(each.accountant.delta(epsilon)) for each in (mechanism, many))
        require(
            more >= few * (1 - _TOLERANCE),
            f"with draws = {many.draws} the account has delta = {more:.6g} at epsilon = {epsilon:g}, and with draws = "
            f"{mechanism.draws} it has {few:.6g}",
            "let the account of all draws be draws * (the account of one)",
        )
    worst_neighbours_of(many)  # raises NotApplicable if none are known
    _stands(case, f"the account of {many.draws} draws together", many, case.samples)


def other_pairs(case: Case) -> None:
    """Check that an audit of everything that is released does not refute the account on other pairs of datasets."""
    if case.mechanism._draws_coords:
        raise NotApplicable("the names that are released are random, and so is their number")
    relation = case.mechanism.accountant.relation
    pairs = []
    for data in case.datasets:
        if innermost_statistical(case.mechanism) is not None or not reads_records(case.mechanism, data):
            continue
        for pair in record_pairs(data, replaced=isinstance(relation, ReplaceOne)):
            try:
                check_neighbours(relation, *pair, 1)
            except ValueError:  # they hold the same records, or records that may not be exchanged
                continue
            pairs.append(pair)
    if not pairs:
        raise NotApplicable("the data are not arrays of records; audit the mechanism with datasets of your own")
    _stands(case, "the account", case.mechanism, case.samples, datasets=pairs)


def _stands(case: Case, claim: str, mechanism: Mechanism, samples: int, **given: Any) -> None:
    """Raise Violation if an audit refutes the account of a mechanism."""
    verdict = run_audit(mechanism, samples=samples, level=case.level, rng=case.rng(), **given)
    require(
        not verdict.violated,
        f"{claim} is refuted. {verdict.statement}",
        "check the bounds of the accountant, _draw, and the loss of worst_neighbours",
    )


def mutant(case: Case) -> None:
    """Check that an audit refutes the account for the mutant, so that it has the power to find such a bug."""
    if case.example is None:
        raise NotApplicable("the mechanism is not an example of its class, so there is no mutant")
    example = case.example
    require(
        example.mutant != example.mechanism,
        "the mutant is equal to the mechanism",
        "let the mutant of the example violate an assumption of the account",
    )
    case.neighbours()
    claim: Any = example.claim
    verdict = run_audit(example.mutant, claim=claim, samples=example.samples, level=case.level, rng=case.rng())
    require(
        verdict.violated,
        f"the mutant ({example.bug}) was not refuted with samples = {example.samples:,}. {verdict.statement}",
        "increase samples of the example, make the bug of the mutant larger, or let worst_neighbours return a pair "
        "with a larger privacy loss",
    )
