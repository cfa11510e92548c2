"""What a guarantee takes for granted."""

from enum import Enum


class Assumption(Enum):
    """What a guarantee takes for granted, in words."""

    IDEAL_REALS = "the theorem is about real numbers; the program draws floating-point numbers"
    TRUSTED_SENSITIVITY = "the stated sensitivity was taken on trust"
    RNG_FRESH = "the caller's random generator is fresh, secret and used for nothing else"
    CONVERGED_CHAIN = "the Markov chain has reached its limit"
    FIXED_PARTS = "the parts are fixed by public positions, not by what a record holds"
    KNOWN_PROFILES = "each observation is drawn from its profile as stated, and nobody knows more about it than that"
    INDEPENDENT_PROFILES = "the profiles behind different sources were chosen independently of each other"
    INDEPENDENT_OBSERVATIONS = "the observations of one profile are independent, and each is privatised once"
    TIMING = "the time that a release takes is not observed: it depends on a number of runs that must stay secret"
    STATED = "the guarantee was stated by someone else and taken on trust"
