"""Monte-Carlo audits: draw from two neighbouring datasets and try to refute the claimed privacy curve.

The draws are split into training, selection and evaluation draws. If the densities are unknown, a score is learned on
the training draws. The one or two events at which the claim looks weakest are chosen on the selection draws. The test
uses the evaluation draws only, on which no choice depends. A poor score therefore makes an audit weak and never wrong.
An audit can refute a claim; it cannot prove one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory, generator, number, positive_integer, real_array, renyi_orders
from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.binomials import (
    draws_needed,
    empirical_epsilon,
    excess_limits,
    excess_lower,
    excess_p_value,
)
from privsample.simulations.audit.datasets import pairs_of
from privsample.simulations.audit.draws import Sampler, check_subject, draw_both_outputs, draw_outputs
from privsample.simulations.audit.events import Choice, most_informative_events, strongest_tests
from privsample.simulations.audit.renyi import clipped_lower_limit, renyi_from_curves
from privsample.simulations.audit.scores import Score, learn_scores, score_values
from privsample.simulations.audit.search import Scores, select_pair
from privsample.simulations.audit.verdict import Verdict

Claim = Accountant | Callable[[float], float]

_ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0)
_SHARES = (1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)
_LEARNING, _CHOOSING, _CHOOSING_KNOWN = 0.25, 0.15, 0.1
_LEAST_LEVEL = 1e-11  # p-values are at least 3e-13: the numerical error bound that is added to them
_MOST_POINTS, _FARTHEST = 1_000, 300.0


@dataclass(frozen=True, kw_only=True)
class _ScoredCase:
    """A pair of neighbouring datasets, a score function, and the scores of the selection draws."""

    case: Neighbours
    score: Score
    choosing: Scores

    def strongest_tests(self, epsilons: FloatArray, claims: FloatArray) -> tuple[Choice, ...]:
        """Return the events at which the claims look weakest on the selection draws."""
        return strongest_tests(*self.choosing, epsilons, claims, loss=self.case.loss is not None)


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
) -> Verdict:
    """Try to refute the claimed privacy curve of one draw of `subject`.

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
        The claimed guarantee of one draw: an accountant, or a function from epsilon in nats to delta. By default the
        account of the mechanism; required for a function.
    loss : callable, optional
        Log density ratio, in nats, of the output under the first dataset over the second, from outputs of shape
        (draws, numbers) to shape (draws,). Without it a score is learned from draws. Only the Rényi bounds rely on the
        correctness of `loss`.
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

    Returns
    -------
    Verdict
        The outcome, the tested point of the privacy curve, and confidence bounds.

    Raises
    ------
    TypeError
        If the datasets are missing and no worst pairs are known, or an argument has the wrong type.
    ValueError
        If the inputs are not neighbours, the claim refers to another neighbouring relation, the draws do not fit into
        memory, or outputs are not finite numbers of one shape.
    RuntimeError
        If a draw raises an exception.

    Notes
    -----
    Draws run through joblib: `joblib.parallel_config` runs them in parallel. docs/notes/audit.md proves that the
    verdict and the bounds hold at `level`.

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
    source = np.random.default_rng() if rng is None else generator(rng)
    count, size = positive_integer(samples=samples), positive_integer(group=group)
    if not _LEAST_LEVEL <= number(level=level) < 1.0:
        raise ValueError(f"level must lie in [{_LEAST_LEVEL:g}, 1), got {level!r}")
    cases = _cases(subject, datasets, claim, loss, size)
    check_memory(count * max(case.width for case in cases), lower="samples")
    _check_relation(claim, cases[0].account)
    curve, points = _claimed_curve(cases[0].account if claim is None else claim, size, claim is None, epsilons)
    claims = np.array([_checked_delta(float(e), curve(float(e))) for e in points])
    cases = select_pair(cases, count, points, claims, lambda case, few: _search_scores(case, few, source))
    offered = [(one, one.strongest_tests(points, claims)) for case in cases for one in _score_case(case, count, source)]
    scored, choices = max(offered, key=lambda pair: pair[1][0].strength)
    share = _discarded_fraction(scored.case)
    evidence = max(count - round(count * share), 1)
    first, second = (
        score_values(scored.score, draw_outputs(scored.case, data, evidence, source)) for data in scored.case.datasets
    )
    return _make_verdict(scored, choices, (first, second), points, claims, level, 1 / (1 - share))


