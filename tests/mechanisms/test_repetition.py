"""The best of a random number of runs: the distribution of the winner, ranking, and what may not leak."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample._value import frozen_value
from privsample.distributions.repetitions import RepetitionDistribution
from privsample.errors import NumericalFailure, SchemaError, UnreachableTarget
from privsample.mechanisms.base import Mechanism

NOISE = ps.GaussianMechanism(sensitivity=1, noise_std=1)
LOGARITHMIC = ps.TruncatedNegativeBinomial.logarithmic(mean=4)


@frozen_value
class Scripted(Mechanism):
    """Releases what `script` says, run by run: numbers, or exceptions that it raises."""

    script: tuple[Any, ...]
    at: list[int]
    relation: ps.AddRemove = ps.AddRemove()

    @property
    def accountant(self):
        return ps.PureAccountant(stated_epsilon=0.1)

    def _statistic(self, data):
        return data

    def _draw(self, statistic, rng):
        found = self.script[self.at[0]]
        self.at[0] += 1
        if isinstance(found, Exception):
            raise found
        warnings.warn(f"run {self.at[0]}", RuntimeWarning, stacklevel=1)
        np.log(np.zeros(1))
        return {"score": np.array([found]), "run": list(self.at)}


class Exactly(RepetitionDistribution):
    """A number of runs that a test chooses; no account would take it for private."""

    __slots__ = ("count",)

    def __init__(self, count):
        self.count = count

    mean, maximum = 1.0, 100
    log_mass = log_rank_probability = log_pgf_derivative = pgf_curvature = log_pgf = tilted = None

    def sample(self, rng):
        return self.count


def winner(*script, score="score"):
    base = Scripted(script=script, at=[0])
    best = ps.RepeatedSelection(base=base, repetitions=ps.Poisson(mean=1), score=score)
    object.__setattr__(best, "repetitions", Exactly(len(script)))
    return best, base


def run(best, monkeypatch):
    """A release without its account, which a fixed number of runs has not."""
    account = ps.PureAccountant(stated_epsilon=0.1)
    monkeypatch.setattr(ps.RepeatedSelection, "accountant", property(lambda self: account))
    return dict(best.release(None).draws)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ((1.0, 3.0, 2.0), 2),
        ((np.nan, -np.inf, np.nan), 2),
        ((np.nan, np.nan), 1),
        ((2.0, 2.0, 2.0), 1),
        ((NumericalFailure("x"), np.nan), 2),
        ((ZeroDivisionError("x"), -5.0, np.linalg.LinAlgError("x")), 2),
        ((NumericalFailure("x"), FloatingPointError("x")), None),
        ((), None),
    ],
)
def test_ranking(script, expected, monkeypatch):
    best, base = winner(*script)
    draws = run(best, monkeypatch)
    assert base.at[0] == len(script)
    assert (draws["run"][0] if draws else None) == expected


def test_a_function_of_the_release_as_score(monkeypatch):
    best, _ = winner(1.0, 3.0, 2.0, score=lambda release: -release["score"][0])
    assert run(best, monkeypatch)["run"][0] == 1
    best, _ = winner(1.0, 3.0, 2.0, score=lambda release: {1.0: "none", 2.0: 0.0}[release["score"][0]])
    assert run(best, monkeypatch)["run"][0] == 3


def test_the_number_of_runs_is_not_shown(monkeypatch, capfd):
    best, _ = winner(1.0, 3.0, 2.0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        draws = run(best, monkeypatch)
    assert not seen
    assert capfd.readouterr() == ("", "")
    assert set(draws) == {"score", "run"}


def test_wrong_data_are_refused_whatever_the_number_of_runs():
    for mean in (1e-9, 5.0):
        with pytest.raises(SchemaError, match="shape"):
            ps.RepeatedSelection(base=NOISE, repetitions=ps.Poisson(mean=mean)).release(np.zeros(3))


def test_a_score_must_be_one_number():
    pair = ps.GaussianMechanism(sensitivity=1, noise_std=1, draws=2)
    for base, score in ((pair, None), (NOISE, "accuracy"), (pair, "statistic")):
        with pytest.raises(ValueError, match="score must name a draw that is one number"):
            ps.RepeatedSelection(base=base, repetitions=LOGARITHMIC, score=score).release(0.0)
    made = ps.RepeatedSelection(base=pair, repetitions=LOGARITHMIC, score=lambda release: release["statistic"].mean())
    assert made.release(0.0)["statistic"].shape == (2,)


def test_wrapper_equation():
    made = ps.RepeatedSelection(base=NOISE, repetitions=LOGARITHMIC)
    assert made.accountant == ps.SelectionAccountant(base=NOISE.accountant, repetitions=LOGARITHMIC)
    until = ps.ConditionalSelection(base=NOISE, threshold=1.0, stop_probability=0.1)
    assert until.accountant == ps.ConditionalAccountant(
        base=NOISE.accountant, event_probability=0.1, geometric_stopping=True
    )


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "accepted"), [(0.0, True), (0.3, False)])
def test_the_winners_distribution(shift, accepted, rng, alpha):
    """P(best <= x) = f(Phi(x)), the masses summed by themselves; the mutant's noise is off centre."""
    made = ps.RepeatedSelection(base=NOISE, repetitions=LOGARITHMIC)
    drawn = np.array([made.release(shift, rng=rng)["statistic"][0] for _ in range(2_000)])
    k = np.arange(1.0, 2000.0)
    mass = np.exp(LOGARITHMIC.log_mass(k))
    at = np.linspace(-6, 7, 4000)
    cdf = np.array([mass @ u**k for u in stats.norm.cdf(at)])
    assert (stats.kstest(drawn, lambda x: np.interp(x, at, cdf)).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("floor", "accepted"), [(0.05, True), (0.1, False)])
