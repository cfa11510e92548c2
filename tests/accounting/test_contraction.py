"""Noise between Lipschitz maps: exact for linear maps, never above the printed theorems."""

import mpmath as mp
import numpy as np
import pytest

from privsample import AddRemove, ContractionAccountant, GaussianAccountant, PureAccountant
from privsample.accounting.postprocessing.contraction import contracted, noise_at_start, noise_of_equal_steps

ORDERS = np.array([1.001, 2.0, 32.0, 1e6])


def chains(rng, count, most=12):
    """Sensitivity, noises and constants of random chains; some constants exceed one, some noises are zero."""
    for _ in range(count):
        steps = int(rng.integers(0, most))
        noises = rng.exponential(1.0, steps + 1) * (rng.random(steps + 1) < 0.8)
        noises[rng.integers(steps + 1)] += 0.1
        yield float(rng.exponential(2.0)) + 1e-3, noises, rng.uniform(0.05, 1.6, steps)


def test_the_cost_is_exact_for_linear_maps(rng):
    for sensitivity, noises, constants in chains(rng, 500):
        with mp.workdps(50):  # x -> L x + noise: the last state's mean moves by prod L, its variance adds up
            shift, variance = mp.mpf(sensitivity), mp.mpf(float(noises[0])) ** 2
            for noise, constant in zip(noises[1:], constants, strict=True):
                shift *= mp.mpf(float(constant))
                variance = variance * mp.mpf(float(constant)) ** 2 + mp.mpf(float(noise)) ** 2
            rate = shift**2 / variance / 2
            account = ContractionAccountant(sensitivity=sensitivity, noise_stds=tuple(noises), constants=constants)
            got = account.rdp(ORDERS)
            over = [mp.mpf(float(g)) / (rate * mp.mpf(float(a))) - 1 for g, a in zip(got, ORDERS, strict=True)]
            assert min(over) >= 0
            assert max(over) < 1e-12
            assert account.zcdp * (1 + 1e-15) >= rate


def test_never_above_the_printed_theorems(rng):
    """Balle et al. 2019, Theorem 4 (sharp for L = 1) and Theorem 5's rate for noisy gradient steps."""
    for _ in range(500):
        steps, constant = int(rng.integers(1, 60)), float(rng.uniform(0.1, 1.0))
        sensitivity, noise = rng.uniform(0.1, 5.0, 2).tolist()
        fourth = sensitivity**2 * constant ** (steps + 1) / (2 * steps * noise**2)
        ours = ContractionAccountant(
            sensitivity=sensitivity, noise_stds=(0.0, *(noise,) * steps), constants=(constant,) * steps
        )
        assert ours.zcdp <= fourth * (1 + 1e-12)
        eta, beta = rng.uniform(0.05, 1.0, 2).tolist()
        rho = float(rng.uniform(0.0, 1.0)) * beta
        eta = min(eta, 2 / (beta + rho))
        lipschitz, deviation = rng.uniform(0.1, 3.0, 2).tolist()
        squared = 1 - 2 * eta * beta * rho / (beta + rho)
        fifth = 2 * lipschitz**2 / (steps * deviation**2) * squared ** ((steps + 1) / 2)
        factor = max(abs(1 - eta * rho), abs(1 - eta * beta))
        account = ContractionAccountant(
            sensitivity=2 * eta * lipschitz,
            noise_stds=(eta * deviation,) * (steps + 1),
            constants=(factor,) * steps,
        )
        assert account.zcdp <= fifth * (1 + 1e-9)


def test_equal_steps_in_closed_form(rng):
    for constant in (0.0, 1e-200, 0.3, 1 - 1e-13, 1.0, 1 + 1e-13, 1.7, 1e200):
        counts = np.array([0, 1, 2, 7])
        closed = noise_of_equal_steps(0.7, constant, counts)
        for steps, got in zip(counts, closed, strict=True):
            listed = float(noise_at_start((0.7,) * (steps + 1), (constant,) * steps))
            assert got == pytest.approx(listed, rel=1e-12)
    assert noise_of_equal_steps(1.0, 1.0, 10**6) == pytest.approx(np.sqrt(1e6 + 1), rel=1e-8)
    assert noise_of_equal_steps(1.0, 1.0, 3) <= 2.0


def test_edges():
    forgetting = ContractionAccountant(sensitivity=1, noise_stds=(1, 0), constants=(0,))
    assert forgetting.epsilon(0.0) == 0.0
    assert forgetting.zcdp == 0.0
    assert (forgetting.rdp(ORDERS) == 0).all()
    alone = ContractionAccountant(sensitivity=2, noise_stds=(3,))
    same = GaussianAccountant(sensitivity=2, noise_std=3)
    assert alone.delta(0.5) == pytest.approx(float(same.delta(0.5)), rel=1e-12)
    assert alone.group(2).rdp(2.0) == pytest.approx(4 * alone.rdp(2.0))
    assert alone.group(2).relation == AddRemove(members=2)
    no_contraction = ContractionAccountant(sensitivity=1, noise_stds=(1, 1), constants=(1e200,))
    assert no_contraction.rdp(2.0) == pytest.approx(1.0)
    assert "best path" in alone.source
    for hardly in (
        ContractionAccountant(sensitivity=1, noise_stds=(1, 1, 1), constants=(1e-200, 1e-200)),
        ContractionAccountant(sensitivity=1e-200, noise_stds=(1e200,)),
    ):
        assert hardly.epsilon(0.0) == np.inf  # a shift too small for a double is not none
        assert hardly.zcdp > 0
        assert hardly.delta([0.0, 1.0, 1e6])[0] > 0


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"noise_stds": (1.0, 1.0)}, "one for each of 0"),
        ({"noise_stds": (0.0, 0.0), "constants": (1.0,)}, "standard deviation > 0"),
        ({"noise_stds": (-1.0,)}, ">= 0"),
        ({"noise_stds": (1.0, 1.0), "constants": (np.inf,)}, "constants"),
        ({"noise_stds": (np.nan,)}, "NaN"),
        ({"noise_stds": ()}, "got 0"),
        ({"noise_stds": (1e-320,)}, "sensitivity / noise"),
        ({"noise_stds": 1.0}, "list"),
    ],
)
def test_bad_fields(fields, match):
    with pytest.raises(ValueError, match=match):
        ContractionAccountant(sensitivity=1, **fields)


def test_further_steps_after_noise_and_after_a_chain():
    first = GaussianAccountant(sensitivity=1, noise_std=2)
    chain = contracted(first, (1.0,), (0.5,))
    assert chain == ContractionAccountant(sensitivity=1, noise_stds=(2, 1), constants=(0.5,))
    longer = contracted(chain, (0.0, 3.0), (2.0, 0.1))
    assert (longer.noise_stds, longer.constants) == ((2.0, 1.0, 0.0, 3.0), (0.5, 2.0, 0.1))
    assert contracted(3 * first, (1.0,), (0.5,)) == 3 * chain
    assert chain.explain(1e-6)[0].name == "optimal path through 1 step"
    assert longer.explain(1e-6)[0].name == "optimal path through 3 steps, 1 of them without contraction"
    with pytest.raises(TypeError, match="after Gaussian noise, got PureAccountant"):
        contracted(PureAccountant(stated_epsilon=1), (1.0,), (0.5,))
