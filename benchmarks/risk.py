"""Errors of tests between neighbours: against closed forms, and against riskcal on the same accounts."""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import ndtr, ndtri

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired, seconds

_RATES = np.array([1e-12, 1e-6, 0.01, 0.1, 0.3])
_BASELINE = 0.01
_NOISE = ps.GaussianAccountant(sensitivity=1, noise_std=1)
_STEP = ps.SubsampledAccountant(base=_NOISE, scheme=ps.PoissonSampling(rate=0.01))


def _gaussian(a: np.ndarray) -> np.ndarray:
    """Power against Gaussian noise with mu = 1."""
    return np.asarray(ndtr(1.0 + ndtri(a)))


def _laplace(a: np.ndarray) -> np.ndarray:
    """Power against Laplace noise with shift and scale 1."""
    middle = 1.0 - 1.0 / (4 * np.e * a)
    return np.where(a < 0.5 / np.e, np.e * a, np.where(a <= 0.5, middle, 1.0 - (1.0 - a) / np.e))


def _sampled(a: np.ndarray) -> np.ndarray:
    """Power of removal against one Poisson sample of rate 0.01 with Gaussian noise, the worse direction here."""
    return 0.01 * _gaussian(a) + 0.99 * a


CASES: list[tuple[str, ps.Accountant, Callable[[np.ndarray], np.ndarray] | None]] = [
    ("Gaussian noise, sd 1", _NOISE, _gaussian),
    ("100 Gaussians, sd 10", 100 * ps.GaussianAccountant(sensitivity=1, noise_std=10), _gaussian),
    ("Laplace noise, scale 1", ps.LaplaceAccountant(sensitivity=1, scale=1), _laplace),
    ("sampled Gaussian", _STEP, _sampled),
    ("1000 sampled Gaussians", 1000 * _STEP, None),
    ("60 Laplace, scale 30", 60 * ps.LaplaceAccountant(sensitivity=1, scale=30), None),
    ("randomized response, epsilon 1", ps.PureAccountant(stated_epsilon=1), None),
]


def rows() -> Iterator[Row]:
    """The largest power at each rate, its excess over the closed form, the risk at a baseline of 0.01, and the time."""
    for name, account, exact in CASES:
        powers, theirs = account.power(_RATES), _peer(account)
        for at, a in enumerate(_RATES):
            best = None if exact is None else float(exact(_RATES)[at])
            yield Row(
                name=f"power at rate {a:g}: {name}",
                library=f"{powers[at]:.10g}",
                peer=theirs if isinstance(theirs, str) else f"{theirs()[at]:.10g} riskcal",
                ratio=None if best is None else float(powers[at]) / best - 1,
                target="" if best is None else f"excess >= 0 over the closed form {best:.10g}",
            )
        yield Row(
            name=f"risk at baseline {_BASELINE:g}: {name}",
            library=f"{float(account.risk(_BASELINE)):.10g}",
            peer="no bound of this kind",
            ratio=None,
            target="",
        )
        yield _times(account, theirs)


def _times(account: ps.Accountant, theirs: "Callable[[], np.ndarray] | str") -> Row:
    """The time of all rates, for an account that has computed nothing before."""

    def own() -> np.ndarray:
        return ps.Accountant.from_dict(account.to_dict()).power(_RATES)

    if isinstance(theirs, str):
        return Row(name="  time of all rates", library=milliseconds(seconds(own)), peer=theirs, ratio=None, target="")
    mine, other = paired(own, theirs, runs=3)
    return Row(
        name="  time of all rates",
        library=milliseconds(mine),
        peer=milliseconds(other),
        ratio=mine / other,
        target="",
    )


def _peer(account: ps.Accountant) -> "Callable[[], np.ndarray] | str":
    """The powers by riskcal from the privacy loss distribution of dp_accounting, or how to install it."""
    try:
        from riskcal.analysis import get_beta_from_pld
    except ImportError:
        return "pip install --no-deps riskcal"

    def powers() -> np.ndarray:
        fresh = ps.Accountant.from_dict(account.to_dict())
        return 1.0 - np.asarray(get_beta_from_pld(ps.to_pld(fresh), alpha=_RATES))

    return powers
