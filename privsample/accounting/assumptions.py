"""Assumptions on which a guarantee depends and which the library does not verify."""

from enum import Enum


class Assumption(Enum):
    """A condition on which a guarantee depends and which the library does not verify.

    The value is the condition as a clause. Every account has a set of assumptions; compositions carry the union, and
    `privacy_statement` lists them.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.GaussianAccountant(sensitivity=1, noise_std=1)
    >>> sorted(assumption.name for assumption in account.assumptions)
    ['IDEAL_REALS', 'TRUSTED_SENSITIVITY']
    """

    IDEAL_REALS = "the guarantee is proved for real numbers, and the program computes with floating-point numbers"
    FLOAT_CHAIN = (
        "the steps of the Markov chain are computed with floating-point numbers, "
        "and rounding is not part of the theorem"
    )
    TRUSTED_SENSITIVITY = "the stated sensitivity is correct"
    RNG_FRESH = "the random generator given by the caller is fresh, secret and used for nothing else"
    CONVERGED_CHAIN = "the Markov chain has converged to its stationary distribution"
    BOUNDED_SIZE = (
        "no dataset holds more records than the public bound; a larger one is refused, which reveals that it is larger"
    )
    LISTED_KEYS = (
        "every record has a key of the public list; a record with another key is refused, which reveals that there is "
        "one"
    )
    WHOLE_UNITS = "all records of one unit are counted together: in one dataset, or in one part of a tally"
    FIXED_PARTS = "the parts are fixed by public positions and do not depend on the contents of a record"
    KNOWN_PROFILES = (
        "each observation is drawn from its profile as stated, and an adversary knows nothing more about it"
    )
    INDEPENDENT_PROFILES = "the profiles of different sources were chosen independently of each other"
    INDEPENDENT_OBSERVATIONS = "the observations of one profile are independent, and each is privatised once"
    FIXED_WORK = (
        "the running time of a single run, and traces in caches and memory, are not observed; the number of runs is "
        "public and reveals nothing"
    )
    TIMING = (
        "the running time of a release is not observed; it depends on a number of runs or proposals "
        "that must stay secret"
    )
    STATED = "the guarantee was stated by the user and is correct"
    STATED_FAMILY = "the exponential family is as the user states it: contributions, log normalizer and exact sampler"
    STATED_NEIGHBOURS = "the worst neighbours of the Rényi curve are the worst at every epsilon, as the user states"
    STATED_CONVEXITY = "the exponential family meets the convexity condition of its account, as the user states"
    CHECKED_CONVEXITY = "the exponential family meets the convexity condition of its account between the checked points"

    def __repr__(self) -> str:
        return f"Assumption.{self.name}"


def drawing_assumptions(*, exact: bool) -> frozenset[Assumption]:
    """What a draw assumes by itself: nothing if it is exact, IDEAL_REALS if floating-point numbers are drawn."""
    return frozenset() if exact else frozenset({Assumption.IDEAL_REALS})


def running_assumptions(*, constant_time: bool) -> frozenset[Assumption]:
    """What the best of a secret number of runs assumes: TIMING, or FIXED_WORK if the largest number is always made."""
    return frozenset({Assumption.FIXED_WORK if constant_time else Assumption.TIMING})
