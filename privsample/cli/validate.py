"""`privsample validate`: check a file for the curator before a release."""

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from privsample._checks import count_noun
from privsample._data import chunks, text_mask
from privsample.cli import build
from privsample.cli.choice import add_mechanism
from privsample.cli.data import Rows, Source, open_source
from privsample.cli.files import Column
from privsample.cli.options import add_file, add_json
from privsample.cli.output import Console, check_tables, print_json, progress
from privsample.cli.values import TEXT_HINT
from privsample.distributions.domains import Domain
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior.conjugate import DirectPosterior

ABOUT = "check a file against the declared model or mechanism, before a release"
DESCRIPTION = """\
Check a file against the declared model or mechanism. Counts the records that are missing, text, outside the
range, or fractional although whole numbers are expected, and prints the first lines of each, without their
content. Empty fields, NA, N/A, NaN, null and none are missing; any other text that is not a number is text.
Counts and lines are for the curator only: they depend on the data and must not be published."""
EXAMPLE = """\
example:
  privsample validate patients.csv --column success --n 1000 \\
      --model beta-bernoulli --prior 6,12
  privsample validate patients.csv --column age --mechanism laplace-sum \\
      --bounds 0,100

exit code 0: no problems; 1: problems"""
_REASONS = ("missing", "text", "outside", "fractional")
_FIRST = 3  # number of printed positions for each kind of problem


def add(parser: Any) -> None:
    """Add the options of the command."""
    add_file(parser)
    words = "mechanism whose data are checked (default: the column of a model)"
    add_mechanism(parser, without=DirectPosterior, required=False, words=words)
    add_json(parser)


def run(args: Namespace) -> int:
    """Print the records that the public rule would change."""
    check_tables(args)
    fields = build.fields(args)
    made, source = build.any_mechanism(args, fields), open_source(args, fields, args.file)
    size, domain = getattr(made, "n", None), getattr(made, "domain", None)
    found = problems(made, source, size, args.progress)
    clean, nothing = not any(found.values()), describe_unread(source, made)
    expected = domain.description if isinstance(domain, Domain) else source.description
    first = {} if clean else places(found, source, made)
    if args.json:
        answer = {
            "command": "validate",
            "clean": clean,
            "n": size,
            "records": source.records,
            "expected": expected,
            "problems": found,
        }
        print_json(answer | {"places": first, "nothing_read": bool(nothing), "for_the_curator_only": True})
    elif clean:
        records = "the statistic" if source.records is None else count_noun(source.records, "record")
        each = f"each {expected}" if isinstance(domain, Domain) else expected
        Console().text(f"{records}, {each}: no problems.")
    else:
        console = Console()
        rows = [
            [reason, str(count), first.get(reason, ""), "is refused" if nothing else rule(reason, domain)]
            for reason, count in found.items()
            if count
        ]
        read = "" if source.records is None else f"{count_noun(source.records, 'record')}, "
        title = f"{read}expected {expected}"
        head = ("problem", "count", "first", "with --clip")
        console.table(title, head, rows, numbers=(1,))
        if nothing:
            console.text(f"{nothing[:1].upper()}{nothing[1:]}.")
        for reason, where in first.items():
            if reason not in found:
                console.text(f"There is {reason}, first on {where}.")
        if not nothing and any("text" in reason for reason in first):
            console.text(f"For text: {TEXT_HINT}.")
        console.text("For the curator only: counts and positions depend on the data; do not publish them.")
    return 0 if clean else 1


def problems(mechanism: Mechanism, source: Source, size: int | None, wanted: bool | None) -> dict[str, int]:
    """Count the records that the public rule would change, by kind of problem; reads the file once.

    Raises: SchemaError, DataProblem.
    """
    try:
        with progress("checking the file", size, wanted) as advance, source.reading(advance) as records:
            facts = mechanism.validate(records).facts
    except SchemaError:
        broken = source.broken()
        if broken is not None:
            raise broken from None
        raise
    known = dict.fromkeys(_REASONS, 0) if isinstance(getattr(mechanism, "domain", None), Domain) else {}
    return known | {reason: int(str(count)) for reason, count in facts.items() if str(count).isdecimal()}


def places(found: Mapping[str, int], source: Source, mechanism: Mechanism) -> dict[str, str]:
    """Describe the positions of the first records of each problem; for rows, of text only. Reads the file once more.

    Empty if the mechanism has no domain and does not read rows.
    """
    domain = getattr(mechanism, "domain", None)
    if isinstance(source, Column) and isinstance(domain, Domain):
        reasons = [reason for reason, count in found.items() if count and reason in _REASONS]
        return _first(source, reasons, domain.problem_masks)
    columns = source.columns if isinstance(source, Rows) else []
    marks = [(f"text in {column.description}", column) for column in columns if column.is_text]
    return {
        reason: where
        for name, column in marks
        for reason, where in _first(column, [name], lambda chunk, name=name: {name: text_mask(chunk)}).items()  # type: ignore[misc]
    }


def _first(column: Column, reasons: Sequence[str], masks: Callable[[Any], Mapping[str, Any]]) -> dict[str, str]:
    at: dict[str, list[int]] = {reason: [] for reason in reasons}
    start = 0
    with column.reading():
        for chunk in chunks(column):
            for reason, mask in masks(chunk).items():
                if reason in at:
                    at[reason] += (start + np.flatnonzero(mask)[: _FIRST - len(at[reason])]).tolist()
            start += len(chunk)
    return {reason: column.where(places) for reason, places in at.items() if places}


def describe_unread(source: Source, owner: Any) -> str:
    """Return a message if no record of a column is readable, so that only defaults would be released; else empty."""
    if not source.unread:
        return ""
    domain = getattr(owner, "domain", None)
    expected = f", expected {domain.description}" if isinstance(domain, Domain) else ", expected numbers"
    return f"no record in {source.unread} of {source.path.name} could be read{expected}; {TEXT_HINT}"


def rule(reason: str, domain: Any) -> str:
    """Describe the effect of the public rule on records with this problem."""
    if not isinstance(domain, Domain) or reason not in _REASONS:
        return "are changed by the mechanism's public rule"
    if reason in ("missing", "text") or (reason == "outside" and domain.outside_is_missing):
        return f"count as {domain.missing:g}"
    if reason == "outside":
        return f"count as the nearer of {domain.low:g} and {domain.high:g}"
    return "are rounded to the nearest whole number"


def describe_problems(found: Mapping[str, int], source: Source, owner: Any, kind: str = "") -> str:
    """Describe the problems in one phrase without any record; the domain of `owner`, if any, is the expected range."""
    listed = ", ".join(f"{count} {reason}" for reason, count in found.items() if count)
    phrase = f"{source.description} of {kind}{source.path.name}: {listed}"
    domain, at = getattr(owner, "domain", None), places(found, source, owner)
    expected = f" (expected {domain.description})" if isinstance(domain, Domain) else ""
    first = "".join(f"; {reason} on {where}" for reason, where in at.items())
    return f"{phrase}{expected}{first}" + (f"; {TEXT_HINT}" if any("text" in reason for reason in at) else "")


def warn_curator(words: str) -> None:
    """Print a message for the curator on standard error; it is never part of an output."""
    print(f"privsample: {words}", file=sys.stderr)


def public_problems(domain: Domain, column: Column) -> dict[str, int]:
    """Count the problems of a public file of any length; see `problems`."""
    total: dict[str, int] = {}
    with column.reading():
        for chunk in chunks(column):
            for reason, count in domain.problems(chunk).items():
                total[reason] = total.get(reason, 0) + count
    return total
