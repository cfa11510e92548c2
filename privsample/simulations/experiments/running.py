"""Running experiments, several at once where that is asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    Raises: ValueError, an unknown name; OSError, a file that cannot be written; ImportError, without Matplotlib.
    """
    from joblib import Parallel, delayed

    for name in names:
        experiment(name)
    for made, seconds in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(_timed)(name) for name in names):
        try:
            picture, numbers, sentence = made.write(folder)
        except OSError as error:
            raise OSError(f"{made.name} could not be written to {folder}: {error.strerror or error}") from None
        yield Done(name=made.name, picture=picture, numbers=numbers, sentence=sentence, seconds=seconds)


def _timed(name: str) -> tuple[Made, float]:
    start = perf_counter()
    return experiment(name).make(), perf_counter() - start
