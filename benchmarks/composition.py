"""Compositions: epsilon and time, compared with dp-accounting's privacy loss distributions and prv-accountant."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds


@dataclass(frozen=True, kw_only=True)
class Case:
    """One composition, its exact epsilon by an independent contour integral, and the same composition for the peers."""

    name: str
    exact: float
    delta: float
    times: int
    account: ps.Accountant
    distribution: Callable[[], object]
    prv: Callable[[], object] | None = None


def _cases() -> Iterator[Case]:
    from dp_accounting.pld import privacy_loss_distribution as pld
    from prv_accountant import GaussianMechanism, LaplaceMechanism, PoissonSubsampledGaussianMechanism

    for sigma, times, exact in ((2.0, 100, 35.5663437141), (1000.0, 1_000_000, 4.88655411746)):
        yield Case(
            name=f"Gaussian sigma={sigma:g} x{times}, delta=1e-6",
            exact=exact,
            delta=1e-6,
            times=times,
            account=ps.GaussianAccountant(sensitivity=1, noise_std=sigma),
            distribution=lambda sigma=sigma: pld.from_gaussian_mechanism(sigma),
            prv=lambda sigma=sigma: GaussianMechanism(sigma),
        )
    yield Case(
        name="Laplace b=2 x50, delta=1e-6",
        exact=18.7546813882,
        delta=1e-6,
        times=50,
        account=ps.LaplaceAccountant(sensitivity=1, scale=2),
        distribution=lambda: pld.from_laplace_mechanism(2),
        prv=lambda: LaplaceMechanism(0.5),
    )
    yield Case(
        name="Poisson 0.01, Gaussian sigma=1 x10000, delta=1e-5",
        exact=6.18771238997,  # by inversion at 30 digits
        delta=1e-5,
        times=10_000,
        account=ps.SubsampledAccountant(
            base=ps.GaussianAccountant(sensitivity=1, noise_std=1), scheme=ps.PoissonSampling(rate=0.01)
        ),
        distribution=lambda: pld.from_gaussian_mechanism(1.0, sampling_prob=0.01),
        prv=lambda: PoissonSubsampledGaussianMechanism(sampling_probability=0.01, noise_multiplier=1.0),
    )


def rows() -> Iterator[Row]:
    """Excess of the library and of the peers over the exact value, and times (best of five, alternating), by case."""
    from prv_accountant import PRVAccountant

    for case in _cases():

        def library(case: Case = case) -> float:
            return float((case.times * case.account).epsilon(case.delta))

        def by_distribution(case: Case = case) -> float:
            return float(case.distribution().self_compose(case.times).get_epsilon_for_delta(case.delta))

        def by_prv(case: Case = case) -> float:
            accountant = PRVAccountant(
                prvs=[case.prv()], max_self_compositions=[case.times], eps_error=0.01, delta_error=case.delta / 1e3
            )
            return float(accountant.compute_epsilon(delta=case.delta, num_self_compositions=[case.times])[2])

        for name, peer in (("dp-accounting PLD", by_distribution), ("prv-accountant", by_prv)):
            try:
                theirs, once = peer(), seconds(peer)
            except Exception as error:  # noqa: BLE001 - a peer that cannot answer is a finding
                yield Row(name=case.name, library="", peer=f"{name}: {type(error).__name__}", ratio=None, target="")
                continue
            own, other = paired(library, peer, runs=5 if once < 2 else 1)
            excess = library() - case.exact
            yield Row(
                name=case.name,
                library=f"exact {excess:+.1e}",
                peer=f"{name} {theirs - case.exact:+.1e}",
                ratio=None,
                target="at most +1e-6",
            )
            yield Row(
                name="  time", library=milliseconds(own), peer=milliseconds(other), ratio=own / other, target="below 1"
            )
