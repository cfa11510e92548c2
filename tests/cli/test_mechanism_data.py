"""Mechanisms on the command line with data: releases, their errors, public records, and audits."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from privsample import DP, AddRemove, RandomizedResponse, Release, ReplaceOne
from privsample._serial import decode


def written(name, columns):
    """A CSV file of several columns."""
    rows = zip(*columns.values(), strict=True)
    Path(name).write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return name


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    columns = {"a": rng.uniform(-0.5, 0.5, 40), "b": rng.uniform(-0.5, 0.5, 40), "y": rng.integers(0, 2, 40)}
    return written("table.csv", columns)


RELEASES = [
    ("gaussian-sum --bounds -1,1 --draws 3 --column a", "sum", (3,)),
    ("laplace-sum --bounds -1,1 --column a", "sum", (1,)),
    ("clipped-sum --norm 1 --width 2 --columns a,b", "sum", (1, 2)),
    ("randomized-response --n 40 --column y", "answers", (1, 40)),
    ("subsampled --base 'laplace-sum scale=2 bounds=-1,1' --column a", "sum", (1,)),
    ("logistic --n 40 --features 2 --norm 1 --prior-std 1 --columns a,b --label y", "coefficients", (1, 2)),
    ("noisy-projected-sgd --loss 'logistic-loss features=2 norm=1 radius=2' --n 40 --rate 0.1 --columns a,b --label y",
     "coefficients", (1, 2)),
    ("private-gibbs-hmm --states 1 --categories 2 --entries 40 --sweeps 3 --released-sweeps 2 --columns y",
     "states", (2, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "name", "shape"), RELEASES)
def test_releases_of_columns(run, table, words, name, shape):
    limit = ["--epsilon", "3", "--delta", "1e-5"]
    ran = run("release", table, "--mechanism", *shlex.split(words), *limit, "--out", "r.json", "--json")
    assert ran.code == 0, ran.err
    release = Release.load("r.json")
    assert release[name].shape == shape
    assert DP(epsilon=3, delta=1e-5).met_by(release.account)
    assert ran.json["draws"][name]["count"] == shape[0]
    ran = run("release", table, "--mechanism", *shlex.split(words), *limit, "--out", "r.json", "--force")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 100


@pytest.mark.parametrize("ending", [".json", ".npy"])
def test_a_release_of_a_statistic(run, ending):
    values = [[1.0, 2.0], [3.0, 4.0]]
    Path("s.json").write_text(json.dumps(values))
    np.save("s.npy", values)
    words = ["--mechanism", "gaussian", "--sensitivity", 1, "--noise-std", 1e-9, "--shape", "2,2", "--out", "r.json"]
    ran = run("release", "s" + ending, *words)
    assert (ran.code, ran.err) == (0, "")
    assert np.allclose(Release.load("r.json")["statistic"][0], values)
    assert "statistic[1,1]" in ran.out


def test_large_draws_are_summed_up(run):
    write = written("long.csv", {"y": [0, 1] * 1000})
    words = ["--mechanism", "randomized-response", "--n", 2000, "--log-odds", 1, "--column", "y", "--out", "r.json"]
    assert run("release", write, *words, "--json").json["draws"] == {"answers": {"count": 1, "shape": [2000]}}
    assert "and 1980 more" in run("release", write, *words, "--force").out


def test_the_relation(run):
    words = ["account", "--mechanism", "gaussian-sum", "--noise-std", 1, "--bounds", "-1,3", "--json"]
    found = [
        decode(run(*words, *more).json["mechanism"]).relation
        for more in ([], ["--n", 9], ["--relation", "replace-one", "--n", 9, "--unit", "patient"])
    ]
    assert found == [AddRemove(), ReplaceOne(n=9), ReplaceOne(n=9, unit="patient")]
    answer = ["account", "--mechanism", "randomized-response", "--log-odds", 1, "--json"]
    made = decode(run(*answer, "--relation", "add-remove", "--slots", 4).json["mechanism"])
    assert made == RandomizedResponse(log_odds=1, relation=AddRemove(), slots=4)


ERRORS = [
    ("account --mechanism gausian", 2, "there is no mechanism gausian; did you mean gaussian? `privsample mechanisms`"),
    ("account --mechanism gaussian --sensitivity 1", 2, "or --risk with --baseline; or --noise-std"),
    ("account --mechanism gaussian --noise-std 1", 2, "--mechanism gaussian needs --sensitivity"),
    ("account --mechanism gaussian --noise-std -1 --sensitivity 1", 2, "noise_std must be"),
    ("account --mechanism gaussian --noise-std 1 --sensitivity 1 --shape 2.5", 2, "expected a whole number"),
    ("account --mechanism gaussian --noise-std 1 --sensitivity 1 --epsilon 1 --delta 0.1", 2, "not both"),
    ("account --mechanism gaussian --model beta-bernoulli", 2, "which has no model"),
    ("account --mechanism gaussian-sum --noise-std 1 --bounds 0,1,2", 2, "expected two numbers such as 0,10"),
    ("account --mechanism gaussian-sum --noise-std 1 --bounds 0,1 --relation add-remove --n 4", 2, "must be left out"),
    ("account --mechanism gaussian-sum --noise-std 1 --bounds 0,1 --relation replace-one", 2, "replace-one needs --n"),
    ("account --mechanism gaussian-sum --noise-std 1 --bounds 0,1 --relation some", 2, "invalid choice: 'some'"),
    ("account --mechanism randomized-response --log-odds 1", 2, "public, or --relation add-remove"),
    ("account --mechanism subsampled --base 'randomized-response log-odds=1' --scheme 'poisson-sampling rate=1'", 2,
     "give n where it is public, or relation=add-remove"),
    ("account --mechanism repeated-selection --base 'laplace sensitivity=1 scale=1' --eta 1", 2, "needs a privacy"),
    ("account --mechanism subsampled --base gauss --scheme 'poisson-sampling rate=1'", 2, "there is no 'gauss'"),
    ("account --mechanism subsampled --base 'gaussian-sum bounds=0,1' --scheme 'poisson-sampling rate=1'", 2,
     "gaussian-sum needs noise-std"),
    ("account --mechanism subsampled --base 'gaussian-sum size=1' --scheme 'poisson-sampling rate=1'", 2,
     "gaussian-sum does not take 'size=1'; expected bounds=... noise-std=..."),
    ("account --mechanism subsampled --base 'gaussian-sum bounds=0' --scheme 'poisson-sampling rate=1'", 2,
     "bounds: expected two numbers"),
    ("account --mechanism subsampled --base 'gaussian-sum (bounds=0' --scheme 'poisson-sampling rate=1'", 2,
     "do not match"),
    ("account --mechanism subsampled --base noise-std=1 --scheme 'poisson-sampling rate=1'", 2,
     "expected a name and its fields, such as"),
    ("account --mechanism subsampled --base missing.json --scheme 'poisson-sampling rate=1'", 2, "cannot be read"),
    ("account --mechanism one-bit --graph graph --mechanism-epsilon 1", 2, "expected the name of a JSON file"),
    ("account --mechanism one-bit --graph text.json --mechanism-epsilon 1", 2, "text.json is not JSON"),
    ("account --mechanism one-bit --graph list.json --mechanism-epsilon 1", 2, "must hold a JSON object"),
    ("account --mechanism markov-kernel --base 'randomized-response log-odds=1 n=1' --matrix '1,2;3'", 2, "one length"),
    ("account --mechanism private-gibbs-hmm --states 1 --categories 2 --entries 4 --truncation a --scale 1", 2,
     "--truncation: expected a number"),
    ("account --mechanism direct --n 4 --model normal-unknown-variance", 2, "write --model normal-unknown-variance in"),
    ("account --mechanism direct --n 4 --model 'beta-bernoulli alpha=1 beta=1' --prior 1,1", 2, "must be left out"),
    ("account --mechanism direct --n 4 --model 'beta-bernoulli alpha=1 beta=1' --upper 1", 2, "is not an option of"),
    ("account --mechanism direct --n 4 --model 'beta-bernoulli alpha=-1 beta=1'", 2, "alpha must be finite and > 0"),
    ("account --mechanism direct --n 4 --model beta-bernoulli", 2, "needs --prior, the numbers alpha,beta"),
    ("release table.csv --mechanism gaussian --sensitivity 1 --noise-std 1 --column a --out r.json", 2,
     "takes a statistic: give a .json file"),
    ("release table.csv --mechanism gaussian --sensitivity 1 --noise-std 1 --out r.json", 2,
     "a statistic is read from a .json"),
    ("release none.json --mechanism gaussian --sensitivity 1 --noise-std 1 --out r.json", 2, "there is no file none"),
    ("release text.json --mechanism gaussian --sensitivity 1 --noise-std 1 --out r.json", 1, "cannot be read: expe"),
    ("release list.json --mechanism gaussian --sensitivity 1 --noise-std 1 --out r.json", 1, "must have shape ()"),
    ("release table.csv --mechanism clipped-sum --norm 1 --width 2 --noise-std 1 --column a --out r.json", 2,
     "takes rows of several columns: give --columns A,B,C"),
    ("release table.csv --mechanism clipped-sum --norm 1 --width 3 --noise-std 1 --columns a,b --out r.json", 1,
     "the rows must have shape (n, 3)"),
    ("release table.csv --mechanism gaussian-sum --bounds 0,1 --noise-std 1 --out r.json", 2, "give --column C"),
    ("release table.csv --mechanism gaussian-sum --bounds 0,1 --noise-std 1 --column a --columns a,b --out r.json", 2,
     "not both"),
    ("release table.csv --mechanism gaussian-sum --bounds 0,1 --noise-std 1 --column a --label y --out r.json", 2,
     "--label needs --columns"),
    ("release table.csv --mechanism gaussian-sum --bounds 0,1 --noise-std 1 --column a --out r.json", 1, "outside"),
    ("release table.csv --mechanism one-bit --graph graph.json --mechanism-epsilon 1 --column a --out r.json", 2,
     "cannot read its data from a file; its data are a mapping, or a pandas, polars"),
    (("release table.csv --mechanism multilevel-release --base 'brownian-motion sensitivity=1 time=1' --times 2 "
     "--out r.json"), 2,
     "a statistic is read from a .json"),
    ("release table.csv --mechanism gaussian-sum --bounds 0,1 --noise-std 1 --column a --public-data a --out r.json", 2,
     "updates a prior, and"),
    ("audit --mechanism gaussian --sensitivity 1 --noise-std 1 --mutant", 2, "leave --mutant out"),
    ("audit laplace --mechanism gaussian --sensitivity 1 --noise-std 1", 2, "give names of examples, or --mechanism"),
    ("audit --mechanism gaussian --sensitivity 1", 2, "no privacy target was given"),
    ("compare --mechanism gaussian,logistic --sensitivity 1 --epsilon 1 --delta 0.1", 2, "needs --n"),
    ("compare --mechanism beta-query,gaussian --sensitivity 1 --epsilon 1 --delta 0.1", 2, "needs"),
    ("compare --mechanism private-gibbs-hmm:wrong --epsilon 1 --delta 0.1", 2,
     "private-gibbs-hmm has scale and temperature"),
    ("compare --mechanism gaussian,exponential --sensitivity 1 --candidates a,b --epsilon 1 --delta 0.1", 2,
     "must answer the same question"),
    ("compare --mechanism gaussian --sensitivity 1", 2, "no privacy target was given"),
    ("account --mechanism gaussian --wrong 1", 2, "(see privsample account --mechanism gaussian --help)"),
    ("compare --mechanism gaussian,laplace --wrong 1", 2, "(see privsample compare --mechanism gaussian,laplace"),
    ("mechanisms gausian", 2, "did you mean gaussian?"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "said"), ERRORS)
def test_errors_are_one_clear_line(run, table, words, code, said):
    Path("text.json").write_text("no JSON")
    Path("list.json").write_text("[1, 2]")
    Path("graph.json").write_text('{"profiles": {"a": [0.2, 0.8], "b": [0.6, 0.4]}, "edges": [["a", "b"]]}')
    ran = run(*shlex.split(words))
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not Path("r.json").exists()


def test_validate_knows_every_mechanism_of_columns(run, table):
    words = ["validate", table, "--mechanism", "gaussian-sum", "--column", "a", "--bounds", "0,1"]
    ran = run(*words)
    assert ran.code == 1
    assert "count as the nearer of 0 and 1" in ran.out
    ran = run("validate", table, "--mechanism", "clipped-sum", "--columns", "a,b", "--norm", 0.1, "--width", 2)
    assert ran.code == 1
    assert "are changed by the mechanism's public rule" in ran.out
    assert run("validate", table, "--mechanism", "gaussian-sum", "--column", "a", "--bounds", "-1,1").code == 0


def test_public_records_and_graphs_come_from_files(run):
    Path("public.json").write_text('{"rows": [[0.5], [0.1]], "targets": [1, 0]}')
    words = "noisy-projected-sgd --loss 'logistic-loss features=1 norm=1 radius=1' --n 5 --rate 0.1 --noise-std 2"
    more = ["--public", "public.json", "--public-tail", 2, "--mechanism-order", "given", "--json"]
    made = decode(run("account", "--mechanism", *shlex.split(words), *more).json["mechanism"])
    assert (made.public_tail, made.order, len(made.public.rows)) == (2, "given", 2)


def test_an_audit_of_a_mechanism_with_options(run):
    words = ["--mechanism", "gaussian", "--sensitivity", 1, "--noise-std", 2, "--samples", 4000, "--seed", 7]
    ran = run("audit", *words)
    assert (ran.code, ran.err) == (0, "")
    assert "CONSISTENT" in ran.out
    one, other = (run("audit", *words, "--json").json["audits"][0] for _ in range(2))
    assert one["p_value"] == other["p_value"]
    assert one["samples"] <= 4000
