"""Targets of any kind: what one record holds changes how no other is read."""

import numpy as np
import pytest

import privsample as ps
from privsample.errors import SchemaError
from privsample.estimators.targets import labels_equal, target_list

ROWS = np.linspace(-1, 1, 80).reshape(40, 2)
PLAIN = [0, 1] * 20


@pytest.mark.parametrize(
    "odd", ["a", "1", b"x", None, [0, 1], (), {1: 2}, 2**70, 1j, object()], ids=lambda odd: type(odd).__name__
)
@pytest.mark.parametrize(
    "made",
    [
        ps.PrivateLogisticRegression(bounds=(-1, 1), handle_invalid="replace"),
        ps.PrivateSGDClassifier(bounds=(-1, 1), handle_invalid="replace"),
        ps.PrivateSGDRegressor(bounds=(-1, 1), target_bounds=(-1, 1), handle_invalid="replace"),
    ],
    ids=lambda made: type(made).__name__,
)
def test_one_target_of_a_list_leaves_the_others(made, odd):
    """In an array of all one text makes texts of all, and one replaced record would have changed every label."""
    targets, held = [*PLAIN[:-1], odd], np.array(PLAIN, dtype=object)
    held[-1] = odd
    one, other = (made.fit(ROWS, y, rng=np.random.default_rng(3)).coef_.copy() for y in (targets, held))
    assert np.array_equal(one, other)


def test_columns():
    assert target_list([0, "a", [2], (3,), np.array([4]), [5, 6], []]) == [0, "a", 2, 3, 4, [5, 6], []]
    assert target_list((0, 1.5)) == [0, 1.5]
    assert target_list(np.array(["no", "yes"])) == ["no", "yes"]
    for wrong in (np.zeros((2, 2)), "text", 5, None):
        with pytest.raises(SchemaError, match="y should be a 1d array, got shape"):
            target_list(wrong)


class Odd:
    def __eq__(self, other):
        raise RuntimeError("secret")

    __hash__ = None


def test_equality_is_total():
    assert labels_equal(1, 1.0)
    assert not labels_equal(Odd(), 1)
    assert not labels_equal(np.ones(2), 1)


@pytest.mark.parametrize(
    "as_data", [list, np.array, lambda y: np.array(y, dtype=object)], ids=["list", "array", "object"]
)
@pytest.mark.parametrize("classes", [(0, 1), (1, 0), ("a", "b"), (False, True)])
def test_positions_of_labels_are_the_same_for_every_container(as_data, classes):
    labels = [0, 1, 1, 7, 0.5, True]
    found = ps.PrivateSGDClassifier(classes=classes)._positions(as_data(labels))
    assert found.tolist() == [classes.index(at) if at in classes else -1 for at in labels]
