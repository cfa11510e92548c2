"""Figures of mixing, iteration and diffusion: the accounts lie between the exact values and the published theorems."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from privsample import SGDAccountant
from reproduction import diffusion, mixing, mixing_conditions, public_steps


def test_a_kernels_steps():
    found = mixing.mixing(np.array([1.0, 5.0, 30.0]))
    assert (found.exact <= found.bound * (1 + 1e-9)).all()
    assert (found.bound <= found.published * (1 + 1e-9)).all()
    assert (found.published <= found.alone * (1 + 1e-9)).all()
    for constants in (found.dobrushin, found.doeblin, found.ultra_mixing, found.exact):
        assert (np.diff(constants) <= 0).all()
    assert found.dobrushin[2] < 0.05


@pytest.mark.parametrize("convexity", mixing.CONVEXITY)
def test_iteration(convexity):
    library, published = mixing.iteration(convexity)
    assert (library <= published * (1 + 1e-9)).all()
    assert library[0] == pytest.approx(published[0])
    assert (np.diff(library) < 0).all()


def test_theorem_8_and_a_path(rng):
    errors = diffusion.errors_by_rate(30, rng)
    assert errors.ratio == pytest.approx(1 / (1 + 30 / (2 * errors.x)), rel=1e-9)
    assert errors.exact == pytest.approx([diffusion.published_bound(30, rate) for rate in errors.at], rel=1e-9)
    assert (np.abs(errors.drawn - errors.exact) < 7 * errors.standard_error).all()
    assert errors.ratio == pytest.approx([diffusion.published_bound(30, rate) for rate in errors.x], rel=1e-9)
    times, drawn, costs = diffusion.path(rng)
    assert set(diffusion.TIERS) <= set(times.tolist())
    assert drawn.shape == (len(times), len(diffusion.VALUES))
    assert (np.diff(costs) < 0).all()


@pytest.mark.parametrize(("excess", "holds"), [(0.5, True), (1.0, True), (2.0, False)])
def test_theorem_8_over_time(excess, holds):
    """Against equation (4) and the noise of equal cost, written out; the condition is needed."""
    theta, t = 4 * excess, diffusion.TIMES
    own = np.expm1(-theta * t) ** 2 - np.expm1(-2 * theta * t) / theta
    found = diffusion.error_by_time(excess)
    assert found == pytest.approx(own / (np.expm1(2 * theta * t) / theta), rel=1e-9)
    assert (found.max() <= 1 + 1e-9) == holds
    assert found[-1] < 0.01


def test_the_largest_share_over_time_is_refined():
    times = diffusion._times(2.0, diffusion.TIMES[::6])
    share = diffusion.error_by_time(2.0, times)
    assert share.max() == pytest.approx(diffusion.error_by_time(2.0, np.geomspace(0.02, 0.05, 4001)).max(), rel=1e-8)
    assert share.max() > diffusion.error_by_time(2.0, diffusion.TIMES[::6]).max() * (1 + 1e-5)


def test_a_path_costs_what_its_first_release_costs():
    columns = diffusion.PATH.run().columns
    assert columns["epsilon_of_all"][0] == pytest.approx(columns["epsilon"][0], rel=1e-9)
    assert columns["epsilon_of_independent_noise"][0] > 1.1 * columns["epsilon"][0]


def test_public_steps_grow_with_the_logarithm_of_the_dimension():
    """The fewest steps meet the target and one step fewer does not; each doubling of d adds the same number."""
    target = public_steps.TARGET
    for dimension in (2, 64, 1024):
        steps = public_steps.steps_needed(dimension)
        account = SGDAccountant(
            loss=public_steps.loss(dimension),
            n=public_steps.RECORDS,
            rate=public_steps.RATE,
            noise_std=public_steps.NOISE / dimension**0.5,
            public_tail=steps,
            order="given",
        )
        assert account.epsilon(target.delta) <= target.epsilon * (1 + 1e-9)
        assert replace(account, public_tail=steps - 1).epsilon(target.delta) > target.epsilon
        assert steps < public_steps.steps_by_theorem_5(dimension)
    factor = public_steps.loss(2).contraction(public_steps.RATE)
    grown = public_steps.steps_needed(1 << 20) - public_steps.steps_needed(2)
    assert grown / 19 == pytest.approx(np.log(2) / (2 * np.log(1 / factor)), rel=0.05)
    assert public_steps.steps_needed(512, 0.0) == pytest.approx(2 * public_steps.steps_needed(256, 0.0), rel=0.01)


def test_drawn_descents_without_noise_and_with_too_much(monkeypatch, rng):
    sizes, steps = np.array([4]), np.array([20])
    found = public_steps.errors(sizes, steps, rng, runs=12)
    assert 0 < found.without_noise[0] < 0.3
    monkeypatch.setattr(public_steps, "NOISE", 5.0)
    loud = public_steps.errors(sizes, steps, rng, runs=12)
    assert loud.private[0] > loud.without_noise[0] + 5 * loud.private_error[0]


def test_mixing_conditions_and_local_privacy():
    """The implications hold and the counterexamples refute their reverses; a wrong constant would be seen."""
    columns = mixing_conditions._run(seed=1, count=5).columns
    chain = np.array([columns[name] for name in mixing_conditions._CHAIN])
    assert (np.diff(chain, axis=0) <= 1e-12).all()
    first, second, third = chain[:, -3:].T
    assert (first[0], second[1]) == (1.0, 1.0)
    assert first[1] == pytest.approx(0.5)
    assert second[2] == pytest.approx(0.5)
    assert third[3] < third[2] == pytest.approx(0.4)
    assert columns["local_delta_at_0"] == pytest.approx(columns["dobrushin"], rel=1e-12)
    assert columns["local_delta_at_0"] != pytest.approx(columns["doeblin"], rel=1e-3)
    matrix = np.array([[0.7, 0.3], [0.3, 0.7]])
    assert mixing_conditions.local_privacy(matrix, 0.5) == pytest.approx((0.7 - 0.3 * np.exp(0.5), np.log(7 / 3)))


@pytest.mark.parametrize(
    "name",
    [
        "geumlek-6.1",
        "balle-diffusion-mixing",
        "balle-diffusion-iteration",
        "balle-diffusion-public",
        "balle-diffusion-8",
        "balle-diffusion-path",
    ],
)
def test_files(name, tmp_path, small_once):
    picture, numbers, sentence = small_once(name).made.write(tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(list(csv.DictReader(numbers.read_text(encoding="utf-8").splitlines()))) >= 2
    assert sentence.endswith(".")
    assert "nan" not in sentence
