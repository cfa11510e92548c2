"""What a command line must know of a mechanism: its name, its options, and which data in a file it reads.

A mechanism's fields are its options: `noise_std: float` is `--noise-std 2`, `bounds: tuple[float, float]` is
`--bounds 0,1`, `shape: tuple[int, ...]` is `--shape 2,3`, a bool is a flag, a `Literal` a choice. A field with a
default may be left out; so may the field that a limit decides, which the class's `free_parameters` name. A field that
is a value of its own, as a mechanism's `base` or a subsampling scheme, is written as its name and its fields,
`--base "gaussian-sum noise-std=2 bounds=0,1"`, with parentheses around a value inside another. The neighbouring
relation is three options: `--relation`, `--n` and `--unit`.

So a mechanism needs no line of code to have a command line. Where its types do not say enough, its class attribute
`command`, a `CommandLine`, says more: a shorter name, the help of a field, another option in a field's place, and which
columns of a file `release` takes. The help of a field is what `command` says, else the first sentence of the field's
entry in the class's docstring (numpydoc's section Parameters), else what a field of this name mostly means.

How text becomes a value is the command line's own business (`privsample/cli/syntax.py`).
"""

import inspect
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from privsample._value import frozen_value
from privsample.distributions.noise import NAMES
from privsample.mechanisms.calibration import FreeParameter
from privsample.relations import Relation

DataFormat = Literal["column", "rows", "labelled rows", "statistic"]


@frozen_value
class Argument:
    """One option of a mechanism.

    Parameters
    ----------
    name : str
        The option without its dashes, with underscores: "noise_std" is `--noise-std`.
    kind : type
        What the text is read as: a type hint.
    help : str
        One line.
    metavar : str
        What stands for the value in the help; by default it follows from `kind`.
    choices : mapping of str to value
        The texts that are allowed, and what each means; by default any text that `kind` can be read from.
    required : bool
        Whether it must be given.
    fields : tuple of str
        The fields that it fills, the parts of the value in turn where there are several. Empty: none.
    """

    name: str
    kind: Any = str
    help: str = ""
    metavar: str = ""
    choices: Mapping[str, Any] = field(default_factory=dict)
    required: bool = True
    fields: tuple[str, ...] = ()


@frozen_value
class CommandLine:
    """How a mechanism appears on a command line, where its fields' types do not say enough.

    Parameters
    ----------
    name : str
        By default the class's name in kebab case, without "mechanism" at its end.
    data : tuple of {"column", "rows", "labelled rows", "statistic"}
        What of a file `release` takes, the usual form first: one column of numbers; several columns as an array of
        shape (n, width); such an array with a column of labels; an array of its own. Empty: nothing that a file holds,
        or what the `base` takes.
    help : mapping of str to str
        The help of fields.
    arguments : mapping of str to (Argument or None)
        Other options in the place of fields; None leaves a field out, which needs a default.
    """

    name: str = ""
    data: tuple[DataFormat, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Argument | None] = field(default_factory=dict)


def noise_argument(default: str) -> Argument:
    """The option for the distribution of the noise, by its name, where a field holds such a name."""
    choices = {name.replace(" ", "-"): name for name in NAMES}
    words = f"{', '.join(choices)} (default: {default})"
    return Argument(name="noise", choices=choices, metavar="LAW", help=words, required=False, fields=("noise",))


# The help of a field that has none of its own: what fields of this name mean in most mechanisms.
_HELP = {
    "n": "how many records there are (public)",
    "draws": "how many draws to release; each costs (default: 1)",
    "unit": "what one record is, e.g. patient",
    "sensitivity": "the most that one neighbour moves the statistic",
    "noise_std": "the standard deviation of the noise",
    "scale": "the scale of the noise",
    "shape": "the statistic's shape (default: one number)",
    "bounds": "values outside count as the nearer bound",
    "norm": "rows that are longer in L2 are scaled down to this length",
    "data_weight": "how much a record counts, in (0, 1]",
    "prior_divisor": "divides the prior, in (0, 1]",
    "temperature": "at least 1; a higher one flattens more",
    "features": "how many features a record has",
    "base": "the mechanism inside, by its name and options",
    "score": "the name of the draw that ranks the runs (default: the only one)",
}
# What the amount of a field means, for people who read a table.
_MEANINGS: dict[str, Callable[[float], str]] = {
    "data_weight": lambda w: f"(every record counts {w:.3g} times; the prior counts once)",
    "prior_divisor": lambda m: f"(the prior counts {1 / m:.3g} times; every record once)",
    "temperature": lambda t: f"(prior and records count {1 / t:.3g} times)",
    "scale": lambda _: "(of the noise, in the statistic's unit)",
}


