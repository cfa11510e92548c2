"""Writes samples of every kind of file in the present format, with the numbers that their accounts must keep giving.

Run from the root of the repository, once for each format and before the format changes: python -m tests.data.make
An existing folder is never overwritten: files that were written by an old version cannot be made again.
"""

import json
import math
from pathlib import Path

import numpy as np

import privsample as ps
from privsample._serial import encode
from privsample.mechanisms.files import FORMAT
from privsample.simulations.audit.catalogue import catalogue
from tests.data.numbers import account_numbers

ROOT = Path(__file__).parent
LOCAL = ps.ReplaceOne(n=5)
PURE = ps.PureAccountant(stated_epsilon=0.25)
GRAPH = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])


def catalogued():
    """Name -> (mechanism, data) of the catalogue."""
    for name, example in catalogue().items():
        yield name, example.mechanism, example.mechanism.worst_neighbours()[0].datasets[0]()


def further():
    """Mechanisms with the parameters that the catalogue does not use."""
    noise = ps.GaussianMechanism(sensitivity=1, noise_std=2, shape=(2,))
    answer = ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=1))
    yield "gaussian-draws", ps.GaussianMechanism(sensitivity=1, noise_std=2, shape=(3,), draws=3), np.zeros(3)
    yield "households", ps.LaplaceSum(bounds=(0, 1), scale=1, relation=ps.AddRemove(unit="household")), [1.0]
    steps = (
        ps.NoisyStep(map=ps.Affine(matrix=[[0.5, 0.0], [0.1, 0.5]], offset=[0.0, 1.0]), noise_std=1.0),
        ps.NoisyStep(map=ps.Ball(radius=2.0), noise_std=0.5),
        ps.NoisyStep(map=ps.Box(low=-1.0, high=1.0), noise_std=0.5),
    )
    yield "contraction-maps", ps.NoisyContraction(base=noise, steps=steps), np.zeros(2)
    normal = ps.NormalUnknownVariance(mean=0, observations=1, shape=2, scale=1, bounds=(-1, 1))
    yield "normal-statistics", ps.NoisyStatistics(model=normal, n=3, scale=2), np.zeros(3)
    line = ps.LinearRegression(feature_bounds=((0, 1), (-1, 1)), target_bounds=(0, 2), shape=2, scale=1)
    yield "regression-statistics", ps.NoisyStatistics(model=line, n=3, scale=2), (np.ones((3, 2)), np.ones(3))
    for name, runs in {
        "poisson-runs": ps.Poisson(mean=3.0),
        "binomial-runs": ps.Binomial(maximum=4, rate=0.5),
        "beta-binomial-runs": ps.BetaBinomial(maximum=4, alpha=1.0, beta=2.0),
        "truncated-runs": ps.TruncatedRepetitions(distribution=ps.Poisson(mean=3.0), maximum=5),
    }.items():
        yield name, ps.RepeatedSelection(base=answer, repetitions=runs), [1]
    descent = ps.NoisyProjectedSGD(
        loss=ps.SquaredLoss(features=1, norm=1.0, radius=1.0, target=1.0),
        n=4,
        rate=0.1,
        noise_std=2.0,
        public_tail=2,
        public=ps.PublicRecords(rows=[[0.5], [1.0]], targets=[0.5, 1.0]),
    )
    yield "public-descent", descent, (np.ones((4, 1)), np.ones(4))


def values():
    """Name -> values that no release holds, accountants first."""
    return {
        "approximate": ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-7),
        "bounded-range": ps.BoundedRangeAccountant(loss_range=0.5, relation=LOCAL),
        "pure": PURE,
        "zcdp": ps.ZCDPAccountant(rho=0.1, relation=ps.AddRemove(unit="patient")),
        "group": ps.Group(base=PURE, size=3),
        "composed": 2 * PURE + ps.GaussianAccountant(sensitivity=1, noise_std=3.0),
        "parallel": PURE | ps.ZCDPAccountant(rho=0.1),
        "one-bit": ps.OneBit(graph=GRAPH, epsilon=0.3).accountant,
        "posterior-group": ps.DirectPosterior(model=ps.BetaBernoulli(alpha=2, beta=3), n=5).accountant.group(2),
        "subsampled-draws": 3
        * ps.SubsampledAccountant(base=PURE.assuming(ps.Assumption.TIMING), scheme=ps.PoissonSampling(rate=0.25)),
        "public-shape": ps.DirectPosterior(model=ps.BetaBernoulli(alpha=2, beta=3, fractional=True), n=5).accountant,
        "dp": ps.DP(epsilon=1, delta=1e-6),
        "pure-dp": ps.DP(epsilon=1),
        "zcdp-target": ps.ZCDP(rho=0.5),
        "rdp-target": ps.RDP(order=4, epsilon=1),
        "profile-edge": ps.ProfileEdge(graph=GRAPH),
        "infinite": (math.inf, -math.inf),
        "score": ps.NoisyScore(noise_std=1.0),
        "assumptions": frozenset(ps.Assumption),
    }


