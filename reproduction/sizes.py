"""Small sizes: settings with which each experiment takes about a second, for the tests of every change.

The tests before a release run each experiment in full. An experiment without an entry here is an error.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from reproduction import (
    bernoulli,
    bernoulli_regimes,
    calibration,
    candidate_selection,
    composed_draws,
    confidence_sets,
    coverage,
    diffusion,
    efficiency,
    epochs,
    gibbs,
    gibbs_likelihood,
    gibbs_regions,
    inference_table,
    langevin_model,
    langevin_quadrature,
    leak,
    logistic_accuracy,
    low_bits,
    mixing,
    mixing_conditions,
    posterior_convergence,
    posterior_entropy,
    posterior_held_out,
    posterior_levels,
    profiles,
    public_steps,
    regression,
    regression_learners,
    selection_data,
    selection_tight,
    selection_use,
    sgd,
    sgd_small_data,
    tempered,
)
from reproduction.calibration_models import MODELS
from reproduction.flights import Flights, flights

Settings = tuple[tuple[ModuleType, str, Any], ...]  # a module, the name of a value in it, and the smaller value


@cache
def _some_flights() -> Flights:
    """Every tenth flight."""
    year = flights()
    return Flights(day=year.day[::10], codes=year.codes[::10])


WHOLE: Settings = ()  # the experiment in full is small enough
_PARAMETERS: Settings = (
    (bernoulli, "DIMENSIONS", (1, 2)),
    (bernoulli, "MARGINS", (0.3,)),
    (bernoulli, "REPEATED", ((1, 3), (1, 2))),
    (bernoulli, "SEARCHED", (1.0,)),
    (bernoulli, "EPSILONS", np.geomspace(1e-3, 100, 3)),
    (bernoulli, "NEAR", 3),
)
_SELECTION: Settings = (
    (selection_data, "MEANS", np.array([2.0, 10.0, 100.0, 1000.0])),
    (selection_use, "RUNS", 30),
)
_RENYI: Settings = ((selection_data, "ORDERS", np.array([2.0, 10.0])),)
_CHAIN: Settings = ((gibbs, "SWEEPS", 20), (gibbs, "flights", _some_flights))
_UTILITY: Settings = tuple(
    (module, "EPSILONS", np.array([1e-3, 0.1, 10.0])) for module in (posterior_entropy, posterior_held_out)
)
_LEVELS: Settings = ((posterior_levels, "POINTS", 12),)
_PROFILES: Settings = ((profiles, "EPSILONS", np.array([0.05, 0.2, 1.0, 3.0])),)
_DIFFUSION: Settings = ((diffusion, "RUNS", 20),)
_MIXING: Settings = ((mixing, "STEPS", np.array([1.0, 9.0])),)
_REGRESSION: Settings = (
    (regression, "SPLITS", 3),
    (regression, "SPLITS_OF_MANY", 3),
    (regression, "FEW_SPLITS", 0),
    (regression, "EPSILONS", (1.0,)),
    (regression_learners, "MOST_STEPS", 20),
    (regression_learners, "MOST_WORK", np.log(1e5)),  # leaves out rejection where a draw takes seconds
    (regression_learners, "REPEATS", 1),
    (regression_learners, "WEIGHTS", (0.25,)),
)
_DESCENT: Settings = ((sgd, "SPLITS", 2), (sgd, "EPSILONS", (0.5, 1.0)))

# Name of an experiment -> its smaller settings.
SMALL: Mapping[str, Settings] = {
    "geumlek-odds": WHOLE,
    "geumlek-4.1": WHOLE,
    "geumlek-4.2": ((tempered, "REPEATS", 4000), (tempered, "SIZES", (10, 3000))),
    "geumlek-table-4.1": ((inference_table, "COUNTS", (1, 5)), (inference_table, "REPEATS", 1000)),
    "geumlek-lemma-1": ((posterior_convergence, "REPEATS", 4000), (posterior_convergence, "SIZES", (10, 100_000))),
    "geumlek-4.3": _CHAIN,
    "geumlek-4.3-regions": ((gibbs_regions, "SWEEPS", 10),),
    "geumlek-4.4": _CHAIN,
    "geumlek-4.4-scan": WHOLE,
    "geumlek-4.5": _CHAIN,
    "geumlek-4.6": (
        (gibbs_likelihood, "flights", _some_flights),
        (gibbs_likelihood, "SPLITS", 1),
        (gibbs_likelihood, "EPSILONS", [0.3]),
        (gibbs_likelihood, "STATES", 2),
        (gibbs_likelihood, "SWEEPS", {"noisy": 4, "tempered": 2, "plain": 4}),
    ),
    "geumlek-4.6-regions": (
        (gibbs_regions, "SPLITS", 2),
        (gibbs_regions, "EPSILONS", [1.0]),
        (gibbs_regions, "SWEEPS", 6),
    ),
    "geumlek-4.7": (*_CHAIN, (gibbs, "TEMPERED_SWEEPS", 4), (gibbs, "RELEASES", 2)),
    "geumlek-5.1": _LEVELS,
    "geumlek-5.2": _LEVELS,
    **dict.fromkeys((f"geumlek-5.{k}" for k in range(3, 9)), _UTILITY),
    "geumlek-6.1": ((mixing_conditions, "KERNELS", 3),),
    "geumlek-7.1": WHOLE,
    "geumlek-7.2": WHOLE,
    "geumlek-7.3": _PROFILES,
    "geumlek-7.5": _PROFILES,
    **dict.fromkeys(("imola-1", "imola-2", "imola-3"), _PARAMETERS),
    "imola-conjecture": ((bernoulli, "CASES", 3), (bernoulli, "CASE_STARTS", 1)),
    "imola-regimes": (
        (bernoulli_regimes, "SETTINGS", ((1, 0.3), (3, 0.1))),
        (bernoulli_regimes, "POINTS", 3),
        (bernoulli_regimes, "_DENSE", 20),
    ),
    "balle-diffusion-mixing": _MIXING,
    "balle-diffusion-iteration": _MIXING,
    "balle-diffusion-public": ((public_steps, "DIMENSIONS", np.array([2, 8])), (public_steps, "RUNS", 3)),
    "balle-diffusion-8": _DIFFUSION,
    "balle-diffusion-path": _DIFFUSION,
    "balle-table-1": WHOLE,
    "balle-1a": WHOLE,
    "balle-1b": WHOLE,
    "balle-1c": WHOLE,
    "balle-1d": WHOLE,
    "balle-1e": WHOLE,
    "papernot-1": ((leak, "DATA_SETS", 4),),
    "papernot-2": _RENYI,
    "papernot-3": _RENYI,
    **dict.fromkeys((f"papernot-{k}" for k in range(4, 8)), _SELECTION),
    "papernot-8": WHOLE,
    "papernot-tight": (
        (selection_tight, "RUNS", np.array([1, 10])),
        (selection_tight, "ORDERS", np.array([10.0])),
    ),
    "papernot-stopping": WHOLE,
    "efficiency": ((efficiency, "SIZES", (10, 1000, 100_000)), (efficiency, "REPEATS", 4000)),
    "calibration": (
        (calibration, "SIMULATIONS", 8),
        (calibration, "MODELS", MODELS[:1]),
        (calibration, "SETTINGS", ((100, 1.0, 0.0),)),
    ),
    "coverage": ((coverage, "SIZES", (20, 200)), (coverage, "EPSILONS", (0.1, 1.0))),
    "confidence-sets": (
        (confidence_sets, "REPEATS", 8),
        (confidence_sets, "LENGTHS", 3),
        (confidence_sets, "CLIPPED", (0.25,)),
        (confidence_sets, "EPSILONS", (0.5, 5.0)),
    ),
    "sgd-accuracy": (*_DESCENT, (sgd, "TASKS", sgd.TASKS[:1])),
    "sgd-small-data": (*_DESCENT, (sgd_small_data, "TASKS", sgd_small_data.TASKS[1:2])),
    "sgd-epochs": ((epochs, "EPOCHS_SHOWN", (1, 100, 200)),),
    **dict.fromkeys(
        (f"regression-{data}" for data in ("breast-cancer", "digits-3-8", "digits-1-7", "ten-digits", "diabetes")),
        _REGRESSION,
    ),
    "logistic-accuracy": (
        (logistic_accuracy, "TASKS", (logistic_accuracy.iris,)),
        (logistic_accuracy, "SPLITS", 4),
        (logistic_accuracy, "EPSILONS", (0.5, 4.0)),
    ),
    "langevin-model": (
        (langevin_model, "SIZES", (300,)),
        (langevin_model, "DIMENSIONS", (2,)),
        (langevin_model, "STEPS", 20),
        (langevin_model, "NUMBERS", 12_000),
    ),
    "composed-draws": ((composed_draws, "DRAWS", [1, 4, 60]),),
    "langevin-quadrature": (
        (langevin_quadrature, "SIZES", (1,)),
        (langevin_quadrature, "FURTHER_SIZES", (2,)),
        (langevin_quadrature, "NORMS", (0.7,)),
        (langevin_quadrature, "FRACTIONS", (0.5,)),
        (langevin_quadrature, "STEPS", (1, 4)),
    ),
    "langevin-steps": WHOLE,
    "candidate-selection": (
        (candidate_selection, "NOISE", (0.065, 0.17)),
        (candidate_selection, "TOTALS", (2.0, 5.0)),
    ),
    "low-bits": ((low_bits, "DRAWS", 20_000), (low_bits, "SAMPLES", (1_000, 10_000))),
}


def small_settings(name: str) -> Settings:
    """Return the smaller settings of an experiment. Raises: ValueError, if none are stated."""
    if name not in SMALL:
        raise ValueError(
            f"the experiment {name} has no small size: add to SMALL in reproduction/sizes.py the settings with which "
            "it takes about a second, or WHOLE if it takes no longer in full"
        )
    return SMALL[name]


@contextmanager
def small_size(name: str) -> Iterator[None]:
    """Give an experiment its smaller settings for the time of a `with` block. Raises: ValueError, without any."""
    settings = small_settings(name)
    full = [(module, constant, getattr(module, constant)) for module, constant, _ in settings]
    try:
        for module, constant, value in settings:
            setattr(module, constant, value)
        yield
    finally:
        for module, constant, value in full:
            setattr(module, constant, value)
