"""One pass of noisy projected descent."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample import (
    LogisticLoss,
    NoisyProjectedSGD,
    PointStart,
    PublicRecords,
    Release,
    SGDAccountant,
    SquaredLoss,
    StatedStart,
    UniformInBall,
)
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.compose import compose
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.subsampling.allocation import allocation_pair
from privsample.errors import SchemaError
from privsample.mechanisms import sgd

LOGISTIC = LogisticLoss(features=2, norm=1.0, radius=1.5, penalty=0.1)
SQUARED = SquaredLoss(features=2, norm=2.0, radius=3.0, target=1.0, penalty=0.1)
FIELDS = {"n": 7, "rate": 0.3, "noise_std": 0.5, "batch": 2}
ROWS = np.array([[0.1, 0.2], [3.0, 4.0], [np.nan, 1.0], [0.0, 0.0], [-5, np.inf], [0.3, 0.1], [1.0, -1.0]])
TARGETS = np.array([1.0, 0.0, 1.0, np.nan, 5.0, 1.0, 0.0])


def test_a_radius_whose_square_overflows_projects_nothing():
    made = NoisyProjectedSGD(loss=replace(LOGISTIC, radius=1e200), **FIELDS)
    assert np.isfinite(made.release((ROWS, TARGETS))["coefficients"]).all()


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED, LogisticLoss(features=2, norm=1, radius=1, intercept=False)])
@pytest.mark.parametrize("order", ["shuffle_once", "reshuffle", "given"])
def test_any_record_is_taken_and_the_state_stays_in_the_ball(loss, order, rng):
    made = NoisyProjectedSGD(loss=loss, order=order, epochs=2, **FIELDS)
    for source in (None, rng):
        released = made.release((ROWS, TARGETS), rng=source)
        state = np.append(released["coefficients"][0], released.draws.get("intercept", []))
        assert state.shape == (loss.width,)
        assert np.linalg.norm(state) <= loss.radius * (1 + 1e-12)
        assert Release.from_json(released.to_json()) == released
    assert made.accountant == SGDAccountant(loss=loss, order=order, epochs=2, **FIELDS)


def by_hand(loss, rows, targets, noise, rate, batch):
    """Record by record."""
    state = np.zeros(loss.width)
    for k in range(len(noise)):
        gradient = np.zeros(loss.width)
        for raw, target in zip(rows[k * batch : (k + 1) * batch], targets[k * batch : (k + 1) * batch], strict=True):
            row = np.where(np.isfinite(raw), raw, 0.0)
            x = np.append(row * min(1.0, loss.norm / max(np.linalg.norm(row), 1e-300)), 1.0)
            if isinstance(loss, LogisticLoss):
                sign = 1.0 if target == 1.0 else -1.0
                gradient += -sign * x / (1 + np.exp(sign * (x @ state))) / batch
            else:
                y = np.clip(np.nan_to_num(target), -loss.target, loss.target)
                gradient += (x @ state - y) * x / batch
        state = state - rate * (gradient + loss.penalty * state + noise[k])
        state = state * min(1.0, loss.radius / max(np.linalg.norm(state), 1e-300))
    return state


@pytest.mark.parametrize("loss", [LOGISTIC, SQUARED])
def test_steps_are_those_of_the_algorithm(loss):
    made = NoisyProjectedSGD(loss=loss, order="given", **FIELDS)
    released = made.release((ROWS, TARGETS), rng=np.random.default_rng(3))
    noise = 0.5 * np.random.default_rng(3).standard_normal((4, 3))
    expected = by_hand(loss, ROWS, TARGETS, noise, 0.3, 2)
    assert np.append(released["coefficients"][0], released["intercept"]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("cells", [1 << 22, 4])
def test_later_epochs_go_on_from_there(cells, monkeypatch):
    """Also where the records do not fit into the memory of one pass and are cleaned batch by batch."""
    monkeypatch.setattr(sgd, "_CELLS", cells)
    made = NoisyProjectedSGD(loss=LOGISTIC, order="given", epochs=3, **(FIELDS | {"n": 6}))
    released = made.release((ROWS[:6], TARGETS[:6]), rng=np.random.default_rng(3))
    noise = 0.5 * np.random.default_rng(3).standard_normal((9, 3))
    expected = by_hand(LOGISTIC, np.tile(ROWS[:6], (3, 1)), np.tile(TARGETS[:6], 3), noise, 0.3, 2)
    assert np.append(released["coefficients"][0], released["intercept"]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("order", "accepted"), [("reshuffle", True), ("shuffle_once", False), ("given", False)])
def test_orders_of_two_epochs(order, accepted, rng, alpha):
    """The first record of two moves the state to 1, the second to -1, up to what the step before leaves: with the rate
    1/2, the signs of the last two steps can be read off the last state.
    """
    loss = SquaredLoss(features=1, norm=1.0, radius=10.0, target=1.0, intercept=False)
    made = NoisyProjectedSGD(loss=loss, n=2, rate=0.5, noise_std=1e-9, order=order, epochs=2)
    data = (np.ones((2, 1)), np.array([1.0, -1.0]))
    orders = {}
    for first in ([1, -1], [-1, 1]):
        for second in ([1, -1], [-1, 1]):
            state = 0.0
            for target in (*first, *second):
                state += (target - state) / 2
            orders[round(state, 6)] = 0
    for _ in range(800):
        orders[round(made.release(data, rng=rng)["coefficients"].item(), 6)] += 1
    assert (stats.chisquare(list(orders.values())).pvalue > alpha) == accepted


def test_a_public_tail_goes_on_from_there():
    public = PublicRecords(rows=np.array([[0.5, 0.5]]), targets=np.array([1.0]))
    made = NoisyProjectedSGD(loss=LOGISTIC, order="given", public_tail=2, public=public, **FIELDS)
    source = np.random.default_rng(3)
    noise = 0.5 * np.vstack([source.standard_normal((4, 3)), source.standard_normal((2, 3))])
    first = by_hand(LOGISTIC, ROWS, TARGETS, noise[:4], 0.3, 2)
    released = made.release((ROWS, TARGETS), rng=np.random.default_rng(3))
    state = first
    for push in noise[4:]:
        x = np.append(public.rows[0], 1.0)
        state = state - 0.3 * (-x / (1 + np.exp(x @ state)) + 0.1 * state + push)
        state = state * min(1.0, 1.5 / np.linalg.norm(state))
    assert np.append(released["coefficients"][0], released["intercept"]) == pytest.approx(state, rel=1e-12)
    assert made.accountant.public_tail == 2
    assert Release.from_json(released.to_json()) == released


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.7, False)])
def test_noise_has_the_declared_scale(factor, accepted, rng, alpha):
    loss = LogisticLoss(features=1, norm=1.0, radius=1e9, penalty=0.2, intercept=False)
    made = NoisyProjectedSGD(loss=loss, n=3, rate=0.5, noise_std=2.0 * factor)
    zeros = (np.zeros((3, 1)), np.zeros(3))
    ends = [made.release(zeros, rng=rng)["coefficients"].item() for _ in range(2500)]
    deviation = 0.5 * 2.0 * np.sqrt(1 + 0.9**2 + 0.9**4)
    assert (stats.kstest(ends, stats.norm(0, deviation).cdf).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("order", "accepted"), [("shuffle_once", True), ("given", False)])
def test_a_hidden_order_is_drawn_anew(order, accepted, rng, alpha):
    loss = SquaredLoss(features=1, norm=1.0, radius=10.0, target=1.0, intercept=False)
    made = NoisyProjectedSGD(loss=loss, n=2, rate=1.0, noise_std=1e-9, order=order)
    data = (np.ones((2, 1)), np.array([1.0, -1.0]))
    last = [made.release(data, rng=rng)["coefficients"].item() > 0 for _ in range(800)]
    assert (stats.binomtest(int(sum(last)), 800, 0.5).pvalue > alpha) == accepted


def test_the_curator_hears_what_the_rule_changes():
    made = NoisyProjectedSGD(loss=SQUARED, **FIELDS)
    assert made.validate((ROWS, TARGETS)).facts == {
        "not finite": 2,
        "scaled down": 1,
        "targets that are no number": 1,
        "targets out of bounds": 1,
    }
    assert NoisyProjectedSGD(loss=LOGISTIC, **FIELDS).validate((ROWS, TARGETS)).facts == {
        "not finite": 2,
        "scaled down": 2,
        "labels that are neither 0 nor 1": 2,
    }


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"public_tail": 3}, "must be given together"),
        ({"public": PublicRecords(rows=np.ones((1, 2)), targets=np.ones(1))}, "must be given together"),
        (
            {"public_tail": 1, "public": PublicRecords(rows=np.ones((1, 3)), targets=np.ones(1))},
            "public rows must have 2 features, got 3",
        ),
    ],
)
def test_public_records_must_fit(more, message):
    with pytest.raises(ValueError, match=message):
        NoisyProjectedSGD(loss=LOGISTIC, **FIELDS, **more)


def test_bad_input():
    with pytest.raises(ValueError, match="rows and targets must have shapes"):
        PublicRecords(rows=np.ones((2, 2)), targets=np.ones(1))
    with pytest.raises(TypeError, match="intercept must be True or False"):
        LogisticLoss(features=1, norm=1, radius=1, intercept=2)
    for bad in ({"norm": 0.0}, {"radius": np.inf}, {"penalty": -1.0}, {"features": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            LogisticLoss(**({"features": 1, "norm": 1, "radius": 1} | bad))
    made = NoisyProjectedSGD(loss=LOGISTIC, **FIELDS)
    with pytest.raises(SchemaError, match="7 records were declared, the data hold 6 labels"):
        made.release((ROWS, TARGETS[1:]))
    with pytest.raises(SchemaError, match="must be a pair"):
        made.release(ROWS)
    with pytest.raises(TypeError, match="seeded"):
        made.release((ROWS, TARGETS), rng=3)


def test_the_initial_state_is_drawn_projected_and_free(rng):
    made = NoisyProjectedSGD(loss=LOGISTIC, order="given", n=2, rate=1e-9, noise_std=1e-9)
    data = (ROWS[:2], TARGETS[:2])
    for initial, expected in (
        (None, np.zeros(3)),
        (PointStart(point=(0.5, 0.25, -0.5)), [0.5, 0.25, -0.5]),
        (PointStart(point=(30, 0, 40)), [0.9, 0, 1.2]),
        (StatedStart(function=lambda width, rng: np.full(width, 0.1)), [0.1, 0.1, 0.1]),
    ):
        started = replace(made, initial=initial)
        released = started.release(data, rng=rng)
        state = np.append(released["coefficients"][0], released["intercept"])
        assert state == pytest.approx(expected, abs=1e-6)
        assert started.accountant == made.accountant


@pytest.mark.statistical
@pytest.mark.parametrize(("power", "accepted"), [(3, True), (1, False)])
def test_a_uniform_start_fills_its_ball(power, accepted, rng, alpha):
    """The distance to the centre, to the power of the dimension, is uniform, and so is each direction's sign."""
    states = np.array([UniformInBall(radius=2.0).sample(3, rng) for _ in range(4000)])
    distances = np.linalg.norm(states, axis=1) / 2.0
    assert (stats.kstest(distances**power, "uniform").pvalue > alpha) == accepted
    heights = states[:, 0] / np.linalg.norm(states, axis=1)  # uniform on [-1, 1] in three dimensions (Archimedes)
    assert stats.kstest((heights + 1) / 2, "uniform").pvalue > alpha


