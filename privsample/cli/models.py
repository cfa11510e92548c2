"""Command line options of models, derived from the fields of the model classes."""

import argparse
from argparse import Namespace
from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import privsample
from privsample.cli.errors import UsageProblem, nearest
from privsample.cli.options import names, number, numbers
from privsample.cli.syntax import reader, value
from privsample.distributions.models.base import Model
from privsample.mechanisms.arguments import Argument, arguments, command_name
from privsample.mechanisms.discovery import classes_of

_COUNTS = ("no number", "one number", "two numbers", "three numbers", "four numbers")


def models() -> dict[str, type[Model]]:
    """Return the models with a `command_name`, by that name.

    They are the public models of privsample and those that installed packages register. Raises: UsageProblem.
    """
    load_extensions()
    found: dict[str, type[Model]] = {}
    for kind in classes_of(Model):
        if kind.command_name is None:
            continue
        if found.setdefault(kind.command_name, kind) is not kind:
            other = found[kind.command_name]
            raise UsageProblem(
                f"two models are called {kind.command_name}, {other.__module__}.{other.__qualname__} and "
                f"{kind.__module__}.{kind.__qualname__}: change the command_name of one"
            )
    return dict(sorted(found.items()))


@cache
def load_extensions() -> None:
    """Import the installed packages that extend privsample. Raises: UsageProblem, if one cannot be imported."""
    try:
        privsample.load_extensions()
    except ImportError as error:
        raise UsageProblem(str(error)) from None


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options of the model and its prior."""
    group = parser.add_argument_group("the data and the model")
    group.add_argument(
        "--model",
        metavar="MODEL",
        help=f"one of {', '.join(models())}, with its own options; any other model by its name and fields, in quotes",
    )
    group.add_argument(
        "--prior",
        type=numbers,
        metavar="A,B",
        help=f"parameters of the prior: {prior_help()}. A stronger prior allows stronger privacy guarantees",
    )
    for name, (kind, words) in model_options().items():
        if kind is bool:
            group.add_argument(flag(name), action="store_true", help=words)
        else:
            read, shown = (_pair, "LO,HI") if kind is tuple else (number, "X")
            group.add_argument(flag(name), type=read, metavar=shown, help=words)
    group.add_argument(
        "--categories",
        type=names,
        metavar="A,B,C",
        help=f"{names_of(lambda kind: kind.records_are_codes)}: public list of the category names; missing and "
        "unknown names become the first category. Without it the column holds 0, 1, 2, ...",
    )


_pair = reader(Argument(name="bounds", kind=tuple[float, float]))


def model_flags() -> frozenset[str]:
    """Return the options that `add_model` adds, without dashes."""
    return frozenset({"model", "prior", "categories", *(flag(name)[2:] for name in model_options())})


def model(args: Namespace) -> Model:
    """Return the model with its prior. Raises: UsageProblem."""
    known = models()
    if args.model is None:
        raise UsageProblem(f"--model is missing; expected one of {', '.join(known)}")
    if "=" in args.model or args.model.endswith(".json"):
        return _parse_full_model(args)
    if args.model not in known:
        for other in classes_of(Model):
            if command_name(other) == args.model:
                needed = " ".join(f"{flag(one.name)[2:]}=..." for one in arguments(other) if one.required)
                raise UsageProblem(f'write --model {args.model} in full: --model "{args.model} {needed}"')
        hint = nearest([args.model], known)
        raise UsageProblem(f"argument --model: invalid choice: {args.model!r} (choose from {', '.join(known)}){hint}")
    kind, words = known[args.model], f"--model {args.model}"
    _check_extras(args, words, options_of(kind), required_of(kind))
    if args.prior is None:
        raise UsageProblem(f"{words} needs --prior, the numbers {','.join(kind.prior_parameters)}")
    try:
        return build_model(args, kind)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UsageProblem(f"{words}: {error}") from None


def _parse_full_model(args: Namespace) -> Model:
    """Return the model that `--model` specifies with all its fields. Raises: UsageProblem."""
    _check_extras(args, "a model that is written in full", ("categories",), ())
    if args.prior is not None:
        raise UsageProblem("--prior must be left out if --model is written in full")
    try:
        found: Model = value(Model, args.model)
    except argparse.ArgumentTypeError as error:
        raise UsageProblem(f"--model: {error}") from None
    return found


def _check_extras(args: Namespace, words: str, takes: tuple[str, ...], needs: tuple[str, ...]) -> None:
    for name in dict.fromkeys(option for kind in models().values() for option in options_of(kind)):
        given = getattr(args, name) is not None and getattr(args, name) is not False
        if given and name not in takes:
            raise UsageProblem(f"{flag(name)} is not an option of {words}; leave it out")
        if not given and name in needs:
            raise UsageProblem(f"{words} needs {flag(name)}")


def option_kinds(kind: type[Model]) -> dict[str, type]:
    """Return the options of the model with their types: bool, int, float or tuple (a pair of numbers)."""
    hints = get_type_hints(kind)
    return {field: get_origin(hints[field]) or hints[field] for field in kind.options}


def takes_all_numbers(kind: type[Model]) -> bool:
    """Return True if the prior is one field with any number of parameters."""
    first, *others = kind.prior_parameters
    hint = get_type_hints(kind)[first]
    return not others and get_origin(hint) is tuple and get_args(hint)[-1:] == (...,)


def options_of(kind: type[Model]) -> tuple[str, ...]:
    """Return the fields of the model that are options besides the prior."""
    return (*kind.options, *(("categories",) if kind.records_are_codes else ()))


def required_of(kind: type[Model]) -> tuple[str, ...]:
    """Return the required options of the model."""
    fields = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return tuple(field for field in kind.options if fields[field].default is fields[field].default_factory)


def flag(field: str) -> str:
    """Return the command line option of a field."""
    return "--" + field.replace("_", "-")


def names_of(chosen: Callable[[type[Model]], bool]) -> str:
    """Return the names of the models for which `chosen` is true."""
    return ", ".join(name for name, kind in models().items() if chosen(kind))


def prior_help() -> str:
    """Return the help text that lists the prior parameters of each model."""
    lines: dict[str, list[str]] = {}
    for name, kind in models().items():
        words = "one number for each category" if takes_all_numbers(kind) else ",".join(kind.prior_parameters)
        lines.setdefault(words, []).append(name)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in lines.items())


def model_options() -> dict[str, tuple[type, str]]:
    """Return the options of all models by field: the type, and a help line that names the models."""
    hints = {field: hint for kind in models().values() for field, hint in option_kinds(kind).items()}
    lines = {field: line for kind in models().values() for field, line in kind.options.items()}
    return {field: (hints[field], f"{_takers(field)}: {lines[field]}") for field in hints}


def _takers(field: str) -> str:
    return names_of(lambda kind: field in kind.options)


def check_count(name: str, parts: tuple[str, ...], prior: tuple[float, ...]) -> None:
    """Check the number of prior parameters. Raises: UsageProblem."""
    if len(prior) != len(parts):
        count = _COUNTS[len(parts)] if len(parts) < len(_COUNTS) else f"{len(parts)} numbers"
        raise UsageProblem(f"--prior for {name} is {count}, {','.join(parts)}; got {len(prior)}")


def build_model(args: Namespace, kind: type[Model]) -> Model:
    """Construct the model with the given prior and options. Raises: UsageProblem, and the errors of the class."""
    prior: tuple[float, ...] = args.prior
    if takes_all_numbers(kind):
        given: dict[str, Any] = {kind.prior_parameters[0]: prior}
    else:
        check_count(args.model, kind.prior_parameters, prior)
        given = dict(zip(kind.prior_parameters, prior, strict=True))
    if kind.records_are_codes and args.categories and len(args.categories) != len(prior):
        raise UsageProblem(
            f"--prior holds {len(prior)} numbers and --categories {len(args.categories)} names; "
            "give one number for each name"
        )
    if kind.records_are_codes and args.categories and "names" in getattr(kind, "__dataclass_fields__", {}):
        given["names"] = tuple(args.categories)
    for field, hint in option_kinds(kind).items():
        item = getattr(args, field)
        if hint is int and item is not None:
            item = _whole(field, item)
        if item is not None:
            given[field] = item
    return kind(**given)


def _whole(field: str, number: float) -> int:
    if number != int(number if abs(number) < 2**53 else 0):
        raise UsageProblem(f"{flag(field)} must be a whole number, got {number:g}")
    return int(number)
