"""Tempered draws of families of one's own: the account against quadrature, the draws against their distribution."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.models.truncation import LogRatio
from privsample.errors import NumericalFailure
from tests import families

BOUNDS, TEMPERATURE = (0.2, 1.5), 2.0


def draw_gamma(eta, low, high, size, rng):
    """Gamma numbers between bounds, by the quantile function."""
    law = stats.gamma(eta[0], scale=1 / eta[1])
    return law.ppf(rng.uniform(law.cdf(low), law.cdf(high), size))


def gamma_bounds(low, high):
    """T(theta) = (log(theta), -theta)."""
    return np.array([[np.log(low), -high], [np.log(high), -low]])


TRUNCATION = ps.FamilyTruncation(sampler=draw_gamma, statistic_bounds=gamma_bounds)


def times(**fields):
    return families.exponential(**{"truncation": TRUNCATION} | fields)


def tempered(model=None, **fields):
    given = {"model": times() if model is None else model, "n": 2, "temperature": TEMPERATURE, "truncation": BOUNDS}
    return ps.TemperedPosterior(**given | fields)


@cache
def normalizer(total):
    """The integral of the density of two records with this sum between the bounds."""
    a, b = mp.mpf(7) / 2, (3 + mp.mpf(total)) / 2
    return mp.gammainc(a, b * mp.mpf(BOUNDS[0]), b * mp.mpf(BOUNDS[1])) / b**a


def loss_and_delta(one, two, epsilons):
    """The largest |loss| and delta, for two sums of two records, at 30 digits."""
    a, p, q = mp.mpf(7) / 2, (3 + mp.mpf(one)) / 2, (3 + mp.mpf(two)) / 2
    c = mp.log(normalizer(two) / normalizer(one))
    losses = [(q - p) * mp.mpf(end) + c for end in BOUNDS]
    found = []
    for epsilon in epsilons:
        place = min(max((epsilon - c) / (q - p), mp.mpf(BOUNDS[0])), mp.mpf(BOUNDS[1]))
        low, high = (place, mp.mpf(BOUNDS[1])) if q > p else (mp.mpf(BOUNDS[0]), place)
        mass = [mp.gammainc(a, rate * low, rate * high) / rate**a for rate in (p, q)]
        found.append(float(mass[0] / normalizer(one) - mp.exp(epsilon) * mass[1] / normalizer(two)))
    return float(max(map(abs, losses))), found


def test_the_account_bounds_all_neighbours_by_quadrature():
    account = tempered().accountant
    epsilons = [0.0, 0.2, 0.5, 1.0]
    largest, most = 0.0, np.zeros(len(epsilons))
    with mp.workdps(30):
        for rest in (0.0, 2.0, 4.0):
            for one, two in ((0.0, 4.0), (4.0, 0.0), (1.0, 3.0)):
                loss, delta = loss_and_delta(rest + one, rest + two, epsilons)
                largest, most = max(largest, loss), np.maximum(most, delta)
    # contributions differ by at most 4 in -theta, whose range is 1.3
    assert account.pure_epsilon == pytest.approx(4 * 1.3 / TEMPERATURE, rel=1e-9)
    assert 0.5 * account.pure_epsilon < largest < account.pure_epsilon
    assert (account.delta(epsilons) > most).all()
    assert (most > 0.0).all()


def test_the_account_is_that_of_the_range_of_the_built_in_model():
    own = tempered(n=20).accountant
    built_in = ps.TemperedPosterior(
        model=ps.GammaExponential(shape=5, rate=3, upper=4), n=20, temperature=TEMPERATURE, truncation=BOUNDS
    ).accountant
    assert own.pure_epsilon == pytest.approx(built_in.pure_epsilon, rel=1e-9)
    assert (own.rdp([1.5, 8.0]) >= built_in.rdp([1.5, 8.0])).all()
    assert own.assumptions == {ps.Assumption.STATED, ps.Assumption.IDEAL_REALS}
    assert ps.Assumption.STATED not in built_in.assumptions
    assert own.group(3).pure_epsilon == pytest.approx(3 * own.pure_epsilon)


@pytest.mark.parametrize("size", [1e-6, 0.3, 2.0, 20.0])
def test_the_gaussian_shift_of_a_range(size):
    """The trade-off function of pure DP lies above that of the Gaussian pair at its corner, hence everywhere."""
    bounds = LogRatio.of_range(size)
    with mp.workdps(50):
        corner = 1 / (1 + mp.exp(mp.mpf(size)))
        exact = -2 * mp.sqrt(2) * mp.erfinv(2 * corner - 1)
    assert bounds.slope / bounds.curvature**0.5 >= float(exact)
    assert bounds.slope == pytest.approx(np.sqrt(np.pi / 2) * size)


def test_draws_have_the_tempered_distribution():
    made = tempered(n=3, draws=4_000)
    drawn = made.release([0.5, 3.0, 9.0], rng=np.random.default_rng(3))["theta"]  # 9 is clipped to 4
    law = stats.gamma(8 / 2, scale=2 / (3 + 7.5))
    low, high = law.cdf(BOUNDS)
    assert stats.kstest(drawn, lambda x: (law.cdf(x) - low) / (high - low)).pvalue > 1e-6
    assert not made.exact
    inside = made._draw_distribution(np.array([3.0, 7.5]))
    assert inside.log_density(np.array([0.1, 1.0, 2.0])).tolist() == [-np.inf, -10.5 / 2, -np.inf]


def test_a_calibrated_temperature_meets_the_target():
    made = ps.TemperedPosterior.calibrate(model=times(), n=50, truncation=BOUNDS, target=ps.DP(epsilon=1.0))
    assert made.temperature == pytest.approx(5.2, rel=1e-6)
    assert made.accountant.pure_epsilon <= 1.0


def test_a_family_model_is_tempered_through_its_family():
    class Times(ps.FamilyModel):
        @property
        def family(self):
            return times()

    made = tempered(Times())
    assert made.accountant.pure_epsilon == tempered().accountant.pure_epsilon
    assert made.release([1.0, 2.0], rng=np.random.default_rng(1))["theta"].shape == (1,)


def test_an_audit_takes_the_extreme_records():
    pairs = tempered().worst_neighbours()
    assert [[np.ravel(data()).tolist() for data in pair.datasets] for pair in pairs] == [
        [[0.0, 0.0], [0.0, 4.0]],
        [[4.0, 4.0], [4.0, 0.0]],
    ]


def test_wrong_functions_are_refused():
    with pytest.raises(TypeError, match=r"truncation=FamilyTruncation\(\.\.\.\)"):
        tempered(families.exponential())
    with pytest.raises(TypeError, match="truncation must be a FamilyTruncation, got tuple"):
        times(truncation=BOUNDS)
    with pytest.raises(TypeError, match="sampler must be a function"):
        ps.FamilyTruncation(sampler=None, statistic_bounds=gamma_bounds)
    for bounds, error, words in (
        (lambda low, high: (low, high), TypeError, r"two arrays of shape \(2,\)"),
        (lambda low, high: gamma_bounds(low, high)[::-1], ValueError, "smallest values first"),
        (lambda low, high: gamma_bounds(low, high) * np.inf, ValueError, "must be finite"),
    ):
        with pytest.raises(error, match=words):
            tempered(times(truncation=ps.FamilyTruncation(sampler=draw_gamma, statistic_bounds=bounds)))
    with pytest.raises(ValueError, match="range must be"):
        LogRatio.of_range(0.0)


@pytest.mark.parametrize(
    ("sampler", "error"),
    [(lambda *_: np.full(1, np.nan), NumericalFailure), (lambda *_: np.zeros(2), TypeError)],
)
def test_wrong_draws_release_nothing(sampler, error):
    made = tempered(times(truncation=ps.FamilyTruncation(sampler=sampler, statistic_bounds=gamma_bounds)))
    with pytest.raises(error):
        made.release([1.0, 2.0])


def test_draws_are_clipped_to_the_bounds():
    outside = ps.FamilyTruncation(sampler=lambda *_: np.array([7.0]), statistic_bounds=gamma_bounds)
    assert tempered(times(truncation=outside)).release([1.0, 2.0])["theta"].tolist() == [BOUNDS[1]]
