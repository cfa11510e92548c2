"""`privsample ledger`: the privacy budget of one data set, kept in a file."""

import json
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privsample.accounting.base import Accountant
from privsample.accounting.guarantees import ApproximateAccountant, PureAccountant, ZCDPAccountant
from privsample.accounting.ledger import Ledger
from privsample.accounting.ledger.rules import GAUSSIAN
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.cli import build
from privsample.cli.errors import UsageProblem
from privsample.cli.options import Parser, add_json, add_target, number, phrase, whole_number
from privsample.cli.output import Console, check_tables, print_json, round_down, round_up
from privsample.errors import BudgetExceeded
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.release import Release
from privsample.mechanisms.tallies.tally import is_tally
from privsample.relations import AddRemove, Relation, ReplaceOne

ABOUT = "keep a privacy budget: all releases from one data set, and the remaining budget"
DESCRIPTION = """\
Keep the privacy budget of one data set in a file. `init` creates the file, `show` prints the spent and the
remaining budget, `spend` records a release that was made elsewhere, `export` prints everything as JSON,
`backup` writes a copy, and `moved` opens a file that was moved or restored.
`privsample release --ledger FILE` records the release before it is drawn and refuses a release that would
exceed the budget. Several programs may use one file at the same time."""
EXAMPLE = """\
example: annual budget for 1000 patients
  privsample ledger init patients.ledger --dataset patients-2024 \\
      --n 1000 --unit patient --epsilon 2 --delta 1e-6
  privsample ledger spend patients.ledger --pure 0.5 --label "count, March"
  privsample ledger show patients.ledger

A budget that Gaussian releases fill exactly:
  privsample ledger init sums.ledger --dataset patients-2024 \\
      --n 1000 --unit patient --epsilon 1 --delta 1e-6 --family gaussian
  privsample ledger spend sums.ledger --gdp 0.05 --label "sum, March\""""
_INIT = """\
Create a ledger with a budget. Without --family the ledger charges any releases in any order by their Rényi
curves, which costs most where records are sampled at a low rate. Many equal releases cost less in a ledger
with their account as its family; in Python, Ledger.reserve charges a fixed list by its composition."""
_FILE = "the ledger's file"
_MOVED = """\
Open a ledger that was moved, copied or restored, and bind it to the place where it is now. Do this once, if the
file is the newest copy and no other copy will be used again: entries that it lacks are no longer charged."""
_BACKUP = """\
Write all entries to a new file, also while other programs use the ledger. The copy opens after `privsample
ledger moved`. Its head is printed: keep it elsewhere, for --at-least."""
_COSTED = 200  # last entries of which `show` computes the cost, 0.01 s each
_KINDS = 4  # kinds of releases of which the remaining number is shown


def add(parser: Any) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", parser_class=Parser)
    _add_init(actions.add_parser("init", help="create a ledger", description=_INIT))
    _add_show(actions.add_parser("show", help="print entries and totals", description="Print entries and totals."))
    _add_spend(actions.add_parser("spend", help="record a release made elsewhere", description=_SPEND))
    _add_export(
        actions.add_parser("export", help="print all entries as JSON", description="Print all entries as JSON.")
    )
    _add_moved(actions.add_parser("moved", help="open a ledger that was moved or restored", description=_MOVED))
    _add_backup(actions.add_parser("backup", help="write a copy", description=_BACKUP))


def run(args: Namespace) -> int:
    """Run the action."""
    if args.action is None:
        raise UsageProblem(
            "the action is missing: give init, show, spend, export, moved or backup (see privsample ledger --help)"
        )
    action: Callable[[Namespace], int] = args.act
    return action(args)


@contextmanager
def ledger_errors() -> Iterator[None]:
    """Convert refusals and file errors of a ledger, which contain public information only, to UsageProblem."""
    try:
        yield
    except BudgetExceeded as error:
        raise UsageProblem(error.command_line or str(error)) from None
    except OSError as error:
        raise UsageProblem(_error_text(error)) from None


