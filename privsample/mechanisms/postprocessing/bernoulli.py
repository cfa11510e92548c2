"""Bernoulli draws whose probabilities a private mechanism releases; only the draws are released."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, positive_integer
from privsample._entropy import draw_with_entropy_check
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.postprocessing.bernoulli import BernoulliAccountant
from privsample.distributions.exact.categorical import bernoulli_draws
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism, Wrapper
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.posterior.conjugate import DirectPosterior
from privsample.mechanisms.selection.repetition import check_mechanism_type

_MOST_MARGIN = 0.5 - 2.0**-40
_ADVICE = "make the base more private, or draw fewer vectors"


def _margin(distance: float, _: Mapping[str, Any]) -> float:
    return min(0.5 - distance, _MOST_MARGIN)


@frozen_value
class BernoulliSampling(Wrapper):
    """Bernoulli draws whose success probabilities are the output of `base`, clipped to [margin, 1 - margin].

    The base releases one array of d = `dimension` numbers, which are the probabilities of the d entries of each vector.
    The probabilities are not released. A NaN is replaced by 1/2; if the base releases no draws,
    all probabilities are 1/2. With margin 0 the probabilities are clipped only to [0, 1], and the step does not amplify
    privacy. `release` takes the base's data, and releases "bits", 0 or 1, shape (draws, dimension). It raises
    ValueError if the base does not release `dimension` numbers.

    Parameters
    ----------
    base : Mechanism
        The inner mechanism, whose data `release` takes.
    margin : float
        Probabilities are clipped to [margin, 1 - margin], in [0, 1/2).
    draws : int, default 1
        Number of vectors, drawn independently given the same secret probabilities, >= 1. The account covers all of
        them.
    dimension : int, optional
        How many numbers d the base releases, >= 1. None derives it from the public fields of the base.

    Raises
    ------
    ValueError
        If a field lies outside its range, or `dimension` must be given for this base.
    TypeError
        If the base is not a mechanism.

    Notes
    -----
    Imola and Chaudhuri 2021; docs/notes/bernoulli.md. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=3)
    >>> mechanism = ps.BernoulliSampling(base=base, margin=0.2, draws=4)
    >>> mechanism.release([0, 1, 1])["bits"].shape
    (4, 1)
    >>> round(float(mechanism.accountant.epsilon(0.0)), 3)
    5.545
    """

    base: Mechanism
    margin: float
    draws: int = 1
    dimension: int | None = None
    free_parameters = (FreeParameter(name="margin", upper=0.5, value=_margin, advice=_ADVICE),)
    command = CommandLine(
        help={
            "margin": "probabilities are clipped to [margin, 1 - margin]",
            "dimension": "how many numbers the base releases, if its fields do not determine it",
        }
    )

    def __post_init__(self) -> None:
        check_mechanism_type(self.base)
        width = _width(self.base) if self.dimension is None else self.dimension
        set_fields(self, dimension=positive_integer(dimension=width))
        account = self.accountant
        set_fields(self, margin=account.margin, draws=account.draws)

    @cached
    def accountant(self) -> BernoulliAccountant:
        """The account of the Bernoulli draws, an upper bound derived from the base's account."""
        assert self.dimension is not None
        return BernoulliAccountant(
            base=self.base.accountant, margin=self.margin, draws=self.draws, dimension=self.dimension
        )

    @property
    def quantity(self) -> str:
        """The label "drawn bit"."""
        return "drawn bit"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A mutant whose probabilities are not clipped."""
        base = DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=1)
        example, bug = cls(base=base, margin=0.45, draws=4), "the probabilities are not clipped"
        return (Example.with_wrong_fields("bernoulli-sampling", example, margin=0.0, bug=bug, samples=800),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The base's worst neighbours, with the Bernoulli draws as outputs."""
        group = positive_integer(group=group)
        assert self.dimension is not None
        width = self.draws * self.dimension + 1
        return tuple(
            Neighbours(
                account=self.accountant,
                descriptions=case.descriptions,
                datasets=case.datasets,
                draw=one_by_one(self),
                width=width,
            )
            for case in self.base.worst_neighbours(group)
        )

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        probabilities = self._probabilities(self.base._draw_checked(statistic, rng).draws)
        return {"bits": draw_with_entropy_check(rng, lambda: self._bernoulli_draws(probabilities, rng))}

    def _probabilities(self, draws: Draws) -> FloatArray:
        arrays = [np.asarray(array) for array in draws.values()] or [np.full(self.dimension or 0, np.nan)]
        if len(arrays) != 1 or arrays[0].size != self.dimension:
            shapes = {name: array.shape for name, array in draws.items()}
            raise ValueError(f"base must release one array of dimension = {self.dimension} numbers, got {shapes}")
        numbers = arrays[0].ravel()
        return np.where(np.isnan(numbers), 0.5, numbers)

    def _bernoulli_draws(self, probabilities: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw exactly by the probability of the rarer outcome, because 1 - margin would round a small margin away.

        A probability above 1/2 has an exact complement, so that the probability of the rarer outcome is not rounded.
        """
        rarer = np.maximum(np.minimum(probabilities, 1.0 - probabilities), self.margin)
        is_rarer = bernoulli_draws(np.broadcast_to(rarer, (self.draws, len(rarer))), rng)
        return (is_rarer != (probabilities > 0.5)).astype(np.int64)


def _width(base: Mechanism) -> int:
    """How many numbers the base releases, derived from its public fields. Raises ValueError."""
    shape, model = getattr(base, "shape", None), getattr(base, "model", None)
    if isinstance(model, Model):
        shape = model.empty.shape  # the parameter has the shape of its sufficient statistic
    if shape is None or not hasattr(base, "draws"):
        raise ValueError(
            "dimension must be given: the fields of this base do not determine how many numbers it releases"
        )
    return int(base.draws) * prod(shape)
