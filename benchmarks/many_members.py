"""Compositions of many different accounts, and many questions about one: processor seconds, with dp-accounting beside.

The exact epsilons of Laplace noise are those of contour integrals.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row

DELTA, GRID = 1e-6, 1e-4
EXACT = {1_000: 1.6351818343669, 10_000: 5.9133543199545}


def rows() -> Iterator[Row]:
    """Distinct Laplace accounts, distinct Gaussian accounts, and a thousand deltas of one composition."""
    _laplace(40).epsilon(DELTA)  # loads what is loaded at the first use
    for count, target in ((1_000, "at most 0.5 s"), (10_000, "at most 5 s")):
        took, found = _processor(lambda n=count: float(_laplace(n).epsilon(DELTA)))
        peer = "" if count > 1_000 else _peer(count)
        yield _row(f"{count} kinds of Laplace noise, error {found - EXACT[count]:+.1e}", took, peer, target)
    for count, target in ((1_000, "at most 0.02 s"), (3_000, "")):
        accounts = [ps.GaussianAccountant(sensitivity=1, noise_std=float(std)) for std in np.linspace(30, 60, count)]
        took, _ = _processor(lambda a=accounts: float(sum(a).epsilon(DELTA)))
        yield _row(f"{count} kinds of Gaussian noise", took, "", target)
    one, _ = _processor(lambda: float(_mixture().epsilon(DELTA)))
    account = _mixture()
    all_deltas, _ = _processor(lambda: float(account.epsilon(np.geomspace(1e-12, 1e-2, 1_000)).sum()))
    yield Row(
        name="1,000 deltas of one composition, and one delta",
        library=f"{all_deltas:.3g} s",
        peer=f"{one:.3g} s",
        ratio=all_deltas / one,
        target="at most 1.5",
    )
    for name, ask in (
        ("loss_tail of 50 losses", lambda: float(account.loss_tail(np.linspace(0.0, 5.0, 50)).sum())),
        ("tradeoff of 50 rates", lambda: float(account.tradeoff(np.linspace(0.01, 0.99, 50)).sum())),
        ("regret", lambda: float(account.regret(0.5))),
    ):
        yield _row(f"  {name}, afterwards", _processor(ask)[0], "", "")


def _laplace(count: int) -> ps.Accountant:
    """Laplace noise with epsilons from 0.001 to 0.02."""
    epsilons = np.linspace(0.001, 0.02, count).tolist()
    return sum((ps.LaplaceAccountant(sensitivity=1, scale=1 / loss) for loss in epsilons[1:]), _first(epsilons[0]))


def _first(loss: float) -> ps.Accountant:
    """The first term of a sum of accounts."""
    return ps.LaplaceAccountant(sensitivity=1, scale=1 / loss)


def _mixture() -> ps.Accountant:
    """Two kinds of noise, whose composition is computed on grids."""
    laplace, gaussian = ps.LaplaceAccountant(sensitivity=1, scale=2), ps.GaussianAccountant(sensitivity=1, noise_std=4)
    return 10 * laplace + 5 * gaussian


def _peer(count: int) -> str:
    """Time and error of dp-accounting's privacy loss distributions, composed one by one."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def compose() -> float:
        losses = np.linspace(0.001, 0.02, count).tolist()
        total = pld.from_laplace_mechanism(1 / losses[0], value_discretization_interval=GRID)
        for loss in losses[1:]:
            total = total.compose(pld.from_laplace_mechanism(1 / loss, value_discretization_interval=GRID))
        return float(total.get_epsilon_for_delta(DELTA))

    took, found = _processor(compose)
    return f"PLD {took:.3g} s, error {found - EXACT[count]:+.1e}"


def _processor(function: Callable[[], float]) -> tuple[float, float]:
    """Processor seconds of one call, and its result."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def _row(name: str, took: float, peer: str, target: str) -> Row:
    return Row(name=name, library=f"{took:.3g} s", peer=peer, ratio=None, target=target)
