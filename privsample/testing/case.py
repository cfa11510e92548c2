"""Input of the checks of mechanisms: a mechanism, data that it accepts, and one observed release."""

import copy
import warnings
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.release import Release
from privsample.relations import ReplaceOne
from privsample.testing.base import NotApplicable, Violation, short
from privsample.testing.content import same_content, with_one_more, without_records


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mechanism to check, with the settings of the checks.

    `example` is the example that the mechanism belongs to, if any. `data` are datasets that it accepts, at least one,
    and `wrong` are data that it must refuse. `samples` is the number of draws of an audit, `level` the probability that
    a correct account is refuted, and `seed` the seed of all draws.
    """

    mechanism: Mechanism
    example: Example | None
    data: tuple[Any, ...]
    wrong: tuple[Any, ...]
    samples: int
    level: float
    seed: int

    @property
    def datasets(self) -> tuple[Any, ...]:
        """Copies of the data, so that no check sees changes made by another."""
        return copy.deepcopy(self.data)

    def rng(self, stream: int = 0) -> np.random.Generator:
        """Return the generator of this stream, the same in every check."""
        return np.random.default_rng([self.seed, stream])

    def neighbours(self) -> tuple[Neighbours, ...]:
        """Return the worst neighbours. Raises Violation, or NotApplicable if `worst_neighbours` raises a TypeError."""
        return worst_neighbours_of(self.mechanism)


def worst_neighbours_of(mechanism: Mechanism) -> tuple[Neighbours, ...]:
    """Return the worst neighbours of the mechanism; raises as `Case.neighbours`."""
    if type(mechanism).worst_neighbours is Mechanism.worst_neighbours:
        raise Violation(
            "worst_neighbours is not defined, so no audit can test the account",
            "define worst_neighbours(group=1), which returns a tuple of Neighbours; where none are known, let it raise "
            "a TypeError that says why",
        )
    try:
        return mechanism.worst_neighbours()
    except TypeError as reason:
        raise NotApplicable(f"worst_neighbours() raised TypeError: {reason}") from None
    except Exception as error:
        raise Violation(
            f"worst_neighbours() raised {type(error).__name__}: {error}",
            "let worst_neighbours return a tuple of Neighbours; where none are known, raise a TypeError that says why",
        ) from error


def example_of(mechanism: Mechanism) -> Example | None:
    """Return the example of its class that contains this mechanism, or None."""
    return next((each for each in type(mechanism).examples() if each.mechanism == mechanism), None)


def datasets_of(mechanism: Mechanism, data: Any) -> tuple[Any, ...]:
    """The caller's data, and the datasets of the worst neighbours that `release` accepts.

    Raises TypeError if there are none, and Violation as `worst_neighbours_of` does.
    """
    found, missing = [] if data is None else [data], None
    pairs: tuple[Neighbours, ...] = ()
    try:
        pairs = worst_neighbours_of(mechanism)[:3]
    except NotApplicable:
        pass
    except Violation as broken:
        missing = broken
    for pair in pairs:
        for build in pair.datasets:
            built = build()
            if _accepts(mechanism, built) and not any(same_content(built, one) for one in found):
                found.append(built)
    if missing is not None and not found:
        raise missing
    if not found:
        raise TypeError(
            f"data must be given for {type(mechanism).__name__}, whose worst_neighbours provide none: a small dataset "
            "that release accepts"
        )
    return tuple(found)


def _accepts(mechanism: Mechanism, data: Any) -> bool:
    """Return whether the mechanism accepts the data. Errors other than SchemaError count as accepted here."""
    try:
        mechanism._statistic(copy.deepcopy(data))
    except SchemaError:
        return False
    except Exception:  # noqa: BLE001 - a check reports this error later
        return True
    return True


def reads_records(mechanism: Mechanism, data: Any) -> bool:
    """Return whether the rows of the data are records.

    If the number of records is not public, the mechanism must also accept one more row.
    """
    if without_records(data) is None:
        return False
    if isinstance(mechanism.accountant.relation, ReplaceOne):
        return True
    more = with_one_more(data)
    return more is not None and _accepts(mechanism, more)


def rebuilt(mechanism: Mechanism) -> Mechanism:
    """Return another mechanism with equal fields."""
    if not is_dataclass(mechanism):
        raise Violation(
            f"{type(mechanism).__name__} is not a dataclass, so its fields are unknown",
            "write @dataclass(frozen=True, kw_only=True) above the class",
        )
    cls: Any = type(mechanism)
    made: Mechanism = cls(**{field.name: getattr(mechanism, field.name) for field in fields(cls) if field.init})
    return made


@dataclass(frozen=True, slots=True)
class Outcome:
    """Observable result of one release: names, shapes and types, or the message of a SchemaError; and warnings."""

    form: Any
    refused: str | None
    warned: frozenset[str]
    finite: bool


def form_of(release: Release) -> tuple[tuple[str, tuple[int, ...], str], ...]:
    """Return names, shapes and types of the draws."""
    return tuple((name, release[name].shape, release[name].dtype.str) for name in sorted(release.draws))


def outcome(mechanism: Mechanism, data: Any, rng: np.random.Generator, words: str) -> Outcome:
    """Release once. Raises Violation for any error except SchemaError."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            release = mechanism.release(copy.deepcopy(data), rng=rng)
        except SchemaError as error:
            return Outcome(None, str(error), _texts(caught), True)
        except Exception as error:
            raise Violation(
                f"release raised {type(error).__name__}: {error}, for {words}: {short(data)}",
                "map every value of a record into the public domain in _statistic, and let only data of a wrong "
                "public form raise privsample.errors.SchemaError",
            ) from error
    finite = all(bool(np.isfinite(array).all()) for array in release.draws.values())
    return Outcome(form_of(release), None, _texts(caught), finite)


def _texts(caught: list[warnings.WarningMessage]) -> frozenset[str]:
    """The messages of warnings."""
    return frozenset(str(one.message) for one in caught)
