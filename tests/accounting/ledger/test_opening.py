"""Opening a ledger: what a new one needs, what an old one brings back, and what is refused before a file is made."""

import math
import pickle

import pytest

from privsample import DP, ZCDP, AddRemove, ReplaceOne
from privsample.accounting.ledger import Ledger
from tests.accounting.ledger.shared import BUDGET, ONE_NUMBER, TOY, pure


@pytest.mark.parametrize("budget", [BUDGET, *ONE_NUMBER])
def test_a_ledger_comes_back_as_it_was(budget, path, made):
    ledger = made(budget)
    assert (ledger.budget, ledger.relation, ledger.dataset, ledger.path) == (budget, AddRemove(), "toy", path)
    assert (ledger.spent(), ledger.history()) == (0.0, ())
    assert ledger.remaining() == ledger.export()["remaining"]
    entry = ledger.spend(pure(0.1), times=2, label="two counts")
    assert ledger.history() == (entry,)
    assert entry.account == 2 * pure(0.1)
    assert (entry.number, entry.kind, entry.label, entry.items[0].times) == (1, "spend", "two counts", 2)
    assert 0 < ledger.spent() < ledger.remaining()
    again = Ledger(path)
    assert (again.budget, again.history(), again.spent()) == (budget, ledger.history(), ledger.spent())
    assert Ledger(path, budget=budget, relation=AddRemove(), dataset="toy").spent() == ledger.spent()
    again.spend(pure(0.05))
    assert ledger.spent() == again.spent()  # each sees what the other wrote
    assert pickle.loads(pickle.dumps(ledger)).history() == again.history()
    assert "toy" in repr(ledger)
    assert list(path.parent.iterdir()) == [path]  # one file, nothing beside it


def test_opening_asks_for_what_is_missing_and_refuses_what_differs(path, made, tmp_path):
    with pytest.raises(FileNotFoundError, match="give budget, relation, dataset"):
        Ledger(path)
    with pytest.raises(FileNotFoundError, match="give relation as well"):
        Ledger(path, budget=BUDGET, dataset="toy")
    assert not path.exists()
    made(approximate_share=0.25)
    for other in (
        {"budget": DP(epsilon=2, delta=1e-6)},
        {"budget": ZCDP(rho=1)},
        {"relation": ReplaceOne(n=3)},
        {"relation": AddRemove(unit="patient")},
        {"dataset": "another"},
        {"approximate_share": 0.5},
        {"weights": {9.0: 1.0}},
    ):
        with pytest.raises(ValueError, match=f"was created with {next(iter(other))}"):
            Ledger(path, **other)
    assert Ledger(path, approximate_share=0.25, budget=BUDGET).remaining() == 1.0
    chosen = Ledger(tmp_path / "own.ledger", budget=BUDGET, weights={20: 0.5, 40: 0.5}, **TOY)
    assert chosen.export()["filter"] == {"orders": [20.0, 40.0], "weights": [0.5, 0.5]}


def test_the_filter_is_the_one_of_the_file_whatever_a_later_version_would_choose(path, made, monkeypatch):
    before = made().export()["filter"]
    monkeypatch.setattr("privsample.accounting.ledger.filters.default_weights", lambda budget: {9.0: 1.0})
    assert Ledger(path).export()["filter"] == before
    later = Ledger(path.with_name("later"), budget=BUDGET, **TOY)
    assert later.export()["filter"] == {"orders": [9.0], "weights": [1.0]}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"budget": 1.0}, TypeError),
        ({"relation": "AddRemove"}, TypeError),
        ({"dataset": 3}, TypeError),
        ({"dataset": " "}, ValueError),
        ({"dataset": "a\nb"}, ValueError),
        ({"approximate_share": 1.0}, ValueError),
        ({"approximate_share": True}, TypeError),
        ({"approximate_share": 0.5, "budget": ZCDP(rho=1)}, ValueError),
        ({"weights": [1.0]}, TypeError),
        ({"weights": {2.0: 0.3}}, ValueError),
        ({"timeout": 0.0}, ValueError),
        ({"timeout": math.nan}, ValueError),
    ],
)
def test_bad_settings_make_no_file(wrong, error, path):
    with pytest.raises(error, match=next(iter(wrong))):
        Ledger(path, **{"budget": BUDGET, **TOY, **wrong})
    assert list(path.parent.iterdir()) == []
