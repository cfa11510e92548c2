"""Demonstration on public data: private draws, their privacy cost, an audit of the cost, and a report.

Run as `python -m privsample.simulations.demo FOLDER`.
"""

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample._optional import require
from privsample.accounting.targets import DP
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.draws import one_draw
from privsample.mechanisms.neighbours import Draw
from privsample.mechanisms.noise.additive import GaussianMechanism
from privsample.mechanisms.posterior.conjugate import BetaQuery, ConcentratedPosterior, DiffusedPosterior
from privsample.mechanisms.release import Release, write_whole
from privsample.relations import ReplaceOne
from privsample.simulations.audit.audit import informative_epsilons
from privsample.simulations.audit.outputs import audit_outputs
from privsample.simulations.audit.task import AuditTask
from privsample.simulations.demo.page import Data, Trial, attempts, commands, curves, program, truth
from privsample.simulations.report.page import page, section_makers
from privsample.simulations.report.statements import price, small
from privsample.simulations.report.summary import release_size, summary_section

EPSILON, DELTA, DRAWS = 1.0, 1e-6, 4
LEVEL = 1e-6  # of the audits: probability of a false alarm
# With 108,000 evaluation draws, half of delta(0) is exceeded by at least 8.1 standard errors (the mean radius). One of
# two tests at LEVEL needs 4.9, so that every control is refuted with probability > 0.999; of 90,000 draws it is 0.994.
SAMPLES = 120_000
_INTRO = (
    "Two public data sets of scikit-learn stand in for confidential ones: 569 breast tumours, malignant or benign, and "
    "178 wines of three cultivars. The page shows five private releases computed from them, how close each is to the "
    "truth, its privacy cost, and a Monte Carlo audit of that cost."
)


def load() -> Data:
    """Read the data sets from scikit-learn; nothing is downloaded."""
    from sklearn.datasets import load_breast_cancer, load_wine

    tumours, wines = load_breast_cancer(), load_wine()
    radius = tumours.data[:, list(tumours.feature_names).index("mean radius")]
    return Data(malignant=(tumours.target == 0).astype(float), radius=radius, cultivar=wines.target.astype(float))


def draw(data: Data) -> list[Release]:
    """Five releases, each at epsilon 1 and delta 1e-6, with randomness from the operating system."""
    n, target = len(data.malignant), DP(epsilon=EPSILON, delta=DELTA)
    share, wines = BetaBernoulli(alpha=6, beta=12), DirichletCategorical(alpha=(2, 2, 2))
    common: dict[str, Any] = {"target": target, "draws": DRAWS}
    return [
        DiffusedPosterior.calibrate(model=share, n=n, unit="patient", **common).release(data.malignant),
        ConcentratedPosterior.calibrate(model=share, n=n, unit="patient", **common).release(data.malignant),
        BetaQuery.calibrate(alpha=2, beta=2, bounds=(5, 30), n=n, unit="patient", **common).release(data.radius),
        GaussianMechanism.calibrate(
            sensitivity=1, relation=ReplaceOne(n=n, unit="patient"), target=target
        ).release(data.malignant.sum()),
        DiffusedPosterior.calibrate(model=wines, n=len(data.cultivar), unit="wine", **common).release(data.cultivar),
    ]  # fmt: skip


def trial_makers(releases: Sequence[Release], samples: int) -> list[Callable[[], Trial]]:
    """Functions that audit the account of each release, and half of its privacy curve.

    An audit uses simulated data only, so that its generator may be seeded.
    """
    rngs = np.random.default_rng(2017).spawn(len(releases))
    return [partial(_trial, release.mechanism, samples, rng) for release, rng in zip(releases, rngs, strict=True)]


