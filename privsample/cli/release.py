"""`privsample release`: draw from a file's posterior, write the draws with their account, and say what they cost."""

import os
from argparse import Namespace
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from privsample._data import chunks
from privsample.cli import build
from privsample.cli.account import costs, described, named, show_costs
from privsample.cli.errors import DataProblem, Interrupted, UsageProblem, require
from privsample.cli.files import Column
from privsample.cli.ledger import opened, released
from privsample.cli.options import add_draws, add_file, add_mechanism, add_model, add_target
from privsample.cli.output import Page, check_tables, print_json, progress
from privsample.cli.validate import in_words, problems, public_problems, tell_curator
from privsample.distributions.models.base import Model
from privsample.mechanisms.posterior.conjugate import BetaQuery
from privsample.mechanisms.release import Release, writable, write_whole

ABOUT = "draw from the posterior of a file, and write the draws with their account"
DESCRIPTION = """\
Draw from the posterior of one column of a file, with noise from the operating system, and write the
draws together with what they cost. The file is checked first: if records are missing or out of range,
nothing is drawn unless --clip is given, which goes on by the public rule (a missing record counts as
the default, one out of range as the nearer bound, a fraction as the nearest whole number)."""
EXAMPLE = """\
example:
  privsample release patients.csv --column success --n 1000 --unit patient \\
      --model beta-bernoulli --prior 6,12 --mechanism diffused \\
      --epsilon 1 --delta 1e-6 --draws 4 --out posterior.nc --report report.html"""
_MOST_ROWS, _MOST_DRAWS = 20, 4


def add(parser: Any) -> None:
    """The command's options."""
    add_file(parser)
    add_model(parser)
    add_mechanism(parser)
    add_target(parser)
    group = parser.add_argument_group("the outputs")
    group.add_argument("--out", required=True, metavar="PATH", help="the release: .nc (netCDF for ArviZ) or .json")
    group.add_argument("--report", metavar="PATH", help="a page to read, .html")
    group.add_argument("--force", action="store_true", help="replace outputs that exist")
    parser.add_argument(
        "--public-data", metavar="FILE", help="a public file with the same column, folded into the prior for free"
    )
    parser.add_argument("--ledger", metavar="FILE", help="a budget: what fits is written down there before the draw")
    parser.add_argument("--clip", action="store_true", help="go on by the public rule where records have problems")
    add_draws(parser)


def run(args: Namespace) -> int:
    """Build, check, validate, draw, write: in this order, so that nothing is spent on a mistake."""
    check_tables(args)
    family = build.model(args)
    goal, delta = build.target(args), build.stated_delta(args)
    out, report, render = _outputs(args)
    ledger = None if args.ledger is None else opened(args.ledger)
    column = Column(args.file, args.column, categories=args.categories or (), separator=args.separator)
    if args.public_data is not None:
        family = _with_public_data(args, family)
    made = build.mechanism(args, family, limit_needed=True)
    cost = costs(made.accountant, goal, delta)
    found = problems(made, column, args.progress)
    if any(found.values()):
        _go_on_or_stop(args, f"column {args.column!r} of {column.path.name} has {in_words(found, made.domain)}")
    with progress("reading and drawing", made.n, args.progress) as advance, column.reading(advance):
        release = made.release(column) if ledger is None else released(ledger, made, column)
    _write(release, out, report, render, delta, args.force)
    files = {"release": str(out)} | ({} if report is None else {"report": str(report)})
    if args.json:
        drawn = {name: _summary(array) for name, array in release.draws.items()}
        print_json({"command": "release", **described(made, goal), "draws": drawn, **cost, "files": files})
        return 0
    page = Page()
    page.facts(named(made, goal))
    head, rows = _drawn(release, args)
    page.table("The draws", head, rows, numbers=range(1, len(head)))
    show_costs(page, made, cost)
    page.paragraph("To publish beside the release", cost["statement"])
    page.paragraph("Written", "\n".join(files.values()))
    return 0


