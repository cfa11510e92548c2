"""Graphs of profiles: what is accepted, what is refused and how the refusal names the fault."""

import numpy as np
import pytest

from privsample import ProfileEdge, ProfileGraph
from privsample._serial import decode, encode

ABC = {"a": [0.5, 0.5], "b": [0.25, 0.75], "c": [1.0, 0.0]}


def test_distributions_and_edges_are_held_in_order():
    graph = ProfileGraph(profiles=ABC, edges=[("c", "a"), ("a", "c"), ("b", "a")])
    assert graph.names == ("a", "b", "c")
    assert graph.edges == (("a", "b"), ("a", "c"))
    assert graph.ends.tolist() == [[0, 1], [0, 2]]
    assert len(graph) == 3
    assert graph.symbols == 2
    assert repr(graph) == "ProfileGraph(3 profiles of 2 symbols, 2 edges)"
    assert not graph.distributions.flags.writeable


def test_graphs_compare_and_go_to_plain_data_and_back():
    graph = ProfileGraph(profiles=ABC, edges=[("a", "b")])
    assert graph == ProfileGraph(profiles=ABC, edges=[("b", "a")])
    assert hash(graph) == hash(ProfileGraph(profiles=ABC, edges=[("b", "a")]))
    assert graph != ProfileGraph(profiles=ABC)
    third = ProfileGraph(profiles=np.array([[1, 1, 1], [1, 2, 3]]) / [[3], [6]], edges=[(0, 1)])
    for made in (graph, third):
        assert decode(encode(made)) == made
        assert decode(encode(ProfileEdge(graph=made))) == ProfileEdge(graph=made)


def test_a_number_is_a_bernoulli_distribution():
    assert ProfileGraph(profiles=[0.25, 1.0]).distributions.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert ProfileGraph(profiles={"x": 0.25}).distributions.tolist() == [[0.75, 0.25]]
    assert ProfileGraph(profiles=np.eye(3)).names == (0, 1, 2)


class Networkx:
    """What networkx shows of a graph: edges, callable or to be looped over, perhaps with data."""

    def __init__(self, edges):
        self.edges = edges


@pytest.mark.parametrize(
    "edges",
    [
        [("a", "b"), ("b", "c")],
        Networkx([("a", "b"), ("b", "c")]),
        Networkx(lambda: [("a", "b", {"weight": 2}), ("b", "c", 0)]),
        {"one": ["a", "b"], "two": ["b", "c"]},
        np.array([["a", "b"], ["b", "c"]]),
    ],
    ids=["pairs", "graph", "callable", "groups", "array"],
)
def test_edges_of_any_kind(edges):
    assert ProfileGraph(profiles=ABC, edges=edges).edges == (("a", "b"), ("b", "c"))


def test_real_networkx_graphs():
    networkx = pytest.importorskip("networkx")
    graph = networkx.path_graph(3)
    assert ProfileGraph(profiles=[0.1, 0.2, 0.3], edges=graph).edges == ((0, 1), (1, 2))
    assert ProfileGraph(profiles=[0.1, 0.2, 0.3], edges=networkx.MultiGraph(graph)).edges == ((0, 1), (1, 2))


def test_groups_join_all_members():
    graph = ProfileGraph(profiles=np.full((5, 2), 0.5), edges={"low": [0, 1, 2], "high": [3, 4]})
    assert graph.edges == ((0, 1), (0, 2), (1, 2), (3, 4))
    assert graph.components.tolist() == [0, 0, 0, 1, 1]


def test_within_walks_along_edges():
    chain = ProfileGraph(profiles=np.full((4, 2), 0.5), edges=[(0, 1), (1, 2), (2, 3)])
    assert chain.within(1) == chain
    assert chain.within(2).edges == ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))
    assert len(chain.within(100).edges) == 6


