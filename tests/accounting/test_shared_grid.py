"""Grids that serve many questions: no answer is below the truth, and none depends on the questions before it."""

import mpmath as mp
import numpy as np
import pytest

from privsample import GaussianAccountant, LaplaceAccountant
from privsample.accounting.loss import grid
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.grid_curve import Composition
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, binary_pair
from privsample.accounting.loss.shared_grid import SharedGrids
from privsample.accounting.posterior.beta import BetaPair
from tests.accounting.test_grid import binomial

pytestmark = pytest.mark.filterwarnings("error")
LOOSE = 5e-7  # more than the stated error of epsilon, 3e-7 nats
ADDITIVE = 10 * LaplaceAccountant(sensitivity=1, scale=2) + 5 * GaussianAccountant(sensitivity=1, noise_std=4)


@pytest.fixture
def built(monkeypatch):
    """The ranges for which grids are built."""
    ranges = []
    plain = grid.compose_for_range

    def compose(members, log_deltas, growth):
        ranges.append(log_deltas)
        return plain(members, log_deltas, growth)

    monkeypatch.setattr(grid, "compose_for_range", compose)
    return ranges


def test_one_grid_answers_all_usual_deltas(built):
    account = 1 * ADDITIVE
    (pair,) = account.bounds.pairs
    deltas = np.geomspace(1e-12, 1e-2, 60)
    epsilons = account.epsilon(deltas)
    assert len(built) == 1
    assert (np.diff(epsilons) < 0.0).all()
    for log_delta, epsilon in zip(np.log(deltas)[::20], epsilons[::20], strict=True):
        alone = grid.compose_at_log_delta(pair.members, float(log_delta)).epsilon(float(log_delta))
        assert abs(epsilon - alone) <= LOOSE


def test_the_curve_and_what_follows_from_it_take_few_grids(built):
    account = 1 * ADDITIVE
    account.delta(np.linspace(0.0, 10.0, 40))
    account.loss_tail(np.linspace(0.0, 5.0, 6))
    account.tradeoff(np.linspace(0.1, 0.9, 9))
    assert len(built) <= 8


MEMBERS = ((binary_pair(0.1), 400),)
TRUTH = binomial(0.1, 400)


@pytest.mark.parametrize("delta", [0.6, 0.1, 1e-3, 1e-9, 1e-17, 1e-30, 1e-100, 1e-300])
def test_no_epsilon_is_below_the_truth(delta):
    with mp.workdps(50):
        found = SharedGrids(members=MEMBERS).epsilon(float(np.log(delta)))
        assert TRUTH(found) <= delta * (1 + mp.mpf(10) ** -9)
        assert found <= 1e-11 or TRUTH(found - LOOSE) > delta


def test_no_delta_is_below_the_truth():
    shared = SharedGrids(members=MEMBERS)
    with mp.workdps(50):
        for at in (0.0, 0.3, 2.0, 7.0, 13.0, 20.0, 39.0, 39.9975, 39.999):
            excess = shared.log_delta(at) - float(mp.log(TRUTH(at)))
            assert -1e-12 <= excess <= 1e-5 * (1.0 + at)


def test_answers_do_not_depend_on_the_questions_before():
    deltas = [0.4, 1e-2, 1e-6, 1e-15, 1e-17, 1e-40, 1e-6]
    members = ((LaplacePair(shift=0.3), 20), (GaussianPair(mu=1.0), 1))
    for ask, questions in (
        (SharedGrids.epsilon, [float(np.log(delta)) for delta in deltas]),
        (SharedGrids.log_delta, [0.0, 0.5, 1.7, 3.0, 5.5]),
    ):
        forward, backward = SharedGrids(members=members), SharedGrids(members=members)
        first = [ask(forward, x) for x in questions]
        assert first == [ask(backward, x) for x in questions[::-1]][::-1]
        assert first == [ask(forward, x) for x in questions]
        assert first[2] == ask(SharedGrids(members=members), questions[2])


def test_grids_answer_only_where_their_rounding_errors_do_not_count(monkeypatch):
    """Far from its centre, the wide grid of a million releases would be off by far more than the stated error."""
    members, log_delta = ((binary_pair(0.001), 10**6),), float(np.log(0.3))
    with mp.workdps(50):
        truth = binomial(0.001, 10**6)
        found = SharedGrids(members=members).epsilon(log_delta)
        assert truth(found) <= 0.3
        assert truth(found - LOOSE) > 0.3
        monkeypatch.setattr(Composition, "is_sharp", lambda self, epsilon, log_delta: True)
        assert truth(SharedGrids(members=members).epsilon(log_delta) - 2 * LOOSE) < 0.3


def test_above_all_losses_only_the_infinity_mass_is_left(built):
    failing = DiscretePair(log_p=np.log([1e-7, 1 - 1e-7]), log_q=np.array([-np.inf, 0.0]))
    shared = SharedGrids(members=((GaussianPair(mu=0.3), 1), (failing, 10)))
    infinite = float(np.log(-np.expm1(10 * np.log1p(-1e-7))))
    found = shared.log_deltas(np.array([5.0, 50.0, 500.0]))
    assert found == pytest.approx([infinite] * 3, abs=1e-8)
    assert (found >= infinite - 1e-12).all()
    assert len(built) <= 2
    assert shared.epsilon(infinite - 1e-3) == np.inf


def test_deep_tails_are_answered_too():
    shared = SharedGrids(members=((binary_pair(2.0), 30), (binary_pair(1.0), 3)))
    for at in (40.0, 55.0, 62.5):
        alone = grid.compose_at_epsilon(shared.members, at).log_delta(at)
        assert shared.log_delta(at) == pytest.approx(alone, abs=1e-4)
    assert shared.epsilon(-2e4) <= 63.1


def test_members_with_few_values_keep_grids_of_their_own(built):
    """Wider truncation bounds would make their grids coarser: epsilon by up to a thousandth."""
    members = ((BetaPair(a=3.0, b=8.0, step=0.7), 2), (LaplacePair(shift=0.4), 3))
    shared = SharedGrids(members=members)
    assert shared.epsilon(-10.0) == grid.compose_at_log_delta(members, -10.0).epsilon(-10.0)
    assert not built
    shared.log_delta(shared.epsilon(-10.0))
    assert [last - first for first, _, last in built] == pytest.approx([-4.5])  # t from 4 to 5
