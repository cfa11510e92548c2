"""Releases of odd records in every container: no record may make a release fail, and no message may show one.

`python -m tests.mechanisms.odd_records 66000 [SEED]` prints what it finds. A refusal before anything is drawn is
allowed if it is a declared one, SchemaError, and the type or the shape of the container alone decides it.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import privsample as ps
from privsample.errors import SchemaError

MARK = "zq7secret"  # in texts, whose appearance in a message is a leak
NUMBERS = (
    0,
    1,
    2,
    0.5,
    -3.25,
    1e308,
    -1e308,
    5e-324,
    -0.0,
    2**70,
    -(2**70),
    10**400,
    True,
    np.float32(1.5),
    np.int8(-7),
)
STRANGE = (
    None, float("nan"), float("inf"), -float("inf"), MARK, MARK * 500, "", " ", "1", "1e5", "\ud800" + MARK, "é" + MARK,
    "\x00", b"zq7secret", b"", 1j, Decimal("0.1"), Decimal("NaN"), Fraction(1, 3), [MARK], (1, 2), {}, {MARK: 1},
    np.datetime64("NaT"), np.array([1.0]), np.array(MARK), object(), np.ma.masked, Ellipsis, range(3), type,
)  # fmt: skip


class Hostile:
    """A record whose every conversion fails with its content in the message."""

    def _fail(self, *_: Any) -> Any:
        raise ValueError(MARK)

    __float__ = __int__ = __index__ = __bool__ = __len__ = __str__ = __repr__ = __iter__ = _fail


CONTAINERS = ("list", "tuple", "object array", "array", "pandas", "polars", "arrow", "chunked", "duckdb")


def contained(kind: str, items: list[Any], connection: Any) -> Any:  # noqa: C901 - one case for each container
    """The records in a container; None if the container itself refuses them."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    try:
        match kind:
            case "list":
                return items
            case "tuple":
                return tuple(items)
            case "object array":
                array = np.empty(len(items), dtype=object)
                array[:] = items
                return array
            case "array":
                return np.array(items)
            case "pandas":
                return pd.Series(items)
            case "polars":
                plain = all(isinstance(item, (str, bytes, float, bool, type(None))) for item in items)
                return pl.Series(items, strict=False) if plain else None  # Polars panics at other objects
            case "arrow":
                return pa.array(items)
            case "chunked":
                return pa.chunked_array([pa.array(items[:1]), pa.array(items[1:])])
            case "duckdb":
                table = pa.table({"x": pa.array(items)})
                return connection.from_arrow(table)
    except Exception:  # noqa: BLE001 - the container is not the library
        return None
    raise ValueError(f"unknown container {kind!r}")


def mechanisms(n: int) -> dict[str, Any]:
    """Mechanisms of one column of records."""
    relation = ps.ReplaceOne(n=n)
    return {
        "beta": ps.DirectPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=n),
        "dirichlet": ps.DirectPosterior(model=ps.DirichletCategorical(alpha=(1.0, 2.0, 3.0)), n=n),
        "poisson": ps.DirectPosterior(model=ps.GammaPoisson(shape=1, rate=1, upper=4), n=n),
        "normal": ps.DirectPosterior(
            model=ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 1)), n=n
        ),
        "gaussian sum": ps.GaussianSum(bounds=(0, 1), noise_std=1, relation=relation),
        "laplace sum": ps.LaplaceSum(bounds=(-1, 2), scale=1),
        "statistics": ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=n, scale=1),
        "responses": ps.RandomizedResponse(log_odds=1, relation=relation),
        "tempered": ps.TemperedPosterior(model=ps.BetaBernoulli(alpha=1, beta=1), n=n, temperature=2, truncation=0.1),
        "groups": ps.by("g", ps.LaplaceSum(bounds=(0, 1), scale=1), keys=["a", "b"], unlisted="drop"),
        "units": ps.by(
            "g",
            ps.LaplaceSum(bounds=(0, 1), scale=1),
            keys=["a", "b"],
            unlisted="drop",
            contribution=ps.Contribution(groups=1, records=1, unit="unit"),
        ),
    }


@dataclass
class Found:
    """What a search found: releases, refusals by message, and failures."""

    released: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def text(self) -> str:
        return f"{self.released} released, {sum(self.refused.values())} refused, {len(self.failed)} failed"


def search(count: int, seed: int) -> Found:
    """Release `count` random tables of odd records."""
    import duckdb

    found, rng, connection = Found(), np.random.default_rng(seed), duckdb.connect()
    made: dict[int, dict[str, Any]] = {}
    for index in range(count):
        n = int(rng.choice([1, 2, 5]))
        made.setdefault(n, mechanisms(n))
        name = list(made[n])[index % len(made[n])]
        release_one(made[n][name], name, n, rng, connection, found)
    return found


def release_one(mechanism: Any, name: str, n: int, rng: Any, connection: Any, found: Found) -> None:
    """Release one random table, and note what happens."""
    columns, kinds, lists = [], [], []
    for column in range({"groups": 2, "units": 3}.get(name, 1)):
        kind, items = str(rng.choice(CONTAINERS)), odd_items(n, rng)
        if name in ("groups", "units") and rng.random() < 0.5 and column < 2:
            items = [("a", "b", "c")[int(rng.integers(3))] for _ in range(n)]
        data = contained(kind, items, connection)
        if data is None:
            kind, data = "list", items
        columns.append(data)
        kinds.append(kind)
        lists.append(items)
    try:
        mechanism.release(columns[0] if len(columns) == 1 else tuple(columns))
        found.released += 1
    except SchemaError as error:
        found.refused[f"{name}: {str(error)[:90]}"] += 1
        if MARK in str(error):
            found.failed.append(f"{name} {kinds}: a message shows a record")
        elif set(kinds) <= {"list", "tuple", "object array"}:
            found.failed.append(f"{name} {kinds}: refused plain objects: {str(error)[:120]}")
    except Exception as error:  # noqa: BLE001 - what the search is for
        message = str(error)
        leak = "shows a record, " if MARK in message else ""
        types = sorted({type(item).__name__ for items in lists for item in items})
        found.failed.append(f"{name} {kinds} of {types}: {leak}{type(error).__name__} {message[:120]}")


def odd_items(n: int, rng: Any) -> list[Any]:
    """Records of one kind or of many."""
    pool = (*NUMBERS, *STRANGE, Hostile())
    if rng.random() < 0.3:
        pool = NUMBERS
    elif rng.random() < 0.3:
        first = pool[int(rng.integers(len(pool)))]
        pool = (first,) if rng.random() < 0.5 else (first, None, 1)
    return [pool[int(rng.integers(len(pool)))] for _ in range(n)]


if __name__ == "__main__":
    result = search(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(result.text())
    for message, times in result.refused.most_common(40):
        print(f"{times:>7} {message}")
    for message, times in Counter(result.failed).most_common(40):
        print(f"{times:>7} {message}")