def _made(makers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call every function through joblib, in the order given: the longest first."""
    from joblib import Parallel, delayed

    return list(Parallel(batch_size=1)(delayed(make)() for make in makers))


def _trial(mechanism: Mechanism, samples: int, rng: np.random.Generator) -> Trial:
    """Audit the account of one draw and half of its privacy curve, as two calls of `audit` with equal generators do."""
    cases = tuple(replace(case, draw=_remember_draws(case.draw)) for case in mechanism.worst_neighbours())
    account = one_draw(mechanism).accountant
    epsilons = np.array(informative_epsilons(account))
    claims = np.array([float(account.delta(epsilon)) for epsilon in epsilons])
    verdict, control = (
        audit_outputs(
            AuditTask(
                subject=mechanism,
                claim=None,
                cases=cases,
                epsilons=epsilons,
                claims=tested,
                samples=samples,
                level=LEVEL,
                rng=deepcopy(rng),
            )
        )
        for tested in (claims, claims / 2)
    )
    return Trial(verdict=verdict, control=control)


def _remember_draws(draw: Draw) -> Draw:
    """A function that draws as `draw` does, and only once for equal numbers of draws and equal generators.

    Exact draws are nearly all of the demo's work. An audit draws on each dataset with generators of their own, so the
    generator tells the datasets apart.
    """
    known: dict[tuple[int, str], FloatArray] = {}

    def remembered(data: Any, count: int, rng: np.random.Generator) -> FloatArray:
        key = count, str(rng.bit_generator.state)
        if key not in known:
            known[key] = draw(data, count, rng)
        return known[key]

    return remembered


def run(folder: Path, *, samples: int = SAMPLES) -> list[str]:
    """Draw, audit and write into the folder, over what an earlier run wrote there. Returns: a summary, in lines."""
    folder.mkdir(parents=True, exist_ok=True)
    data = load()
    write_whole(folder / "breast-cancer.csv", _csv({"malignant": data.malignant, "mean_radius": data.radius}))
    write_whole(folder / "wine.csv", _csv({"cultivar": data.cultivar}))
    releases = draw(data)
    releases[0].save(folder / "posterior.nc", force=True)
    releases[0].save(folder / "release.json", force=True)
    made = _made([*trial_makers(releases, samples), *section_makers(releases, delta=DELTA)])
    found, own = made[: len(releases)], [section for sections in made[len(releases) :] for section in sections]
    summary = summary_section(
        releases,
        delta=DELTA,
        data="breast cancer and wine data of scikit-learn",
        column="malignant, mean_radius; cultivar",
        day=datetime.now().astimezone().date(),
        audits=[trial.verdict for trial in found],
    )
    sections = [summary, truth(data, releases), attempts(releases, found), *own, curves(), commands(folder)]
    write_whole(folder / "report.html", page(sections, title="Private samples from real data", intro=_INTRO))
    return _summary(folder, releases, found)


def _csv(columns: dict[str, FloatArray]) -> str:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(f"{x:g}" for x in row) for row in rows)]) + "\n"


def _summary(folder: Path, releases: Sequence[Release], found: Sequence[Trial]) -> list[str]:
    titles = [f"{release.mechanism.title}, {release_size(release)}" for release in releases]
    width = max(len(title) for title in titles)
    lines = [
        f"Five private releases at delta = {small(DELTA)}, and the outcome of a Monte Carlo audit of one draw:",
        "",
    ]
    for title, release, trial in zip(titles, releases, found, strict=True):
        lines.append(f"  {title:<{width}}  epsilon {price(release.account, DELTA)}  {trial.outcomes}")
    return [
        *lines,
        "",
        "  CONSISTENT: the draws do not refute the claim; this does not prove it. VIOLATED: they refute it.",
        "",
        f"  {folder / 'report.html'}    report: open it in a browser",
        f"  {folder / 'posterior.nc'}   the diffused draws for ArviZ, with their account",
        f"  {folder / 'release.json'}   the same as JSON; privsample.Release.load reads both",
        "",
        "The first of them again, from the command line (name a file of your own to use that):",
        "",
        f"  {program()} release {shlex.quote(str(folder / 'breast-cancer.csv'))} --column malignant \\",
        "    --n 569 --model beta-bernoulli --prior 6,12 --mechanism diffused --epsilon 1 --delta 1e-6 \\",
        "    --draws 4 --out draws.nc --report report.html",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: one argument, the folder to write into."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1 or given[0].startswith("-"):
        print("usage: python -m privsample.simulations.demo FOLDER", file=sys.stderr)
        return 2
    start = time.perf_counter()
    print("Drawing, accounting and auditing; this takes about a minute ...", flush=True)
    try:
        require("sklearn", "audit", "the demo")
        require("joblib", "audit", "the demo")
        from joblib import parallel_config

        with parallel_config(n_jobs=-1):
            lines = run(Path(given[0]))
    except (OSError, ImportError) as error:
        print(f"the demo could not run: {error}", file=sys.stderr)
        return 1
    print("\n".join(["", *lines, "", f"Done in {time.perf_counter() - start:.0f} seconds."]))
    return 0
