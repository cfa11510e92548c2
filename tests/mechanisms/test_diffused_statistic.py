"""A user's own diffusion: drawn, continued, released at several times, accounted by its intrinsic sensitivity."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.errors import NumericalFailure

RATES = np.array([0.5, 2.0])


@ps.register(package="diffusion-test")
@dataclass(frozen=True)
class Relaxation(ps.Diffusion):
    """dX = -rate X dt + sqrt(2) dW in each coordinate, with rates of its own."""

    rates: tuple[float, ...] = (0.5, 2.0)

    def noise(self, time):
        return np.sqrt(-np.expm1(-2 * np.array(self.rates) * time) / self.rates)

    def step(self, x, time, rng):
        return np.exp(-np.array(self.rates) * time) * x + self.noise(time) * rng.standard_normal(x.shape)

    def intrinsic_sensitivity(self, time, distance):
        slowest = min(self.rates)
        return distance**2 * slowest / (2 * np.expm1(2 * slowest * time))


OWN = ps.DiffusedStatistic(diffusion=Relaxation(), sensitivity=1.5, time=0.4, shape=(2,))


def test_the_account_is_that_of_the_coordinate_that_forgets_least():
    slow = ps.OrnsteinUhlenbeck(sensitivity=1.5, theta=0.5, rho=1.0, time=0.4, exact=False)
    orders = np.array([1.5, 2.0, 30.0])
    assert OWN.accountant.rdp(orders) == pytest.approx(slow.accountant.rdp(orders), rel=1e-12)
    assert ps.Assumption.STATED in OWN.accountant.assumptions
    assert OWN.accountant.kind("rdp") == "upper bound" or OWN.accountant.zcdp >= slow.accountant.zcdp * (1 - 1e-12)
    builtin = ps.DiffusedStatistic(
        diffusion=ps.OrnsteinUhlenbeckDiffusion(theta=0.5, rho=1.0), sensitivity=1.5, time=0.4
    )
    assert builtin.accountant == slow.accountant
    assert builtin.diffusion.intrinsic_sensitivity(0.4, 1.5) == pytest.approx(slow.accountant.zcdp, rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.6, False)])
def test_paths_have_the_law_of_the_diffusion(factor, accepted, rng, alpha):
    """First at 0.4, then at 1.0: each level normal, and the step between them independent of the first level."""
    levels = ps.MultilevelRelease(base=OWN, times=(1.0,))
    (pair,) = levels.worst_neighbours()
    paths = pair.draw(np.array([2.0, -1.0]), 4000, rng).reshape(-1, 2, 2)
    first = (paths[:, 0] - np.exp(-RATES * 0.4) * [2.0, -1.0]) / Relaxation().noise(0.4)
    step = (paths[:, 1] - factor * np.exp(-RATES * 0.6) * paths[:, 0]) / Relaxation().noise(0.6)
    assert min(stats.kstest(first[:, k], "norm").pvalue for k in (0, 1)) > alpha / 2
    correlations = [abs(np.corrcoef(paths[:, 0, k], step[:, k])[0, 1]) * np.sqrt(4000) for k in (0, 1)]
    assert (max(correlations) < stats.norm.isf(alpha / 4)) == accepted


def test_it_is_continued_calibrated_and_saved(tmp_path):
    mechanism = ps.DiffusedStatistic.calibrate(
        diffusion=Relaxation(), sensitivity=1.5, shape=(2,), target=ps.ZCDP(0.05)
    )
    assert mechanism.accountant.zcdp <= 0.05
    assert mechanism.at(0.99 * mechanism.time).accountant.zcdp > 0.05
    release = mechanism.release([1.0, np.nan], rng=np.random.default_rng(1))
    later = mechanism.diffuse(release, time=mechanism.time + 1, rng=np.random.default_rng(2))
    assert later.account.zcdp < release.account.zcdp
    later.save(tmp_path / "r.json")
    assert ps.Release.load(tmp_path / "r.json") == later
    assert mechanism.validate([1.0, np.nan]).facts == {"not finite": 1}
    with pytest.raises(ValueError, match="times must increase"):
        mechanism.diffuse(release, time=mechanism.time / 2)


def test_the_audit_confirms_it_and_finds_a_diffusion_that_stops_early():
    @dataclass(frozen=True)
    class Early(Relaxation):
        def step(self, x, time, rng):
            return Relaxation.step(self, x, time / 4, rng)

    broken = replace(OWN, diffusion=Early())
    assert ps.audit(OWN, samples=4000, rng=np.random.default_rng(1)).outcome == "CONSISTENT"
    found = ps.audit(broken, claim=OWN.accountant, samples=4000, rng=np.random.default_rng(1))
    assert found.outcome == "VIOLATED"


def test_functions_are_drawn_and_accounted_but_not_saved(tmp_path):
    kappa, tail = (lambda s: 1 / (4 * s * s)), (lambda s: 1 / (4 * s))
    motion = ps.StatedDiffusion(
        transition=lambda x, time, rng: x + np.sqrt(2 * time) * rng.standard_normal(x.shape),
        sensitivity_bound=lambda time, distance: distance**2 * ps.intrinsic_sensitivity(kappa, time, tail),
    )
    own = ps.DiffusedStatistic(diffusion=motion, sensitivity=2.0, time=3.0, shape=(3,))
    same = ps.BrownianMotion(sensitivity=2.0, time=3.0, shape=(3,))
    assert same.accountant.zcdp <= own.accountant.zcdp <= same.accountant.zcdp * 1.002
    release = own.release([1, 2, 3], rng=np.random.default_rng(1))
    assert release["statistic"].shape == (1, 3)
    with pytest.raises(TypeError, match="a function cannot be saved"):
        release.save(tmp_path / "r.json")


def test_bad_diffusions_are_refused():
    def stated(transition, bound=lambda time, distance: 0.1):
        diffusion = ps.StatedDiffusion(transition=transition, sensitivity_bound=bound)
        return ps.DiffusedStatistic(diffusion=diffusion, sensitivity=1.0, time=1.0, shape=(2,))

    def keep(x, time, rng):
        return x

    with pytest.raises(TypeError, match="diffusion must be a Diffusion"):
        replace(OWN, diffusion=keep)
    with pytest.raises(TypeError, match="transition must be a function"):
        stated(None)
    for bound in (np.nan, -1.0, np.inf):
        with pytest.raises(ValueError, match="intrinsic_sensitivity must be finite and >= 0"):
            stated(keep, lambda time, distance, bound=bound: bound)
    with pytest.raises(TypeError, match="must preserve the shape of the states"):
        stated(lambda x, time, rng: x[:, :1]).release([1.0, 2.0])
    with pytest.raises(NumericalFailure, match="returned NaN, so nothing is released"):
        stated(lambda x, time, rng: x * np.nan).release([1.0, 2.0])
