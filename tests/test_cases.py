"""A test of many cases fails if one of them does, and names it."""

import pytest

from tests.cases import in_one_test

SEEN = []


@in_one_test([(1, 2), (3, 2), (5, 1)])
def ordered(low: int, high: int) -> None:
    SEEN.append((low, high))
    assert low < high


def test_each_case_that_fails_is_named() -> None:
    with pytest.raises(ExceptionGroup, match="2 of 3 cases fail") as failed:
        ordered()
    assert SEEN == [(1, 2), (3, 2), (5, 1)]
    assert [error.__notes__[-1] for error in failed.value.exceptions] == [
        "The case is (3, 2).",
        "The case is (5, 1).",
    ]


@in_one_test("ab")
def test_single_arguments(letter: str) -> None:
    assert letter in ("a", "b")
