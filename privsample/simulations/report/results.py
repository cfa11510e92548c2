"""Figures of computed numbers: a table, a sentence computed from it, and a plot, written as PNG and CSV."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from privsample.mechanisms.release import write_whole
from privsample.simulations.report.figures import styled
from privsample.simulations.report.findings import Columns, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Columns of equal length by name, the function that describes them, and the function that plots them.

    `describe` computes the sentence and its findings from the columns alone, also after they were written and read.
    `plot` draws on an empty Matplotlib figure.
    """

    columns: Columns
    describe: Callable[[Columns], Statement]
    plot: Callable[[Any], None]
    sentence: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", self.describe(self.columns).sentence)

    def make(self, name: str, size: tuple[float, float], *, draft: bool = False) -> "Made":
        """Plot the figure, of this size in inches, and encode it and the table. Raises: ImportError.

        draft: few pixels, and labels may overlap; takes half the time.
        """
        image, text = io.BytesIO(), io.StringIO()
        with styled(maths=True) as figure_class:
            figure = figure_class(figsize=size, layout="constrained")
            self.plot(figure)
            if draft:
                figure.set_layout_engine("none")
            figure.savefig(image, format="png", dpi=50 if draft else 200)
        image = _lighter(image)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return Made(name=name, image=image.getvalue(), numbers=text.getvalue().encode(), sentence=self.sentence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A result to write: the figure as PNG, the numbers as CSV, and the sentence."""

    name: str
    image: bytes
    numbers: bytes
    sentence: str

    def write(self, folder: Path) -> tuple[Path, Path, str]:
        """Write NAME.png and NAME.csv to the folder, created if missing, and return both paths and the sentence.

        Raises: OSError, if the folder cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        picture, numbers = folder / f"{self.name}.png", folder / f"{self.name}.csv"
        write_whole(picture, self.image)
        write_whole(numbers, self.numbers)
        return picture, numbers, self.sentence


def stacked(parts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Concatenate the parts to one table; the entries of each part are broadcast against each other."""
    table: dict[str, list[Any]] = {name: [] for name in parts[0]}
    for part in parts:
        for name, column in zip(part, np.broadcast_arrays(*part.values()), strict=True):
            table[name] += column.ravel().tolist()
    return table


def _lighter(image: io.BytesIO) -> io.BytesIO:
    """Return the PNG with at most 256 colours, which needs a third of the bytes."""
    from PIL import Image

    light = io.BytesIO()
    with Image.open(image) as full:
        full.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(light, format="PNG", optimize=True)
    return light
