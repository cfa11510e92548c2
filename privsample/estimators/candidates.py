"""Candidates of a search: independent draws from a search space that is fixed before any data are used.

scikit-learn's ParameterSampler draws from lists without replacement and stops when they are exhausted. Its candidates
are not independent, and their number may differ from the drawn number of repetitions, so that the selection theorems do
not apply.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from math import inf, prod
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from privsample.accounting.ledger import Ledger
from privsample.estimators.pipelines import check_steps

Space = tuple[Mapping[str, Any], ...]

_SEEDS = ("rng", "random_state", "seed")
_DRAWS_PER_DISTRIBUTION, _MAX_LISTED_VALUES, _MAX_CANDIDATES = 8, 64, 1000


def search_space(given: Any, estimator: Any) -> Space:
    """Return the search space as a tuple of mappings from parameter names to sequences or distributions with `rvs`.

    `given` is a mapping or a list of mappings. A candidate draws one mapping uniformly, then each parameter
    independently. Raises ValueError or TypeError for an invalid space.
    """
    parts = (given,) if isinstance(given, Mapping) else given
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Mapping) for part in parts):
        raise TypeError(
            f"param_distributions must map parameters to lists or distributions, or be a list of such maps, "
            f"got {type(given).__name__}"
        )
    if not parts or not all(parts):
        raise ValueError("param_distributions must not be empty: name at least one parameter and its values")
    names = set(estimator.get_params(deep=True))
    return tuple(
        {name: _checked_values(name, values, names) for name, values in sorted(part.items())} for part in parts
    )


def _checked_values(name: str, values: Any, known: set[str]) -> Any:
    """Return the values of one parameter: a distribution with `rvs`, or a tuple. Raises ValueError, TypeError."""
    if name.partition("__")[0] not in known:
        raise ValueError(
            f"param_distributions must name parameters of the estimator, got {name!r}; see estimator.get_params()"
        )
    if _parameter_name(name) in {*_SEEDS, "verbose"}:
        raise ValueError(
            f"param_distributions must not name {name!r}: seeds make runs dependent, output reveals their number"
        )
    if hasattr(values, "rvs"):
        return values
    if isinstance(values, (str, bytes, Mapping)) or not (isinstance(values, Sized) and isinstance(values, Iterable)):
        raise TypeError(f"{name!r} must be a list of values or a distribution with rvs, got {values!r}")
    if not len(values):
        raise ValueError(f"{name!r} must have at least one value, got an empty list")
    return tuple(values)


def draw_candidate(space: Space, rng: np.random.Generator) -> dict[str, Any]:
    """Draw one candidate, independently of all others."""
    return _draw_from(space[rng.integers(len(space))], rng)


def _draw_from(part: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Draw each parameter of one mapping independently."""
    return {name: _draw_value(values, rng) for name, values in part.items()}


def _draw_value(values: Any, rng: np.random.Generator) -> Any:
    """Draw one value: by `rvs`, or uniformly from a tuple."""
    return values.rvs(random_state=rng) if hasattr(values, "rvs") else values[rng.integers(len(values))]


def sample_candidates(space: Space) -> Iterator[dict[str, Any]]:
    """Yield candidates that cover each parameter: all listed values up to a limit, and draws of distributions.

    Their accounts are compared, to detect a parameter on which the account depends.
    """
    rng = np.random.default_rng(0)
    for part in space:
        for name, values in part.items():
            count = _DRAWS_PER_DISTRIBUTION if hasattr(values, "rvs") else min(len(values), _MAX_LISTED_VALUES)
            for i in range(count):
                chosen = _draw_value(values, rng) if hasattr(values, "rvs") else values[i]
                yield _draw_from(part, rng) | {name: chosen}


def all_candidates(space: Space) -> Iterator[dict[str, Any]]:
    """Return all candidates of a space of lists. Raises ValueError for distributions and for too many candidates."""
    if any(hasattr(values, "rvs") for part in space for values in part.values()):
        raise ValueError(
            "training_account='worst' needs lists of values, got a distribution; list its values, or pass an account"
        )
    grid = ParameterGrid([{name: list(values) for name, values in part.items()} for part in space])
    if len(grid) > _MAX_CANDIDATES:
        raise ValueError(
            f"training_account='worst' needs at most {_MAX_CANDIDATES} candidates, got {len(grid)}; pass an account"
        )
    return iter(grid)


def candidate_count(space: Space) -> float:
    """Return the number of listed candidates; +inf for a space with distributions."""
    return sum(
        prod(inf if hasattr(values, "rvs") else float(len(values)) for values in part.values()) for part in space
    )


def configure(estimator: Any, candidate: Mapping[str, Any]) -> Any:
    """Return an unfitted clone of the estimator with the candidate's parameters.

    Raises the errors of `set_params`, `check_independent` and `check_steps`.
    """
    made = clone(estimator).set_params(**clone(dict(candidate), safe=False))
    check_independent(made)
    check_steps(made)
    return made


def check_independent(estimator: Any) -> None:
    """Raise ValueError for parameters that make runs dependent or reveal their number; TypeError for no estimator."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise TypeError(f"estimator must be an instance of a scikit-learn estimator, got {type(estimator).__name__}")
    for name, value in estimator.get_params(deep=True).items():
        tied = _parameter_name(name) in _SEEDS and value is not None
        if tied or isinstance(value, (np.random.Generator, np.random.RandomState)):
            raise ValueError(f"{name} must be None, got {value!r}: runs must be independent, not draw the same noise")
        if _parameter_name(name) == "verbose" and value:
            raise ValueError(
                f"{name} must be 0, got {value!r}: the output of runs reveals their number, which is secret"
            )
        if isinstance(value, Ledger):
            raise ValueError(
                f"{name} must be None, got a Ledger: its entries would count the runs; pass it to the search"
            )


def _parameter_name(name: str) -> str:
    """Return the parameter's own name, without the prefix of a nested estimator."""
    return name.rpartition("__")[2]
