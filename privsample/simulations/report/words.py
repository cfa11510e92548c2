"""What a mechanism does and what it costs, in words for someone who has never heard of either."""

import math
import re
from functools import singledispatch

import numpy as np

from privsample.accounting.base import Accountant
from privsample.accounting.statement import rounded_up as _up
from privsample.accounting.statement import shown_epsilon
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.posterior.conjugate import (
    BetaQuery,
    ConcentratedPosterior,
    ConjugateMechanism,
    DiffusedPosterior,
    DirectPosterior,
    PosteriorMechanism,
)
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.mechanisms.posterior.tempered import TemperedPosterior
from privsample.mechanisms.randomized import RandomizedResponse

_EVEN = "50\N{NO-BREAK SPACE}:\N{NO-BREAK SPACE}50"  # never broken across lines


@singledispatch
def name(mechanism: Mechanism) -> str:
    """The mechanism's name in words; a new mechanism registers its own, else its class is taken apart."""
    return _apart(mechanism)


def _apart(mechanism: Mechanism) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(mechanism).__name__).capitalize()


@name.register
def _(mechanism: PosteriorMechanism) -> str:
    return f"{_apart(mechanism)} of {mechanism.model.description}"


@name.register(TemperedPosterior)
@name.register(NoisyStatistics)
def _(mechanism: ConjugateMechanism) -> str:
    return f"{_apart(mechanism)} of {mechanism.model.description}"


@name.register
def _(_: PrivateGibbsHMM) -> str:
    return "Hidden Markov chain of categorical records"


@name.register
def _(_: BetaQuery) -> str:
    return "Mean of a bounded column"


@name.register
def _(_: GaussianMechanism) -> str:
    return "Statistic with Gaussian noise"


@name.register
def _(_: LaplaceMechanism) -> str:
    return "Statistic with Laplace noise"


@singledispatch
def how(_: Mechanism) -> str:
    """How the mechanism protects a record, in one or two sentences."""
    return "What was released depends partly on chance, and that hides what any single record holds."


@how.register
def _(mechanism: PosteriorMechanism) -> str:
    return (
        f"The {mechanism.n:,} records and a prior belief give {_belief(mechanism)}; random draws from it were released."
    )


def _belief(mechanism: PosteriorMechanism) -> str:
    of = "the column's mean" if isinstance(mechanism, BetaQuery) else mechanism.model.description
    match mechanism:
        case DirectPosterior():
            return f"what one should believe about {of} (the posterior)"
        case DiffusedPosterior(data_weight=weight) | BetaQuery(data_weight=weight, prior_divisor=1.0):
            return f"a belief about {of} in which every record counts {100 * weight:.3g} % of a full one"
        case ConcentratedPosterior(prior_divisor=divisor) | BetaQuery(prior_divisor=divisor, data_weight=1.0):
            return f"a belief about {of} in which the prior counts {1 / divisor:.3g} times as much as usual"
    return f"a weakened belief about {of}"


@how.register
def _(mechanism: TemperedPosterior) -> str:
    return (
        f"What {mechanism.n:,} records and a prior say about {mechanism.model.description} was flattened by a "
        f"temperature of {mechanism.temperature:.4g} and held inside public bounds; random draws were released."
    )


@how.register
def _(mechanism: NoisyStatistics) -> str:
    return (
        f"Random noise ({mechanism.noise}, scale {mechanism.scale:.4g}) was added to the one summary of "
        f"{mechanism.n:,} records from which {mechanism.model.description} is inferred; whatever is "
        "inferred from it costs nothing more."
    )


@how.register
def _(mechanism: PrivateGibbsHMM) -> str:
    if mechanism.temperature is None:
        return (
            f"Random noise ({mechanism.noise}, scale {mechanism.scale:.4g}) was added once to how often each category "
            "occurs in each time step; all else was computed from these noisy counts."
        )
    return (
        f"Each of {mechanism.sweeps} rounds of random updates was flattened by a temperature of "
        f"{mechanism.temperature:.4g}, and every one of them is paid for."
    )


@how.register
def _(mechanism: GaussianMechanism) -> str:
    return (
        f"Normal noise of standard deviation {mechanism.noise_std:.4g} was added to a statistic that one record moves "
        f"by at most {mechanism.sensitivity:g}."
    )


@how.register
def _(mechanism: LaplaceMechanism) -> str:
    return (
        f"Laplace noise of scale {mechanism.scale:.4g} was added to a statistic that one record moves "
        f"by at most {mechanism.sensitivity:g}."
    )


@how.register
def _(mechanism: RandomizedResponse) -> str:
    return (
        f"Every record answered for itself: each answer is {np.exp(mechanism.log_odds):.3g} times as likely to be the "
        "truth as any one other category."
    )


@singledispatch
def quantity(_: Mechanism) -> str:
    """What one released number is, as a short label."""
    return "statistic"


@quantity.register(PosteriorMechanism)
@quantity.register(TemperedPosterior)
def _(mechanism: ConjugateMechanism) -> str:
    return mechanism.model.description.removeprefix("the ").replace("each category", "category")


@quantity.register
def _(_: BetaQuery) -> str:
    return "mean of the column"


def rounded_up(x: float, digits: int = 4) -> str:
    """A nonnegative number to this many significant digits, never below it."""
    if x == 0.0 or not math.isfinite(x):
        return "0" if x == 0.0 else "infinite"
    return f"{_up(x, digits):.{digits}g}"


def price(account: Accountant, delta: float) -> str:
    """epsilon(delta) as it is shown everywhere: by the rule of the privacy statement."""
    return rounded_up(shown_epsilon(account, delta))


def small(x: float) -> str:
    """A small number without padding: 1e-6."""
    return re.sub(r"e-0+", "e-", f"{x:g}")


def chance(delta: float) -> str:
    """A small probability as one in so many, never one in more."""
    return f"{small(delta)}, one in {math.floor(1 / delta * (1 + 1e-12)):,}" if 0.0 < delta <= 0.1 else small(delta)


def cost(account: Accountant, delta: float) -> tuple[str, ...]:
    """What epsilon means: how far the odds of a guess about one record can move."""
    epsilon, unit = float(account.epsilon(delta)), str(getattr(account.relation, "unit", "record"))
    if math.isinf(epsilon):
        return (f"With a failure probability of {chance(delta)}, nothing is promised: the cost is infinite.",)
    if epsilon > 30:
        return (f"Epsilon is {price(account, delta)}: so large that it protects next to nothing.",)
    shown = shown_epsilon(account, delta)
    odds, sure = math.exp(shown), 100 / (1 + math.exp(-shown))
    promise = (
        f"Epsilon is {rounded_up(shown)}. Seeing this release can shift the odds of any guess about one {unit} by a "
        f"factor of at most {rounded_up(odds, 3)} (e to the power epsilon)."
    )
    example = (
        f"Someone to whom two versions of a {unit} seemed equally likely ({_EVEN}) can be at most "
        f"{rounded_up(sure, 3)} % sure of one of them afterwards."
    )
    if delta > 0:
        example += f" This may fail with probability delta, here {chance(delta)}."
    return promise, example
