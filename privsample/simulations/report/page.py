"""The report: one self-contained HTML page, made from releases only. Equal input gives equal bytes."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from privsample._checks import deltas, plural
from privsample._optional import require
from privsample._repr import code_repr
from privsample.accounting.base import Accountant
from privsample.accounting.display import given_mass
from privsample.accounting.statement import has_risk
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.draws import one_draw
from privsample.mechanisms.notes import refuse_notes
from privsample.mechanisms.release import Release
from privsample.relations import Relation
from privsample.simulations.report import figures
from privsample.simulations.report.content import Part, Picture, Section
from privsample.simulations.report.statements import cost, price, rounded_up, small
from privsample.simulations.report.summary import AuditOutcome, release_size, summary_section

_MOST_NUMBERS = 12  # draws of one coordinate


def render(
    releases: Sequence[Release],
    *,
    delta: float = 1e-6,
    data: str = "",
    column: str = "",
    day: date | None = None,
    audits: Sequence[AuditOutcome | None] = (),
) -> str:
    """An HTML page about releases: a summary, what was released, the privacy cost and the privacy statement.

    Parameters
    ----------
    releases : sequence of Release
        The releases, at least one.
    delta : float, default 1e-6
        The delta at which epsilon is stated, in [0, 1).
    data, column : str, default ""
        Name of the data set and of its column or columns, for the summary.
    day : date or None, default None
        Date of the release, for the summary. Without it, equal releases give equal bytes on every day.
    audits : sequence of (Verdict or None), default ()
        The audit of each release, in their order; None or nothing for a release that was not audited.

    Returns
    -------
    str
        The page; it contains no script and loads nothing.

    Raises
    ------
    PrivateContent
        If notes for the curator are among the releases.
    TypeError, ValueError
        If `releases` is empty or contains anything other than a Release, or if there are more audits than releases.
    """
    members = _only_releases(releases)
    if len(audits) > len(members):
        raise ValueError(f"audits must have at most one entry for each of {len(members)} releases, got {len(audits)}")
    about = summary_section(members, delta=float(deltas(delta)), data=data, column=column, day=day, audits=audits)
    return page(
        [about, *release_sections(members, delta=delta)],
        title="Private release" if len(members) == 1 else f"{len(members)} private releases",
        intro=(
            "The values on this page were computed from confidential records with added randomness. They describe the "
            "records as a whole. The privacy parameters ε and δ bound what the values reveal about a single record."
        ),
    )


def page(sections: Iterable[Section], *, title: str, intro: str) -> str:
    """One self-contained HTML page: no script, nothing loaded from elsewhere. Raises: PrivateContent, TypeError."""
    members = list(sections)
    refuse_notes(members)
    for member in members:
        if not isinstance(member, Section):
            raise TypeError(f"a page is made of sections, got {type(member).__name__}")
    require("jinja2", "report", "a report")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("privsample.simulations.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    groups = [(group, list(inside)) for group, inside in groupby(members, key=lambda member: member.group)]
    listed = sum(bool(member.anchor) for member in members) > 1
    return environment.get_template("page.html.j2").render(groups=groups, title=title, intro=intro, listed=listed)


def _only_releases(releases: Any) -> list[Release]:
    if isinstance(releases, Release):
        raise TypeError("releases must be a sequence: render([release])")
    refuse_notes(releases)
    members = list(releases) if isinstance(releases, Iterable) else [releases]
    refuse_notes(members)
    for member in members:
        if not isinstance(member, Release):
            raise TypeError(f"only a Release may enter a report, got {type(member).__name__}")
    if not members:
        raise ValueError("releases must hold at least one release, got none")
    return members


def release_sections(releases: Sequence[Release], *, delta: float = 1e-6) -> list[Section]:
    """A section for each release, and one for what they cost together. Raises: as `render`."""
    return [section for make in section_makers(releases, delta=delta) for section in make()]


def section_makers(releases: Sequence[Release], *, delta: float = 1e-6) -> list[Callable[[], list[Section]]]:
    """Functions that make the sections of `release_sections`, in their order, also in other processes."""
    members, delta = _only_releases(releases), float(deltas(delta))
    value_limits, curve_limit = _value_limits(members), _curve_limit(members, delta)
    of_releases = [
        partial(_section, release, delta, at, limits, curve_limit)
        for at, (release, limits) in enumerate(zip(members, value_limits, strict=True))
    ]
    return [*of_releases, partial(_combined_cost, members, delta)]


def _value_limits(releases: Sequence[Release]) -> list[tuple[float, float] | None]:
    """Limits of the axis of each release: releases of the same quantity share an axis, so that widths compare."""
    shared: dict[Any, list[Release]] = {}
    keys = [(release.mechanism.quantity, figures.scale(release)) for release in releases]
    for key, release in zip(keys, releases, strict=True):
        if key[0] != "statistic" and figures.drawn(release).dtype.kind == "f":
            shared.setdefault(key, []).append(release)
    found = {key: figures.common_limits(members) for key, members in shared.items() if len(members) > 1}
    return [found.get(key) for key in keys]


def _curve_limit(releases: Sequence[Release], delta: float) -> float | None:
    """The end of the epsilon axis that all privacy curves of a page share."""
    ends = [figures.last_epsilon(release.account, delta) for release in releases]
    finite = [end for end in ends if np.isfinite(end)]
    return max(finite) if len(finite) > 1 else None


def _section(
    release: Release,
    delta: float,
    at: int,
    limits: tuple[float, float] | None,
    curve_limit: float | None,
) -> list[Section]:
    account, mechanism = release.account, release.mechanism
    scale = ("At epsilon = 0 the release would reveal nothing about any single record.",) if at == 0 else ()
    section = Section(
        title=f"{mechanism.title}: {release_size(release)}",
        lead=(mechanism.description,),
        pictures=_pictures(release, delta, limits, curve_limit),
        parts=(
            Part(heading="Privacy statement, to publish with the release", quote=_powers(release.statement(delta))),
            Part(heading="How to read epsilon", paragraphs=(*cost(account, delta), *scale)),
            Part(heading="The numbers", rows=_facts(release, delta), folded=True),
            Part(heading="Code that repeats the release", code=_code(mechanism, delta), folded=True),
        ),
        anchor=f"release-{at + 1}",
    )
    return [section]


def _powers(text: str) -> str:
    """Write powers of ten as everywhere on the page: 1e-6, not 1e-06."""
    return re.sub(r"(?<=\de[-+])0+(?=\d)", "", text)


def _pictures(
    release: Release, delta: float, limits: tuple[float, float] | None, curve_limit: float | None
) -> tuple[Picture, ...]:
    account, single = release.account, one_draw(release.mechanism).accountant
    accounts: list[tuple[str, Accountant]] = [("one draw", single)]
    draws = getattr(release.mechanism, "draws", 1)
    if draws > 1:
        accounts.append((f"all {draws} draws", account))
    shown = Picture(
        image=figures.released(release, limits),
        alt="The released draws on a line.",
        caption=_caption(release),
        rows=_numbers(release),
    )
    if account.infinity_mass > 0.0:
        return (shown,)
    curve = Picture(
        image=figures.privacy_curves(accounts, delta=delta, last=curve_limit),
        alt="The privacy curve: delta decreases as epsilon grows; logarithmic scale.",
        caption=(
            "The privacy curve δ(ε), also called privacy profile: the release is (ε, δ)-differentially private at each "
            f"point of the curve. Lower curves are more private. The dots mark δ = {small(delta)}."
        ),
    )
    if not has_risk(account):
        return shown, curve
    unit = str(getattr(account.relation, "unit", "record"))
    risk = Picture(
        image=figures.risk_curve(account),
        alt="The largest success of an attack on one record against its success without the release.",
        caption=(
            f"What the release can add to a guess about one {unit}. The dotted line adds nothing. The bound holds for "
            f"any guess about one {unit} chosen before the release, if the other {plural(unit)} tell nothing about "
            f"that {unit} that the guesser does not know already, and if every attack without the release succeeds "
            "with at most the probability on the horizontal axis. It says nothing about several "
            f"{plural(unit)} at once."
        ),
    )
    return shown, curve, risk


def _hidden_coordinates(release: Release) -> int:
    """Return the number of coordinates of a draw that the page does not show."""
    draws = figures.drawn(release)
    return 0 if draws.dtype.kind == "i" else max(0, draws[0].size - figures.MOST)


def _caption(release: Release) -> str:
    more = _hidden_coordinates(release)
    rest = f" Only the first {figures.MOST} of {figures.MOST + more:,} are shown; the file has all." if more else ""
    if figures.many(release) and "answers" not in release.draws:
        return f"The released draws: median (dot), central 50 % (thick line) and central 90 % (thin line).{rest}"
    whole = not rest and len(release.draws) == 1
    return "Everything that was released, and nothing else." if whole else f"The released values.{rest}"


def _numbers(release: Release) -> tuple[tuple[str, ...], ...]:
    """Return the first draws of the first coordinates; the file of the release has all of them."""
    draws, label = figures.drawn(release), release.mechanism.quantity
    low, high = figures.scale(release)
    flat = draws.reshape(len(draws), -1)
    rows = []
    for column in range(min(flat.shape[1], figures.MOST)) if draws.dtype.kind == "f" else ():
        values = [f"{x:.6g}" for x in (low + (high - low) * flat[:, column]).tolist()]
        further = f" and {len(values) - _MOST_NUMBERS:,} more" if len(values) > _MOST_NUMBERS else ""
        title = label if flat.shape[1] == 1 else f"{label} {column}"
        if (low, high) != (0.0, 1.0):
            title = f"{title}, in the unit of the column"
        rows.append((title, ", ".join(values[:_MOST_NUMBERS]) + further))
    if more := _hidden_coordinates(release):
        rows.append((f"and {more:,} more", "in the file of the release"))
    if draws.dtype.kind == "i":
        codes, counts = np.unique(draws, return_counts=True)
        rows = [(f"answers of {code}", f"{count:,}") for code, count in zip(codes, counts, strict=True)]
    return tuple(rows)


def _facts(release: Release, delta: float) -> tuple[tuple[str, ...], ...]:
    account = release.account
    levels = sorted({delta, 1e-5, 1e-9} - {0.0}, reverse=True)
    rows = [(f"epsilon at delta = {small(level)}", price(account, level)) for level in levels]
    rows.append(("epsilon at delta = 0", rounded_up(account.pure_epsilon)))
    if np.isfinite(account.conditional_zcdp):
        rows.append(("zCDP: rho", f"{rounded_up(account.conditional_zcdp)}{given_mass(account)}"))
    if np.isfinite(account.order_limit):
        rows.append(("Rényi curve finite below order", f"{account.order_limit:.4g}"))
    rows.append(("kind of these numbers", {"exact": "exact", "upper bound": "upper bounds"}[account.kind("epsilon")]))
    rows.append(("source", account.source))
    if release.mechanism._grid_text:
        rows.append(("drawn exactly, rounded", release.mechanism._grid_text))
    return tuple(rows)


def _combined_cost(releases: list[Release], delta: float) -> list[Section]:
    groups: dict[Relation, list[Release]] = {}
    for release in releases:
        groups.setdefault(release.account.relation, []).append(release)
    shared = {relation: members for relation, members in groups.items() if len(members) > 1}
    if not shared:
        return []
    parts = []
    for relation, members in shared.items():
        total = sum(release.account for release in members)
        assert isinstance(total, Accountant)
        named = [(f"{release.mechanism.title}, {release_size(release)}", release.account) for release in members]
        rows = [(label, price(account, delta)) for label, account in [*named, ("all together", total)]]
        columns = (f"neighbouring relation: {relation.description}", f"epsilon at delta = {small(delta)}")
        parts.append(Part(columns=columns, rows=tuple(rows)))
    lead = (
        "If several of these releases were computed from the same records, an observer of all of them can learn more "
        "than an observer of one. This table shows the privacy cost of their composition."
    )
    return [Section(title="Privacy cost of all releases together", lead=(lead,), parts=tuple(parts), anchor="together")]


def _code(mechanism: Mechanism, delta: float) -> str:
    text = code_repr(mechanism)
    import privsample

    names = sorted({word for word in re.findall(r"\b[A-Z]\w+(?=\()", text) if word in privsample.__all__})
    return (
        f"from privsample import {', '.join(names)}\n\nmechanism = {text}\n"
        f"release = mechanism.release(column)\nrelease.account.epsilon({small(delta)})"
    )
