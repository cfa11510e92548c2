"""Draws of a model's parameter, given the sufficient statistic of one column of records."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Protocol

import numpy as np

from privsample._checks import FloatArray, check_memory, count_noun, positive_integer
from privsample._value import set_fields
from privsample.distributions.domains import Domain
from privsample.distributions.models.base import Model, Records
from privsample.distributions.record_format import RecordFormat
from privsample.errors import SchemaError
from privsample.mechanisms.base import Draws, Mechanism, readable_class_name
from privsample.mechanisms.draws import many_draws
from privsample.mechanisms.intervals import column_names
from privsample.mechanisms.neighbours import Draw, Neighbours, records_outside_group
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.neighbours import LogDensity, column_pair, in_column


class Sampled(Protocol):
    """A distribution that can be sampled."""

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws; the first axis has length `size`."""


class ConjugateMechanism(Mechanism):
    """Base class: draws of a model's parameter, given the sufficient statistic of n records in one column.

    `release` takes the column (array protocol or Arrow stream), reads it once, and draws `parameter`, shape (draws,) or
    (draws, K).
    """

    __slots__ = ()
    model: Model
    n: int
    draws: int
    unit: str

    @property
    def parameter(self) -> str:
        """The name under which the draws are released."""
        return self.model.parameter

    @property
    def domain(self) -> Domain:
        """The set of valid records, with the public rule for all other values."""
        return self.model.domain

    @property
    def record_format(self) -> RecordFormat:  # type: ignore[override]
        """The format of the model's records."""
        return self.model.record_format

    @property
    def _label(self) -> str:
        """A description of the parameter."""
        return self.model.description

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return {self.parameter: (self.model.axis_name,)} if self.model.axis_name else {}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        names = getattr(self.model, "names", ())
        if self.model.axis_name == "feature" and not names and isinstance(data, (tuple, list)) and len(data) == 2:
            names = column_names(data[0])
        return {self.model.axis_name: tuple(names)} if self.model.axis_name and names else {}

    @property
    def title(self) -> str:
        """The class name with spaces and the description of the parameter."""
        return f"{readable_class_name(type(self))} of {self._label}"

    @property
    def quantity(self) -> str:
        """The description of the parameter, as a short label."""
        return self._label.removeprefix("the ").replace("each category", "category")

    @property
    def _why_no_tally(self) -> str:
        if self.model._has_exact_statistic:
            return super()._why_no_tally
        return (
            f"{type(self).__name__} of a {type(self.model).__name__} model has no tallies: the statistic has no "
            "exact sum; define exact_statistic in the model, or call release with all of the data"
        )

    @abstractmethod
    def _draw_distribution(self, statistic: FloatArray) -> Sampled:
        """The distribution of one draw, given the statistic."""

    def _draw(self, statistic: Any, rng: np.random.Generator) -> Draws:
        return {self.parameter: self._draw_distribution(statistic).sample(self.draws, rng)}

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        facts, count = self.model.examine(data, self.domain)
        self._check_size(count)
        return CuratorNotes(title=f"{count_noun(count, 'record')}, expected {self.domain.description}", facts=facts)

    def extreme_records(self) -> FloatArray:
        """The extreme records of the model, in the unit of the column."""
        own = [in_column(records, self.model.domain, self.domain) for records in self.model.extreme_records]
        return np.unique(own)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The records of the model that lead to the most different statistics or posteriors."""
        group = positive_integer(group=group)
        records_outside_group(group, self.n)
        return tuple(self._pair(records, group, self._log_density) for records in self.model.extreme_records)

    def _pair(
        self,
        records: Records,
        group: int,
        log_density: Callable[[FloatArray], LogDensity] | None,
        *,
        raised: int = 0,
    ) -> Neighbours:
        one: Any = replace(self, draws=1)  # type: ignore[type-var]
        return column_pair(
            model=self.model,
            n=self.n,
            domain=self.domain,
            account=one.accountant,
            draw=one._many_draws(one),
            records=records,
            group=group,
            log_density=log_density,
            raised=raised,
        )

    @abstractmethod
    def _log_density(self, statistic: FloatArray) -> LogDensity:
        """The log density of one draw given the statistic, as a function of draws (count, ...) to (count,)."""

    def _many_draws(self, outer: Mechanism) -> Draw:
        return many_draws(self, self.parameter, outer)

    def _check_draws(self) -> None:
        self.model.domain.check_summable(self.n, self.model.domain.high - self.model.domain.low)
        set_fields(self, draws=positive_integer(draws=self.draws))
        check_memory(self.draws * prod(self.model.draw_shape), lower="draws")

    def _statistic(self, data: Any) -> Any:
        statistic, count = self._summary(data)
        self._check_size(count)
        return statistic

    def _summary(self, data: Any) -> tuple[Any, int]:
        """The statistic and the number of records."""
        return self.model.summarize(data)

    def _check_size(self, count: int) -> None:
        if count != self.n:
            raise SchemaError(
                f"n = {self.n} records were declared, the data hold {count}; declare n as it is, or fix the data"
            )
