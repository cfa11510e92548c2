"""A model of another package: all that the library does with it, from what it says of itself."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import privsample as ps
from privsample.cli import main
from privsample.interop.pymc_models import spec_of

TIMES = np.array([0.5, 4.0, 9.0, np.nan, 1.5])


@ps.register(package="erlang-test")
@dataclass(frozen=True, kw_only=True)
class GammaErlang(ps.Model):
    """Times of `stages` exponential stages each, clipped to [0, upper], with a Gamma(shape, rate) prior on the rate."""

    command_name = "gamma-erlang"
    prior_parameters = ("shape", "rate")
    options: ClassVar = {"stages": "how many stages a time has", "upper": "larger values count as this one"}
    description = "the rate of a stage"
    parameter = "rate"

    shape: float
    rate: float
    stages: int
    upper: float

    @property
    def domain(self):
        return ps.Domain(low=0.0, high=self.upper, missing=0.0)

    def posterior(self, statistic, n, *, data_weight=1.0, prior_weight=1.0):
        rate = prior_weight * self.rate + data_weight * float(statistic)
        return ps.Gamma(shape=prior_weight * self.shape + data_weight * self.stages * n, rate=rate)

    @property
    def neighbouring_posteriors(self):
        return (
            ps.GammaRateShift(shape=self.shape, rate=self.rate, max_shift=self.upper, shape_per_record=self.stages),
        )


class Fuller(GammaErlang):
    """The same, which says all that can be said."""

    def supports_groups(self, prior_weight):
        return True

    def update_prior(self, statistic, n):
        distribution = self.posterior(statistic, n)
        return replace(self, shape=distribution.shape, rate=distribution.rate)

    def simulate(self, theta, n, rng):
        return np.minimum(rng.gamma(self.stages, 1 / float(theta), n), self.upper)


MODEL = GammaErlang(shape=2.0, rate=1.0, stages=3, upper=4.0)
FULLER = Fuller(shape=2.0, rate=1.0, stages=3, upper=4.0)
SAME = ps.GammaExponential(shape=12.0, rate=1.0, upper=4.0)  # its posterior of five records is that of MODEL


def test_its_account_is_that_of_the_same_posteriors():
    account, same = ps.PosteriorAccountant(model=MODEL, n=5), ps.PosteriorAccountant(model=SAME, n=5)
    orders, epsilons = np.array([1.1, 1.2]), np.array([0.0, 1.0, 7.0])
    assert account.rdp(orders) == pytest.approx(same.rdp(orders), rel=1e-12)
    assert account.delta(epsilons) == pytest.approx(same.delta(epsilons), rel=1e-12)
    assert (2 * account).delta(3.0) == pytest.approx((2 * same).delta(3.0), rel=1e-9)
    sampled = ps.SubsampledAccountant(base=account, scheme=ps.WithoutReplacement(n=50, m=5))
    assert sampled.delta(1.0) < account.delta(1.0)
    assert account.for_sizes(2, 9).n == 9


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
    assert FULLER.with_public_data(TIMES).shape == 17.0
    assert ps.compare(model=FULLER, n=50, target=ps.DP(epsilon=9, delta=1e-3), simulations=2)
    for asked in (
        lambda: replace(account, group_size=2),
        lambda: MODEL.with_public_data(TIMES),
        lambda: MODEL.simulate(np.array(1.0), 3, np.random.default_rng(1)),
        lambda: MODEL.noise_aware(3, ps.LaplaceNoise(scale=1.0), np.array([3.0])),
        lambda: MODEL.two_categories(0, 1),
        lambda: ps.TemperedAccountant(model=MODEL, n=5, temperature=2, truncation=(0.5, 2)),
    ):
        with pytest.raises((TypeError, ValueError), match=r"GammaErlang|know groups"):
            asked()


def stated(*shifts):
    """A model with these farthest posteriors."""

    class Stated(GammaErlang):
        neighbouring_posteriors = shifts

    return Stated(shape=2.0, rate=1.0, stages=3, upper=4.0)


def test_shifts_of_no_known_kind_are_refused():
    for shifts, found in (((), "none"), (("a shift", MODEL), "str, GammaErlang")):
        with pytest.raises(TypeError, match=f"of Stated must return shifts of .*, at least one, got {found}"):
            ps.PosteriorAccountant(model=stated(*shifts), n=5)


def test_a_family_beside_a_single_shift_costs_what_the_worse_costs():
    family, worse = ps.BetaShifts(a=2.0, b=3.0, integer_valued=True), ps.BetaShift(a=0.5, b=0.5)
    account = ps.PosteriorAccountant(model=stated(family, worse), n=4)
    alone = ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=2, beta=3), n=4)
    three = ps.PosteriorAccountant(model=ps.DirichletCategorical(alpha=(0.5, 0.5, 9)), n=4)
    epsilons = np.array([0.0, 1.0, 4.0])
    assert (account.delta(epsilons) > alone.delta(epsilons)).all()
    assert account.order_limit == 1.5
    assert account.delta(epsilons) == pytest.approx(three.delta(epsilons), rel=1e-9)
    assert ((2 * account).delta(epsilons) >= (2 * three).delta(epsilons)).all()
    assert (2 * account).delta(epsilons) == pytest.approx((2 * three).delta(epsilons), rel=0.02)
    assert account.for_sizes(3, 9).n == 3
    rates = MODEL.neighbouring_posteriors
    with pytest.raises(TypeError, match="not known for how many records the posterior of Stated costs most"):
        ps.PosteriorAccountant(model=stated(family, *rates), n=4).for_sizes(3, 9)


def test_it_is_saved_and_loaded(tmp_path):
    release = ps.DiffusedPosterior(model=MODEL, n=5, data_weight=0.5).release(TIMES, rng=np.random.default_rng(1))
    release.save(tmp_path / "r.json")
    assert ps.Release.load(tmp_path / "r.json") == release


def test_the_command_line_knows_it(capsys):
    words = ["account", "--n", "5", "--model", "gamma-erlang", "--prior", "2,1", "--mechanism", "diffused", "--json"]
    assert main([*words, "--stages", "3", "--upper", "4", "--data-weight", "0.5"]) == 0
    shown = json.loads(capsys.readouterr().out)
    account = ps.PosteriorAccountant(model=MODEL, n=5, data_weight=0.5)
    assert [row["epsilon"] for row in shown["epsilon"]] == [account.epsilon(row["delta"]) for row in shown["epsilon"]]
    for more, problem in (
        (["--upper", "4"], "--model gamma-erlang needs --stages"),
        (["--stages", "2.5", "--upper", "4"], "--stages must be a whole number, got 2.5"),
        (["--stages", "2", "--upper", "4", "--fractional"], "--fractional is not an option of --model gamma-erlang"),
    ):
        assert main([*words, *more, "--data-weight", "0.5"]) == 2
        assert problem in capsys.readouterr().err


def test_pymc_sees_it_once_it_is_registered():
    class Seen(GammaErlang):
        pass

    with pytest.raises(TypeError, match="register_pymc"):
        spec_of(Seen)
    spec = ps.ModelSpec(
        parameters={"rate": 0}, prior_numbers=lambda _: {}, prior=lambda *_: {}, distribution=lambda *_, **__: None
    )
    ps.register_pymc(Seen, spec)
    ps.register_pymc(Seen, spec)
    assert spec_of(Seen) == spec
    assert spec.width(MODEL) == 1
    assert not spec.separate_copies(MODEL)
    with pytest.raises(ValueError, match="already has another specification"):
        ps.register_pymc(Seen, replace(spec, parameters={"mean": 0}))
    with pytest.raises(TypeError, match="must be a subclass of Model"):
        ps.register_pymc(int, spec)
    with pytest.raises(TypeError, match="must be a ModelSpec"):
        ps.register_pymc(Seen, {})
