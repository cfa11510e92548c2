"""How many functions of the package one command calls: its accounts and their values are made once."""

import sys
from pathlib import Path

import privsample

PACKAGE = str(Path(privsample.__file__).parent)
WORDS = [
    *("--column", "x", "--n", 500, "--model", "beta-bernoulli", "--prior", "6,12"),
    *("--mechanism", "diffused", "--epsilon", 1, "--delta", "1e-6", "--draws", 4, "--out", "r.json", "--json"),
]


def calls_of(body):
    """How often functions of the package were called, their generated methods among them."""
    counts = {"package": 0, "generated": 0}

    def profile(frame, event, _):
        if event == "call":
            counts["package"] += frame.f_code.co_filename.startswith(PACKAGE)
            counts["generated"] += frame.f_code.co_filename == "<string>"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        body()
    finally:
        sys.setprofile(before)
    return counts


def test_a_release_with_its_costs_calls_few_functions(run, clean):
    assert run("release", clean, *WORDS).code == 0  # imports what the command needs
    counts = calls_of(lambda: run("release", clean, *WORDS, "--force"))
    assert counts["package"] < 22_000  # bounds on errors at each contour, and rounding up, take some
    assert sum(counts.values()) < 23_000


def test_the_costs_are_computed_once(run, clean):
    """A second look at the same account computes nothing anew: all its views are kept."""
    from privsample import BetaBernoulli, DiffusedPosterior
    from privsample.cli.account import privacy_costs

    account = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=500, data_weight=0.2, draws=4).accountant
    first = calls_of(lambda: privacy_costs(account, None, 1e-6))
    again = calls_of(lambda: privacy_costs(account, None, 1e-6))
    assert again["package"] < first["package"] / 3
