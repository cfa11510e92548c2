"""The command line interface `privsample`."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType

from privsample._optional import MissingPackage
from privsample.cli.errors import CliError, DataProblem, Interrupted, UsageProblem
from privsample.cli.options import Parser, join_negative_values
from privsample.errors import LargeDeltaWarning, SchemaError

_COMMANDS = (
    "release",
    "account",
    "compare",
    "validate",
    "mechanisms",
    "ledger",
    "audit",
    "reproduce",
    "verify",
    "completion",
)
_DESCRIPTION = """\
Differentially private draws from Bayesian posteriors, noisy statistics and other private releases, each
with an exact account of its privacy cost. Use `compare` to choose a mechanism, `account` to compute its
privacy cost and `validate` to check the file; none of these releases anything. Then use `release`."""
_INTERRUPTED = "interrupted; every output file that exists is complete"
_EXAMPLE = """\
example: success rate of a treatment, four posterior draws, 1000 patients
  privsample compare --n 1000 --model beta-bernoulli --prior 6,12 \\
      --epsilon 1 --delta 1e-6
  privsample validate patients.csv --column success --n 1000 \\
      --model beta-bernoulli --prior 6,12
  privsample release patients.csv --column success --n 1000 --unit patient \\
      --model beta-bernoulli --prior 6,12 --mechanism diffused \\
      --epsilon 1 --delta 1e-6 --draws 4 --out posterior.nc --report report.html

exit codes: 0 success; 1 invalid data, or a claim is refuted; 2 invalid
command line, or an error of the system; 130 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Every error is one line on standard error and contains no record."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:
        return _print_error("standard output is closed; the command did nothing", UsageProblem.code)
    _open_standard_error()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with _noted_interrupts() as interrupts:
        return _guarded(words, interrupts)


def _guarded(words: list[str], interrupts: list[int]) -> int:
    """Run the command and return its exit code, also after any error; `interrupts` grows with each Ctrl-C."""
    try:
        with _cautions_in_one_line():
            code = _run(words)
        sys.stdout.flush()
        return code
    except (CliError, MissingPackage) as error:
        return _print_error(str(error), getattr(error, "code", UsageProblem.code))
    except SchemaError as error:  # its messages contain public information only
        return _print_error(str(error), DataProblem.code)
    except KeyboardInterrupt:
        return _print_error(_INTERRUPTED, Interrupted.code)
    except OSError as error:
        return _handle_output_error(error)
    except MemoryError:
        return _print_error("out of memory", UsageProblem.code)
    except Exception as error:  # noqa: BLE001 (a message or traceback could contain a record)
        if interrupts:  # an import that is stopped raises ImportError
            return _print_error(_INTERRUPTED, Interrupted.code)
        where = f"{type(error).__name__} inside privsample"
        return _print_error(f"{where}; this is a bug; please report the command without its data", UsageProblem.code)


def _open_standard_error() -> None:
    """Discard what is printed on a standard error that is closed.

    The next file to be opened would have its number otherwise, and messages of other libraries would be written to it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (until the process ends)


@contextmanager
def _noted_interrupts() -> Iterator[list[int]]:
    """Note each Ctrl-C in the list that is yielded, and raise KeyboardInterrupt as ever."""
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _cautions_in_one_line() -> Iterator[None]:
    """Print each distinct warning of a large delta once, in one line on standard error."""
    shown: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", LargeDeltaWarning)
        show_other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: object) -> None:
            if not issubclass(category, LargeDeltaWarning):
                show_other(message, category, *where)  # type: ignore[arg-type]
            elif str(message) not in shown:
                shown.add(str(message))
                print(f"privsample: warning: {message}", file=sys.stderr)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _run(words: list[str]) -> int:
    parser = _parser()
    try:
        args = parser.parse_args(join_negative_values(words))
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    if args.command is None:
        parser.print_help()
        return UsageProblem.code
    code: int = args.run(args)
    return code


def _parser() -> Parser:
    from privsample._version import __version__

    parser = Parser(prog="privsample", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("--version", action="version", version=f"privsample {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for name in _COMMANDS:
        module = import_module(f"privsample.cli.{name}")
        made = commands.add_parser(name, help=module.ABOUT, description=module.DESCRIPTION, epilog=module.EXAMPLE)
        module.add(made)
        made.set_defaults(run=module.run)
    return parser


def _handle_output_error(error: OSError) -> int:
    """Return the exit code after an error of standard output or a file; an output file is complete or absent."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    reason = error.strerror or str(error)
    return _print_error(
        f"reading or writing failed ({reason}); every output file that exists is complete", UsageProblem.code
    )


def _print_error(message: str, code: int) -> int:
    print("privsample: error: " + " ".join(message.split()), file=sys.stderr)
    return code
