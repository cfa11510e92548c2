"""Low-bit audit of ten million draws from each dataset: Laplace noise of this library, of diffprivlib and of NumPy.

diffprivlib 0.6.6 runs in an environment of its own, created in build/ (its package index must be reachable the first
time), and writes its outputs to files. The time of an audit holds the draws, except those of diffprivlib, which are
timed alone.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import privsample as ps
from benchmarks.environments import DIFFPRIVLIB, interpreter
from benchmarks.measure import Row, seconds
from privsample.mechanisms.neighbours import Draw, Neighbours
from privsample.simulations.audit.verdict import Verdict

DRAWS = 10_000_000
SPARE = 20_000  # further outputs in the files, for the pilot draws of the audit
SCRIPT = """
import sys
import numpy as np
from diffprivlib.mechanisms import Laplace
value, count, path = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
draw = Laplace(epsilon=1.0, sensitivity=1.0).randomise
np.save(path, np.fromiter((draw(value) for _ in range(count)), dtype=np.float64, count=count))
"""


def rows() -> Iterator[Row]:
    """The verdicts and their times."""
    yield _row("ours", ps.LaplaceMechanism(sensitivity=1, scale=1), "CONSISTENT")
    ours = ps.LaplaceSum(bounds=(0, 1), scale=1, relation=ps.ReplaceOne(n=20))
    yield _row("ours, a sum of 20 records", ours, "CONSISTENT")
    with tempfile.TemporaryDirectory() as folder:
        paths = {value: Path(folder) / f"{value:g}.npy" for value in (0.0, 1.0)}
        python = interpreter(*DIFFPRIVLIB)
        drawing = seconds(
            lambda: [
                subprocess.run([python, "-c", SCRIPT, str(value), str(DRAWS + SPARE), path], check=True)
                for value, path in paths.items()
            ]
        )
        yield _row(f"diffprivlib 0.6.6 (draws: {drawing:.0f} s)", _drawn_by(_reader(paths)), "VIOLATED")
    numpy_noise = _drawn_by(lambda value, count, rng: value + rng.laplace(size=count))
    yield _row("NumPy's Laplace", numpy_noise, "VIOLATED")
    yield _row("ours with exact=False", ps.LaplaceMechanism(sensitivity=1, scale=1, exact=False), "VIOLATED")


def _row(name: str, mechanism: ps.Mechanism, target: str) -> Row:
    found: list[Verdict] = []
    time = seconds(lambda: found.append(ps.audit(mechanism, samples=DRAWS, view="bits", rng=np.random.default_rng(1))))
    (verdict,) = found
    shown = f"epsilon >= {verdict.empirical_epsilon:.3g}, {verdict.claimed_epsilon:.3g} claimed"
    return Row(name=name, library=f"{verdict.outcome}, {time:.1f} s", peer=shown, ratio=None, target=target)


def _drawn_by(draw: Draw) -> ps.Mechanism:
    """A mechanism that claims Laplace noise of scale 1, and whose outputs another sampler draws."""

    class Other(ps.LaplaceMechanism):
        __slots__ = ()

        def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
            known = super().worst_neighbours(group)[0]
            return (
                Neighbours(
                    account=known.account,
                    descriptions=known.descriptions,
                    datasets=(lambda: 0.0, lambda: 1.0),
                    draw=draw,
                ),
            )

    return Other(sensitivity=1, scale=1)


def _reader(paths: dict[float, Path]) -> Draw:
    """A function that hands out the outputs in the files, each once."""
    left = {value: np.load(path, mmap_mode="r") for value, path in paths.items()}

    def draw(value: float, count: int, rng: np.random.Generator) -> np.ndarray:
        taken, left[value] = left[value][:count], left[value][count:]
        return np.array(taken)

    return draw
