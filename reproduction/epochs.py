"""Cost of noisy projected descent against the number of epochs: the convex hull of hidden states, and composition."""

from collections.abc import Sequence
from typing import Any

from privsample.accounting.sgd import Order, SGDAccountant
from privsample.distributions.steps.losses import LogisticLoss
from privsample.plots.style import BLUE, GREEN, GREY, ORANGE
from privsample.simulations.report.findings import Columns, Finding, Statement, compared
from privsample.simulations.report.results import Result
from reproduction.base import Experiment
from reproduction.tables import Table

N, BATCH, DELTA = 10_000, 500, 1e-6
FEATURES, NORM, RADIUS, NOISE_STD = 10, 1.0, 2.0, 0.08
EPOCHS_SHOWN = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
PENALTIES = {"convex": 0.0, "strongly convex": 0.01}  # the losses by their penalty
ORDERS: dict[Order, str] = {"given": BLUE, "shuffle_once": GREEN, "reshuffle": ORANGE}
AT = 100  # the number of epochs of the sentence


def account(epochs: int, loss: str, order: Order) -> SGDAccountant:
    """The account of a logistic regression on rows of norm 1, with the step size 1/smoothness."""
    made = LogisticLoss(features=FEATURES, norm=NORM, radius=RADIUS, penalty=PENALTIES[loss])
    return SGDAccountant(
        loss=made, n=N, rate=1.0 / made.smoothness, noise_std=NOISE_STD, batch=BATCH, epochs=epochs, order=order
    )


def _run(shown: Sequence[int] | None = None) -> Result:
    rows: list[tuple[str, str, int, float, float]] = []
    for loss in PENALTIES:
        for order in ORDERS:
            for epochs in sorted({*(EPOCHS_SHOWN if shown is None else shown), AT, max(EPOCHS_SHOWN)}):
                made = account(epochs, loss, order)
                costs = float(made.epsilon(DELTA)), float(made.composed.epsilon(DELTA))
                rows.append((loss, order, epochs, *costs))
    names = "loss", "order", "epochs", "epsilon", "composed"
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return Result(columns=columns, describe=_describe, plot=lambda figure: _plot(figure, columns))


def _describe(columns: Columns) -> Statement:
    table, most = Table(columns=columns), max(EPOCHS_SHOWN)
    composed = table.select(loss="convex", order="given").at("epochs", AT, "composed")
    found, findings = {}, [Finding("composed", composed)]
    for loss in PENALTIES:
        for order in ORDERS:
            found[loss, order] = table.select(loss=loss, order=order).at("epochs", AT, "epsilon")
            findings.append(Finding(f"{loss}, {order}", found[loss, order]))
            findings.append(compared(f"{loss}, {order}, below composition", composed - found[loss, order]))
    last = table.select(loss="strongly convex", order="given")
    growth = last.at("epochs", most, "epsilon") / last.at("epochs", AT, "epsilon") - 1
    findings.append(Finding("growth", growth))
    strong = f"penalty {PENALTIES['strongly convex']:g}"
    return Statement(
        f"Noisy projected gradient descent on {N:,} records in batches of {BATCH}, δ = {DELTA:g}. {AT} epochs cost ε = "
        f"{composed:.2f} if every state is released. If only the last state is, the lower convex hull gives "
        f"{found['convex', 'given']:.2f} for the record in the last batch of a given order and "
        f"{found['convex', 'shuffle_once']:.2f} for a secret order that is shuffled once; with {strong} it gives "
        f"{found['strongly convex', 'given']:.2f} and {found['strongly convex', 'shuffle_once']:.2f}. From {AT} to "
        f"{most} epochs, the cost of the given order with {strong} grows by {growth:.1%}.",
        tuple(findings),
    )


def _plot(figure: Any, columns: Columns) -> None:
    table, panels = Table(columns=columns), figure.subplots(1, len(PENALTIES), sharey=True)
    names = {"given": "given order", "shuffle_once": "shuffled once", "reshuffle": "shuffled each epoch"}
    for axes, loss in zip(panels, PENALTIES, strict=True):
        for order, colour in ORDERS.items():
            rows = table.select(loss=loss, order=order)
            line = ":" if order == "reshuffle" else "-"  # it nearly covers the line before it
            axes.loglog(rows["epochs"], rows["epsilon"], line, color=colour, label=names[order])
        rows = table.select(loss=loss, order="given")
        axes.loglog(rows["epochs"], rows["composed"], color=GREY, linestyle="--", label="every state released")
        axes.set(title=f"{loss}, penalty {PENALTIES[loss]:g}", xlabel="epochs")
        axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
        axes.set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
        axes.minorticks_off()
    panels[0].set_ylabel("ε at δ = 10⁻⁶ (nats)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


EPOCHS = Experiment(
    name="sgd-epochs",
    title="Noisy projected descent: ε against the number of epochs",
    seconds=2.9,
    run=_run,
    size=(8.8, 4.2),
    second=lambda: _run((1, 3, 30, 300)),
)
