"""Table 1 of Balle, Barthe and Gaboardi (2018) in numbers: privacy cost of Gaussian noise on each kind of sample.

Source: Balle, Barthe and Gaboardi 2018, Table 1, Theorem 13, and Theorem 14, which has no row there.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.schemes import PoissonSampling, Scheme, WithoutReplacement, WithReplacement
from privsample.plots.style import BLUE, GREY, ORANGE
from privsample.relations import AddRemove, Relation, ReplaceOne
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result
from reproduction import subsampling_published as published
from reproduction.base import Experiment
from reproduction.tables import Table, agreement

N, M, DELTA = 100, 10, 1e-6
POINTS = 41
SMALL_N, SMALL_M, HONEST = 6, 3, 0.9  # small: subsamples are enumerated; HONEST: probability of the true answer


@frozen_value
class Row:
    """A row of the table: label, theorem, published bound, account, and sampling scheme of the membership mechanism."""

    label: str
    theorem: int
    eta: float
    bound: published.Profile
    account: Accountant
    membership: published.Drawn | None

    @property
    def published_epsilon(self) -> float:
        """The epsilon at which the published bound equals DELTA."""
        return float(brentq(lambda e: float(np.log(self.bound(np.array(e)) / DELTA)), 0.0, 30.0, xtol=1e-13))

    def gap(self, points: int = POINTS) -> float:
        """Return the largest absolute difference of the bound and the privacy curve of the membership mechanism.

        NaN if the row has no membership mechanism.
        """
        if self.membership is None:
            return float("nan")
        truth = published.membership(self.membership, SMALL_N, SMALL_M, HONEST)
        epsilon, base = np.linspace(0.0, 2.0, points), published.response(HONEST)
        if self.membership == "with":
            bound = published.repeated(lambda _: base, SMALL_N, SMALL_M)  # the record is in the sample or it is not
        else:
            bound = published.once(base, SMALL_M / SMALL_N)
        return float(np.abs(bound(epsilon) - truth(epsilon)).max())


def rows() -> list[Row]:
    """The four rows of the table, and Theorem 14."""
    whole, batch, any_n = ReplaceOne(n=N), ReplaceOne(n=M), AddRemove()
    profile, rate, eta = published.gauss(1.0), M / N, published.touched(N, M)
    once, repeated = published.once(profile, rate), published.repeated(published.gauss, N, M)
    replaced = published.poisson_replaced(profile, N, rate)
    poisson, copies = PoissonSampling(rate=rate), WithReplacement(n=N, m=M)
    return [
        _row("Poisson, add or remove", 8, rate, once, (any_n, poisson, any_n), "poisson"),
        _row("without replacement, substitute", 9, rate, once, (batch, WithoutReplacement(n=N, m=M), whole), "without"),
        _row("with replacement, substitute", 10, eta, repeated, (batch, copies, whole), "with"),
        _row("with replacement, add or remove", 11, eta, repeated, (batch, copies, any_n), "with"),
        _row("Poisson, substitute", 14, rate, replaced, (whole, poisson, whole), None),
    ]


def _row(
    label: str,
    theorem: int,
    eta: float,
    bound: published.Profile,
    library: tuple[Relation, Scheme, Relation],
    membership: published.Drawn | None,
) -> Row:
    """`library`: the relation of the noise between samples, the scheme, and the relation between datasets."""
    before, scheme, after = library
    base = GaussianAccountant(sensitivity=1.0, noise_std=1.0, relation=before)
    account = SubsampledAccountant(base=base, scheme=scheme, relation=after)
    return Row(label=label, theorem=theorem, eta=eta, bound=bound, account=account, membership=membership)


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    whole, delta = float(table["epsilon_without_sampling"][0]), float(table["delta"][0])
    paper, library = table["epsilon_published"], table["epsilon_library"]
    off = float(np.abs(library[:4] / paper[:4] - 1.0).max())
    gap = float(np.nanmax(table["bound_above_membership"]))
    sentence = (
        f"Gaussian noise that costs ε = {whole:.3f} at δ = {delta:g} costs {paper[0]:.3f} on a sample of a tenth of "
        f"the records (Theorems 8 and 9), and {paper[2]:.3f} on as many draws with replacement (Theorems 10 and 11), "
        f"since a record may be drawn several times. The library agrees {agreement(off)} (relative). With a "
        f"Poisson sample and a replaced record it costs {paper[4]:.3f} (Theorem 14) or {library[4]:.3f} (library). For "
        f"n = {SMALL_N}, m = {SMALL_M} and ε from 0 to 2 the exact δ of the paper's membership mechanism agrees with "
        f"the bounds of Theorems 8 to 11 {agreement(gap)}: they are attained in this case."
    )
    return Statement(
        sentence,
        (
            Finding("without sampling", whole),
            *(Finding(f"published, row {k + 1}", float(epsilon)) for k, epsilon in enumerate(paper)),
            *(Finding(f"library, row {k + 1}", float(epsilon)) for k, epsilon in enumerate(library)),
            Finding("apart from the paper", off),
            Finding("apart from the membership mechanism", gap),
            compared("with - without replacement", float(paper[2] - paper[0])),
            compared("Theorem 14 - library", float(paper[4] - library[4])),
        ),
    )


def _table(points: int = POINTS) -> Result:
    made = rows()
    whole = float(GaussianAccountant(sensitivity=1.0, noise_std=1.0).epsilon(DELTA))
    library, paper = [float(row.account.epsilon(DELTA)) for row in made], [row.published_epsilon for row in made]
    gaps = [row.gap(points) for row in made]
    columns: dict[str, Sequence[Any]] = {
        "subsampling": [row.label for row in made],
        "theorem": [row.theorem for row in made],
        "n": [N] * len(made),
        "m": [M] * len(made),
        "delta": [DELTA] * len(made),
        "eta": [row.eta for row in made],
        "epsilon_without_sampling": [whole] * len(made),
        "epsilon_published": paper,
        "epsilon_library": library,
        "bound_above_membership": gaps,
    }
    return Result(
        columns=columns,
        describe=_describe,
        plot=lambda figure: _plot(figure, made, paper, library, whole),
    )


def _plot(figure: Any, made: list[Row], paper: list[float], library: list[float], whole: float) -> None:
    axes = figure.subplots()
    places = np.arange(len(made))[::-1]
    axes.plot(
        paper, places, "o", markersize=10, markerfacecolor="none", color=ORANGE, label="as published in the paper"
    )
    axes.plot(library, places, "o", markersize=5, color=BLUE, label="account of the library")
    axes.axvline(whole, color=GREY, linestyle=(0, (4, 2)), linewidth=1.2, zorder=1, label="without sampling")
    axes.set_yticks(places, [f"{row.label.replace(', ', chr(10))}\n(Theorem {row.theorem})" for row in made])
    axes.set(xlim=(0, 1.08 * max(paper)), ylim=(-0.6, len(made) - 0.4), xlabel="ε at δ = 10⁻⁶ (nats)")
    axes.set_title(f"Gaussian noise (Δ/σ = 1) on {M} of n = {N} records")
    figure.legend(loc="outside upper right", ncols=3)


TABLE = Experiment(
    name="balle-table-1",
    title="Balle, Barthe and Gaboardi 2018, Table 1: the same Gaussian noise under each subsampling scheme",
    seconds=0.5,
    run=_table,
    size=(5.2, 4.4),
    second=lambda: _table(30),
)
