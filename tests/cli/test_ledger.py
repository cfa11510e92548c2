"""`privsample ledger`: a budget in a file."""

import json
from pathlib import Path

import pytest

import privsample.cli
from privsample import (
    DP,
    AddRemove,
    ApproximateAccountant,
    BetaBernoulli,
    DiffusedPosterior,
    PureAccountant,
    ReplaceOne,
)
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.ledger import Ledger
from privsample.cli import ledger as command
from privsample.cli.errors import UsageProblem

INIT = ["ledger", "init", "toy.ledger", "--dataset", "patients 2024"]
LIMIT = ["--epsilon", "1", "--delta", "1e-6"]
BETA = ["--model", "beta-bernoulli", "--prior", "6,12", "--mechanism", "diffused"]


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr("privsample.cli._COMMANDS", tuple(dict.fromkeys([*privsample.cli._COMMANDS, "ledger"])))


@pytest.fixture
def made(run):
    return lambda *more: run(*INIT, "--n", 500, "--unit", "patient", *LIMIT, *more, "--json")


@pytest.mark.parametrize("limit", [["--epsilon", 2, "--delta", 0], ["--epsilon", 2, "--delta", 1e-6], ["--rho", 2]])
def test_a_fresh_ledger_shows_its_whole_budget_and_no_more_than_is_left(run, limit):
    def value_of(name):
        (line,) = [line for line in run("ledger", "show", "whole").out.splitlines() if line.startswith(name)]
        return line.split()[1]

    assert run("ledger", "init", "whole", "--dataset", "d", "--add-remove", *limit).code == 0
    assert (value_of("spent"), value_of("remaining")) == ("0", "2")
    how = "--zcdp" if limit[0] == "--rho" else "--pure"
    for spent, left in (("0.1", "1.9"), ("0.3001", "1.699")):  # rounded up, rounded down
        assert run("ledger", "spend", "whole", how, {"0.1": 0.1, "0.3001": 0.20001}[spent]).code == 0
        assert (value_of("spent"), value_of("remaining")) == (spent, left)


@pytest.mark.parametrize("parts", [3, 7, 10])
def test_a_budget_in_equal_parts_is_spent_whole(run, parts):
    assert run("ledger", "init", "parts", "--dataset", "d", "--add-remove", "--epsilon", 2, "--delta", 0).code == 0
    for _ in range(parts):
        ran = run("ledger", "spend", "parts", "--pure", 2 / parts, "--json")
        assert ran.code == 0
    assert (ran.json["spent"], ran.json["remaining"]) == (2.0, 0.0)
    refused = run("ledger", "spend", "parts", "--pure", 2 / parts)
    assert refused.code == 2
    assert "and 0 remains" in refused.err


def test_the_former_name_of_delta_is_read(run, made):
    made("--approximate-share", 0.5)
    assert run("ledger", "spend", "toy.ledger", "--pure", 0.1, "--failure", 1e-7).code == 0
    assert Ledger("toy.ledger").history()[0].items[0].account.stated_delta == 1e-7


def test_the_whole_way(run, made):
    ran = made("--approximate-share", 0.5)
    assert ran.code == 0
    assert (ran.json["action"], ran.json["spent"], ran.json["remaining"]) == ("init", 0.0, 1.0)
    ledger = Ledger("toy.ledger")
    assert ledger.budget == DP(epsilon=1, delta=1e-6)
    assert (ledger.relation, ledger.dataset) == (ReplaceOne(n=500, unit="patient"), "patients 2024")
    assert run("ledger", "spend", "toy.ledger", "--pure", 0.1, "--times", 2, "--label", "counts").code == 0
    assert run("ledger", "spend", "toy.ledger", "--pure", 0.1, "--delta", 1e-7).code == 0
    assert run("ledger", "spend", "toy.ledger", "--zcdp", 1e-4, "--json").json["entries"][2]["number"] == 3
    history = ledger.history()
    assert (history[0].items[0].times, history[0].label) == (2, "counts")
    assert isinstance(history[1].items[0].account, ApproximateAccountant)
    shown = run("ledger", "show", "toy.ledger")
    assert "patients 2024" in shown.out
    assert "2 x PureAccountant" in shown.out
    assert "5e-07, of which 4e-07 remains" in shown.out
    assert run("ledger", "show", "toy.ledger", "--json").json["spent"] == ledger.spent()
    assert run("ledger", "export", "toy.ledger").json == json.loads(json.dumps(ledger.export()))
    assert run("ledger", "export", "toy.ledger", "--out", "all.json").code == 0
    assert json.loads(Path("all.json").read_text()) == ledger.export()
    assert "exists" in run("ledger", "export", "toy.ledger", "--out", "all.json").err


