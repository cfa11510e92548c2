"""Experiments: a table of numbers, a sentence computed from it, and a figure."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from privsample.simulations.report.results import Made, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Name on the command line, title, computation, and size of the figure in inches.

    `package` is the package that contains the data, if no extra installs it. `second` is the computation on a second
    grid or with a second seed, for which the sentence must hold too. `seconds` is the processor time of one run alone,
    measured on one core of a shared server and rounded up to two digits; None if it was not measured.
    """

    name: str
    title: str
    run: Callable[[], Result]
    size: tuple[float, float] = (4.6, 3.6)
    package: str = ""
    second: Callable[[], Result] | None = None
    seconds: float | None = None

    @property
    def duration(self) -> str:
        """How long one run takes, in words."""
        if self.seconds is None:
            return "time not measured"
        if self.seconds < 90:
            return f"about {max(self.seconds, 1):.0f} s"
        return f"about {self.seconds / 60:.0f} min"

    def make(self, *, draft: bool = False) -> Made:
        """Run the experiment and plot it, or draft the plot. Raises: ImportError, without Matplotlib."""
        return self.run().make(self.name, self.size, draft=draft)

    def write(self, folder: Path) -> tuple[Path, Path, str]:
        """Run the experiment and write its files. Raises: OSError, ImportError."""
        return self.make().write(folder)
