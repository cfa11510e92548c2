"""Values compute their cached properties once, and nothing but the object itself holds what was computed."""

import copy
import pickle
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest

from privsample._value import Memo, cached, frozen_value, set_fields

COMPUTED: list[str] = []


class Base(Memo):
    __slots__ = ()

    @cached
    def name(self) -> str:
        """The base's word."""
        return "base"


@frozen_value
class Point(Base):
    x: float
    y: float = 0.0

    @cached
    def total(self) -> float:
        """The sum."""
        COMPUTED.append("total")
        return self.x + self.y

    @cached
    def name(self) -> str:
        return f"{Base.name.__get__(self)} of {self.total}"

    @cached
    def array(self) -> np.ndarray:
        if self.x < 0:
            raise ValueError("x must be >= 0")
        return np.array([self.x, self.y])


def test_a_cached_property_is_computed_once_per_object() -> None:
    COMPUTED.clear()
    point = Point(x=1.0, y=2.0)
    assert (point.total, point.total, point.name) == (3.0, 3.0, "base of 3.0")
    assert COMPUTED == ["total"]
    assert point.array is point.array
    assert Point(x=1.0, y=2.0).total == 3.0
    assert COMPUTED == ["total", "total"]


def test_the_memo_is_neither_compared_nor_copied_nor_pickled() -> None:
    point = Point(x=1.0)
    assert point.array is not None
    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point)), replace(point)):
        assert other == point
        assert hash(other) == hash(point)
        assert other.array is not point.array
    assert replace(point, x=5.0).total == 5.0
    assert hash(replace(point, x=5.0)) != hash(point)


def test_the_memo_is_forgotten_where_a_field_changes() -> None:
    @frozen_value
    class Normalized(Base):
        x: float

        def __post_init__(self) -> None:
            assert self.double == 2 * self.x
            set_fields(self, x=float(self.x))

        @cached
        def double(self) -> float:
            return 2 * self.x

    assert isinstance(Normalized(x=3).double, float)


@dataclass(frozen=True)
class Plain(Base):
    """A dataclass that `value` did not make."""

    x: float

    @cached
    def array(self) -> np.ndarray:
        return np.array([self.x])


def test_the_memo_of_a_plain_dataclass_is_not_copied_either() -> None:
    plain = Plain(2.0)
    assert plain.array is plain.array
    for other in (copy.copy(plain), copy.deepcopy(plain), pickle.loads(pickle.dumps(plain)), replace(plain)):
        assert other == plain
        assert not hasattr(other, "_memo")


def test_exceptions_are_not_kept_and_cached_names_are_read_only() -> None:
    point = Point(x=-1.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="x must be"):
            _ = point.array
    with pytest.raises((AttributeError, TypeError)):
        point.total = 4.0  # type: ignore[misc]
    assert Point.total.__doc__ == "The sum."


def test_threads_get_the_same_object() -> None:
    for _ in range(50):
        point, found, gate = Point(x=1.0), [], threading.Barrier(4)

        def read(point: Point = point, found: list[object] = found, gate: threading.Barrier = gate) -> None:
            gate.wait()
            found.append(point.array)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(array) for array in found}) == 1