def _error_text(error: OSError) -> str:
    """Return the message of the library, or the reason that the operating system gives for a file."""
    if error.strerror and error.filename is not None:
        return f"{error.filename} cannot be opened or written: {error.strerror}"
    return str(error)


def add_at_least(parser: Any) -> None:
    """Add the option --at-least."""
    parser.add_argument(
        "--at-least",
        metavar="HEAD",
        help="refuse a ledger that lacks entries of this head, which `ledger show` printed earlier",
    )


def open_ledger(path: str, at_least: str | None = None, *, moved: bool = False) -> Ledger:
    """Open the ledger in this file. Raises: UsageProblem."""
    with build.usage_errors(), ledger_errors():
        try:
            return Ledger.moved(path, at_least=at_least) if moved else Ledger(path, at_least=at_least)
        except FileNotFoundError:
            raise UsageProblem(
                f"there is no ledger at {path}; "
                + ("`privsample ledger init` creates one" if at_least is None else "put its newest copy back")
            ) from None


def _printable(label: str) -> str:
    """The label on one line, with \ufffd for control characters, which entries of older versions may hold."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(label.split()))


def release_with_ledger(ledger: Ledger, mechanism: Mechanism, data: Any, label: str = "") -> Release:
    """Charge the ledger, then draw. Raises: UsageProblem, SchemaError.

    Records were validated before; whether a tally is one of this mechanism is checked here, before it is charged.
    """
    with build.usage_errors():
        account = mechanism.accountant
        fits = ledger.fits(account)
    if not fits:
        with ledger_errors():
            ledger.spend(account, label=label or type(mechanism).__name__)  # raises BudgetExceeded with the reason
    with ledger_errors():
        return ledger.release(mechanism, data, label=label, validated=not is_tally(data))


def _add_init(parser: Any) -> None:
    parser.add_argument("ledger", metavar="FILE", help="the file to create")
    group = parser.add_argument_group("the data")
    group.add_argument("--dataset", type=phrase, required=True, metavar="NAME", help="name of the data")
    group.add_argument("--n", type=whole_number, metavar="N", help="number of records, if it is public")
    group.add_argument(
        "--add-remove",
        action="store_true",
        help="instead of --n: the number of records is not public; neighbours differ by one added record",
    )
    group.add_argument(
        "--unit",
        type=phrase,
        default="record",
        metavar="WORD",
        help="the unit that one record represents, e.g. patient",
    )
    add_target(parser)
    parser.add_argument(
        "--family",
        metavar="F",
        help="releases that fill the budget exactly: `gaussian`, or the file (.json) of a release or of an account; "
        "fixed when the file is made (default: the general rule)",
    )
    parser.add_argument(
        "--approximate-share",
        type=number,
        default=None,
        metavar="S",
        help="fraction of delta, in [0, 1), reserved for releases with an infinity mass and for plans (default: 1e-6)",
    )
    add_json(parser)
    parser.set_defaults(act=_init)


def _init(args: Namespace) -> int:
    check_tables(args)
    budget = build.required_target(args)
    if (args.n is None) != args.add_remove:
        raise UsageProblem("give --n N if the number of records is public, or --add-remove if it is not")
    relation: Relation = AddRemove(unit=args.unit) if args.n is None else ReplaceOne(n=args.n, unit=args.unit)
    if Path(args.ledger).exists():
        raise UsageProblem(f"{args.ledger} exists, and a ledger is never replaced; choose another name")
    fixed: dict[str, Any] = {"relation": relation, "dataset": args.dataset, "family": _family(args.family)}
    with build.usage_errors(), ledger_errors():
        made = Ledger(args.ledger, budget=budget, approximate_share=args.approximate_share, **fixed)
    return _print_ledger(args, made)


def _family(given: str | None) -> str | Accountant | None:
    """Return the family: a name, or the account in a file. Raises: UsageProblem."""
    if given is None or given == GAUSSIAN:
        return given
    if not Path(given).exists():
        raise UsageProblem(
            f"--family must be `gaussian` or the file of a release or of an account, got {given}; "
            "`privsample account ... --json > FILE` writes the account of a mechanism"
        )
    with build.usage_errors(), ledger_errors():
        return _read_account(Path(given))


def _add_show(parser: Any) -> None:
    parser.add_argument("ledger", metavar="FILE", help=_FILE)
    add_at_least(parser)
    add_json(parser)
    parser.set_defaults(act=lambda args: _print_ledger(args, open_ledger(args.ledger, args.at_least)))


def _add_moved(parser: Any) -> None:
    parser.add_argument("ledger", metavar="FILE", help="the file where it is now")
    add_at_least(parser)
    add_json(parser)
    parser.set_defaults(act=lambda args: _print_ledger(args, open_ledger(args.ledger, args.at_least, moved=True)))


def _add_backup(parser: Any) -> None:
    parser.add_argument("ledger", metavar="FILE", help=_FILE)
    parser.add_argument("to", metavar="TO", help="the new file")
    add_at_least(parser)
    add_json(parser)
    parser.set_defaults(act=_backup)


def _backup(args: Namespace) -> int:
    ledger = open_ledger(args.ledger, args.at_least)
    with build.usage_errors(), ledger_errors():
        try:
            head = ledger.backup(args.to)
        except FileExistsError:
            raise UsageProblem(f"{args.to} exists, and a backup never replaces a file; choose another name") from None
    if args.json:
        print_json({"command": "ledger", "action": args.action, "file": args.to, "head": head})
    else:
        print(f"{args.to} holds all entries up to the head {head}; it opens after `privsample ledger moved {args.to}`")
    return 0


_SPEND = """\
Record a release that was made elsewhere or is about to be made, by its stated guarantee or by its account in a
file."""


def _add_spend(parser: Any) -> None:
    parser.add_argument("ledger", metavar="FILE", help=_FILE)
    group = parser.add_argument_group("the guarantee (one of four)")
    group.add_argument(
        "--pure", "--epsilon", type=number, metavar="E", help="epsilon-DP; with --delta: (epsilon, delta)-DP"
    )
    group.add_argument("--delta", type=number, metavar="D", help="the delta for --pure")
    group.add_argument("--failure", dest="delta", type=number, help=SUPPRESS)  # former name of --delta
    group.add_argument("--zcdp", "--rho", type=number, metavar="RHO", help="rho-zCDP")
    group.add_argument("--gdp", "--mu", type=number, metavar="MU", help="mu-Gaussian differential privacy")
    group.add_argument(
        "--account", metavar="JSON", help="a release (.json), or the output of `privsample account --json`"
    )
    parser.add_argument(
        "--times", type=whole_number, default=1, metavar="K", help="number of such releases (default: 1)"
    )
    parser.add_argument("--label", default="", metavar="TEXT", help="description of the entry")
    add_at_least(parser)
    add_json(parser)
    parser.set_defaults(act=_spend)


def _spend(args: Namespace) -> int:
    check_tables(args)
    ledger = open_ledger(args.ledger, args.at_least)
    with build.usage_errors(), ledger_errors():
        ledger.spend(_account(args, ledger.relation), times=args.times, label=args.label)
    return _print_ledger(args, ledger)


def _account(args: Namespace, relation: Relation) -> Accountant:
    if sum(found is not None for found in (args.pure, args.zcdp, args.gdp, args.account)) != 1:
        raise UsageProblem(
            "the guarantee is missing or given twice: give one of --pure (with --delta), --zcdp, --gdp and --account"
        )
    if args.delta is not None and args.pure is None:
        raise UsageProblem("--delta needs --pure: it is the delta for that epsilon")
    if args.account is not None:
        return _read_account(Path(args.account))
    if args.gdp is not None:
        return GaussianAccountant(sensitivity=args.gdp, noise_std=1.0, relation=relation)
    if args.zcdp is not None:
        return ZCDPAccountant(rho=args.zcdp, relation=relation)
    if args.delta is not None:
        return ApproximateAccountant(stated_epsilon=args.pure, stated_delta=args.delta, relation=relation)
    return PureAccountant(stated_epsilon=args.pure, relation=relation)


def _read_account(path: Path) -> Accountant:
    """Read the account of a release, an account, or a mechanism from a JSON file. Raises: UsageProblem."""
    from privsample._serial import decode

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise UsageProblem(
            f"{path.name} is not JSON; give a release (.json) or the output of `privsample account --json`"
        ) from None
    if not isinstance(document, dict):
        raise UsageProblem(
            f"{path.name} holds no account; give a release (.json) or the output of `privsample account --json`"
        )
    if "account" in document:
        return Accountant.from_dict(document["account"])
    if "mechanism" in document:
        made = decode(document["mechanism"])
        account = getattr(made, "accountant", None)
        if isinstance(account, Accountant):
            return account
        raise UsageProblem(f"{path.name} holds no mechanism with an account")
    return Accountant.from_dict(document)


def _add_export(parser: Any) -> None:
    parser.add_argument("ledger", metavar="FILE", help=_FILE)
    parser.add_argument("--out", metavar="PATH", help="write to this new file (default: standard output)")
    add_at_least(parser)
    parser.set_defaults(act=_export, json=True)


def _export(args: Namespace) -> int:
    ledger = open_ledger(args.ledger, args.at_least)
    if args.out is None:
        print_json(ledger.export())
        return 0
    with ledger_errors():
        ledger.export(args.out)
    print(f"privsample: written to {args.out}", file=sys.stderr)
    return 0


def _kinds(ledger: Ledger) -> list[tuple[str, int]]:
    """Return how many releases of the kinds spent last still fit."""
    spent = {item.account: entry.number for entry in ledger.history() for item in entry.items}
    last = sorted(spent, key=lambda account: spent[account], reverse=True)[:_KINDS]
    return [
        (f"{type(account).__name__} as in entry {spent[account]}", ledger.remaining_releases(account))
        for account in last
    ]


def _print_ledger(args: Namespace, ledger: Ledger) -> int:
    check_tables(args)
    with build.usage_errors(), ledger_errors():
        made = ledger.export()
        costs = ledger.costs(last=_COSTED if args.action == "show" else 1)
    about = {"command": "ledger", "action": args.action, "file": str(ledger.path), "head": ledger.head}
    if args.json:
        entries = [entry | {"cost": costs.get(entry["number"])} for entry in made["entries"]]
        print_json(about | made | {"cost_measure": ledger.cost_measure, "entries": entries})
        return 0
    console = Console()
    facts = [
        ("ledger", str(ledger.path.name)),
        ("data", f"{ledger.dataset}; neighbours: {ledger.relation.description}"),
        ("budget", ledger.budget.description),
        ("spent", round_up(ledger.spent())),
        ("remaining", round_down(ledger.remaining(), 4)),
        ("head", ledger.head),
    ]
    if kinds := _kinds(ledger):
        facts.append(("fits still", "; ".join(f"{count} x {name}" for name, count in kinds)))
    facts.append(("rule", ledger.rule))
    if "set_aside" in made and made["set_aside"]["delta"]:
        aside = made["set_aside"]
        facts.append(("reserved delta", f"{aside['delta']:g}, of which {round_down(aside['left'], 6)} remains"))
    if not made["within_budget"]:
        facts.append(
            ("warning", "by the formulas of this version the entries exceed the budget; every release is refused")
        )
    console.facts(facts)
    rows = [
        [
            str(entry.number),
            entry.at[:10],
            entry.kind,
            round_up(costs[entry.number]) if entry.number in costs else "",
            _printable(entry.label)[:40],
            ", ".join(f"{item.times} x {type(item.account).__name__}" for item in entry.items[:3])
            + (", ..." if len(entry.items) > 3 else ""),
            str(sum(item.left for item in entry.items)) if entry.kind == "plan" else "",
        ]
        for entry in ledger.history()
    ]
    if rows:
        head = ("", "date", "kind", "cost", "label", "accounts", "not drawn yet")
        console.table("Entries", head, rows, numbers=(0, 3, 6))
        console.text(f"The cost is what an entry adds to the budget's use ({ledger.cost_measure}).")
    return 0
