"""Audits of what cannot be audited, and of what only just can: clear errors, and verdicts that say what they know."""

import threading
from fractions import Fraction

import joblib
import numpy as np
import pytest

import privsample as ps
from privsample.mechanisms.base import Mechanism
from privsample.simulations.audit.pairs import MOST_RECORDS

BETA = ps.BetaBernoulli(alpha=6, beta=12)
POSTERIOR = ps.DirectPosterior(model=BETA, n=100, draws=3)
TABLES = (np.zeros((3, 2)), np.ones(3))
FIVE = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=ps.ReplaceOne(n=5))
ANSWER = ps.RandomizedResponse(log_odds=0.5, relation=ps.ReplaceOne(n=7))


def laplace(scale):
    return lambda data, rng: data + rng.laplace(0, scale, np.shape(data))


class Unequal:
    """A function that is called with whatever it was given."""

    def __call__(self, data, rng):
        raise ValueError("ragged")


class Broken(ps.GaussianMechanism):
    """Returns what is no number."""

    __slots__ = ()

    def _draw(self, statistic, rng):
        shape = (self.draws, *self.shape)
        return {"statistic": np.full(shape, np.nan)}


class Unknown(Mechanism):
    @property
    def accountant(self):
        return ps.PureAccountant(stated_epsilon=1.0)

    def _statistic(self, data):
        raise AssertionError

    def _draw(self, statistic, rng):
        raise AssertionError


@pytest.mark.parametrize(
    ("subject", "options", "error", "message"),
    [
        (Unknown(), {}, TypeError, "Unknown defines no worst neighbours"),
        (POSTERIOR, {"rng": 3}, TypeError, "seeded release"),
        (POSTERIOR, {"samples": 0}, ValueError, "samples"),
        (POSTERIOR, {"epsilons": [np.nan]}, ValueError, "epsilon"),
        (POSTERIOR, {"epsilons": []}, ValueError, "1 to 1,000 epsilons"),
        (POSTERIOR, {"epsilons": [-0.1]}, ValueError, r"\[0, 300\]"),
        (POSTERIOR, {"epsilons": ["low"]}, TypeError, "epsilons must be real numbers"),
        (POSTERIOR, {"level": 1.0}, ValueError, "level"),
        (POSTERIOR, {"level": 0.0}, ValueError, "level"),
        (POSTERIOR, {"level": 1e-12}, ValueError, r"\[1e-11, 1\)"),
        (POSTERIOR, {"claim": lambda _: np.nan}, ValueError, "claimed at epsilon = 0.1 must lie"),
        (POSTERIOR, {"claim": lambda _: "0.1"}, TypeError, "claimed at epsilon = 0.1 must be a number"),
        (
            POSTERIOR,
            {"claim": ps.LaplaceAccountant(sensitivity=1, scale=1)},
            ValueError,
            "claim is under another neighbouring relation",
        ),
        (POSTERIOR, {"samples": 10**9}, ValueError, "lower samples"),
        (POSTERIOR, {"claim": 0.1}, TypeError, "claim must be"),
        (POSTERIOR, {"loss": lambda x: x}, TypeError, "needs datasets"),
        (POSTERIOR, {"group": 101}, ValueError, "no larger than n"),
        (POSTERIOR, {"datasets": [1, 2]}, TypeError, "pair"),
        (POSTERIOR, {"datasets": (np.zeros(100), np.ones(100))}, ValueError, "not neighbours.*group=100"),
        (POSTERIOR, {"datasets": (np.zeros(99), np.ones(99))}, ValueError, "public n = 100"),
        (ANSWER, {"group": 8}, ValueError, "no larger than n = 7"),
        (ps.DirectPosterior(model=BETA, n=MOST_RECORDS + 1), {}, ValueError, "too many to simulate"),
        (ps.RandomizedResponse(log_odds=1, relation=ps.AddRemove(), slots=2), {}, ValueError, "slots = 1"),
        (Broken(sensitivity=1, noise_std=1), {}, ValueError, "finite numbers"),
        (3, {"datasets": (0, 1)}, TypeError, "a mechanism or a function"),
        (ps.LaplaceAccountant(sensitivity=1, scale=1), {}, TypeError, "a mechanism or a function"),
        (ps.GaussianMechanism, {}, TypeError, r"got a class: call GaussianMechanism\(...\)"),
        (laplace(1), {"datasets": (0, 1), "loss": 3}, TypeError, "loss must be a function .* got int"),
        (laplace(1), {}, TypeError, "datasets is required"),
        (laplace(1), {"datasets": (0, 1)}, TypeError, "claim must be given"),
        (laplace(1), {"datasets": (1, 1.0)}, ValueError, "inputs are equal"),
        (laplace(1), {"datasets": (TABLES, TABLES)}, ValueError, "inputs are equal"),
        (laplace(1), {"datasets": (np.zeros(5), np.ones(5)), "claim": FIVE}, ValueError, "not neighbours.*not records"),
        (laplace(1), {"datasets": (("a", "b"), ("a", "c"))}, TypeError, "claim must be given"),
        (Unequal(), {"datasets": ([[1], [1, 2]], [[1], [1, 3]]), "claim": FIVE}, RuntimeError, "ragged"),
    ],
)
def test_what_cannot_be_audited_gets_a_clear_error(subject, options, error, message):
    with pytest.raises(error, match=message):
        ps.audit(subject, **{"epsilons": [0.1], "samples": 100, **options})


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda x: x, r"outputs of shape \(20, 1\), an array of shape \(20,\), got float64 of shape \(20, 1\)"),
        (lambda x: x[0, 0], r"got float64 of shape \(\)"),
        (lambda x: x[:, 0] * 1j, "complex128"),
        (lambda x: [str(one) for one in x[:, 0]], "real number for each draw"),
        (lambda x: np.where(x[:, 0] > 0, np.nan, 0.0), "NaN; it did for .* of 20 draws"),
    ],
)
def test_losses_that_are_no_losses_get_a_clear_error(loss, message):
    claim = ps.LaplaceAccountant(sensitivity=1, scale=1)
    with pytest.raises(ValueError, match=message):
        ps.audit(laplace(1), datasets=(0.0, 1.0), claim=claim, loss=loss, samples=200)