@pytest.mark.parametrize("width", [60, 100])
def test_tables_are_plain_and_fit(run, made, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    made()
    ledger = Ledger("toy.ledger")
    mechanism = DiffusedPosterior.calibrate(
        model=BetaBernoulli(alpha=6, beta=12), n=500, unit="patient", target=ledger.share(10)
    )
    ledger.reserve([(mechanism, 2), mechanism.accountant, mechanism, mechanism], label="[red] a long label " * 9)
    ran = run("ledger", "show", "toy.ledger")
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= width
    assert "drawn" in ran.out
    assert "..." in ran.out


def test_accounts_from_files(run, made, write, binary):
    made()
    words = ["--n", 500, "--unit", "patient", *BETA, "--epsilon", "0.2", "--delta", "1e-8"]
    priced = run("account", *words, "--json")
    release = run("release", write("clean.csv", binary), "--column", "x", *words, "--out", "posterior.json")
    assert release.code == 0
    Path("priced.json").write_text(priced.out)
    small = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=500, data_weight=0.001, unit="patient")
    Path("account.json").write_text(json.dumps(small.accountant.to_dict()))
    for name in ("priced.json", "posterior.json", "account.json"):
        assert run("ledger", "spend", "toy.ledger", "--account", name).code == 0
    entries = Ledger("toy.ledger").history()
    assert entries[0].items == entries[1].items
    for name, text, words in [
        ("a.json", "cut sh", "not JSON"),
        ("b.json", "[1]", "no account"),
        ("c.json", '{"mechanism": {"type": "AddRemove"}}', "holds no mechanism"),
        ("d.json", '{"type": "AddRemove"}', "not an accountant"),
        ("e.json", '{"type": "Unheard"}', "not a class of this version"),
    ]:
        Path(name).write_text(text)
        ran = run("ledger", "spend", "toy.ledger", "--account", name)
        assert ran.code == 2
        assert words in ran.err
    assert "No such file" in run("ledger", "spend", "toy.ledger", "--account", "missing.json").err
    assert Ledger("toy.ledger").history() == entries


