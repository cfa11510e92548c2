"""Binary draws from chances that a private mechanism released; only the draws leave."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.postprocessing.bernoulli import BernoulliAccountant
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.posterior.conjugate import DirectPosterior
from privsample.mechanisms.selection.repetition import checked_mechanism

_MOST_MARGIN = 0.5 - 2.0**-40
_ADVICE = "make the base more private, or draw fewer vectors"


def _margin(room: float, _: Mapping[str, Any]) -> float:
    return min(0.5 - room, _MOST_MARGIN)


@frozen_value
class BernoulliSampling(Wrapper):
    """`draws` vectors of coins whose chances are what `base` releases, moved into [margin, 1 - margin].

    The base must release one array; all its numbers together are the d chances, d = `dimension`. It is worked out
    for mechanisms whose public fields say it and must be given for others. The chances themselves stay secret, and so
    does whether there were any: what is no number, and a base that releases no draws, makes the coins fair. At margin 0
    nothing is clipped but to [0, 1], and nothing is gained.
    `release` takes the base's data, and draws "bits", 0 or 1, shape (draws, dimension). It raises ValueError where the
    base does not release `dimension` numbers.
    Source: Imola and Chaudhuri 2021; docs/notes/bernoulli.md.
    """

    base: Mechanism
    margin: float
    draws: int = 1
    dimension: int | None = None
    free_parameters = (FreeParameter(name="margin", upper=0.5, value=_margin, advice=_ADVICE),)
    command = CommandLine(
        help={
            "margin": "chances are moved into [margin, 1 - margin]",
            "dimension": "how many numbers the base releases, where its fields do not say it",
        }
    )

    def __post_init__(self) -> None:
        checked_mechanism(self.base)
        width = _width(self.base) if self.dimension is None else self.dimension
        set_fields(self, dimension=positive_integer(dimension=width))
        account = self.accountant
        set_fields(self, margin=account.margin, draws=account.draws)

    @cached
    def accountant(self) -> BernoulliAccountant:
        """The base's account, seen through the coins: an upper bound."""
        assert self.dimension is not None
        return BernoulliAccountant(
            base=self.base.accountant, margin=self.margin, draws=self.draws, dimension=self.dimension
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Draws whose chances come too near to 0 and 1."""
        base = DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=1)
        example, bug = cls(base=base, margin=0.45, draws=4), "the coins' chances are not moved inside"
        return (Example.with_wrong_fields("bernoulli-sampling", example, margin=0.0, bug=bug, samples=1_500),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The base's pairs, seen through the draws."""
        group = positive_integer(group=group)
        assert self.dimension is not None
        width = self.draws * self.dimension + 1
        return tuple(
            Neighbours(
                account=self.accountant,
                words=case.words,
                datasets=case.datasets,
                draw=one_by_one(self),
                width=width,
            )
            for case in self.base.worst_neighbours(group)
        )

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        chances = self._chances(self.base._draw_checked(statistic, rng).draws)
        return {"bits": draw_with_entropy_check(rng, lambda: self._tossed(chances, rng))}

    def _chances(self, draws: Draws) -> FloatArray:
        arrays = [np.asarray(array) for array in draws.values()] or [np.full(self.dimension or 0, np.nan)]
        if len(arrays) != 1 or arrays[0].size != self.dimension:
            shapes = {name: array.shape for name, array in draws.items()}
            raise ValueError(f"base must release one array of dimension = {self.dimension} numbers, it gave {shapes}")
        numbers = arrays[0].ravel()
        return np.where(np.isnan(numbers), 0.5, numbers)

    def _tossed(self, chances: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
        """By the chance of the rarer side, as doubles next to one would lose a small margin."""
        rarer = np.maximum(np.minimum(chances, 1.0 - chances), self.margin)
        seldom = rng.random((self.draws, len(chances))) < rarer
        return (seldom != (chances > 0.5)).astype(np.int64)


def _width(base: Mechanism) -> int:
    """How many numbers the base releases, by its public fields. Raises: ValueError."""
    shape, model = getattr(base, "shape", None), getattr(base, "model", None)
    if isinstance(model, Model):
        shape = model.empty.shape  # a parameter has as many numbers as the statistic that it is learned from
    if shape is None or not hasattr(base, "draws"):
        raise ValueError("dimension must be given: this base's fields do not say how many numbers it releases")
    return int(base.draws) * prod(shape)
