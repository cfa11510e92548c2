"""The subsampling paper's figures: its bounds against brute force, accounts never above them, files as promised."""

import csv

import mpmath as mp
import numpy as np
import pytest

from reproduction import subsampling as figures
from reproduction import subsampling_published as published
from reproduction.subsampling_table import DELTA, rows

EPSILON = np.array([-0.7, 0.0, 0.2, 1.3])


@pytest.mark.parametrize("name", ["laplace", "gauss"])
def test_profiles_by_quadrature(name):
    """The loss falls along the line: integrate up to where it is epsilon."""
    distribution = {"laplace": lambda z: mp.exp(-abs(z)) / 2, "gauss": mp.npdf}[name]
    for e, found in zip(EPSILON, getattr(published, name)(0.8)(EPSILON), strict=True):
        end = {"laplace": np.clip((0.8 - e) / 2, -40, 40 if e < -0.8 else 0.8), "gauss": 0.4 - e / 0.8}[name]
        places = [-40, *(x for x in (-8, -2, 0) if x < end), end]
        truth = (
            mp.quad(lambda z, e=e: distribution(z) - mp.exp(e) * distribution(z - 0.8), places)
            if e < 0.8 or name == "gauss"
            else 0
        )
        assert found == pytest.approx(float(truth), abs=1e-12)


def test_a_coin_answered_honestly():
    honest = published.response(0.7)(EPSILON)
    assert honest == pytest.approx(
        np.maximum(0.7 - np.exp(EPSILON) * 0.3, 0) + np.maximum(0.3 - np.exp(EPSILON) * 0.7, 0)
    )


@pytest.mark.parametrize("drawn", ["poisson", "without", "with"])
def test_the_membership_mechanism_attains_the_bounds_and_a_wrong_rate_does_not(drawn):
    epsilon, base = np.linspace(0, 2, 21), published.response(0.9)
    truth = published.membership(drawn, 5, 2, 0.9)(epsilon)
    bound = published.repeated(lambda _: base, 5, 2) if drawn == "with" else published.once(base, 2 / 5)
    assert bound(epsilon) == pytest.approx(truth, abs=1e-12)
    assert (published.once(base, 0.3)(epsilon) < truth - 1e-3).any()


def test_groups_of_a_black_box_are_those_of_a_pure_promise_at_its_end():
    groups = published.black_box(published.laplace(0.5))
    epsilon = np.array([0.0, 0.4, 1.0])
    assert groups(1)(epsilon) == pytest.approx(published.laplace(0.5)(epsilon))
    assert groups(3)(np.array([1.5])) == 0
    assert (groups(3)(epsilon) > published.laplace(1.5)(epsilon)).all()


def test_the_account_is_the_table_and_lies_below_theorem_14():
    made = rows()
    for row in made[:4]:
        assert row.account.epsilon(DELTA) == pytest.approx(row.published_epsilon, rel=1e-9)
    assert made[4].account.epsilon(DELTA) < made[4].published_epsilon
    assert np.isnan(made[4].gap())


@pytest.mark.parametrize(
    ("name", "lines", "words"),
    [
        ("balle-table-1", 5, "agrees with the bounds of Theorems 8 to 11 within 1e-12"),
        ("balle-1a", 3 * 205, "for Gaussian noise it is still"),
        ("balle-1b", 6 * 202, "it has the larger one"),
        ("balle-1c", 6 * 202, "instead of"),
        ("balle-1d", 6 * 207, "one for each further repeat"),
        ("balle-1e", 3 * 202, "is 2.12 times as large by the bound of the paper"),
    ],
)
def test_files(tmp_path, name, lines, words, small_once):
    picture, numbers, sentence = small_once(name).made.write(tmp_path)
    rows_written = list(csv.reader(numbers.read_text(encoding="utf-8").splitlines()))
    assert len(rows_written) == 1 + lines
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert words in sentence


def test_white_box_below_account_below_the_published_black_box(small_once):
    table = list(csv.DictReader(small_once("balle-1e").made.numbers.decode().splitlines()))
    white, library, paper = (
        np.array([float(row["delta"]) for row in table if row["curve"] == name]) for name in figures._BOXES
    )
    assert (white <= library * (1 + 1e-12)).all()
    assert (library <= paper * (1 + 1e-12)).all()
    assert figures.FLOOR < library[0] < 1
    assert {(row["noise"], row["n"], row["m"]) for row in table} == {("Laplace", "100", "20")}
