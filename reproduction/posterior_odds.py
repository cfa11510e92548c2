"""What an adversary's odds become: thesis, equations (3.2) to (3.6)."""

from typing import Any

import numpy as np
from scipy import stats

from privsample._checks import FloatArray
from privsample.accounting.base import Accountant
from privsample.accounting.guarantees import PureAccountant
from privsample.accounting.targets import DP
from privsample.mechanisms.noise.additive import GaussianMechanism
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.relations import ReplaceOne
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result, stacked
from reproduction.base import Experiment
from reproduction.tables import Table

EPSILON, DELTA = 1.0, 1e-6  # of the Gaussian noise
RECORDS = ReplaceOne(1000)
PURE = (0.1, 0.5, 1.0, 2.0, 4.0)
TAIL = 1e-3  # the tail probability that the sentence states
TAILS = np.geomspace(1e-9, 0.1, 17)
SECOND_TAILS = np.geomspace(3e-9, 0.05, 11)
PRIORS, SECOND_PRIORS = 99, 50
CURVE, POINT, RENYI = "whole privacy curve", "one (ε, δ)", "Rényi curve"
ALL_KNOWN = "exact, for the noise itself"
_ORDERS = 1.0 + np.geomspace(1e-2, 1e4, 20_000)


def odds(tails: FloatArray | None = None, priors: int = PRIORS) -> Result:
    """Compute the posterior probabilities of pure guarantees, and the growth of the odds for Gaussian noise."""
    prior = np.union1d(np.linspace(0.01, 0.99, priors), [0.01, 0.5])
    parts: list[dict[str, Any]] = []
    for epsilon in PURE:
        account = PureAccountant(stated_epsilon=epsilon, relation=RECORDS)
        parts.append({"bound": f"pure ε = {epsilon:g}", "x": prior, "y": account.posterior_probability(prior)})
    mechanism = GaussianMechanism.calibrate(target=DP(EPSILON, DELTA), sensitivity=1.0, relation=RECORDS)
    tail = np.union1d(TAILS if tails is None else tails, [TAIL])
    for name, growth in _growth(mechanism.accountant, 1.0 / mechanism.noise_std, tail).items():
        parts.append({"bound": name, "x": tail, "y": growth})
    columns = stacked(parts)
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, Table(columns=columns)))


def _growth(account: Accountant, mu: float, tails: FloatArray) -> dict[str, FloatArray]:
    """Largest factor of the odds by tail probability: three bounds, and the quantile of the normal privacy loss."""
    with np.errstate(divide="ignore"):
        point = np.where(tails > DELTA, np.exp(EPSILON) / (1.0 - DELTA / np.maximum(tails, DELTA)), np.inf)
    renyi = np.min(account.rdp(_ORDERS) - np.log(tails)[:, None] / (_ORDERS - 1.0), axis=1)
    return {
        POINT: point,
        RENYI: np.exp(renyi),
        CURVE: np.array([float(account.posterior_odds(tail_probability=float(f))) for f in tails]),
        ALL_KNOWN: np.exp(mu * mu / 2 + mu * stats.norm.isf(tails)),
    }


def _describe(columns: Columns) -> Statement:
    table = Table(columns=columns)
    at = {name: table.select(bound=name).at("x", TAIL, "y") for name in (POINT, RENYI, CURVE, ALL_KNOWN)}
    rare, even = (table.select(bound="pure ε = 1").at("x", prior, "y") for prior in (0.01, 0.5))
    differences = {
        "Rényi above the curve": np.min(table.select(bound=RENYI)["y"] - table.select(bound=CURVE)["y"]),
        "the curve above the noise": np.min(table.select(bound=CURVE)["y"] - table.select(bound=ALL_KNOWN)["y"]),
    }
    findings = [compared(name, float(least)) for name, least in differences.items()]
    below = "below" if findings[0].compared else "not below"
    return Statement(
        "With a pure guarantee of ε = 1, an adversary who gives a hypothesis about one record the probability 1 % "
        f"(50 %) before the release gives it at most {rare:.1%} ({even:.1%}) after it. Gaussian noise calibrated to "
        f"({EPSILON:g}, {DELTA:g}) has no such bound with certainty. Except with probability {TAIL:g}, it multiplies "
        f"the odds by at most {at[CURVE]:.3f}, by the whole privacy curve; the Rényi curve alone gives "
        f"{at[RENYI]:.3f}, and the one point (ε, δ) {at[POINT]:.3f}. The bound of the whole curve is {below} that of "
        f"the Rényi curve at every tail probability shown. The noise itself exceeds a factor of {at[ALL_KNOWN]:.3f} "
        "with this probability; a mechanism with the same privacy curve may exceed a larger one.",
        (
            *findings,
            Finding("from 1 %", rare),
            Finding("from 50 %", even),
            *(Finding(f"{name} at the tail", value) for name, value in at.items()),
        ),
    )


def _plot(figure: Any, table: Table) -> None:
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2)
    for k, epsilon in enumerate(PURE):
        rows = table.select(bound=f"pure ε = {epsilon:g}")
        left.plot(rows["x"], rows["y"], color=BLUE, alpha=0.35 + 0.65 * k / (len(PURE) - 1), label=f"ε = {epsilon:g}")
    left.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="prior probability of the hypothesis", ylabel="largest posterior probability"
    )
    left.set_title("pure guarantees: with certainty")
    left.legend(loc="lower right")
    styles = {POINT: (GREEN, "-."), RENYI: (ORANGE, "--"), CURVE: (BLUE, "-"), ALL_KNOWN: (GREY, ":")}
    for name, (colour, dashes) in styles.items():
        rows = table.select(bound=name)
        finite = np.where(np.isfinite(rows["y"]), rows["y"], np.nan)
        right.plot(rows["x"], finite, color=colour, linestyle=dashes, label=name)
    right.set(xscale="log", xlabel="tail probability", ylabel="largest factor of the odds", ylim=(1, 5.5))
    right.set_title(f"Gaussian noise calibrated to ({EPSILON:g}, 10⁻⁶)")
    right.legend(loc="upper right")


ODDS = Experiment(
    name="geumlek-odds",
    title="Thesis, equations (3.2) to (3.6): the odds of an adversary after a release",
    seconds=1.9,
    run=odds,
    size=(9.6, 4.0),
    second=lambda: odds(SECOND_TAILS, SECOND_PRIORS),
)
