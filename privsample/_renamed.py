"""What older versions of privsample wrote into files: former names of its public classes, and former fields.

A public class may be renamed, and its fields may change, if this file says how to read what was written before:

- `RENAMED[former name] = present name`;
- `UPGRADES[name in the file, version in the file] = function`: fields of that version to fields of the next one.

The version that is written for a class is one more than the largest version with a step of its present or a former
name, and 1 without steps. Steps see fields that are read already: numbers, text, tuples and values.
Before either table is edited, the files of the present format are added to the tests: `python -m tests.data.make`.
"""

from collections.abc import Callable
from typing import Any

Step = Callable[[dict[str, Any]], dict[str, Any]]


def _fields(**present: str) -> Step:
    """A step that renames fields: `former=present`."""
    return lambda fields: {present.get(name, name): item for name, item in fields.items()}


RENAMED: dict[str, str] = {
    "Differences": "RecordSensitivity",
    "Hierarchy": "MultilevelRelease",
    "NoiseAfter": "PostNoise",
    "TruncatedRuns": "TruncatedRepetitions",
}
UPGRADES: dict[tuple[str, int], Step] = {
    ("Differences", 1): _fields(vectors="differences", attained="tight", length="l2"),
    ("NoisyScore", 1): _fields(law="distribution"),
    ("ProfileAccountant", 1): _fields(laws="distributions"),
    ("TruncatedRuns", 1): _fields(law="distribution"),
}
