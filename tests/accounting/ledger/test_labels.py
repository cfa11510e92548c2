"""Labels of entries: short, printable, and harmless on a terminal."""

import pytest

import privsample as ps
from privsample.accounting.ledger import ledger as module
from privsample.cli import main

PURE = ps.PureAccountant(stated_epsilon=0.1, relation=ps.AddRemove())
ESCAPE = "\x1b[2J\x1b]0;title\x07 sum\u202e"


@pytest.fixture
def ledger(tmp_path):
    return ps.Ledger(tmp_path / "l.db", budget=ps.DP(1), relation=ps.AddRemove(), dataset="visits")


@pytest.mark.parametrize("label", [ESCAPE, "two\nlines", "x" * 1_001, "\ud800"])
def test_a_label_is_short_and_printable(ledger, label):
    calls = (
        lambda: ledger.spend(PURE, label=label),
        lambda: ledger.release(ps.LaplaceSum(bounds=(0, 1), scale=10), [1.0], label=label),
        lambda: ledger.reserve([PURE], label=label),
    )
    for call in calls:
        with pytest.raises(ValueError, match="label must be at most 1000 printable characters"):
            call()
    assert not ledger.history()
    ledger.spend(PURE, label="é" * 1_000)


def test_labels_of_older_versions_are_shown_without_control_characters(ledger, monkeypatch, capsys):
    monkeypatch.setattr(module, "_text", lambda **_: None)
    ledger.spend(PURE, label=ESCAPE)
    assert main(["ledger", "show", str(ledger.path)]) == 0
    shown = capsys.readouterr().out
    assert "sum" in shown
    assert not set("\x1b\x07\u202e") & set(shown)
