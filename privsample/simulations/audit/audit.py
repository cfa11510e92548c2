"""Monte-Carlo audits: draw from two neighbouring datasets and try to refute the claimed privacy curve.

The draws are split into training, selection and evaluation draws. If the densities are unknown, a score is learned on
the training draws. The one or two events at which the claim looks weakest are chosen on the selection draws. The test
uses the evaluation draws only, on which no choice depends. A poor score therefore makes an audit weak and never wrong.
An audit can refute a claim; it cannot prove one.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from privsample._checks import FloatArray, flag, function, generator, number, one_of, positive_integer, real_array
from privsample._optional import require
from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.bits import audit_bits
from privsample.simulations.audit.datasets import pairs_of
from privsample.simulations.audit.draws import Sampler, check_subject, of_all_draws
from privsample.simulations.audit.outputs import audit_outputs
from privsample.simulations.audit.sequential import Progress, audit_sequentially
from privsample.simulations.audit.sequential_verdict import SequentialVerdict
from privsample.simulations.audit.task import AuditTask, AuditView
from privsample.simulations.audit.times import audit_times
from privsample.simulations.audit.verdict import Verdict

Claim = Accountant | Callable[[float], float]

# The views of an audit: each takes the same task and returns a verdict.
_VIEWS: dict[AuditView, Callable[[AuditTask], Verdict]] = {
    "outputs": audit_outputs,
    "bits": audit_bits,
    "time": audit_times,
}

_SHARES = (1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)
_SMALL_SHARES = (1e-3, 1e-5)  # an event of bits or times can be nearly impossible on one of the datasets
_LEAST_LEVEL = 1e-11  # p-values are at least 3e-13: the numerical error bound that is added to them
_MOST_POINTS, _FARTHEST = 1_000, 300.0


@overload
def audit(
    subject: Mechanism | Sampler,
    *,
    datasets: tuple[Any, Any] | list[tuple[Any, Any]] | None = None,
    claim: Claim | None = None,
    loss: Callable[[FloatArray], FloatArray] | None = None,
    group: int = 1,
    epsilons: Sequence[float] | FloatArray | None = None,
    samples: int = 100_000,
    level: float = 1e-6,
    rng: np.random.Generator | None = None,
    view: AuditView = "outputs",
    sequential: Literal[False] = False,
    state: str | os.PathLike[str] | None = None,
    progress: Progress = False,
) -> Verdict: ...


@overload
def audit(
    subject: Mechanism | Sampler,
    *,
    datasets: tuple[Any, Any] | list[tuple[Any, Any]] | None = None,
    claim: Claim | None = None,
    loss: Callable[[FloatArray], FloatArray] | None = None,
    group: int = 1,
    epsilons: Sequence[float] | FloatArray | None = None,
    samples: int = 100_000,
    level: float = 1e-6,
    rng: np.random.Generator | None = None,
    view: AuditView = "outputs",
    sequential: Literal[True],
    state: str | os.PathLike[str] | None = None,
    progress: Progress = False,
) -> SequentialVerdict: ...


def audit(
    subject: Mechanism | Sampler,
    *,
    datasets: tuple[Any, Any] | list[tuple[Any, Any]] | None = None,
    claim: Claim | None = None,
    loss: Callable[[FloatArray], FloatArray] | None = None,
    group: int = 1,
    epsilons: Sequence[float] | FloatArray | None = None,
    samples: int = 100_000,
    level: float = 1e-6,
    rng: np.random.Generator | None = None,
    view: AuditView = "outputs",
    sequential: bool = False,
    state: str | os.PathLike[str] | None = None,
    progress: Progress = False,
) -> Verdict | SequentialVerdict:
    """Try to refute the claimed privacy curve of `subject`.

    The audit draws from two neighbouring datasets and compares the frequencies of an event with the claim. The event is
    chosen on draws that are then discarded, so a poor choice makes the audit weak and never wrong. The claim is tested
    in both directions of the pair.

    Parameters
    ----------
    subject : Mechanism or callable
        A mechanism, or a function of (data, rng) that returns one output: a number or an array of fixed shape. Each
        call must be independent of the others.
    datasets : tuple of two datasets or list of such tuples, optional
        Neighbouring inputs, or candidate pairs of them (see `neighbouring_pairs`). By default the known worst pairs of
        the mechanism. Required for a function and for a mechanism whose worst pairs are not known. Of three or more
        pairs, the audit uses the pair that comes closest to the claim on separate draws: `samples` per dataset in
        total, but at least 200 per pair and round.
    claim : Accountant or callable, optional
        The claimed guarantee of one draw: an accountant, or a function from epsilon in nats to delta; required for a
        function. By default the account of the mechanism: that of all its draws together, and for another view than
        "outputs" that of one draw.
    loss : callable, optional
        Log density ratio, in nats, of the output under the first dataset over the second, from outputs of shape
        (draws, numbers) to shape (draws,). Without it a score is learned from draws. Only the Rényi bounds rely on the
        correctness of `loss`. It is that of one draw: for several draws of a mechanism the sum is used if they are
        independent, and a learned score otherwise.
    group : int, default 1
        Number of units in which the datasets differ, >= 1. The account of the mechanism is converted to groups of this
        size; a given `claim` must already refer to such groups.
    epsilons : sequence of float, optional
        1 to 1,000 epsilons at which to test, in nats, each in [0, 300]. By default between the epsilon of the largest
        claimed delta and the epsilon of a fiftieth of it.
    samples : int, default 100_000
        Number of draws from each dataset, >= 1, those that choose the event included.
    level : float, default 1e-6
        Probability of a false alarm, in [1e-11, 1): a true claim is called VIOLATED with at most this probability.
    rng : numpy.random.Generator, optional
        Generator of the draws; by default seeded by the operating system. Equal generators give equal verdicts.
    view : {"outputs", "bits", "time"}, default "outputs"
        What the audit looks at. "outputs": the outputs as real numbers, rounded to nine digits. "bits": the released
        floating-point numbers bit by bit. "time": the output of a release together with its wall time. The releases
        then run one after the other, in random order on the two datasets, and `Verdict.event` names the tested event;
        wall times differ between two runs of an audit, also for equal generators.
    sequential : bool, default False
        Bet against the claim after every pair of draws, one from each dataset, and stop as soon as it is refuted, or
        after `samples` pairs. The verdict may be looked at after every draw. Views: "outputs" and "bits".
    state : path, optional
        File of a sequential audit, written after every batch of draws. If it exists, the audit continues from it
        exactly as if it had not been interrupted, and `rng` is not used; `samples` may differ. It is locked while the
        audit runs.
    progress : bool or callable, default False
        For sequential audits: a function that is called with the verdict so far after every batch of draws, or True
        for a progress bar on standard error, which needs rich.

    Returns
    -------
    Verdict or SequentialVerdict
        The outcome, the tested point of the privacy curve, and confidence bounds; of a sequential audit, the outcome,
        the wealth of the bets, and bounds that hold at every time.

    Raises
    ------
    TypeError
        If the datasets are missing and no worst pairs are known, or an argument has the wrong type.
    ValueError
        If `view` is unknown, the inputs are not neighbours, the claim refers to another neighbouring relation, the
        draws do not fit into memory, outputs are not finite numbers of one shape, or `state` belongs to another audit.
    RuntimeError
        If a draw raises an exception.
    TimeoutError
        If another audit uses the file `state`.
    OSError
        If the file `state` cannot be read or written.
    ImportError
        If the extra `audit` is not installed, or a progress bar is wanted and rich is not installed.

    Notes
    -----
    Draws run through joblib: `joblib.parallel_config` runs them in parallel. docs/notes/audit.md proves that the
    verdict and the bounds hold at `level`, docs/notes/sequential_audit.md proves it for sequential audits.

    Examples
    --------
    >>> import numpy as np
    >>> import privsample as ps
    >>> rng = np.random.default_rng(1)
    >>> claim = ps.LaplaceAccountant(sensitivity=1, scale=1)
    >>> too_precise = ps.LaplaceMechanism(sensitivity=1, scale=0.5)
    >>> verdict = ps.audit(too_precise, claim=claim, samples=2_000, rng=rng)
    >>> verdict.outcome
    'VIOLATED'
    """
    if not one_of(view, _VIEWS):
        raise ValueError(f"view must be {' or '.join(map(repr, _VIEWS))}, got {view!r}")
    for package in ("joblib", "sklearn", "threadpoolctl"):
        require(package, "audit", "an audit")
    path = _sequential_arguments(view, flag(sequential=sequential), state, progress)
    source = np.random.default_rng() if rng is None else generator(rng)
    count, size = positive_integer(samples=samples), positive_integer(group=group)
    if not _LEAST_LEVEL <= number(level=level) < 1.0:
        raise ValueError(f"level must lie in [{_LEAST_LEVEL:g}, 1), got {level!r}")
    cases = _cases(subject, datasets, claim, loss, size)
    if isinstance(subject, Mechanism) and claim is None and view == "outputs":
        cases = tuple(of_all_draws(subject, case) for case in cases)
    _check_relation(claim, cases[0].account)
    curve, points = _claimed_curve(cases[0].account if claim is None else claim, size, claim is None, epsilons, view)
    claims = np.array([_checked_delta(float(e), curve(float(e))) for e in points])
    task = AuditTask(
        subject=subject,
        claim=claim,
        cases=cases,
        epsilons=points,
        claims=claims,
        samples=count,
        level=level,
        rng=source,
        view=view,
    )
    if sequential:
        return audit_sequentially(task, state=path, progress=progress)
    return _VIEWS[view](task)


def _sequential_arguments(view: AuditView, sequential: bool, state: Any, progress: Any) -> Path | None:
    """Check the arguments of sequential audits, and return the path of the file. Raises: TypeError, ValueError."""
    given = [name for name, item in (("state", state is not None), ("progress", progress is not False)) if item]
    if given and not sequential:
        verb = "needs" if len(given) == 1 else "need"
        raise ValueError(f"{' and '.join(given)} {verb} sequential=True: other audits make all draws at once")
    if sequential and view == "time":
        raise ValueError(
            'view="time" has no sequential audit, because wall times cannot be drawn again: leave sequential out, or '
            'audit the "outputs" or the "bits"'
        )
    if callable(progress):
        function("verdict", progress=progress)
    else:
        flag(progress=progress)
    if state is not None and not isinstance(state, (str, os.PathLike)):
        raise TypeError(f"state must be a path or None, got {type(state).__name__}")
    if state is not None and "\0" in os.fspath(state):
        raise ValueError(f"state must be a path without NUL characters, got {os.fspath(state)!r}")
    return None if state is None else Path(state)


def informative_epsilons(account: Accountant, shares: Sequence[float] = _SHARES) -> tuple[float, ...]:
    """Return epsilons at which delta is large enough for an audit to have power, and the pure epsilon if it is < 30."""
    top = min(float(account.delta(0.0)), float(np.nextafter(1.0, 0.0)))
    found = {float(account.epsilon(top * share)) for share in shares}
    pure = {account.pure_epsilon} if account.infinity_mass == 0.0 and account.pure_epsilon < 30.0 else set()
    return tuple(sorted(e for e in found | pure if e <= _FARTHEST)) or (0.0,)


def _check_relation(claim: Any, account: Accountant | None) -> None:
    """Refuse a claim under another neighbouring relation than that of the mechanism. Raises: ValueError."""
    if isinstance(claim, Accountant) and account is not None and type(claim.relation) is not type(account.relation):
        raise ValueError(
            f"claim is under another neighbouring relation ({claim.relation.description}) than the audited mechanism "
            f"({account.relation.description}); give a claim under the relation of the mechanism"
        )


def _cases(subject: Any, datasets: Any, claim: Any, loss: Any, group: int) -> tuple[Neighbours, ...]:
    check_subject(subject)
    if loss is not None and not callable(loss):
        raise TypeError(f"loss must be a function from outputs to log density ratios, got {type(loss).__name__}")
    if datasets is None:
        if not isinstance(subject, Mechanism):
            raise TypeError("datasets is required for a function: give a pair of neighbouring inputs")
        if loss is not None:
            raise TypeError("loss needs datasets: it is the log density ratio of their two distributions")
        return subject.worst_neighbours(group)
    pairs = datasets if isinstance(datasets, list) else [datasets]
    if not (pairs and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)):
        what = ", ".join(type(pair).__name__ for pair in pairs[:3]) or "nothing"
        raise TypeError(
            f"datasets must be a pair (first, second) of neighbouring inputs or a list of pairs, got {what}"
        )
    if loss is not None and len(pairs) > 1:
        raise TypeError(
            f"loss needs one pair: it is the log density ratio of its two distributions, got {len(pairs)} pairs"
        )
    return pairs_of(subject, pairs, claim, loss, group)


def _claimed_curve(
    claim: Any, group: int, own: bool, epsilons: Sequence[float] | FloatArray | None, view: AuditView
) -> tuple[Callable[[float], float], FloatArray]:
    """Return the claimed privacy curve as a function, and the epsilons at which it is tested."""
    if claim is None:
        raise TypeError("claim must be given for a function: an accountant, or a function from epsilon to delta")
    if isinstance(claim, Accountant):
        account = claim.group(group) if group > 1 and own else claim
        shares = _SHARES if view == "outputs" else _SHARES + _SMALL_SHARES
        points = informative_epsilons(account, shares) if epsilons is None else epsilons
        curve: Callable[[float], float] = lambda e: float(account.delta(e))  # noqa: E731
    elif callable(claim):
        points, curve = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0) if epsilons is None else epsilons, claim
    else:
        raise TypeError(f"claim must be an accountant or a function from epsilon to delta, got {claim!r}")
    checked = np.unique(real_array(epsilons=points))
    if not (1 <= checked.size <= _MOST_POINTS and checked[0] >= 0.0 and checked[-1] <= _FARTHEST):
        raise ValueError(f"epsilons must name 1 to {_MOST_POINTS:,} epsilons, each in [0, {_FARTHEST:g}]")
    return curve, checked


def _checked_delta(epsilon: float, claim: Any) -> float:
    name = f"the delta claimed at epsilon = {epsilon:.4g}"
    delta = number(**{name: claim})
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {claim!r}")
    return delta