def test_what_does_not_fit_is_refused(run, made):
    made()
    ran = run("ledger", "spend", "toy.ledger", "--pure", 1.5)
    assert ran.code == 2
    assert "does not fit into epsilon 1 at delta 1e-06" in ran.err
    assert "and 1 remains" in ran.err
    assert Ledger("toy.ledger").history() == ()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["ledger"], "init, show, spend, export, moved or backup"),
        (["ledger", "show", "missing"], "there is no ledger at missing; `privsample ledger init` creates one"),
        (["ledger", "spend", "missing", "--pure", 1], "there is no ledger at missing"),
        (["ledger", "export", "missing"], "there is no ledger at missing"),
        (["ledger", "moved", "missing"], "there is no ledger at missing"),
        (["ledger", "backup", "missing", "b"], "there is no ledger at missing"),
        (["ledger", "backup", "toy.ledger", "clean.csv"], "clean.csv exists, and a backup never replaces a file"),
        (["ledger", "show", "missing", "--at-least", "7:0123456789abcdef"], "missing; put its newest copy back"),
        (["ledger", "show", "toy.ledger", "--at-least", "7:0123456789abcdef"], "is an older copy: it ends at event 1"),
        (["ledger", "spend", "toy.ledger", "--pure", 0.1, "--at-least", "1:0123456789abcdef"], "another history"),
        (["ledger", "export", "toy.ledger", "--at-least", "7"], "at_least must be a head"),
        (
            ["release", "clean.csv", "--at-least", "7", "--out", "o.json", "--n", 500, *BETA, *LIMIT],
            "--at-least needs --ledger",
        ),
        (["ledger", "show", "."], "is a folder"),
        (["ledger", "show", "clean.csv"], "not a privsample ledger"),
        (["ledger", "burn", "x"], "invalid choice"),
        ([*INIT, "--n", 5], "no privacy target was given"),
        ([*INIT, *LIMIT], "--n N"),
        ([*INIT, *LIMIT, "--n", 5, "--add-remove"], "--n N"),
        ([*INIT, *LIMIT, "--n", 5, "--approximate-share", 1], "approximate_share"),
        ([*INIT, "--n", 5, "--rho", 1, "--approximate-share", 0.5], "delta > 0"),
        (["ledger", "init", "clean.csv", "--dataset", "x", "--n", 5, *LIMIT], "exists"),
        (["ledger", "init", "no/toy.ledger", "--dataset", "x", "--n", 5, *LIMIT], "does not exist"),
        (["ledger", "spend", "toy.ledger"], "one of --pure"),
        (["ledger", "spend", "toy.ledger", "--pure", 1, "--zcdp", 1], "one of --pure"),
        (["ledger", "spend", "toy.ledger", "--zcdp", 1, "--delta", 1e-9], "--delta needs"),
        (["ledger", "spend", "toy.ledger", "--pure=-1"], "stated_epsilon"),
        (["ledger", "spend", "toy.ledger", "--pure", "nan"], "expected a number"),
        (["ledger", "spend", "toy.ledger", "--pure", 0.1, "--times", 0], "at least 1"),
    ],
)
def test_errors_are_one_line_and_change_nothing(run, clean, words, reason):
    Ledger("toy.ledger", budget=DP(epsilon=1), relation=AddRemove(), dataset="x")
    if words[:2] == ["ledger", "init"] and words[2] == "toy.ledger":
        words = ["ledger", "init", "new.ledger", *words[3:]]
    ran = run(*words)
    assert ran.code == 2
    assert reason in ran.err
    assert Ledger("toy.ledger").history() == ()


def test_add_remove_and_other_budgets(run):
    for name, words in [
        ("a", ["--rho", 0.5]),
        ("b", ["--order", 4, "--rdp-epsilon", 1]),
        ("c", ["--epsilon", 1, "--delta", 0]),
    ]:
        ran = run("ledger", "init", name, "--dataset", "x", "--add-remove", *words)
        assert ran.code == 0
        assert "reserved delta" not in ran.out
        assert Ledger(name).relation == AddRemove()


def test_a_release_by_the_ledger(made, binary):
    made()
    mechanism = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=500, data_weight=0.1, unit="patient")
    ledger = command.open_ledger("toy.ledger")
    assert command.release_with_ledger(ledger, mechanism, binary, label="the rate").account == mechanism.accountant
    assert [entry.label for entry in ledger.history()] == ["the rate"]
    direct = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=500, data_weight=1.0, unit="patient")
    with pytest.raises(UsageProblem, match="DiffusedPosterior does not fit"):
        command.release_with_ledger(ledger, direct, binary)
    with pytest.raises(UsageProblem, match="relation of the ledger"):
        command.release_with_ledger(ledger, DiffusedPosterior(model=mechanism.model, n=9, data_weight=0.1), binary)
    assert len(ledger.history()) == 1


def test_an_overdrawn_ledger_says_so(run, made, monkeypatch):
    made()
    run("ledger", "spend", "toy.ledger", "--pure", 0.6)
    run("ledger", "spend", "toy.ledger", "--zcdp", 1e-3)
    monkeypatch.setattr(
        "privsample.ZCDPAccountant._bounds",
        lambda self: PrivacyBounds.from_renyi(lambda orders: 10 * orders, zcdp=self.rho),
    )
    assert "exceed the budget" in run("ledger", "show", "toy.ledger").out


