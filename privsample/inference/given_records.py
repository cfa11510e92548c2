"""Simulated statistics of records of any distribution: a function of the parameters, or a model of the user's own."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from privsample._checks import FloatArray, numbers_of
from privsample._value import frozen_value
from privsample.distributions.models.base import Model
from privsample.distributions.models.moments import MomentModel
from privsample.inference.record_blocks import statistics_of_records
from privsample.inference.simulated_statistics import MODEL_SIMULATORS, Parameter, StatisticSimulator, Theta

Records = Callable[..., Any]
_ADVICE = "give ranges in which the distribution is defined"


@frozen_value
class GivenRecords(StatisticSimulator):
    """Statistics of records of any distribution that can be simulated: the caller's function of the parameters."""

    model: Model
    n: int
    records: Records
    names: tuple[str, ...]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments of the function, single numbers."""
        return tuple(Parameter(name) for name in self.names)

    @property
    def cells(self) -> int:
        """One for each number of each record."""
        return self.n * _columns(self.model)

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Seeds of the caller's distribution, which draws all data sets of a block at once; shape (count, 4)."""
        return rng.integers(2**32, size=(count, 4)).astype(np.float64)

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The statistics, shape (count, coordinates)."""
        source = np.random.default_rng(base[0].astype(np.uint32))
        values = {name: float(theta[name]) for name in self.names}
        drawn = drawn_records(self.records, values, len(base), self.n, self.model, source)
        return statistics_of_records(self.model, drawn)


@frozen_value
class ModelRecords(StatisticSimulator):
    """Statistics of records that a model simulates itself, for models of the user's own."""

    model: Model
    n: int

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameter of the model."""
        return (Parameter(self.model.parameter, self.model.draw_shape),)

    @property
    def cells(self) -> int:
        """One for each record."""
        return self.n

    def base(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Seeds of the model, shape (count, 4)."""
        return rng.integers(2**32, size=(count, 4)).astype(np.float64)

    def statistics(self, base: FloatArray, theta: Theta) -> FloatArray:
        """The statistics, shape (count, coordinates)."""
        source = np.random.default_rng(base[0].astype(np.uint32))
        drawn = np.asarray(self.model.simulate(theta[self.model.parameter], len(base) * self.n, source))
        return statistics_of_records(self.model, drawn.reshape(len(base), self.n, *drawn.shape[1:]))


def drawn_records(
    records: Records, theta: Mapping[str, float], count: int, n: int, model: Model, rng: np.random.Generator
) -> FloatArray:
    """Records of the caller's distribution in blocks, shape (count, n) or (count, n, columns).

    Raises TypeError or ValueError, with the call, if there is no distribution at these parameters.
    """
    call = f"records({', '.join(f'{name}={value:g}' for name, value in theta.items())})"
    try:
        distribution = records(**theta)
    except Exception as error:
        raise ValueError(f"{call} failed: {type(error).__name__}: {error}; {_ADVICE}") from error
    if not callable(getattr(distribution, "rvs", None)) or isinstance(distribution, type):
        raise TypeError(
            "records must return a distribution with rvs(size=, random_state=), such as scipy.stats.norm(0, 1), got "
            f"{type(distribution).__name__}"
        )
    try:
        drawn = distribution.rvs(size=count * n, random_state=rng)
    except Exception as error:
        raise ValueError(f"{call} cannot draw records: {type(error).__name__}: {error}; {_ADVICE}") from error
    columns, found = _columns(model), numbers_of(drawn, "rvs of the records")
    wanted = (count * n,) if columns == 1 else (count * n, columns)
    if found.size != count * n * columns or (columns > 1 and found.shape != wanted):
        raise ValueError(
            f"records must return a distribution whose rvs(size={count * n}) has the shape {wanted}, got {found.shape}"
        )
    if np.isnan(found).any():
        raise ValueError(f"{call} drew NaN; {_ADVICE}")
    return found.reshape((count, n) if columns == 1 else (count, n, columns))


def _columns(model: Model) -> int:
    return len(model.moments.bounds) if isinstance(model, MomentModel) else 1


def simulator_of(model: Model, n: int) -> StatisticSimulator:
    """The simulator of a model's own records. Raises TypeError if the model states no distribution of records."""
    make = MODEL_SIMULATORS.get(type(model))
    if make is not None and not getattr(model, "fractional", False):
        return make(model, n)
    if make is not None or type(model).simulate is Model.simulate:
        raise TypeError(
            f"{'fractional records of ' if make else ''}{type(model).__name__} have no distribution that could be "
            "simulated: pass records=, a function of the parameters that returns a distribution of one record"
        )
    return ModelRecords(model=model, n=n)
