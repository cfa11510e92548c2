"""From options to models, targets and mechanisms; nothing here sees a record."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from privsample.accounting.targets import DP, RDP, ZCDP, Target
from privsample.cli.errors import UsageProblem
from privsample.cli.models import check_count, flag, made, models, options_of, required_of
from privsample.distributions.models.base import Model
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.posterior.conjugate import (
    BetaQuery,
    ConcentratedPosterior,
    ConjugateMechanism,
    DiffusedPosterior,
    DirectPosterior,
)
from privsample.mechanisms.posterior.tempered import TemperedPosterior

STATED_DELTA = 1e-6
MECHANISMS = {
    "direct": DirectPosterior,
    "diffused": DiffusedPosterior,
    "concentrated": ConcentratedPosterior,
    "tempered": TemperedPosterior,
    "noisy": NoisyStatistics,
}
_FREE: dict[str, tuple[str, ...]] = {
    "direct": (),
    "diffused": ("data_weight",),
    "concentrated": ("prior_divisor",),
    "tempered": ("temperature",),
    "noisy": ("scale",),
    "beta-query": ("data_weight", "prior_divisor"),
}
FREE = ("data_weight", "prior_divisor", "temperature", "scale")
_OWN = {"tempered": ("truncation",), "noisy": ("noise",)}


@contextmanager
def checked(words: str = "") -> Iterator[None]:
    """Errors of the library about parameters, all public, as errors of usage."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UsageProblem(f"{words}: {error}" if words else str(error)) from None


def is_query(args: Namespace) -> bool:
    """Whether the mean of a bounded column is asked for."""
    return getattr(args, "mechanism", None) == "beta-query"


def model(args: Namespace) -> Model:
    """The model with its prior. Raises: UsageProblem."""
    if is_query(args):
        if args.model not in (None, "beta-bernoulli"):
            raise UsageProblem(f"--mechanism beta-query brings its own model; leave out --model {args.model}")
        _check_extras(args, "--mechanism beta-query", ("bounds",), ("bounds",))
        check_count("beta-query", BetaBernoulli.prior_parameters, args.prior)
        alpha, beta = args.prior
        with checked("--prior"):
            return BetaBernoulli(alpha=alpha, beta=beta, fractional=True)
    if args.model is None:
        raise UsageProblem(f"--model is missing; expected one of {', '.join(models())}")
    kind = models()[args.model]
    _check_extras(args, f"--model {args.model}", options_of(kind), required_of(kind))
    with checked(f"--model {args.model}"):
        return made(args, kind)


def _check_extras(args: Namespace, words: str, takes: tuple[str, ...], needs: tuple[str, ...]) -> None:
    for field in dict.fromkeys(option for kind in models().values() for option in options_of(kind)):
        given = getattr(args, field) is not None and getattr(args, field) is not False
        if given and field not in takes:
            raise UsageProblem(f"{flag(field)} is not an option of {words}; leave it out")
        if not given and field in needs:
            raise UsageProblem(f"{words} needs {flag(field)}")


def target(args: Namespace) -> Target | None:
    """The limit asked for, or None. Raises: UsageProblem."""
    given = [args.epsilon is not None, args.order is not None or args.rdp_epsilon is not None, args.rho is not None]
    if sum(given) > 1:
        raise UsageProblem("give one limit: --epsilon with --delta, or --order with --rdp-epsilon, or --rho")
    if (args.order is None) != (args.rdp_epsilon is None):
        raise UsageProblem("--order and --rdp-epsilon belong together: the order, and the most it may cost there")
    with checked():
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
        raise UsageProblem("no limit was given: --epsilon with --delta, or --order with --rdp-epsilon, or --rho")
    return found


def stated_delta(args: Namespace) -> float:
    """The delta at which costs are stated. Raises: UsageProblem."""
    delta = STATED_DELTA if args.delta is None else float(args.delta)
    if not 0.0 <= delta < 1.0:
        raise UsageProblem(f"--delta must lie in [0, 1), got {delta:g}")
    return delta


def mechanism(args: Namespace, family: Model, *, limit_needed: bool) -> ConjugateMechanism:
    """The mechanism, calibrated to the target or with the parameter given. Raises: UsageProblem, UnreachableTarget."""
    goal = target(args)
    stated_delta(args)
    free = _FREE[args.mechanism]
    given = {f: getattr(args, f) for f in FREE if getattr(args, f) is not None}
    for field in given:
        if field not in free:
            raise UsageProblem(f"{flag(field)} is not an option of --mechanism {args.mechanism}; leave it out")
        if goal is not None:
            raise UsageProblem(f"give a limit or {flag(field)}, not both: the limit decides it")
    if goal is None and not given and (limit_needed or free):
        instead = f"; or {' or '.join(map(flag, free))}" if free else ""
        raise UsageProblem(
            f"no limit was given: --epsilon with --delta, or --order with --rdp-epsilon, or --rho{instead}"
        )
    fixed: dict[str, Any] = {"n": args.n, "draws": args.draws, "unit": args.unit}
    if isinstance(family, BetaBernoulli) and is_query(args):
        kind: Any = BetaQuery
        fixed |= {"alpha": family.alpha, "beta": family.beta, "bounds": args.bounds}
    else:
        kind = MECHANISMS[args.mechanism]
        fixed |= {"model": family} | _own(args)
    with checked():
        built: ConjugateMechanism = kind(**fixed, **given) if goal is None else kind.calibrate(**fixed, target=goal)
    return built


def _own(args: Namespace) -> dict[str, Any]:
    """The options that only one mechanism has. Raises: UsageProblem."""
    for name, fields in _OWN.items():
        for field in fields:
            if name != args.mechanism and getattr(args, field) is not None:
                raise UsageProblem(f"{flag(field)} is an option of --mechanism {name}; leave it out")
    match args.mechanism:
        case "tempered":
            if args.truncation is None:
                raise UsageProblem("--mechanism tempered needs --truncation: a least share such as 0.05, or LOW,HIGH")
            return {"truncation": args.truncation[0] if len(args.truncation) == 1 else args.truncation}
        case "noisy":
            return {"noise": None if args.noise is None else args.noise.replace("-", " ")}
        case _:
            return {}
