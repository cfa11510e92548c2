"""Figures of mixing, iteration and diffusion: the accounts lie between the exact values and the published theorems."""

import csv

import numpy as np
import pytest

from privsample.simulations.experiments import diffusion, experiment, mixing


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


@pytest.mark.parametrize(
    "name", ["balle-diffusion-mixing", "balle-diffusion-iteration", "balle-diffusion-8", "balle-diffusion-path"]
)
def test_files(name, tmp_path, monkeypatch):
    monkeypatch.setattr(mixing, "STEPS", np.array([1.0, 9.0]))
    monkeypatch.setattr(diffusion, "RUNS", 20)
    picture, numbers, sentence = experiment(name).write(tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(list(csv.DictReader(numbers.read_text(encoding="utf-8").splitlines()))) >= 2
    assert sentence.endswith(".")
    assert "nan" not in sentence
