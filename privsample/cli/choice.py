"""Selection of a mechanism by its name, and the command line options that its fields define."""

from argparse import SUPPRESS, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from typing import Any

from privsample.cli.errors import UsageProblem, nearest
from privsample.cli.models import add_model, load_extensions, model_flags
from privsample.cli.options import OWN, Parser
from privsample.cli.syntax import is_written, metavar, reader
from privsample.distributions.models.base import Model
from privsample.mechanisms.arguments import Argument, arguments, command_name, field_of_kind, summary
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.discovery import mechanism_classes


def mechanisms() -> dict[str, type[Mechanism]]:
    """Return every mechanism, including those of installed extensions, by its name on the command line.

    Raises: UsageProblem, if two mechanisms have the same name or an extension cannot be imported.
    """
    load_extensions()
    found: dict[str, type[Mechanism]] = {}
    for cls in mechanism_classes():
        other = found.setdefault(command_name(cls), cls)
        if other is not cls:
            raise UsageProblem(
                f"two mechanisms are called {command_name(cls)}, {other.__module__}.{other.__qualname__} and "
                f"{cls.__module__}.{cls.__qualname__}: give one a `command` with another name"
            )
    return dict(sorted(found.items()))


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the mechanism class of this name. Raises: UsageProblem."""
    known = mechanisms()
    if name not in known:
        hint = nearest([name], known) or ";"
        raise UsageProblem(f"there is no mechanism {name}{hint} `privsample mechanisms` prints all names")
    return known[name]


def add_mechanism(
    parser: Parser, *, without: type[Mechanism] | None = None, required: bool = True, words: str = "which mechanism"
) -> None:
    """Add `--mechanism` and the options of the named mechanism, or those of the class `without` if none is named."""
    parser.add_argument(
        "--mechanism",
        metavar="M",
        help=f"{words}; `privsample mechanisms` lists them, and `--mechanism M --help` shows the options of M",
    )

    def further(parser: Parser, given: Sequence[str]) -> None:
        name = _mechanism_argument(given)
        if name is not None:
            _add_options(parser, name, mechanism_class(name))
            parser.chosen = f" --mechanism {name}"
        elif without is not None:
            _add_options(parser, command_name(without), without)
        elif required and not {"-h", "--help"} & set(given):
            raise UsageProblem(
                "--mechanism is missing; `privsample mechanisms` lists all names. An example for posterior draws: "
                "--mechanism diffused --model beta-bernoulli --prior 6,12 --n 1000"
            )

    parser.further = further


def add_mechanisms(parser: Parser, *, without: type[Mechanism]) -> None:
    """Add `--mechanism A,B` and the options of the named mechanisms, or of the class `without` if none is named."""
    parser.add_argument(
        "--mechanism",
        metavar="A,B",
        help="mechanisms that answer the same question, e.g. gaussian,laplace or "
        "private-gibbs-hmm:scale,private-gibbs-hmm:temperature "
        "(default: the mechanisms that draw from the posterior of --model)",
    )

    def further(parser: Parser, given: Sequence[str]) -> None:
        named = _mechanism_argument(given)
        if named is None:
            _add_options(parser, command_name(without), without)
            return
        listed = [name.strip() for name in named.split(",")]
        if "" in listed:
            raise UsageProblem(f"--mechanism expects names such as gaussian,laplace, got {named!r}")
        kinds = {name: _class_and_parameter(name) for name in listed}
        group, seen = parser.add_argument_group(f"--mechanism {named}"), set()
        for cls, _ in kinds.values():
            decided = {free.decides for free in cls.free_parameters}
            for argument in field_options(cls):
                if argument.name not in seen and not decided & set(argument.fields):
                    _add_option(group, argument, cls, "")
                    seen.add(argument.name)
        parser.set_defaults(kinds=kinds)
        parser.chosen = f" --mechanism {named}"

    parser.set_defaults(kinds=None)
    parser.further = further


def _class_and_parameter(name: str) -> tuple[type[Mechanism], str]:
    """The class of `name:parameter`, and the free parameter that meets the target, "" for the first one.

    Raises: UsageProblem.
    """
    plain, _, by = name.partition(":")
    cls = mechanism_class(plain)
    if field_of_kind(cls, Model) is not None:
        raise UsageProblem(
            f"compare --mechanism accepts mechanisms without a model; {plain} has a model. To compare posterior "
            "mechanisms, give --model and leave --mechanism out"
        )
    names = [free.name for free in cls.free_parameters]
    if by and by not in names:
        raise UsageProblem(f"{plain}:{by} names no free parameter; {plain} has {' and '.join(names) or 'none'}")
    return cls, by


def _mechanism_argument(words: Sequence[str]) -> str | None:
    """Return the value of `--mechanism` before parsing, or None. Raises: UsageProblem."""
    for place, word in enumerate(words):
        name, sign, text = word.partition("=")
        if name == "--mechanism":
            named = text if sign else next(iter(words[place + 1 :]), "")
            if not named or named.startswith("-"):
                raise UsageProblem("--mechanism needs a name; `privsample mechanisms` prints all names")
            return named
    return None


def _add_options(parser: Parser, name: str, cls: Any) -> None:
    if field_of_kind(cls, Model) is not None:
        add_model(parser)
    group = parser.add_argument_group(f"--mechanism {name}", summary(cls).replace("%", "%%"))
    decided = {free.decides for free in cls.free_parameters}
    for argument in field_options(cls):
        _add_option(group, argument, cls, " (instead of a privacy target)" if decided & set(argument.fields) else "")
    for setting in _settings(cls):
        _add_option(group, setting, cls, "")
        if setting.name == "by" and "--by" not in parser._option_string_actions:
            group.add_argument("--by", dest=dest("by"), type=reader(setting), help=SUPPRESS)  # former name
    parser.set_defaults(kind=cls)
    parser.unknown = lambda word: _foreign_option_message(word, name, cls)


def _add_option(group: Any, argument: Argument, cls: Any, note: str) -> None:
    fixed: dict[str, Any] = {"dest": dest(argument.name), "help": (argument.help + note).replace("%", "%%")}
    if argument.kind is bool:
        fixed |= {"action": BooleanOptionalAction, "default": None}
    else:
        fixed |= {"type": reader(argument), "metavar": metavar(argument)}
    group.add_argument(option(argument.name, cls), **fixed)


def field_options(cls: Any) -> list[Argument]:
    """Return the options of all fields except the model.

    Raises: UsageProblem, if a required field cannot be written as text.
    """
    found = [one for one in arguments(cls) if one.fields != (field_of_kind(cls, Model),)]
    for one in found:
        if one.required and not is_written(one):
            raise UsageProblem(
                f"{command_name(cls)} cannot be made on a command line: its field {one.name} cannot be written as "
                f"text; make {cls.__module__}.{cls.__name__} in Python"
            )
    return [one for one in found if is_written(one)]


def _settings(cls: Any) -> list[Argument]:
    """Return the options of calibration: which free parameter it determines, and its further settings."""
    names = {free.name.replace("_", "-"): free.name for free in cls.free_parameters}
    found = [
        Argument(name=name, kind=type(default), help=f"with a privacy target (default: {default:g})")
        for free in cls.free_parameters
        for name, default in free.options.items()
    ]
    if len(names) > 1:
        words = f"with a privacy target: the calibrated parameter (default: {next(iter(names))})"
        found.append(Argument(name="by", choices=names, help=words))
    return found


def limit_options(args: Namespace) -> dict[str, Any]:
    """Return the given options of calibration."""
    found = {one.name: getattr(args, dest(one.name)) for one in _settings(args.kind)}
    return {name: given for name, given in found.items() if given is not None}


def _foreign_option_message(word: str, name: str, cls: Any) -> str | None:
    """Return the error message for an option that belongs to other mechanisms, or None."""
    known = mechanisms()
    plain = word.removeprefix("--")
    owners = [
        other for other, kind in known.items() if any(one.name.replace("_", "-") == plain for one in arguments(kind))
    ]
    if field_of_kind(cls, Model) is None and plain in model_flags():
        return f"{word} is not an option of --mechanism {name}, which has no model; leave it out"
    if not owners:
        return None
    return f"{word} is not an option of --mechanism {name}; leave it out (it is an option of {', '.join(owners)})"


def dest(name: str) -> str:
    """Return the attribute of the parsed options for a field; it cannot collide with an option of a command."""
    return f"field {name}"


def option(name: str, cls: Any) -> str:
    """Return the command line option of a field."""
    words = name.replace("_", "-")
    if name == "by":  # of calibration; a field cannot have this name
        return "--calibrate"
    own = OWN | (model_flags() if field_of_kind(cls, Model) is not None else set())
    return f"--mechanism-{words}" if words in own else f"--{words}"
