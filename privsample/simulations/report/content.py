"""The parts of a page: pictures, tables, paragraphs and badges, in sections."""

import base64
from typing import Literal

from privsample._value import frozen_value

_PNG = b"\x89PNG"
_WIDE = 600  # pixels of the page; a picture that is wider is scrolled on a phone


@frozen_value
class Badge:
    """A word in a coloured frame: the outcome of an audit, or that there was none."""

    text: str
    kind: Literal["violated", "consistent", "none"] = "none"


Cell = str | Badge
Row = tuple[Cell, ...]


@frozen_value
class Picture:
    """A figure, SVG or PNG, with a text alternative, a caption and a table below it."""

    image: bytes
    alt: str
    caption: str = ""
    rows: tuple[Row, ...] = ()

    @property
    def source(self) -> str:
        """The figure as a data URL."""
        kind = "svg+xml" if self.width is None else "png"
        return f"data:image/{kind};base64,{base64.b64encode(self.image).decode('ascii')}"

    @property
    def width(self) -> int | None:
        """The width of a PNG in pixels of the page, half of its own pixels; None for an SVG, which fills its column."""
        return int.from_bytes(self.image[16:20], "big") // 2 if self.image.startswith(_PNG) else None

    @property
    def wide(self) -> bool:
        """True if a phone can show the figure legibly only in part."""
        return self.width is not None and self.width > _WIDE


@frozen_value
class Part:
    """Part of a section; empty fields are not shown.

    `folded` parts are hidden behind their heading; tables of `data` parts (numbers) and `wide` parts (text
    in many columns) scroll if they are too wide.
    """

    heading: str = ""
    paragraphs: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    quote: str = ""
    code: str = ""
    folded: bool = False
    data: bool = False
    wide: bool = False


@frozen_value
class Section:
    """A titled card with introductory paragraphs, pictures and parts.

    Sections with an `anchor` are listed in the contents. A `group` is the heading above consecutive sections; the parts
    of such sections stand beside their pictures if there is room.
    """

    title: str
    lead: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    parts: tuple[Part, ...] = ()
    group: str = ""
    anchor: str = ""
