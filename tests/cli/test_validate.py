"""`privsample validate`: the curator's step."""

import pytest

MODEL = ["--model", "beta-bernoulli", "--prior", "6,12"]


def test_a_clean_file(run, clean):
    ran = run("validate", clean, "--column", "x", "--n", 500, *MODEL)
    assert (ran.code, ran.err) == (0, "")
    assert "500 records, each 0 or 1: no problems." in ran.out


def test_problems_are_counted_and_never_shown(run, dirty):
    ran = run("validate", dirty, "--column", "x", "--n", 500, *MODEL)
    assert ran.code == 1
    assert "For the curator only" in ran.out
    for words in ("count as 0", "count as the nearer of 0 and 1", "are rounded to the nearest whole number"):
        assert words in ran.out
    ran = run("validate", dirty, "--column", "x", "--n", 500, *MODEL, "--json")
    assert ran.code == 1
    assert ran.json["problems"] == {"missing": 1, "text": 0, "outside": 1, "fractional": 1}
    assert ran.json["for_the_curator_only"]


def test_a_bounded_column(run, dirty):
    words = ["--column", "x", "--n", 500, "--mechanism", "beta-query", "--prior", "2,2", "--json"]
    assert run("validate", dirty, *words, "--bounds", "0,1").json["problems"]["outside"] == 1
    ran = run("validate", dirty, *words)
    assert ran.code == 2
    assert "--mechanism beta-query needs --bounds" in ran.err


@pytest.mark.parametrize("n", [499, 501])
def test_the_wrong_n(run, clean, n):
    ran = run("validate", clean, "--column", "x", "--n", n, *MODEL)
    assert ran.code == 1
    assert f"n = {n} records were declared, the data hold 500" in ran.err
    assert ran.out == ""
