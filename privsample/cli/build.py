"""From options to models, targets and mechanisms; nothing here sees a record."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from privsample.accounting.targets import DP, RDP, ZCDP, Target
from privsample.cli.errors import UsageProblem
from privsample.distributions.models.families import (
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    Model,
    NormalKnownVariance,
)
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
_EXTRAS = ("upper", "bounds", "noise_variance", "fractional", "categories")
_PRIORS = {
    "beta-bernoulli": "alpha,beta",
    "dirichlet-categorical": "",
    "gamma-poisson": "shape,rate",
    "gamma-exponential": "shape,rate",
    "normal-known-variance": "mean,variance",
}
_TAKES = {
    "beta-bernoulli": ("fractional",),
    "dirichlet-categorical": ("categories",),
    "gamma-poisson": ("upper",),
    "gamma-exponential": ("upper",),
    "normal-known-variance": ("noise_variance", "bounds"),
}
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
        _check_extras(args, "--mechanism beta-query", ("bounds",))
        alpha, beta = _prior(args, "beta-query", "alpha,beta")
        with checked("--prior"):
            return BetaBernoulli(alpha=alpha, beta=beta, fractional=True)
    if args.model is None:
        raise UsageProblem(f"--model is missing; expected one of {', '.join(_PRIORS)}")
    _check_extras(args, f"--model {args.model}", _TAKES[args.model])
    prior = _prior(args, args.model, _PRIORS[args.model])
    with checked(f"--model {args.model}"):
        return _made(args, prior)


def _made(args: Namespace, prior: tuple[float, ...]) -> Model:
    match args.model:
        case "beta-bernoulli":
            return BetaBernoulli(alpha=prior[0], beta=prior[1], fractional=args.fractional)
        case "dirichlet-categorical":
            if args.categories and len(args.categories) != len(prior):
                raise UsageProblem(
                    f"--prior holds {len(prior)} numbers and --categories {len(args.categories)} names; "
                    "they must be as many, one number for each name"
                )
            return DirichletCategorical(alpha=prior)
        case "gamma-poisson":
            if args.upper != int(args.upper if abs(args.upper) < 2**53 else 0):
                raise UsageProblem(f"--upper must be a whole number for counts, got {args.upper:g}")
            return GammaPoisson(shape=prior[0], rate=prior[1], upper=int(args.upper))
        case "gamma-exponential":
            return GammaExponential(shape=prior[0], rate=prior[1], upper=args.upper)
        case _:
            fixed: dict[str, Any] = {"noise_variance": args.noise_variance, "bounds": args.bounds}
            return NormalKnownVariance(mean=prior[0], variance=prior[1], **fixed)


def _prior(args: Namespace, name: str, parts: str) -> tuple[float, ...]:
    found: tuple[float, ...] = args.prior
    if parts and len(found) != 2:
        raise UsageProblem(f"--prior for {name} is two numbers, {parts}; got {len(found)}")
    return found


def _option(field: str) -> str:
    return "--" + field.replace("_", "-")


def _check_extras(args: Namespace, words: str, takes: tuple[str, ...]) -> None:
    for field in _EXTRAS:
        given = getattr(args, field) is not None and getattr(args, field) is not False
        if given and field not in takes:
            raise UsageProblem(f"{_option(field)} is not an option of {words}; leave it out")
        if not given and field in takes and field not in ("fractional", "categories"):
            raise UsageProblem(f"{words} needs {_option(field)}")


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
            raise UsageProblem(f"{_option(field)} is not an option of --mechanism {args.mechanism}; leave it out")
        if goal is not None:
            raise UsageProblem(f"give a limit or {_option(field)}, not both: the limit decides it")
    if goal is None and not given and (limit_needed or free):
        instead = f"; or {' or '.join(map(_option, free))}" if free else ""
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
        made: ConjugateMechanism = kind(**fixed, **given) if goal is None else kind.calibrate(**fixed, target=goal)
    return made


def _own(args: Namespace) -> dict[str, Any]:
    """The options that only one mechanism has. Raises: UsageProblem."""
    for name, fields in _OWN.items():
        for field in fields:
            if name != args.mechanism and getattr(args, field) is not None:
                raise UsageProblem(f"{_option(field)} is an option of --mechanism {name}; leave it out")
    match args.mechanism:
        case "tempered":
            if args.truncation is None:
                raise UsageProblem("--mechanism tempered needs --truncation: a least share such as 0.05, or LOW,HIGH")
            return {"truncation": args.truncation[0] if len(args.truncation) == 1 else args.truncation}
        case "noisy":
            return {"noise": None if args.noise is None else args.noise.replace("-", " ")}
        case _:
            return {}