def meaning(name: str, amount: float) -> str:
    """What this amount of a field means, in words; empty where the field's name says it."""
    return _MEANINGS[name](amount) if name in _MEANINGS else ""


def command_name(cls: Any) -> str:
    """The name of a mechanism, or of any other class of values, on a command line."""
    own: CommandLine | None = getattr(cls, "command", None)
    named = own.name if own is not None else getattr(cls, "command_name", None)  # models name themselves
    if named:
        return str(named)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()
    return words.removesuffix("-mechanism") if own is not None else words


def arguments(cls: Any) -> tuple[Argument, ...]:
    """The options of a class of values, in the order of its fields; of those of a limit, see `free_argument`."""
    own: CommandLine = getattr(cls, "command", None) or CommandLine()
    hints, documented = _hints(cls), parameter_help(cls)
    found: list[Argument] = []
    for item in fields(cls):
        if not item.init:
            continue
        if item.name in own.arguments:
            if (replacement := own.arguments[item.name]) is not None:
                found.append(replacement)
        elif _is(hints[item.name], Relation):
            found += _of_relation(item)
        else:
            words = own.help.get(item.name) or documented.get(item.name) or _HELP.get(item.name, "")
            required = item.default is MISSING and item.default_factory is MISSING
            found.append(
                Argument(name=item.name, kind=hints[item.name], help=words, required=required, fields=(item.name,))
            )
    return tuple(found)


def _of_relation(item: "Field[Any]") -> list[Argument]:
    """`--relation`, `--n` and `--unit`: neighbours have one record more or less, or n is public and one is replaced."""
    fixed: dict[str, Any] = {"required": False, "fields": (item.name,)}
    return [
        Argument(
            name="relation",
            kind=Literal["add-remove", "replace-one"],
            help="what neighbours are: one has a record more (add-remove), or both have --n records and one differs "
            "(replace-one)",
            **fixed,
        ),
        Argument(
            name="n",
            kind=int,
            help="how many records there are, where that is public; it means --relation replace-one",
            **fixed,
        ),
        Argument(name="unit", kind=str, help=_HELP["unit"], metavar="WORD", **fixed),
    ]


def has_relation(cls: Any) -> bool:
    """Whether the neighbouring relation is a field."""
    return any(_is(hint, Relation) for hint in _hints(cls).values())


def field_of_kind(cls: Any, kind: type) -> str | None:
    """The first field that holds a value of this kind, or None."""
    hints = _hints(cls)
    return next((item.name for item in fields(cls) if item.init and _is(hints[item.name], kind)), None)


def free_argument(cls: Any, free: FreeParameter) -> Argument | None:
    """The option of the field that a limit decides, which may then be left out; None where it is no option."""
    return next((one for one in arguments(cls) if one.fields == (free.decides,)), None)


def summary(cls: Any) -> str:
    """The first sentence of the class's docstring."""
    return _first_sentence(inspect.getdoc(cls) or "")


def parameter_help(cls: Any) -> dict[str, str]:
    """The first sentence about each field, from the section Parameters of a docstring in numpydoc's form."""
    text = inspect.getdoc(cls) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", text, re.DOTALL | re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^(\w[\w, ]*?) *(?::[^\n]*)?\n((?:[ \t]+[^\n]*\n?|\n)+)", section[1] + "\n", re.MULTILINE)
    return {name.strip(): _first_sentence(words) for names, words in entries for name in names.split(",")}


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[a-z0-9)\]`])[.:;](?= [A-Z`]|$)", paragraph)[0]


def _hints(cls: Any) -> dict[str, Any]:
    """The types of the fields; a name that cannot be looked up stays text."""
    try:
        found = get_type_hints(cls)
    except (NameError, TypeError, AttributeError):
        found = {}
    return {item.name: found.get(item.name, item.type) for item in fields(cls)}


def _is(hint: Any, kind: type) -> bool:
    """Whether a type hint means values of this kind, or None."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is(part, kind) for part in get_args(hint) if part is not type(None))
    return isinstance(hint, type) and issubclass(hint, kind)
