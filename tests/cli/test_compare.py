"""`privsample compare`: the table from which a person chooses."""

import re

import pytest

from privsample import DP, BetaBernoulli, DiffusedPosterior, LaplaceSum, ReplaceOne

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
    best = rows[ran.json["best"]]
    assert best["error"] == min(row["error"] for row in rows.values() if row["reached"])
    assert best["excess"] == 0.0
    within = [
        row["name"] for row in rows.values() if row["reached"] and row["excess"] <= 3 * row["excess_standard_error"]
    ]
    assert {best["name"], *ran.json["within_chance_of_best"]} == set(within)
    assert best["name"] in ran.json["sentence"]
    assert rows["noisy"]["inference"] == "noise-aware"
    assert ran.json["simulated"]


def test_the_sentence_about_the_smallest_error(run):
    """One case within chance, and one in which the smallest error is clear."""
    ran = run("compare", "--n", 1000, *BETA, "--simulations", 20, "--seed", 3)
    assert "Which one" in ran.out
    assert "within chance" in ran.out
    assert "~" in ran.out
    words = ["--bounds", "0,1", "--n", 50, "--epsilon", 1, "--delta", 1e-6, "--simulations", 60, "--seed", 3]
    ran = run("compare", "--mechanism", "gaussian-sum,laplace-sum", *words)
    assert "laplace-sum has the smallest error" in ran.out
    assert "more than 3 standard errors" in " ".join(ran.out.split())
    assert "±" in ran.out


# A wider table of the same simulations: in the long lane.
@pytest.mark.parametrize("width", [80, pytest.param(100, marks=pytest.mark.long)])
def test_the_table_fits(run, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    ran = run("compare", "--n", 1000, *BETA, "--simulations", 20, "--draws", 2, "--seed", 3)
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= width
    assert re.search(r"noisy [*~] ", ran.out)
    assert "no private data were used" in ran.out
    assert "direct: epsilon 1 at delta 1e-06 cannot be met" in ran.out


def test_nothing_reaches_the_limit(run):
    words = ["--model", "beta-bernoulli", "--prior", "1,1", "--epsilon", "1", "--delta", "0", "--n", 10]
    ran = run("compare", *words, "--simulations", 5, "--seed", 3)
    assert ran.code == 0
    assert "diffused: epsilon 1 at delta 0 cannot be met" in ran.out
    assert re.search(r"noisy [*~] ", ran.out)
    assert "noisy (Gaussian): epsilon 1 at delta 0 cannot be met" in ran.out


def test_a_limit_is_needed(run):
    ran = run("compare", "--n", 10, *BETA[:4])
    assert ran.code == 2
    assert "no privacy target was given" in ran.err


MECHANISMS = {
    "exponential,permute-and-flip": "--candidates red,green,blue --utility count-utility",
    "randomized-response,randomized-response:log_odds": "--n 50 --categories 3",
    "private-gibbs-hmm:scale,private-gibbs-hmm:temperature": "--states 2 --categories 3 --entries 9,9 --sweeps 4",
    "logistic:data_weight,logistic:prior_weight": "--n 50 --features 1 --norm 1 --prior-std 1",
}


@pytest.mark.parametrize("names", MECHANISMS)
def test_mechanisms_of_one_question(run, names):
    ran = run(
        "compare",
        "--mechanism",
        names,
        *MECHANISMS[names].split(),
        *BETA[4:],
        "--simulations",
        4,
        "--seed",
        3,
        "--json",
    )
    assert ran.code == 0, ran.err
    assert [row["name"] for row in ran.json["mechanisms"]] == names.split(",")
    assert ran.json["sentence"]


def test_a_comparison_of_noisy_sums(run):
    words = ["compare", "--mechanism", "gaussian-sum,laplace-sum", "--bounds", "0,1", "--n", 50]
    ran = run(*words, "--epsilon", 1, "--delta", 1e-6, "--simulations", 40, "--seed", 3, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["best"] == "laplace-sum"
    gaussian, laplace = ran.json["mechanisms"]
    assert laplace["amount"] == pytest.approx(GaussianSumLaplace.scale, rel=1e-6)
    assert gaussian["error"] > laplace["error"] > 0
    ran = run(*words, "--epsilon", 1, "--delta", 0, "--simulations", 5)
    assert ran.code == 0
    assert "laplace-sum *" in ran.out
    assert "gaussian-sum: epsilon 1 at delta 0 cannot be met" in ran.out


class GaussianSumLaplace:
    """What the comparison must find for Laplace noise on a sum over [0, 1] at (1, 1e-6)."""

    made = LaplaceSum.calibrate(bounds=(0, 1), relation=ReplaceOne(n=50), target=DP(epsilon=1, delta=1e-6))
    scale = made.scale
