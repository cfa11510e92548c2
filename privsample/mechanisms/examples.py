"""Examples of mechanisms, each with a mutant: a broken copy that an audit must catch."""

from dataclasses import replace
from typing import Any, Self

from privsample._checks import positive_integer
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.mechanisms.base import Mechanism

TOO_LITTLE_NOISE = "the noise is smaller than stated"
TOO_MUCH_WEIGHT = "every record counts more than stated"


@frozen_value
class Example:
    """A small mechanism for audits, tests and documentation, with a mutant that leaks more than its account states.

    Parameters
    ----------
    name : str
        Name of the example on the command line, as in `privsample audit NAME`; it must be unique and without spaces.
    mechanism : Mechanism
        The correct mechanism.
    mutant : Mechanism
        A broken copy, which an audit against the account of `mechanism` must catch.
    bug : str
        What is wrong in the mutant, in a few words.
    samples : int, default 30_000
        Number of draws from each dataset, >= 1, with which an audit at level 1e-6 almost always catches the mutant.

    Raises
    ------
    TypeError
        If the mechanism or the mutant is not a mechanism, or the name or the bug is not text.
    ValueError
        If the name or the bug is empty, the name contains spaces, or `samples` is below 1.

    Examples
    --------
    >>> import privsample as ps
    >>> example = ps.LaplaceMechanism.examples()[0]
    >>> example.name, example.bug
    ('laplace', 'the noise is smaller than stated')
    >>> example.mutant.scale < example.mechanism.scale
    True
    """

    name: str
    mechanism: Mechanism
    mutant: Mechanism
    bug: str
    samples: int = 30_000

    def __post_init__(self) -> None:
        for name in ("mechanism", "mutant"):
            if not isinstance(getattr(self, name), Mechanism):
                raise TypeError(f"{name} must be a mechanism, got {type(getattr(self, name)).__name__}")
        for name in ("name", "bug"):
            text = getattr(self, name)
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a string, got {type(text).__name__}")
            if not text.strip():
                raise ValueError(f"{name} must not be empty")
        if len(self.name.split()) != 1 or self.name != self.name.strip():
            raise ValueError(f"name must have no spaces, as it is typed on the command line, got {self.name!r}")
        set_fields(self, samples=positive_integer(samples=self.samples))

    @classmethod
    def with_wrong_fields(
        cls, name: str, mechanism: Mechanism, *, bug: str, samples: int = 30_000, **wrong: Any
    ) -> Self:
        """The example whose mutant is the mechanism with other values of some fields.

        Parameters
        ----------
        name : str
            Name of the example on the command line.
        mechanism : Mechanism
            The correct mechanism.
        bug : str
            What is wrong in the mutant, in a few words.
        samples : int, default 30_000
            Number of draws from each dataset with which an audit catches the mutant, >= 1.
        **wrong
            The fields of the mutant that differ from those of the mechanism, with their wrong values.

        Returns
        -------
        Example
            The example.
        """
        mutant: Mechanism = replace(mechanism, **wrong)  # type: ignore[type-var]
        return cls(name=name, mechanism=mechanism, mutant=mutant, bug=bug, samples=samples)

    @property
    def claim(self) -> Accountant:
        """The account of one draw of the mechanism; an audit tests the mechanism and the mutant against it."""
        account = self.mechanism.worst_neighbours()[0].account
        assert account is not None
        return account
