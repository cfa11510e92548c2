"""Noisy projected gradient descent in one pass over the records, of which only the last state is released."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from privsample._checks import FloatArray, check_memory, count_noun, positive_integer, real_array
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.sgd import SGDAccountant
from privsample.distributions.rows import count_clipped_rows, labelled, within_norm
from privsample.distributions.steps.losses import ConvexLoss, LogisticLoss, SquaredLoss, descent_pass
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.examples import QUIET, Example
from privsample.mechanisms.neighbours import Dataset, Neighbours, others_beside
from privsample.mechanisms.notes import CuratorNotes

_CELLS = 1 << 22  # numbers that are cleaned at a time
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee"


@frozen_value
class PublicRecords:
    """Records that need no protection: rows (k, features) and targets (k,), as the private ones are given."""

    rows: FloatArray
    targets: FloatArray

    def __post_init__(self) -> None:
        rows, targets = real_array(rows=self.rows).copy(), real_array(targets=self.targets).copy()
        if rows.ndim != 2 or targets.shape != rows.shape[:1] or not len(rows):
            raise ValueError(
                f"rows and targets must have shapes (k, features), (k,), got {rows.shape}, {targets.shape}"
            )
        rows.flags.writeable = targets.flags.writeable = False
        set_fields(self, rows=rows, targets=targets)


def _scaled_by_gradient(ratio: float, fields: Mapping[str, Any]) -> float:
    whole: float = fields["loss"].gradient_sensitivity / positive_integer(batch=fields["batch"])
    return whole * ratio


@frozen_value
class NoisyProjectedSGD(Mechanism):
    """One step x -> onto the ball(x - rate (mean gradient of the batch + penalty x + noise)) for each batch, from zero.

    noise: N(0, noise_std^2) in each coordinate. Only the last state leaves, so that later noise hides earlier records.
    With `hidden_order` the records are shuffled inside, in secret; else they are taken in the order given. After them
    come `public_tail` more steps, on batches of `public` in turn, which hide the last records too.
    The public rule: what is not a finite number counts as 0, a row longer than the loss's norm in L2 is scaled down to
    it, targets are cleaned as the loss says. The constants that decide the cost are derived from the loss.
    `release` takes a pair (rows of shape (n, features), targets of shape (n,)), and draws "coefficients", shape
    (1, features), and "intercept", shape (1,), where the loss has one.
    Source: Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1; docs/notes/sgd.md.
    """

    loss: ConvexLoss
    n: int
    rate: float
    noise_std: float
    batch: int = 1
    hidden_order: bool = True
    public_tail: int = 0
    public: PublicRecords | None = None
    unit: str = "record"
    free_parameters = (
        FreeParameter(name="noise_std", direction="smallest", value=_scaled_by_gradient, advice=_ADVICE),
    )
    command = CommandLine(
        data=("labelled rows",),
        help={
            "loss": 'e.g. "logistic-loss features=2 norm=1 radius=5"',
            "rate": "the step's length",
            "batch": "how many records a step reads (default: 1)",
            "hidden_order": "shuffle the records in secret, or not (default: shuffle)",
            "public_tail": "how many steps on public records follow (default: 0)",
            "public": "a JSON file with the public records: rows and targets",
        },
    )

    def __post_init__(self) -> None:
        account = self.accountant
        for name in ("n", "rate", "noise_std", "batch", "public_tail"):
            set_fields(self, **{name: getattr(account, name)})
        check_memory(self.batch * self.loss.width, lower="batch or features")
        check_memory(self.public_tail * self.batch, lower="public_tail or batch")
        if (self.public is None) != (self.public_tail == 0):
            raise ValueError("public_tail and public go together: how many further steps, and the records they are on")
        if self.public is not None and self.public.rows.shape[1] != self.loss.features:
            raise ValueError(f"public rows must have {self.loss.features} features, got {self.public.rows.shape[1]}")

    @cached
    def accountant(self) -> SGDAccountant:
        """Under ReplaceOne(n)."""
        return SGDAccountant(
            loss=self.loss,
            n=self.n,
            rate=self.rate,
            noise_std=self.noise_std,
            batch=self.batch,
            public_tail=self.public_tail,
            hidden_order=self.hidden_order,
            unit=self.unit,
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Steps with too little noise, in a known order."""
        loss = LogisticLoss(features=2, norm=1.0, radius=1.0, penalty=1.0, intercept=False)
        example = cls(loss=loss, n=3, rate=0.5, noise_std=1.5, hidden_order=False)
        return (Example.with_wrong_fields("gradient-descent", example, noise_std=0.75, bug=QUIET, samples=3_000),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Rows of zeros, and the longest row with either extreme target: the last, and the first if order is known."""
        group = positive_integer(group=group)
        loss, places = self.loss, {"": False} if self.hidden_order else {", the last": True, ", the first": False}
        ends = (loss.target, -loss.target) if isinstance(loss, SquaredLoss) else (1.0, 0.0)
        among = f"{group:,} of {self.n:,}: a row of norm {loss.norm:g} and target"
        return tuple(
            Neighbours(
                account=self.accountant,
                words=(f"{among} {ends[0]:g}{place}", f"{among} {ends[1]:g}{place}"),
                datasets=(self._extreme(group, ends[0], last=last), self._extreme(group, ends[1], last=last)),
                draw=one_by_one(self),
                width=loss.width + 1,
            )
            for place, last in places.items()
        )

    def _extreme(self, group: int, target: float, *, last: bool) -> Dataset:
        """The group is as long as may be in the first coordinate."""
        n, loss = self.n, self.loss
        changed = slice(others_beside(group, n), n) if last else slice(0, group)

        def build() -> tuple[FloatArray, FloatArray]:
            rows, targets = np.zeros((n, loss.features)), np.zeros(n)
            rows[changed, 0], targets[changed] = loss.norm, target
            return rows, targets

        return build

    def _statistic(self, data: Any) -> tuple[FloatArray, FloatArray]:
        return labelled(data, self.loss.features, self.n)

    def _draw(self, statistic: tuple[FloatArray, FloatArray], rng: np.random.Generator) -> Draws:
        state = self._last(*statistic, rng)
        draws = {"coefficients": state[None, : self.loss.features]}
        return draws | {"intercept": state[-1:]} if self.loss.intercept else draws

    def validate(self, data: Any) -> CuratorNotes:
        """What the public rule would change in these data, for the curator's eyes. Raises: SchemaError."""
        rows, targets = self._statistic(data)
        facts = count_clipped_rows(rows, self.loss.norm) | self.loss.count_problems(targets)
        return CuratorNotes(
            title=f"{count_noun(self.n, 'row')} of {count_noun(self.loss.features, 'number')} with targets",
            facts={reason: count for reason, count in facts.items() if count},
        )

    def _last(self, rows: FloatArray, targets: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The last state, (width,)."""
        order = rng.permutation(self.n) if self.hidden_order else np.arange(self.n)
        state = self._pass(np.zeros(self.loss.width), rows, targets, order, rng)
        if self.public is not None:
            taken = np.resize(np.arange(len(self.public.rows)), self.public_tail * self.batch)
            state = self._pass(state, self.public.rows, self.public.targets, taken, rng)
        return state

    def _pass(
        self, state: FloatArray, rows: FloatArray, targets: FloatArray, order: Any, rng: np.random.Generator
    ) -> FloatArray:
        """One step for each batch of these records, cleaned a few batches at a time."""
        size = self.batch * max(1, _CELLS // (self.batch * self.loss.width))
        for start in range(0, len(order), size):
            taken = order[start : start + size]
            columns = within_norm(rows[taken], self.loss.norm)
            if self.loss.intercept:
                columns = np.column_stack([columns, np.ones(len(columns))])
            noise = self.noise_std * rng.standard_normal((-(-len(taken) // self.batch), self.loss.width))
            state = descent_pass(
                self.loss,
                state,
                columns,
                self.loss.clean_targets(targets[taken]),
                rate=self.rate,
                noise=noise,
                batch=self.batch,
            )
        return state
