"""`privsample account`: the privacy cost of a release. No data are read."""

from argparse import Namespace
from dataclasses import fields
from typing import Any

import numpy as np

from privsample._serial import encode
from privsample.accounting.base import Accountant
from privsample.accounting.gaussian_dp import sampling_note
from privsample.accounting.statement import privacy_statement
from privsample.accounting.targets import GDP, RDP, Target
from privsample.cli import build
from privsample.cli.choice import add_mechanism
from privsample.cli.options import add_json, add_target, number
from privsample.cli.output import Console, check_tables, growth, print_json, round_up
from privsample.mechanisms.arguments import meaning
from privsample.mechanisms.base import Mechanism

_DELTAS = (1e-4, 1e-6, 1e-8, 1e-10)
_ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
ABOUT = "compute the privacy cost of a release without reading data"
DESCRIPTION = """\
Compute the privacy cost of a release of any mechanism, without reading data. With a privacy target, the free
parameter of the mechanism is calibrated to the target."""
EXAMPLE = """\
example:
  privsample account --n 1000 --model beta-bernoulli --prior 6,12 \\
      --mechanism diffused --epsilon 1 --delta 1e-6 --draws 4
  privsample account --mechanism gaussian --sensitivity 1 --noise-std 2
  privsample account --mechanism subsampled \\
      --scheme 'poisson-sampling rate=0.1' \\
      --base 'gaussian-sum noise-std=2 bounds=0,1'"""


def add(parser: Any) -> None:
    """Add the options of the command."""
    add_mechanism(parser)
    add_target(parser)
    parser.add_argument(
        "--regret",
        type=number,
        metavar="R",
        help="show the least mu of Gaussian differential privacy, also with this regret, the largest excess of delta",
    )
    add_json(parser)


def run(args: Namespace) -> int:
    """Print the account of the mechanism."""
    check_tables(args)
    made = build.mechanism(args, build.fields(args), limit_needed=False)
    goal, delta = build.target(args), build.stated_delta(args)
    cost = privacy_costs(made.accountant, goal, delta)
    if args.regret is not None or isinstance(goal, GDP):
        cost["gdp"] = gaussian_costs(made.accountant, args.regret)
    if args.json:
        print_json({"command": "account"} | mechanism_document(made, goal) | cost)
        return 0
    console = Console()
    console.facts(mechanism_facts(made, goal))
    show_costs(console, made, cost)
    if "gdp" in cost:
        console.table(
            "Gaussian differential privacy: delta(epsilon) exceeds the Gaussian curve of mu by at most the regret",
            ("regret", "least mu"),
            [[f"{row['regret']:g}", round_up(row["mu"])] for row in cost["gdp"]["values"]],
            numbers=(0, 1),
        )
        if cost["gdp"]["note"]:
            console.paragraph("About the mu at regret 0", cost["gdp"]["note"])
    routes = [[route["name"], round_up(route["epsilon"]), route["kind"]] for route in cost["routes"]]
    console.table(
        f"Bounds on epsilon at delta {delta:g}; the smallest is reported",
        ("method", "epsilon", "kind"),
        routes,
        numbers=(1,),
    )
    console.paragraph("To publish beside the release", cost["statement"])
    return 0


def privacy_costs(account: Accountant, goal: Target | None, delta: float) -> dict[str, Any]:
    """Return the numbers of the account, for the JSON document and the tables."""
    limit = float(account.bounds.order_limit)
    orders = sorted({*_ORDERS, *([goal.order] if isinstance(goal, RDP) else []), min(1.5, 0.5 + limit / 2)} - {1.0})
    deltas = sorted({*_DELTAS, delta}, reverse=True)
    return {
        "epsilon": [{"delta": d, "epsilon": float(account.epsilon(d))} for d in deltas],
        "rdp": [
            {"order": a, "epsilon": float(e)}
            for a, e in zip(orders, account.conditional_rdp(np.array(orders)), strict=True)
        ],
        "order_limit": limit,
        "infinity_mass": account.infinity_mass,
        "routes": [{"name": r.name, "epsilon": r.epsilon, "kind": r.kind} for r in account.explain(delta)],
        "neighbours": account.relation.description,
        "assumptions": sorted(assumption.value for assumption in account.assumptions),
        "source": account.source,
        "statement": privacy_statement(account, delta),
    }


