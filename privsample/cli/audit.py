"""`privsample audit`: try to refute the accounts of the library by Monte Carlo simulation."""

from argparse import SUPPRESS, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from privsample.cli import build
from privsample.cli.build import usage_errors
from privsample.cli.choice import add_mechanism
from privsample.cli.errors import CliError, UsageProblem, require, require_known
from privsample.cli.options import add_json, add_target, number, seed, whole_number
from privsample.cli.output import (
    Console,
    check_tables,
    ignore_broken_pipe,
    item_progress,
    print_json,
    print_note,
    round_down,
)
from privsample.cli.parallel import add_jobs, parallel
from privsample.cli.reproduce import empty_folder
from privsample.mechanisms.base import Mechanism

ABOUT = "try to refute the accounts by drawing from neighbouring datasets"
DESCRIPTION = """\
Draw from two neighbouring datasets, the worst pair that is known for the mechanism, and try to refute the privacy
guarantee that the mechanism claims. An audit can refute a claim; it cannot prove one. No file is read. NAME is the
name of an example; --mechanism audits a mechanism with the given options. To audit your own function, call
privsample.audit in Python; for a training procedure that cannot be repeated, privsample.audit_one_run."""
EXAMPLE = """\
example:
  privsample audit laplace beta-posterior
  privsample audit --mechanism gaussian --sensitivity 1 --noise-std 2 \\
      --samples 20000

A broken copy, which must be refuted: privsample audit laplace --mutant
The bits of the outputs: privsample audit laplace-sum --view bits
An audit that stops when it refutes the claim, and that can be interrupted:
  privsample audit laplace --sequential --state laplace.audit
All examples, with a figure: privsample audit --all --jobs 2 --out audits
List of names: privsample audit --list"""


_SAMPLES = 20_000  # default number of draws from each dataset with --mechanism
_READING = """\
claimed, at least: the claimed delta at this epsilon, and a lower confidence bound on the true delta.
p: p-value of the test of the claim, rounded up. CONSISTENT does not prove the claim.
draws: number of evaluation draws from each of the two neighbouring datasets."""

_SEQUENTIAL_READING = """\
scale above: the claimed epsilons would have to be multiplied by more than this to be true.
p: the inverse of the largest wealth of the bets, valid at every time. CONSISTENT does not prove the claim.
draws: number of draws from each of the two neighbouring datasets, after which the audit stopped."""


class Refuted(CliError):
    """An audit refuted a claim."""

    code = 1


