"""One description is enough: what a mechanism from outside gets from the base class, and what holds for every one."""

import inspect
import pickle
import threading
from dataclasses import dataclass, replace

import numpy as np
import pytest

import privsample as ps
from privsample._entropy import SystemBits
from privsample.accounting.assumptions import Assumption
from privsample.errors import SchemaError, UnreachableTarget
from privsample.mechanisms.base import DrawsWithNotes, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from tests.mechanisms.examples import EXAMPLES as CATALOGUE
from tests.mechanisms.examples import data_for

EXAMPLES = {name: example.mechanism for name, example in CATALOGUE.items()}
BUILT: list[str] = []
TARGET = ps.DP(epsilon=1, delta=1e-6)


@dataclass(frozen=True, kw_only=True)
class NoisyMaximum(Mechanism):
    """The largest of n answers, each with Gumbel noise: a mechanism of another package."""

    n: int
    scale: float
    draws: int = 1
    free_parameters = (FreeParameter(name="scale", direction="smallest", advice="ask for a larger epsilon"),)

    @property
    def accountant(self):
        BUILT.append("account")
        return self.draws * ps.PureAccountant(stated_epsilon=2 / self.scale, relation=ps.ReplaceOne(n=self.n))

    def _statistic(self, data):
        if np.shape(data) != (self.n,):
            raise SchemaError(f"there must be n = {self.n} answers, got an array of shape {np.shape(data)}")
        return np.clip(np.nan_to_num(data), 0, 1)

    def _draw(self, statistic, rng):
        noisy = statistic + rng.gumbel(0, self.scale, (self.draws, self.n))
        return {"winner": noisy.argmax(axis=1)}

    def for_size(self, size):
        return replace(self, n=size)


def test_a_mechanism_from_outside_draws_and_says_what_that_costs():
    mechanism = NoisyMaximum(n=3, scale=2.0, draws=5)
    release = mechanism.release([0.0, 0.5, np.nan])
    assert release["winner"].shape == (5,)
    assert release.account == mechanism.accountant
    seeded = [mechanism.release([0, 1, 1], rng=np.random.default_rng(4)) for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert seeded[0].account.assumptions == release.account.assumptions | {Assumption.RNG_FRESH}
    with pytest.raises(SchemaError, match="n = 3 answers"):
        mechanism.release([0.0])
    with pytest.raises(TypeError, match="seeded release"):
        mechanism.release([0, 1, 1], rng=4)
    assert mechanism.validate([0, 1, 1]).facts == {}
    with pytest.raises(SchemaError):
        mechanism.validate([0.0])
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism


def test_it_is_composed_sampled_and_chosen():
    mechanism = NoisyMaximum(n=3, scale=8.0)
    best = ps.RepeatedSelection(base=mechanism, repetitions=ps.Poisson(mean=3), score="winner")
    assert best.release([0, 1, 1]).account.base == mechanism.accountant
    sampled = ps.Subsampled(base=mechanism, scheme=ps.WithoutReplacement(n=9, m=3), relation=ps.ReplaceOne(n=9))
    assert 0 <= sampled.release(np.arange(9) / 9)["winner"][0] < 3
    assert (mechanism.accountant + mechanism.accountant).epsilon(0) == pytest.approx(0.5)


def test_a_release_builds_the_account_once():
    for rng in (None, np.random.default_rng(4)):
        mechanism = NoisyMaximum(n=3, scale=2.0)
        BUILT.clear()
        release = mechanism.release([0, 1, 1], rng=rng)
        replace(release, draws={"winner": np.array([2])})
        mechanism.release([0, 1, 1], rng=rng)
        assert BUILT == ["account"]


def test_it_is_calibrated_by_its_declared_parameter():
    made = NoisyMaximum.calibrate(n=3, target=ps.DP(epsilon=0.5), draws=2)
    assert made.scale == pytest.approx(8.0, rel=1e-6)
    assert made.accountant.epsilon(0) <= 0.5
    assert made == NoisyMaximum.calibrate(n=3, target=ps.DP(epsilon=0.5), draws=2, by="scale")
    with pytest.raises(UnreachableTarget, match="change the parameters"):
        ps.OrnsteinUhlenbeck.calibrate(sensitivity=1, theta=1, rho=1e-3, time=1, target=TARGET)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({}, TypeError, r"n must be given to calibrate: NoisyMaximum takes n, draws; calibrate determines scale"),
        ({"n": 3, "size": 4}, TypeError, "size must be left out of calibrate: NoisyMaximum takes n, draws"),
        ({"n": 3, "scale": 4.0}, TypeError, "scale must be left out of calibrate"),
        ({"n": 3, "by": "draws"}, ValueError, "by must be 'scale', got 'draws'"),
        ({"n": 3, "target": 1.0}, TypeError, r"target must be a Target such as DP\(epsilon=1, delta=1e-6\), got float"),
    ],
)
def test_calibrate_names_the_field_that_is_wrong(fields, error, message):
    with pytest.raises(error, match=message):
        NoisyMaximum.calibrate(**{"target": TARGET} | fields)


