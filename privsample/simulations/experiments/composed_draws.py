"""What k draws of one diffused posterior cost: by their composed loss, and by the Renyi curve."""

from typing import Any

import numpy as np

from privsample.accounting.posterior.conjugate import PosteriorAccountant
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.simulations.experiments.base import Experiment, Result
from privsample.simulations.report.figures import BLUE, ORANGE

DELTA = 1e-6
DRAWS = np.unique(np.round(np.geomspace(1, 1000, 13)).astype(int)).tolist()


def run() -> Result:
    """Beta(6, 12) prior, n = 569, data weight 0.1, k from 1 to 1000."""
    composed, renyi = [], []
    for k in DRAWS:
        account = PosteriorAccountant(model=BetaBernoulli(alpha=6, beta=12), n=569, data_weight=0.1, draws=int(k))
        routes = {route.name: route.epsilon for route in account.explain(DELTA)}
        composed.append(float(account.epsilon(DELTA)))
        renyi.append(routes["Renyi curve at its best order"])
    saving = 1.0 - np.array(composed) / np.array(renyi)
    return Result(
        columns={"draws": DRAWS, "composed_loss": composed, "renyi_curve": renyi, "saving": saving.tolist()},
        sentence=f"The composed loss saves {saving.min():.1%} to {saving.max():.1%} of the ε that the Rényi "
        f"curve charges for 1 to {DRAWS[-1]} draws of a diffused Beta-Bernoulli posterior at δ = {DELTA:g}.",
        plot=lambda figure: _plot(figure, np.array(composed), np.array(renyi), saving),
    )


def _plot(figure: Any, composed: Any, renyi: Any, saving: Any) -> None:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    above.loglog(DRAWS, renyi, color=ORANGE, linestyle="--", label="Rényi curve, best order")
    above.loglog(DRAWS, composed, color=BLUE, label="composed loss")
    above.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    above.minorticks_off()
    above.set(ylabel="ε at δ = 10⁻⁶", title="Draws of one diffused posterior, r = 0.1, n = 569")
    above.legend()
    below.plot(DRAWS, 100 * saving, color=BLUE)
    below.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    below.minorticks_off()
    below.set(xlabel="draws k", ylabel="saving, %", ylim=(0, 1.15 * 100 * saving.max()))


EXPERIMENT = Experiment(
    name="composed-draws", title="Draws of one diffused posterior: composed loss against Rényi curve", run=run
)
