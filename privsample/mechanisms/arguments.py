"""The command-line interface of a mechanism class: its name, its options, and the data that it reads from a file.

The fields of a mechanism are its options: `noise_std: float` becomes `--noise-std 2`, `bounds: tuple[float, float]`
becomes `--bounds 0,1`, `shape: tuple[int, ...]` becomes `--shape 2,3`, a bool becomes a flag, and a `Literal` a
choice. A field with a default is optional; so is a field of the class's `free_parameters` if a privacy
target determines it. A field that holds another value, such as a mechanism's `base` or a subsampling scheme, is
written as the name and the fields of that value, `--base "gaussian-sum noise-std=2 bounds=0,1"`, with parentheses
around nested values. The neighbouring relation has three options: `--relation`, `--n` and `--unit`.

A mechanism needs no other code for the command line. If the types of its fields are not sufficient, its class attribute
`command`, a `CommandLine`, adds a shorter name, the help of a field, another option in place of a field, and the
columns of a file that `release` takes. The help of a field is the text in `command`, else the first sentence of the
field's entry in the section Parameters of the class's docstring, else the usual meaning of a field of this name.

The parsing of text into values is in `privsample/cli/syntax.py`.
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
    """One option of a mechanism on the command line.

    Parameters
    ----------
    name : str
        The option without its dashes, with underscores: "noise_std" is `--noise-std`.
    kind : type, default str
        The type hint by which the text is parsed.
    help : str, default ""
        The help text, one line.
    metavar : str, default ""
        Placeholder of the value in the help; if empty, it is derived from `kind`.
    choices : mapping of str to object, default empty
        The allowed texts and their values; if empty, every text that `kind` can parse is allowed.
    required : bool, default True
        Whether the option must be given.
    fields : tuple of str, default ()
        The fields that the option fills; several fields take the parts of the value in turn.

    Examples
    --------
    >>> import privsample as ps
    >>> option = ps.Argument(name="prior", kind=tuple[float, float], metavar="A,B", fields=("alpha", "beta"))
    >>> option.required, option.fields
    (True, ('alpha', 'beta'))
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
    """The part of a mechanism's command-line interface that the types of its fields do not determine.

    Parameters
    ----------
    name : str, default ""
        Name of the mechanism; if empty, the class name in kebab case without "mechanism" at its end.
    data : tuple of {"column", "rows", "labelled rows", "statistic"}, default ()
        What `release` takes from a file, the usual form first: one column of numbers; several columns as an array of
        shape (n, width); such an array with a column of labels; an array in a file of its own. If empty, the mechanism
        takes no file, or takes what its `base` takes.
    help : mapping of str to str, default empty
        Help texts by field.
    arguments : mapping of str to (Argument or None), default empty
        Options that replace fields; None removes a field, which then needs a default.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.DirectPosterior.command.name, ps.DirectPosterior.command.data
    ('direct', ('column',))
    """

    name: str = ""
    data: tuple[DataFormat, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Argument | None] = field(default_factory=dict)


def noise_argument(default: str) -> Argument:
    """The option that selects the noise distribution by its name."""
    choices = {name.replace(" ", "-"): name for name in NAMES}
    words = f"{', '.join(choices)} (default: {default})"
    return Argument(name="noise", choices=choices, metavar="NAME", help=words, required=False, fields=("noise",))


# Help of fields without a text of their own: the usual meaning of a field of this name.
_HELP = {
    "n": "the public number of records",
    "draws": "the number of independent draws; the account covers all (default: 1)",
    "unit": "what one record is, e.g. patient",
    "sensitivity": "the largest change of the statistic between neighbours (L1 for Laplace noise, L2 for Gaussian)",
    "noise_std": "the standard deviation of the noise",
    "scale": "the scale of the noise",
    "shape": "the statistic's shape (default: one number)",
    "bounds": "values outside count as the nearer bound",
    "norm": "rows that are longer in L2 are scaled down to this length",
    "data_weight": "the weight of each record's log likelihood, in (0, 1]",
    "prior_weight": "multiplies the prior's parameters, at least 1",
    "temperature": "at least 1; a higher temperature gives a flatter distribution",
    "features": "the number of features of a record",
    "base": "the mechanism inside, by its name and options",
    "score": "the name of the draw that ranks the runs (default: the only one)",
}
# The meaning of the value of a free parameter, for readers of a table.
_MEANINGS: dict[str, Callable[[float], str]] = {
    "data_weight": lambda w: f"(every record counts {w:.3g} times; the prior counts once)",
    "prior_weight": lambda w: f"(the prior counts {w:.3g} times; every record once)",
    "temperature": lambda t: f"(prior and records count {1 / t:.3g} times)",
    "scale": lambda _: "(of the noise, in the statistic's unit)",
}


def meaning(name: str, amount: float) -> str:
    """The meaning of this value of a field; empty if the field's name states it."""
    return _MEANINGS[name](amount) if name in _MEANINGS else ""


def command_name(cls: Any) -> str:
    """The name of a mechanism, or of any other class of values, on the command line."""
    own: CommandLine | None = getattr(cls, "command", None)
    named = (
        own.name if own is not None else getattr(cls, "command_name", None)
    )  # models have no `command`, but a `command_name`
    if named:
        return str(named)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__).lower()
    return words.removesuffix("-mechanism") if own is not None else words


def arguments(cls: Any) -> tuple[Argument, ...]:
    """The options of a class of values, in the order of its fields; for those of a target, see `free_argument`."""
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
    """The options `--relation`, `--n` and `--unit`, which together give the neighbouring relation."""
    fixed: dict[str, Any] = {"required": False, "fields": (item.name,)}
    return [
        Argument(
            name="relation",
            kind=Literal["add-remove", "replace-one"],
            help="the neighbouring relation: one record is added or removed (add-remove), or one of --n records is "
            "replaced (replace-one)",
            **fixed,
        ),
        Argument(
            name="n",
            kind=int,
            help="the number of records, if it is public; it implies --relation replace-one",
            **fixed,
        ),
        Argument(name="unit", kind=str, help=_HELP["unit"], metavar="WORD", **fixed),
    ]


def has_relation(cls: Any) -> bool:
    """Whether the class has a field for the neighbouring relation."""
    return any(_is(hint, Relation) for hint in _hints(cls).values())


def field_of_kind(cls: Any, kind: type) -> str | None:
    """The first field that holds a value of this kind, or None."""
    hints = _hints(cls)
    return next((item.name for item in fields(cls) if item.init and _is(hints[item.name], kind)), None)


def free_argument(cls: Any, free: FreeParameter) -> Argument | None:
    """The option of the field that a target determines, which may then be left out; None if the field has no option."""
    return next((one for one in arguments(cls) if one.fields == (free.decides,)), None)


def summary(cls: Any) -> str:
    """The first sentence of the class's docstring."""
    return _first_sentence(inspect.getdoc(cls) or "")


def parameter_help(cls: Any) -> dict[str, str]:
    """The first sentence about each field, from the section Parameters of a numpydoc docstring."""
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
    """The type hints of the fields; a hint that cannot be resolved stays text."""
    try:
        found = get_type_hints(cls)
    except (NameError, TypeError, AttributeError):
        found = {}
    return {item.name: found.get(item.name, item.type) for item in fields(cls)}


def _is(hint: Any, kind: type) -> bool:
    """Whether a type hint is this class or a subclass, or an optional one."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is(part, kind) for part in get_args(hint) if part is not type(None))
    return isinstance(hint, type) and issubclass(hint, kind)