def test_losses_may_be_infinite(rng):
    """Uniform on [0, 1] against uniform on [0.5, 1.5]: they differ by a delta of a half at every epsilon."""
    verdict = ps.audit(
        lambda data, rng: data + rng.random(),
        datasets=(0.0, 0.5),
        claim=lambda epsilon: 0.4,
        loss=lambda x: np.select([x[:, 0] < 0.5, x[:, 0] > 1], [np.inf, -np.inf], 0.0),
        samples=4_000,
        rng=rng,
    )
    assert verdict.violated
    assert verdict.lowers.max() < 0.5
    assert np.all(verdict.renyi > 1e6)  # infinite, as far as draws can tell


@pytest.mark.parametrize("place", [1e-9, 1e15])
def test_outputs_of_any_size_are_told_apart(place, rng):
    noise = lambda data, rng: place * (1 + data * 1e-3 + rng.laplace(0, 5e-4))  # noqa: E731
    claim = ps.LaplaceAccountant(sensitivity=1, scale=1)
    assert ps.audit(noise, datasets=(0.0, 1.0), claim=claim, samples=2_000, rng=rng).violated


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_a_handful_of_draws_gives_a_verdict_that_says_how_many_are_needed(samples, rng):
    noise = ps.LaplaceMechanism(sensitivity=1, scale=1)
    for options in ({}, {"datasets": (np.zeros(1), np.ones(1)), "claim": noise.accountant}):
        subject = laplace(1) if options else noise
        words = ps.audit(subject, epsilons=[0.5], samples=samples, rng=rng, **options).statement
        assert "too few draws to reject any claim" in words
        enough = int(words.split("set samples=")[1].split(".")[0])
        assert ps.audit(subject, epsilons=[0.5], samples=enough, rng=rng, **options).statement.count("too few") == 0


