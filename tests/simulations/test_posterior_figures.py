"""The figures of thesis chapter 5 redrawn: against formulas and brute force, and what the sentences say."""

import csv
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import betaln

from privsample.simulations.experiments import experiment, posterior_levels
from privsample.simulations.figures import renyi_data


def rows(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def divergence(order, first, second):
    """Renyi divergence of two Betas by its formula; cancels for orders near 1."""
    (a, b), (c, d) = first, second
    blend = order * a + (1 - order) * c, order * b + (1 - order) * d
    if min(blend) <= 0:
        return np.inf
    return (betaln(*blend) - order * betaln(a, b)) / (order - 1) + betaln(c, d)


@pytest.mark.parametrize(("kind", "share"), [("diffused", 0.3), ("concentrated", 0.3), ("diffused", 1.0)])
def test_levels_against_every_pair(kind, share):
    r, m = (share, 1.0) if kind == "diffused" else (1.0, share)
    (found,) = [curve for curve in renyi_data(kind) if curve[0].endswith(f" {share:g}")]
    at = slice(30, 110, 20)
    posteriors = [(6 / m + r * k, 12 / m + r * (100 - k)) for k in range(101)]
    pairs = list(pairwise(posteriors))
    pairs += [(second, first) for first, second in pairs]
    worst = [max(divergence(order, *pair) for pair in pairs) for order in found[1][at]]
    assert found[2][at] == pytest.approx(worst, rel=1e-9)
    letter = [
        max(
            divergence(order, (a, b), (a + step, b - step))
            for a, b in ((6 / m, 12 / m + 100), (6 / m + 100, 12 / m))
            for step in (r, -r)
        )
        for order in found[1][at]
    ]
    assert posterior_levels.printed(kind, share, found[1][at]) == pytest.approx(letter, rel=1e-9)


@pytest.mark.parametrize(("name", "label"), [("t-5.1", "r"), ("t-5.2", "m")])
def test_levels_are_written(tmp_path, name, label):
    picture, numbers, sentence = experiment(name).write(tmp_path)
    table = rows(numbers)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert {row["curve"] for row in table} == {
        f"{label} = {share}" for share in ("0.1", "0.3", "0.5", "0.7", "0.9", "1")
    }
    assert f"From {label} = 1 to {label} = 0.1" in sentence
    assert "from order 7 to 61" in sentence
    ratios = [float(row["corollary_16"]) / float(row["ours"]) for row in table]
    assert f"{min(ratios):.2f} to {max(ratios):.2f} times" in sentence
