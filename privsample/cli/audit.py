"""`privsample audit`: try to refute the accounts of this library by Monte Carlo."""

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
from privsample.cli.output import Console, check_tables, ignore_broken_pipe, print_json, progress, round_down
from privsample.cli.parallel import add_jobs, parallel
from privsample.cli.reproduce import empty_folder
from privsample.mechanisms.base import Mechanism

ABOUT = "try to refute the accounts by drawing from neighbouring datasets"
DESCRIPTION = """\
Draw from two neighbouring datasets, chosen as bad as they are known to be, and try to refute what a mechanism
says it costs. An audit can refute a claim; it cannot prove one. No file is read. Names are those of examples;
--mechanism audits a mechanism with options of its own. To audit a function of your own, call privsample.audit in
Python."""
EXAMPLE = """\
example:
  privsample audit laplace beta-posterior
  privsample audit --mechanism gaussian --sensitivity 1 --noise-std 2 \\
      --samples 20000

One that is broken on purpose, to see it caught: audit laplace --mutant
All of them, with a picture: privsample audit --all --jobs 2 --out audits
All names: privsample audit --list"""


_SAMPLES = 20_000  # from each dataset, for a mechanism with options of its own
_READING = """\
claimed, at least: delta at this epsilon, as it is claimed and as the draws prove it.
p: such draws are at most this likely, if the claim is true. CONSISTENT is no proof that it is.
draws: from each of two neighbouring datasets, those that the verdict rests on."""


class Refuted(CliError):
    """A claim was refuted."""

    code = 1


def add(parser: Any) -> None:
    """The command's options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="which mechanisms to audit")
    parser.add_argument("--all", action="store_true", help="audit an example of every mechanism")
    parser.add_argument("--list", action="store_true", help="print the names, and audit none")
    parser.add_argument("--mutant", action="store_true", help="audit the mutants (broken copies), which must be caught")
    parser.add_argument("--twin", dest="mutant", action="store_true", help=SUPPRESS)  # its former name
    parser.add_argument(
        "--samples",
        type=whole_number,
        metavar="N",
        help="draws from each dataset (default: what the mutant is caught with; 20000 with --mechanism)",
    )
    parser.add_argument(
        "--level", type=number, default=1e-6, metavar="P", help="the chance of refuting a true claim (default: 1e-6)"
    )
    parser.add_argument("--seed", type=seed, metavar="SEED", help="repeat the same audits")
    parser.add_argument("--out", metavar="DIR", help="a folder for audits.png and audits.csv")
    parser.add_argument("--force", action="store_true", help="write to a folder that holds files; same names go")
    add_mechanism(parser, required=False, words="in place of names: the mechanism of these options")
    add_target(parser)
    add_jobs(parser)
    add_json(parser)


def run(args: Namespace) -> int:
    """Print the list, or audit, print and write. Raises: Refuted."""
    if bool(args.names) + args.all + args.list + (args.mechanism is not None) != 1:
        raise UsageProblem(
            "give names of mechanisms, or --mechanism, or --all, or --list (see privsample audit --help)"
        )
    if args.mutant and args.mechanism is not None:
        raise UsageProblem("--mutant audits the broken copies of the examples: leave it out, or give names")
    check_tables(args)
    from privsample.simulations.audit.batch import AuditResult, run_audits

    names = _names(args) if args.mechanism is None else [args.mechanism]
    if args.list:
        _print_list(names, args)
        return 0
    if args.out is not None:
        require("matplotlib", "report", "--out")
    folder = None if args.out is None else empty_folder(args.out, "--out", force=args.force)
    options = {"seed": args.seed, "mutant": args.mutant, "samples": args.samples, "level": args.level}
    own = None if args.mechanism is None else build.mechanism(args, build.fields(args), limit_needed=False)
    done: list[AuditResult] = []
    try:
        with usage_errors(), parallel(args), progress(f"{len(names)} audits", len(names), None) as advance:
            for one in run_audits(names, **options) if own is None else _audit_described_mechanism(own, args):
                done.append(one)
                advance(1)
    finally:  # what was done is kept and told also where the rest failed or was stopped
        if done:
            files = () if folder is None else _write_files(done, folder)
            with ignore_broken_pipe():  # the exit code says what was found all the same
                _print_results(done, args)
                if not args.json:
                    print(*(f"{file}\n" for file in files), sep="", end="")
    violated = [one.name for one in done if one.verdict.violated]
    if violated:
        raise Refuted(f"VIOLATED: {len(violated)} of {len(done)} claims were refuted: {', '.join(violated)}")
    return 0


def _tested_point(verdict: Any) -> tuple[str, str, str]:
    """Where on the curve, the claim and the limit there; a claim of 0 beside a limit of 0 tells nothing."""
    if verdict.claim == verdict.lower == 0.0:
        return "-", "-", "-"
    return f"{verdict.epsilon:.3g}", f"{verdict.claim:.3g}", f"{verdict.lower:.3g}"


def _empirical_epsilon(verdict: Any) -> tuple[str, str, str]:
    """The empirical epsilon, the claimed one, and the delta of both."""
    return round_down(verdict.empirical_epsilon), f"{verdict.claimed_epsilon:.3g}", f"{verdict.empirical_delta:.3g}"


def _audit_described_mechanism(mechanism: Mechanism, args: Namespace) -> Iterator[Any]:
    """The audit of a mechanism that the command line describes, with the options given."""
    from privsample.simulations.audit.audit import audit
    from privsample.simulations.audit.batch import AuditResult

    start = perf_counter()
    rng = np.random.default_rng(args.seed)
    settings: dict[str, Any] = {"samples": args.samples or _SAMPLES, "level": args.level, "rng": rng}
    verdict = audit(mechanism, **settings)
    yield AuditResult(name=args.mechanism, verdict=verdict, seconds=perf_counter() - start)


def _names(args: Namespace) -> list[str]:
    """The examples that are meant, each once. Raises: UsageProblem."""
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
    """The picture and the table, written into the folder. Raises: UsageProblem."""
    from privsample.simulations.experiments.audits import audits_experiment

    try:
        picture, numbers, _ = audits_experiment(done).write(folder)
    except OSError as error:
        raise UsageProblem(f"--out: {folder} could not be written ({error.strerror or error})") from None
    return picture, numbers


def _print_results(done: Sequence[Any], args: Namespace) -> None:
    """A row for each, then what the verdicts say where they are few, a claim fell or the draws were too few."""
    if args.json:
        found = [{"name": o.name, "outcome": o.verdict.outcome, "seconds": o.seconds} | asdict(o.verdict) for o in done]
        print_json({"command": "audit", "mutants": args.mutant, "audits": found})
        return
    console = Console()
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
    head = ("name", "outcome", "p", "epsilon", "claimed", "at least", "draws", "secs")
    title = "Mutants, held to the accounts of the mechanisms" if args.mutant else "Mechanisms, held to their accounts"
    console.table(title, head, rows, numbers=range(2, 8))
    if len(done) > 3:
        certified = [(one.name, *_empirical_epsilon(one.verdict)) for one in done]
        names = ("name", "epsilon, at least", "claimed", "at delta")
        console.table("What the draws certify of epsilon, beside the claim", names, certified, numbers=range(1, 4))
    for one in done:
        if len(done) <= 3 or one.verdict.violated != args.mutant or one.verdict.samples < one.verdict.needed:
            console.paragraph(one.name, one.verdict.statement)
    if len(done) > 3:
        console.paragraph("How to read this", _READING)
