"""A model of another package: all that the library does with it, from what it says of itself."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import privsample as ps
from privsample.distributions.shifts import TruncatedBetaShifts
from privsample.interop.pymc_models import spec_of

TIMES = np.array([0.5, 4.0, 9.0, np.nan, 1.5])


@dataclass(frozen=True, kw_only=True)
class GammaErlang(ps.Model):
    """Times of `stages` exponential stages each, clipped to [0, upper], with a Gamma(shape, rate) prior on the rate."""

    prior_parameters = ("shape", "rate")
    description = "the rate of a stage"
    parameter = "rate"

    shape: float
    rate: float
    stages: int
    upper: float

    @property
    def domain(self):
        return ps.Domain(low=0.0, high=self.upper, missing=0.0)

    def posterior(self, statistic, n, *, data_weight=1.0, prior_divisor=1.0):
        rate = self.rate / prior_divisor + data_weight * float(statistic)
        return ps.Gamma(shape=self.shape / prior_divisor + data_weight * self.stages * n, rate=rate)

    def neighbouring_posteriors(self, n, *, data_weight=1.0, prior_divisor=1.0, group_size=1):
        shape = self.shape / prior_divisor + data_weight * self.stages * n
        step = group_size * data_weight * self.upper
        return (ps.GammaRateShift(shape=shape, rate=self.rate / prior_divisor, step=step),)


class Fuller(GammaErlang):
    """The same, which says all that can be said."""

    def knows_groups(self, prior_divisor):
        return True

    def farthest_size(self, low, high):
        return high

    def absorb(self, statistic, n):
        law = self.posterior(statistic, n)
        return replace(self, shape=law.shape, rate=law.rate)

    def simulate(self, theta, n, rng):
        return np.minimum(rng.gamma(self.stages, 1 / float(theta), n), self.upper)


MODEL = GammaErlang(shape=2.0, rate=1.0, stages=3, upper=4.0)
FULLER = Fuller(shape=2.0, rate=1.0, stages=3, upper=4.0)
SAME = ps.GammaExponential(shape=12.0, rate=1.0, upper=4.0)  # its posterior of five records is that of MODEL


def test_its_account_is_that_of_the_same_posteriors():
    account, same = ps.PosteriorAccountant(model=MODEL, n=5), ps.PosteriorAccountant(model=SAME, n=5)
    orders, epsilons = np.array([1.1, 1.2]), np.array([0.0, 1.0, 7.0])
    assert (account.rdp(orders) == same.rdp(orders)).all()
    assert (account.delta(epsilons) == same.delta(epsilons)).all()
    assert (2 * account).delta(3.0) == (2 * same).delta(3.0)
    sampled = ps.SubsampledAccountant(base=account, scheme=ps.WithoutReplacement(n=50, m=5))
    assert sampled.delta(1.0) < account.delta(1.0)


def test_it_is_drawn_from_and_calibrated():
    mechanism = ps.DiffusedPosterior.calibrate(model=MODEL, n=5, target=ps.DP(epsilon=1, delta=1e-3), draws=2)
    release = mechanism.release(TIMES, rng=np.random.default_rng(1))
    assert release["rate"].shape == (2,)
    assert release.account.epsilon(1e-3) <= 1.0
    noisy = ps.NoisyStatistics.calibrate(model=MODEL, n=5, target=ps.DP(epsilon=1, delta=0.0))
    private = ps.PrivateStatistics(release=noisy.release(TIMES, rng=np.random.default_rng(1)))
    assert private.posterior().shape == 17.0
    assert private.posterior(replace(MODEL, shape=5.0)).shape == 20.0
    with pytest.raises(ValueError, match="in its prior only"):
        private.posterior(replace(MODEL, stages=2))


def test_its_audit_finds_its_neighbours_and_a_fault():
    honest = ps.DiffusedPosterior(model=MODEL, n=1, data_weight=0.5)
    broken = replace(honest, data_weight=1.0)
    assert not ps.audit(honest, samples=4000, rng=np.random.default_rng(2)).violated
    assert ps.audit(broken, claim=honest.accountant, samples=4000, rng=np.random.default_rng(2)).violated


def test_what_it_does_not_say_is_not_assumed():
    account = ps.PosteriorAccountant(model=MODEL, n=5)
    known = ps.PosteriorAccountant(model=FULLER, n=5)
    assert account.group(2).delta(9.0) > known.group(2).delta(9.0)  # from the curve of one record alone
    assert known.for_sizes(2, 9).n == 9
    assert FULLER.with_public_data(TIMES).shape == 17.0
    assert ps.compare(model=FULLER, n=50, target=ps.DP(epsilon=9, delta=1e-3), simulations=2)
    for asked in (
        lambda: replace(account, group_size=2),
        lambda: account.for_sizes(2, 9),
        lambda: MODEL.with_public_data(TIMES),
        lambda: MODEL.simulate(np.array(1.0), 3, np.random.default_rng(1)),
        lambda: MODEL.noise_aware(3, ps.LaplaceNoise(scale=1.0), np.array([3.0])),
        lambda: MODEL.two_categories(0, 1),
        lambda: ps.TemperedAccountant(model=MODEL, n=5, temperature=2, truncation=(0.5, 2)),
    ):
        with pytest.raises((TypeError, ValueError), match=r"GammaErlang|know groups"):
            asked()


def test_shifts_of_no_known_kind_are_refused():
    class Wrong(GammaErlang):
        def neighbouring_posteriors(self, n, **settings):
            return settings.get("shifts", ())

    with pytest.raises(TypeError, match="at least one shift"):
        ps.PosteriorAccountant(model=Wrong(shape=2.0, rate=1.0, stages=3, upper=4.0), n=5)

    class Other(Wrong):
        def neighbouring_posteriors(self, n, **settings):
            return ("a shift",)

    with pytest.raises(TypeError, match=r"must return shifts of privsample.distributions.shifts.* got str"):
        ps.PosteriorAccountant(model=Other(shape=2.0, rate=1.0, stages=3, upper=4.0), n=5)
    for kind in (ps.BetaShifts, TruncatedBetaShifts):
        settings = {"whole": True} if kind is ps.BetaShifts else {"low": 0.1, "high": 0.9}
        with pytest.raises(ValueError, match="moved must be at most n = 3, got 4"):
            kind(a=1, b=1, step=1, n=3, moved=4, **settings)


def test_a_family_beside_a_single_shift_costs_what_the_worse_costs():
    family = ps.BetaShifts(a=2.0, b=3.0, step=1.0, n=4, whole=True)
    worse = ps.BetaShift(a=0.5, b=0.5, step=1.0)

    class Both(GammaErlang):
        def neighbouring_posteriors(self, n, **settings):
            return family, worse

    account = ps.PosteriorAccountant(model=Both(shape=2.0, rate=1.0, stages=3, upper=4.0), n=4)
    alone = ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=2, beta=3), n=4)
    epsilons = np.array([0.0, 1.0, 4.0])
    assert (account.delta(epsilons) > alone.delta(epsilons)).all()
    assert account.order_limit == 1.5
    three = ps.PosteriorAccountant(model=ps.DirichletCategorical(alpha=(0.5, 0.5, 9)), n=4)
    assert account.delta(epsilons) == pytest.approx(three.delta(epsilons), rel=1e-9)
    assert ((2 * account).delta(epsilons) >= (2 * three).delta(epsilons)).all()
    assert (2 * account).delta(epsilons) == pytest.approx((2 * three).delta(epsilons), rel=0.02)


def test_pymc_sees_it_once_it_is_registered():
    class Seen(GammaErlang):
        pass

    with pytest.raises(TypeError, match="register_pymc"):
        spec_of(Seen)
    spec = ps.ModelSpec(parameters={"rate": 0}, prior_numbers=lambda _: {}, prior=lambda *_: {}, term=lambda _: None)
    ps.register_pymc(Seen, spec)
    ps.register_pymc(Seen, spec)
    assert spec_of(Seen) == spec
    assert spec.width(MODEL) == 1
    assert not spec.separate_copies(MODEL)
    with pytest.raises(ValueError, match="has a specification already"):
        ps.register_pymc(Seen, replace(spec, parameters={"mean": 0}))
    with pytest.raises(TypeError, match="must be a subclass of Model"):
        ps.register_pymc(int, spec)
    with pytest.raises(TypeError, match="must be a ModelSpec"):
        ps.register_pymc(Seen, {})
