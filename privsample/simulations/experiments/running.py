"""Running experiments, several at once where that is asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from privsample.simulations.experiments import experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An experiment that was run: its files, its sentence and how long it took."""

    name: str
    picture: Path
    numbers: Path
    sentence: str
    seconds: float


def reproduce(names: Sequence[str], folder: Path, *, n_jobs: int | None = None) -> Iterator[Done]:
    """Run experiments in the order of their names, each with its own seed: n_jobs changes no number.

    n_jobs: as for joblib, whose backends it goes through.
    Raises: ValueError, an unknown name; OSError, a file that cannot be written; ImportError, without Matplotlib.
    """
    from joblib import Parallel, delayed

    for name in names:
        experiment(name)
    found: Iterator[Done] = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_run)(name, folder) for name in names
    )
    return found


def _run(name: str, folder: Path) -> Done:
    start = perf_counter()
    try:
        picture, numbers, sentence = experiment(name).write(folder)
    except OSError as error:
        raise OSError(f"{name} could not be written to {folder}: {error.strerror or error}") from None
    return Done(name=name, picture=picture, numbers=numbers, sentence=sentence, seconds=perf_counter() - start)
