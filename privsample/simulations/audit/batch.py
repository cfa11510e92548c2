"""Audits of the catalogue, several at once where that is asked for."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from privsample.simulations.audit.catalogue import audit_example, catalogue
from privsample.simulations.audit.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """An audit that was run, and how long it took."""

    name: str
    verdict: Verdict
    seconds: float


def run_audits(names: Sequence[str], *, seed: int | None = None, **options: Any) -> Iterator[AuditResult]:
    """Audit the examples of these names, in their order, through joblib; options as for `audit_example`.

    Each has a generator of its own, from the seed and its name, or from the system: neither the company that it is
    run in nor the number of workers changes a number. Raises: as `audit`.
    """
    from joblib import Parallel, delayed

    return iter(Parallel(return_as="generator")(delayed(_timed)(name, seed, options) for name in names))


def _timed(name: str, seed: int | None, options: dict[str, Any]) -> AuditResult:
    start = perf_counter()
    rng = np.random.default_rng(None if seed is None else [seed, zlib.crc32(name.encode())])
    verdict = audit_example(catalogue()[name], rng=rng, **options)
    return AuditResult(name=name, verdict=verdict, seconds=perf_counter() - start)
