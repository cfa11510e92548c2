"""`privsample release`: draw from the records of a file, write the draws with their account, print the privacy cost."""

import os
import secrets
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from privsample._optional import MissingPackage
from privsample.accounting.ledger import Ledger
from privsample.cli import build, data
from privsample.cli.account import mechanism_document, mechanism_facts, privacy_costs, show_costs
from privsample.cli.choice import add_mechanism
from privsample.cli.errors import DataProblem, Interrupted, UsageProblem, require
from privsample.cli.files import Column
from privsample.cli.groups import Groups, add_groups, read_groups
from privsample.cli.ledger import add_at_least, open_ledger, release_with_ledger
from privsample.cli.options import add_file, add_json, add_target
from privsample.cli.output import Console, check_tables, print_json, progress
from privsample.cli.query import Query, add_query, is_query
from privsample.cli.validate import describe_problems, describe_unread, problems, public_problems, warn_curator
from privsample.distributions.models.base import Model
from privsample.interop.arviz import netcdf_engine
from privsample.mechanisms.arguments import field_of_kind
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior.conjugate import BetaQuery
from privsample.mechanisms.release import Release, writable, write_whole

ABOUT = "release private draws or noisy statistics of a file, with their account"
DESCRIPTION = """\
Release draws from the records of a file with any mechanism: draws from a posterior, a noisy sum, randomized
responses and others. The draws and their privacy account are written to --out. The randomness comes from the
operating system. The mechanism determines whether --column, --columns or a statistic is needed. The file is
checked first: if records are missing, text or out of range, nothing is drawn. With --clip, the public rule
applies to such records: a missing record or text becomes the default, a record out of range the nearer bound, a
fraction the nearest whole number. A column without any readable record is refused in any case. With --data, an
engine reads many Parquet files; with --by, there is one release for each group of a public list of keys."""
EXAMPLE = """\
example:
  privsample release patients.csv --column success --n 1000 --unit patient \\
      --model beta-bernoulli --prior 6,12 --mechanism diffused \\
      --epsilon 1 --delta 1e-6 --draws 4 --out posterior.nc --report report.html
  privsample release patients.csv --column age --mechanism gaussian-sum \\
      --bounds 0,100 --epsilon 1 --delta 1e-6 --out sum.json
  privsample release patients.csv --columns age,dose --label success \\
      --mechanism logistic --n 1000 --features 2 --norm 1 --prior-std 2 \\
      --epsilon 1 --delta 1e-6 --out coefficients.json
  privsample release --data 'visits/*.parquet' --engine duckdb --column cost \\
      --by hospital --keys hospitals.txt --mechanism gaussian-sum \\
      --relation add-remove --bounds 0,900 --unit patient \\
      --groups-per-unit 2 --records-per-unit 3 \\
      --epsilon 1 --delta 1e-6 --out costs.nc"""
_FILE = (
    "CSV (with a header, also .gz), Parquet, Feather or Arrow file; or .json or .npy with a statistic, for a "
    "mechanism that reads one"
)
_MOST_ROWS, _MOST_DRAWS, _MOST_NUMBERS = 20, 4, 1000


def add(parser: Any) -> None:
    """Add the options of the command."""
    add_file(parser, _FILE, required=False)
    add_query(parser)
    add_groups(parser)
    add_mechanism(parser)
    add_target(parser)
    group = parser.add_argument_group("the outputs")
    group.add_argument(
        "--out",
        metavar="PATH",
        help="file of the release: .nc (netCDF for ArviZ) or .json; required but for --tally-out",
    )
    group.add_argument("--report", metavar="PATH", help="report, .html")
    group.add_argument("--force", action="store_true", help="replace existing outputs")
    parser.add_argument(
        "--public-data",
        metavar="FILE",
        help="public file with the same column; it updates the prior at no privacy cost",
    )
    parser.add_argument(
        "--ledger", metavar="FILE", help="ledger with the privacy budget; the release is recorded before it is drawn"
    )
    add_at_least(parser)
    parser.add_argument(
        "--clip", action="store_true", help="apply the public rule to invalid records instead of refusing the file"
    )
    add_json(parser)


