"""Worst neighbours of logistic regression: two extreme rows that are mirror images, among rows that push both margins.

The two posteriors are mirror images, so their normalizing constants are equal and the loss is known in closed form. The
rows z = (a, -b) and (-a, -b), times the sign of the label, change the gradient most where both margins are low:
docs/notes/glm.md, section 2. Quadrature selects the tilt b/a, and whether the common rows push the margins down.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_expit

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.mechanisms.neighbours import Dataset, Neighbours, records_outside_group
from privsample.mechanisms.privacy_curves import EPSILONS, two_worst

if TYPE_CHECKING:
    from privsample.mechanisms.posterior.glm import LogisticPosterior

_TILTS = np.linspace(0.0, 0.45 * np.pi, 13)
_GRID = np.linspace(-8.0, 8.0, 161)  # in standard deviations of the prior


@frozen_value
class _Rows:
    """The differing rows are (a, -b) and (-a, -b); `pushing` of the common rows are (0, push), the rest zero."""

    a: float
    b: float
    push: float
    pushing: int

    def loss(self, across: FloatArray, along: FloatArray, weight: float) -> FloatArray:
        """The log ratio of the two posteriors, in nats, at coefficients along the two directions."""
        return np.asarray(weight * (self._margin(across, along) - self._margin(-across, along)))

    def _margin(self, across: FloatArray, along: FloatArray) -> FloatArray:
        return np.asarray(log_expit(self.a * across - self.b * along))

    def curve(self, deviations: tuple[float, float], weight: float, group: int) -> FloatArray:
        """The approximate privacy curve at EPSILONS, given the prior's standard deviations in both directions."""
        across, along = deviations[0] * _GRID[:, None], deviations[1] * _GRID
        logs = -(_GRID[:, None] ** 2 + _GRID**2) / 2 + weight * (
            self.pushing * log_expit(self.push * along) + group * self._margin(across, along)
        )
        distribution, loss = np.exp(logs - logs.max()), self.loss(across, along, group * weight)
        kept = [(distribution * -np.expm1(np.minimum(epsilon - loss, 0.0))).sum() for epsilon in EPSILONS]
        return np.array(kept) / distribution.sum()


def logistic_neighbours(mechanism: "LogisticPosterior", group: int) -> tuple[Neighbours, ...]:
    """The two worst pairs of mirrored rows; with an intercept, the worst such pair and a row with either label."""
    rest, one = records_outside_group(group, mechanism.n), replace(mechanism, draws=1)
    if one.intercept_std is not None and rest == 0:
        return (_opposite(one, rest, group),)
    found = _candidates(one, rest)
    wide = one.prior_std * one.prior_weight**-0.5
    second = wide if one.intercept_std is None else one.intercept_std * one.prior_weight**-0.5
    table = np.array([rows.curve((wide, second), one.data_weight, group) for rows in found])
    worst = [_mirrored(one, found[at], group) for at in two_worst(table)]
    return tuple(worst) if one.intercept_std is None else (worst[0], _opposite(one, rest, group))


def _candidates(one: "LogisticPosterior", rest: int) -> list[_Rows]:
    """Candidate rows; with an intercept the second direction is its column of ones, and zero rows with label 1 push."""
    if one.intercept_std is not None:
        return [_Rows(a=float(a), b=1.0, push=1.0, pushing=rest) for a in np.linspace(0.25, 1.0, 4) * one.norm]
    if one.features == 1:
        return [_Rows(a=one.norm, b=0.0, push=0.0, pushing=0)]
    sides = [(float(one.norm * np.cos(tilt)), float(one.norm * np.sin(tilt))) for tilt in _TILTS]
    return [_Rows(a=a, b=b, push=one.norm, pushing=pushing) for a, b in sides for pushing in dict.fromkeys((0, rest))]


def _mirrored(one: "LogisticPosterior", rows: _Rows, group: int) -> Neighbours:
    weight, intercept = group * one.data_weight, one.intercept_std is not None

    def dataset(sign: float) -> Dataset:
        """With an intercept, the differing rows have label 0: z is the negative of the row and its column of ones."""

        def build() -> tuple[FloatArray, FloatArray]:
            table, labels = np.zeros((one.n, one.features)), np.ones(one.n)
            own = slice(one.n - group, one.n)
            table[own, 0] = -sign * rows.a if intercept else sign * rows.a
            labels[own] = 0.0 if intercept else 1.0
            if not intercept and one.features > 1:
                table[own, 1] = -rows.b
                table[: rows.pushing, 1] = rows.push
            return table, labels

        return build

    def describe(sign: float) -> str:
        first = (-sign if intercept else sign) * rows.a
        row = f"({first:.4g})" if intercept or one.features == 1 else f"({first:.4g}, {0.0 - rows.b:.4g})"
        return f"{group:,} of {one.n:,} rows {row} with label {0 if intercept else 1}"

    return Neighbours(
        account=one.accountant,
        descriptions=(describe(1.0), describe(-1.0)),
        datasets=(dataset(1.0), dataset(-1.0)),
        draw=partial(rows_of_draws, one),
        loss=lambda drawn: rows.loss(drawn[:, 0], drawn[:, 1 if drawn.shape[1] > 1 and not intercept else -1], weight),
        width=one.features + intercept,
    )


def _opposite(one: "LogisticPosterior", rest: int, group: int) -> Neighbours:
    """The longest row with either label, among zero rows; equal numbers of both labels keep the intercept centred."""
    weight, among = group * one.data_weight, f"{group:,} of {one.n:,} rows"
    label = np.asarray(np.arange(one.n) % 2, dtype=np.float64)

    def dataset(own: float) -> Dataset:
        def build() -> tuple[FloatArray, FloatArray]:
            table, labels = np.zeros((one.n, one.features)), label.copy()
            table[rest:, 0], labels[rest:] = one.norm, own
            return table, labels

        return build

    return Neighbours(
        account=one.accountant,
        descriptions=(f"{among} ({one.norm:.4g}) with label 1", f"{among} ({one.norm:.4g}) with label 0"),
        datasets=(dataset(1.0), dataset(0.0)),
        draw=partial(rows_of_draws, one),
        loss=None if rest % 2 else lambda drawn: weight * (one.norm * drawn[:, 0] + drawn[:, -1]),
        width=one.features + 1,
    )


def rows_of_draws(one: "LogisticPosterior", data: Any, count: int, rng: np.random.Generator) -> FloatArray:
    """`count` draws in rows, from as few releases as rejection permits."""
    blocks = []
    while count:
        size = _at_once(one, count)
        draws = replace(one, draws=size).release(data, rng=rng).draws
        blocks.append(np.column_stack([draws[name] for name in sorted(draws)]))
        count -= size
    return np.concatenate(blocks)


def _at_once(one: "LogisticPosterior", count: int) -> int:
    """The number of draws that one release may make and still use rejection."""
    while count > 1 and one.uses_rejection and not replace(_floats(one), draws=count).uses_rejection:
        count //= 2
    return count


def _floats(one: "LogisticPosterior") -> "LogisticPosterior":
    """The mechanism without exact draws, whose sampler is chosen by its work alone."""
    return replace(one, sampler="auto", exact=False, grid=None)
