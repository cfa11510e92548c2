"""Comparison with dp-accounting: epsilon, time, and cases in which its grid of orders is loose."""

from collections.abc import Iterator

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired


def rows() -> Iterator[Row]:
    """Gaussian noise at the extremes of its range, by the best general method of both libraries."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    cases = [(1e5, 1, 1e-8), (0.01, 1, 1e-6), (2.0, 1, 0.5), (2.0, 100, 1e-6), (2.0, 100, 1e-300)]
    for sigma, times, delta in cases:
        account = times * ps.GaussianAccountant(sensitivity=1, noise_std=sigma)

        def peer(sigma: float = sigma, times: int = times, delta: float = delta) -> float:
            accountant = RdpAccountant()
            accountant.compose(dp_event.GaussianDpEvent(sigma), times)
            return float(accountant.get_epsilon(delta))

        own, theirs = paired(lambda a=account, d=delta: a.epsilon(d), peer, runs=3)
        answer = float(account.epsilon(delta))
        yield Row(
            name=f"epsilon of Gaussian noise {sigma:g} x {times} at delta {delta:g}",
            library=f"{answer:.10g}",
            peer=f"{peer():.6g} dp-accounting RDP",
            ratio=answer / peer() if peer() else None,
            target="exact",
        )
        yield Row(
            name="  its time", library=milliseconds(own), peer=milliseconds(theirs), ratio=own / theirs, target=""
        )