def test_how_often_a_good_enough_run_is_found(floor, accepted, rng, alpha):
    made = ps.ConditionalSelection(base=NOISE, threshold=1.0, stop_probability=floor)
    found = [made.release(0.0, rng=rng).draws.get("statistic", [np.nan])[0] for _ in range(1_200)]
    good = stats.norm.sf(1.0)
    expected = 0.95 * good / (0.05 + 0.95 * good)
    hits = int(np.isfinite(found).sum())
    assert (stats.binomtest(hits, len(found), expected).pvalue > alpha) == accepted
    assert np.nanmin(found) >= 1.0


@pytest.mark.statistical
@pytest.mark.parametrize(("stop", "accepted"), [("after", True), ("before", False)])
def test_how_often_a_run_is_found_before_a_stop_after_runs(stop, accepted, rng, alpha):
    made = ps.ConditionalSelection(base=NOISE, threshold=1.0, stop_probability=0.5, stop=stop)
    hits = sum(bool(made.release(0.0, rng=rng).draws) for _ in range(1_500))
    good = stats.norm.sf(1.0)
    expected = good / (0.5 + 0.5 * good)
    assert (stats.binomtest(hits, 1_500, expected).pvalue > alpha) == accepted


def test_one_run_is_made_before_a_stop_after_runs():
    made = ps.ConditionalSelection(base=NOISE, threshold=-50.0, stop_probability=1, stop="after")
    assert made.release(0.0)["statistic"].shape == (1,)
    assert made.accountant.epsilon(1e-5) == pytest.approx(NOISE.accountant.epsilon(1e-5), rel=1e-9)
    with pytest.raises(ValueError, match="stop must be 'before' or 'after' each run, got 'later'"):
        ps.ConditionalSelection(base=NOISE, threshold=0, stop_probability=0.1, stop="later")


def test_releases_are_values():
    made = ps.RepeatedSelection(
        base=NOISE, repetitions=ps.TruncatedRepetitions(distribution=ps.Poisson(mean=5), maximum=9)
    )
    release = made.release(0.0)
    assert ps.Release.from_json(release.to_json()) == release
    assert ps.Assumption.TIMING in release.account.assumptions
    assert "number of runs" in release.statement()
    empty = ps.RepeatedSelection(base=NOISE, repetitions=ps.Poisson(mean=1e-12)).release(0.0)
    assert empty.draws == {}
    assert ps.Release.from_json(empty.to_json()) == empty
    drawn = ps.ConditionalSelection(base=NOISE, threshold=-50.0, stop_probability=0.01, score="statistic").release(0.0)
    assert ps.Release.from_json(drawn.to_json()) == drawn
    assert made.validate(np.nan).facts == {"not finite": 1}
    assert ps.ConditionalSelection(base=NOISE, threshold=0, stop_probability=1).validate(0.0).facts == {}
    assert ps.ConditionalSelection(base=NOISE, threshold=0, stop_probability=1).release(0.0).draws == {}
    nested = ps.RepeatedSelection(
        base=ps.RepeatedSelection(base=NOISE, repetitions=ps.Poisson(mean=0.7)), repetitions=LOGARITHMIC
    )
    assert set(nested.release(0.0).draws) <= {"statistic"}


def test_a_function_cannot_be_saved():
    release = ps.RepeatedSelection(base=NOISE, repetitions=LOGARITHMIC, score=lambda release: 1.0).release(0.0)
    with pytest.raises(TypeError, match="a function cannot be saved"):
        release.to_json()


def test_calibrate():
    target = ps.DP(epsilon=6, delta=1e-5)
    made = ps.RepeatedSelection.calibrate(base=NOISE, target=target)
    assert made.repetitions.mean > 1.2
    assert target.met_by(made.accountant)
    more = ps.TruncatedNegativeBinomial.logarithmic(mean=made.repetitions.mean * 1.01)
    assert not target.met_by(ps.SelectionAccountant(base=NOISE.accountant, repetitions=more))
    with pytest.raises(UnreachableTarget, match="cannot be met"):
        ps.RepeatedSelection.calibrate(base=NOISE, target=ps.DP(epsilon=1, delta=1e-5))


