"""The audit of times, with clocks that tests move: what depends on the data falls, what does not stands.

No test reads a real clock.
"""

import numpy as np
import pytest

import privsample as ps
from privsample.simulations.audit import times
from privsample.simulations.audit.times import _Bet, _log_product, _log_wealth, _lower, _means_before

ANSWER = ps.RandomizedResponse(log_odds=2.0, relation=ps.ReplaceOne(n=1))
FEW = ps.TruncatedRepetitions(distribution=ps.TruncatedNegativeBinomial.logarithmic(mean=2), maximum=8)
NOTHING = lambda epsilon: 0.0  # noqa: E731 - the claim that output and time do not depend on the data


class FakeClock:
    """A clock that moves by the work that a test reports, with noise and slow drift of the machine's speed."""

    def __init__(self, seed, noise=0.02, drift=0.0):
        self.now, self.speed, self.noise, self.drift = 0.0, 1.0, noise, drift
        self.rng = np.random.default_rng(seed)

    def work(self, amount):
        self.speed *= np.exp(self.drift * self.rng.standard_normal())
        self.now += amount * self.speed * (1.0 + self.noise * self.rng.random())

    def __call__(self):
        return self.now


@pytest.fixture
def clock(rng, monkeypatch):
    made = FakeClock(rng.integers(1 << 32))
    monkeypatch.setattr(times, "CLOCK", made)
    return made


@pytest.fixture
def timed_answers(clock, monkeypatch):
    """Each run of randomized response takes one unit of time."""
    draw = ps.RandomizedResponse._draw

    def slow(self, statistic, rng):
        clock.work(1.0)
        return draw(self, statistic, rng)

    monkeypatch.setattr(ps.RandomizedResponse, "_draw", slow)
    return clock


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("constant", "samples", "outcome"),
    [
        (True, 1_000, "CONSISTENT"),
        (False, 8_000, "VIOLATED"),
        pytest.param(True, 8_000, "CONSISTENT", marks=pytest.mark.long),
    ],
)
def test_a_secret_number_of_runs_shows_in_the_time(constant, samples, outcome, timed_answers, rng, alpha):
    """The account holds for the output alone: output and time together violate it unless all runs are made.

    tests/mechanisms/test_repetition.py counts that all runs are made in constant time. With 8,000 releases of it the
    audit has the power that it has without constant time.
    """
    best = ps.RepeatedSelection(base=ANSWER, repetitions=FEW, constant_time=constant)
    verdict = ps.audit(best, datasets=([0], [1]), samples=samples, level=alpha, rng=rng, view="time")
    assert verdict.outcome == outcome
    assert "times the mean of the releases just before" in verdict.statement


def stops_at_random(work):
    """Geometric stopping by a while loop, whose number of rounds depends on the data; it always releases 0."""

    def release(data, rng):
        rounds = 1
        while rng.random() >= data:
            rounds += 1
        work(rounds)
        return 0.0

    return release


@pytest.mark.statistical
@pytest.mark.parametrize(("rates", "outcome"), [((0.2, 0.4), "VIOLATED"), ((0.3, 0.3 + 1e-12), "CONSISTENT")])
@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_a_while_loop_whose_length_depends_on_the_data_falls_under_drift(drift, rates, outcome, clock, rng, alpha):
    """At a drift of 5 % a release the speed changes by a factor of e^7 during an audit."""
    clock.drift = drift
    subject = stops_at_random(clock.work)
    verdict = ps.audit(subject, datasets=rates, claim=NOTHING, samples=4_000, level=alpha, rng=rng, view="time")
    assert verdict.outcome == outcome
    if outcome == "VIOLATED":
        rounds = np.arange(1, 200)
        first, second = (rate * (1 - rate) ** (rounds - 1) for rate in rates)
        assert 0.05 < verdict.lower <= np.abs(first - second).sum() / 2


@pytest.mark.statistical
def test_the_state_that_a_release_leaves_behind_causes_no_false_alarm(clock, rng, alpha):
    """A machine that is slow after releases on the second dataset: each time depends on the release before only."""
    last = [0.0]

    def release(data, rng):
        clock.work(1.0 + 4.0 * last[0])
        last[0] = data
        return 0.0

    verdict = ps.audit(release, datasets=(0.0, 1.0), claim=NOTHING, samples=3_000, level=alpha, rng=rng, view="time")
    assert verdict.outcome == "CONSISTENT"