def _outputs(args: Namespace) -> tuple[Path, Path | None, Callable[..., str] | None]:
    """The paths, and what renders the report. Raises: UsageProblem."""
    out = _path(args.out, (".json", ".nc"), "--out", force=args.force)
    if out.suffix == ".nc" and not (find_spec("netCDF4") or (find_spec("h5netcdf") and find_spec("h5py"))):
        raise UsageProblem("writing .nc needs h5netcdf: pip install 'privsample[netcdf]'; or give --out a .json name")
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


def _with_public_data(args: Namespace, family: Model) -> Model:
    """The model with the public file folded into its prior."""
    column = Column(args.public_data, args.column, categories=args.categories or (), separator=args.separator)
    if column.path.samefile(args.file):
        raise UsageProblem(
            "--public-data is the private file itself; only data that everybody may see can be folded in"
        )
    query = BetaQuery(alpha=1.0, beta=1.0, bounds=args.bounds, n=1) if build.is_query(args) else None
    domain = family.domain if query is None else query.domain
    found = public_problems(domain, column)
    if any(found.values()):
        _go_on_or_stop(args, f"column {args.column!r} of the public {column.path.name} has {in_words(found, domain)}")
    with column.reading():
        if query is None:
            return family.with_public_data(column)
        low, high = query.bounds
        shares = ((domain.clean(chunk).astype(np.float64) - low) / (high - low) for chunk in chunks(column))
        sums = [(float(share.sum()), len(share)) for share in shares]
    return family.absorb(np.asarray(sum(total for total, _ in sums)), sum(count for _, count in sums))


def _go_on_or_stop(args: Namespace, words: str) -> None:
    if not args.clip:
        raise DataProblem(
            f"{words}; nothing was drawn or written. Mend the file, or give --clip to go on by the public rule"
        )
    tell_curator(f"{words}; going on by the public rule (--clip). This line is for the curator only")


def _write(
    release: Release, out: Path, report: Path | None, render: Callable[..., str] | None, delta: float, force: bool
) -> None:
    try:
        release.save(out, force=force)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageProblem(f"{out} could not be written ({reason}); no output was written") from None
    if report is None or render is None:
        return
    try:
        write_whole(report, render([release], delta=delta))
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; the release is in {out}, its report was not made") from None
    except Exception as error:  # noqa: BLE001 (the release is written: whatever failed, say so)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else type(error).__name__
        raise UsageProblem(f"the release is in {out}, but its report could not be made ({reason})") from None


def _summary(array: Any) -> dict[str, Any]:
    return {"count": len(array), "mean": array.mean(0), "std": array.std(0), "min": array.min(0), "max": array.max(0)}


def _drawn(release: Release, args: Namespace) -> tuple[tuple[str, ...], list[list[str]]]:
    """Head and rows of a table: each draw where they are few, else their summary."""
    ((name, array),) = release.draws.items()
    series = {name: array}
    if array.ndim == 2:
        labels = args.categories or range(array.shape[1])
        series = {f"{name}[{label}]": array[:, i] for i, label in enumerate(labels) if i < _MOST_ROWS}
    elif build.is_query(args):
        low, high = args.bounds
        series[f"mean of {args.column}"] = low + (high - low) * array
    if len(array) <= _MOST_DRAWS:
        head = ("", *(f"draw {i + 1}" for i in range(len(array))))
        rows = [[key, *(f"{x:.6g}" for x in values)] for key, values in series.items()]
    else:
        head = ("", "mean", "standard deviation", "least", "greatest")
        rows = [[key, *(f"{x:.6g}" for x in (v.mean(), v.std(), v.min(), v.max()))] for key, v in series.items()]
    if array.ndim == 2 and array.shape[1] > _MOST_ROWS:
        rows.append([f"and {array.shape[1] - _MOST_ROWS} more", *[""] * (len(head) - 1)])
    return head, rows
