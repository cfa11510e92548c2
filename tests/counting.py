"""The cost of a piece of code, counted and not timed: a count is the same on every machine, however busy it is."""

import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import privsample

PACKAGE = str(Path(privsample.__file__).parent)


@dataclass
class Cost:
    """What the code took, once it has ended."""

    calls: Counter[str] = field(default_factory=Counter)  # of functions, by their names
    numbers: int = 0  # floats of 64 bits that fit into the most memory held at once


@contextmanager
def counted(*, folder: str = "") -> Iterator[Cost]:
    """Count the calls of functions, in Python and in C, and the memory that the body of `with` takes.

    With `folder` only functions are counted whose Python source is below it: `PACKAGE` is the folder of privsample.
    Run the body once before if it may import modules, or the calls that an import makes are counted too.
    """
    cost = Cost()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            cost.calls[frame.f_code.co_name] += 1
        elif event == "c_call" and not folder:
            cost.calls[argument.__name__] += 1

    before = sys.getprofile()
    tracemalloc.start()
    sys.setprofile(profile)
    try:
        yield cost
    finally:
        sys.setprofile(before)
        cost.numbers = tracemalloc.get_traced_memory()[1] // 8
        tracemalloc.stop()
