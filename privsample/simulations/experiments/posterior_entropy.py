"""Thesis Figures 5.3 and 5.4 redrawn: how far what is released lies from the true posterior, against its cost.

Source: Geumlek 2020, section 5.4.1. Exact: closed forms for our mechanisms, quadrature for the noisy ones.
"""

from typing import Any

import numpy as np

from privsample._checks import FloatArray
from privsample.distributions.laws.conjugate import Beta
from privsample.simulations.experiments import posterior_laws as laws
from privsample.simulations.experiments.base import Experiment, Result, stacked
from privsample.simulations.experiments.posterior_laws import Setting
from privsample.simulations.experiments.posterior_plots import EPSILONS, MADE, lines, mark

ONES = 38
_FLOOR = 1e-4  # below it the picture ends: the quadrature is exact to 1e-14


def entropies(setting: Setting, epsilons: FloatArray) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Of each mechanism the free parameter and KL(true posterior || released law), each of the shape of epsilons."""
    posterior = setting.model.posterior(np.asarray(float(ONES)), setting.n)
    assert isinstance(posterior, Beta)
    found = {}
    for name, made in MADE.items():
        released = [made(setting, epsilon) for epsilon in epsilons.tolist()]
        apart = [max(0.0, law.relative_entropy(posterior, ONES)) for law in released]
        found[name] = np.array([law.amount for law in released]), np.array(apart)
    return found


def _run(order: float) -> Result:
    setting = Setting(alpha=6, beta=12, n=100, order=order)
    points = EPSILONS
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
        sentence=_sentence(setting, points, values),
        plot=lambda figure: _plot(figure, setting, points, values),
    )


def _sentence(setting: Setting, points: FloatArray, values: dict[str, FloatArray]) -> str:
    first, last = ({name: apart[at] for name, apart in values.items()} for at in (0, -1))
    ends = laws.gaussian(setting, float(points[0])).weights[ONES, [0, -1]]
    start = (
        f"At order {setting.order:g} and ε = {points[0]:g} the relative entropy is "
        + ", ".join(f"{apart:.3g} ({name})" for name, apart in first.items())
        + f" nats, and of the Gaussian noise {ends[0]:.0%} and {ends[1]:.0%} are taken to no and to only ones. The "
        "thesis says that towards ε = 0 the concentrated posterior is heavily penalised and the noisy one has two modes"
    )
    if np.isfinite(setting.direct):
        reached = max(values[name][points >= setting.direct].max() for name in ("diffused", "concentrated"))
        return (
            f"{start}. From ε = {setting.direct:.3g} on our two mechanisms draw from the posterior itself and reach "
            f"{reached:.1g}, while Gaussian noise is still at {last['Gaussian noise']:.1g} at ε = {points[-1]:g}."
        )
    return (
        f"{start}. Our two mechanisms stay above {last['diffused']:.2g} and {last['concentrated']:.2g} at any cost, "
        f"while Gaussian noise falls to {last['Gaussian noise']:.1g} at ε = {points[-1]:g}."
    )


def _plot(figure: Any, setting: Setting, points: FloatArray, values: dict[str, FloatArray]) -> None:
    axes = figure.subplots()
    lines(axes, points, {name: np.where(apart > _FLOOR / 10, apart, _FLOOR / 10) for name, apart in values.items()})
    mark(axes, setting.direct, "the posterior\nitself")
    axes.set(
        yscale="log",
        ylim=(_FLOOR, 100),
        xlabel=f"ε at order {setting.order:g}, nats",
        ylabel="KL(true ‖ released), nats",
    )
    axes.set_title(f"Simulated data: {ONES} ones in {setting.n}, prior Beta({setting.alpha:g}, {setting.beta:g})")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


FIGURE_3 = Experiment(
    name="t-5.3",
    title="Thesis Figure 5.3: relative entropy against cost at order 2",
    run=lambda: _run(2.0),
    size=(5.2, 4.4),
)
FIGURE_4 = Experiment(
    name="t-5.4",
    title="Thesis Figure 5.4: relative entropy against cost at order 15",
    run=lambda: _run(15.0),
    size=(5.2, 4.4),
)
