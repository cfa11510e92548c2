"""Audits of the examples in the catalogue, optionally in parallel."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from privsample._optional import require
from privsample.simulations.audit.catalogue import audit_example, catalogue
from privsample.simulations.audit.sequential_verdict import SequentialVerdict
from privsample.simulations.audit.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """Verdict of one audit, with the name of the example and the run time in seconds."""

    name: str
    verdict: Verdict | SequentialVerdict
    seconds: float


def run_audits(names: Sequence[str], *, seed: int | None = None, **options: Any) -> Iterator[AuditResult]:
    """Audit the named examples in this order through joblib; options as for `audit_example`.

    Each audit has its own generator, seeded from `seed` and the name of the example, or from OS entropy if `seed` is
    None. So results do not depend on the other examples or on the number of workers. Raises: the errors of `audit`.
    """
    require("joblib", "audit", "an audit")
    from joblib import Parallel, delayed

    return iter(Parallel(return_as="generator")(delayed(_timed)(name, seed, options) for name in names))


def _timed(name: str, seed: int | None, options: dict[str, Any]) -> AuditResult:
    start = perf_counter()
    rng = np.random.default_rng(None if seed is None else [seed, zlib.crc32(name.encode())])
    verdict = audit_example(catalogue()[name], rng=rng, **options)
    return AuditResult(name=name, verdict=verdict, seconds=perf_counter() - start)
