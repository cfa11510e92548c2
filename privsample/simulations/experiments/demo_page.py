"""The sections of the demo's page beside those of the releases: the truth, the audits, the curves, the commands."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.parametric.conjugate import Beta, PosteriorDistribution
from privsample.mechanisms.draws import one_draw
from privsample.mechanisms.noise.additive import GaussianMechanism
from privsample.mechanisms.posterior.conjugate import BetaQuery, PosteriorMechanism
from privsample.mechanisms.release import Release
from privsample.simulations.audit.plots import plot_audit
from privsample.simulations.audit.verdict import Verdict
from privsample.simulations.report import figures
from privsample.simulations.report.figures import Panel
from privsample.simulations.report.page import Part, Picture, Section

PUBLIC = "The true posterior is shown only because these data are public."
_COMMAND = "{program} release {file} --column {column} --n {n} {choice} --epsilon 1 --delta 1e-6 --draws 4"


@frozen_value
class Trial:
    """The audit of one mechanism, and of a claim of half its cost, which must be caught."""

    verdict: Verdict
    control: Verdict

    @property
    def words(self) -> str:
        """All of it in a line."""
        return f"{self.verdict.outcome}; half the claim, as a control: {self.control.outcome}"


@frozen_value
class Data:
    """Two public data sets of scikit-learn: tumours (malignant or not, mean radius) and wines (cultivar)."""

    malignant: FloatArray
    radius: FloatArray
    cultivar: FloatArray


def truth(data: Data, releases: Sequence[Release]) -> Section:
    """Private against true posteriors: possible because the data are public."""
    lead = (
        "Grey: what one would believe with full access to the records (the true posterior). Blue: the distribution "
        "that the draws come from. Orange: the draws themselves, the only thing that leaves."
    )
    pictures = [
        Picture(
            image=figures.densities(panels),
            alt=f"{words} The true posterior and the draws.",
            caption=f"{words} {PUBLIC}",
        )
        for words, panels in sheet(data, releases)
    ]
    return Section(title="Private draws beside the truth", lead=(lead,), pictures=tuple(pictures))


def sheet(data: Data, releases: Sequence[Release]) -> list[tuple[str, list[Panel]]]:
    """The pictures of `truth`: a caption and the panels for each release."""
    diffused, concentrated, query, count, wines = releases
    n, malignant = len(data.malignant), data.malignant.sum()
    axis, noise, model = "share of malignant tumours", count.mechanism, BetaBernoulli(alpha=6, beta=12)
    assert isinstance(noise, GaussianMechanism)
    assert isinstance(query.mechanism, BetaQuery)
    low, high = ends = query.mechanism.bounds
    real, mine = _laws(diffused, malignant)
    stronger = _laws(concentrated, malignant)[1]
    noisy = belief(model, n, float(count["statistic"][0]), noise.noise_std)
    mean, blurred = _laws(query, ((data.radius - low) / (high - low)).sum())
    return [
        (
            "Every patient counts less (diffused).",
            [_panel(axis, real, mine, diffused["theta"])],
        ),
        (
            "The prior counts more (concentrated).",
            [_panel(axis, real, stronger, concentrated["theta"])],
        ),
        (
            f"A bounded column's mean; the bounds, {low:g} and {high:g}, were declared beforehand.",
            [_panel("mean radius of the tumours", mean, blurred, query["rho"], ends)],
        ),
        (
            "For comparison, the classical way: a noisy count, at the same cost. Blue: what may be believed given it.",
            [_panel(axis, real, noisy, count["statistic"] / n, mine="belief given the noisy count")],
        ),
        (
            "Three shares at once: the cultivars of 178 wines.",
            _categories("share of cultivar", wines, data.cultivar),
        ),
    ]


def belief(model: BetaBernoulli, n: int, noisy: float, noise_std: float) -> Beta:
    """The posterior of the share given a count with Gaussian noise: the Beta of its exact mean and variance."""
    counts = np.arange(n + 1)
    weight = stats.betabinom.pmf(counts, n, model.alpha, model.beta) * stats.norm.pdf(noisy, counts, noise_std)
    weight /= weight.sum()
    total = model.alpha + model.beta + n
    means = (model.alpha + counts) / total
    mean = weight @ means
    variance = weight @ (means * (1 - means) / (total + 1)) + weight @ (means - mean) ** 2
    size = mean * (1 - mean) / variance - 1
    return Beta(a=mean * size, b=(1 - mean) * size)


def _laws(release: Release, statistic: Any) -> tuple[Any, Any]:
    """The true posterior of the public data, and the distribution that the mechanism draws from."""
    mechanism = release.mechanism
    assert isinstance(mechanism, PosteriorMechanism)
    model, (data_weight, prior_weight) = mechanism.model, mechanism._weights
    counts = np.asarray(statistic, dtype=np.float64)
    blurred = model.posterior(counts, mechanism.n, data_weight=data_weight, prior_weight=prior_weight)
    return model.posterior(counts, mechanism.n), blurred


def _panel(
    axis: str,
    real: PosteriorDistribution,
    distribution: PosteriorDistribution,
    draws: FloatArray,
    ends: tuple[float, float] = (0.0, 1.0),
    mine: str = "distribution of the draws",
) -> Panel:
    return Panel(axis=axis, distributions=(("true posterior", real), (mine, distribution)), draws=draws, ends=ends)


def _categories(axis: str, release: Release, codes: FloatArray) -> list[Panel]:
    """A panel for each category: its share alone is a Beta."""
    draws = release["theta"]
    distributions = _laws(release, np.bincount(codes.astype(np.int64), minlength=draws.shape[1]))
    shares = [[Beta(a=a, b=sum(distribution.alpha) - a) for a in distribution.alpha] for distribution in distributions]
    return [_panel(f"{axis} {k}", shares[0][k], shares[1][k], draws[:, k]) for k in range(draws.shape[1])]


def attempts(releases: Sequence[Release], found: Sequence[Trial]) -> Section:
    """The audits in pictures, with a control for each."""
    pictures = []
    for release, trial in zip(releases, found, strict=True):
        svg = plot_audit(one_draw(release.mechanism).accountant, trial.verdict)
        caption = f"{release.mechanism.title}. {trial.words}. The two: {trial.verdict.pair}."
        alt = f"Claimed curve and the audit's intervals. {trial.words}."
        pictures.append(Picture(image=svg, alt=alt, caption=caption))
    control = found[0].control
    lead = (
        "For each mechanism, two datasets were made up that differ in one record, where that record shows most, and "
        f"{control.samples:,} single draws were taken from each as evidence. How well do the draws tell which dataset "
        "they came from? A bar wholly above the blue line would refute the claim. VIOLATED means that the draws refute "
        "the claim; CONSISTENT means only that they do not."
    )
    caught = (
        "No such bar is no proof that a claim is true. To show that the test can fail, half of each claim was put to "
        "it as well (grey line): a claim that is false."
    )
    full = Part(heading="Two verdicts in full", bullets=(found[0].verdict.statement, control.statement), folded=True)
    return Section(
        title="An attempt to refute each claim", lead=(lead, caught), pictures=tuple(pictures), parts=(full,)
    )


def curves() -> Section:
    """Figures 5.1 and 5.2 of the thesis."""
    caption = (
        "Beta(6, 12) prior, 100 records. Dashed: the order from which on the curve is infinite. "
        "Redrawn from Geumlek's thesis (2020), Figure {figure}."
    )
    first = Picture(
        image=figures.renyi_curves("diffused"),
        alt="Rényi divergence against order for six data weights, each rising along a dashed vertical line.",
        caption="Diffused: every record counts r. " + caption.format(figure="5.1"),
    )
    second = Picture(
        image=figures.renyi_curves("concentrated"),
        alt="Rényi divergence against order for six prior weights, each rising along a dashed vertical line.",
        caption="Concentrated: the prior counts 1/m times. " + caption.format(figure="5.2"),
    )
    lead = (
        "Behind every epsilon stands a curve: how far apart the posteriors of two neighbouring datasets can be, "
        "measured by the Rényi divergence at each order. Lower is more private. Each curve ends at a finite order, "
        "which grows as the data count less or the prior counts more."
    )
    return Section(title="Where the numbers come from", lead=(lead,), pictures=(first, second))


def program(name: str = "privsample") -> str:
    """How to start a program of the demo's environment from here: `make demo` does not put it on the PATH."""
    local = Path(".venv/bin") / name
    if local.exists():
        return str(local)
    return "python" if name == "python" else f"python -m {name}"


def commands(folder: Path) -> Section:
    """The same from the command line."""
    cancer, wine = folder / "breast-cancer.csv", folder / "wine.csv"
    share, wines = "--model beta-bernoulli --prior 6,12", "--model dirichlet-categorical --prior 2,2,2"
    rows = (
        (cancer, "malignant", 569, f"{share} --mechanism diffused"),
        (cancer, "malignant", 569, f"{share} --mechanism concentrated"),
        (cancer, "mean_radius", 569, "--mechanism beta-query --prior 2,2 --bounds 5,30"),
        (wine, "cultivar", 178, f"{wines} --mechanism diffused"),
    )
    lines = [
        _COMMAND.format(program=program(), file=shlex.quote(str(file)), column=column, n=n, choice=choice)
        + f" --out draws-{k}.nc --report report-{k}.html"
        for k, (file, column, n, choice) in enumerate(rows, 1)
    ]
    return Section(
        title="To do it yourself",
        lead=("Such releases from the command line; every run draws anew.",),
        parts=(
            Part(code="\n\n".join(lines)),
            Part(
                heading="This page",
                code=f"{program('python')} -m privsample.simulations.experiments.demo {shlex.quote(str(folder))}",
            ),
        ),
    )
