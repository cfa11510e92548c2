"""The report: one self-contained HTML page, made from releases and from nothing else. Equal releases, equal bytes."""

import base64
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from privsample._checks import deltas
from privsample._repr import code_repr
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.draws import one_draw
from privsample.mechanisms.notes import refuse_notes
from privsample.mechanisms.release import Release
from privsample.relations import Relation
from privsample.simulations.report import figures
from privsample.simulations.report.statements import cost, price, rounded_up, small

_PNG = b"\x89PNG"
_WIDE = 600
_MOST_NUMBERS = 12  # draws of one coordinate


@frozen_value
class Picture:
    """A figure, SVG or PNG, with words for those who do not see it and a caption for those who do."""

    image: bytes
    alt: str
    caption: str = ""

    @property
    def source(self) -> str:
        """The figure as it stands in the page."""
        kind = "svg+xml" if self.width is None else "png"
        return f"data:image/{kind};base64,{base64.b64encode(self.image).decode('ascii')}"

    @property
    def width(self) -> int | None:
        """Of a PNG, at two of its pixels to one of the page's; an SVG takes what there is."""
        return int.from_bytes(self.image[16:20], "big") // 2 if self.image.startswith(_PNG) else None

    @property
    def wide(self) -> bool:
        """Whether a phone shows it legibly only a part at a time."""
        return self.width is not None and self.width > _WIDE


@frozen_value
class Part:
    """A piece of a section; what is empty does not show."""

    heading: str = ""
    paragraphs: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    quote: str = ""
    code: str = ""
    folded: bool = False  # behind its heading until it is opened
    data: bool = False  # rows of numbers: they scroll by themselves where they are too wide


@frozen_value
class Section:
    """A titled card: a sentence or two, then pictures, then the rest.

    Where there is a group, a heading stands above the first of it, the contents lead to it by its anchor, and the rest
    stands beside the pictures where there is room.
    """

    title: str
    lead: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    parts: tuple[Part, ...] = ()
    group: str = ""
    anchor: str = ""


def render(releases: Sequence[Release], *, delta: float = 1e-6) -> str:
    """One HTML page about these releases: what was released, what it costs, what is taken for granted, how to redo it.

    Raises: PrivateContent, curator's notes; TypeError, anything else that is not a Release; ValueError, no release.
    """
    members = _only_releases(releases)
    return page(
        release_sections(members, delta=delta),
        title="A private release" if len(members) == 1 else f"{len(members)} private releases",
        intro=(
            "The numbers on this page were computed from confidential records, and then blurred by chance on purpose. "
            "Whoever sees them learns about the records as a whole; what they give away about any single record is "
            "limited. This page says by how much, and what that rests on."
        ),
    )


