"""`privsample compare`: compare the errors of mechanisms at one privacy target on simulated data."""

from argparse import Namespace
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any

import numpy as np

from privsample._checks import FloatArray
from privsample.cli import build
from privsample.cli.choice import add_mechanisms
from privsample.cli.errors import UsageProblem
from privsample.cli.options import add_json, add_target, seed, whole_number
from privsample.cli.output import Console, check_tables, print_json
from privsample.errors import UnreachableTarget
from privsample.mechanisms.posterior.conjugate import DirectPosterior

if TYPE_CHECKING:
    from privsample.simulations.experiments.comparison import Comparison, ComparisonTable

DOES_NOT_APPLY = "does not apply"
ABOUT = "compare the errors of mechanisms at one privacy target, on simulated data"
DESCRIPTION = """\
Compare mechanisms at one privacy target on simulated data; no file is read. With --model: the distance of each
posterior mechanism from the true posterior, and the error of its draws, with n records; parameters are
simulated from the prior and data from the model. For beta-query, compare with --model beta-bernoulli
--fractional and the same prior. With --mechanism: the error of each noisy statistic or sum. Errors have
standard errors, and a sentence says whether the smallest error is smaller by more than chance explains."""
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
    group.add_argument(
        "--plug-in",
        action="store_true",
        help="with --model: use the plug-in posterior of noisy statistics; faster than the noise-aware posterior",
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
    settings: dict[str, Any] = {"model": family, "n": n, "target": goal, "draws": draws, "plug_in": args.plug_in}
    with build.usage_errors():
        table = compare(**settings, simulations=args.simulations, rng=np.random.default_rng(args.seed))
    if args.json:
        rows = [_as_json(row) | {"ratio": row.ratio} for row in table]
        settings_ = {"target": goal.description, "n": n, "draws": draws, "simulations": args.simulations}
        return _print_json(table, rows, {"delta": delta, **settings_})
    console = Console()
    shown = [
        [
            _starred(row, table),
            _parameter(row),
            f"{row.relative_entropy:.3g}",
            _with_deviation(row.error, row.error_standard_error),
            f"{row.ratio:.2f}",
        ]
        for row in table
        if not row.reason
    ]
    count = f"{draws} draws" if draws > 1 else "one draw"
    console.table(
        f"{goal.description}, {count} from n = {n} simulated records",
        ("mechanism", "parameter", "distance", "error", "ratio"),
        shown,
        numbers=(2, 3, 4),
    )
    for row in table:
        if row.reason and not row.reason.startswith(DOES_NOT_APPLY):
            console.text(f"{row.name}: {row.reason}")
    console.paragraph("Which one", table.statement.sentence)
    others = [row.name for row in table if row.reason.startswith(DOES_NOT_APPLY)]
    left_out = f"\nNot for this model: {', '.join(others)}." if others else ""
    console.paragraph(
        "How to read this", _LEGEND.format(count=args.simulations, inference=_inference(table)) + left_out
    )
    return 0


def _noise(args: Namespace) -> int:
    """Compare mechanisms that release a noisy statistic or sum, and print the comparison."""
    from privsample.simulations.experiments.compare_noise import noise_errors
    from privsample.simulations.experiments.comparison import Comparison, comparison_table

    goal, delta = build.required_target(args), build.stated_delta(args)
    rows: list[Comparison] = []
    errors: dict[str, FloatArray] = {}
    generators = np.random.default_rng(args.seed).spawn(len(args.kinds))
    for (name, cls), rng in zip(args.kinds.items(), generators, strict=True):
        own = Namespace(**vars(args) | {"kind": cls, "mechanism": name})
        fields = build.fields(own)
        free = cls.free_parameters[0].decides if cls.free_parameters else ""
        try:
            made = cls.calibrate(**fields, target=goal)
        except UnreachableTarget as error:
            rows.append(Comparison(name=name, parameter="", amount=np.nan, reason=str(error)))
            continue
        except (ValueError, TypeError, ArithmeticError) as error:
            raise UsageProblem(f"{name}: {error}") from None
        with build.usage_errors(name):
            errors[name] = noise_errors(made, simulations=args.simulations, rng=rng)
        amount = getattr(made, free, np.nan) if free else np.nan
        amount = amount if isinstance(amount, float) else np.nan
        rows.append(Comparison(name=name, parameter=free, amount=amount))
    table = comparison_table(rows, errors, paired=False, simulations=args.simulations)
    if args.json:
        settings = {"target": goal.description, "simulations": args.simulations}
        return _print_json(table, [_as_json(row, posterior=False) for row in table], {"delta": delta, **settings})
    console = Console()
    shown = [
        [_starred(row, table), _parameter(row), _with_deviation(row.error, row.error_standard_error)]
        for row in table
        if not row.reason
    ]
    console.table(goal.description, ("mechanism", "parameter", "error"), shown, numbers=(2,))
    for row in table:
        if row.reason:
            console.text(f"{row.name}: {row.reason}")
    console.paragraph("Which one", table.statement.sentence)
    console.paragraph("How to read this", _NOISE_LEGEND.format(count=args.simulations))
    return 0


def _print_json(table: "ComparisonTable", rows: list[dict[str, Any]], settings: dict[str, Any]) -> int:
    """Print the table with its sentence as JSON, and return the exit code."""
    best = table.best.name if table.best is not None else None
    within = [row.name for row in table.rivals]
    words = {"best": best, "within_chance_of_best": within, "sentence": table.statement.sentence}
    print_json({"command": "compare", **settings, "simulated": True, **words, "mechanisms": rows})
    return 0


def _as_json(row: "Comparison", *, posterior: bool = True) -> dict[str, Any]:
    """The row's fields, without those of posteriors for a noisy number."""
    found = {field.name: getattr(row, field.name) for field in fields_of(row)}
    if not posterior:
        for name in ("relative_entropy", "relative_entropy_standard_error", "floor", "inference"):
            del found[name]
    return found | {"reached": not row.reason}


def _starred(row: "Comparison", table: "ComparisonTable") -> str:
    """The name, with * for the smallest error and ~ for those within chance of it."""
    best = table.best is not None and row.name == table.best.name
    return row.name + (" *" if best else " ~" if row.within_chance else "")


def _parameter(row: "Comparison") -> str:
    return f"{row.parameter.replace('_', ' ')} {row.amount:.4g}" if row.parameter and np.isfinite(row.amount) else ""


def _with_deviation(mean: float, deviation: float) -> str:
    return f"{mean:.3g} ± {deviation:.2g}"


def _inference(table: "ComparisonTable") -> str:
    """How draws are made from each noisy release, in words."""
    ways = {row.name: row.inference for row in table if row.inference}
    grouped = {way: [name for name, own in ways.items() if own == way] for way in ways.values()}
    return "; ".join(f"{', '.join(names)}: {way} posterior" for way, names in grouped.items())


_NOISE_LEGEND = """\
error: mean absolute difference between a released number and the statistic or sum without noise, over
{count} releases from simulated data, ± its standard error; no private data were used.
* the smallest error; ~ within chance of it."""
_LEGEND = """\
Averages over {count} simulated data sets; no private data were used.
distance: relative entropy (nats) of the true posterior to the released distribution; inf if the
released distribution excludes values.
error: mean absolute difference between a released draw and the true parameter, ± its standard error.
ratio: this error divided by the error of a draw from the true posterior; 1.00 is no loss.
* the smallest error; ~ within chance of it.
Noise is added once, for any number of --draws. {inference}."""
