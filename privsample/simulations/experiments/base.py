"""What an experiment is: a table of numbers, one sentence on what they show, and a picture of them."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privsample.simulations.figures import styled


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Columns of equal length, by name; one sentence; and what paints them on an empty Matplotlib figure."""

    columns: Mapping[str, Sequence[Any]]
    sentence: str
    paint: Callable[[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A name for the command line, a title, the size of its picture in inches, and the work."""

    name: str
    title: str
    run: Callable[[], Result]
    size: tuple[float, float] = (4.6, 3.6)

    def write(self, folder: Path) -> tuple[Path, Path, str]:
        """Run it; write NAME.png and NAME.csv into the folder, made where it is missing. Returns the sentence too.

        Raises: OSError, where the folder cannot be written.
        """
        result = self.run()
        folder.mkdir(parents=True, exist_ok=True)
        picture, numbers = folder / f"{self.name}.png", folder / f"{self.name}.csv"
        with styled(maths=True) as figure_class:
            figure = figure_class(figsize=self.size, layout="constrained")
            result.paint(figure)
            figure.savefig(picture, dpi=200)
        with numbers.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(result.columns)
            writer.writerows(zip(*result.columns.values(), strict=True))
        return picture, numbers, result.sentence