def add(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples to audit")
    parser.add_argument("--all", action="store_true", help="audit all examples of every mechanism")
    parser.add_argument("--list", action="store_true", help="print the names of all examples and exit")
    parser.add_argument(
        "--mutant", action="store_true", help="audit the mutants (deliberately broken copies), which must be refuted"
    )
    parser.add_argument("--twin", dest="mutant", action="store_true", help=SUPPRESS)  # former name of --mutant
    parser.add_argument(
        "--samples",
        type=whole_number,
        metavar="N",
        help="number of draws from each dataset (default: enough to refute the mutant; 20000 with --mechanism)",
    )
    parser.add_argument(
        "--level", type=number, default=1e-6, metavar="P", help="probability of refuting a true claim (default: 1e-6)"
    )
    parser.add_argument(
        "--view",
        choices=("outputs", "bits", "time"),
        default="outputs",
        help="audit the outputs as real numbers, the bits of the outputs, or the time of a release (default: outputs)",
    )
    parser.add_argument(
        "--sequential",
        action="store_true",
        help="bet against the claim after every draw, and stop as soon as it is refuted; --samples is the maximum",
    )
    parser.add_argument(
        "--state", metavar="FILE", help="with --sequential: continue the audit in this file, or start it there"
    )
    parser.add_argument("--seed", type=seed, metavar="SEED", help="seed of the simulations, for reproducible audits")
    parser.add_argument("--out", metavar="DIR", help="write audits.png and audits.csv to this folder")
    parser.add_argument(
        "--force",
        action="store_true",
        help="write to a folder that contains files; files of the same name are replaced",
    )
    add_mechanism(parser, required=False, words="instead of NAME: audit this mechanism")
    add_target(parser)
    add_jobs(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """List the examples, or run audits, print the verdicts and write the files. Raises: Refuted, UsageProblem."""
    _check_options(args)
    check_tables(args)
    from privsample.simulations.audit.batch import AuditResult, run_audits

    names = _names(args) if args.mechanism is None else [args.mechanism]
    if args.list:
        _print_list(names, args)
        return 0
    if args.out is not None:
        require("matplotlib", "report", "--out")
    folder = None if args.out is None else empty_folder(args.out, "--out", force=args.force)
    options = {name: getattr(args, name) for name in ("seed", "mutant", "samples", "level", "view")}
    options |= _sequential_options(args)
    own = None if args.mechanism is None else build.mechanism(args, build.fields(args), limit_needed=False)
    done: list[AuditResult] = []
    try:
        with usage_errors(), parallel(args), item_progress("audit", names) as bar:
            for one in run_audits(names, **options) if own is None else _audit_described_mechanism(own, args):
                done.append(one)
                bar.complete()
                if args.all and not args.json and not bar.is_shown:
                    print_note(f"{one.name}: {one.verdict.outcome} ({one.seconds:.1f} s, {len(done)} of {len(names)})")
    except OSError as error:
        if args.state is None:
            raise
        raise UsageProblem(f"--state: {error}") from None
    finally:  # completed audits are written and printed even if a later one failed or was interrupted
        if done:
            files = () if folder is None else _write_files(done, folder)
            with ignore_broken_pipe():  # the exit code reports the outcome in any case
                _print_results(done, args)
                if not args.json:
                    print(*(f"{file}\n" for file in files), sep="", end="")
    violated = [one.name for one in done if one.verdict.violated]
    if violated:
        raise Refuted(f"VIOLATED: {len(violated)} of {len(done)} claims were refuted: {', '.join(violated)}")
    return 0


def _check_options(args: Namespace) -> None:
    """Raise UsageProblem unless exactly one of NAME, --mechanism, --all and --list is given."""
    if bool(args.names) + args.all + args.list + (args.mechanism is not None) != 1:
        raise UsageProblem("give names of examples, or --mechanism, or --all, or --list (see privsample audit --help)")
    if args.mutant and args.mechanism is not None:
        raise UsageProblem(
            "--mutant audits broken copies of the examples, and --mechanism is not an example: leave --mutant out"
        )

    if args.sequential and args.out is not None:
        raise UsageProblem("--out draws the bounds of audits of a fixed size: leave out --out or --sequential")
    if args.sequential and args.view == "time":
        raise UsageProblem("--view time has no sequential audit: leave out --sequential")
    if args.state is not None and not args.sequential:
        raise UsageProblem("--state needs --sequential: other audits make all draws at once")
    if args.state is not None and (args.all or len(set(args.names)) > 1):
        raise UsageProblem("--state holds one audit: give one NAME, or --mechanism")


def _sequential_options(args: Namespace) -> dict[str, Any]:
    """Options of `audit` for --sequential and --state."""
    return {"sequential": True, "state": args.state} if args.sequential else {}


def _tested_point(verdict: Any) -> tuple[str, str, str]:
    """Cells of the tested epsilon, the claimed delta and its lower bound; dashes if both deltas are 0."""
    if verdict.claim == verdict.lower == 0.0:
        return "-", "-", "-"
    return f"{verdict.epsilon:.3g}", f"{verdict.claim:.3g}", f"{verdict.lower:.3g}"


def _empirical_epsilon(verdict: Any) -> tuple[str, str, str]:
    """Cells of the empirical epsilon, the claimed epsilon, and their delta; dashes if both epsilons are 0."""
    if verdict.empirical_epsilon == verdict.claimed_epsilon == 0.0:
        return "-", "-", "-"
    return round_down(verdict.empirical_epsilon), f"{verdict.claimed_epsilon:.3g}", f"{verdict.empirical_delta:.3g}"


def _audit_described_mechanism(mechanism: Mechanism, args: Namespace) -> Iterator[Any]:
    """Audit the mechanism that the command line describes."""
    from privsample.simulations.audit.audit import audit
    from privsample.simulations.audit.batch import AuditResult

    start = perf_counter()
    rng = np.random.default_rng(args.seed)
    settings: dict[str, Any] = {"samples": args.samples or _SAMPLES, "level": args.level, "rng": rng}
    settings |= {"view": args.view, **_sequential_options(args)}
    verdict = audit(mechanism, **settings)
    yield AuditResult(name=args.mechanism, verdict=verdict, seconds=perf_counter() - start)


def _names(args: Namespace) -> list[str]:
    """Return the requested examples without duplicates. Raises: UsageProblem."""
    from privsample.simulations.audit.catalogue import catalogue

    known = catalogue()
    require_known("example", args.names, known, "privsample audit --list")
    return list(dict.fromkeys(args.names)) or list(known)


def _print_list(names: Sequence[str], args: Namespace) -> None:
    from privsample.simulations.audit.catalogue import catalogue

    known = catalogue()
    rows = [(name, type(known[name].mechanism).__name__, known[name].bug) for name in names]
    if args.json:
        keys = ("name", "mechanism", "bug")
        print_json({"command": "audit", "examples": [dict(zip(keys, row, strict=True)) for row in rows]})
    else:
        Console().table("Examples and their mutants", ("name", "mechanism", "bug of the mutant"), rows)


def _write_files(done: Sequence[Any], folder: Path) -> tuple[Path, Path]:
    """Write the figure and the table to the folder and return their paths. Raises: UsageProblem."""
    from privsample.simulations.audit.figure import audits_figure

    try:
        picture, numbers, _ = audits_figure(done).write(folder)
    except OSError as error:
        raise UsageProblem(f"--out: {folder} could not be written ({error.strerror or error})") from None
    return picture, numbers


def _print_results(done: Sequence[Any], args: Namespace) -> None:
    """Print a table of the audits, then the statements of all if there are at most 3, else of the notable ones.

    Notable are unexpected outcomes and audits with too few draws to refute any claim.
    """
    if args.json:
        found = [{"name": o.name, "outcome": o.verdict.outcome, "seconds": o.seconds} | asdict(o.verdict) for o in done]
        print_json({"command": "audit", "mutants": args.mutant, "audits": found})
        return
    console = Console()
    title = (
        "Mutants, tested against the accounts of the mechanisms"
        if args.mutant
        else "Mechanisms, tested against their accounts"
    )
    if args.sequential:
        _print_sequential(console, title, done)
        return
    rows = [
        (
            one.name,
            one.verdict.outcome,
            f"{one.verdict.p_value:.2g}",
            *_tested_point(one.verdict),
            f"{one.verdict.samples:,}",
            f"{one.seconds:.1f}",
        )
        for one in done
    ]
    columns = ("name", "outcome", "p", "epsilon", "claimed", "at least", "draws", "secs")
    console.table(title, columns, rows, numbers=range(2, 8))
    if len(done) > 3:
        epsilons = [(one.name, *_empirical_epsilon(one.verdict)) for one in done]
        epsilon_columns = ("name", "epsilon at least", "claimed", "at delta")
        console.table("Empirical epsilon, compared with the claim", epsilon_columns, epsilons, numbers=range(1, 4))
    for one in done:
        if len(done) <= 3 or one.verdict.violated != args.mutant or one.verdict.samples < one.verdict.needed:
            console.paragraph(one.name, one.verdict.statement)
    if len(done) > 3:
        console.paragraph("How to read this", _READING)


def _print_sequential(console: Console, title: str, done: Sequence[Any]) -> None:
    """Print a table of sequential audits, and the statements of all if there are at most 3."""
    rows = [
        (
            one.name,
            one.verdict.outcome,
            f"{one.verdict.p_value:.2g}",
            round_down(one.verdict.scale),
            f"{one.verdict.samples:,}",
            f"{one.verdict.maximum:,}",
            f"{one.seconds:.1f}",
        )
        for one in done
    ]
    columns = ("name", "outcome", "p", "scale above", "draws", "at most", "secs")
    console.table(title, columns, rows, numbers=range(2, 7))
    if len(done) <= 3:
        for one in done:
            console.paragraph(one.name, one.verdict.statement)
    else:
        console.paragraph("How to read this", _SEQUENTIAL_READING)
