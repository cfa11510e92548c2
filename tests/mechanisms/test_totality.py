"""No record's type, value or moment may make a release fail, leave the domain, or lose its randomness."""

import signal
import sys
import threading
from decimal import Decimal

import mpmath as mp
import numpy as np
import pandas as pd
import pytest

from privsample import (
    AddRemove,
    BernoulliSampling,
    BetaBernoulli,
    BrownianMotion,
    ClippedSum,
    CuratorNotes,
    DirectPosterior,
    DirichletCategorical,
    GammaExponential,
    GaussianAccountant,
    GaussianMechanism,
    GaussianSum,
    LaplaceAccountant,
    LaplaceMechanism,
    LaplaceSum,
    LogisticLoss,
    MarkovKernel,
    MultilevelRelease,
    NoisyContraction,
    NoisyProjectedSGD,
    NoisyStatistics,
    NoisyStep,
    NormalKnownVariance,
    OrnsteinUhlenbeck,
    PostNoise,
    PureAccountant,
    RandomizedResponse,
    Release,
    ReplaceOne,
    Scaling,
    SquaredLoss,
    TemperedPosterior,
)
from privsample._entropy import SystemBits, draw_with_entropy_check
from privsample._serial import encode
from privsample.accounting.posterior.beta import BetaPair
from privsample.errors import PrivateContent, SchemaError

SECRET = "secret-SSN-123"


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_bounds_are_not_narrowed_to_the_type_of_the_records(kind):
    with np.errstate(over="ignore"):
        data = np.array([np.inf, 3000.0, 2050.0, np.nan], dtype=kind)
    for model in (
        GammaExponential(shape=2, rate=2, upper=1e6),
        NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 2049.9)),
        DirichletCategorical(alpha=(1.0,) * 3000),
    ):
        DirectPosterior(model=model, n=4).release(data)
        clean = model.domain.clean(data)
        assert model.domain.low <= clean.min()
        assert clean.max() <= model.domain.high
    local = RandomizedResponse(log_odds=1, relation=ReplaceOne(n=4), categories=2052)
    for answering, most in ((local, 2052), (MarkovKernel(base=local, matrix=np.full((2052, 2), 0.5)), 2)):
        answers = answering.release(data)["answers"]
        assert 0 <= answers.min() <= answers.max() < most


@pytest.mark.parametrize(
    "data",
    [
        [0, 1, "x"],
        [0, 1, b"x"],
        [0, 1, 1j],
        [0, 1, [2]],
        [0, 1, np.array([1])],
        [0, None, Decimal(1)],
        [0, 1, 2**2000],
        [0, 1, -(2**2000)],
        np.ma.array([0, 1, SECRET], dtype=object),
        np.ma.array([0.0, 1.0, 5.0], mask=[0, 0, 1]),
        np.array([0, 1, np.complex128(1j)], dtype=object),
    ],
    ids=str,
)
def test_records_of_any_kind_are_taken(data):
    assert DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3).release(data)["theta"].shape == (1,)
    tempered = TemperedPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3, temperature=2, truncation=0.1)
    assert tempered.release(data)["theta"].shape == (1,)
    draws = BernoulliSampling(base=DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3), margin=0.1, draws=2)
    assert draws.release(data)["bits"].shape == (2, 1)
    local = RandomizedResponse(log_odds=1, relation=ReplaceOne(n=3))
    shaken = MarkovKernel(base=local, matrix=[[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]]).release(data)
    assert shaken["answers"].shape == (1, 3)
    assert set(shaken["answers"].ravel()) <= {0, 1, 2}


@pytest.mark.parametrize(
    "odd", [SECRET, b"x", 1j, None, Decimal(1), 2**2000, -(2**2000), np.inf, np.nan, 1e308], ids=str
)
@pytest.mark.parametrize("loss", [LogisticLoss, SquaredLoss])
def test_descent_takes_records_of_any_kind(odd, loss):
    bounds = {"norm": 1.0, "radius": 2.0} | ({"target": 1.0} if loss is SquaredLoss else {})
    descent = NoisyProjectedSGD(loss=loss(features=1, **bounds), n=3, rate=0.5, noise_std=1.0)
    release = descent.release(([[0.5], [odd], [1.0]], [odd, 1, 0]))
    assert np.isfinite(release["coefficients"]).all()
    assert Release.from_json(release.to_json()) == release


