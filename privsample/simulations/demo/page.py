"""Sections of the page of the demo: comparison with the truth, audits, Rényi curves and commands."""

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
from privsample.simulations.audit.plots import audit_limits, plot_audit
from privsample.simulations.audit.verdict import Verdict
from privsample.simulations.report import figures
from privsample.simulations.report.content import Part, Picture, Section
from privsample.simulations.report.figures import Panel

PUBLIC = "The true posterior is shown only because these data are public."
_COMMAND = "{program} release {file} --column {column} --n {n} {choice} --epsilon 1 --delta 1e-6 --draws 4"


@frozen_value
class Trial:
    """The audit of one mechanism, and the audit of half its privacy curve, a false claim, as a control."""

    verdict: Verdict
    control: Verdict

    @property
    def outcomes(self) -> str:
        """Both outcomes in one line."""
        return f"{self.verdict.outcome}; control with half of the claim: {self.control.outcome}"


@frozen_value
class Data:
    """Two public data sets of scikit-learn: tumours (malignant or not, mean radius) and wines (cultivar)."""

    malignant: FloatArray
    radius: FloatArray
    cultivar: FloatArray


def truth(data: Data, releases: Sequence[Release]) -> Section:
    """Compare private and true posteriors, which is possible because the data are public."""
    lead = (
        "Grey: the posterior distribution given all records. Blue: the distribution from which the draws were sampled. "
        "Orange: the draws, which are all that is released. Panels below each other have the same axis, so that the "
        "widths of the distributions can be compared."
    )
    pictures = [
        Picture(
            image=figures.densities(panels),
            alt=f"{caption} The true posterior and the draws.",
            caption=f"{caption} {PUBLIC}",
        )
        for caption, panels in sheet(data, releases)
    ]
    return Section(title="Private and true posterior", lead=(lead,), pictures=tuple(pictures), anchor="truth")


def sheet(data: Data, releases: Sequence[Release]) -> list[tuple[str, list[Panel]]]:
    """Return caption and panels of each picture of `truth`; the panels of a picture share their axis."""
    diffused, concentrated, query, count, wines = releases
    n, malignant = len(data.malignant), data.malignant.sum()
    axis, noise, model = "share of malignant tumours", count.mechanism, BetaBernoulli(alpha=6, beta=12)
    assert isinstance(noise, GaussianMechanism)
    assert isinstance(query.mechanism, BetaQuery)
    low, high = ends = query.mechanism.bounds
    real, diffuse = _posteriors(diffused, malignant)
    concentrate = _posteriors(concentrated, malignant)[1]
    noisy = count_posterior(model, n, float(count["statistic"][0]), noise.noise_std)
    mean, private_mean = _posteriors(query, ((data.radius - low) / (high - low)).sum())
    three = (
        f"{n} tumours, prior Beta(6, 12). From top to bottom: a posterior in which every record has a smaller "
        "weight; a posterior with a stronger prior; and the posterior given a count with Gaussian noise, where the "
        "orange line is the noisy share."
    )
    return [
        (
            three,
            [
                _panel(axis, real, diffuse, diffused["theta"], title="diffused posterior"),
                _panel(axis, real, concentrate, concentrated["theta"], title="concentrated posterior"),
                _panel(axis, real, noisy, count["statistic"] / n, title="posterior given a noisy count"),
            ],
        ),
        (
            f"{len(data.cultivar)} wines, prior Dirichlet(2, 2, 2): the shares of three cultivars, released together.",
            _categories("share of cultivar", wines, data.cultivar),
        ),
        (
            f"The mean radius, from a column with the bounds {low:g} and {high:g}, which were chosen without the data.",
            [_panel("mean radius of the tumours", mean, private_mean, query["rho"], ends=ends)],
        ),
    ]


def count_posterior(model: BetaBernoulli, n: int, noisy: float, noise_std: float) -> Beta:
    """Return the posterior of the share given a count with Gaussian noise, as a Beta with its exact two moments."""
    counts = np.arange(n + 1)
    weight = stats.betabinom.pmf(counts, n, model.alpha, model.beta) * stats.norm.pdf(noisy, counts, noise_std)
    weight /= weight.sum()
    total = model.alpha + model.beta + n
    means = (model.alpha + counts) / total
    mean = weight @ means
    variance = weight @ (means * (1 - means) / (total + 1)) + weight @ (means - mean) ** 2
    size = mean * (1 - mean) / variance - 1
    return Beta(a=mean * size, b=(1 - mean) * size)


