"""The summary at the top of a report: data, prior, privacy cost, interval and audit of each release."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Protocol

import numpy as np

from privsample._version import __version__
from privsample.distributions.models.base import Model
from privsample.mechanisms.arguments import field_of_kind
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.release import Release
from privsample.simulations.report import figures
from privsample.simulations.report.content import Badge, Cell, Part, Section
from privsample.simulations.report.statements import price, small

_PROBABILITY = 0.9  # of the central interval of many draws
_MIN_DRAWS = 20  # with fewer draws an empirical 90 % interval has no ends: their range is shown
_MAX_INTERVALS = 4  # coordinates of one release


_NOT_AUDITED = Part(
    heading="What “not audited” means, and how to audit",
    paragraphs=(
        (
            "No simulation has tried to refute the account of this mechanism. The proof that is named as source does "
            "not depend on an audit. An audit reads no confidential records and costs no privacy. On the command line, "
            "privsample audit takes the options of the mechanism. In Python, mechanism is that of the code at the end "
            "of this page, and release is the release that this page shows, not a second one, which would cost again:"
        ),
    ),
    code="import privsample\n"
    "from privsample.simulations.report.page import render\n"
    "verdict = privsample.audit(mechanism)\n"
    "page = render([release], audits=[verdict])  # this page with the outcome",
    folded=True,
)


class AuditOutcome(Protocol):
    """The outcome of an audit; a `Verdict` has these attributes."""

    @property
    def outcome(self) -> str:
        """The outcome, "VIOLATED" or "CONSISTENT"."""

    @property
    def violated(self) -> bool:
        """True if the audit refutes the claim."""


def summary_section(
    releases: Sequence[Release],
    *,
    delta: float,
    data: str = "",
    column: str = "",
    day: date | None = None,
    audits: Sequence[AuditOutcome | None] = (),
) -> Section:
    """Return the summary of the releases: a table for one release, or one row for each of several."""
    verdicts = [*audits, *[None] * (len(releases) - len(audits))]
    described = [_facts(release, delta, verdict) for release, verdict in zip(releases, verdicts, strict=True)]
    origin: list[tuple[Cell, ...]] = [("data set", data)] if data else []
    origin += [("column", column)] if column else []
    made = [("date", day.isoformat())] if day is not None else []
    made.append(("version", f"privsample {__version__}"))
    advice = (_NOT_AUDITED,) if None in verdicts else ()
    if len(releases) == 1:
        rows = (*origin, *((name, cell) for name, cell in described[0].items() if cell != ""), *made)
        return Section(title="Summary", parts=(Part(rows=rows), *advice), anchor="summary")
    names = [name for name in described[0] if any(facts[name] != "" for facts in described)]
    table = Part(
        columns=tuple(names), rows=tuple(tuple(facts[name] for name in names) for facts in described), wide=True
    )
    return Section(title="Summary", parts=(table, Part(rows=(*origin, *made)), *advice), anchor="summary")


def _facts(release: Release, delta: float, verdict: AuditOutcome | None) -> dict[str, Cell]:
    mechanism, size = release.mechanism, getattr(release.mechanism, "n", None)
    return {
        "release": f"{mechanism.title}, {release_size(release)}",
        "prior": prior(mechanism),
        "records": f"{size:,}" if isinstance(size, int) else "",
        f"ε at δ = {small(delta)}": price(release.account, delta),
        "interval": "; ".join(intervals(release)),
        "audit": audit_badge(verdict),
    }


def release_size(release: Release) -> str:
    """Return the number of draws, or of answers, as a phrase."""
    draws = figures.drawn(release)
    if draws.dtype.kind == "i":
        return f"{draws.size:,} answers"
    return f"{len(draws):,} {'draw' if len(draws) == 1 else 'draws'}"


def audit_badge(verdict: AuditOutcome | None) -> Badge:
    """Return the outcome of an audit as a badge."""
    if verdict is None:
        return Badge(text="not audited")
    return Badge(text=verdict.outcome, kind="violated" if verdict.violated else "consistent")


def prior(mechanism: Mechanism) -> str:
    """Return the parameters of the prior, or an empty string for a mechanism without a prior."""
    name = field_of_kind(type(mechanism), Model)
    owner: Any = mechanism if name is None else getattr(mechanism, name)
    names = getattr(owner, "prior_parameters", ()) or (("alpha", "beta") if name is None else ())
    values = {name: getattr(owner, name) for name in names if hasattr(owner, name)}
    return ", ".join(f"{name} = {_number(value)}" for name, value in values.items())


def _number(value: Any) -> str:
    return f"({', '.join(f'{x:g}' for x in value)})" if isinstance(value, tuple) else f"{value:g}"


def intervals(release: Release) -> list[str]:
    """Return for each coordinate the central 90 % interval of the draws, the range of few draws, or the one value."""
    draws, label = figures.drawn(release), release.mechanism.quantity
    if draws.dtype.kind != "f":
        return []
    low, high = figures.scale(release)
    flat = low + (high - low) * draws.reshape(len(draws), -1)
    found = []
    for place in range(min(flat.shape[1], _MAX_INTERVALS)):
        name = label if flat.shape[1] == 1 else f"{label} {place}"
        found.append(f"{name}: {_interval(flat[:, place])}")
    more = flat.shape[1] - _MAX_INTERVALS
    return [*found, f"and {more:,} more"] if more > 0 else found


def _interval(draws: Any) -> str:
    if len(draws) == 1:
        return f"{draws[0]:.6g} (one draw)"
    if len(draws) < _MIN_DRAWS:
        return f"{draws.min():.4g} to {draws.max():.4g} (range of {len(draws)} draws)"
    tail = (1 - _PROBABILITY) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return f"{low:.4g} to {high:.4g} (central {_PROBABILITY:.0%} of {len(draws):,} draws)"
