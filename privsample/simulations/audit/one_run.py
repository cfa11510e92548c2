"""Audits of one training run: coins decide which canaries it includes, and its result is used to guess the coins."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from privsample._checks import flag, function, generator
from privsample._optional import require
from privsample.accounting.base import Accountant
from privsample.relations import AddRemove, ReplaceOne
from privsample.simulations.audit.canaries import CanarySet, canary_set, check_canaries
from privsample.simulations.audit.canary_scores import CanaryScore, default_scores, score_canaries
from privsample.simulations.audit.one_run_bounds import critical_count
from privsample.simulations.audit.one_run_claims import claim_of
from privsample.simulations.audit.one_run_plan import draw_plan
from privsample.simulations.audit.one_run_verdict import OneRunVerdict, checked_counts

Trainer = Callable[[Any, np.random.Generator], Any]


def audit_one_run(
    train: Trainer | Any,
    canaries: Any,
    *,
    guesses: int,
    claim: Accountant | Callable[[float], float] | None = None,
    substitutes: Any = None,
    score: CanaryScore | None = None,
    level: float = 0.05,
    rng: np.random.Generator | None = None,
    progress: bool = False,
) -> OneRunVerdict:
    """Try to refute the claimed privacy curve of a training procedure by a single run of it.

    A fair coin for each canary decides whether the run includes it. The scores of all canaries under the trained result
    then rank them: half of the guesses say that the canaries with the largest scores were included, the others that
    those with the smallest scores were not. The more guesses are right, the more the run reveals; the number of right
    guesses that the claim allows is proved for any claimed curve. The claim must hold for every single canary while all
    other records, other canaries included, are fixed.

    Parameters
    ----------
    train : callable or estimator
        A function of (records, rng) that trains on these canaries, and on any other records of its own, and returns a
        result of any kind. It must not learn of the coins in another way. Or an estimator with `fit`, which is cloned
        and fitted to the canaries alone.
    canaries : list, array or tuple (rows, targets)
        The canaries, which must differ from each other: a list of records of any kind, an array with one record in each
        row, or rows of shape (m, ...) with targets of shape (m,). `train` gets them in the same form. See
        `orthogonal_canaries` for linear models.
    guesses : int
        Number of guesses, from 1 to the number of canaries m. It is fixed here, before the scores are known. Few
        guesses are more often right, and too few cannot refute the claim: see `critical_guesses`.
    claim : Accountant or callable, optional
        The claimed guarantee of the run: an account, or a function from epsilon in nats to delta, which must hold in
        both directions of its relation. By default the account of an estimator of the library for m records.
    substitutes : list, array or tuple, optional
        A record for each canary, in the form of `canaries`, that takes its place when its coin leaves it out. Required
        if the claim is under ReplaceOne, where the number of records is public; not allowed under AddRemove.
    score : callable, optional
        A function of (result, canary) that is larger where inclusion is more likely; `canary` is a record or a pair
        (row, target). By default, for fitted estimators: the alignment of the coefficients of a linear model with the
        canary's gradient, the log probability of its class, or minus its squared error, each minus that of its
        substitute.
    level : float, default 0.05
        Significance level in [1e-200, 1): a true claim is called VIOLATED with at most this probability.
    rng : numpy.random.Generator, optional
        Generator of the coins, and parent of the generator of the training; by default the entropy of the operating
        system.
    progress : bool, default False
        Whether to show a progress bar while canaries are scored; needs rich.

    Returns
    -------
    OneRunVerdict
        The outcome, the number of right guesses, and lower bounds on epsilon and mu.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or `claim` or `score` is missing and has no default.
    ValueError
        If canaries repeat, substitutes do not fit them or the relation of the claim, or an argument is out of range.
    RuntimeError
        If the score of a canary raises an exception.

    Warns
    -----
    TooFewGuessesWarning
        Before training, if even right guesses alone could not refute the claim.

    Notes
    -----
    Mahloujifar, Melis and Chaudhuri 2024; Steinke, Nasr and Jagielski 2023, Theorem 5.2; docs/notes/one_run.md
    proves the level and states its conditions. Scores run through joblib: `joblib.parallel_config` runs them in
    parallel. `OneRunPlan` divides the audit in two where training happens elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> model = ps.PrivateSGDClassifier(epsilon=5, norm=1, radius=1, epochs=1, fit_intercept=False)
    >>> canaries, substitutes = ps.orthogonal_canaries(400)
    >>> rng = np.random.default_rng(1)
    >>> verdict = ps.audit_one_run(model, canaries, substitutes=substitutes, guesses=150, rng=rng)
    >>> verdict.outcome
    'CONSISTENT'
    """
    source, shown = generator(rng), flag(progress=progress)
    run, own_claim = _trainer(train)
    members = canary_set(canaries=canaries)
    others = None if substitutes is None else canary_set(substitutes=substitutes)
    check_canaries(members, others)
    checked_counts(len(members), guesses, level)
    if score is not None:
        function("result", "canary", score=score)
        require("joblib", "audit", "an audit in one run")
    elif members.targets is None:
        raise TypeError("score must be given for canaries without targets: a function of (result, canary)")
    if members.targets is None and hasattr(train, "fit"):
        raise TypeError("canaries must be a tuple (rows, targets) for an estimator, which is fitted to them")
    claimed = own_claim(members) if claim is None else claim
    _check_relation(claimed, others is not None)
    plan = draw_plan(claimed, len(members), guesses, level, source, stacklevel=3)
    result = run(members.chosen(plan.included, others), source.spawn(1)[0])
    scores = (
        default_scores(result, members, others)
        if score is None
        else score_canaries(score, result, members, progress=shown)
    )
    return plan.verdict(scores)


def critical_guesses(
    claim: Accountant | Callable[[float], float], *, canaries: int, guesses: int, level: float = 0.05
) -> int | None:
    """Least number of right guesses with which a one-run audit refutes a claim.

    Compare numbers of guesses before an audit: their number must be fixed before scoring.

    Parameters
    ----------
    claim : Accountant or callable
        The claimed guarantee of the training run: an account, or a function from epsilon in nats to delta.
    canaries : int
        Number of canaries, from 1 to 1,000,000.
    guesses : int
        Number of guesses, from 1 to `canaries`.
    level : float, default 0.05
        Significance level in [1e-200, 1).

    Returns
    -------
    int or None
        The least number of right guesses whose probability under the claim is at most `level`; None if `guesses` right
        ones would not refute the claim.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or is out of range.

    Notes
    -----
    docs/notes/one_run.md, sections 3 and 4. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> claim = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    >>> [ps.critical_guesses(claim, canaries=1_000, guesses=guesses) for guesses in (50, 100, 200)]
    [None, 99, 193]
    """
    checked = checked_counts(canaries, guesses, level)
    return critical_count(checked["guesses"], checked["canaries"], checked["level"], claim_of(claim))


def _trainer(train: Any) -> tuple[Trainer, Callable[[CanarySet], Accountant]]:
    """The function that trains, and the one that returns its account by default. Raises TypeError."""
    if not hasattr(train, "fit") or isinstance(train, type):
        return function("records", "rng", train=train), _no_account
    require("sklearn", "audit", "an audit of an estimator")
    from sklearn.base import clone

    def run(records: Any, rng: np.random.Generator) -> Any:
        given = {"rng": rng} if "rng" in signature(train.fit).parameters else {}
        return clone(train).fit(*records, **given)

    def account(canaries: CanarySet) -> Accountant:
        priced = getattr(train, "accountant_for", None)
        if priced is None:
            return _no_account(canaries)
        made: Accountant = priced(n=len(canaries), features=np.asarray(canaries.records).shape[1])
        return made

    return run, account


def _no_account(canaries: CanarySet) -> Accountant:  # noqa: ARG001 - estimators of the library read the number
    raise TypeError("claim must be given: an accountant, or a function from epsilon to delta")


def _check_relation(claim: Any, replaced: bool) -> None:
    """Check that canaries are included in the way that the claim's relation protects. Raises ValueError."""
    if not isinstance(claim, Accountant):
        return
    relation = claim.relation
    if isinstance(relation, ReplaceOne) and not replaced:
        raise ValueError(
            f"substitutes must be given: the claim is for {relation.description}, so each canary needs a record that "
            "takes its place"
        )
    if isinstance(relation, AddRemove) and replaced:
        raise ValueError(
            f"substitutes must be left out: the claim is for {relation.description}, and replacing a record is two of "
            "these changes; or give claim.to(ReplaceOne(n=...))"
        )
    if not isinstance(relation, ReplaceOne | AddRemove):
        raise ValueError(f"claim must be under AddRemove or ReplaceOne, got {relation.description}")
