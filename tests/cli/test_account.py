"""`privsample account`: prices without data, and the errors that all commands share."""

import numpy as np
import pytest

from privsample import BetaBernoulli, DiffusedPosterior, ReplaceOne
from privsample._serial import decode

BETA = ["--model", "beta-bernoulli", "--prior", "6,12"]
LIMIT = ["--epsilon", "1", "--delta", "1e-6"]
DIFFUSED = ["--mechanism", "diffused"]


def test_the_numbers_are_the_accounts(run):
    ran = run("account", "--n", 1000, *BETA, *DIFFUSED, *LIMIT, "--draws", 2, "--json")
    assert ran.code == 0
    made = decode(ran.json["mechanism"])
    assert isinstance(made, DiffusedPosterior)
    account = made.accountant
    assert account.relation == ReplaceOne(n=1000)
    for row in ran.json["epsilon"]:
        assert row["epsilon"] == account.epsilon(row["delta"])
    for row in ran.json["rdp"]:
        assert float(row["epsilon"]) == account.rdp(row["order"])
    assert ran.json["order_limit"] == account.order_limit
    assert min(float(route["epsilon"]) for route in ran.json["routes"]) <= 1.0 + 1e-9
    assert ran.json["statement"].startswith("Someone who, without this release, ")
    assert " When " in ran.json["statement"]


def test_a_grid_may_be_written_as_a_power(run):
    ran = run("account", "--n", 1000, *BETA, *DIFFUSED, *LIMIT, "--grid", "2^-10", "--json")
    assert ran.code == 0
    assert ran.json["mechanism"]["grid"] == 2.0**-10


