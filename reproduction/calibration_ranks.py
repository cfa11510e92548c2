"""Ranks of true parameters under each method of inference: a calibrated method makes them uniform on [0, 1].

docs/notes/calibration.md, sections 1 and 2.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.models.base import Model
from privsample.distributions.noise import noise_distribution
from privsample.inference.chains import Observation
from privsample.inference.infer import chain_of
from privsample.interop.pymc_batches import BatchLikelihood, batch_likelihood
from privsample.mechanisms.noise.statistics import NoisyStatistics
from reproduction.calibration_chains import Evaluation, serial_ranks, step_factor
from reproduction.calibration_models import CalibratedModel, Simulations, ranked, simulate
from reproduction.calibration_uniformity import counts_below, p_value

PILOTS = 200  # simulations that determine the scale of steps
STEPS = 50  # of each chain of a likelihood
KEPT, SPACING, TUNE = 19, 10, 50  # of `infer`: draws among which a parameter is ranked, sweeps between two, and before

Ranks = Callable[[CalibratedModel, NoisyStatistics, Simulations, np.random.Generator], FloatArray]


def likelihood_ranks(
    case: CalibratedModel,
    mechanism: NoisyStatistics,
    simulations: Simulations,
    rng: np.random.Generator,
    *,
    steps: int = STEPS,
    noise_factor: float = 1.0,
    assumed: Model | None = None,
) -> FloatArray:
    """Ranks under the likelihood of the distribution in PyMC, of all parameters and then of the log likelihood.

    `steps` is the length of each chain. `noise_factor` multiplies the scale of the noise, and `assumed` replaces the
    model, in the likelihood only: broken copies, which must be found.
    """
    noise = noise_distribution(mechanism.distribution.name, noise_factor * mechanism.distribution.scale_parameter)
    assert mechanism.n is not None
    likelihood = batch_likelihood(assumed or mechanism.model, mechanism.n, noise, total=case.total)
    pilots = simulate(case, mechanism, PILOTS, rng)
    factor = step_factor(_evaluation(case, mechanism.model, likelihood, pilots.released), pilots.scores)
    evaluate = _evaluation(case, mechanism.model, likelihood, simulations.released)
    return serial_ranks(evaluate, simulations.scores, factor, steps, rng).ranks


def _evaluation(case: CalibratedModel, model: Model, likelihood: BatchLikelihood, released: FloatArray) -> Evaluation:
    def evaluate(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        parameters = case.parameters(model, scores)
        with np.errstate(all="ignore"):
            logs = likelihood(released, parameters)
        logs = np.where(np.isnan(logs), -np.inf, logs)
        return logs, np.column_stack([ranked(parameters), logs])

    return evaluate


def noise_aware_ranks(
    case: CalibratedModel, mechanism: NoisyStatistics, simulations: Simulations, rng: np.random.Generator
) -> FloatArray:
    """Posterior probabilities below the true parameter, by `noise_aware`; for models of one parameter."""
    del rng
    true = ranked(case.parameters(mechanism.model, simulations.scores))[:, 0]
    model, n, noise = mechanism.model, mechanism.n, mechanism.distribution
    assert n is not None
    found: list[float] = []
    for theta, seen in zip(true, simulations.released, strict=True):
        posterior: Any = model.noise_aware(n, noise, seen[None]).distribution
        share: Any = getattr(posterior, "share", posterior)
        found.append(float(share.below(np.asarray(theta))))
    return np.array(found)[:, None]


def plug_in_ranks(
    case: CalibratedModel, mechanism: NoisyStatistics, simulations: Simulations, rng: np.random.Generator
) -> FloatArray:
    """Ranks among draws from the plug-in posterior, of the parameters that it has."""
    model, n = mechanism.model, mechanism.n
    assert n is not None
    true = ranked(case.parameters(model, simulations.scores))
    drawn = np.array(
        [
            model.posterior(model.feasible(seen, n), n).sample(KEPT, rng).reshape(KEPT, -1)
            for seen in simulations.released
        ]
    )
    return _among(true[:, : drawn.shape[2]], drawn, rng)


def infer_ranks(
    case: CalibratedModel, mechanism: NoisyStatistics, simulations: Simulations, rng: np.random.Generator
) -> FloatArray:
    """Ranks among draws of the chains of `infer`, one from its own start for each simulation, thinned."""
    make_chain = chain_of(type(mechanism.model))
    parameters = case.parameters(mechanism.model, simulations.scores)
    given: dict[str, Any] = {"model": mechanism.model, "n": mechanism.n, "noise": mechanism.distribution}
    drawn = np.empty((len(simulations.scores), KEPT, ranked(parameters).shape[1]))
    for own, seen in zip(drawn, simulations.released, strict=True):
        chain = make_chain(Observation(**given, observed=seen[None]))
        chain.start(rng)
        for _ in range(TUNE):
            chain.sweep(rng, tuning=True)
        for kept in own:
            for _ in range(SPACING):
                chain.sweep(rng, tuning=False)
            found = chain.parameters()
            kept[:] = np.concatenate([np.ravel(found[name]) for name in parameters])
    return _among(ranked(parameters), drawn, rng)


def _among(true: FloatArray, drawn: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Random ranks in (0, 1) of `true`, (simulations, quantities), among draws, (simulations, draws, quantities)."""
    below = (drawn < true[:, None]).sum(axis=1)
    return np.asarray((below + rng.random(true.shape)) / (drawn.shape[1] + 1))


def sided(case: CalibratedModel, ranks: FloatArray, released: FloatArray) -> FloatArray:
    """All ranks, and those of each parameter turned round where its part of the release is below the median.

    Given the release, a rank of the right posterior is uniform, and so is one minus it. Without the second half of the
    columns a method that ignores the data and returns the prior could not be found.
    """
    seen = released.reshape(len(released), -1)
    low = seen < np.median(seen, axis=0)
    turned = [np.where(low[:, side], 1 - own, own) for own, side in zip(ranks.T, _sides(case, ranks), strict=False)]
    return np.column_stack([ranks, *turned])


def _sides(case: CalibratedModel, ranks: FloatArray) -> tuple[int, ...]:
    return case.sides[: ranks.shape[1]]


def worst_column(case: CalibratedModel, ranks: FloatArray, released: FloatArray) -> tuple[FloatArray, int]:
    """Counts of the column of `sided` with the smallest p-value, as of `counts_below`, and the number of columns."""
    counts = [counts_below(column) for column in sided(case, ranks, released).T]
    return min(counts, key=p_value), len(counts)


def cell_p_value(case: CalibratedModel, ranks: FloatArray, released: FloatArray) -> float:
    """The smallest p-value of all columns of `sided`, times their number (Bonferroni)."""
    counts, columns = worst_column(case, ranks, released)
    return min(1.0, columns * p_value(counts))
