"""A mechanism of another package on the command line: it is found by its registration, and needs no line for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

import privsample as ps
from privsample import _registry
from privsample._data import chunks
from privsample._value import Memo, cached
from privsample.mechanisms import discovery
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.calibration import FreeParameter


@dataclass(frozen=True, kw_only=True)
class NoisyCount(Mechanism):
    """The number of records above a threshold, with Laplace noise. It is one number.

    `release` takes a threshold's records, one column.

    Parameters
    ----------
    scale : float
        The spread of the noise. Any unit.
    threshold : float
        What a record must exceed to be counted.
    side : {"above", "below"}
        Which records count.
    """

    scale: float
    threshold: float = 0.5
    side: Literal["above", "below"] = "above"
    free_parameters = (FreeParameter(name="scale", direction="smallest", advice="ask for more epsilon"),)

    @cached
    def accountant(self):
        return ps.LaplaceAccountant(sensitivity=1, scale=self.scale)

    def _statistic(self, data):
        return float(sum((chunk > self.threshold).sum() for chunk in chunks(data)))

    def _draw(self, statistic, rng):
        return {"count": statistic + rng.laplace(0, self.scale, 1)}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(_registry, "_BY_CLASS", dict(_registry._BY_CLASS))
    monkeypatch.setattr(_registry, "_BY_NAME", dict(_registry._BY_NAME))
    monkeypatch.setattr(discovery, "load_extensions", lambda: ("noisy-counts", "elsewhere"))  # as if installed
    ps.register(NoisyCount, package="noisy-counts")


def test_it_is_listed_with_its_options(run):
    assert issubclass(NoisyCount, Memo)
    assert "noisy-count" in run("mechanisms").out
    (found,) = run("mechanisms", "noisy-count", "--json").json["mechanisms"]
    assert found["summary"] == "The number of records above a threshold, with Laplace noise"
    assert [(one["option"], one["value"], one["help"]) for one in found["options"]] == [
        ("--scale", "X", "The spread of the noise"),
        ("--threshold", "X", "What a record must exceed to be counted"),
        ("--side", "above|below", "Which records count"),
    ]


def test_it_is_priced_and_calibrated(run):
    ran = run("account", "--mechanism", "noisy-count", "--epsilon", 1, "--delta", 0, "--threshold", -3, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["epsilon"][-1]["epsilon"] == pytest.approx(1, abs=1e-6)
    assert ran.json["mechanism"]["threshold"] == -3
    inside = ["account", "--mechanism", "repeated-selection", "--json", "--base", "noisy-count scale=2"]
    ran = run(*inside, "--repetitions", "poisson mean=2")
    assert ran.json["mechanism"]["base"]["scale"] == 2


def test_what_no_file_holds_is_told(run, write):
    words = ["--mechanism", "noisy-count", "--scale", 1, "--column", "x", "--out", "r.json"]
    ran = run("release", write("d.csv", [0, 1]), *words)
    assert ran.code == 2
    assert "cannot read its data from a file; its data are a threshold's records, one column" in ran.err
    assert "or declare the data format in its class" in ran.err
    assert not Path("r.json").exists()


def test_it_is_released_where_it_says_what_of_a_file_it_takes(run, write, monkeypatch):
    monkeypatch.setattr(NoisyCount, "command", CommandLine(name="count", data=("column",)), raising=False)
    words = ["--mechanism", "count", "--scale", 0.001, "--column", "x", "--out", "r.json"]
    ran = run("release", write("d.csv", [0, 1, 1]), *words)
    assert (ran.code, ran.err) == (0, "")
    assert ps.Release.load("r.json")["count"] == pytest.approx(2, abs=0.1)


def test_two_mechanisms_of_one_name_are_refused(run):
    other = type("GaussianMechanism", (NoisyCount,), {"__module__": "elsewhere"})
    ps.register(dataclass(frozen=True, kw_only=True)(other), package="elsewhere")
    ran = run("mechanisms")
    assert ran.code == 2
    assert "two mechanisms are called gaussian" in ran.err
