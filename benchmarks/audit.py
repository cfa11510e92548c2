"""Power of the audit at level 1e-6, its false-alarm rate at level 0.01, and its run time.

Google's dp_auditorium is sought in an environment of its own, made in build/; the last row says what became of it. It
was on no package index when this was written, so its testers are not run.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import privsample as ps
from benchmarks.measure import Row, paired, seconds
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit.datasets import pairs_of
from privsample.simulations.audit.draws import draw_outputs
from privsample.simulations.audit.verdict import Verdict

FOLDER = Path("build/dp-auditorium")
PINS = ("dp-auditorium",)
RUNS, TRUE_RUNS = 20, 1_000
DRAWS = 40_000
LAPLACE = ps.LaplaceMechanism(sensitivity=1, scale=1)
GAUSSIAN = ps.GaussianMechanism(sensitivity=1, noise_std=1)


def rows() -> Iterator[Row]:
    """Results of the audit, then of the peer."""
    scale, std = 1 / 1.05, 1 / 1.05
    yield _power("Laplace 5 % too small, known density, 1e5", LAPLACE, _known(LAPLACE, "scale", scale, 100_000))
    yield _power("Gaussian 5 % too small, known density, 1e5", GAUSSIAN, _known(GAUSSIAN, "noise_std", std, 100_000))
    yield _power("Laplace 10 % too small, black box, 1e5", LAPLACE, _black_box("laplace", 1 / 1.1, 100_000))
    yield _power("Gaussian 10 % too small, black box, 1e5", GAUSSIAN, _black_box("normal", 1 / 1.1, 100_000))
    yield _power("Laplace halved, black box, 2,000", LAPLACE, _black_box("laplace", 0.5, 2_000))
    yield _power("Laplace halved, known density, 2,000", LAPLACE, _known(LAPLACE, "scale", 0.5, 2_000))
    yield _size("known density", LAPLACE, lambda rng: ps.audit(LAPLACE, samples=500, level=0.01, rng=rng))
    yield _size("known density", GAUSSIAN, lambda rng: ps.audit(GAUSSIAN, samples=500, level=0.01, rng=rng))
    yield from _datasets()
    yield _peer()


def _datasets() -> Iterator[Row]:
    """Time of one draw on the caller's datasets, and on the worst neighbours that a mechanism registers."""
    beta = ps.BetaBernoulli(alpha=2, beta=3)
    ones = np.append(np.zeros(99), 1.0)
    cases: tuple[tuple[str, ps.Mechanism, Any, Any], ...] = (
        ("posterior of 100", ps.DiffusedPosterior(model=beta, n=100, data_weight=0.5), np.zeros(100), ones),
        (
            "noisy statistics of 100",
            ps.NoisyStatistics(model=beta, n=100, noise="laplace", scale=1),
            np.zeros(100),
            ones,
        ),
        ("Laplace", LAPLACE, 0.0, 1.0),
        (
            "randomized response",
            ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=1)),
            np.zeros(1),
            np.ones(1),
        ),
    )
    for name, mechanism, first, second in cases:
        (own,) = pairs_of(mechanism, [(first, second)], None, None, 1)
        known = mechanism.worst_neighbours()[0]
        library, without = paired(partial(_draws, own), partial(_draws, known))
        yield Row(
            name=f"a draw of {name}, datasets given",
            library=f"{library / DRAWS * 1e6:.2g} us",
            peer=f"{without / DRAWS * 1e6:.2g} us without",
            ratio=library / without,
            target="at most 2",
        )
    mechanism, pair = cases[0][1], cases[0][2:]
    given, without = paired(
        lambda: ps.audit(mechanism, datasets=pair, samples=DRAWS), lambda: ps.audit(mechanism, samples=DRAWS)
    )
    yield Row(
        name="audit of a posterior of 100, 40,000 samples, datasets given",
        library=f"{given:.2g} s",
        peer=f"{without:.2g} s without",
        ratio=given / without,
        target="at most 2",
    )


def _draws(case: Neighbours) -> None:
    for data in case.datasets:
        draw_outputs(case, data, DRAWS, np.random.default_rng(0))


Audit = Callable[[ps.Accountant, np.random.Generator], Verdict]


def _known(mechanism: ps.LaplaceMechanism | ps.GaussianMechanism, field: str, value: float, samples: int) -> Audit:
    broken = replace(mechanism, **{field: value})
    return lambda claim, rng: ps.audit(broken, claim=claim, samples=samples, rng=rng)


def _black_box(noise: str, spread: float, samples: int) -> Audit:
    pair = (np.float64(0), np.float64(1))
    run = lambda data, rng: data + getattr(rng, noise)(0, spread)  # noqa: E731
    return lambda claim, rng: ps.audit(run, datasets=pair, claim=claim, samples=samples, rng=rng)


def _power(name: str, honest: ps.LaplaceMechanism | ps.GaussianMechanism, audit: Audit) -> Row:
    caught, times = 0, []
    for seed in range(RUNS):
        found: list[Verdict] = []
        rng = np.random.default_rng(seed)
        times.append(seconds(lambda: found.append(audit(honest.accountant, rng))))  # noqa: B023
        caught += found[0].violated
    return Row(
        name=name,
        library=f"{caught}/{RUNS}, {np.median(times):.2g} s each",
        peer="level 1e-6",
        ratio=caught / RUNS,
        target="at least 0.9, under 10 s",
    )


def _size(name: str, mechanism: ps.LaplaceMechanism | ps.GaussianMechanism, audit: Callable[..., Verdict]) -> Row:
    wrong = sum(audit(np.random.default_rng(seed)).violated for seed in range(TRUE_RUNS))
    return Row(
        name=f"true {type(mechanism).__name__}, {name}, refuted at 0.01",
        library=f"{wrong}/{TRUE_RUNS}",
        peer="",
        ratio=wrong / TRUE_RUNS,
        target="at most 22",
    )


def _peer() -> Row:
    """True if dp_auditorium can be installed here."""
    found = installed()
    return Row(name="dp_auditorium", library="", peer=found, ratio=None, target="if it can be installed")


def installed() -> str:
    """The result of the installation, in a few words."""
    interpreter = FOLDER / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
    done = subprocess.run(
        [interpreter, "-m", "pip", "install", "--quiet", *PINS], capture_output=True, text=True, check=False
    )
    return "installs" if done.returncode == 0 else "not on the package index"
