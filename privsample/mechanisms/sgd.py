"""Noisy projected gradient descent over one or more epochs; only the last state is released."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, check_memory, count_noun, positive_integer, real_array
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.sgd import Order, SGDAccountant
from privsample.distributions.record_format import LabelledFormat
from privsample.distributions.rows import count_clipped_rows, labelled, within_norm
from privsample.distributions.steps.losses import ConvexLoss, LogisticLoss, SquaredLoss, descent_pass
from privsample.distributions.steps.starts import InitialDistribution, PointStart
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.neighbours import Dataset, Neighbours, records_outside_group
from privsample.mechanisms.notes import CuratorNotes

_CELLS = 1 << 22  # numbers cleaned at a time, to bound the memory
_ADVICE = "ask for delta > 0, or for a Rényi or zCDP guarantee"


@frozen_value
class PublicRecords:
    """Public records, which need no protection, in the form of the private ones.

    Parameters
    ----------
    rows : numpy.ndarray of float
        The features, shape (k, features), k >= 1.
    targets : numpy.ndarray of float
        The targets or labels, shape (k,).

    Raises
    ------
    ValueError
        If the shapes do not match.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.PublicRecords(rows=[[0.5], [1.0]], targets=[0.5, 1.0]).rows.shape
    (2, 1)
    """

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
    full_batch: float = fields["loss"].gradient_sensitivity / positive_integer(batch=fields["batch"])
    return full_batch * ratio


def _approximate_account(made: Any) -> Accountant | None:
    """An approximate account that guides the search for the noise; None if the account itself is in closed form."""
    account = made.accountant
    return None if account.approximate is account else account.approximate


@frozen_value
class NoisyProjectedSGD(Mechanism):
    """Differentially private projected gradient descent over one or more epochs, under ReplaceOne(n).

    The state starts at 0, or at a draw from `initial`. Each batch makes one step x -> P(x - rate (mean gradient +
    penalty x + noise)), where P projects onto the ball of the loss and the noise is N(0, noise_std^2) in each
    coordinate. Only the last state is released, so the noise of later steps also protects earlier records. `release`
    takes a pair (rows of shape (n, features), targets of shape (n,)), and releases "coefficients", shape (1, features),
    and "intercept", shape (1,), if the loss has one. An entry that is not a finite number counts as 0, a row longer
    than the loss's `norm` in L2 is scaled down to it, and targets are cleaned as the loss documents.

    Parameters
    ----------
    loss : ConvexLoss
        The loss, such as `LogisticLoss(...)` or `SquaredLoss(...)`. All constants of the account are derived from it.
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
    rate : float
        Step size, finite and > 0.
    noise_std : float
        Standard deviation of the noise on each coordinate of the mean gradient, finite and > 0.
    batch : int, default 1
        Number of records that a step reads, >= 1.
    epochs : int, default 1
        Number of passes over the records, >= 1.
    order : {"shuffle_once", "reshuffle", "given", "allocated"}, default "shuffle_once"
        Order in which an epoch reads the records. "shuffle_once": shuffled secretly and uniformly, the same in each
        epoch. "reshuffle": shuffled secretly and anew for each epoch. "given": as given. "allocated": each record takes
        part in one step of each epoch, chosen uniformly, secretly and independently; sums are divided by `batch`.
    public_tail : int, default 0
        Number of further steps on public records, >= 0, which also protect the last private records.
    public : PublicRecords, optional
        The public records of the further steps, read cyclically. Required if `public_tail` > 0, else left out.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    initial : InitialDistribution, optional
        Distribution of the initial state, such as `UniformInBall(radius=1)`; by default the state starts at 0. A draw
        is projected onto the ball of the loss. It does not change the account, because it depends on no record.

    Raises
    ------
    TypeError
        If `initial` is not an InitialDistribution.
    ValueError
        If a field lies outside its range, `public` and `public_tail` do not match, or a fixed initial state has the
        wrong length.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Algorithm 1; docs/notes/sgd.md. Kind: upper bound.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> loss = ps.LogisticLoss(features=2, norm=1.0, radius=1.0, penalty=1.0, intercept=False)
    >>> mechanism = ps.NoisyProjectedSGD(loss=loss, n=50, rate=0.5, noise_std=4.0)
    >>> round(float(mechanism.accountant.epsilon(1e-6)), 2)
    0.91
    >>> mechanism.release((np.ones((50, 2)), np.ones(50)))["coefficients"].shape
    (1, 2)
    """

    loss: ConvexLoss
    n: int
    rate: float
    noise_std: float
    batch: int = 1
    epochs: int = 1
    order: Order = "shuffle_once"
    public_tail: int = 0
    public: PublicRecords | None = None
    unit: str = "record"
    initial: InitialDistribution | None = None
    free_parameters = (
        FreeParameter(
            name="noise_std",
            direction="smallest",
            value=_scaled_by_gradient,
            advice=_ADVICE,
            approximate=_approximate_account,
        ),
    )
    command = CommandLine(
        data=("labelled rows",),
        help={
            "loss": 'e.g. "logistic-loss features=2 norm=1 radius=5"',
            "rate": "the step's length",
            "batch": "the number of records in a step (default: 1)",
            "epochs": "the number of passes over the records (default: 1)",
            "order": "how the records are shuffled: once, anew for each epoch, not, or allocated (default: once)",
            "public_tail": "the number of further steps on public records (default: 0)",
            "public": "a JSON file with the public records: rows and targets",
            "initial": 'the distribution of the initial state, e.g. "uniform-in-ball radius=1" (default: 0)',
        },
    )

    def __post_init__(self) -> None:
        account = self.accountant
        for name in ("n", "rate", "noise_std", "batch", "epochs", "public_tail"):
            set_fields(self, **{name: getattr(account, name)})
        check_memory(self.batch * self.loss.width, lower="batch or features")
        check_memory(self.public_tail * self.batch, lower="public_tail or batch")
        if (self.public is None) != (self.public_tail == 0):
            raise ValueError(
                "public_tail and public must be given together: the number of further steps, and their records"
            )
        if self.public is not None and self.public.rows.shape[1] != self.loss.features:
            raise ValueError(f"public rows must have {self.loss.features} features, got {self.public.rows.shape[1]}")

        if not isinstance(self.initial, InitialDistribution | None):
            raise TypeError(f"initial must be an InitialDistribution or None, got {type(self.initial).__name__}")
        if isinstance(self.initial, PointStart) and len(self.initial.point) != self.loss.width:
            raise ValueError(
                f"initial must have {self.loss.width} coordinates, one for each coefficient, got "
                f"{len(self.initial.point)}"
            )

    @cached
    def accountant(self) -> SGDAccountant:
        """The account under ReplaceOne(n), an upper bound."""
        return SGDAccountant(
            loss=self.loss,
            n=self.n,
            rate=self.rate,
            noise_std=self.noise_std,
            batch=self.batch,
            public_tail=self.public_tail,
            epochs=self.epochs,
            order=self.order,
            unit=self.unit,
        )

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise on the sum of a batch's gradients, in units of the largest change of this sum
        when one record is replaced.
        """
        return self.noise_std * self.batch / self.loss.gradient_sensitivity

    @property
    def record_format(self) -> LabelledFormat:  # type: ignore[override]
        """Rows of features with their labels."""
        return LabelledFormat(features=self.loss.features)

    @property
    def quantity(self) -> str:
        """The label "coefficient"."""
        return "coefficient"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Examples with a known order, in one epoch and in three, and mutants that add too little noise."""
        loss = LogisticLoss(features=2, norm=1.0, radius=1.0, penalty=1.0, intercept=False)
        example = cls(loss=loss, n=3, rate=0.5, noise_std=1.5, order="given")
        # Targets far above the predictions make the maps nearly linear, so that the draws come near the bound.
        linear = SquaredLoss(features=2, norm=1.0, radius=1.0, target=4.0, intercept=False)
        epochs = cls(loss=linear, n=2, rate=0.01, noise_std=8.0, epochs=3, order="given")
        return (
            Example.with_wrong_fields("gradient-descent", example, noise_std=0.75, bug=TOO_LITTLE_NOISE, samples=5_000),
            Example.with_wrong_fields("descent-epochs", epochs, noise_std=4.0, bug=TOO_LITTLE_NOISE, samples=1_500),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Rows of zeros and longest rows with either extreme target, last and, if the order is known, first."""
        group = positive_integer(group=group)
        loss, places = self.loss, {"": False} if self.order != "given" else {", the last": True, ", the first": False}
        ends = (loss.target, -loss.target) if isinstance(loss, SquaredLoss) else (1.0, 0.0)
        among = f"{group:,} of {self.n:,}: a row of norm {loss.norm:g} and target"
        return tuple(
            Neighbours(
                account=self.accountant,
                descriptions=(f"{among} {ends[0]:g}{place}", f"{among} {ends[1]:g}{place}"),
                datasets=(self._extreme(group, ends[0], last=last), self._extreme(group, ends[1], last=last)),
                draw=one_by_one(self),
                width=loss.width + 1,
            )
            for place, last in places.items()
        )

    def extreme_records(self) -> FloatArray:
        """The longest rows with either extreme target, and a row of zeros with target 0."""
        ends = (self.loss.target, -self.loss.target) if isinstance(self.loss, SquaredLoss) else (1.0, 0.0)
        records = np.zeros((3, self.loss.features + 1))
        records[:2, 0], records[:2, -1] = self.loss.norm, ends
        return records

    def _extreme(self, group: int, target: float, *, last: bool) -> Dataset:
        """A dataset of zeros in which the group's rows have the largest norm, along the first coordinate."""
        n, loss = self.n, self.loss
        changed = slice(records_outside_group(group, n), n) if last else slice(0, group)

        def build() -> tuple[FloatArray, FloatArray]:
            rows, targets = np.zeros((n, loss.features)), np.zeros(n)
            rows[changed, 0], targets[changed] = loss.norm, target
            return rows, targets

        return build

    def _statistic(self, data: Any) -> tuple[FloatArray, FloatArray]:
        return labelled(data, self.loss.features, self.n)

    def _draw(self, statistic: tuple[FloatArray, FloatArray], rng: np.random.Generator) -> Draws:
        state = self._last_state(*statistic, rng)
        draws = {"coefficients": state[None, : self.loss.features]}
        return draws | {"intercept": state[-1:]} if self.loss.intercept else draws

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        rows, targets = self._statistic(data)
        facts = count_clipped_rows(rows, self.loss.norm) | self.loss.count_problems(targets)
        return CuratorNotes(
            title=f"{count_noun(self.n, 'row')} of {count_noun(self.loss.features, 'number')} with targets",
            facts={reason: count for reason, count in facts.items() if count},
        )

    def _last_state(self, rows: FloatArray, targets: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The last state, shape (width,)."""
        records = self._cleaned(rows, targets) if self.n * self.loss.width <= _CELLS else None
        order, edges = self._batches(rng)
        state = self._first_state(rng)
        for epoch in range(self.epochs):
            if epoch and self.order in ("reshuffle", "allocated"):
                order, edges = self._batches(rng)
            state = self._pass(state, rows, targets, order, edges, rng, cleaned=records)
        if self.public is not None:
            taken = np.resize(np.arange(len(self.public.rows)), self.public_tail * self.batch)
            edges = np.arange(self.public_tail + 1) * self.batch
            state = self._pass(state, self.public.rows, self.public.targets, taken, edges, rng)
        return state

    def _batches(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The order of the records in one epoch, and the positions between which its steps read them."""
        steps = self.accountant.steps_per_epoch
        if self.order == "allocated":
            step = rng.integers(steps, size=self.n)
            order = np.argsort(step, kind="stable")
            return order, np.searchsorted(step[order], np.arange(steps + 1))
        order = np.arange(self.n) if self.order == "given" else rng.permutation(self.n)
        return order, np.minimum(np.arange(steps + 1) * self.batch, self.n)

    def _first_state(self, rng: np.random.Generator) -> FloatArray:
        """The initial state, shape (width,), in the ball. Raises ValueError if a user's function fails."""
        if self.initial is None:
            return np.zeros(self.loss.width)
        state = self.initial.sample(self.loss.width, rng)
        if state.shape != (self.loss.width,) or not np.isfinite(state).all():
            raise ValueError(
                f"initial must draw {self.loss.width} finite numbers, one for each coefficient, got shape {state.shape}"
            )
        return self.loss.ball(state)

    def _cleaned(self, rows: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rows and targets after the public rule, with the column of the intercept."""
        columns = within_norm(rows, self.loss.norm)
        if self.loss.intercept:
            columns = np.column_stack([columns, np.ones(len(columns))])
        return columns, self.loss.clean_targets(targets)

    def _pass(
        self,
        state: FloatArray,
        rows: FloatArray,
        targets: FloatArray,
        order: NDArray[np.int64],
        edges: NDArray[np.int64],
        rng: np.random.Generator,
        cleaned: tuple[FloatArray, FloatArray] | None = None,
    ) -> FloatArray:
        """One step for the records between each two edges; a few batches at a time are cleaned, to limit memory, if
        they were not cleaned before.
        """
        count = max(1, _CELLS // (self.batch * self.loss.width))
        for start in range(0, len(edges) - 1, count):
            cut = edges[start : start + count + 1]
            taken = order[cut[0] : cut[-1]]
            columns, labels = (
                self._cleaned(rows[taken], targets[taken])
                if cleaned is None
                else (cleaned[0][taken], cleaned[1][taken])
            )
            noise = self.noise_std * rng.standard_normal((len(cut) - 1, self.loss.width))
            state = descent_pass(
                self.loss, state, columns, labels, rate=self.rate, noise=noise, batch=self.batch, edges=cut - cut[0]
            )
        return state
