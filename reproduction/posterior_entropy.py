"""Thesis Figures 5.3 and 5.4: relative entropy between true posterior and released distribution, against ε.

Source: Geumlek 2020, section 5.4.1. Exact: closed forms without noise, quadrature with it.
"""

from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray
from privsample.distributions.parametric.conjugate import Beta
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.posterior_distributions import Setting
from reproduction.posterior_plots import EPSILONS, MADE, lines, mark
from reproduction.tables import Table

ONES = 38
_FLOOR = 1e-4  # below it the picture ends: the quadrature is exact to 1e-14


def entropies(setting: Setting, epsilons: FloatArray) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Of each mechanism the free parameter and KL(true posterior || released distribution), each of the shape of
    epsilons.
    """
    posterior = setting.model.posterior(np.asarray(float(ONES)), setting.n)
    assert isinstance(posterior, Beta)
    found = {}
    for name, made in MADE.items():
        released = [made(setting, epsilon) for epsilon in epsilons.tolist()]
        apart = [max(0.0, distribution.relative_entropy(posterior, ONES)) for distribution in released]
        found[name] = np.array([distribution.amount for distribution in released]), np.array(apart)
    return found


def _run(order: float, points: FloatArray | None = None) -> Result:
    setting = Setting(alpha=6, beta=12, n=100, order=order)
    points = EPSILONS if points is None else points
    if np.isfinite(setting.direct):  # where the curves fall fastest
        points = np.sort(np.append(points, setting.direct * np.linspace(0.7, 1.0, 7)))
    found = entropies(setting, points)
    parts = [
        {"mechanism": name, "order": order, "epsilon": points, "parameter": amount, "relative_entropy": apart}
        for name, (amount, apart) in found.items()
    ]
    values = {name: apart for name, (_, apart) in found.items()}
    return Result(
        columns=stacked(parts),
        describe=lambda columns: _describe(setting, columns),
        plot=lambda figure: _plot(figure, setting, points, values),
    )


def least_entropies(setting: Setting) -> dict[str, float]:
    """Return the limits of both relative entropies without noise as epsilon grows, if the order limit binds.

    The order limit 1 + alpha / (m r) of a Beta posterior exceeds the order for every epsilon; r and m tend to where the
    two are equal.
    """
    share = min(setting.alpha, setting.beta) / (setting.order - 1)
    posterior = setting.model.posterior(np.asarray(float(ONES)), setting.n)
    assert isinstance(posterior, Beta)
    laws_there = {
        "diffused": setting.model.posterior(np.asarray(float(ONES)), setting.n, data_weight=share),
        "concentrated": setting.model.posterior(np.asarray(float(ONES)), setting.n, prior_weight=1 / share),
    }
    return {name: float(posterior.relative_entropy(distribution)) for name, distribution in laws_there.items()}


def _describe(setting: Setting, columns: Columns) -> Statement:
    parts = {name: Table(columns=columns).select(mechanism=name) for name in MADE}
    first = {name: float(part["relative_entropy"][0]) for name, part in parts.items()}
    epsilons = parts["diffused"]["epsilon"]
    noise_std = float(parts["Gaussian noise"]["parameter"][0])
    ends = [float(special.ndtr(-count / noise_std)) for count in (ONES, setting.n - ONES)]
    last = float(parts["Gaussian noise"]["relative_entropy"][-1])
    start = (
        f"Relative entropy KL(true posterior ‖ released distribution), for mechanisms with Rényi divergence ε at order "
        f"{setting.order:g}. At ε = {epsilons[0]:g} it is {first['diffused']:.3g} nats for the diffused posterior, "
        f"{first['concentrated']:.3g} for the concentrated one, {first['Gaussian noise']:.3g} for the posterior of a "
        f"count with Gaussian noise and {first['noise-aware']:.3g} for the noise-aware posterior. There, {ends[0]:.0%} "
        f"of the noisy counts are clipped to 0 and {ends[1]:.0%} to {setting.n}, the two modes that the thesis "
        "reports. It also reports a large relative entropy of the concentrated posterior for small ε"
    )
    findings = [Finding(f"{name} at the start", apart) for name, apart in first.items()]
    findings += [Finding("taken to 0", ends[0]), Finding("taken to n", ends[1])]
    findings += [
        compared(f"concentrated - {name} at the start", first["concentrated"] - apart)
        for name, apart in first.items()
        if name != "concentrated"
    ]
    if np.isfinite(setting.direct):
        reached = max(
            float(part["relative_entropy"][part["epsilon"] >= setting.direct].max())
            for part in (parts["diffused"], parts["concentrated"])
        )
        findings += [Finding("direct", setting.direct), Finding("Gaussian noise at the end", last)]
        findings.append(compared("Gaussian noise at the end - library", 1e3 * (last - reached)))
        return Statement(
            f"{start}. A draw from the true posterior has ε = {setting.direct:.3g}. From this ε on the diffused and "
            f"the concentrated posterior are the true posterior, and their relative entropy is {reached:.1g}. With "
            f"Gaussian noise it is still {last:.1g} nats at ε = {epsilons[-1]:g}.",
            tuple(findings),
        )
    least = least_entropies(setting)
    findings += [Finding(f"least of {name}", apart) for name, apart in least.items()]
    findings.append(Finding("Gaussian noise at the end", last))
    findings.append(compared("library, least - Gaussian noise", min(least.values()) - last))
    return Statement(
        f"{start}. As ε grows, the diffused and the concentrated posterior tend to {least['diffused']:.2g} and "
        f"{least['concentrated']:.2g} nats, because the Rényi divergence of the posterior itself is infinite at this "
        f"order; Gaussian noise falls to {last:.1g} nats at ε = {epsilons[-1]:g}.",
        tuple(findings),
    )


def _plot(figure: Any, setting: Setting, points: FloatArray, values: dict[str, FloatArray]) -> None:
    axes = figure.subplots()
    lines(axes, points, {name: np.where(apart > _FLOOR / 10, apart, _FLOOR / 10) for name, apart in values.items()})
    mark(axes, setting.direct, "from here on a draw\nfrom the true posterior\nhas at most this ε")
    axes.set(
        yscale="log",
        ylim=(_FLOOR, 100),
        xlabel=f"ε at order {setting.order:g} (nats)",
        ylabel="relative entropy KL(true ‖ released) (nats)",
    )
    axes.set_title(f"{ONES} ones in n = {setting.n} records, prior Beta({setting.alpha:g}, {setting.beta:g})")
    axes.legend(loc="upper right", bbox_to_anchor=(1.0, 0.87), fontsize=8)


FIGURE_3 = Experiment(
    name="geumlek-5.3",
    title="Thesis Figure 5.3: relative entropy against cost at order 2",
    seconds=2,
    run=lambda: _run(2.0),
    size=(5.6, 5.0),
    second=lambda: _run(2.0, np.geomspace(1e-3, 10.0, 17)),
)
FIGURE_4 = Experiment(
    name="geumlek-5.4",
    title="Thesis Figure 5.4: relative entropy against cost at order 15",
    seconds=2.6,
    run=lambda: _run(15.0),
    size=(5.6, 5.0),
    second=lambda: _run(15.0, np.geomspace(1e-3, 10.0, 17)),
)