def gaussian_costs(account: Accountant, regret: float | None) -> dict[str, Any]:
    """Return the least mu at regret 0 and at the given one, and what limits the former. Raises: UsageProblem."""
    with build.usage_errors():
        values = [{"regret": r, "mu": account.mu(r)} for r in sorted({0.0, regret or 0.0})]
    return {"values": values, "note": sampling_note(account).removeprefix("; ")}


def mechanism_document(mechanism: Mechanism, goal: Target | None) -> dict[str, Any]:
    """Return the mechanism and its privacy target as JSON."""
    return {"mechanism": encode(mechanism), "target": None if goal is None else goal.description}


def mechanism_facts(mechanism: Mechanism, goal: Target | None) -> list[tuple[str, str]]:
    """Return the mechanism, its fields and its privacy target as pairs of name and text."""
    facts = [("mechanism", type(mechanism).__name__)]
    size = getattr(mechanism, "n", None) or getattr(mechanism.accountant.relation, "n", None)
    free = [parameter.decides for parameter in mechanism.free_parameters]
    listed = [item.name for item in fields(mechanism) if item.init]  # type: ignore[arg-type]
    for name in sorted(listed, key=lambda name: name not in free):
        found = getattr(mechanism, name)
        if name not in _SHOWN_ELSEWHERE and found is not None and np.size(found):
            words = meaning(name, found) if isinstance(found, float) else ""
            facts.append((name.replace("_", " "), "   ".join([_short(encode(found)), *([words] if words else [])])))
    unit = unit_of(mechanism)
    meaning_of_unit = "" if unit == "record" else f"; each record is one {unit}"
    records = "" if size is None else f" from n = {size} records"
    facts.append(("draws", f"{getattr(mechanism, 'draws', 1)}{records}{meaning_of_unit}"))
    return facts if goal is None else [*facts, ("target met", goal.description)]


_SHOWN_ELSEWHERE = ("n", "draws", "unit", "relation")  # fields that other lines show


def unit_of(mechanism: Mechanism) -> str:
    """Return the name of the protected unit, "record" by default."""
    return str(getattr(mechanism.accountant.relation, "unit", "record"))


def _short(item: Any) -> str:
    if isinstance(item, dict) and "type" in item:
        kind = item["type"] if isinstance(item["type"], str) else item["type"][1]
        return f"{kind}: " + ", ".join(f"{key} {_short(part)}" for key, part in item.items() if key != "type")
    if isinstance(item, (list, tuple)):
        return "(" + ", ".join(map(_short, item[:20])) + (", ...)" if len(item) > 20 else ")")
    return f"{item:.6g}" if isinstance(item, float) else str(item)


def show_costs(console: Console, mechanism: Mechanism, cost: dict[str, Any]) -> None:
    """Print the privacy curve and the Rényi curve as tables."""
    draws, unit = getattr(mechanism, "draws", 1), unit_of(mechanism)
    rows = [[f"{row['delta']:g}", round_up(row["epsilon"]), growth(row["epsilon"])] for row in cost["epsilon"]]
    console.table(
        f"Privacy curve of all {draws} draws together, for one {unit}"
        if draws > 1
        else f"Privacy curve of the draw, for one {unit}",
        ("delta", "epsilon", "probability of any conclusion, plus delta"),
        rows,
        numbers=(0, 1),
    )
    console.table(
        "Rényi curve; the values of several releases add up"
        + (
            f". Conditional on a finite loss: the infinity mass {cost['infinity_mass']:.3g} is a delta beside it, and "
            "adds up, too"
            if cost["infinity_mass"]
            else ""
        ),
        ("order", "Rényi divergence, at most"),
        [[f"{row['order']:g}", round_up(row["epsilon"])] for row in cost["rdp"] if np.isfinite(row["epsilon"])],
        numbers=(0, 1),
    )
    limit = cost["order_limit"]
    if np.isfinite(limit):
        console.text(
            f"\nThe Rényi divergence is infinite from order {limit:.6g} on; a stronger prior increases this order."
        )
