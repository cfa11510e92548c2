"""Privacy curves of the conjugate pairs against stored high-precision quadrature (make.py)."""

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from privsample import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    PosteriorAccountant,
)
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.gamma import GammaRatePair, GammaShapePair
from tests.accounting.golden import reference
from tests.cases import in_one_test

RELATIVE = 1e-6
PAIRS = {"beta": BetaPair, "gamma shape": GammaShapePair, "gamma rate": GammaRatePair}
CURVES = json.loads(Path(__file__).with_name("curves.json").read_text(encoding="utf-8"))


@in_one_test(CURVES)
def test_curve_is_tight_and_never_below_the_truth(curve):
    pair = PAIRS[curve["family"]](**curve["pair"])
    with reference.at(40):
        wrong = []
        for epsilon, truth in curve["points"]:
            excess = float(mp.mpf(float(pair.log_delta(np.float64(epsilon)))) - mp.mpf(truth))
            if not -4e-15 * (1 + abs(float(truth))) <= excess <= RELATIVE:  # a float's last digits
                wrong.append((epsilon, truth, excess))
        assert not wrong


@in_one_test(CURVES)
def test_curve_answers_everywhere(curve):
    """Whatever epsilon a search tries, there is an answer, and it does not rise."""
    pair = PAIRS[curve["family"]](**curve["pair"])
    size = np.logspace(-12, 12, 9)
    values = pair.log_delta(np.concatenate([-size[::-1], [0.0], size]))
    assert not np.isnan(values).any()
    finite = values[np.isfinite(values)]
    assert (np.diff(finite) <= 1e-9).all()


def test_the_stored_numbers_are_the_definition():
    """A second way, by incomplete Beta and Gamma functions, where those are quick."""
    checked = 0
    with reference.at(50):
        for curve in CURVES:
            f = curve["pair"]
            if max(v for k, v in f.items() if k != "rising") > 2000 or min(f[k] for k in f if k != "rising") < 1e-3:
                continue
            s, rising = mp.mpf(f["step"]), f.get("rising", True)
            if curve["family"] == "beta":
                p, q, tails = (f["a"] + s, f["b"]), (f["a"], f["b"] + s), reference.log_delta_beta_by_tails
            else:
                low = (f["shape"], f.get("rate", 1.0))
                high = (low[0], low[1] + s) if curve["family"] == "gamma rate" else (low[0] + s, low[1])
                p, q, tails = (high, low, reference.log_delta_gamma_by_tails)
                p, q = (p, q) if rising else (q, p)
            for epsilon, stored in curve["points"]:
                if abs(mp.mpf(stored)) < 80 and 0 <= epsilon < 50:
                    assert abs(tails(epsilon, p, q) - mp.mpf(stored)) < 1e-15
                    checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("model", "n", "data_weight", "prior_weight"),
    [
        (GammaPoisson(shape=2.65, rate=1.34, upper=603), 97, 1.0, 1.0),
        (GammaPoisson(shape=11.0, rate=1.0, upper=1), 1000, 1e-3, 1.0),
        (BetaBernoulli(alpha=6, beta=12), 10**12, 1.0, 1e3),
        (BetaBernoulli(alpha=930, beta=2e-4, fractional=True), 56564022, 1.0, 1.0),
        (BetaBernoulli(alpha=1e-6, beta=1e9), 10**6, 1e-9, 1.0),
        (DirichletCategorical(alpha=(2e-6, 2e-6)), 11079805, 1.0, 1.0),
        (DirichletCategorical(alpha=(1e-4, 1.2, 3.0)), 28, 1e-9, 1.0),
        (GammaExponential(shape=360.0, rate=29.0, upper=8e-6), 950984509, 3e-9, 1.0),
        (GammaExponential(shape=0.6, rate=9.6e8, upper=150.0), 2, 5e-8, 1.0),
        (NormalKnownVariance(mean=0, variance=1e9, noise_variance=1e-6, bounds=(0, 1)), 10**12, 1e-9, 1.0),
    ],
)
def test_epsilon_is_found_at_any_delta(model, n, data_weight, prior_weight):
    account = PosteriorAccountant(model=model, n=n, data_weight=data_weight, prior_weight=prior_weight)
    previous = 0.0
    for delta in (0.3, 1e-6, 1e-20, 1e-300):
        epsilon = float(account.epsilon(delta))
        assert previous <= epsilon < np.inf
        assert account.log_delta(epsilon) <= np.log(delta)
        if epsilon > 0:
            assert account.log_delta(epsilon * (1 - 1e-6)) > np.log(delta)
        previous = epsilon


@pytest.mark.parametrize(("alpha", "beta", "r", "n"), [(0.5, 3.0, 1.0, 2), (6.0, 12.0, 1.0, 5), (0.05, 0.04, 0.3, 4)])
def test_no_data_set_of_bits_costs_more_than_the_account(alpha, beta, r, n):
    account = PosteriorAccountant(model=BetaBernoulli(alpha=alpha, beta=beta), n=n, data_weight=r)
    with reference.at(40):
        for epsilon in (-0.5, 0.0, 0.4, 2.0):
            truths = []
            for s in range(n):
                a, b = mp.mpf(alpha) + r * mp.mpf(s), mp.mpf(beta) + r * mp.mpf(n - 1 - s)
                truths.append(reference.log_delta_beta_by_tails(epsilon, (a + r, b), (a, b + r)))
                truths.append(reference.log_delta_beta_by_tails(epsilon, (b + r, a), (b, a + r)))
            excess = float(mp.mpf(float(account.log_delta(epsilon))) - max(truths))
            assert -1e-15 <= excess <= RELATIVE


@pytest.mark.parametrize(("alpha", "beta", "r", "n"), [(0.5, 3.0, 1.0, 3), (6.0, 12.0, 0.7, 6), (0.2, 0.2, 1.0, 2)])
def test_no_data_set_of_reals_costs_more_than_the_account(alpha, beta, r, n, rng):
    """Records in [0, 1], also where both records of the moved pair lie inside."""
    account = PosteriorAccountant(model=BetaBernoulli(alpha=alpha, beta=beta, fractional=True), n=n, data_weight=r)
    with reference.at(40):
        for epsilon in (-0.5, 0.0, 0.4, 2.0):
            claim = mp.mpf(float(account.log_delta(epsilon)))
            for _ in range(8):
                low, high = sorted(rng.random(2)) if rng.random() < 0.5 else (0.0, 1.0)
                common = float(rng.random() * (n - 1))
                up = (mp.mpf(alpha) + r * (common + high), mp.mpf(beta) + r * (n - common - high))
                down = (mp.mpf(alpha) + r * (common + low), mp.mpf(beta) + r * (n - common - low))
                assert reference.log_delta_beta_by_tails(epsilon, up, down) <= claim
                mirrored = reference.log_delta_beta_by_tails(epsilon, down[::-1], up[::-1])
                assert mirrored <= claim