@pytest.mark.statistical
def test_bounds_hold_the_truth(clock, rng, alpha):
    """Two lengths, with probabilities 0.7 and 0.3 or 0.2 and 0.8: delta(e) = max(0.8 - 0.3 e^e, ...)."""

    def release(data, rng):
        clock.work(1.0 if rng.random() < data else 2.0)
        return 0.0

    e = np.array([0.0, 0.5, 1.0])
    truth = np.maximum(0.7 - np.exp(e) * 0.2, 0.8 - np.exp(e) * 0.3)
    verdict = ps.audit(
        release, datasets=(0.7, 0.2), claim=NOTHING, epsilons=e, samples=10_000, level=alpha, rng=rng, view="time"
    )
    assert (verdict.lowers <= truth).all()
    assert (verdict.lowers >= truth - 0.25).all()
    assert verdict.lowers[0] > 0.3
    assert (verdict.uppers >= verdict.lowers).all()
    assert (np.diff(verdict.renyi) >= -1e-12).all()


def test_the_worst_pair_of_several_is_timed(clock, rng):
    pairs = [(0.3, 0.301), (0.1, 0.6), (0.5, 0.501)]
    subject = stops_at_random(clock.work)
    verdict = ps.audit(subject, datasets=pairs, claim=NOTHING, samples=3_000, rng=rng, view="time")
    assert verdict.violated


def test_the_products_are_bets_with_mean_at_most_one():
    """By enumeration of one release at the worst case of the claim, and at many that meet it."""
    for factor, delta in ((1.0, 0.0), (np.e, 0.1), (20.0, 0.01)):
        for size in (0.01, 0.9 / (factor + delta / 2), 1.2 / (factor + delta / 2)):
            gains = [np.exp(_log_product(hits, factor, delta, size)) for hits in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
            for q in np.linspace(0.0, 1.0, 21):
                p = min(factor * q + delta, 1.0)
                assert p / 2 * gains[0] + q / 2 * gains[1] + (1 - p / 2 - q / 2) * gains[2] <= 1 + 1e-12
    assert _log_product((3, 0, 0), 1.0, 0.0, 0.5) == pytest.approx(3 * np.log(1.5))
    assert (
        _log_product((3, 0, 0), 1.0, 0.0, 1.5) == -np.inf
    )  # no test: one more release could make the product negative


def test_lower_bounds_come_from_bets_that_are_permitted_at_every_delta():
    """An event that never occurs on the other dataset, and a bet that is too large for a delta near 1."""
    counts = np.array([[900, 100], [0, 1000]])
    bet = _Bet(at=0, cells=np.array([0]), swapped=False, size=0.999, strength=1.0)
    lower = _lower(bet, counts, 1.0, 1e-3)
    assert 0.6 < lower <= 0.9
    assert _log_wealth(bet.hits(counts), 1.0, lower, 0.999 / 1.5) == pytest.approx(np.log(1e3), abs=1e-6)


def test_a_bet_whose_size_was_chosen_too_large_still_finds_a_strong_leak():
    """No release on the other dataset was in the event when the size was chosen, and a tenth of them is now."""
    hits = (450, 50, 500)
    assert _log_product(hits, np.exp(0.36), 0.28, 0.999 / (np.exp(0.36) + 0.14)) < -50.0
    assert _log_wealth(hits, np.exp(0.36), 0.28, 0.999 / (np.exp(0.36) + 0.14)) > 40.0


def test_the_unit_of_a_time_is_the_geometric_mean_of_those_before():
    seconds = np.arange(1.0, 131.0)
    expected = [np.exp(np.log(seconds[k : k + 101]).mean()) for k in range(29)]
    assert _means_before(seconds) == pytest.approx(expected, rel=1e-12)


def test_bad_input(clock, rng):
    with pytest.raises(ValueError, match="outputs must be finite numbers"):
        ps.audit(lambda data, rng: np.nan, datasets=(0, 1), claim=NOTHING, samples=50, view="time", rng=rng)
    with pytest.raises(ValueError, match=r"outputs must keep their shape.*got 1 numbers and then 2"):
        ps.audit(lambda data, rng: np.zeros(1 + data), datasets=(0, 1), claim=NOTHING, samples=50, view="time", rng=rng)
    with pytest.raises(RuntimeError, match="raised ZeroDivisionError"):
        ps.audit(lambda data, rng: 1 / data, datasets=(0, 1), claim=NOTHING, samples=50, view="time", rng=rng)
    with pytest.raises(ValueError, match="view must be"):
        ps.audit(ANSWER, view="clock")


def test_too_few_releases_say_so(clock, rng):
    def release(data, rng):
        clock.work(1.0)
        return 0.0

    verdict = ps.audit(release, datasets=(0.0, 1.0), claim=NOTHING, epsilons=[2.0], samples=10, rng=rng, view="time")
    assert verdict.outcome == "CONSISTENT"
    assert "too few draws to reject any claim" in verdict.statement