def _posteriors(release: Release, statistic: Any) -> tuple[Any, Any]:
    """Return the posterior given the public data, and the distribution from which the mechanism draws."""
    mechanism = release.mechanism
    assert isinstance(mechanism, PosteriorMechanism)
    model, (data_weight, prior_weight) = mechanism.model, mechanism._weights
    counts = np.asarray(statistic, dtype=np.float64)
    private = model.posterior(counts, mechanism.n, data_weight=data_weight, prior_weight=prior_weight)
    return model.posterior(counts, mechanism.n), private


def _panel(
    axis: str,
    real: PosteriorDistribution,
    private: PosteriorDistribution,
    draws: FloatArray,
    *,
    ends: tuple[float, float] = (0.0, 1.0),
    title: str = "",
) -> Panel:
    named = (("true posterior", real), ("private posterior", private))
    return Panel(axis=axis, distributions=named, draws=draws, ends=ends, title=title)


def _categories(axis: str, release: Release, codes: FloatArray) -> list[Panel]:
    """Return a panel for each category; the marginal distribution of its share is a Beta."""
    draws = release["theta"]
    distributions = _posteriors(release, np.bincount(codes.astype(np.int64), minlength=draws.shape[1]))
    shares = [[Beta(a=a, b=sum(distribution.alpha) - a) for a in distribution.alpha] for distribution in distributions]
    return [_panel(axis, shares[0][k], shares[1][k], draws[:, k], title=f"cultivar {k}") for k in range(draws.shape[1])]


def attempts(releases: Sequence[Release], found: Sequence[Trial]) -> Section:
    """The audits in pictures, with a control for each."""
    pictures, accounts = [], [one_draw(release.mechanism).accountant for release in releases]
    limits = audit_limits(accounts, [trial.verdict for trial in found])
    for release, account, trial in zip(releases, accounts, found, strict=True):
        svg = plot_audit(account, trial.verdict, limits=limits)
        caption = f"{release.mechanism.title}. {trial.outcomes}. Neighbouring datasets: {trial.verdict.pair}."
        alt = f"Claimed privacy curve and the confidence intervals of the audit. {trial.outcomes}."
        pictures.append(Picture(image=svg, alt=alt, caption=caption))
    control = found[0].control
    lead = (
        "Each mechanism was run on two neighbouring datasets, the worst pair that is known for it, with "
        f"{control.samples:,} single draws from each. The orange intervals contain the probabilities that the draws "
        "distinguish the two datasets at ε. An interval that lies entirely above the blue curve refutes the claimed "
        "privacy curve: VIOLATED. CONSISTENT means that no interval does, which does not prove the claim."
    )
    caught = (
        "As a control, half of each claimed curve (grey) was tested too, on the same draws. This claim is false, and a "
        "test with enough power refutes it."
    )
    full = Part(heading="Two verdicts in full", bullets=(found[0].verdict.statement, control.statement), folded=True)
    return Section(title="Audits", lead=(lead, caught), pictures=tuple(pictures), parts=(full,), anchor="audits")


def curves() -> Section:
    """Figures 5.1 and 5.2 of the thesis."""
    caption = (
        "Beta(6, 12) prior, n = 100. The dashed lines mark the order from which on the divergence is infinite. "
        "Geumlek (2020), Figure {figure}."
    )
    first = Picture(
        image=figures.renyi_curves("diffused"),
        alt="Rényi divergence against order for six data weights, each rising along a dashed vertical line.",
        caption="Diffused posterior with data weight r. " + caption.format(figure="5.1"),
    )
    second = Picture(
        image=figures.renyi_curves("concentrated"),
        alt="Rényi divergence against order for six prior weights, each rising along a dashed vertical line.",
        caption="Concentrated posterior with prior weight 1/m. " + caption.format(figure="5.2"),
    )
    lead = (
        "The Rényi curve of a mechanism is the largest Rényi divergence, at each order, between its output "
        "distributions on neighbouring datasets. Lower curves are more private. Each curve is finite up to an order "
        "limit, which is larger for a smaller weight of the data or a stronger prior."
    )
    return Section(title="Rényi curves", lead=(lead,), pictures=(first, second), anchor="renyi")


def program(name: str = "privsample") -> str:
    """Return the command that starts a program of the environment, which need not be on the PATH."""
    local = Path(".venv/bin") / name
    if local.exists():
        return str(local)
    return "python" if name == "python" else f"python -m {name}"


def commands(folder: Path) -> Section:
    """Return a section with command lines that make these releases."""
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
        title="Commands",
        lead=("These commands make such releases. Every run draws new values.",),
        anchor="commands",
        parts=(
            Part(code="\n\n".join(lines)),
            Part(
                heading="This page",
                code=f"{program('python')} -m privsample.simulations.demo {shlex.quote(str(folder))}",
            ),
        ),
    )
