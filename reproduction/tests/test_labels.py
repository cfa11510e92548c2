"""Direct labels of curves."""

import matplotlib.figure
import numpy as np
import pytest

from reproduction.labels import label_lines


def labelled(*curves, **settings):
    """Labels and their heights, from bottom to top, of curves (label, y) over x from 0 to 1."""
    axes = matplotlib.figure.Figure().subplots()
    for label, y in curves:
        axes.plot(np.linspace(0, 1, len(y)), y, label=label)
    axes.set(xlim=(0, 1), **settings)
    label_lines(axes, gap=0.1)
    return {text.get_text(): float(text.xy[1]) for text in sorted(axes.texts, key=lambda text: text.xy[1])}


def test_labels_stand_at_the_ends_of_their_curves():
    found = labelled(("a", [0.0, 2.0]), ("b", [0.0, 7.5]), ylim=(0, 10))
    assert found == pytest.approx({"a": 0.2, "b": 0.75})
    assert labelled(("c", [1.0, 10.0]), yscale="log", ylim=(1, 100)) == pytest.approx({"c": 0.5})


def test_labels_do_not_overlap_and_stay_beside_the_axes():
    found = labelled(("a", [9.9, 9.9]), ("b", [10.0, 10.0]), ("c", [0.0, 5.0]), ylim=(0, 10))
    assert list(found) == ["c", "a", "b"]
    assert found == pytest.approx({"c": 0.5, "a": 0.9, "b": 1.0})
    low = labelled(("a", [0.0, 0.0]), ("b", [0.0, 0.2]), ylim=(0, 10))
    assert low == pytest.approx({"a": 0.0, "b": 0.1})


def test_lines_without_a_label_have_none():
    assert labelled(("_hidden", [1.0, 2.0]), ylim=(0, 3)) == {}
