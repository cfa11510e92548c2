"""Simulation-based calibration of the distributions in PyMC, in small, with a broken copy that must be found.

The noise has three times the standard deviation of the statistic, so that a likelihood with 0.8 of
its scale is too narrow. A quarter of the records clips where a model has bounds.

The lane `test` calibrates a count and counts of categories, with a broken copy that halves the scale of the noise: its
p-values were at most 3e-16 and 3e-20 under four seeds, and the level of a test is near 2e-9. The long lane calibrates
all nine models with many more simulations, which show noise that is 20 % too narrow. The densities themselves are
compared with enumeration and with integrals, model by model, in the other files of this folder.
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
SMALL = {"binary": 600, "three categories": 300}


def cell(name, simulations, rng, *, noise_factors):
    """The p-values of a calibration, one for each factor of the scale of the noise in the likelihood."""
    case = next(case for case in MODELS if case.name == name)
    if case.noise == "laplace":  # its density of sums takes ten times as long
        case = case._replace(noise="gaussian")
    model = case.model(case.shares()[-1])
    n, scale = SETTINGS[name]
    mechanism = NoisyStatistics(model=model, n=n, noise=case.noise, scale=scale)
    made = simulate(case, mechanism, simulations, rng)
    for factor in noise_factors:
        ranks = likelihood_ranks(case, mechanism, made, rng, steps=STEPS, noise_factor=factor)
        yield cell_p_value(case, ranks, made.released)


@pytest.fixture
def without_numba(monkeypatch):
    """Compile for Python: so few simulations take less time than Numba takes to compile."""
    import pytensor

    from privsample.interop import pymc_batches

    function = pytensor.function
    monkeypatch.setattr(
        pytensor, "function", lambda *given, **named: function(*given, **{**named, "mode": "FAST_COMPILE"})
    )
    pymc_batches._compiled.cache_clear()
    yield
    pymc_batches._compiled.cache_clear()


@pytest.mark.statistical
@pytest.mark.usefixtures("without_numba")
@pytest.mark.parametrize("name", SMALL)
def test_ranks_are_uniform_and_are_not_if_the_noise_is_half(name, rng, alpha):
    right, broken = cell(name, SMALL[name], rng, noise_factors=(1.0, 0.5))
    assert right > alpha
    assert broken < alpha


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", [case.name for case in MODELS], ids=lambda name: name.replace(" ", "-"))
def test_ranks_of_true_parameters_are_uniform_and_are_not_if_the_noise_is_wrong(name, rng, alpha):
    right, broken = cell(name, SIMULATIONS[name], rng, noise_factors=(1.0, 0.8))
    assert right > alpha
    assert broken < alpha
