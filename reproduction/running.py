"""Running experiments, optionally in parallel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from privsample._optional import require
from privsample.simulations.report.results import Made
from reproduction import experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedExperiment:
    """Completed experiment: its files, its sentence and its run time in seconds."""

    name: str
    picture: Path
    numbers: Path
    sentence: str
    seconds: float


def reproduce(names: Sequence[str], folder: Path, *, n_jobs: int | None = None) -> Iterator[CompletedExperiment]:
    """Run experiments in the order of their names and write their files.

    Each experiment has its own seed, so that results do not depend on `n_jobs`, the number of workers of joblib. Only
    this process writes. Raises: ValueError, for an unknown name; ImportError, before any run, if Matplotlib or a
    package of data is missing; OSError, for a file that cannot be written.
    """
    require("joblib", "audit", "reproducing figures")
    from joblib import Parallel, delayed

    _check_packages(names)
    for made, seconds in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_timed)(name) for name in names):
        try:
            picture, numbers, sentence = made.write(folder)
        except OSError as error:
            raise OSError(f"{made.name} could not be written to {folder}: {error.strerror or error}") from None
        yield CompletedExperiment(name=made.name, picture=picture, numbers=numbers, sentence=sentence, seconds=seconds)


def _check_packages(names: Sequence[str]) -> None:
    lacking = {name: package for name in names if (package := experiment(name).package) and find_spec(package) is None}
    if lacking:
        packages = " ".join(dict.fromkeys(lacking.values()))
        raise ImportError(
            f"{', '.join(lacking)}: the data are in {packages}, which is not installed: pip install {packages}"
        )


def _timed(name: str) -> tuple[Made, float]:
    start = perf_counter()
    return experiment(name).make(), perf_counter() - start