def test_where_no_draws_could_refute_a_claim_the_words_say_so(rng):
    verdict = ps.audit(laplace(1), datasets=(0.0, 1.0), claim=lambda _: 1.0, samples=100, rng=rng)
    assert "; no number of draws could refute it. This does not prove" in verdict.statement
    constant = ps.audit(lambda *_: 3.0, datasets=(0.0, 1.0), claim=lambda _: 0.1, samples=300, rng=rng)
    assert "do not refute the claimed delta of 0.1; they would not refute a claim of 0 either." in constant.statement


def test_far_epsilons_are_examined(rng):
    noise = ps.LaplaceMechanism(sensitivity=1, scale=1)
    verdict = ps.audit(noise, epsilons=[0.1, 50, 300], samples=2_000, rng=rng)
    assert verdict.epsilon == 0.1
    assert np.all(np.isfinite(verdict.renyi))
    assert not ps.audit(noise, epsilons=0.1, samples=100, rng=rng).violated


@pytest.mark.parametrize("scale", [1e9, 0.02, 1e-4])
def test_accounts_that_promise_almost_all_or_almost_nothing_are_audited(scale, rng):
    noise = ps.LaplaceMechanism(sensitivity=1, scale=scale)
    assert not ps.audit(noise, samples=1_000, rng=rng).violated


def raises(data, rng):
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (raises, RuntimeError, "draw 1 raised KeyError"),
        (lambda data, rng: np.zeros(rng.integers(1, 9)), ValueError, "keep their shape"),
        (lambda data, rng: 1j, ValueError, "array of real numbers, got complex"),
        (lambda data, rng: np.array([1j]), ValueError, "array of real numbers, got ndarray of complex128"),
        (lambda data, rng: "1.5", ValueError, "array of real numbers, got str"),
        (lambda data, rng: None, ValueError, "array of real numbers, got NoneType"),
        (lambda data, rng: [[1], [1, 2]], ValueError, "array of real numbers, got list"),
        (lambda data, rng: 10**400, ValueError, "array of real numbers, got int"),
        (lambda data, rng: [], ValueError, r"must hold at least one number, got an array of shape \(0,\)"),
        (lambda data, rng: np.zeros(2 + data), ValueError, "keep their shape, on either dataset, got 2 .* then 3"),
        (lambda data, rng: np.nan, ValueError, "finite numbers"),
        (lambda data, rng: np.zeros(10**7), ValueError, "held in memory at once.*lower samples"),
    ],
)
def test_functions_that_misbehave_get_a_clear_error(function, error, message):
    with pytest.raises(error, match=message):
        ps.audit(function, datasets=(0, 1), claim=ps.PureAccountant(stated_epsilon=1.0), samples=200)


def test_functions_that_change_their_data_are_refused():
    def noisy(data, rng):
        data += rng.laplace(0, 1, 2)
        return data.copy()

    claim = ps.LaplaceAccountant(sensitivity=1, scale=1)
    with pytest.raises(ValueError, match="modified its dataset"):
        ps.audit(noisy, datasets=(np.zeros(2), np.ones(2)), claim=claim, samples=200)


def test_functions_that_stay_where_they_are_get_a_clear_error():
    lock = threading.Lock()
    locked = lambda data, rng: 0.0 if lock.locked() else rng.random()  # noqa: E731
    with joblib.parallel_config(n_jobs=2), pytest.raises(TypeError, match=r'or in threads .*backend="threading"'):
        ps.audit(locked, datasets=(0, 1), claim=lambda _: 0.1, samples=20)


def test_blocks_of_draws_have_one_shape(monkeypatch):
    monkeypatch.setattr("privsample.simulations.audit.draws._BLOCK", 10)
    calls = []

    def growing(data, rng):
        calls.append(data)
        return np.zeros(1 + (len(calls) > 10))

    with pytest.raises(ValueError, match="keep their shape"):
        ps.audit(growing, datasets=(0, 1), claim=lambda _: 0.1, samples=200)


@pytest.mark.parametrize("make", [Fraction, lambda x: 10**30 * int(10 * x), bool])
def test_any_real_numbers_are_outputs(make, rng):
    verdict = ps.audit(
        lambda data, rng: make(float(rng.random() > 0.5) * data),
        datasets=(0, 1),
        claim=lambda _: 0.1,
        samples=500,
        rng=rng,
    )
    assert verdict.violated
