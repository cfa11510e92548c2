"""A delta of at least 1/n is warned of where n is public: by `calibrate`, in statements and reports."""

import warnings

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.statement import large_delta
from privsample.errors import LargeDeltaWarning

MODEL = ps.BetaBernoulli(1, 1)


class OneRecordInClear:
    """The mechanism of the thesis: it publishes one random record of n."""

    def __init__(self, n):
        self.n = n

    def divergence(self, epsilon):
        """The hockey-stick divergence of two neighbours that differ in their first record, by enumeration."""
        p, q = np.zeros(3), np.zeros(3)
        for position in range(self.n):
            p[0 if position == 0 else 2] += 1 / self.n
            q[1 if position == 0 else 2] += 1 / self.n
        return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("n", [3, 10, 1_000])
def test_one_record_in_clear_satisfies_what_is_warned_of(n):
    for epsilon in (0.0, 0.1, 5.0):
        assert OneRecordInClear(n).divergence(epsilon) == pytest.approx(1 / n)
    assert large_delta(ps.ReplaceOne(n), 1 / n)
    assert not large_delta(ps.ReplaceOne(n), np.nextafter(1 / n, 0.0))


@pytest.mark.parametrize("digits", range(1, 12))
def test_a_decimal_delta_of_exactly_one_in_n_is_recognized(digits):
    assert large_delta(ps.ReplaceOne(10**digits), float(f"1e-{digits}"))


def test_calibrate_warns_once_and_meets_the_target():
    target = ps.DP(epsilon=1, delta=0.01)
    with pytest.warns(LargeDeltaWarning, match=r"delta = 0\.01 is at least 1/n for n = 100, and publishing") as found:
        made = ps.DiffusedPosterior.calibrate(model=MODEL, n=100, target=target)
    assert len(found) == 1
    assert found[0].filename == __file__  # the line of the caller, not of the library
    assert target.met_by(made.accountant)
    with pytest.warns(LargeDeltaWarning, match="one random patient in clear"):
        ps.DiffusedPosterior.calibrate(model=MODEL, n=100, unit="patient", target=target)


def test_a_new_ledger_warns_and_an_opened_one_does_not(tmp_path):
    given = {"budget": ps.DP(1, 0.01), "relation": ps.ReplaceOne(100), "dataset": "d"}
    with pytest.warns(LargeDeltaWarning, match="is at least 1/n for n = 100") as found:
        ps.Ledger(tmp_path / "a", **given)
    assert [one.filename for one in found] == [__file__]
    assert ps.Ledger(tmp_path / "a").budget == given["budget"]
    ps.Ledger(tmp_path / "b", **(given | {"relation": ps.ReplaceOne(99)}))
    ps.Ledger(tmp_path / "c", **(given | {"relation": ps.AddRemove()}))


@pytest.mark.parametrize(
    ("cls", "fields", "target"),
    [
        (ps.DiffusedPosterior, {"model": MODEL, "n": 99}, ps.DP(1, 0.01)),
        (ps.RandomizedResponse, {"relation": ps.ReplaceOne(99)}, ps.DP(1)),
        (ps.DiffusedPosterior, {"model": MODEL, "n": 99}, ps.RDP(2, 0.1)),
        (ps.GaussianMechanism, {"sensitivity": 1}, ps.DP(1, 0.5)),  # AddRemove: n is not public
    ],
)
def test_no_warning(cls, fields, target):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cls.calibrate(target=target, **fields)


def test_statements_and_reports_say_it(tmp_path):
    release = ps.DiffusedPosterior(model=MODEL, n=4, data_weight=0.5).release([0, 1, 1, 0])
    words = "Warning: delta = 0.25 is at least 1/n for n = 4"
    assert words in release.statement(0.25)
    assert "Warning" not in release.statement(0.2)
    assert "Warning" not in release.statement()
    removed = ps.GaussianAccountant(sensitivity=1, noise_std=2)
    assert "Warning" not in ps.privacy_statement(removed, 0.9)
    assert words in ps.privacy_statement(removed.to(ps.ReplaceOne(4)), 0.25)
    endless = ps.privacy_statement(
        ps.ApproximateAccountant(stated_epsilon=1, stated_delta=0.5, relation=ps.ReplaceOne(4)), 0.3
    )
    assert endless.startswith("At delta = 0.3 there is no guarantee")


def test_the_report_of_a_release_says_it(tmp_path):
    pytest.importorskip("matplotlib")
    from html import unescape

    from privsample.simulations.report.page import render

    release = ps.DiffusedPosterior(model=MODEL, n=4, data_weight=0.5).release([0, 1, 1, 0])
    assert "is at least 1/n for n = 4" in unescape(render([release], delta=0.25))
    assert "is at least 1/n" not in unescape(render([release], delta=0.01))
