"""Figures: vector graphics that depend on their input alone."""

import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest

import privsample as ps
from privsample.distributions.parametric.conjugate import Beta
from privsample.simulations.audit.plots import plot_audit
from privsample.simulations.report import figures

PANEL = figures.Panel(
    axis="share of $_{ones",
    distributions=(("true posterior", Beta(a=2, b=3)), ("distribution of the draws", Beta(a=3, b=3))),
    draws=np.array([0.2, 0.4]),
    ends=(5.0, 30.0),
)
GAUSSIAN = ps.GaussianMechanism(sensitivity=1, noise_std=1)


def claimed() -> bytes:
    verdict = ps.audit(GAUSSIAN, epsilons=[0.0, 0.5], samples=1000, rng=np.random.default_rng(1))
    return plot_audit(GAUSSIAN.accountant, verdict)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.renyi_curves("diffused"),
        lambda: figures.renyi_curves("concentrated"),
        lambda: figures.privacy_curves([("one", GAUSSIAN.accountant), ("two", 2 * GAUSSIAN.accountant)], delta=1e-6),
        lambda: figures.densities([PANEL]),
        lambda: figures.densities([PANEL, PANEL]),
        claimed,
    ],
    ids=["5.1", "5.2", "privacy", "density", "densities", "audit"],
)
def test_same_input_same_bytes_whatever_the_users_style(draw):
    first = draw()
    ET.fromstring(first)
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "none"}):
        assert draw() == first
        assert mpl.rcParams["font.size"] == 30


def test_curves_without_a_finite_epsilon_are_left_out():
    nothing = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-3)
    ET.fromstring(figures.privacy_curves([("stated", nothing)], delta=1e-6))


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"privsample\[report\]"):
        figures.densities([PANEL])
