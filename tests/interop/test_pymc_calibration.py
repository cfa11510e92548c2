"""Simulation-based calibration of the distributions in PyMC, in small, with a broken copy that must be found.

The noise has three times the standard deviation of the statistic, so that a likelihood with 0.8 of
its scale is too narrow. A quarter of the records clips where a model has bounds.
"""

import pytest

from privsample import NoisyStatistics
from privsample.simulations.experiments.calibration_models import MODELS, simulate
from privsample.simulations.experiments.calibration_ranks import cell_p_value, likelihood_ranks

pytest.importorskip("pymc")
STEPS = 60
SIMULATIONS = {  # two counts that are dependent show a wrong scale later than one
    "two categories": 12_000,
    "exponential times": 2500,
    "normal, known variance": 2500,
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
@pytest.mark.parametrize(("noise_factor", "accepted"), [(1.0, True), (0.8, False)])
def test_ranks_of_true_parameters_are_uniform_unless_the_noise_is_wrong(case, noise_factor, accepted, rng, alpha):
    if case.noise == "laplace":  # its density of sums takes ten times as long
        case = case._replace(noise="gaussian")
    model = case.model(case.shares()[-1])
    n, scale = SETTINGS[case.name]
    mechanism = NoisyStatistics(model=model, n=n, noise=case.noise, scale=scale)
    simulations = simulate(case, mechanism, SIMULATIONS.get(case.name, 4000), rng)
    ranks = likelihood_ranks(case, mechanism, simulations, rng, steps=STEPS, noise_factor=noise_factor)
    assert (cell_p_value(case, ranks, simulations.released) > alpha) == accepted
