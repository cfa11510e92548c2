"""The command `privsample`."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from privsample.cli.errors import CliError, DataProblem, UsageProblem
from privsample.cli.options import Parser, join_negative_values
from privsample.errors import SchemaError

_COMMANDS = ("release", "account", "compare", "validate", "mechanisms", "ledger", "audit", "reproduce")
_DESCRIPTION = """\
Draw from Bayesian posteriors so that nobody can tell much about any one record from the draws,
and know exactly how much. Start with `compare` to choose a mechanism, `account` to see its price
and `validate` to check the file; none of these reveals anything. Then `release`."""
_EXAMPLE = """\
example: was a treatment a success? 1000 patients, four draws of the rate
  privsample compare --n 1000 --model beta-bernoulli --prior 6,12 \\
      --epsilon 1 --delta 1e-6
  privsample validate patients.csv --column success --n 1000 \\
      --model beta-bernoulli --prior 6,12
  privsample release patients.csv --column success --n 1000 --unit patient \\
      --model beta-bernoulli --prior 6,12 --mechanism diffused \\
      --epsilon 1 --delta 1e-6 --draws 4 --out posterior.nc --report report.html

exit codes: 0 done; 1 the data have problems, or an audit refuted a claim; 2 the
command line or the machine has problems; 130 stopped"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns: the exit code; every error is one line on standard error and shows no record."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:
        return _print_error("standard output is closed; nothing was done", UsageProblem.code)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except CliError as stop:
        return _print_error(str(stop), stop.code)
    except SchemaError as error:  # its messages name public facts only
        return _print_error(str(error), DataProblem.code)
    except KeyboardInterrupt:
        return _print_error("stopped; a file that exists now is whole", 130)
    except OSError as error:
        return _handle_output_error(error)
    except MemoryError:
        return _print_error("there is not enough memory", UsageProblem.code)
    except Exception as error:  # noqa: BLE001 (a message or traceback could show a record)
        where = f"{type(error).__name__} inside privsample"
        return _print_error(f"{where}; this is a defect, please report the command without its data", UsageProblem.code)


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
    """Standard output is gone or full, or a file failed; outputs in files are written whole or not at all."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    reason = error.strerror or str(error)
    return _print_error(f"reading or writing failed ({reason}); a file that exists now is whole", UsageProblem.code)


def _print_error(message: str, code: int) -> int:
    print("privsample: error: " + " ".join(message.split()), file=sys.stderr)
    return code