@pytest.mark.parametrize("runs", [10, True, 3.5])
def test_a_fixed_number_of_runs_is_refused(runs):
    with pytest.raises(TypeError, match="a fixed number is refused"):
        ps.RepeatedSelection(base=NOISE, repetitions=runs)


def test_bad_input():
    for bad in (None, NOISE.accountant, "noise"):
        with pytest.raises(TypeError, match="base must be a mechanism"):
            ps.RepeatedSelection(base=bad, repetitions=LOGARITHMIC)
        with pytest.raises(TypeError, match="base must be a mechanism"):
            ps.ConditionalSelection(base=bad, threshold=0, stop_probability=0.1)
    for bad in ("", 3, True):
        with pytest.raises(TypeError, match="score must be"):
            ps.RepeatedSelection(base=NOISE, repetitions=LOGARITHMIC, score=bad)
    for bad in (0.0, -1.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="stop_probability"):
            ps.ConditionalSelection(base=NOISE, threshold=0, stop_probability=bad)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="threshold"):
            ps.ConditionalSelection(base=NOISE, threshold=bad, stop_probability=0.1)
    with pytest.raises(TypeError, match="threshold"):
        ps.ConditionalSelection(base=NOISE, threshold=True, stop_probability=0.1)
    with pytest.raises(TypeError, match="seeded"):
        ps.RepeatedSelection(base=NOISE, repetitions=LOGARITHMIC).release(0.0, rng=3)


FEW = ps.TruncatedRepetitions(distribution=ps.TruncatedNegativeBinomial.geometric(mean=3), maximum=6)


@pytest.mark.parametrize("counted", [0, 1, 3, 5])
def test_in_constant_time_all_runs_are_made_and_the_first_count(counted, monkeypatch):
    """The broken copy, without constant_time, makes as many runs as count."""
    script = (1.0, 3.0, 2.0, 9.0, np.nan)
    for constant, made in ((True, len(script)), (False, counted)):
        best, base = winner(*script)
        object.__setattr__(best, "repetitions", Exactly(counted))
        monkeypatch.setattr(Exactly, "maximum", len(script))
        object.__setattr__(best, "constant_time", constant)
        draws = run(best, monkeypatch)
        assert base.at[0] == made
        expected = 1 + int(np.nanargmax(script[:counted])) if counted else None
        assert (draws["run"][0] if draws else None) == expected


@pytest.mark.statistical
@pytest.mark.parametrize(("skipped", "accepted"), [(0, True), (1, False)])
def test_in_constant_time_the_output_has_the_same_distribution(skipped, accepted, rng, alpha, monkeypatch):
    """The best of K answers is 1 unless all are 0; the broken copy counts one run less.

    The chance of a 1 is 0.486, and of the broken copy 0.395: it lies 4 standard deviations beyond the limit at 1e-9.
    """
    answer = ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=1))
    best = ps.RepeatedSelection(base=answer, repetitions=FEW, constant_time=True)
    sample = ps.TruncatedRepetitions.sample
    monkeypatch.setattr(ps.TruncatedRepetitions, "sample", lambda self, rng: max(sample(self, rng) - skipped, 1))
    count, zero = 3_100, 1 / (1 + np.exp(-1.0))
    k = np.arange(7.0)
    expected = 1 - np.exp(FEW.log_mass(k)) @ zero**k
    found = sum(int(best.release([0], rng=rng)["answers"][0, 0]) for _ in range(count))
    assert (stats.binomtest(found, count, expected).pvalue > alpha) == accepted


def test_in_constant_time_the_account_assumes_less():
    answer = ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=1))
    usual = ps.RepeatedSelection(base=answer, repetitions=FEW)
    constant = ps.RepeatedSelection(base=answer, repetitions=FEW, constant_time=True)
    assert usual.accountant.assumptions == {ps.Assumption.TIMING}
    assert constant.accountant.assumptions == {ps.Assumption.FIXED_WORK}
    assert constant.accountant.epsilon(1e-6) == usual.accountant.epsilon(1e-6)
    release = constant.release([1])
    assert ps.Release.from_json(release.to_json()) == release
    assert "caches" in release.statement()
    nested = ps.RepeatedSelection(base=usual, repetitions=FEW, constant_time=True)
    assert ps.Assumption.TIMING in nested.accountant.assumptions


def test_constant_time_needs_a_maximum():
    for repetitions in (ps.Poisson(mean=3), ps.TruncatedNegativeBinomial.geometric(mean=3)):
        with pytest.raises(ValueError, match=r"must have a maximum .* TruncatedRepetitions\(distribution="):
            ps.RepeatedSelection(base=NOISE, repetitions=repetitions, constant_time=True)
    with pytest.raises(TypeError, match="constant_time must be True or False, got int"):
        ps.RepeatedSelection(base=NOISE, repetitions=FEW, constant_time=1)
