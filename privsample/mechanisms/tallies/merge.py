"""Merging of many tallies, each part once."""

from collections.abc import Iterable
from functools import reduce
from typing import Any

from privsample._checks import listed
from privsample.errors import SchemaError
from privsample.mechanisms.tallies.fingerprints import content_digest
from privsample.mechanisms.tallies.tally import Tally

_SHOWN = 3  # names of parts in a message


def merge_tallies(tallies: Iterable[Tally], *, parts: Iterable[str] | None = None) -> Tally:
    """Add up tallies of disjoint parts of the data; a part that was counted twice, with equal content, counts once.

    Parameters
    ----------
    tallies : iterable of Tally
        At least one tally. They may come from an iterator: few of them are held at a time.
    parts : iterable of str, optional
        The names of all parts. By default they are not compared.

    Returns
    -------
    Tally
        The tally of all parts together.

    Raises
    ------
    SchemaError
        If the tallies are of different mechanisms, a part occurs twice with different content or within different
        sums, only some parts have names, or the names are not those of `parts`.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.LaplaceSum(bounds=(0, 1), scale=2)
    >>> january, february = mechanism.tally([1, 0], part="january"), mechanism.tally([1, 1], part="february")
    >>> total = ps.merge_tallies([january, february, january], parts=["january", "february"])
    >>> total.counts.tolist(), sorted(total.parts)
    ([4], ['february', 'january'])
    """
    given: Any = tallies
    if not isinstance(given, Iterable):
        raise TypeError(f"tallies must be a list or iterator of tallies, got {type(given).__name__}")
    merged, levels = _Parts(), list[Tally | None]()
    for tally in tallies:
        if not isinstance(tally, Tally):
            raise TypeError(f"tallies must be made by mechanism.tally(data), got {type(tally).__name__}")
        if merged.is_new(tally):
            _carry(levels, tally)
    found = [tally for tally in levels if tally is not None]
    if not found:
        raise ValueError("tallies must hold at least one tally, got none")
    total = reduce(lambda more, fewer: more + fewer, found)
    if parts is not None:
        _check_complete(total.parts, parts)
    return total


class _Parts:
    """The parts that were merged so far, with the content in which each came."""

    def __init__(self) -> None:
        self._content: dict[frozenset[str], str] = {}
        self._within: dict[str, frozenset[str]] = {}

    def is_new(self, tally: Tally) -> bool:
        """Whether a tally is to be added: False if its parts came before, with this content. Raises SchemaError."""
        if not tally.parts:
            return True
        content, before = content_digest(tally), self._content.get(tally.parts)
        if before == content:
            return False
        if before is not None:
            raise SchemaError(
                f"a repeated part must have the same content, got two for {_listed(tally.parts)}: find out which data "
                "each was made from, and why they differ"
            )
        for name in sorted(tally.parts):
            if name in self._within:
                raise SchemaError(
                    f"each part must be counted once, got {name!r} in {_listed(self._within[name])} and in "
                    f"{_listed(tally.parts)}: merge the tallies of single parts"
                )
        self._content[tally.parts] = content
        self._within |= dict.fromkeys(tally.parts, tally.parts)
        return True


def _carry(levels: list[Tally | None], tally: Tally) -> None:
    """Add a tally to those at the levels, of 1, 2, 4, ... tallies each, as in a binary counter.

    A row of n merged tallies is therefore added log2(n) times, and log2(n) sums are held.
    """
    for level, held in enumerate(levels):
        if held is None:
            levels[level] = tally
            return
        tally, levels[level] = held + tally, None
    levels.append(tally)


def _check_complete(found: frozenset[str], expected: Iterable[str]) -> None:
    """Check that the parts are the expected ones. Raises SchemaError."""
    names = listed(parts=expected)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("parts must be texts, the names of all parts")
    if missing := set(names) - found:
        raise SchemaError(f"all parts must be counted, {_listed(missing)} missing: tally these data and merge again")
    if other := found - set(names):
        raise SchemaError(f"parts must name all parts of the data, got a tally of {_listed(other)} beside them")


def _listed(names: Iterable[str]) -> str:
    """The names in order, the first few of many."""
    found = sorted(names)
    return ", ".join(map(repr, found[:_SHOWN])) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
