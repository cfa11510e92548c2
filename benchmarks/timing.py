"""Audits of wall times on neighbouring data, 10,000 releases on each of two neighbours.

The secret number of runs of a selection, a while loop whose number of rounds depends on the data, and the selection
that always makes all runs. These are strong leaks: runs of one or four, and loops of 5 or 2.5 rounds in the mean.
CONSISTENT says that no leak of such a size was found on this machine, and not that none is there. The time of a release
of each is shown as well.
"""

from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, seconds
from privsample.simulations.audit.verdict import Verdict

RELEASES = 10_000
ANSWER = ps.RandomizedResponse(log_odds=1.5, relation=ps.ReplaceOne(n=1))
FEW = ps.TabulatedRepetitions(probabilities=(0.0, 0.5, 0.0, 0.0, 0.5))  # one run or four


def rows() -> Iterator[Row]:
    """The verdicts and their times."""
    for constant, target in ((True, "CONSISTENT"), (False, "VIOLATED")):
        best = ps.RepeatedSelection(base=ANSWER, repetitions=FEW, constant_time=constant)
        yield _row(f"RepeatedSelection(constant_time={constant})", best, ([0], [1]), best.accountant, target)
    yield _row("stop by a while loop", _stop_by_a_loop, (0.2, 0.4), ps.PureAccountant(stated_epsilon=0.5), "VIOLATED")


def _stop_by_a_loop(data: float, rng: np.random.Generator) -> float:
    """Geometric stopping: it always releases 0, and its number of rounds depends on the data."""
    while rng.random() >= data:
        rng.standard_normal(500)
    return 0.0


def _row(name: str, subject: object, datasets: tuple[object, object], claim: ps.Accountant, target: str) -> Row:
    found: list[Verdict] = []
    time = seconds(
        lambda: found.append(
            ps.audit(subject, datasets=datasets, claim=claim, samples=RELEASES, view="time")  # type: ignore[arg-type]
        )
    )
    (verdict,) = found
    shown = f"delta({verdict.epsilon:.2f}) >= {verdict.lower:.3g}, {verdict.claim:.3g} claimed"
    each = time / (2 * RELEASES) * 1e3
    library = f"{verdict.outcome}, {each:.2f} ms each"
    return Row(name=f"wall times: {name}", library=library, peer=shown, ratio=None, target=target)
