"""Candidates of a search: independent draws from a space that is fixed before any data are seen.

scikit-learn's ParameterSampler draws lists without replacement and stops when they are used up. Candidates are then
neither independent nor as many as the distribution of runs says, and the theorems of the best of a random number of
runs fail.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from privsample.accounting.ledger import Ledger

Space = tuple[Mapping[str, Any], ...]

_SEEDS = ("rng", "random_state", "seed")
_PROBES, _MOST_PROBES, _MOST_CANDIDATES = 8, 64, 1000


def search_space(given: Any, estimator: Any) -> Space:
    """The space as a tuple of mappings from parameters to values: sequences, or distributions with `rvs`.

    Parameters: given, a mapping or a list of mappings; a candidate draws one of them, then each parameter by itself.
    Raises: ValueError, TypeError.
    """
    parts = (given,) if isinstance(given, Mapping) else given
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Mapping) for part in parts):
        raise TypeError(
            f"param_distributions must map parameters to lists or distributions, or be a list of such maps, "
            f"got {type(given).__name__}"
        )
    if not parts or not all(parts):
        raise ValueError("param_distributions is empty: name at least one parameter and what it may be")
    names = set(estimator.get_params(deep=True))
    return tuple(
        {name: _checked_values(name, values, names) for name, values in sorted(part.items())} for part in parts
    )


def _checked_values(name: str, values: Any, known: set[str]) -> Any:
    """A distribution, or a tuple of values."""
    if name.partition("__")[0] not in known:
        raise ValueError(f"param_distributions names {name!r}, which is no parameter of the estimator")
    if _last(name) in {*_SEEDS, "verbose"}:
        raise ValueError(
            f"param_distributions must not name {name!r}: seeds would tie the runs together, output would count them"
        )
    if hasattr(values, "rvs"):
        return values
    if isinstance(values, (str, bytes, Mapping)) or not (isinstance(values, Sized) and isinstance(values, Iterable)):
        raise TypeError(f"{name!r} must be a list of values or a distribution with rvs, got {values!r}")
    if not len(values):
        raise ValueError(f"{name!r} has an empty list of values: the search space is empty")
    return tuple(values)


def drawn(space: Space, rng: np.random.Generator) -> dict[str, Any]:
    """One candidate, independent of all others."""
    return _drawn(space[rng.integers(len(space))], rng)


def _drawn(part: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {name: _value(values, rng) for name, values in part.items()}


def _value(values: Any, rng: np.random.Generator) -> Any:
    return values.rvs(random_state=rng) if hasattr(values, "rvs") else values[rng.integers(len(values))]


def sample_candidates(space: Space) -> Iterator[dict[str, Any]]:
    """Candidates that show whether cost depends on them: some values of every parameter, all where they are few."""
    rng = np.random.default_rng(0)
    for part in space:
        for name, values in part.items():
            count = _PROBES if hasattr(values, "rvs") else min(len(values), _MOST_PROBES)
            for i in range(count):
                chosen = _value(values, rng) if hasattr(values, "rvs") else values[i]
                yield _drawn(part, rng) | {name: chosen}


def all_candidates(space: Space) -> Iterator[dict[str, Any]]:
    """All candidates of a space of lists. Raises: ValueError, for distributions, and for too many."""
    if any(hasattr(values, "rvs") for part in space for values in part.values()):
        raise ValueError("training_account='worst' needs lists of values: a distribution has too many to look at")
    grid = ParameterGrid([{name: list(values) for name, values in part.items()} for part in space])
    if len(grid) > _MOST_CANDIDATES:
        raise ValueError(
            f"training_account='worst' looks at each candidate, at most {_MOST_CANDIDATES}, not {len(grid)}"
        )
    return iter(grid)


def prepared(estimator: Any, candidate: Mapping[str, Any]) -> Any:
    """An unfitted estimator with the candidate's parameters.

    Raises: as `set_params`; ValueError, as `check_independent`.
    """
    made = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    check_independent(made)
    return made


def check_independent(estimator: Any) -> None:
    """Refuse what ties runs together or tells their number. Raises: ValueError."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise TypeError(f"estimator must be an estimator of scikit-learn's kind, got {type(estimator).__name__}")
    for name, value in estimator.get_params(deep=True).items():
        tied = _last(name) in _SEEDS and value is not None
        if tied or isinstance(value, (np.random.Generator, np.random.RandomState)):
            raise ValueError(
                f"{name} must be None, got {value!r}: every run would draw the same noise, but runs must be independent"
            )
        if _last(name) == "verbose" and value:
            raise ValueError(f"{name} must be off, got {value!r}: what runs print tells their number, which is secret")
        if isinstance(value, Ledger):
            raise ValueError(
                f"{name} must be None: the search pays for all its runs, and its ledger must not count them"
            )


def _last(name: str) -> str:
    return name.rpartition("__")[2]
