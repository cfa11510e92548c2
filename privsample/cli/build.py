"""Build privacy targets and mechanisms from command line options, without reading any record."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, replace
from dataclasses import fields as dataclass_fields
from typing import Any

from privsample.accounting.base import Accountant
from privsample.accounting.risk_target import Risk
from privsample.accounting.targets import DP, GDP, RDP, ZCDP, Target, require
from privsample.cli.choice import dest, limit_options, option
from privsample.cli.errors import UsageProblem
from privsample.cli.models import model
from privsample.cli.syntax import assemble
from privsample.distributions.models.base import Model
from privsample.mechanisms.arguments import arguments, field_of_kind, free_argument
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.calibration import FreeParameter, calibrated

STATED_DELTA = 1e-6
_TARGETS = "--epsilon with --delta, or --order with --rdp-epsilon, or --rho, or --mu, or --risk with --baseline"
_NO_TARGET = f"no privacy target was given: give {_TARGETS}"


@contextmanager
def usage_errors(words: str = "") -> Iterator[None]:
    """Convert errors of the library about parameters, which are public, to UsageProblem."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UsageProblem(f"{words}: {error}" if words else str(error)) from None


def target(args: Namespace) -> Target | None:
    """Return the privacy target, or None if there is none. Raises: UsageProblem."""
    kinds = (("epsilon",), ("order", "rdp_epsilon"), ("rho",), ("mu",), ("risk", "baseline"))
    if sum(any(getattr(args, name) is not None for name in names) for names in kinds) > 1:
        raise UsageProblem(f"give only one privacy target: {_TARGETS}")
    if (args.order is None) != (args.rdp_epsilon is None):
        raise UsageProblem(
            "give both --order and --rdp-epsilon: the Rényi order, and the largest divergence at this order"
        )
    if (args.risk is None) != (args.baseline is None):
        raise UsageProblem(
            "give both --risk and --baseline: the largest success of an attack, and its success without the release"
        )
    if args.infinity_mass is not None and args.rho is None and args.order is None:
        raise UsageProblem("--infinity-mass needs --rho, or --order with --rdp-epsilon")
    mass = args.infinity_mass or 0.0
    with usage_errors():
        if args.epsilon is not None:
            if args.delta is None:
                raise UsageProblem("--epsilon needs --delta, e.g. --delta 1e-6 (0 asks for pure differential privacy)")
            return DP(epsilon=args.epsilon, delta=args.delta)
        if args.order is not None:
            return RDP(order=args.order, epsilon=args.rdp_epsilon, delta=mass)
        if args.risk is not None:
            return Risk(baseline=args.baseline, success=args.risk)
        if args.mu is not None:
            return GDP(mu=args.mu)
        return None if args.rho is None else ZCDP(rho=args.rho, delta=mass)


def required_target(args: Namespace) -> Target:
    """Return the privacy target. Raises: UsageProblem, also if there is none."""
    found = target(args)
    if found is None:
        raise UsageProblem(_NO_TARGET)
    return found


def stated_delta(args: Namespace) -> float:
    """Return the delta of the privacy statement. Raises: UsageProblem."""
    delta = STATED_DELTA if args.delta is None else float(args.delta)
    if not 0.0 <= delta < 1.0:
        raise UsageProblem(f"--delta must lie in [0, 1), got {delta:g}")
    return delta


def fields(args: Namespace) -> dict[str, Any]:
    """Return the given fields of the mechanism; calibrated fields may be missing. Raises: UsageProblem."""
    cls = args.kind
    given = {one.name: found for one in arguments(cls) if (found := getattr(args, dest(one.name), None)) is not None}
    name = field_of_kind(cls, Model)
    if name is not None:
        given[name] = model(args)
    if given.get("grid") is not None and given.get("exact") is False:
        raise UsageProblem("--grid needs exact draws, which are rounded to the grid: leave out --no-exact or --grid")
    decided = [free.decides for free in cls.free_parameters if not free.from_field]
    with usage_errors():
        return assemble(cls, given, lambda name: option(name, cls), decided, who=_who(args))


def _who(args: Namespace) -> str:
    return f"privsample {args.command}" if args.mechanism is None else f"--mechanism {args.mechanism}"


def mechanism(
    args: Namespace,
    given: dict[str, Any],
    *,
    limit_needed: bool,
    account: Callable[[Mechanism], Accountant] | None = None,
) -> Mechanism:
    """Return the mechanism with these fields, calibrated to the privacy target if one is given.

    `account` is what meets the target if it is not the account of the mechanism, as in a release for groups.

    Raises: UsageProblem, also if the target cannot be met.
    """
    cls, goal = args.kind, target(args)
    stated_delta(args)
    settings = limit_options(args)
    chosen = [free for free in cls.free_parameters if free.decides in given]
    if goal is None:
        if settings:
            raise UsageProblem(f"{option(next(iter(settings)), cls)} needs a privacy target; {_NO_TARGET}")
        missing = [free for free in cls.free_parameters if (one := free_argument(cls, free)) and one.required]
        if not chosen and (limit_needed or missing):
            names = [option(free.decides, cls) for free in cls.free_parameters]
            raise UsageProblem(_NO_TARGET + (f"; or {' or '.join(names)}" if names else ""))
        with usage_errors():
            made: Mechanism = cls(**given)
        return made
    free = _calibrated_parameter(cls, settings.get("by"))
    if free is not None and free in chosen and not free.from_field:
        raise UsageProblem(f"give a privacy target or {option(free.decides, cls)}, not both: the target determines it")
    with usage_errors():
        if account is not None:
            return _calibrated_by(cls, given, settings, goal, account)
        found: Mechanism = cls.calibrate(**given, **settings, target=goal)
    return found


def _calibrated_by(
    cls: Any, given: dict[str, Any], settings: dict[str, Any], goal: Target, account: Callable[[Mechanism], Accountant]
) -> Mechanism:
    """Return the mechanism for which this account meets the target; settings and errors as for `calibrate`."""
    free = _calibrated_parameter(cls, settings.pop("by", None))
    adapted = () if free is None else (replace(free, account=account, approximate=None),)
    found: Mechanism = calibrated(cls, adapted, goal, by=None, given=given | settings, advice=cls.unreachable_advice)
    require(goal, account(found), cls.unreachable_advice)
    return found


def any_mechanism(args: Namespace, given: dict[str, Any]) -> Mechanism:
    """Return a mechanism with an arbitrary free parameter, for uses that do not depend on it. Raises: UsageProblem."""
    cls = args.kind
    free = _calibrated_parameter(cls, None)
    with usage_errors():
        if free is None or any(one.decides in given for one in cls.free_parameters):
            made: Mechanism = cls(**given)
        else:
            made = cls(**given, **{free.decides: _any_value(cls, free, given)})
    return made


def _any_value(cls: Any, free: FreeParameter, given: dict[str, Any]) -> Any:
    """Return an admissible value of the free parameter, regardless of its privacy cost."""
    defaults = {item.name: item.default for item in dataclass_fields(cls) if item.default is not MISSING}
    return free.value(free.upper if free.direction == "largest" else 1.0, defaults | dict(free.options) | given)


def _calibrated_parameter(cls: Any, by: str | None) -> FreeParameter | None:
    """Return the free parameter that calibration determines."""
    return next((free for free in cls.free_parameters if by in (None, free.name)), None)
