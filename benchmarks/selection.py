"""Selection of the best of ten expected runs, compared with dp-accounting's repeat-and-select event."""

from collections.abc import Iterator

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds

DELTA, NOISE_STD = 1e-5, 5**0.5  # 0.1-zCDP
LAWS = [
    ("logarithmic", ps.TruncatedNegativeBinomial.logarithmic(mean=10), 0.0, 2.520),
    ("geometric", ps.TruncatedNegativeBinomial.geometric(mean=10), 1.0, 2.668),
    ("Poisson", ps.Poisson(mean=10), float("inf"), 3.409),
    ("binomial(20, 1/2)", ps.Binomial(maximum=20, rate=0.5), None, 3.807),
]


def rows() -> Iterator[Row]:
    """Epsilon at delta 1e-5 for a 0.1-zCDP Gaussian base, and the time of the first evaluation."""
    for name, distribution, shape, target in LAWS:
        answer = float(_account(distribution).epsilon(DELTA))
        if shape is None:
            own, theirs, peer, ratio = (
                min(seconds(lambda distribution=distribution: _library(distribution)) for _ in range(3)),
                None,
                "none",
                None,
            )
        else:
            own, theirs = paired(
                lambda distribution=distribution: _library(distribution), lambda shape=shape: _peer(shape), runs=3
            )
            peer, ratio = f"{_peer(shape):.4f} dp-accounting", answer / _peer(shape)
        yield Row(
            name=f"best of 10 runs, {name}", library=f"{answer:.4f}", peer=peer, ratio=ratio, target=f"{target:.3f}"
        )
        yield Row(
            name="  its time",
            library=milliseconds(own),
            peer="" if theirs is None else milliseconds(theirs),
            ratio=None if theirs is None else own / theirs,
            target="under 200 ms",
        )
    half = ps.TruncatedNegativeBinomial.from_mean(mean=10, eta=-0.5)
    routes = {route.name: route.epsilon for route in _account(half).explain(1e-6)}
    name = "Theorem 2, eta = -1/2, delta 1e-6"
    yield Row(name=name, library=f"{routes['Theorem 2']:.8f}", peer="refused", ratio=None, target="at most 3.06574198")
    yield Row(name="  all routes", library=f"{min(routes.values()):.8f}", peer="refused", ratio=None, target="")


def _account(distribution: ps.Poisson | ps.Binomial | ps.TruncatedNegativeBinomial) -> ps.SelectionAccountant:
    return ps.SelectionAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=NOISE_STD), repetitions=distribution
    )


def _library(distribution: ps.Poisson | ps.Binomial | ps.TruncatedNegativeBinomial) -> float:
    return float(_account(distribution).epsilon(DELTA))  # a new account each time: nothing is remembered


def _peer(shape: float) -> float:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(NOISE_STD), mean=10, shape=shape))
    return float(accountant.get_epsilon(DELTA))