def test_a_release_with_an_initial_distribution_is_saved():
    made = NoisyProjectedSGD(loss=SQUARED, initial=UniformInBall(radius=1.0), **FIELDS)
    released = made.release((ROWS, TARGETS))
    assert Release.from_json(released.to_json()) == released


def test_bad_initial_states_are_refused():
    for initial, error, found in (
        (np.zeros(3), TypeError, "initial must be an InitialDistribution or None, got ndarray"),
        (PointStart(point=(1.0,)), ValueError, "initial must have 3 coordinates, one for each coefficient, got 1"),
    ):
        with pytest.raises(error, match=found):
            NoisyProjectedSGD(loss=SQUARED, initial=initial, **FIELDS)
    for broken in (lambda width, rng: np.zeros(width + 1), lambda width, rng: np.full(width, np.nan)):
        made = NoisyProjectedSGD(loss=SQUARED, initial=StatedStart(function=broken), **FIELDS)
        with pytest.raises(ValueError, match="initial must draw 3 finite numbers"):
            made.release((ROWS, TARGETS))


def test_allocated_records_are_a_group_of_two_random_allocations():
    loss = ps.LogisticLoss(features=2, norm=1.0, radius=1.0, intercept=False)
    made = ps.NoisyProjectedSGD(loss=loss, n=40, rate=0.5, noise_std=0.15, batch=10, epochs=2, order="allocated")
    account = made.accountant
    pair = GaussianPair(mu=account._record_shift)
    sides = [(allocation_pair(pair, 4, removed=removed),) for removed in (True, False)]
    epoch = PrivacyBounds.from_pairs(*sides, exact=frozenset())
    one = float(views.log_delta(compose([(epoch, 2)]), np.array(1.0)))
    chained = np.log(np.expm1(2.0) / np.expm1(1.0)) + one  # a group of two at twice the epsilon
    assert chained - 1e-3 <= float(account.log_delta(2.0)) <= chained + 1e-2  # the engine reads a table
    assert account.mu() == account.composed.mu()
    assert account.zcdp <= account.composed.zcdp
    assert account.approximate is not account
    assert "allocation.md" in account.source
    with pytest.raises(ValueError, match="order must not be 'allocated'"):
        account.accountant_at(0)
    with pytest.raises(ValueError, match="order must not be 'allocated'"):
        account.shifts  # noqa: B018


def test_allocated_batches_are_a_partition_of_each_epoch():
    loss = ps.SquaredLoss(features=1, norm=1.0, radius=50.0, target=1.0, intercept=False)
    made = ps.NoisyProjectedSGD(loss=loss, n=30, rate=0.5, noise_std=1e-9, batch=10, order="allocated")
    order, edges = made._batches(np.random.default_rng(0))
    assert sorted(order.tolist()) == list(range(30))
    assert (edges[0], edges[-1], len(edges)) == (0, 30, 4)
    assert made.release((np.full((30, 1), 0.1), np.ones(30)))["coefficients"].shape == (1, 1)
