"""Packages around PyMC take a noisy count as they take any observed variable: simuk, PreliZ and Bambi, unmodified.

The dev group installs them for the second generation only (Python 3.12 and newer): simuk and PreliZ for the first need
arviz-plots 0.8, which breaks ArviZ 0.23 beside the locked Matplotlib.
"""

import numpy as np
import pytest

import privsample as ps

pm = pytest.importorskip("pymc")
NOISE = ps.LaplaceNoise(scale=3.0)
pytestmark = [pytest.mark.generations, pytest.mark.filterwarnings("ignore::Warning")]  # the packages' own warnings


@pytest.fixture
def survey():
    from privsample.pymc import NoisyCount

    with pm.Model() as model:
        share = pm.Beta("share", 2, 3)
        NoisyCount("yes", 100, share, noise=NOISE, observed=40.3)
    return model


@pytest.mark.long  # Numba compiles the model anew for each simulation
def test_simulation_based_calibration_by_simuk(survey):
    simuk = pytest.importorskip("simuk")
    pytest.importorskip("nutpie")
    options = {"draws": 25, "tune": 100, "chains": 1, "nuts_sampler": "nutpie"}
    run = simuk.SBC(survey, num_simulations=4, sample_kwargs=options, seed=1)
    run.run_simulations()
    ranks = run.simulations["prior_sbc"]["share"].values
    assert ranks.size == 4
    assert ((ranks >= 0) & (ranks <= 25)).all()


@pytest.mark.xfail(reason="PreliZ gives a vector to the density of one number, which its compiled kernel refuses")
def test_prior_predictive_elicitation_by_preliz(survey):
    """PreliZ fits the prior to a stated distribution of the noisy count, through its log density."""
    preliz = pytest.importorskip("preliz")
    fitted = preliz.ppe(survey, preliz.Normal(30, 8))
    assert "Beta" in fitted


@pytest.mark.long  # Numba compiles it, in half a minute
def test_a_family_of_bambi():
    """A logistic regression of noisy counts, with predictions."""
    bambi, pandas = pytest.importorskip("bambi"), pytest.importorskip("pandas")
    pytest.importorskip("nutpie")
    from privsample.pymc import NoisyCount

    class Counts:
        """A noisy count of 100 records, with the share as its only parameter."""

        def __new__(cls, name, p, **kwargs):
            return NoisyCount(name, 100, p, noise=NOISE, **kwargs)

        @staticmethod
        def dist(p, **kwargs):
            return NoisyCount.dist(100, p, noise=NOISE, **kwargs)

    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    noisy = rng.binomial(100, 1 / (1 + np.exp(-(0.3 + 0.8 * x)))) + NOISE.sample((40,), rng)
    likelihood = bambi.Likelihood("NoisyCount", params=["p"], parent="p", dist=Counts)
    family = bambi.Family("noisy count", likelihood=likelihood, link="logit")
    model = bambi.Model("yes ~ x", pandas.DataFrame({"yes": noisy, "x": x}), family=family)
    trace = model.fit(draws=200, tune=300, chains=2, random_seed=1, inference_method="nutpie", progressbar=False)
    assert float(trace.posterior["x"].mean()) == pytest.approx(0.8, abs=0.2)
    model.predict(trace, kind="response")
    assert float(np.abs(trace.posterior_predictive["yes"].mean(("chain", "draw")).values - noisy).mean()) < 12