def test_estimates_from_public_data():
    graph = ProfileGraph.from_public_data(["x", "y", "x", "x"], [0, 2, 1, 0], symbols=3, edges=[("x", "y")])
    assert graph.names == ("x", "y")
    np.testing.assert_allclose(graph.distributions, [[3 / 6, 2 / 6, 1 / 6], [1 / 4, 1 / 4, 2 / 4]])
    bare = ProfileGraph.from_public_data(np.array([3, 5, 3]), np.array([0, 1, 1]), symbols=2, smoothing=0)
    np.testing.assert_allclose(bare.distributions, [[0.5, 0.5], [0, 1]])
    assert bare.names == (3, 5)
    for observed, words in (([0, 3], "0, ..., 2"), ([0, -1], "0, ..., 2"), ([0.5, 1], "whole"), ([0], "one for each")):
        with pytest.raises(ValueError, match=words):
            ProfileGraph.from_public_data(["x", "y"], observed, symbols=3)


@pytest.mark.parametrize(
    ("profiles", "words"),
    [
        ({"a": [0.5, 0.48]}, r"profile 'a' must add up to 1, it adds up to 0\.98: 0\.02 too little"),
        ({"a": [0.5, 0.5], "b": [0.6, 0.6]}, r"profile 'b' must add up to 1, it adds up to 1\.2: 0\.2 too much"),
        ({"a": [1.5, -0.5]}, r"profile 'a' must hold probabilities; at symbol 0 it holds 1\.5"),
        ({"a": [0.7, -0.2, 0.5]}, r"profile 'a' must hold probabilities; at symbol 1 it holds -0\.2"),
        ({"a": [np.nan, 1.0]}, "profile 'a' must hold probabilities; at symbol 0 it holds nan"),
        ({"a": [0.5, 0.5], "b": [0.2, 0.3, 0.5]}, "profile 'b' must have 2 symbols like 'a', got 3"),
        ({"a": 1.5}, r"profile 'a' must be a probability in \[0, 1\], got 1.5"),
        ({"a": np.nan}, "profile 'a' must be a probability"),
        ({"a": [1.0]}, "profile 'a' must hold at least two numbers"),
        ({"a": [[0.5, 0.5]]}, "profile 'a' must hold at least two numbers"),
        ({"a": [1.0, 1e-200]}, "profile 'a' holds 1e-200 at symbol 1: write 0"),
        ({}, "at least one distribution"),
        (np.zeros((2, 2, 2)), "shape"),
        ((("a", (0.5, 0.5)), ("a", (0.5, 0.5))), "different names"),
    ],
)
def test_bad_profiles_are_named(profiles, words):
    with pytest.raises(ValueError, match=words):
        ProfileGraph(profiles=profiles)


@pytest.mark.parametrize(
    ("profiles", "words"),
    [
        ({"a": "half"}, "profile 'a' must be a distribution"),
        ({True: [0.5, 0.5]}, "name must be a string or an integer, got bool"),
        ({(1, 2): [0.5, 0.5]}, "name must be a string or an integer, got tuple"),
        ("ab", "must map names to distributions"),
    ],
)
def test_profiles_of_the_wrong_type(profiles, words):
    with pytest.raises(TypeError, match=words):
        ProfileGraph(profiles=profiles)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([("a", "z")], r"edge \('a', 'z'\) names 'z', which is no profile"),
        ([("a", "a")], r"edge \('a', 'a'\) joins a profile to itself"),
        (["a"], "an edge must be a pair of profile names, got 'a'"),
        ([("a",)], "an edge must be a pair"),
        ([("a", "b", "c")], "an edge must be a pair .* give groups"),
        (["ab"], "an edge must be a pair of profile names, got 'ab'"),
        ([5], "an edge must be a pair"),
        ([("a", None)], "an edge must be a pair"),
        ({"role": ["a", "q"]}, r"edge \('a', 'q'\) names 'q'"),
    ],
)
def test_bad_edges_are_named(edges, words):
    with pytest.raises(ValueError, match=words):
        ProfileGraph(profiles=ABC, edges=edges)


def test_edges_of_the_wrong_type():
    with pytest.raises(TypeError, match="edges must be pairs"):
        ProfileGraph(profiles=ABC, edges=5)


def test_rounded_sums_are_taken_in_proportion():
    graph = ProfileGraph(profiles={"a": [1 / 3, 1 / 3, 1 / 3 + 5e-10]})
    assert graph.distributions.sum() == pytest.approx(1.0, abs=1e-15)
    assert graph.profiles[0][1][2] == 1 / 3 + 5e-10