def informative_epsilons(account: Accountant) -> tuple[float, ...]:
    """Return epsilons at which delta is large enough for an audit to have power, and the pure epsilon if it is < 30."""
    top = min(float(account.delta(0.0)), float(np.nextafter(1.0, 0.0)))
    found = {float(account.epsilon(top * share)) for share in _SHARES}
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
    claim: Any, group: int, own: bool, epsilons: Sequence[float] | FloatArray | None
) -> tuple[Callable[[float], float], FloatArray]:
    """Return the claimed privacy curve as a function, and the epsilons at which it is tested."""
    if claim is None:
        raise TypeError("claim must be given for a function: an accountant, or a function from epsilon to delta")
    if isinstance(claim, Accountant):
        account = claim.group(group) if group > 1 and own else claim
        points = informative_epsilons(account) if epsilons is None else epsilons
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


def _discarded_fraction(case: Neighbours) -> float:
    """Return the fraction of an audit's draws that are used for training and selection."""
    return _LEARNING + _CHOOSING if case.loss is None else _CHOOSING_KNOWN


def _score_case(case: Neighbours, samples: int, rng: np.random.Generator) -> list[_ScoredCase]:
    """Return each score function of a case, with the scores of the selection draws."""
    if case.loss is not None:
        few = max(round(samples * _CHOOSING_KNOWN), 1)
        scores: tuple[Score, ...] = (case.loss,)
    else:
        teaching = max(round(samples * _LEARNING), 20)
        few = max(round(samples * _CHOOSING), 1)
        scores = learn_scores(*draw_both_outputs(case, teaching, rng))
    outputs = draw_both_outputs(case, few, rng)
    return [
        _ScoredCase(case=case, score=score, choosing=(score_values(score, outputs[0]), score_values(score, outputs[1])))
        for score in scores
    ]


def _search_scores(case: Neighbours, draws: int, rng: np.random.Generator) -> list[Scores]:
    """Return the scores of `draws` selection draws from each dataset; training draws come in addition."""
    return [found.choosing for found in _score_case(case, round(draws / _discarded_fraction(case)), rng)]


def _make_verdict(
    scored: _ScoredCase,
    choices: tuple[Choice, ...],
    evidence: Scores,
    epsilons: FloatArray,
    claims: FloatArray,
    level: float,
    overhead: float,
) -> Verdict:
    """Test the chosen events on the evaluation draws `evidence` and return the verdict (audit.md)."""
    first, second = evidence
    factors = np.exp(epsilons)
    draws = (len(first), len(second))

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
    each = level / (4 * len(epsilons) + 2 * len(_ORDERS))
    counts = [
        [one.counts(first, second) for one in most_informative_events(*scored.choosing, factors, swapped)]
        for swapped in (False, True)
    ]
    limits = [[excess_limits(hits, draws, f, each) for hits, f in zip(row, factors, strict=True)] for row in counts]
    forward, backward = np.array(limits)
    lowers = np.maximum(forward[:, 0], backward[:, 0])
    if claims[at] == lower == 0.0 and (lowers.max() > 0.0 or claims.max() > 0.0):
        at = int(np.argmax(lowers if lowers.max() > 0.0 else claims))
        lower = float(lowers[at])
    empirical = [empirical_epsilon(hits, draws, claims, each) for row in counts for hits in row]
    here, there = scored.case.descriptions
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
        orders=renyi_orders(_ORDERS),
        renyi=_renyi(scored, evidence, epsilons, (forward[:, 0], backward[:, 0]), each),
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
    scored: _ScoredCase,
    evidence: Scores,
    epsilons: FloatArray,
    lowers: tuple[FloatArray, FloatArray],
    level: float,
) -> FloatArray:
    """Return lower confidence bounds on the Rényi divergence at each order, the larger of both directions."""
    forward, backward = lowers
    found = []
    for order in _ORDERS:
        both = [
            renyi_from_curves(order, epsilons, forward, backward),
            renyi_from_curves(order, epsilons, backward, forward),
        ]
        if scored.case.loss is not None:
            first, second = evidence
            for losses, pilot in ((first, scored.choosing[0]), (-second, -scored.choosing[1])):
                both.append(clipped_lower_limit(order, losses, float(np.quantile(pilot, 0.995)), level))
        found.append(max(both))
    return np.array(found)
