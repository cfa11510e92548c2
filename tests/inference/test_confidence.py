"""Confidence sets: ends of intervals, searches, and what a set says."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

import privsample as ps
from tests.inference.confidence_releases import LINE, MOMENTS, NORMAL, SURVEY, TIMES, N, mean_release, of, released

SCALARS = [
    (ps.BetaBernoulli(1, 1), [1] * 9 + [0] * 21, "theta", (0, 1)),
    (ps.GammaPoisson(1, 1, upper=3), [0, 1, 2, 3, 1] * 6, "rate", (0, 20)),
    (TIMES, np.linspace(0.1, 3, N), "rate", (0.01, 20)),
    (NORMAL, np.linspace(-1.5, 2, N), "mean", (-9, 9)),
]


@pytest.mark.parametrize(("model", "data", "name", "limits"), SCALARS)
def test_the_interval_is_the_set(model, data, name, limits):
    """Against a fine grid: what is inside is accepted, what is outside is not, and the ends are next to both."""
    found = of(released(model, data), parameters={name: limits}, simulations=199)
    low, high = found.interval(name)
    assert limits[0] < low < high < limits[1]
    for value in np.linspace(*limits, 501):
        assert found.contains(**{name: value}) == (low < value < high)
    for end, inward in ((low, 1), (high, -1)):
        assert not found.contains(**{name: end})
        assert found.contains(**{name: end + inward * 1e-8 * abs(end)})


@pytest.mark.parametrize("widest", [1e6, 1e12, 1e300])
@pytest.mark.parametrize(
    ("model", "name"),
    [(ps.GammaExponential(2, 1, upper=3), "rate"), (ps.GammaPoisson(2, 1, upper=5), "rate"), (NORMAL, "mean")],
)
def test_ends_do_not_depend_on_the_range(model, name, widest):
    """A range of 1e12 times the set has ends with as many digits as a narrow one."""
    release = SimpleNamespace(model=model, n=N, noise=ps.LaplaceNoise(scale=2.0), observed=np.array([20.0]))
    low = 0.0 if name == "rate" else -1.0
    narrow = of(release, parameters={name: (low * 20, 20)}, simulations=199).interval(name)
    wide = of(release, parameters={name: (low * widest, widest)}, simulations=199).interval(name)
    assert wide == pytest.approx(narrow, rel=1e-8)


@pytest.mark.parametrize(("model", "data", "name", "limits"), SCALARS)
def test_one_sided_intervals_end_inside_two_sided_ones(model, data, name, limits):
    found = of(released(model, data), parameters={name: limits})
    low, high = found.interval(name)
    (first, top), (bottom, last) = found.interval(name, side="lower"), found.interval(name, side="upper")
    assert low < first < last < high
    assert (top, bottom) == (limits[1], limits[0])
    narrower = of(released(model, data), parameters={name: limits}, level=0.9).interval(name)
    assert narrower == pytest.approx([first, last])


def test_lengths_beside_noise_aware_credible_intervals():
    """With much data the prior does not matter, and both have about the same ends."""
    rng = np.random.default_rng(5)
    for model, data, name, limits in (
        (ps.BetaBernoulli(1, 1), rng.random(400) < 0.3, "theta", (0, 1)),
        (ps.GammaExponential(1, 1, upper=2), rng.exponential(1, 400), "rate", (0.1, 9)),
        (ps.NormalKnownVariance(0, 1, noise_variance=1, bounds=(-2, 2)), rng.normal(0, 1, 400), "mean", (-9, 9)),
    ):
        release = released(model, data, scale=5.0)
        ends = of(release, parameters={name: limits}, simulations=1999).interval(name)
        low, high = ps.PrivateStatistics(release=release).noise_aware().quantile(np.array([0.025, 0.975]))
        assert ends == pytest.approx([low, high], abs=0.12 * (high - low))


def test_two_categories_are_a_count_of_which_two_noisy_copies_exist():
    """The contrast of both counts has half the noise variance of one."""
    data = [1] * 10 + [0] * 20
    pair = of(released(ps.DirichletCategorical((1, 1)), data, scale=20.0), parameters={"theta": (0, 1)})
    ends = pair.interval("theta")
    assert ends.shape == (2, 2)
    assert ends[0] == pytest.approx(1 - ends[1][::-1], abs=0.02)
    assert pair.interval("theta[1]") == pytest.approx(ends[:, 1])
    assert pair.contains(theta=[0.6, 0.4]) in (True, False)
    with pytest.raises(ValueError, match=r"theta must sum to 1, got a sum of 1\.1"):
        pair.contains(theta=[0.6, 0.5])


def test_projections_hold_every_accepted_point_of_a_grid():
    data = np.random.default_rng(3).normal(0.5, 1.2, N)
    found = of(released(MOMENTS, data), parameters={"mean": (-4, 4), "variance": (0.05, 9)}, simulations=199)
    ends = {name: found.interval(name) for name in ("mean", "variance")}
    accepted = [
        (mean, variance)
        for mean in np.linspace(*ends["mean"] * 1.2, 41)
        for variance in np.geomspace(0.05, 9, 41)
        if found.contains(mean=mean, variance=variance)
    ]
    assert len(accepted) > 50
    for values, (low, high) in zip(np.transpose(accepted), ends.values(), strict=True):
        assert low <= values.min() <= low + 0.12 * (high - low)
        assert high - 0.25 * (high - low) <= values.max() <= high
    with pytest.raises(ValueError, match="side must be 'both' for this model"):
        found.interval("mean", side="lower")


def test_wide_ranges_do_not_make_a_set_look_empty():
    """The set is a tiny part of the box, and the statistic is constant in most of it."""
    release = released(MOMENTS, np.random.default_rng(3).normal(0.5, 1.2, 200))
    narrow = of(release, parameters={"mean": (-3, 3), "variance": (0.1, 9)}, simulations=99)
    for mean, variance in (((-1000, 1000), (0, 1000)), ((-100, 5000), (0.1, 1e5))):
        wide = of(release, parameters={"mean": mean, "variance": variance}, simulations=99)
        assert not wide.is_empty()
        assert wide.interval("mean") == pytest.approx(narrow.interval("mean"), abs=0.05)


def test_regression_with_known_features():
    """Two parameters searched, the others fixed; the true line is inside, a line of the other sign is not."""
    rng = np.random.default_rng(8)
    x = np.clip(rng.normal(0.5, 0.2, 400), 0, 1)
    y = 0.8 * x - 0.3 + 0.1 * rng.standard_normal(400)
    given = {"coefficients": (-3, 3), "intercept": (-2, 2), "variance": 0.01, "feature_mean": 0.5, "feature_root": 0.2}
    found = of(released(LINE, (x[:, None], y), n=400, scale=0.5), parameters=given, simulations=99)
    ((low,), (high,)) = found.interval("coefficients")
    assert 0 < low < 0.8 < high < 2
    assert found.contains(coefficients=[0.8], intercept=-0.3)
    assert not found.contains(coefficients=[-0.8], intercept=0.5, variance=0.01)
    assert found.interval("variance").tolist() == [0.01, 0.01]
    assert found.parameters["feature_root"] == ((0.2, 0.2),) or found.parameters["feature_root"] == (((0.2, 0.2),),)


def test_given_records_agree_with_the_model():
    release = mean_release(n=60)
    own = of(release, parameters={"mean": (-5, 5)}).interval("mean")
    given = of(release, parameters={"mean": (-5, 5)}, records=lambda mean: stats.norm(mean, 1)).interval("mean")
    assert given == pytest.approx(own, abs=0.1)
    robust = of(release, parameters={"mean": (-5, 5)}, records=lambda mean: stats.t(3, mean)).interval("mean")
    assert np.ptp(robust) > np.ptp(own)


def test_a_range_in_which_records_are_not_defined():
    """The ends of the range are tested, too: a distribution that is not defined there is refused with its call."""
    found = of(mean_release(), parameters={"scale": (-1, 5)}, records=lambda scale: stats.norm(0.3, scale))
    with pytest.raises(
        ValueError, match=r"records\(scale=-.*\) cannot draw records: .*; give ranges in which the distr"
    ):
        found.interval("scale")
    assert found.contains(scale=1.0)


def test_records_of_categories_and_fixed_parameters():
    """Codes that a binomial distribution makes, and a model of two parameters of which one is fixed."""
    data = np.random.default_rng(4).binomial(2, 0.3, 200)
    found = of(released(SURVEY, data), parameters={"p": (0, 1)}, records=lambda p: stats.binom(2, p), simulations=199)
    low, high = found.interval("p")
    assert 0.2 < low < data.mean() / 2 < high < 0.45
    known = of(
        released(MOMENTS, np.linspace(-2, 3, 200)), parameters={"mean": (-3, 3), "variance": 2.0}, simulations=199
    )
    low, high = known.interval("mean")
    assert 0 < low < 0.5 < high < 1


def test_a_model_of_the_users_own():
    """Its parameter has the name and shape of its draws, and its own simulation is used."""

    @dataclass(frozen=True, kw_only=True)
    class Uniform(ps.Model):
        upper: float
        parameter = "width"

        @property
        def domain(self):
            return ps.Domain(low=0.0, high=self.upper, missing=0.0)

        def posterior(self, statistic, n, *, data_weight=1.0, prior_weight=1.0):
            return ps.Gamma(shape=1.0, rate=1.0)

        def simulate(self, theta, n, rng):
            return self.domain.clean(float(theta) * rng.random(n))

    seen = SimpleNamespace(
        model=Uniform(upper=4.0), n=100, noise=ps.LaplaceNoise(scale=2.0), observed=np.array([150.0])
    )
    found = of(seen, parameters={"width": (0, 20)}, simulations=199)
    low, high = found.interval("width")
    assert 2.5 < low < 3.0 < high < 3.5


def test_rows_of_given_records():
    """Rows of a regression whose features are not normal."""

    class Rows:
        def __init__(self, slope):
            self.slope = slope

        def rvs(self, size, random_state):
            x = random_state.random(size)
            return np.column_stack([x, self.slope * x + 0.1 * random_state.standard_normal(size)])

    rng = np.random.default_rng(9)
    rows = Rows(0.7).rvs(200, rng)
    release = released(LINE, (rows[:, :1], rows[:, 1]), n=200, scale=0.5)
    found = of(release, parameters={"slope": (-2, 2)}, records=lambda slope: Rows(slope))  # noqa: PLW0108
    low, high = found.interval("slope")
    assert low < 0.7 < high
    assert high - low < 0.5
    with pytest.raises(ValueError, match=r"rvs\(size=2\) has the shape \(2, 2\), got \(2,\)"):
        of(release, parameters={"slope": (-2, 2)}, records=lambda slope: stats.norm(slope, 1))


def test_a_disconnected_set_is_held_by_its_interval():
    """The mean square of normal records does not tell the sign of their mean."""
    release = SimpleNamespace(
        model=ps.NormalKnownVariance(0, 1, noise_variance=1, bounds=(0, 20)),
        n=200,
        noise=ps.GaussianNoise(noise_std=1.0),
        observed=np.array([200 * 5.0]),
    )

    class Squares:
        def __init__(self, mean):
            self.mean = mean

        def rvs(self, size, random_state):
            return random_state.normal(self.mean, 1, size) ** 2

    found = of(release, parameters={"mean": (-6, 6)}, records=lambda mean: Squares(mean), simulations=199)  # noqa: PLW0108
    low, high = found.interval("mean")
    assert low == pytest.approx(-high, abs=0.1)
    assert 1.8 < high < 2.4
    assert not found.contains(mean=0.0)


def test_an_empty_set_says_so():
    """A noisy count far above the number of records fits no share."""
    release = SimpleNamespace(
        model=ps.BetaBernoulli(1, 1), n=20, noise=ps.DiscreteLaplaceNoise(scale=1.0), observed=np.array([60.0])
    )
    found = of(release, parameters={"theta": (0.1, 0.9)})
    assert found.is_empty()
    with pytest.raises(ValueError, match=r"the confidence set is empty: no value in theta in \[0\.1, 0\.9\] fits"):
        found.interval("theta")
    with pytest.raises(ValueError, match="the confidence set is empty"):
        found.plot()
    moments = SimpleNamespace(
        model=MOMENTS, n=20, noise=ps.LaplaceNoise(scale=1.0), observed=np.array([[500.0, -900.0]])
    )
    assert of(moments, parameters={"mean": (-3, 3), "variance": (0.1, 4)}, simulations=99).is_empty()
    assert not of(mean_release(), parameters={"mean": (-9, 9)}).is_empty()


def test_an_end_of_the_range_that_fits_is_the_end_of_the_interval():
    found = of(mean_release(), parameters={"mean": (0.2, 0.3)})
    assert found.interval("mean").tolist() == [0.2, 0.3]
    search = of(mean_release(), parameters={"mean": (0.2, 0.3)}, records=lambda mean: stats.norm(mean, 1))
    assert search.interval("mean").tolist() == [0.2, 0.3]


def test_equal_seeds_give_equal_sets():
    first, second = of(mean_release(), parameters={"mean": (-9, 9)}), of(mean_release(), parameters={"mean": (-9, 9)})
    other = of(mean_release(), parameters={"mean": (-9, 9)}, seed=2)
    assert first == second
    assert hash(first) == hash(second)
    assert first != other
    assert first.interval("mean").tolist() == second.interval("mean").tolist()
    assert first.interval("mean") == pytest.approx(other.interval("mean"), abs=0.2)
    assert replace(first, level=0.5).interval("mean")[0] > first.interval("mean")[0]
    assert ps.confidence_set(mean_release(), parameters={"mean": (-9, 9)}).contains(mean=0.3)


def test_many_base_draws_are_drawn_again(monkeypatch):
    """What does not fit is not kept, and gives the same numbers."""
    kept = of(mean_release(), parameters={"mean": (-9, 9)}).interval("mean")
    monkeypatch.setattr("privsample.inference.rank_tests._STORED", 100)
    assert of(mean_release(), parameters={"mean": (-9, 9)}).interval("mean").tolist() == kept.tolist()


def test_post_processing_costs_nothing_and_says_so():
    release = mean_release()
    found = of(release, parameters={"mean": (-9, 9)})
    assert found.account == release.account
    text = found.statement()
    assert "with probability at least 0.95" in text
    assert "The set costs no privacy" in text
    assert ps.privacy_statement(release.account, 1e-6) in text
    assert repr(found) == "ConfidenceSet(mean in [-9, 9]; level 0.95; 999 simulations)"
    assert found.release == ps.PrivateStatistics(release=release)
    html = found._repr_html_()
    assert "mean in [-9, 9]" in html
    assert "epsilon" in html.lower()
    assert of(ps.PrivateStatistics(release=release), parameters={"mean": (-9, 9)}) == found


def test_a_release_without_an_account():
    seen = SimpleNamespace(model=NORMAL, n=N, noise=ps.LaplaceNoise(scale=2.0), observed=np.array([4.0]))
    found = of(seen, parameters={"mean": (-9, 9)}, simulations=99)
    assert np.isfinite(found.interval("mean")).all()
    with pytest.raises(TypeError, match="the release has no account: it is SimpleNamespace, not a PrivateStatistics"):
        found.statement()


@pytest.mark.parametrize("scale", [1e-100, 1e250])
def test_noise_of_any_size(scale):
    """Squares of the statistics would overflow, or vanish; enormous noise does not tell any two values apart."""
    for model, ranges in ((NORMAL, {"mean": (-2, 2)}), (MOMENTS, {"mean": (-2, 2), "variance": (0.1, 4)})):
        statistic = np.atleast_1d(model.statistic(np.linspace(-1, 2, N)) + 0.7 * scale).reshape(1, *model.empty.shape)
        seen = SimpleNamespace(model=model, n=N, noise=ps.LaplaceNoise(scale=scale), observed=statistic)
        found = of(seen, parameters=ranges, simulations=99, level=0.8)
        values = [found.p_value(**dict.fromkeys(ranges, x)) for x in (0.5, 2.0)]
        assert min(values) >= 0.01
        assert (values[0] == values[1]) == (scale > 1)


def test_p_values_are_ranks():
    found = of(mean_release(), parameters={"mean": (-9, 9)}, simulations=99)
    values = {found.p_value(mean=x) for x in np.linspace(-3, 3, 50)}
    assert all(round(value * 100) == pytest.approx(value * 100) for value in values)
    assert found.p_value(mean=0.3) > 0.05 > found.p_value(mean=3.0)
    assert found.contains(mean=0.3)


def test_plots():
    one = of(mean_release(), parameters={"mean": (-9, 9)}, simulations=99).plot()
    assert one.get_xlabel() == "mean"
    assert one.get_ylabel() == "p-value"
    data = np.random.default_rng(3).normal(0.5, 1.2, N)
    given = {"parameters": {"mean": (-4, 4), "variance": (0.05, 9)}, "simulations": 39, "level": 0.9}
    two = of(released(MOMENTS, data), **given).plot()
    assert (two.get_xlabel(), two.get_ylabel()) == ("mean", "variance")
    rows = of(released(SURVEY, [0, 1, 2] * 10), parameters={"theta": (0, 1)}, simulations=99).plot(plt.figure().gca())
    assert [label.get_text() for label in rows.get_yticklabels()] == ["theta[0]", "theta[1]", "theta[2]"]
    plt.close("all")


class Uniform:
    """A distribution of records of the user's own."""

    def __init__(self, width):
        self.width = width

    def rvs(self, size, random_state):
        return self.width * random_state.random(size)


def test_a_class_of_distributions_makes_records(rng):
    release = released(TIMES, rng.random(N))
    found = of(release, parameters={"width": (0.1, 2)}, records=Uniform, simulations=99)
    assert found.p_value(width=1.0) == of(
        release, parameters={"width": (0.1, 2)}, records=lambda width: Uniform(1 * width), simulations=99
    ).p_value(width=1.0)
    prior = {"width": stats.gamma(2)}
    one, other = (
        ps.infer(release, prior=prior, records=each, draws=5, tune=5, rng=np.random.default_rng(0))["width"]
        for each in (Uniform, lambda width: Uniform(1 * width))
    )
    assert (one == other).all()