# Wider tables of the same accounts: in the long lane.
@pytest.mark.parametrize("width", [80, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "words",
    [
        [*BETA, *DIFFUSED, *LIMIT, "--unit", "patient"],
        [*BETA, "--mechanism", "direct"],
        [*BETA, "--mechanism", "noisy", "--scale", "2"],
        [*BETA, "--mechanism", "tempered", "--truncation", "0.2", "--temperature", "3"],
        ["--model", "dirichlet-categorical", "--prior", "0.1,0.1,5", "--mechanism", "direct", "--draws", 3],
        ["--prior", "5,5", "--bounds", "-1,1", "--mechanism", "beta-query", "--data-weight", "0.3"],
    ],
)
def test_tables_are_plain_and_fit(run, words, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    ran = run("account", "--n", 120, *words)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= width
    assert "nan" not in ran.out
    assert "inf" not in ran.out.replace("infinite", "")


def test_a_parameter_in_place_of_a_limit(run):
    words = ["account", "--n", 50, *BETA, "--mechanism", "concentrated", "--prior-weight", 2, "--json"]
    ran = run(*words)
    assert ran.json["target"] is None
    assert decode(ran.json["mechanism"]).prior_weight == 2


def test_costs_are_never_rounded_down(run):
    ran = run("account", "--n", 1000, *BETA, *DIFFUSED, "--data-weight", "0.3333")
    shown = [line.split()[1] for line in ran.out.splitlines() if line.split()[:1] == ["1e-08"]]
    made = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=1000, data_weight=0.3333)
    assert 0 <= float(shown[0]) - made.accountant.epsilon(1e-8) < 1e-3
    assert np.isfinite(made.accountant.epsilon(1e-8))


N = ["--n", "100"]
ERRORS = [
    ([], "--prior"),
    ([*N, "--prior", "6,12", *DIFFUSED, *LIMIT], "--model is missing"),
    ([*N, "--model", "beta", "--prior", "6,12", *DIFFUSED], "invalid choice: 'beta'"),
    ([*BETA, *DIFFUSED, *LIMIT, "--n", "0"], "expected a whole number of at least 1, got '0'"),
    ([*BETA, *DIFFUSED, *LIMIT, "--n", "1e3"], "expected a whole number such as 1000, got '1e3'"),
    ([*BETA, *DIFFUSED, *LIMIT, "--n", "-5"], "expected a whole number of at least 1, got '-5'"),
    ([*N, *BETA, *DIFFUSED, *LIMIT, "--draws", "0"], "at least 1"),
    ([*N, "--model", "beta-bernoulli", "--prior", "6,-1", *DIFFUSED, *LIMIT], "beta must be finite and > 0, got -1.0"),
    ([*N, "--model", "beta-bernoulli", "--prior", "-1,6", *DIFFUSED, *LIMIT], "alpha must be finite and > 0, got -1.0"),
    ([*N, "--model", "beta-bernoulli", "--prior", "0,6", *DIFFUSED, *LIMIT], "alpha must be finite and > 0"),
    ([*N, "--model", "beta-bernoulli", "--prior", "inf,6", *DIFFUSED, *LIMIT], "alpha must be finite and > 0"),
    ([*N, "--model", "beta-bernoulli", "--prior", "nan,6", *DIFFUSED, *LIMIT], "expected a number, got 'nan'"),
    ([*N, "--model", "beta-bernoulli", "--prior", "a,6", *DIFFUSED, *LIMIT], "expected a number, got 'a'"),
    ([*N, *BETA, *DIFFUSED, *LIMIT, "--grid", "2^x"], "expected a number, got '2^x'"),
    ([*N, *BETA, *DIFFUSED, *LIMIT, "--grid", "2^9999"], "expected a number, got '2^9999'"),
    ([*N, "--model", "beta-bernoulli", "--prior", "6", *DIFFUSED, *LIMIT], "is two numbers, alpha,beta; got 1"),
    ([*N, "--model", "dirichlet-categorical", "--prior", "6", *DIFFUSED, *LIMIT], "at least two categories"),
    (
        [*N, "--model", "dirichlet-categorical", "--prior", "6,6,6", "--categories", "a,b", *DIFFUSED, *LIMIT],
        "--prior holds 3 numbers and --categories 2 names",
    ),
    ([*N, *BETA, "--categories", "a,a", *DIFFUSED, *LIMIT], "expected different names"),
    ([*N, *BETA, "--upper", "3", *DIFFUSED, *LIMIT], "--upper is not an option of --model beta-bernoulli"),
    ([*N, "--model", "gamma-poisson", "--prior", "6,6", *DIFFUSED, *LIMIT], "needs --upper"),
    ([*N, "--model", "gamma-poisson", "--prior", "6,6", "--upper", "2.5", *DIFFUSED, *LIMIT], "must be a whole number"),
    ([*N, "--model", "gamma-poisson", "--prior", "6,6", "--upper", "inf", *DIFFUSED, *LIMIT], "must be a whole number"),
    ([*N, "--model", "gamma-poisson", "--prior", "6,6", "--upper", "-3", *DIFFUSED, *LIMIT], "at least 1"),
    ([*N, "--model", "gamma-exponential", "--prior", "6,6", "--upper", "0", *DIFFUSED, *LIMIT], "upper must be finite"),
    (
        [*N, "--model", "normal-known-variance", "--prior", "0,1", "--bounds", "0,1", *DIFFUSED],
        "needs --noise-variance",
    ),
    (
        [
            *N,
            *["--model", "normal-known-variance", "--prior", "0,1", "--bounds", "1,-1", "--noise-variance", "1"],
            *DIFFUSED,
            *LIMIT,
        ],
        "low < high",
    ),
    ([*N, *BETA, *DIFFUSED, "--bounds", "1", *LIMIT], "expected two numbers"),
    ([*N, *BETA, *DIFFUSED], "no privacy target was given"),
    ([*N, *BETA, *DIFFUSED, "--epsilon", "1"], "--epsilon needs --delta"),
    ([*N, *BETA, *DIFFUSED, "--epsilon", "0", "--delta", "1e-6"], "epsilon must be finite and > 0"),
    ([*N, *BETA, *DIFFUSED, "--epsilon", "1", "--delta", "1"], "delta must lie in [0, 1)"),
    ([*N, *BETA, *DIFFUSED, "--epsilon", "1", "--delta", "-1e-6"], "delta must lie in [0, 1)"),
    ([*N, *BETA, *DIFFUSED, "--rho", "1", "--delta", "2"], "--delta must lie in [0, 1)"),
    ([*N, *BETA, *DIFFUSED, "--epsilon", "1", "--delta", "0"], "use a target with delta > 0"),
    ([*N, *BETA, *DIFFUSED, "--order", "2"], "give both --order and --rdp-epsilon"),
    ([*N, *BETA, *DIFFUSED, "--order", "1", "--rdp-epsilon", "1"], "orders must be finite and > 1"),
    ([*N, *BETA, *DIFFUSED, *LIMIT, "--rho", "1"], "give only one privacy target"),
    ([*N, *BETA, *DIFFUSED, "--rho", "1"], "infinite from order 7 on"),
    (
        [*N, *BETA, "--mechanism", "direct", "--order", "9", "--rdp-epsilon", "1"],
        "infinite from order 7 on, and the target has order 9",
    ),
    ([*N, *BETA, *DIFFUSED, "--data-weight", "0"], "data_weight must lie in (0, 1]"),
    ([*N, *BETA, *DIFFUSED, "--data-weight", "1.5"], "data_weight must lie in (0, 1]"),
    ([*N, *BETA, "--mechanism", "concentrated", "--prior-weight", "0.5"], "for a weaker prior, lower the parameters"),
    ([*N, *BETA, *DIFFUSED, "--prior-weight", "2"], "--prior-weight is not an option of --mechanism diffused"),
    ([*N, *BETA, *DIFFUSED, "--data-weight", "0.5", *LIMIT], "not both"),
    ([*N, *BETA, *DIFFUSED, *LIMIT, "--grid", "0.001", "--no-exact"], "leave out --no-exact or --grid"),
    ([*N, *BETA, *DIFFUSED, "--noise", "gaussian", *LIMIT], "--noise is not an option of --mechanism diffused"),
    ([*N, *BETA, *DIFFUSED, "--scale", "2"], "--scale is not an option of --mechanism diffused"),
    ([*N, *BETA, "--mechanism", "tempered", *LIMIT], "needs --truncation"),
    ([*N, *BETA, "--mechanism", "tempered", "--truncation", "0.5", *LIMIT], "truncation must lie in (0, 1/2)"),
    ([*N, *BETA, "--mechanism", "noisy", "--scale", "-1"], "scale must be finite and > 0"),
    (
        [*N, *BETA, "--fractional", "--mechanism", "noisy", "--noise", "discrete-laplace", *LIMIT],
        "noise must be continuous",
    ),
    ([*N, "--prior", "6,12", "--mechanism", "beta-query", *LIMIT], "needs --bounds"),
    (
        [*N, "--model", "gamma-poisson", "--prior", "6,12", "--mechanism", "beta-query", "--bounds", "0,1", *LIMIT],
        "invalid choice: 'gamma-poisson' (choose from beta-bernoulli)",
    ),
    ([*N, *BETA, *DIFFUSED, *LIMIT, "--unit", "a\nb"], "expected a short name"),
    ([*N, *BETA, *DIFFUSED, *LIMIT, "--eps", "1"], "unrecognized arguments: --eps"),
]


@pytest.mark.parametrize(("words", "said"), ERRORS, ids=lambda item: item if isinstance(item, str) else "")
def test_errors_are_one_clear_line(run, words, said):
    ran = run("account", *words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_delta_of_one_in_n_is_warned_of_in_one_line(run):
    mechanism = ("account", "--mechanism", "diffused", "--model", "beta-bernoulli", "--prior", "1,1", "--n", 100)
    for _ in range(2):
        ran = run(*mechanism, "--epsilon", 1, "--delta", 0.02)
        assert ran.code == 0
        (line,) = [line for line in ran.err.splitlines() if "warning" in line]
        assert line.startswith("privsample: warning: delta = 0.02 is at least 1/n for n = 100")
    assert "warning" not in run(*mechanism, "--epsilon", 1, "--delta", 0.001).err


def test_an_account_within_a_risk(run):
    words = ["account", "--n", 500, *BETA, *DIFFUSED, "--risk", 0.02, "--baseline", 0.01]
    made = decode(run(*words, "--json").json["mechanism"])
    assert 0.0199 < made.accountant.risk(0.01) <= 0.02
    assert "success 0.02 of an attack with baseline 0.01" in run(*words).out
    alone = run(*words[:-2])
    assert alone.code == 2
    assert "give both --risk and --baseline" in alone.err
    wrong = run(*words[:-2], "--baseline", 0.5)
    assert wrong.code == 2
    assert "success must lie between baseline = 0.5 and 1" in wrong.err


def test_an_account_within_a_mu_and_its_regret(run):
    words = ["account", "--n", 500, *BETA, "--mechanism", "noisy", "--mu", 0.5]
    ran = run(*words, "--regret", 1e-6, "--json")
    assert ran.code == 0
    account = decode(ran.json["mechanism"]).accountant
    rows = ran.json["gdp"]["values"]
    assert rows == [{"regret": regret, "mu": account.mu(regret)} for regret in (0.0, 1e-6)]
    assert rows[1]["mu"] < rows[0]["mu"] <= 0.5
    assert [row["regret"] for row in run(*words, "--json").json["gdp"]["values"]] == [0.0]
    assert "least mu" in run(*words, "--regret", 1e-6).out
    wrong = run(*words, "--regret", 1)
    assert wrong.code == 2
    assert "regret must lie in [0, 1)" in wrong.err