def write_releases(folder):
    """One file for each mechanism; two of them as netCDF, too. Every second one is drawn from a caller's generator."""
    folder.mkdir()
    found = {}
    for place, (name, mechanism, data) in enumerate([*catalogued(), *further()]):
        release = mechanism.release(data, rng=np.random.default_rng(place) if place % 2 else None)
        release.save(folder / f"{name}.json")
        if name in ("beta-posterior", "clipped-sum"):
            release.save(folder / f"{name}.nc")
        found[name] = account_numbers(release.account)
    return found


def write_ledgers(folder):
    """Two ledgers with spends, a release, plans and draws, and their exports."""
    budgets = {"curve": ps.DP(epsilon=1, delta=1e-6), "zcdp": ps.ZCDP(rho=0.5)}
    found = {}
    for name, budget in budgets.items():
        share = {"approximate_share": 0.5} if name == "curve" else {}
        ledger = ps.Ledger(
            folder / f"{name}.ledger", budget=budget, relation=ps.AddRemove(unit="patient"), dataset="visits", **share
        )
        mine = {"relation": ps.AddRemove(unit="patient")}
        ledger.spend(ps.PureAccountant(stated_epsilon=0.05, **mine), times=2, label="counts")
        ledger.release(ps.LaplaceMechanism(sensitivity=1, scale=40, **mine), 3.0, label="a sum")
        plan = [
            (ps.GaussianMechanism(sensitivity=1, noise_std=60, **mine), 3),
            ps.ZCDPAccountant(rho=0.001, **mine),
        ]
        reservation = ledger.reserve(plan, label="the study")
        reservation.release(0, 1.0)
        reservation.take(1)
        if name == "curve":
            ledger.spend(ps.ApproximateAccountant(stated_epsilon=0.05, stated_delta=1e-8, **mine))
            ledger.reserve([ps.GaussianMechanism(sensitivity=1, noise_std=200, **mine)], delta=1e-8)
        ledger.export(folder / f"{name}.export.json")
        found[name] = {"spent": ledger.spent(), "remaining": ledger.remaining(), "entries": len(ledger.history())}
    return found


def write_draws(folder):
    """Draws from posteriors of releases: independent ones, and two chains of a sampler with all of their groups."""
    folder.mkdir()
    model = ps.DirichletCategorical(alpha=(1, 2, 3), names=["low", "middle", "high"])
    mechanism = ps.NoisyStatistics(model=model, n=6, scale=2.0)
    statistics = ps.PrivateStatistics(release=mechanism.release([0, 1, 1, 2, 2, 2]))
    chains = ps.PosteriorDraws(
        draws={"theta": np.linspace(0, 1, 8, dtype=np.float32), "runs": np.arange(8, dtype=np.int8)},
        account=statistics.account,
        method="numbers that were made up",
        chains=2,
        sample_stats={"diverging": np.arange(8) % 2 == 1},
        observed_data={"statistic": statistics.release["statistic"][0]},
        constant_data={"n": 6},
    )
    found = {}
    for name, draws in {
        "independent": statistics.draw(8, plug_in=True, rng=np.random.default_rng(1)),
        "chains": chains,
    }.items():
        draws.save(folder / f"{name}.nc")
        numbers = {key: array.ravel().tolist() for key, array in draws.items()}
        found[name] = {"numbers": numbers, "method": draws.method, "account": account_numbers(draws.account)}
    return found


def write_certificates(folder):
    """Certificates of one pair and of a composition in closed form."""
    folder.mkdir()
    accounts = {"one": PURE, "composed": 2 * ps.GaussianAccountant(sensitivity=1, noise_std=3.0)}
    found = {}
    for name, account in accounts.items():
        certificate = account.certificate(delta=1e-3)
        certificate.save(folder / f"{name}.json")
        found[name] = certificate.claims
    return found


def write(folder):
    """Write one folder."""
    folder.mkdir()
    held = values()
    expected = {
        "releases": write_releases(folder / "releases"),
        "accounts": {name: account_numbers(x) for name, x in held.items() if isinstance(x, ps.Accountant)},
        "ledgers": write_ledgers(folder),
        "draws": write_draws(folder / "draws"),
        "certificates": write_certificates(folder / "certificates"),
    }
    for name, document in {"values": {n: encode(x) for n, x in held.items()}, "expected": expected}.items():
        (folder / f"{name}.json").write_text(json.dumps(document, allow_nan=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / f"format{FORMAT}")
