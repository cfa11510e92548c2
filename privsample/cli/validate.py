"""`privsample validate`: the curator's own look at a file before anything is drawn."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from privsample._data import chunks
from privsample.cli import build
from privsample.cli.files import Column
from privsample.cli.options import add_file, add_json, add_model
from privsample.cli.output import Page, check_tables, print_json, progress
from privsample.distributions.domains import Domain
from privsample.mechanisms.posterior.conjugate import BetaQuery, ConjugateMechanism, DirectPosterior

ABOUT = "check a file against what is declared, before anything is drawn"
DESCRIPTION = """\
Check a file against what is declared of it. Counts the records that are missing, outside the range,
or fractional where whole numbers are due; never shows them. The counts are for the curator: they
depend on the data and must not be published."""
EXAMPLE = """\
example:
  privsample validate patients.csv --column success --n 1000 \\
      --model beta-bernoulli --prior 6,12

exit code 0: clean; 1: there are problems"""


def add(parser: Any) -> None:
    """The command's options."""
    add_file(parser)
    add_model(parser)
    parser.add_argument(
        "--mechanism", choices=("beta-query",), metavar="M", help="beta-query: needs --bounds, and no --model"
    )
    add_json(parser)


def run(args: Namespace) -> int:
    """Print what the public rule would change."""
    check_tables(args)
    family = build.model(args)
    fixed: dict[str, Any] = {"n": args.n, "unit": args.unit}
    with build.checked():
        made: ConjugateMechanism = (
            BetaQuery(**fixed, alpha=args.prior[0], beta=args.prior[1], bounds=args.bounds)
            if build.is_query(args)
            else DirectPosterior(**fixed, model=family)
        )
    column = Column(args.file, args.column, categories=args.categories or (), separator=args.separator)
    found = problems(made, column, args.progress)
    clean = not any(found.values())
    if args.json:
        answer = {"command": "validate", "clean": clean, "n": args.n, "expected": made.domain.words, "problems": found}
        print_json(answer | {"for_the_curator_only": True})
    elif clean:
        Page().text(f"{args.n} records, each {made.domain.words}: nothing to mend.")
    else:
        page = Page()
        rows = [[reason, str(count), rule(reason, made.domain)] for reason, count in found.items() if count]
        page.table(
            f"{args.n} records, expected {made.domain.words}",
            ("records", "how many", "with --clip"),
            rows,
            numbers=(1,),
        )
        page.text("For the curator only: these counts depend on the data; do not publish them.")
    return 0 if clean else 1


def problems(mechanism: ConjugateMechanism, column: Column, wanted: bool | None) -> dict[str, int]:
    """How many records the public rule would change, by reason; reads the file once. Raises: SchemaError."""
    with progress("checking the file", mechanism.n, wanted) as advance, column.reading(advance):
        facts = mechanism.validate(column).facts
    return {reason: int(str(facts.get(reason, 0))) for reason in ("missing", "outside", "fractional")}


def rule(reason: str, domain: Domain) -> str:
    """What becomes of such records under the public rule."""
    if reason == "missing" or (reason == "outside" and domain.outside_is_missing):
        return f"count as {domain.missing:g}"
    if reason == "outside":
        return f"count as the nearer of {domain.low:g} and {domain.high:g}"
    return "are rounded to the nearest whole number"


def in_words(found: Mapping[str, int], domain: Domain) -> str:
    """The problems in one phrase, without any record."""
    parts = [f"{count} {reason}" for reason, count in found.items() if count]
    return f"{', '.join(parts)} (expected {domain.words})"


def tell_curator(words: str) -> None:
    """A line on standard error: for the curator's eyes, never in an output."""
    print(f"privsample: {words}", file=sys.stderr)


def public_problems(domain: Domain, column: Column) -> dict[str, int]:
    """As `problems`, for a public file of any length."""
    total: dict[str, int] = {}
    with column.reading():
        for chunk in chunks(column):
            for reason, count in domain.problems(chunk).items():
                total[reason] = total.get(reason, 0) + count
    return total
