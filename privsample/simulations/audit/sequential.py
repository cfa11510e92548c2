"""Sequential audits: pairs of draws are made until the claim is refuted, and may be looked at after every pair.

Events and the leading bet are chosen anew after 32 (128 if a score is learned), 64, 128, ... pairs, on these pairs
only. Each batch of pairs has its own generator, which follows from the seed and the number of pairs before it, so that
an audit that was interrupted continues exactly as if it had not been (docs/notes/sequential_audit.md).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory
from privsample._progress import progress_bar
from privsample.simulations.audit.betting import Wealth
from privsample.simulations.audit.betting_events import (
    Events,
    count_families,
    first_events,
    fit_events,
    read_rows,
)
from privsample.simulations.audit.draws import check_widths, draw_pairs
from privsample.simulations.audit.outputs import search_scores
from privsample.simulations.audit.search import select_pair
from privsample.simulations.audit.sequential_identity import identity
from privsample.simulations.audit.sequential_state import Batch, StateFile, open_state
from privsample.simulations.audit.sequential_verdict import SequentialVerdict
from privsample.simulations.audit.task import AuditTask

Progress = bool | Callable[[SequentialVerdict], object]

_FIRST_KNOWN, _FIRST_LEARNED = 32, 128  # pairs before the first choice of events
_PARTS = 32  # batches between two choices of events: an interruption loses at most this part of the draws
_LEAST_BATCH = 32
_PAST, _PAST_NUMBERS, _LEAST_PAST = 1 << 15, 1 << 22, 1_000  # pairs, and numbers, on which events are chosen
_SEARCH, _LEAST_SEARCH, _MOST_SEARCH = 0.05, 200, 2_000  # draws for the choice among several pairs of datasets


def audit_sequentially(task: AuditTask, *, state: Path | None, progress: Progress) -> SequentialVerdict:
    """Bet against the claim until it is refuted or `task.samples` pairs are drawn. Raises: the errors of `audit`."""
    check_memory(task.samples * max(case.width for case in task.cases), lower="samples")
    with open_state(state) as file, _reports(progress, task.samples) as report:
        run = _Run(task, file)
        while run.step():
            report(run.verdict())
        return run.verdict()


class _Run:
    """A sequential audit between two batches of draws."""

    def __init__(self, task: AuditTask, file: StateFile) -> None:
        self.task, self.file, self.identity = task, file, identity(task)
        file.check(self.identity)
        stored = file.document
        self.seed = int.from_bytes(task.rng.bytes(16)) if stored is None else int(stored["seed"], 16)
        self.place = self._choose_case() if stored is None else int(stored["case"])
        self.case = task.cases[self.place]
        self.datasets = (self.case.datasets[0](), self.case.datasets[1]())
        self.wealth = Wealth(
            epsilons=task.epsilons,
            claims=task.claims,
            families=count_families(task, self.case),
            level=task.level,
        )
        self.batches: list[Batch] = file.batches()
        if stored is not None:
            self.wealth.restore(stored["wealth"])
        self.pairs = self.batches[-1][0] + len(self.batches[-1][1]) if self.batches else 0
        self.events = self._fitted() if self.batches and not self.wealth.violated else first_events(task, self.case)

    def step(self) -> bool:
        """Draw one batch of pairs, bet on it and store it; False if the audit has ended."""
        left = self.task.samples - self.pairs
        if self.wealth.violated or left <= 0:
            return False
        batch = self._draw(min(self._batch_size(), left))
        self._bet(batch)
        self.batches.append(batch)
        self.pairs += len(batch[1])
        oldest = self._refit_time() - self._past_size()
        self.batches = [one for one in self.batches if one[0] + len(one[1]) > oldest]
        document = {
            "identity": self.identity,
            "seed": f"{self.seed:x}",
            "case": self.place,
            "wealth": self.wealth.to_document(),
        }
        self.file.write(document, batch, self.batches[0][0])
        if self.pairs == self._refit_time() and self.pairs < self.task.samples:
            self.events = self._fitted()
        return True

    def verdict(self) -> SequentialVerdict:
        """Return the verdict at this time."""
        here, there = self.case.descriptions
        looks = np.array(self.wealth.looks).reshape(-1, 3)
        return SequentialVerdict(
            pair=f"{here}, and {there}",
            samples=self.wealth.draws,
            maximum=max(self.task.samples, self.wealth.draws),
            level=self.task.level,
            p_value=self.wealth.p_value,
            epsilons=self.task.epsilons,
            claims=self.task.claims,
            lowers=self.wealth.lowers,
            times=looks[:, 0],
            log_wealths=looks[:, 1],
            scales=looks[:, 2],
        )

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def _choose_case(self) -> int:
        """Choose the pair of datasets that comes closest to the claim, on draws that are then discarded."""
        task, rng = self.task, self._generator(0)
        few = int(np.clip(task.samples * _SEARCH, _LEAST_SEARCH, _MOST_SEARCH)) * len(task.cases)
        (chosen,) = select_pair(
            task.cases,
            few,
            task.epsilons,
            task.claims,
            lambda case, draws: search_scores(case, draws, rng),
            in_full=1,
        )
        return next(at for at, case in enumerate(task.cases) if case is chosen)

    def _refit_time(self) -> int:
        """Return the number of pairs at which the present events were chosen; 0 before the first choice."""
        first = _FIRST_KNOWN if first_events(self.task, self.case) is not None else _FIRST_LEARNED
        return 1 << (self.pairs.bit_length() - 1) if self.pairs >= first else 0

    def _batch_size(self) -> int:
        """Return the number of pairs of the next batch; batches end where events are chosen anew."""
        if self.pairs < _LEAST_BATCH:
            return _LEAST_BATCH - self.pairs
        octave = 1 << (self.pairs.bit_length() - 1)
        return min(max(octave // _PARTS, _LEAST_BATCH), 2 * octave - self.pairs)

    def _past_size(self) -> int:
        """Return the number of pairs that are kept for the choice of events."""
        width = self.batches[0][1].shape[1]
        return min(_PAST, max(_PAST_NUMBERS // width, _LEAST_PAST))

    def _fitted(self) -> Events | None:
        """Choose events on the pairs up to the last time of choice."""
        time = self._refit_time()
        past = [one for one in self.batches if one[0] < time]
        if not past:
            return first_events(self.task, self.case)
        first, second = (np.concatenate([one[side] for one in past])[-self._past_size() :] for side in (1, 2))
        return fit_events(self.task, self.case, (first, second), self.wealth)

    def _draw(self, size: int) -> Batch:
        outputs = draw_pairs(self.case, self.datasets, size, self._generator(1, self.pairs))
        first, second = (read_rows(self.task, self.case, table) for table in outputs)
        check_widths({first.shape[1], *(one[1].shape[1] for one in self.batches[-1:])})
        return self.pairs, first, second

    def _bet(self, batch: Batch) -> None:
        rows: tuple[FloatArray, FloatArray] = (batch[1], batch[2])
        if self.events is None:
            self.wealth.wait(len(rows[0]))
        else:
            self.wealth.advance(self.events.outcomes(*rows), self.events.leader)
        self.wealth.look()


@contextmanager
def _reports(progress: Progress, total: int) -> Iterator[Callable[[SequentialVerdict], Any]]:
    """Yield the function that is called with the verdict after each batch. Raises: ImportError, if rich is missing."""
    if callable(progress):
        yield progress
        return
    with progress_bar("audit", total, wanted=progress) as advance:
        done = 0

        def report(verdict: SequentialVerdict) -> None:
            nonlocal done
            advance(verdict.samples - done)
            done = verdict.samples

        yield report
