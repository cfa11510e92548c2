"""`privsample account`: what a release would cost. No data are read."""

from argparse import Namespace
from typing import Any

import numpy as np

from privsample._serial import encode
from privsample.accounting.base import Accountant
from privsample.accounting.statement import privacy_statement
from privsample.accounting.targets import RDP, Target
from privsample.cli import build
from privsample.cli.options import add_draws, add_mechanism, add_model, add_target
from privsample.cli.output import Page, check_tables, odds, print_json, up
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.posterior.conjugate import ConjugateMechanism

_DELTAS = (1e-4, 1e-6, 1e-8, 1e-10)
_ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
ABOUT = "price a release without touching any data"
DESCRIPTION = """\
Price a release without touching any data: how much records may count so that the limit is met,
and what the release can then reveal about one record."""
EXAMPLE = """\
example:
  privsample account --n 1000 --model beta-bernoulli --prior 6,12 \\
      --mechanism diffused --epsilon 1 --delta 1e-6 --draws 4"""


def add(parser: Any) -> None:
    """The command's options."""
    add_model(parser)
    add_mechanism(parser)
    add_target(parser)
    add_draws(parser)


def run(args: Namespace) -> int:
    """Print the account."""
    check_tables(args)
    made = build.mechanism(args, build.model(args), limit_needed=False)
    goal, delta = build.target(args), build.stated_delta(args)
    cost = costs(made.accountant, goal, delta)
    if args.json:
        print_json({"command": "account"} | described(made, goal) | cost)
        return 0
    page = Page()
    page.facts(named(made, goal))
    show_costs(page, made, cost)
    routes = [[route["name"], up(route["epsilon"]), route["kind"]] for route in cost["routes"]]
    page.table(
        f"Ways to an epsilon at delta {delta:g}; the smallest counts", ("way", "epsilon", "kind"), routes, numbers=(1,)
    )
    page.paragraph("To publish beside the release", cost["statement"])
    return 0


def costs(account: Accountant, goal: Target | None, delta: float) -> dict[str, Any]:
    """The account in numbers: what JSON shows, and what tables are made of."""
    limit = float(account.order_limit)
    orders = sorted({*_ORDERS, *([goal.order] if isinstance(goal, RDP) else []), min(1.5, 0.5 + limit / 2)} - {1.0})
    deltas = sorted({*_DELTAS, delta}, reverse=True)
    return {
        "epsilon": [{"delta": d, "epsilon": float(account.epsilon(d))} for d in deltas],
        "rdp": [{"order": a, "epsilon": float(e)} for a, e in zip(orders, account.rdp(np.array(orders)), strict=True)],
        "order_limit": limit,
        "routes": [{"name": r.name, "epsilon": r.epsilon, "kind": r.kind} for r in account.explain(delta)],
        "neighbours": account.relation.words,
        "assumptions": sorted(assumption.value for assumption in account.assumptions),
        "source": account.source,
        "statement": privacy_statement(account, delta),
    }


def described(mechanism: Mechanism, goal: Target | None) -> dict[str, Any]:
    """The mechanism and what it was calibrated to, for machines."""
    return {"mechanism": encode(mechanism), "target": None if goal is None else goal.words}


def named(mechanism: ConjugateMechanism, goal: Target | None) -> list[tuple[str, str]]:
    """The mechanism and what it was calibrated to, for people."""
    weights = ((f, getattr(mechanism, f, None)) for f in build.FREE)
    facts = [("mechanism", type(mechanism).__name__)]
    facts += [(_WEIGHTS[f][0], f"{w:.6g}   {_WEIGHTS[f][1](w)}") for f, w in weights if w is not None]
    facts += [(f, _short(getattr(mechanism, f))) for f in ("noise", "truncation") if hasattr(mechanism, f)]
    public = encode(mechanism.model)
    kind = public.pop("type")
    facts.append(("model", f"{kind}: " + ", ".join(f"{key} {_short(item)}" for key, item in public.items())))
    meant = "" if mechanism.unit == "record" else f", one record being one {mechanism.unit}"
    facts.append(("draws", f"{mechanism.draws} from n = {mechanism.n} records{meant}"))
    return facts if goal is None else [*facts, ("limit met", goal.words)]


def _short(item: Any) -> str:
    if isinstance(item, (list, tuple)):
        return "(" + ", ".join(map(_short, item[:20])) + (", ...)" if len(item) > 20 else ")")
    return f"{item:g}" if isinstance(item, float) else str(item)


_WEIGHTS: dict[str, tuple[str, Any]] = {
    "data_weight": ("data weight", lambda w: f"(every record counts {w:.3g} times; the prior counts once)"),
    "prior_divisor": ("prior divisor", lambda w: f"(the prior counts {1 / w:.3g} times; every record once)"),
    "temperature": ("temperature", lambda t: f"(prior and records count {1 / t:.3g} times)"),
    "scale": ("scale", lambda _: "(of the noise, in the statistic's unit)"),
}


def show_costs(page: Page, mechanism: ConjugateMechanism, cost: dict[str, Any]) -> None:
    """What can be learnt about one record, in two tables."""
    rows = [[f"{row['delta']:g}", up(row["epsilon"]), odds(row["epsilon"])] for row in cost["epsilon"]]
    page.table(
        f"What all {mechanism.draws} draws together can reveal about one {mechanism.unit}"
        if mechanism.draws > 1
        else f"What the draw can reveal about one {mechanism.unit}",
        ("except with probability (delta)", "epsilon", f"shift in the odds between two versions of a {mechanism.unit}"),
        rows,
        numbers=(0, 1),
    )
    page.table(
        "The same in Renyi divergence, for adding costs up",
        ("order", "at most"),
        [[f"{row['order']:g}", up(row["epsilon"])] for row in cost["rdp"] if np.isfinite(row["epsilon"])],
        numbers=(0, 1),
    )
    limit = cost["order_limit"]
    if np.isfinite(limit):
        page.text(f"\nFrom order {limit:.6g} on there is no bound: this prior allows none, a larger one does.")