FAMILY = ["ledger", "init", "family", "--dataset", "d", "--add-remove"]


def test_a_budget_that_gaussian_releases_fill(run):
    assert run(*FAMILY, "--mu", 0.5).code == 0
    assert run("ledger", "spend", "family", "--gdp", 0.25, "--times", 3, "--label", "sums").code == 0
    shown = run("ledger", "show", "family").out
    assert "1 x GaussianAccountant" in shown
    assert "Squares of mu" in shown
    refused = run("ledger", "spend", "family", "--mu", 0.3)
    assert refused.code == 2
    assert "privsample ledger show family" in refused.err
    assert "ledger.share" not in refused.err
    assert run("ledger", "spend", "family", "--gdp", 0.25).code == 0
    assert run("ledger", "show", "family", "--json").json["remaining"] == 0.0


def test_the_family_of_a_ledger(run):
    assert run(*FAMILY, *LIMIT, "--family", "gaussian", "--json").json["family"]["name"] == "gaussian"
    assert Ledger("family").family == "gaussian"
    Path("account.json").write_text(json.dumps(PureAccountant(stated_epsilon=0.05).to_dict()))
    ran = run("ledger", "init", "copies", "--dataset", "d", "--add-remove", *LIMIT, "--family", "account.json")
    assert ran.code == 0
    assert "copies of PureAccountant" in " ".join(ran.out.split())
    assert Ledger("copies").family == PureAccountant(stated_epsilon=0.05)
    other = ["ledger", "init", "other", "--dataset", "d", "--add-remove"]
    for words, reason in (
        ([*LIMIT, "--family", "laplace"], "--family must be `gaussian` or the file"),
        (["--rho", 1, "--family", "gaussian"], "needs a budget GDP"),
    ):
        ran = run(*other, *words)
        assert ran.code == 2
        assert reason in ran.err
    assert not Path("other").exists()


def test_a_backup_and_a_moved_ledger(run, made):
    made()
    for number in (1, 2):
        assert run("ledger", "spend", "toy.ledger", "--pure", 0.01 * number, "--label", f"count {number}").code == 0
    head = Ledger("toy.ledger").head
    assert head in run("ledger", "show", "toy.ledger").out
    ran = run("ledger", "backup", "toy.ledger", "copy.ledger")
    assert ran.code == 0
    assert f"the head {head}; it opens after `privsample ledger moved copy.ledger`" in ran.out
    assert run("ledger", "backup", "toy.ledger", "other.ledger", "--json").json["head"] == head
    refused = run("ledger", "show", "copy.ledger")
    assert refused.code == 2
    assert "or `privsample ledger moved FILE`" in refused.err
    moved = run("ledger", "moved", "copy.ledger", "--at-least", head)
    assert moved.code == 0
    assert "count 2" in moved.out
    shown = run("ledger", "show", "copy.ledger", "--json").json
    assert (shown["head"].partition(":")[0], shown["cost_measure"]) == ("4", "ε spent (nats)")
    assert [entry["cost"] for entry in shown["entries"]] == pytest.approx([0.01, 0.02])
    assert run("ledger", "moved", "copy.ledger", "--json").json["head"] == shown["head"]
    Path("link.ledger").hardlink_to("copy.ledger")
    assert "has 2 names (hard links)" in run("ledger", "show", "copy.ledger").err


def test_the_cost_of_each_entry_is_shown_rounded_up(run, made):
    made()
    for cost in (0.01, 0.20001):
        ran = run("ledger", "spend", "toy.ledger", "--pure", cost)
    rows = [line.split() for line in ran.out.splitlines() if " spend " in line]
    assert [row[3] for row in rows] == ["1", "0.2001"]  # of the new entry only
    rows = [line.split() for line in run("ledger", "show", "toy.ledger").out.splitlines() if " spend " in line]
    assert [row[3] for row in rows] == ["0.01", "0.2001"]