@pytest.mark.parametrize("column", [[0, 1, SECRET], [1, 2**70, 0]])
def test_a_table_that_arrow_cannot_make_shows_no_record(column):
    with pytest.raises(SchemaError) as caught:
        DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3).release(pd.DataFrame({"c": column}))
    assert SECRET not in str(caught.value)


FAR = [
    lambda low, high, n: GaussianSum(bounds=(low, high), noise_std=1, relation=ReplaceOne(n=n)),
    lambda low, high, n: LaplaceSum(bounds=(low, high), scale=1, relation=ReplaceOne(n=n)),
    lambda low, high, n: DirectPosterior(model=far_from_zero(low, high), n=n),
    lambda low, high, n: NoisyStatistics(model=far_from_zero(low, high), n=n, scale=1),
    lambda low, high, n: TemperedPosterior(model=far_from_zero(low, high), n=n, temperature=1, truncation=(low, high)),
]


def far_from_zero(low, high):
    return NormalKnownVariance(mean=low, variance=1, noise_variance=1, bounds=(low, high))


@pytest.mark.parametrize("build", FAR)
def test_no_record_moves_a_sum_by_more_than_is_charged_because_sums_are_rounded(build):
    with pytest.raises(ValueError, match="rounding would change the sum of 1,000,000 records"):
        build(1.7e9, 1.7e9 + 0.1, 1_000_000)
    low, high, n = 1.7e6, 1.7e6 + 40.0, 100_000
    build(low, high, n)
    records = np.random.default_rng(5).uniform(low, high, n)
    sums = []
    for record in (low, high):
        records[n // 3] = record
        sums.append(float(far_from_zero(low, high).summarize(records)[0]))
    assert sums[1] - sums[0] == pytest.approx(high - low, rel=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda: GaussianSum(bounds=(-8e307, 8e307), noise_std=1),
        lambda: GaussianSum(bounds=(0, 1e307), noise_std=1, relation=ReplaceOne(n=20)),
        lambda: ClippedSum(norm=1e293, noise_std=1, width=2),
        lambda: DirectPosterior(
            model=NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(0, 1e308)), n=3
        ),
        lambda: DirectPosterior(model=GammaExponential(shape=3, rate=1, upper=1e308), n=3),
        lambda: NoisyStatistics(model=GammaExponential(shape=3, rate=1, upper=1e308), n=3, scale=1),
    ],
)
def test_no_sum_of_records_overflows(build):
    with pytest.raises(ValueError, match=r"would overflow for .* records; use a smaller unit"):
        build()


@pytest.mark.parametrize("statistic", [5, 2**70, np.longdouble("1e400"), np.inf, -np.inf, np.nan, None, 1.7e308])
def test_noise_takes_any_statistic(statistic):
    loud = GaussianMechanism(sensitivity=1, noise_std=1e307)
    path = MultilevelRelease(base=BrownianMotion(sensitivity=1, time=0.5), times=(1.0, 9.0))
    reverting = OrnsteinUhlenbeck(sensitivity=1, theta=1, rho=1e306, time=2)
    back = MultilevelRelease(base=reverting, times=(3.0, 4.0))
    chain = NoisyContraction(base=loud, steps=[NoisyStep(map=Scaling(factor=3.0), noise_std=1e307)])
    for mechanism in (loud, PostNoise(base=loud, noise=1e307), chain, path, reverting, back):
        release = mechanism.release(statistic)
        assert np.isfinite(release["statistic"]).all()
        assert Release.from_json(release.to_json()) == release


@pytest.mark.parametrize("odd", [SECRET, b"x", 1j, None, 2**2000, np.nan, [3]], ids=str)
def test_one_entry_of_a_statistic_does_not_change_how_the_others_are_read(odd):
    mechanism = GaussianMechanism(sensitivity=1, noise_std=1e-9, shape=(2,))
    assert mechanism.release([7, odd])["statistic"] == pytest.approx(np.array([[7.0, 0.0]]), abs=1e-6)
    assert mechanism.validate([7, odd]).facts == {"not finite": 1}


def test_what_is_masked_in_a_statistic_counts_as_zero():
    mechanism = LaplaceMechanism(sensitivity=1, scale=1e-9, shape=(2,))
    hidden = np.ma.array([1e20, 7.0], mask=[True, False])
    assert mechanism.release(hidden)["statistic"] == pytest.approx(np.array([[0.0, 7.0]]), abs=1e-6)