def run(args: Namespace) -> int:
    """Build the mechanism, validate the data, draw and write, in this order: an error spends no budget."""
    check_tables(args)
    by_engine, groups = is_query(args), read_groups(args)
    fields = build.fields(args)
    goal, delta = build.target(args), build.stated_delta(args)
    if args.tally_out is not None:
        return _write_tally(args, fields, groups)
    out, report, render = _outputs(args)
    if args.at_least is not None and args.ledger is None:
        raise UsageProblem("--at-least needs --ledger: it is the head of that ledger")
    ledger = None if args.ledger is None else open_ledger(args.ledger, args.at_least)
    source: Any = Query(args, fields, groups) if by_engine else data.open_source(args, fields, args.file)
    _check_not_inputs((("--out", out), ("--report", report)), args)
    if args.public_data is not None:
        fields = _with_public_data(args, fields)
    made = _mechanism(args, fields, groups)
    cost = privacy_costs(made.accountant, goal, delta)
    release = _released(made, source.tally(made), ledger) if by_engine else _from_file(args, made, source, ledger)
    today = datetime.now().astimezone().date()
    named = source.description if by_engine else Path(args.file).name
    about = {"delta": delta, "data": named, "column": _column_names(args), "day": today}
    _write(release, out, report, render, about, args.force)
    cost = {**cost, "statement": release.statement(delta)}
    files = {"release": str(out)} | ({} if report is None else {"report": str(report)})
    if args.json:
        drawn = {name: _summary(array) for name, array in release.draws.items()}
        print_json({"command": "release", **mechanism_document(made, goal), "draws": drawn, **cost, "files": files})
        return 0
    page = Console()
    page.facts(mechanism_facts(made, goal))
    head, rows = _draws_table(release, args)
    if rows:
        page.table("Draws", head, rows, numbers=range(1, len(head)))
    else:
        page.text("Nothing was drawn: the random number of repetitions was 0.")
    show_costs(page, made, cost)
    page.paragraph("To publish beside the release", cost["statement"])
    page.paragraph("Written", "\n".join(files.values()))
    return 0


def _mechanism(args: Namespace, fields: dict[str, Any], groups: Groups | None) -> Mechanism:
    """Return the mechanism, for all groups if there are any. Raises: UsageProblem."""
    if groups is None:
        return build.mechanism(args, fields, limit_needed=True)
    return groups.around(build.mechanism(args, fields, limit_needed=True, account=groups.account))


def _write_tally(args: Namespace, fields: dict[str, Any], groups: Groups | None) -> int:
    """Write the tally of the data. Raises: UsageProblem, DataProblem."""
    for name in ("out", "report", "ledger", "public_data"):
        if getattr(args, name) is not None:
            raise UsageProblem(
                f"--{name.replace('_', '-')} must be left out with --tally-out: nothing is drawn; give it with --tally"
            )
    out = _path(args.tally_out, (".arrow",), "--tally-out", force=args.force)
    source = Query(args, fields, groups)
    _check_not_inputs((("--tally-out", out),), args)
    tally = source.tally(_mechanism(args, fields, groups))
    try:
        tally.save(out, force=args.force)
    except OSError as error:
        raise UsageProblem(f"{out} could not be written ({error.strerror or error}); no output was written") from None
    warn_curator(
        f"{out} holds the exact statistic of the data and is as private as they are: its owner alone may read it, and "
        "it must not be published. Nothing was drawn and nothing was charged; --tally draws from it"
    )
    if args.json:
        print_json({"command": "release", "files": {"tally": str(out)}, "for_the_curator_only": True})
    return 0


def _from_file(args: Namespace, made: Mechanism, source: data.Source, ledger: Ledger | None) -> Release:
    """Draw from the records of one file, which are checked first. Raises: UsageProblem, DataProblem."""
    size = getattr(made, "n", None)
    found = problems(made, source, size, args.progress)
    if nothing := describe_unread(source, made):
        raise DataProblem(f"{nothing}; nothing was drawn or written")
    if any(found.values()):
        _continue_or_refuse(args, describe_problems(found, source, made))
    with progress("reading and drawing", size, args.progress) as advance, source.reading(advance) as records:
        return _released(made, records, ledger)


def _released(made: Mechanism, records: Any, ledger: Ledger | None) -> Release:
    return made.release(records) if ledger is None else release_with_ledger(ledger, made, records)


def _outputs(args: Namespace) -> tuple[Path, Path | None, Callable[..., str] | None]:
    """Return the output paths and the function that renders the report. Raises: UsageProblem."""
    if args.out is None:
        raise UsageProblem(
            "--out is missing: give the file of the release, .nc or .json (see privsample release --help)"
        )
    out = _path(args.out, (".json", ".nc"), "--out", force=args.force)
    if out.suffix == ".nc":
        try:
            netcdf_engine()
        except MissingPackage as error:
            raise UsageProblem(f"{error}; or give --out a .json name") from None
    if args.report is None:
        return out, None, None
    report = _path(args.report, (".html",), "--report", force=args.force)
    for package in ("jinja2", "matplotlib"):
        require(package, "report", "--report")
    from privsample.simulations.report.page import render

    return out, report, render


def _path(text: str, endings: tuple[str, ...], option: str, *, force: bool) -> Path:
    try:
        path = writable(text, force=force, endings=endings)
    except (OSError, ValueError) as error:
        raise UsageProblem(f"{option}: {error}") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageProblem(f"{option}: {path} cannot be written; choose another folder or name")
    return path


def _check_not_inputs(outputs: Sequence[tuple[str, Path | None]], args: Namespace) -> None:
    """Refuse an output that would overwrite an input file. Raises: UsageProblem."""
    given = (args.file, args.public_data, args.ledger, args.keys, args.sizes, *(args.tally or ()))
    paths = [Path(path) for path in given if path is not None]
    for option, written in outputs:
        if written is not None and written.exists() and any(_exists(path) and written.samefile(path) for path in paths):
            raise UsageProblem(
                f"{option}: {written} is an input of this command and would be overwritten; choose another name"
            )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a list of keys that is too long for a name
        return False


