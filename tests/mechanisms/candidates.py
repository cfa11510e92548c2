"""Candidates and the selections among them that several tests use."""

import privsample as ps

NUMBERS, NAMES = (1.0, 2.0, 3.0), ("red", "green", "blue")
STATED = ps.StatedUtility(sensitivity=1)
CLASSES = (ps.ExponentialMechanism, ps.PermuteAndFlip)


def of(cls, rate=1.0, candidates=NUMBERS, **fields):
    """A selection among the candidates, with a stated utility by default."""
    return cls(candidates=candidates, rate=rate, **{"utility": STATED} | fields)
