"""`privsample verify`: check a certificate by ball arithmetic. No account is computed."""

from argparse import Namespace
from typing import Any

from privsample import verify
from privsample.cli.errors import DataProblem, UsageProblem
from privsample.cli.options import add_json
from privsample.cli.output import print_json

ABOUT = "check a certificate of a claimed epsilon and delta by ball arithmetic"
DESCRIPTION = """\
Check a certificate that account.certificate(...) or release.certificate() wrote. Every claimed epsilon and delta
is proved from the pairs of output distributions that the file names, in both orders of the neighbours, by ball
arithmetic. The checker is the single file privsample/verify.py; it needs python-flint and the standard library,
and nothing else of privsample, so that a stranger can read it and run it alone: python verify.py FILE."""
EXAMPLE = """\
example:
  privsample verify claim.json

exit code 0: every claim is proved; 1: a claim is not proved, or the file is
damaged; 2: the file cannot be read"""


def add(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("certificate", metavar="FILE", help="the certificate, a JSON file")
    add_json(parser)


def run(args: Namespace) -> int:
    """Check the certificate and print what is proved."""
    try:
        proved = verify.verify_file(args.certificate)
    except OSError as error:
        raise UsageProblem(f"{args.certificate} cannot be read: {error.strerror}") from None
    except verify.Refused as refusal:
        raise DataProblem(f"{args.certificate}: {refusal}") from None
    if args.json:
        rows = [{"epsilon": float(e), "delta": float(d), "proved_delta": float(value.upper())} for e, d, value in proved]
        print_json({"command": "verify", "file": args.certificate, "claims": rows})
        return 0
    for line in map(verify.sentence, proved):
        print(line)
    return 0
