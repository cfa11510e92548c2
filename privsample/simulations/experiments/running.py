"""Running experiments, several at once where that is asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

from privsample.simulations.experiments import experiment
from privsample.simulations.experiments.base import Made


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An experiment that was run: its files, its sentence and how long it took."""

    name: str
    picture: Path
    numbers: Path
    sentence: str
    seconds: float


def reproduce(names: Sequence[str], folder: Path, *, n_jobs: int | None = None) -> Iterator[Done]:
    """Run experiments and write them, in the order of their names, each with its own seed: n_jobs changes no number.

    n_jobs: as for joblib, whose backends it goes through; only this process writes.
    Raises: ValueError, an unknown name; ImportError, without Matplotlib or a package of data, before anything is run;
    OSError, a file that cannot be written.
    """
    from joblib import Parallel, delayed

    _check_packages(names)
    for made, seconds in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_timed)(name) for name in names):
        try:
            picture, numbers, sentence = made.write(folder)
        except OSError as error:
            raise OSError(f"{made.name} could not be written to {folder}: {error.strerror or error}") from None
        yield Done(name=made.name, picture=picture, numbers=numbers, sentence=sentence, seconds=seconds)


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
