"""Langevin draws for PyMC models: gradients, kernels, accounts, refused models, bad data, and draws."""

import numpy as np
import pymc as pm
from scipy import stats

import privsample as ps

NUMBERS = {"y": ps.RecordColumn()}
RECORDS = {"x": ps.RecordColumn(width=2), "y": ps.RecordColumn()}
SETTINGS = {"relation": ps.ReplaceOne(n=4), "clip": 1.0, "step_size": 0.01, "steps": 3}


def normal(data):
    """The mean of normal records."""
    with pm.Model() as model:
        theta = pm.Normal("theta", 0.0, 2.0)
        pm.Normal("y", theta, 1.0, observed=data["y"])
    return model


def test_one_step_moves_by_the_clipped_gradients():
    """T = 1 from a public point: the mean of the step in closed form, the noise N(0, 2 step_size)."""
    eta, start, y = 0.05, 0.5, np.array([1.0, 9.0, -7.0, 0.7])
    mechanism = ps.LangevinModel(
        normal, columns=NUMBERS, **SETTINGS | {"step_size": eta, "steps": 1}, start={"theta": start}, draws=4000
    )
    draws = mechanism.release({"y": y}, rng=np.random.default_rng(3))["theta"]
    drift = -start / 4 + np.clip(y - start, -1.0, 1.0).sum()
    scaled = (draws - start - eta * drift) / np.sqrt(2 * eta)
    assert stats.kstest(scaled, "norm").pvalue > 1e-6
