"""Former names of public classes and former fields in files, so that files of older versions can be read.

If a public class is renamed or its fields change, this module states how to read older files:

- `RENAMED[former name] = current name`;
- `UPGRADES[name in the file, version in the file] = function` from fields of that version to fields of the next.

The version that is written for a class is one more than the largest version with a step of its current or a former
name, and 1 without steps. Steps receive decoded fields: numbers, text, tuples and values.
Before a table is edited, add files of the current format to the tests: `python -m tests.data.make`.
"""

from collections.abc import Callable
from typing import Any

Step = Callable[[dict[str, Any]], dict[str, Any]]


def _fields(**present: str) -> Step:
    """An upgrade step that renames fields: `former=current`."""
    return lambda fields: {present.get(name, name): item for name, item in fields.items()}


RENAMED: dict[str, str] = {
    "Differences": "RecordSensitivity",
    "Hierarchy": "MultilevelRelease",
    "NoiseAfter": "PostNoise",
    "TruncatedRuns": "TruncatedRepetitions",
}
UPGRADES: dict[tuple[str, int], Step] = {
    ("ConditionalAccountant", 1): _fields(floor="event_probability", stops="geometric_stopping"),
    ("ConditionalSelection", 1): _fields(accept="threshold", floor="stop_probability"),
    ("Differences", 1): _fields(vectors="differences", attained="tight", length="l2"),
    ("NoisyScore", 1): _fields(law="distribution"),
    ("ProfileAccountant", 1): _fields(laws="distributions"),
    ("RepeatedSelection", 1): _fields(runs="repetitions"),
    ("SelectionAccountant", 1): _fields(runs="repetitions"),
    ("SelectionWithCount", 1): _fields(runs="repetitions"),
    ("TruncatedRuns", 1): _fields(law="distribution"),
}
