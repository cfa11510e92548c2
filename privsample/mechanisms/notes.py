"""Notes for the curator: facts that depend on the data and must not be published."""

from collections.abc import Mapping
from typing import Any, NoReturn

from privsample._checks import mapping
from privsample._value import frozen_value, set_fields
from privsample.errors import PrivateContent

_REFUSAL = (
    "curator's notes depend on the data and have no account: they cannot be saved, sent or reported. "
    "Call .text() to read them yourself; publish the Release instead"
)
_PRIVATE = (
    "a tally holds the exact statistic and has no account: publish the Release that mechanism.release(tally) draws"
)


@frozen_value
class CuratorNotes:
    """Facts that depend on the data. `text()` shows them to the curator; they cannot be written to files.

    Parameters
    ----------
    title : str
        What the notes are about, in one line.
    facts : mapping of str to object
        The facts by name, such as the number of records outside the bounds.

    Examples
    --------
    >>> import privsample as ps
    >>> notes = ps.GaussianSum(bounds=(0, 1), noise_std=2).validate([0.5, 7.0])
    >>> print(notes.text())
    2 records to add up (for the curator only)
      outside  1
    >>> notes
    CuratorNotes(title='2 records to add up', facts hidden: call .text())
    """

    title: str
    facts: Mapping[str, object]

    def __post_init__(self) -> None:
        set_fields(self, facts=mapping(facts=self.facts))

    def text(self) -> str:
        """The notes as text, one fact per line.

        Returns
        -------
        str
            The title and the facts. The text depends on the data: do not publish it.
        """
        width = max((len(name) for name in self.facts), default=0)
        lines = [f"  {name.ljust(width)}  {fact}" for name, fact in self.facts.items()]
        return "\n".join([f"{self.title} (for the curator only)", *lines])

    @property
    def never_written(self) -> bool:
        """Always True: the functions that write files raise an error for objects with this property."""
        return True

    def __repr__(self) -> str:
        return f"CuratorNotes(title={self.title!r}, facts hidden: call .text())"

    def __reduce__(self) -> NoReturn:
        raise PrivateContent(_REFUSAL)


def refuse_notes(item: Any) -> None:
    """Raise PrivateContent if the item is, or holds, curator's notes or a tally."""
    if isinstance(item, CuratorNotes):
        raise PrivateContent(_REFUSAL)
    if getattr(item, "never_written", False) is True:
        raise PrivateContent(_PRIVATE)
    members = item.values() if isinstance(item, Mapping) else item if isinstance(item, (list, tuple, set)) else ()
    for member in members:
        refuse_notes(member)