def _with_public_data(args: Namespace, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the prior of the model or mechanism updated by the public file. Raises: UsageProblem."""
    name = field_of_kind(args.kind, Model)
    owner: Any = fields[name] if name is not None else build.any_mechanism(args, fields)
    if not hasattr(owner, "with_public_data"):
        raise UsageProblem(
            f"--public-data updates a prior, and --mechanism {args.mechanism} has none; leave --public-data out"
        )
    column = data.open_source(args, fields, args.public_data)
    if args.file is not None and column.path.samefile(args.file):
        raise UsageProblem("--public-data is the private file itself; give a file of public data")
    if isinstance(column, Column):
        found = public_problems(owner.domain, column)
        if nothing := describe_unread(column, owner):
            raise DataProblem(f"{nothing}; nothing was drawn or written")
        if any(found.values()):
            _continue_or_refuse(args, describe_problems(found, column, owner, "the public "))
    with column.reading() as records:
        richer = owner.with_public_data(records)
    return fields | ({name: richer} if name is not None else {key: getattr(richer, key) for key in fields})


def _continue_or_refuse(args: Namespace, words: str) -> None:
    if not args.clip:
        raise DataProblem(
            f"{words}; nothing was drawn or written. Correct the file, or give --clip to apply the public rule"
        )
    warn_curator(f"{words}; the public rule was applied (--clip). This message is for the curator only")


def _write(
    release: Release,
    out: Path,
    report: Path | None,
    render: Callable[..., str] | None,
    about: Mapping[str, Any],
    force: bool,
) -> None:
    """Write the release, and its report with the facts `about` it. Raises: UsageProblem, Interrupted."""
    try:
        release.save(out, force=force)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the release was drawn, and {_keep_elsewhere(release, out)}") from None
    except Exception as error:  # noqa: BLE001 (the release was drawn, and must not be lost by any error)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else type(error).__name__
        kept = _keep_elsewhere(release, out)
        raise UsageProblem(f"{out} could not be written ({reason}); the release was drawn, and {kept}") from None
    if report is None or render is None:
        return
    try:
        write_whole(report, render([release], **about))
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; the release is in {out}, its report was not written") from None
    except Exception as error:  # noqa: BLE001 (the release is written; the message must say so for any error)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else type(error).__name__
        raise UsageProblem(f"the release is in {out}, but its report could not be written ({reason})") from None


def _keep_elsewhere(release: Release, out: Path) -> str:
    """Write a release that was drawn to another place, and say where it is."""
    spare = Path(tempfile.gettempdir()) / f"{out.stem[:100]}-{secrets.token_hex(8)}.json"
    try:
        release.save(spare)
    except OSError:
        sys.stdout.write(release.to_json() + "\n")
        return "as no other file could be written, its JSON is printed on standard output"
    return f"is kept in {spare}"


def _column_names(args: Namespace) -> str:
    columns = [args.column] if args.column is not None else [*(args.columns or ())]
    return ", ".join([*columns, *([f"{args.label} (label)"] if args.label is not None else [])])


def _summary(array: Any) -> dict[str, Any]:
    if array.size > _MOST_NUMBERS * len(array):
        return {"count": len(array), "shape": array.shape[1:]}
    return {"count": len(array), "mean": array.mean(0), "std": array.std(0), "min": array.min(0), "max": array.max(0)}


def _draws_table(release: Release, args: Namespace) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return head and rows of a table with each draw, or with summaries if there are many draws."""
    series: dict[str, Any] = {}
    more = 0
    for name, array in release.draws.items():
        labels = release._names.get(name) or getattr(args, "categories", None) if array.ndim == 2 else None
        if labels and len(labels) != array.shape[1]:
            labels = None
        places = list(np.ndindex(array.shape[1:]))
        more += max(len(places) - _MOST_ROWS, 0)
        for place in places[:_MOST_ROWS]:
            shown = labels[place[0]] if labels else ",".join(map(str, place))
            series[f"{name}[{shown}]" if place else name] = array[(slice(None), *place)]
    mechanism = release.mechanism
    if isinstance(mechanism, BetaQuery):
        low, high = mechanism.bounds
        series[f"mean of {args.column}"] = low + (high - low) * release[mechanism.parameter]
    count = max(map(len, series.values()), default=0)
    if count <= _MOST_DRAWS:
        head = ("", *(f"draw {i + 1}" for i in range(count)))
        rows = [[key, *(f"{x:.6g}" for x in values)] for key, values in series.items()]
    else:
        head = ("", "mean", "standard deviation", "minimum", "maximum")
        rows = [[key, *(f"{x:.6g}" for x in (v.mean(), v.std(), v.min(), v.max()))] for key, v in series.items()]
    if more:
        rows.append([f"and {more} more", *[""] * (len(head) - 1)])
    return head, rows
