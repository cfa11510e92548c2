"""Names in releases of private Gibbs samplers and of selections: coordinates, summaries, plots, and one line."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import privsample as ps
from privsample.interop.arviz import summary
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.intervals import ProductNames
from tests.mechanisms.examples import each_mechanism

TABLE = pd.DataFrame({"smoke": np.arange(60) % 2, "lung": np.arange(60) % 3})
NETWORK = ps.PrivateGibbsNetwork(categories=(2, 3), edges=((0, 1),), n=60, scale=2.0, sweeps=40)
CHAIN = {"states": 2, "categories": (2, 3), "scale": 2.0, "sweeps": 40}
GIVEN = (
    "smoke=0", "smoke=1", "lung=0 | smoke=0", "lung=1 | smoke=0", "lung=2 | smoke=0", "lung=0 | smoke=1",
    "lung=1 | smoke=1", "lung=2 | smoke=1",
)  # fmt: skip


def test_a_network_names_its_conditional_probabilities():
    release = NETWORK.release(TABLE)
    assert release.coords == {"probability": GIVEN}
    assert ps.Release.from_json(release.to_json()) == release
    assert list(summary(release.to_arviz()).index) == [f"probabilities[{name}]" for name in GIVEN]
    labels = [tick.get_text() for tick in release.plot().get_yticklabels()]
    plt.close("all")
    assert labels == [f"probabilities[{name}]" for name in GIVEN]
    draws = release.to_arviz().posterior["probabilities"]
    third = draws.sel(probability="lung=2 | smoke=1").to_numpy().ravel()
    assert np.array_equal(third, NETWORK.conditional(release, 1)[:, 1, 2])


def test_columns_without_names_are_numbered():
    assert NETWORK.release(TABLE.to_numpy()).coords["probability"][-1] == "x1=2 | x0=1"
    network = ps.PrivateGibbsNetwork(categories=(2, 2, 2), edges=((0, 1),), n=4, scale=2.0, sweeps=2)
    confusing = pd.DataFrame(np.zeros((4, 3)), columns=["b", "a", "a=0 | b"])
    assert network.release(confusing).coords["probability"][:2] == ("x0=0", "x0=1")


@pytest.mark.parametrize("tied", [True, False])
def test_a_hidden_chain_names_states_and_categories(tied):
    made = ps.PrivateGibbsHMM(**CHAIN, entries=(30, 30), chains=2, tied=tied)
    release = made.release(TABLE)
    assert release.coords["cell"] == ("smoke=0", "smoke=1", "lung=0", "lung=1", "lung=2")
    posterior = release.to_arviz().posterior
    own = () if tied else ("sequence",)
    assert posterior["emissions"].dims == ("chain", "draw", *own, "state", "cell")
    assert posterior["transitions"].dims == ("chain", "draw", *own, "state", "next_state")
    head = "" if tied else "1, "
    labels = [tick.get_text() for tick in release.plot().get_yticklabels()]
    plt.close("all")
    assert f"emissions[{head}state 1, lung=2]" in labels
    assert f"transitions[{head}state 1, state 0]" in labels
    assert ps.Release.from_json(release.to_json()) == release


def test_product_names():
    names = ProductNames([("a", "b"), ("x", "y", "z")])
    assert list(names) == ["a, x", "a, y", "a, z", "b, x", "b, y", "b, z"]
    assert (names[-1], names[1:3], len(names)) == ("b, z", ["a, y", "a, z"], 6)
    with pytest.raises(IndexError):
        names[6]


def test_one_line_of_a_selection_names_the_candidate():
    made = ps.PermuteAndFlip(candidates=("red", "green"), rate=50, utility=ps.CountUtility())
    assert "selected = green;" in repr(made.release(["green"] * 9))
    named = ps.RandomizedResponse(log_odds=30, relation=ps.ReplaceOne(n=2), names=("no", "yes"))
    assert "answers = yes, no;" in repr(named.release(["yes", "no"]))
    plain = ps.RandomizedResponse(log_odds=30, relation=ps.ReplaceOne(n=2))
    assert "answers = 1, 0;" in repr(plain.release([1, 0]))


@each_mechanism
def test_every_mechanism_labels_what_it_releases(mechanism):
    """The default label, "statistic", says nothing about what an axis shows."""
    assert type(mechanism).quantity is not Mechanism.quantity
    assert mechanism.quantity != Mechanism.quantity.fget(mechanism)
    assert len(mechanism.quantity) <= 45


def test_the_axis_of_randomized_response_says_what_it_shows():
    axes = ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=9)).release(np.arange(9) % 2).plot()
    assert axes.get_xlabel() == "answer"
    plt.close("all")
