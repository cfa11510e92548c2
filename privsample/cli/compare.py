"""`privsample compare`: which mechanism to choose, from simulated data alone."""

from argparse import Namespace
from dataclasses import asdict
from typing import Any

import numpy as np

from privsample.cli import build
from privsample.cli.options import add_draws, add_model, add_target, seed, whole
from privsample.cli.output import Page, check_tables, print_json

ABOUT = "compare the mechanisms at one limit, on simulated data"
DESCRIPTION = """\
Compare the mechanisms at one limit: how far each would be from the true posterior, and from the truth,
with this many records. Parameters are simulated from the prior and data from the model; no file is read.
For beta-query, compare with --model beta-bernoulli --fractional and the same prior."""
EXAMPLE = """\
example:
  privsample compare --n 1000 --model beta-bernoulli --prior 6,12 \\
      --epsilon 1 --delta 1e-6"""


def add(parser: Any) -> None:
    """The command's options."""
    add_model(parser)
    add_target(parser)
    group = parser.add_argument_group("the simulations")
    group.add_argument("--simulations", type=whole, default=200, metavar="S", help="how many data sets (default: 200)")
    group.add_argument(
        "--seed", type=seed, metavar="SEED", help="repeat the same simulations; nothing private depends on it"
    )
    add_draws(parser)


def run(args: Namespace) -> int:
    """Simulate and print."""
    check_tables(args)
    family, goal, delta = build.model(args), build.required_target(args), build.stated_delta(args)
    from privsample.simulations.experiments.compare import compare

    settings: dict[str, Any] = {"model": family, "n": args.n, "target": goal, "draws": args.draws}
    with build.checked():
        rows = compare(**settings, simulations=args.simulations, rng=np.random.default_rng(args.seed))
    reached = [row for row in rows if not row.reason]
    offered = [row for row in reached if row.name in build.MECHANISMS]
    best = min(offered, key=lambda row: (round(row.ratio, 2), row.relative_entropy)).name if offered else None
    if args.json:
        rows_ = [asdict(row) | {"ratio": row.ratio, "reached": not row.reason} for row in rows]
        settings_ = {"target": goal.words, "n": args.n, "draws": args.draws, "simulations": args.simulations}
        print_json(
            {"command": "compare", "delta": delta, **settings_, "simulated": True, "best": best, "mechanisms": rows_}
        )
        return 0
    page = Page()
    table = [
        [
            row.name + (" *" if row.name == best else ""),
            f"{row.parameter.replace('_', ' ')} {row.amount:.4g}" if row.parameter else "",
            f"{row.relative_entropy:.3g}",
            f"{row.error:.3g}",
            f"{row.ratio:.2f}",
        ]
        for row in reached
    ]
    times = f"{args.draws} draws" if args.draws > 1 else "one draw"
    page.table(
        f"{goal.words}, {times} from n = {args.n} simulated records",
        ("mechanism", "set to", "distance", "error", "times"),
        table,
        numbers=(2, 3, 4),
    )
    for row in rows:
        if row.reason:
            page.text(f"{row.name}: {row.reason}")
    page.paragraph("How to read this", _LEGEND.format(count=args.simulations, best=best or "none"))
    return 0


_LEGEND = """\
Averages over {count} simulated data sets; no private data were used.
distance: relative entropy (nats) from the true posterior to what is released.
error: how far one released draw is from the true parameter.
times: that error over the error of a draw without any privacy; 1.00 is free.
* the least error among what `privsample release` offers: {best}.
noisy: noise is added once to the sum of the records, whatever --draws is, and
any number of draws is made of the noisy sum (here without modelling the noise)."""
