"""Objects that are indexed by the names of their draws."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from numpy.typing import NDArray


class NamedDraws:
    """Read-only access to `draws` by name, as to a dictionary: `x["theta"]`, `"theta" in x`, `list(x)`, `dict(x)`."""

    __slots__ = ()

    draws: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.draws[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.draws)

    def __len__(self) -> int:
        return len(self.draws)

    def __contains__(self, name: object) -> bool:
        return name in self.draws

    def __bool__(self) -> bool:
        return True  # also of a mechanism that released nothing

    def keys(self) -> KeysView[str]:
        """The names of the draws.

        Returns
        -------
        KeysView
            The names, in the order of `draws`.
        """
        return self.draws.keys()

    def values(self) -> ValuesView[NDArray[Any]]:
        """The arrays of draws.

        Returns
        -------
        ValuesView
            The arrays, of shape (draws, ...).
        """
        return self.draws.values()

    def items(self) -> ItemsView[str, NDArray[Any]]:
        """The names and the arrays.

        Returns
        -------
        ItemsView
            Pairs of a name and its array.
        """
        return self.draws.items()
