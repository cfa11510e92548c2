"""`privsample compare`: compare the errors of mechanisms at one privacy target on simulated data."""

from argparse import Namespace
from dataclasses import asdict
from typing import Any

import numpy as np

from privsample.cli import build
from privsample.cli.choice import add_mechanisms, mechanisms
from privsample.cli.errors import UsageProblem
from privsample.cli.options import add_json, add_target, seed, whole_number
from privsample.cli.output import Console, check_tables, print_json
from privsample.errors import UnreachableTarget
from privsample.mechanisms.posterior.conjugate import DirectPosterior

ABOUT = "compare the errors of mechanisms at one privacy target, on simulated data"
DESCRIPTION = """\
Compare mechanisms at one privacy target on simulated data; no file is read. With --model: the distance of each
posterior mechanism from the true posterior, and the error of its draws, with n records; parameters are
simulated from the prior and data from the model. For beta-query, compare with --model beta-bernoulli
--fractional and the same prior. With --mechanism: the error of each noisy statistic or sum."""
EXAMPLE = """\
example:
  privsample compare --n 1000 --model beta-bernoulli --prior 6,12 \\
      --epsilon 1 --delta 1e-6
  privsample compare --mechanism gaussian-sum,laplace-sum --bounds 0,1 \\
      --epsilon 1 --delta 1e-6"""


def add(parser: Any) -> None:
    """Add the options of the command."""
    add_mechanisms(parser, without=DirectPosterior)
    add_target(parser)
    group = parser.add_argument_group("the simulations")
    group.add_argument(
        "--simulations",
        type=whole_number,
        default=200,
        metavar="S",
        help="number of simulated data sets (default: 200)",
    )
    group.add_argument(
        "--seed", type=seed, metavar="SEED", help="seed of the simulations; no private data depend on it"
    )
    add_json(parser)


def run(args: Namespace) -> int:
    """Run the simulations and print the comparison."""
    check_tables(args)
    if args.kinds is not None:
        return _noise(args)
    fields = build.fields(args)
    goal, delta = build.required_target(args), build.stated_delta(args)
    from privsample.simulations.experiments.compare import compare

    family, n, draws = fields["model"], fields["n"], fields.get("draws", 1)
    settings: dict[str, Any] = {"model": family, "n": n, "target": goal, "draws": draws}
    with build.usage_errors():
        rows = compare(**settings, simulations=args.simulations, rng=np.random.default_rng(args.seed))
    reached = [row for row in rows if not row.reason]
    offered = [row for row in reached if row.name in mechanisms()]
    best = min(offered, key=lambda row: (round(row.ratio, 2), row.relative_entropy)).name if offered else None
    if args.json:
        rows_ = [asdict(row) | {"ratio": row.ratio, "reached": not row.reason} for row in rows]
        settings_ = {"target": goal.description, "n": n, "draws": draws, "simulations": args.simulations}
        print_json(
            {"command": "compare", "delta": delta, **settings_, "simulated": True, "best": best, "mechanisms": rows_}
        )
        return 0
    console = Console()
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
    count = f"{draws} draws" if draws > 1 else "one draw"
    console.table(
        f"{goal.description}, {count} from n = {n} simulated records",
        ("mechanism", "parameter", "distance", "error", "ratio"),
        table,
        numbers=(2, 3, 4),
    )
    for row in rows:
        if row.reason:
            console.text(f"{row.name}: {row.reason}")
    console.paragraph("How to read this", _LEGEND.format(count=args.simulations, best=best or "none"))
    return 0


def _noise(args: Namespace) -> int:
    """Compare mechanisms that release a noisy statistic or sum, and print the comparison."""
    from privsample.simulations.experiments.compare_noise import noise_error

    goal, delta = build.required_target(args), build.stated_delta(args)
    rows: list[dict[str, Any]] = []
    for name, cls in args.kinds.items():
        own = Namespace(**vars(args) | {"kind": cls, "mechanism": name})
        fields = build.fields(own)
        row: dict[str, Any] = {"name": name, "parameter": "", "amount": np.nan, "error": np.nan, "reason": ""}
        try:
            made = cls.calibrate(**fields, target=goal)
        except UnreachableTarget as error:
            rows.append(row | {"reason": str(error)})
            continue
        except (ValueError, TypeError, ArithmeticError) as error:
            raise UsageProblem(f"{name}: {error}") from None
        rng = np.random.default_rng(args.seed)
        with build.usage_errors(name):
            row["error"] = noise_error(made, simulations=args.simulations, rng=rng)
        free = cls.free_parameters[0].decides if cls.free_parameters else ""
        amount = getattr(made, free, np.nan) if free else np.nan
        rows.append(row | {"parameter": free, "amount": amount if isinstance(amount, float) else np.nan})
    best = min((row for row in rows if not row["reason"]), key=lambda row: row["error"], default={"name": None})["name"]
    if args.json:
        settings = {"target": goal.description, "simulations": args.simulations, "simulated": True, "best": best}
        print_json({"command": "compare", "delta": delta, **settings, "mechanisms": rows})
        return 0
    console = Console()
    table = [
        [
            row["name"] + (" *" if row["name"] == best else ""),
            f"{row['parameter'].replace('_', ' ')} {row['amount']:.4g}" if np.isfinite(row["amount"]) else "",
            f"{row['error']:.4g}",
        ]
        for row in rows
        if not row["reason"]
    ]
    console.table(goal.description, ("mechanism", "parameter", "error"), table, numbers=(2,))
    for row in rows:
        if row["reason"]:
            console.text(f"{row['name']}: {row['reason']}")
    console.paragraph("How to read this", _NOISE_LEGEND.format(count=args.simulations))
    return 0


_NOISE_LEGEND = """\
error: mean absolute difference between a released number and the statistic or sum without noise, over
{count} releases from simulated data; no private data were used. * the smallest error."""
_LEGEND = """\
Averages over {count} simulated data sets; no private data were used.
distance: relative entropy (nats) of the true posterior to the released distribution.
error: mean absolute difference between a released draw and the true parameter.
ratio: this error divided by the error of a draw from the true posterior; 1.00 is no loss.
* the smallest error among the mechanisms of `privsample release`: {best}.
noisy: noise is added once to the sum of the records, for any number of --draws;
the draws use the noisy sum as if it were exact."""
