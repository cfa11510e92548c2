"""The least mu of ten accounts: against the mu that the privacy curve needs at some epsilon, and against gdpnum.

riskcal, the other peer, has no mu of a privacy loss distribution; `python -m benchmarks risk` compares with it.
"""

from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, seconds
from privsample.accounting.engine.gaussian_tails import mu_at

_LAPLACE, _NOISE = ps.LaplaceAccountant(sensitivity=1, scale=20), ps.GaussianAccountant(sensitivity=1, noise_std=1)
_LAPLACE_2, _NOISE_2 = ps.LaplaceAccountant(sensitivity=1, scale=2), ps.GaussianAccountant(sensitivity=1, noise_std=2)
_STEP = ps.SubsampledAccountant(base=_NOISE, scheme=ps.PoissonSampling(rate=0.01))
CASES: list[tuple[str, ps.Accountant, float]] = [
    ("Gaussian noise, sd 1", _NOISE, 0.0),
    ("Laplace noise, scale 1", ps.LaplaceAccountant(sensitivity=1, scale=1), 0.0),
    ("randomized response, epsilon 1", ps.PureAccountant(stated_epsilon=1), 0.0),
    ("20 Laplace, scale 20", 20 * _LAPLACE, 0.0),
    ("200 Laplace, scale 20", 200 * _LAPLACE, 0.0),
    ("Laplace scale 2 and Gaussian sd 2", _LAPLACE_2 + _NOISE_2, 0.0),
    ("50 randomized responses, epsilon 0.1", 50 * ps.PureAccountant(stated_epsilon=0.1), 0.0),
    ("zCDP, rho 0.1", ps.ZCDPAccountant(rho=0.1), 0.0),
    ("sampled Gaussian, regret 1e-6", _STEP, 1e-6),
    ("1000 sampled Gaussians, regret 1e-6", 1000 * _STEP, 1e-6),
]


def rows() -> Iterator[Row]:
    """Each mu over the lower bound, then the time of one call, and the mu of gdpnum, which holds for errors > 1e-10."""
    for name, account, regret in CASES:
        took = seconds(lambda account=account, regret=regret: account.mu(regret))  # type: ignore[misc]
        mu = account.mu(regret)
        needed = _needed(account, mu, regret)
        peer = _peer(account) if regret == 0.0 and account.bounds.pairs else "no peer at this regret"
        yield Row(
            name=f"least mu: {name}",
            library=f"{mu:.12g}",
            peer=peer,
            ratio=mu / needed - 1,
            target=f"excess <= 1e-9; {took:.2f} s",
        )


def _needed(account: ps.Accountant, mu: float, regret: float) -> float:
    """A lower bound on the least mu of the reported curve: the mu that it needs at some epsilon, by three searches."""
    low, high = 0.0, float(min(account.pure_epsilon, mu * (8 + mu / 2)))
    best = 0.0
    for _ in range(4):
        epsilon = np.linspace(low, high, 201)
        with np.errstate(divide="ignore", invalid="ignore"):
            # contour integrals at very many epsilons at once are replaced by looser conversions
            curve = np.concatenate([account.log_delta(part) for part in np.array_split(epsilon, 10)])
            excess = np.log(np.maximum(np.exp(curve) - regret, 0.0))
        found = mu_at(epsilon, excess)
        at, width = int(found.argmax()), (high - low) / 100
        best, low, high = max(best, float(found[at])), max(epsilon[at] - width, 0.0), epsilon[at] + width
    return best


def _peer(account: ps.Accountant) -> str:
    """The mu of gdpnum from the privacy loss distribution of dp_accounting."""
    try:
        from gdpnum import PLDConverter
    except ImportError:
        return "pip install --no-deps gdpnum"
    return f"{PLDConverter(ps.to_pld(account))._get_mus()[1]:.9g} gdpnum"
