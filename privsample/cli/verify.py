"""`privsample verify`: check a certificate by ball arithmetic. No account is computed."""

from argparse import Namespace
from typing import Any

from privsample.cli.errors import DataProblem, UsageProblem, require

ABOUT = "check a certificate of a claimed epsilon and delta by ball arithmetic"
DESCRIPTION = """\
Check a certificate that account.certificate(...) or release.certificate() wrote. Every claimed epsilon and delta
is proved from the pairs of output distributions that the file names, in both orders of the neighbours, by ball
arithmetic. The checker is the single file privsample/verify.py, which needs python-flint and the standard
library and nothing else of privsample, so that a stranger can read it and run it alone: python verify.py FILE."""
EXAMPLE = """\
example:
  privsample verify certificate.json

exit code 0: every claim is proved; 1: a claim is not proved, or the file is
damaged; 2: the file cannot be read"""


def add(parser: Any) -> None:
    """Add the options of the command."""
    parser.add_argument("certificate", metavar="FILE", help="the certificate, a JSON file")


def run(args: Namespace) -> int:
    """Check the certificate and print one line for each claim."""
    require("flint", "", "checking a certificate")
    from privsample import verify

    try:
        sentences = verify.check(args.certificate)
    except OSError as error:
        raise UsageProblem(f"{args.certificate} cannot be read: {error.strerror}") from None
    except verify.Refused as refusal:
        raise DataProblem(f"{args.certificate}: {_of_release(args.certificate) or refusal}") from None
    print("\n".join(sentences))
    return 0


def _of_release(path: str) -> str:
    """What to do with a file that holds a release in place of a certificate; empty for any other file."""
    from privsample.mechanisms.release import Release

    try:
        Release.load(path)
    except Exception:  # noqa: BLE001 - a file that is no release has the checker's own message
        return ""
    return (
        "this file holds a release, not a certificate; write one in Python by "
        'privsample.Release.load(FILE).certificate(delta=1e-6).save("claim.json")'
    )
