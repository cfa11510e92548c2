"""`privsample compare`: compare the errors of mechanisms at one privacy target on simulated data."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any

import numpy as np

from privsample.cli import build
from privsample.cli.choice import add_mechanisms
from privsample.cli.errors import UsageProblem
from privsample.cli.options import add_json, add_target, seed, whole_number
from privsample.cli.output import Console, check_tables, print_json
from privsample.errors import UnreachableTarget
from privsample.mechanisms.posterior.conjugate import DirectPosterior

if TYPE_CHECKING:
    from privsample.comparison.table import Comparison, ComparisonTable

ABOUT = "compare the errors of mechanisms at one privacy target, on simulated data"
DESCRIPTION = """\
Compare mechanisms at one privacy target on simulated data; no file is read. With --model: the distance of each
posterior mechanism from the true posterior, and the error of its draws, with n records; parameters are
simulated from the prior and data from the model. For beta-query, compare with --model beta-bernoulli
--fractional and the same prior. With --mechanism: the errors of mechanisms that answer the same question, such
as noisy sums, selections from the same candidates, frequencies of codes, logistic regressions or Gibbs samplers;
name:parameter says which free parameter meets the target. Errors have standard errors, and a sentence says
whether the smallest error is smaller by more than chance explains."""
EXAMPLE = """\
example:
  privsample compare --n 1000 --model beta-bernoulli --prior 6,12 \\
      --epsilon 1 --delta 1e-6
  privsample compare --mechanism gaussian-sum,laplace-sum --bounds 0,1 \\
      --epsilon 1 --delta 1e-6
  privsample compare --mechanism exponential,permute-and-flip \\
      --candidates red,green,blue --utility count-utility \\
      --epsilon 0.1 --delta 0"""


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
        return _mechanisms(args)
    fields = build.fields(args)
    goal, delta = build.required_target(args), build.stated_delta(args)
    from privsample.comparison.compare import compare

    family, n, draws = fields["model"], fields["n"], fields.get("draws", 1)
    settings: dict[str, Any] = {"model": family, "n": n, "target": goal, "draws": draws, "plug_in": args.plug_in}
    with build.usage_errors():
        table = compare(**settings, simulations=args.simulations, rng=np.random.default_rng(args.seed))
    if args.json:
        rows = [_as_json(row) | {"ratio": row.ratio} for row in table]
        settings_ = {"target": goal.description, "n": n, "draws": draws, "simulations": args.simulations}
        return _print_json(table, rows, {"delta": delta, **settings_})
    _print_table(table)
    return 0


def _mechanisms(args: Namespace) -> int:
    """Compare mechanisms that answer the same question, and print the comparison."""
    from privsample.comparison.compare_mechanisms import measured

    goal, delta = build.required_target(args), build.stated_delta(args)
    calibrations: dict[str, Any] = {}
    for name, (cls, by) in args.kinds.items():
        fields = build.fields(Namespace(**vars(args) | {"kind": cls, "mechanism": name}))
        free = next((one for one in cls.free_parameters if by in ("", one.name)), None)
        settings = {"target": goal, **({"by": by} if by else {})}
        calibrations[name] = (free.decides if free else "", _calibration(name, cls, fields | settings))
    with build.usage_errors():
        table = measured(calibrations, goal, simulations=args.simulations, rng=np.random.default_rng(args.seed))
    if args.json:
        settings = {"target": goal.description, "simulations": args.simulations}
        return _print_json(table, [_as_json(row, posterior=False) for row in table], {"delta": delta, **settings})
    _print_table(table)
    return 0


def _calibration(name: str, cls: Any, settings: dict[str, Any]) -> Callable[[], Any]:
    """A function that calibrates, whose errors name the mechanism."""

    def calibrate() -> Any:
        try:
            return cls.calibrate(**settings)
        except UnreachableTarget:
            raise
        except (ValueError, TypeError, ArithmeticError) as error:
            raise UsageProblem(f"{name}: {error}") from None

    return calibrate


def _print_table(table: "ComparisonTable") -> None:
    """Print the table, the reasons of what is missing from it, and how to read it."""
    from privsample.comparison import text as comparison_text

    console, names = Console(), comparison_text.head(table)
    console.table(table.title, names, comparison_text.cells(table), numbers=range(2, len(names)))
    for line in comparison_text.reasons(table):
        console.text(line)
    console.paragraph("Which one", table.statement.sentence)
    console.paragraph("How to read this", comparison_text.legend(table))


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