def test_calibrate_says_where_nothing_is_free():
    with pytest.raises(ValueError, match="by must be left out, DirectPosterior has no free parameter, got 'n'"):
        ps.DirectPosterior.calibrate(model=ps.BetaBernoulli(alpha=6, beta=12), n=40, target=TARGET, by="n")
    with pytest.raises(TypeError, match="base, score, constant_time, eta; calibrate determines repetitions"):
        ps.RepeatedSelection.calibrate(target=TARGET)
    with pytest.raises(TypeError, match="base must be a mechanism"):
        ps.RepeatedSelection.calibrate(base=3, target=TARGET)
    with pytest.raises(TypeError, match=r"MarkovKernel takes base, matrix, exact$"):
        ps.MarkovKernel.calibrate(base=EXAMPLES["randomized-response"], target=TARGET)


@pytest.mark.parametrize("name", ["release", "calibrate"])
def test_no_class_replaces_what_is_final(name):
    with pytest.raises(TypeError, match=f"Own must not define {name}, which is the same for all mechanisms"):
        type("Own", (Mechanism,), {name: None})


def test_what_is_not_described_is_said_to_be_unknown():
    mechanism = NoisyMaximum(n=3, scale=2.0)
    assert mechanism.title == "Noisy maximum"
    assert "random" in mechanism.description
    assert mechanism.quantity == "statistic"
    assert NoisyMaximum.examples() == ()
    for hook, message in (
        (mechanism.worst_neighbours, "NoisyMaximum defines no worst neighbours.*neighbouring_pairs"),
        (mechanism.code_count, "NoisyMaximum does not release independent codes"),
        (lambda: Mechanism.for_size(mechanism, 3), "NoisyMaximum does not take records that could be sampled"),
    ):
        with pytest.raises(TypeError, match=message):
            hook()


def test_what_describes_a_mechanism_is_text():
    for name, mechanism in EXAMPLES.items():
        for words in (mechanism.title, mechanism.description, mechanism.quantity):
            assert isinstance(words, str), name
            assert words, name
            assert "\n" not in words, name


def test_a_draw_may_have_notes_for_the_curator():
    class Noted(NoisyMaximum):
        def _draw(self, statistic, rng):
            return DrawsWithNotes(
                draws=super()._draw(statistic, rng), notes=ps.CuratorNotes(title="t", facts={"secret": 4})
            )

    release, notes = Noted(n=3, scale=2.0)._release_with_notes([0, 1, 1], None)
    assert notes.facts == {"secret": 4}
    assert set(release.draws) == {"winner"}


class Watched(SystemBits):
    """Entropy of the system that remembers which threads asked for words."""

    def __init__(self):
        self.threads = set()
        super().__init__()

    def block(self, count):
        self.threads.add(threading.current_thread())
        return super().block(count)

    def _word(self):
        self.threads.add(threading.current_thread())
        return super()._word()


@pytest.mark.parametrize("mechanism", EXAMPLES.values(), ids=EXAMPLES)
def test_no_word_is_drawn_where_a_signal_may_strike(mechanism, monkeypatch):
    bits, data = Watched(), data_for(mechanism)
    monkeypatch.setattr("privsample._entropy.system_generator", lambda: np.random.Generator(bits))
    mechanism.release(data)
    assert bits.threads
    assert threading.main_thread() not in bits.threads


@pytest.mark.parametrize("mechanism", EXAMPLES.values(), ids=EXAMPLES)
def test_nothing_is_released_without_entropy(mechanism, monkeypatch):
    bits = SystemBits()
    bits.failed = True
    monkeypatch.setattr("privsample._entropy.system_generator", lambda: np.random.Generator(bits))
    with pytest.raises(OSError, match="nothing was released"):
        mechanism.release(data_for(mechanism))


@pytest.mark.parametrize("mechanism", EXAMPLES.values(), ids=EXAMPLES)
def test_an_account_is_built_once_and_reading_leaves_the_statistic(mechanism):
    assert mechanism.accountant is mechanism.accountant
    statistic = mechanism._statistic(data_for(mechanism))
    before = pickle.dumps(statistic)
    mechanism._draw_checked(statistic, np.random.default_rng(3))
    assert pickle.dumps(statistic) == before


def test_each_free_parameter_decides_a_field():
    for mechanism in EXAMPLES.values():
        names = set(inspect.signature(type(mechanism)).parameters)
        assert {free.decides for free in mechanism.free_parameters} <= names
