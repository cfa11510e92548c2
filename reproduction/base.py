"""Experiments: a table of numbers, a sentence computed from it, and a figure."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from privsample.simulations.report.results import Made, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Name on the command line, title, computation, and size of the figure in inches.

    `package` is the package that contains the data, if no extra installs it. `second` is the computation on a second
    grid or with a second seed, for which the sentence must hold too.
    """

    name: str
    title: str
    run: Callable[[], Result]
    size: tuple[float, float] = (4.6, 3.6)
    package: str = ""
    second: Callable[[], Result] | None = None

    def make(self, *, draft: bool = False) -> Made:
        """Run the experiment and plot it, or draft the plot. Raises: ImportError, without Matplotlib."""
        return self.run().make(self.name, self.size, draft=draft)

    def write(self, folder: Path) -> tuple[Path, Path, str]:
        """Run the experiment and write its files. Raises: OSError, ImportError."""
        return self.make().write(folder)
