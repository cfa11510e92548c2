"""Checks of what a confidence set is given, before anything is simulated."""

from inspect import Parameter as Argument
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from privsample._checks import (
    FloatArray,
    function,
    listed,
    mapping,
    nonnegative_integer,
    number,
    positive_integer,
    real_array,
)
from privsample.distributions.models.base import Model
from privsample.distributions.noise import Noise
from privsample.inference.given_records import GivenRecords, Records, drawn_records, simulator_of
from privsample.inference.observations import refuse_groups
from privsample.inference.parameter_box import ParameterBox
from privsample.inference.rank_tests import simulations_needed
from privsample.inference.simulated_statistics import StatisticSimulator
from privsample.mechanisms.noise.private_statistics import PrivateStatistics
from privsample.mechanisms.release import Release

_TRIED = 2  # records that are drawn to see what `records` returns


class ObservedStatistic(NamedTuple):
    """The public parts of a release that a confidence set reads; `copies` has the shape (copies, coordinates)."""

    model: Model
    n: int
    noise: Noise
    copies: FloatArray


def observed_statistic(release: Any) -> ObservedStatistic:
    """The parts of a release. Raises TypeError or ValueError if it is not a release of a noisy statistic."""
    found = PrivateStatistics(release=release) if isinstance(release, Release) else release
    missing = [name for name in ("model", "n", "noise", "observed") if not hasattr(found, name)]
    if missing or isinstance(found, type):
        raise TypeError(
            "release must be a PrivateStatistics, a Release of NoisyStatistics, or an object with model, n, noise and "
            f"observed, got {type(release).__name__}"
        )
    refuse_groups(found)
    if not isinstance(found.model, Model):
        raise TypeError(f"release.model must be one of privsample's models, got {type(found.model).__name__}")
    if not isinstance(found.noise, Noise):
        raise TypeError(
            f"release.noise must be a Noise, such as GaussianNoise(noise_std=2.0), got {type(found.noise).__name__}"
        )
    if isinstance(found, PrivateStatistics) and found.n is None:
        raise ValueError(
            "release must be of a public number of records, but that number is private: use "
            "PrivateStatistics(release=...).noise_aware(), which models it for counts"
        )
    n, copies = positive_integer(**{"release.n": found.n}), real_array(**{"release.observed": found.observed})
    shape = found.model.empty.shape
    if copies.ndim != 1 + len(shape) or copies.shape[1:] != shape or not len(copies):
        wanted = ", ".join(["copies", *map(str, shape)])
        raise ValueError(f"release.observed must have the shape ({wanted}), got {copies.shape}")
    if not np.isfinite(copies).all():
        raise ValueError("release.observed must be finite")
    return ObservedStatistic(found.model, n, found.noise, copies.reshape(len(copies), -1))


def simulator_for(observed: ObservedStatistic, records: Any, parameters: Any) -> StatisticSimulator:
    """The simulator of the statistic: of the model's own records, or of the caller's."""
    if records is None:
        return simulator_of(observed.model, observed.n)
    given: Records = records if isinstance(records, type) else function(records=records)  # a class of distributions
    names = tuple(mapping(parameters=parameters))
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise TypeError(f"parameters must have the names of the parameters as keys, got {wrong[0]!r}")
    try:
        arguments = signature(given).parameters
        signature(given).bind(**dict.fromkeys(names, 0.0))
    except TypeError:
        taken = ", ".join(name for name, one in arguments.items() if one.kind is not Argument.VAR_KEYWORD)
        raise ValueError(
            f"records takes the parameters {taken or 'none'}, but parameters has {', '.join(names) or 'none'}: they "
            "must have the same names"
        ) from None
    except ValueError:  # compiled functions may not tell their arguments
        pass
    return GivenRecords(model=observed.model, n=observed.n, records=given, names=names)


def try_records(observed: ObservedStatistic, records: Records, box: ParameterBox) -> None:
    """Draw two records at the middle of the box. Raises TypeError or ValueError."""
    middle = {name: float(value) for name, value in box.theta(box.low / 2 + box.high / 2).items()}
    drawn_records(records, middle, 1, _TRIED, observed.model, np.random.default_rng(0))


def checked_level(level: Any) -> float:
    """A number in (0, 1)."""
    result = number(level=level)
    if not 0.0 < result < 1.0:
        raise ValueError(f"level must lie in (0, 1), got {level!r}")
    return result


def checked_simulations(simulations: Any, level: float) -> int:
    """A number of simulations that can reject at this level, at either end."""
    result, least = positive_integer(simulations=simulations), simulations_needed(level)
    if not result >= least:
        raise ValueError(f"simulations must be at least {least:,} at the level {level:g}, got {result:,}")
    return result


def checked_seed(seed: Any) -> tuple[int, ...]:
    """At least one word from 0 to 2^32 - 1."""
    words = tuple(nonnegative_integer(**{f"seed[{k}]": word}) for k, word in enumerate(listed(seed=seed)))
    if not (words and max(words) < 2**32):
        raise ValueError(f"seed must hold words from 0 to 2**32 - 1, at least one, got {seed!r}")
    return words
