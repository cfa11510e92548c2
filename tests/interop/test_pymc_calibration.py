"""Simulation-based calibration of the distributions in PyMC, in small, with a broken copy that must be found.

The noise has three times the standard deviation of the statistic, so that a likelihood with 0.8 of
its scale is too narrow. A quarter of the records clips where a model has bounds.
"""

import pytest

from privsample import NoisyStatistics
from reproduction.calibration_models import MODELS, simulate
from reproduction.calibration_ranks import cell_p_value, likelihood_ranks

pytest.importorskip("pymc")
STEPS = 30
SIMULATIONS = {  # as many as showed the broken copy under four seeds, with p-values of 1e-12 and less
    "binary": 4000,
    "two categories": 8000,
    "three categories": 2000,
    "Poisson counts": 4000,
    "Poisson total": 3000,
    "exponential times": 3000,
    "normal, known variance": 2000,
    "normal, unknown variance": 2000,
    "linear regression": 1200,
}
SETTINGS = {  # records and scale of the noise
    "binary": (1000, 35),
    "two categories": (1000, 60),
    "three categories": (1000, 47),
    "Poisson counts": (100, 26),
    "Poisson total": (100, 52),
    "exponential times": (300, 20),
    "normal, known variance": (300, 43),
    "normal, unknown variance": (1000, 58),
    "linear regression": (1000, 36),
}


@pytest.mark.statistical
@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name.replace(" ", "-"))
def test_ranks_of_true_parameters_are_uniform_and_are_not_if_the_noise_is_wrong(case, rng, alpha):
    if case.noise == "laplace":  # its density of sums takes ten times as long
        case = case._replace(noise="gaussian")
    model = case.model(case.shares()[-1])
    n, scale = SETTINGS[case.name]
    mechanism = NoisyStatistics(model=model, n=n, noise=case.noise, scale=scale)
    simulations = simulate(case, mechanism, SIMULATIONS[case.name], rng)

    def uniformity(noise_factor: float) -> float:
        ranks = likelihood_ranks(case, mechanism, simulations, rng, steps=STEPS, noise_factor=noise_factor)
        return cell_p_value(case, ranks, simulations.released)

    assert uniformity(1.0) > alpha
    assert uniformity(0.8) < alpha
