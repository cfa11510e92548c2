"""From options to limits and mechanisms; nothing here sees a record."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from typing import Any

from privsample.accounting.targets import DP, RDP, ZCDP, Target
from privsample.cli.choice import dest, limit_options, option
from privsample.cli.errors import UsageProblem
from privsample.cli.models import model
from privsample.cli.syntax import assemble
from privsample.distributions.models.base import Model
from privsample.mechanisms.arguments import arguments, field_of_kind, free_argument
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.calibration import FreeParameter

STATED_DELTA = 1e-6
_NO_LIMIT = "no limit was given: --epsilon with --delta, or --order with --rdp-epsilon, or --rho"


@contextmanager
def usage_errors(words: str = "") -> Iterator[None]:
    """Errors of the library about parameters, all public, as errors of usage."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UsageProblem(f"{words}: {error}" if words else str(error)) from None


def target(args: Namespace) -> Target | None:
    """The limit asked for, or None. Raises: UsageProblem."""
    given = [args.epsilon is not None, args.order is not None or args.rdp_epsilon is not None, args.rho is not None]
    if sum(given) > 1:
        raise UsageProblem("give one limit: --epsilon with --delta, or --order with --rdp-epsilon, or --rho")
    if (args.order is None) != (args.rdp_epsilon is None):
        raise UsageProblem("--order and --rdp-epsilon belong together: the order, and the most it may cost there")
    with usage_errors():
        if args.epsilon is not None:
            if args.delta is None:
                raise UsageProblem("--epsilon needs --delta, e.g. --delta 1e-6 (0 asks for pure differential privacy)")
            return DP(epsilon=args.epsilon, delta=args.delta)
        if args.order is not None:
            return RDP(order=args.order, epsilon=args.rdp_epsilon)
        return None if args.rho is None else ZCDP(rho=args.rho)


def required_target(args: Namespace) -> Target:
    """The limit asked for. Raises: UsageProblem, also where there is none."""
    found = target(args)
    if found is None:
        raise UsageProblem(_NO_LIMIT)
    return found


def stated_delta(args: Namespace) -> float:
    """The delta at which costs are stated. Raises: UsageProblem."""
    delta = STATED_DELTA if args.delta is None else float(args.delta)
    if not 0.0 <= delta < 1.0:
        raise UsageProblem(f"--delta must lie in [0, 1), got {delta:g}")
    return delta


def fields(args: Namespace) -> dict[str, Any]:
    """The mechanism's fields as they were given; those that a limit decides may be missing. Raises: UsageProblem."""
    cls = args.kind
    given = {one.name: found for one in arguments(cls) if (found := getattr(args, dest(one.name), None)) is not None}
    name = field_of_kind(cls, Model)
    if name is not None:
        given[name] = model(args)
    decided = [free.decides for free in cls.free_parameters if not free.from_field]
    with usage_errors():
        return assemble(cls, given, lambda name: option(name, cls), decided, who=_who(args))


def _who(args: Namespace) -> str:
    return f"privsample {args.command}" if args.mechanism is None else f"--mechanism {args.mechanism}"


def mechanism(args: Namespace, given: dict[str, Any], *, limit_needed: bool) -> Mechanism:
    """The mechanism of these fields, calibrated to the limit or with the free parameter given.

    Raises: UsageProblem, also where the limit cannot be met.
    """
    cls, goal = args.kind, target(args)
    stated_delta(args)
    settings = limit_options(args)
    chosen = [free for free in cls.free_parameters if free.decides in given]
    if goal is None:
        if settings:
            raise UsageProblem(f"{option(next(iter(settings)), cls)} belongs to a limit, and {_NO_LIMIT}")
        missing = [free for free in cls.free_parameters if (one := free_argument(cls, free)) and one.required]
        if not chosen and (limit_needed or missing):
            names = [option(free.decides, cls) for free in cls.free_parameters]
            raise UsageProblem(_NO_LIMIT + (f"; or {' or '.join(names)}" if names else ""))
        with usage_errors():
            made: Mechanism = cls(**given)
        return made
    free = _decided(cls, settings.get("by"))
    if free is not None and free in chosen and not free.from_field:
        raise UsageProblem(f"give a limit or {option(free.decides, cls)}, not both: the limit decides it")
    with usage_errors():
        calibrated: Mechanism = cls.calibrate(**given, **settings, target=goal)
    return calibrated


def any_mechanism(args: Namespace, given: dict[str, Any]) -> Mechanism:
    """A mechanism of these fields with any free parameter, for what does not depend on it. Raises: UsageProblem."""
    cls = args.kind
    free = _decided(cls, None)
    with usage_errors():
        if free is None or any(one.decides in given for one in cls.free_parameters):
            made: Mechanism = cls(**given)
        else:
            made = cls(**given, **{free.decides: _any_value(cls, free, given)})
    return made


def _any_value(cls: Any, free: FreeParameter, given: dict[str, Any]) -> Any:
    """A value that the free parameter may have, whatever it costs."""
    defaults = {item.name: item.default for item in dataclass_fields(cls) if item.default is not MISSING}
    return free.value(free.upper if free.direction == "largest" else 1.0, defaults | dict(free.options) | given)


def _decided(cls: Any, by: str | None) -> FreeParameter | None:
    """The free parameter that a limit decides."""
    return next((free for free in cls.free_parameters if by in (None, free.name)), None)
