"""NUTS through PyMC: against quadrature, stopped runs, and a missing library."""

import secrets
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from privsample import BetaBernoulli, LogisticPosterior, NoisyStatistics, PrivateStatistics
from privsample.interop import pymc, pymc_fits, pymc_sampling
from tests.lanes import LONG

pytestmark = pytest.mark.generations


@pytest.fixture(scope="module")
def run(request):
    """One run for all tests, as on a machine without a C compiler: rows, states (chains, states, 1), diagnostics."""
    import pytensor

    seed = request.config.getoption("--seed")
    if seed is None:
        seed = secrets.randbits(64) if request.config.getoption("--lane") == LONG else 4
    print(f"seed of the chains: {seed}")
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 2, (25, 1))
    with pytensor.config.change_flags(cxx=""):
        states, facts = pymc.logistic_chains(rows, 0.5, 2, rng)
    return rows, states, facts


def test_shape_and_diagnostics(run):
    _, states, facts = run
    assert states.shape == (4, 500, 1)
    assert facts["chains"] == 4
    assert 0.9 < facts["largest R-hat"] < 1.1
    assert facts["least effective sample size"] > 100
    assert facts["divergences"] >= 0


@pytest.mark.statistical
@pytest.mark.parametrize(("weight", "accepted"), [(0.5, True), (3.0, False)])
def test_states_follow_the_distribution(run, weight, accepted, alpha):
    """Every tenth state, as good as independent; the mutant is the distribution of other data weights."""
    rows, states, _ = run
    grid = np.linspace(-9, 9, 4001)
    log_density = -(grid**2) / 2 - weight * np.logaddexp(0.0, -grid[:, None] * rows[:, 0]).sum(axis=1)
    mass = np.exp(log_density - log_density.max())
    distribution = np.cumsum(mass) / mass.sum()
    drawn = states[:, ::10, 0].ravel()
    assert (stats.kstest(drawn, lambda x: np.interp(x, grid, distribution)).pvalue > alpha) == accepted


def test_a_stopped_run_is_no_draw(monkeypatch):
    import pymc as library

    partial = SimpleNamespace(posterior=SimpleNamespace(sizes={"chain": 1, "draw": 7}))
    monkeypatch.setattr(library, "sample", lambda **_: partial)
    with pytest.raises(KeyboardInterrupt):
        pymc.logistic_chains(np.ones((3, 2)), 1.0, 1, np.random.default_rng(0))


def test_nutpie_is_seeded_with_64_bits(monkeypatch):
    """PyMC would make 30 bits of a generator, and so few outcomes can be tried out."""
    import pymc as library

    seeds = []
    partial = SimpleNamespace(posterior=SimpleNamespace(sizes={"chain": 1, "draw": 7}))
    monkeypatch.setattr(library, "sample", lambda **options: seeds.append(options["random_seed"]) or partial)
    for name in ["nutpie"] * 20 + ["pymc"]:
        monkeypatch.setattr(pymc_sampling, "sampler", lambda name=name: name)
        with pytest.raises(KeyboardInterrupt):
            pymc.logistic_chains(np.ones((3, 2)), 1.0, 1, np.random.default_rng(len(seeds)))
    assert 2**60 < max(seeds[:-1]) < 2**64
    assert isinstance(seeds[-1], np.random.Generator)


def test_compiled_fits_are_seeded_as_other_runs_are(monkeypatch):
    """Both ask the one function that makes a seed, of 64 bits, of the same generator."""
    seeds = []
    partial = SimpleNamespace(posterior=SimpleNamespace(sizes={"chain": 1, "draw": 7}))
    compiled = SimpleNamespace(with_data=lambda **_: None)
    library = SimpleNamespace(sample=lambda _, **options: seeds.append(options["seed"]) or partial)
    monkeypatch.setattr(pymc_fits, "sampler", lambda: "nutpie")
    monkeypatch.setattr(pymc_fits, "_compiled", lambda *_: (compiled, "exact"))
    monkeypatch.setattr(pymc_fits, "import_module", lambda _: library)
    release = NoisyStatistics(model=BetaBernoulli(alpha=2, beta=3), n=9, scale=2.0).release(np.ones(9))
    for k in range(20):
        with pytest.raises(KeyboardInterrupt):
            PrivateStatistics(release=release).mcmc(draws=8, rng=np.random.default_rng(k))
    assert seeds == [pymc_sampling.nutpie_seed(np.random.default_rng(k)) for k in range(20)]
    assert 2**60 < max(seeds) < 2**64


@pytest.mark.parametrize("installed", [None, "nutpie"])
def test_the_fastest_sampler_is_taken(monkeypatch, installed):
    """And PyMC's own never in the mode that wants a C compiler."""
    import pymc as library

    def sample(**options):
        asked.update(options)
        return SimpleNamespace(posterior=SimpleNamespace(sizes={"chain": 4, "draw": 2}))

    asked = {}
    monkeypatch.setattr(library, "sample", sample)
    monkeypatch.setattr(pymc_sampling, "sampler", lambda: installed or "pymc")
    pymc_sampling.run(library.Model(), draws=2, tune=2, chains=4, rng=np.random.default_rng(0))
    assert asked["nuts_sampler"] == (installed or "pymc")
    assert asked.get("compile_kwargs") == (None if installed else {"mode": "NUMBA"})


def test_without_pymc_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    mechanism = LogisticPosterior(n=3, features=1, norm=1, prior_std=1, sampler="nuts")
    with pytest.raises(ImportError, match=r"privsample\[bayes\]"):
        mechanism.release((np.ones((3, 1)), np.ones(3)))
