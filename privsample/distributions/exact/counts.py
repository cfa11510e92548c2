"""Exact draws of a count from one of its masses and the ratios of neighbouring masses (exact_choices.md, section 2)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from privsample.distributions.exact.categorical import Categorical

_FIRST = 1024  # counts that one table holds; a larger count is found in tables of doubled size
_MOST = 100_000  # largest maximum whose masses are all held in one table


class MassTerms(NamedTuple):
    """Masses of a count as balls of python-flint, in the precision of its context.

    least: the smallest count. mass: the mass of `least`; any positive number if the count has a maximum of at most
    100 000, because the masses are then normalized. ratio: maps k to the ratio of the masses of k + 1 and k.
    """

    least: int
    mass: Any
    ratio: Callable[[int], Any]


class ExactCount:
    """A distribution of a count that is drawn exactly, by a search through its cumulative masses.

    Parameters
    ----------
    terms : function without arguments
        The masses, computed anew in the precision of python-flint's context.
    maximum : float
        The largest count; +inf if there is none.
    """

    def __init__(self, terms: Callable[[], MassTerms | None], maximum: float) -> None:
        self._terms, self._maximum = terms, maximum
        self._tables: dict[int, Categorical] = {}

    def draw(self, rng: np.random.Generator) -> int:
        """One draw. Its time is proportional to a count beyond 1024."""
        start = 0
        while start + (found := int(self._table(start).draw(1, rng)[0])) == (stop := self._stop(start)):
            start = stop
        return start + found

    def _stop(self, start: int) -> int:
        """The count after the last one of the table that begins with `start`."""
        if self._maximum <= _MOST:
            return int(self._maximum) + 1
        return int(min(max(2 * start, _FIRST), self._maximum + 1))

    def _table(self, start: int) -> Categorical:
        """The counts from `start` on, given that the count is at least `start`; the last category is a larger count."""
        if start in self._tables:
            return self._tables[start]
        stop = self._stop(start)
        made = Categorical.of_balls(lambda _: self._masses(start, stop))
        return self._tables.setdefault(start, made) if stop <= _MOST + 1 else made

    def _masses(self, start: int, stop: int) -> list[Any]:
        """The masses of the counts from `start` to `stop` - 1 and that of all larger counts."""
        terms = self._terms()
        assert terms is not None
        before, found = masses_between(terms, start, stop)
        return found if stop > self._maximum else [*found, 1 - before - sum(found)]


def masses_between(terms: MassTerms, start: int, stop: int) -> tuple[Any, list[Any]]:
    """The mass of all counts before `start`, and the masses of the counts from `start` to `stop` - 1."""
    mass = terms.mass
    before, found = mass * 0, [mass * 0] * max(min(terms.least, stop) - start, 0)
    for k in range(terms.least, stop):
        if k < start:
            before += mass
        else:
            found.append(mass)
        mass = mass * terms.ratio(k)
    return before, found
