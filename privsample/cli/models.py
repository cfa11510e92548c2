"""The options of models: the data's likelihood and its prior."""

import argparse
from argparse import Namespace
from dataclasses import MISSING, fields
from typing import Any

from privsample.cli.errors import UsageProblem
from privsample.cli.options import names, number, numbers
from privsample.cli.syntax import reader, value
from privsample.distributions.models.families import Model
from privsample.mechanisms.arguments import Argument, arguments, command_name
from privsample.mechanisms.discovery import classes_of

# The fields that `--prior` fills, by model. Any other model is written in full: --model "NAME field=value ...".
_PRIORS = {
    "beta-bernoulli": ("alpha", "beta"),
    "dirichlet-categorical": ("alpha",),
    "gamma-poisson": ("shape", "rate"),
    "gamma-exponential": ("shape", "rate"),
    "normal-known-variance": ("mean", "variance"),
}
_EXTRAS = ("upper", "bounds", "noise_variance", "fractional", "categories")
MODEL_OPTIONS = frozenset({"model", "prior", "upper", "bounds", "noise-variance", "fractional", "categories"})


def add_model(parser: argparse.ArgumentParser) -> None:
    """What the records are and what was believed of them before."""
    group = parser.add_argument_group("the data and the model")
    group.add_argument(
        "--model",
        metavar="MODEL",
        help=f"one of {', '.join(_PRIORS)}, with its own options; any other by its name and its fields, in quotes",
    )
    group.add_argument(
        "--prior",
        type=numbers,
        metavar="A,B",
        help="the prior's numbers: alpha,beta (beta-bernoulli); one number for each category (dirichlet-categorical); "
        "shape,rate (both gammas); mean,variance (normal-known-variance). A larger prior makes stronger guarantees "
        "possible",
    )
    group.add_argument("--upper", type=number, metavar="B", help="gamma models: larger values count as B")
    bounds = Argument(name="bounds", kind=tuple[float, float])
    group.add_argument(
        "--bounds",
        type=reader(bounds),
        metavar="LO,HI",
        help="normal-known-variance: values outside count as the nearer bound",
    )
    group.add_argument(
        "--noise-variance", type=number, metavar="V", help="normal-known-variance: variance of one record"
    )
    group.add_argument("--fractional", action="store_true", help="beta-bernoulli: records are numbers from 0 to 1")
    group.add_argument(
        "--categories",
        type=names,
        metavar="A,B,C",
        help="dirichlet-categorical: the public list of names in the column; missing and unknown names count as "
        "the first. Without it the column holds 0, 1, 2, ...",
    )


def model(args: Namespace) -> Model:
    """The model with its prior. Raises: UsageProblem."""
    if args.model is None:
        raise UsageProblem(f"--model is missing; expected one of {', '.join(_PRIORS)}")
    if "=" in args.model or args.model.endswith(".json"):
        return _in_full(args)
    known = {command_name(cls): cls for cls in classes_of(Model)}
    if args.model not in known:
        raise UsageProblem(f"argument --model: invalid choice: {args.model!r} (choose from {', '.join(known)})")
    if args.model not in _PRIORS:
        needed = " ".join(f"{one.name.replace('_', '-')}=..." for one in arguments(known[args.model]) if one.required)
        raise UsageProblem(f'write --model {args.model} in full: --model "{args.model} {needed}"')
    return _by_options(args, known[args.model])


def _in_full(args: Namespace) -> Model:
    """A model that `--model` writes with all its fields."""
    _check_extras(args, "a model in full", ("categories",))
    if args.prior is not None:
        raise UsageProblem("--prior must be left out where --model is written in full")
    try:
        made: Model = value(Model, args.model)
    except argparse.ArgumentTypeError as error:
        raise UsageProblem(f"--model: {error}") from None
    return made


def _by_options(args: Namespace, cls: Any) -> Model:
    """A model by `--prior` and the options of its other fields."""
    words, prior = f"--model {args.model}", _PRIORS[args.model]
    others = [item for item in fields(cls) if item.name not in prior]
    takes = [item.name for item in others] + ["categories"] * (len(prior) == 1)
    _check_extras(args, words, takes)
    needed = [item.name for item in others if item.default is MISSING]
    for name in needed:
        if getattr(args, name) is None:
            raise UsageProblem(f"{words} needs --{name.replace('_', '-')}")
    given = {name: getattr(args, name) for name in takes if name != "categories"}
    if isinstance(given.get("upper"), float) and any(item.type is int for item in others):
        given["upper"] = _whole_upper(given["upper"])
    try:
        made: Model = cls(**dict(zip(prior, _prior(args, prior), strict=True)), **given)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UsageProblem(f"{words}: {error}") from None
    return made


def _prior(args: Namespace, names: tuple[str, ...]) -> tuple[Any, ...]:
    """The values of the fields that `--prior` fills: one number each, or all of them where it is one field."""
    if args.prior is None:
        raise UsageProblem(f"--model {args.model} needs --prior, the numbers {','.join(names)}")
    if len(names) > 1:
        if len(args.prior) != len(names):
            raise UsageProblem(f"--prior for {args.model} is two numbers, {','.join(names)}; got {len(args.prior)}")
        return tuple(args.prior)
    if args.categories and len(args.categories) != len(args.prior):
        raise UsageProblem(
            f"--prior holds {len(args.prior)} numbers and --categories {len(args.categories)} names; "
            "they must be as many, one number for each name"
        )
    return (args.prior,)


def _whole_upper(upper: float) -> int:
    if upper != int(upper if abs(upper) < 2**53 else 0):
        raise UsageProblem(f"--upper must be a whole number for counts, got {upper:g}")
    return int(upper)


def _check_extras(args: Namespace, words: str, takes: Any) -> None:
    for name in _EXTRAS:
        if getattr(args, name) not in (None, False) and name not in takes:
            raise UsageProblem(f"--{name.replace('_', '-')} is not an option of {words}; leave it out")
