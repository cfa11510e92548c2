"""`privsample compare`: the table from which a person chooses."""

import pytest

from privsample import DP, BetaBernoulli, DiffusedPosterior

BETA = ["--model", "beta-bernoulli", "--prior", "6,12", "--epsilon", "1", "--delta", "1e-6"]


def test_the_numbers(run):
    ran = run("compare", "--n", 1000, *BETA, "--simulations", 50, "--seed", 3, "--json")
    assert ran.code == 0
    assert ran.json == run("compare", "--n", 1000, *BETA, "--simulations", 50, "--seed", 3, "--json").json
    rows = {row["name"]: row for row in ran.json["mechanisms"]}
    model, target = BetaBernoulli(alpha=6, beta=12), DP(epsilon=1, delta=1e-6)
    assert rows["diffused"]["amount"] == DiffusedPosterior.calibrate(model=model, n=1000, target=target).data_weight
    assert not rows["direct"]["reached"]
    assert rows["direct"]["error"] == "nan"
    assert "cannot be met" in rows["direct"]["reason"]
    assert ran.json["best"] == "noisy"
    assert ran.json["simulated"]


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits(run, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    ran = run("compare", "--n", 1000, *BETA, "--simulations", 20, "--draws", 2, "--seed", 3)
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= width
    assert "noisy *" in ran.out
    assert "no private data were used" in ran.out
    assert "direct: epsilon 1 at delta 1e-06 cannot be met" in ran.out


def test_nothing_reaches_the_limit(run):
    words = ["--model", "beta-bernoulli", "--prior", "1,1", "--epsilon", "1", "--delta", "0", "--n", 10]
    ran = run("compare", *words, "--simulations", 5, "--seed", 3)
    assert ran.code == 0
    assert "diffused: epsilon 1 at delta 0 cannot be met" in ran.out
    assert "noisy *" in ran.out
    assert "noisy, Gaussian: epsilon 1 at delta 0 cannot be met" in ran.out


def test_a_limit_is_needed(run):
    ran = run("compare", "--n", 10, *BETA[:4])
    assert ran.code == 2
    assert "no privacy target was given" in ran.err
