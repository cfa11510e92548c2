"""What an audit is asked: the cases, the claim at each epsilon, the number of draws and the level."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from privsample._checks import FloatArray
from privsample.mechanisms.neighbours import Neighbours

AuditView = Literal["outputs", "bits", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """The checked arguments of an audit, which every view of it receives.

    subject: the mechanism or the function of (data, rng). claim: the claimed guarantee as given, or None. cases:
    candidate pairs of neighbouring datasets. epsilons: increasing, in nats; claims: the claimed delta at each. samples:
    draws from each dataset. level: probability of a false alarm. view: what the audit looks at.
    """

    subject: Any
    claim: Any
    cases: tuple[Neighbours, ...]
    epsilons: FloatArray
    claims: FloatArray
    samples: int
    level: float
    rng: np.random.Generator
    view: AuditView = "outputs"