def page(sections: Iterable[Section], *, title: str, intro: str) -> str:
    """One self-contained HTML page: no script, nothing loaded from elsewhere. Raises: PrivateContent, TypeError."""
    members = list(sections)
    refuse_notes(members)
    for member in members:
        if not isinstance(member, Section):
            raise TypeError(f"a page is made of sections, got {type(member).__name__}")
    try:
        import jinja2
    except ImportError:
        raise ImportError("reports need jinja2: pip install 'privsample[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("privsample.simulations.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    groups = [(group, list(inside)) for group, inside in groupby(members, key=lambda member: member.group)]
    return environment.get_template("page.html.j2").render(groups=groups, title=title, intro=intro)


def _only_releases(releases: Any) -> list[Release]:
    refuse_notes(releases)
    members = list(releases) if isinstance(releases, Iterable) else [releases]
    refuse_notes(members)
    for member in members:
        if not isinstance(member, Release):
            raise TypeError(f"only a Release may enter a report, got {type(member).__name__}")
    if isinstance(releases, Release):
        raise TypeError("releases must be a sequence: render([release])")
    if not members:
        raise ValueError("releases must hold at least one release, got none")
    return members


def release_sections(releases: Sequence[Release], *, delta: float = 1e-6) -> list[Section]:
    """A section for each release, and one for what they cost together. Raises: as `render`."""
    members, delta = _only_releases(releases), float(deltas(delta))
    return [
        *(_section(member, delta, at == 0) for at, member in enumerate(members)),
        *_combined_cost(members, delta),
    ]


def _section(release: Release, delta: float, first: bool) -> Section:
    account, mechanism = release.account, release.mechanism
    scale = (
        ("Smaller epsilon, better protection: at 0 the release says nothing about any single record.",) if first else ()
    )
    limits = sorted(assumption.value for assumption in account.assumptions)
    return Section(
        title=f"{mechanism.title}: {release_size(release)}",
        lead=(mechanism.description,),
        pictures=_pictures(release, delta),
        parts=(
            Part(heading="What was released", rows=_numbers(release)),
            Part(heading="What it costs", paragraphs=(*cost(account, delta), *scale)),
            Part(
                heading="What is taken for granted",
                bullets=(
                    f"Two datasets count as neighbours when {account.relation.words}.",
                    *(_sentence(x) for x in limits),
                ),
            ),
            Part(heading="The numbers", rows=_facts(release, delta), folded=True),
            Part(heading="Privacy statement, to publish beside the release", quote=_powers(release.statement(delta))),
            Part(heading="To do the same again", code=_code(mechanism, delta), folded=True),
        ),
    )


def release_size(release: Release) -> str:
    """How many draws."""
    draws = figures.drawn(release)
    if draws.dtype.kind == "i":
        return f"{draws.size:,} answers"
    return f"{len(draws):,} {'draw' if len(draws) == 1 else 'draws'}"


def _powers(text: str) -> str:
    """Powers of ten as everywhere on the page: 1e-6."""
    return re.sub(r"(?<=\de[-+])0+(?=\d)", "", text)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _pictures(release: Release, delta: float) -> tuple[Picture, ...]:
    account, single = release.account, one_draw(release.mechanism).accountant
    accounts: list[tuple[str, Accountant]] = [("one draw", single)]
    draws = getattr(release.mechanism, "draws", 1)
    if draws > 1:
        accounts.append((f"all {draws} draws", account))
    shown = Picture(
        image=figures.released(release),
        alt="The released draws on a line.",
        caption=_caption(release),
    )
    curve = Picture(
        image=figures.privacy_curves(accounts, delta=delta),
        alt="The failure probability delta falling as epsilon grows, on a logarithmic scale.",
        caption=(
            "What it costs: each epsilon (across) holds but for a failure probability delta (up). "
            f"Lower and further left is more private; the dots mark delta = {small(delta)}."
        ),
    )
    return (shown, curve) if account.infinity_mass == 0.0 else (shown,)


def _hidden_coordinates(release: Release) -> int:
    """Coordinates of a draw for which the page has no room."""
    draws = figures.drawn(release)
    return 0 if draws.dtype.kind == "i" else max(0, draws[0].size - figures.MOST)


def _caption(release: Release) -> str:
    more = _hidden_coordinates(release)
    rest = f" Only the first {figures.MOST} of {figures.MOST + more:,} are shown; the file holds all." if more else ""
    if figures.many(release) and "answers" not in release.draws:
        return f"The released draws: median (dot), middle half (thick), nine in ten (thin).{rest}"
    whole = not rest and len(release.draws) == 1
    return "Everything that was released, and nothing else." if whole else f"What was released.{rest}"


def _numbers(release: Release) -> tuple[tuple[str, ...], ...]:
    """The draws, as many as a reader can take in; the file holds all of them."""
    draws, label = figures.drawn(release), release.mechanism.quantity
    low, high = figures.scale(release)
    flat = draws.reshape(len(draws), -1)
    rows = []
    for column in range(min(flat.shape[1], figures.MOST)) if draws.dtype.kind == "f" else ():
        values = [f"{x:.6g}" for x in (low + (high - low) * flat[:, column]).tolist()]
        further = f" and {len(values) - _MOST_NUMBERS:,} more" if len(values) > _MOST_NUMBERS else ""
        title = label if flat.shape[1] == 1 else f"{label} {column}"
        if (low, high) != (0.0, 1.0):
            title = f"{title}, in the column's unit"
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
    rows.append(("epsilon with no failure at all", rounded_up(account.pure_epsilon)))
    if np.isfinite(account.zcdp):
        rows.append(("zCDP: rho", rounded_up(account.zcdp)))
    if np.isfinite(account.order_limit):
        rows.append(("Rényi curve finite below order", f"{account.order_limit:.4g}"))
    rows.append(("these numbers are", {"exact": "exact", "upper bound": "upper bounds"}[account.kind("epsilon")]))
    rows.append(("they rest on", account.source))
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
        rows = [(label, price(account, delta)) for label, account in [*named, ("all of them", total)]]
        columns = (f"neighbours: {relation.words}", f"epsilon at delta = {small(delta)}")
        parts.append(Part(columns=columns, rows=tuple(rows)))
    lead = (
        "Costs add up. Where several of these releases were drawn from the same records, someone who sees all of them "
        "can learn more than from any one; this is what they cost together."
    )
    return [Section(title="What they cost together", lead=(lead,), parts=tuple(parts))]


def _code(mechanism: Mechanism, delta: float) -> str:
    text = code_repr(mechanism)
    import privsample

    names = sorted({word for word in re.findall(r"\b[A-Z]\w+(?=\()", text) if word in privsample.__all__})
    return (
        f"from privsample import {', '.join(names)}\n\nmechanism = {text}\n"
        f"release = mechanism.release(column)\nrelease.account.epsilon({small(delta)})"
    )