def test_a_failure_of_the_systems_entropy_is_not_a_draw(monkeypatch):
    calls = []

    def failing(count):
        calls.append(count)
        if len(calls) > 1:
            raise OSError("no entropy")
        return bytes(count)

    monkeypatch.setattr("privsample._entropy.os.urandom", failing)
    rng = np.random.Generator(SystemBits())
    with pytest.raises(OSError, match="nothing was released"):
        draw_with_entropy_check(rng, lambda: rng.standard_normal(100_000))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_an_interrupt_ends_the_release_and_never_a_word(monkeypatch):
    monkeypatch.setitem(sys.modules, "randomgen", None)
    assert threading.current_thread() is threading.main_thread()

    def strike(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, strike)
    mechanism = GaussianMechanism(sensitivity=1, noise_std=1, shape=(30_000,))
    zeros, ended = np.zeros(30_000), 0
    try:
        for k in range(12):
            signal.setitimer(signal.ITIMER_REAL, 0.002 * (k + 1))
            try:
                drawn = mechanism.release(zeros)["statistic"].ravel()
                assert len(np.unique(drawn)) > 29_990
            except KeyboardInterrupt:
                ended += 1
            except RuntimeError as error:  # while a thread starts, a lock of Python's may fail for the interrupt
                if not isinstance(error.__context__, KeyboardInterrupt):
                    raise
                ended += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, old)
    assert ended >= 1


def test_the_divergence_next_to_the_order_limit():
    pair = BetaPair(a=57912227736.99813, b=0.07416654219590192, step=0.4134413953689639)
    order = 1.179388283385881
    with mp.workdps(80):
        a, b, r, alpha = (mp.mpf(x) for x in (pair.a, pair.b, pair.step, order))

        def beta(x, y):
            return mp.loggamma(x) + mp.loggamma(y) - mp.loggamma(x + y)

        blend = beta(a + alpha * r, b + r - alpha * r)
        truth = (blend - alpha * beta(a + r, b) + (alpha - 1) * beta(a, b + r)) / (alpha - 1)
    assert float(pair.renyi(np.array([order]))[0]) == pytest.approx(float(truth), rel=1e-10)


def test_a_release_takes_no_other_account():
    mechanism = DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=3)
    release = mechanism.release([0, 1, 1])
    flattering = PureAccountant(stated_epsilon=0.0, assumptions=release.account.assumptions)
    with pytest.raises(ValueError, match="own"):
        Release(mechanism=mechanism, draws=release.draws, account=flattering)


def test_notes_are_refused_wherever_they_hide():
    with pytest.raises(PrivateContent):
        encode({"unit": CuratorNotes(title="t", facts={"x": 1})}["unit"])
    with pytest.raises(TypeError, match="unit"):
        AddRemove(unit=CuratorNotes(title="t", facts={"x": 1}))


def test_moved_records_of_nested_parts():
    first, second = (LaplaceAccountant(sensitivity=1, scale=s) for s in (1, 2))
    third, fourth = GaussianAccountant(sensitivity=1, noise_std=1), LaplaceAccountant(sensitivity=1, scale=3)
    nested = ((first | second) + third) | fourth
    moved = nested.to(ReplaceOne(n=5))
    assert moved.relation == ReplaceOne(n=5)
    assert moved.rdp(2.0) > nested.rdp(2.0)


def test_statements_speak_of_what_a_neighbour_changes():
    removed = LaplaceAccountant(sensitivity=1, scale=1)
    from privsample import privacy_statement

    assert "When one record is added or removed" in privacy_statement(removed, 0.0)
    noisy = GaussianAccountant(sensitivity=1, noise_std=1)
    assert "plus at most 1.01e-6 (delta)" in privacy_statement(noisy, 1.0000004e-6)
    assert "(delta)" not in privacy_statement(removed, 1.0000004e-6)
    assert "is replaced by another" in privacy_statement(removed.to(ReplaceOne(n=9)), 0.0)


@pytest.mark.parametrize("relation", [AddRemove(members=3), ReplaceOne(n=9, members=3)], ids=str)
@pytest.mark.parametrize("made", [
    lambda relation: GaussianSum(bounds=(0, 1), noise_std=1, relation=relation),
    lambda relation: LaplaceSum(bounds=(0, 1), scale=1, relation=relation),
    lambda relation: ClippedSum(norm=1, width=2, noise_std=1, relation=relation),
    lambda relation: RandomizedResponse(log_odds=1, relation=relation),
])  # fmt: skip
def test_what_knows_its_records_does_not_take_groups_for_one_of_them(made, relation):
    """The noise is priced for one record: a relation about three would promise what was not paid for."""
    with pytest.raises(ValueError, match=r"members = 3; use accountant.group\(3\) for groups"):
        made(relation)
