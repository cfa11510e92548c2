"""The account of one pass of noisy descent, beside exact distributions of linear-quadratic descent and brute force."""

import itertools
import json

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privsample import (
    DP,
    Accountant,
    GaussianAccountant,
    LogisticLoss,
    NoisyProjectedSGD,
    ReplaceOne,
    SGDAccountant,
    SquaredLoss,
)
from privsample.accounting import gaussian_dp
from privsample.accounting.engine import tables
from privsample.accounting.engine.directions import direction_bounds
from privsample.accounting.engine.tables import TabulatedRenyi
from privsample.accounting.postprocessing.hidden_states import least_shift
from privsample.accounting.sgd import OrderPair
from privsample.accounting.subsampling import chorded
from privsample.errors import RelationMismatch

LOGISTIC = LogisticLoss(features=3, norm=1.0, radius=5.0, penalty=0.05)
SQUARED = SquaredLoss(features=2, norm=1.0, radius=2.0, target=1.0, penalty=0.1, intercept=False)


def account(**changed):
    return SGDAccountant(**({"loss": LOGISTIC, "n": 10, "rate": 0.5, "noise_std": 2.0} | changed))


def test_positions_cost_what_the_closed_form_says():
    made = account(batch=3, public_tail=2)
    contraction = max(abs(1 - 0.5 * 0.05), abs(1 - 0.5 * (0.5 + 0.05)))
    assert made.contraction == pytest.approx(contraction)
    assert made.steps == 4
    for index in range(10):
        later = 3 - index // 3 + 2
        with mp.workdps(40):
            total = mp.fsum(mp.mpf(contraction) ** (-2 * j) for j in range(later + 1))
            shift = mp.mpf(LOGISTIC.gradient_sensitivity) / 3 / 2 / mp.sqrt(total)
            assert made.shifts[index // 3] == pytest.approx(float(shift), rel=1e-11)
        position = made.accountant_at(index)
        assert position.rdp(3.0) == pytest.approx(3.0 * made.shifts[index // 3] ** 2 / 2, rel=1e-11)
        assert position.relation == ReplaceOne(n=10)
    assert made.worst_account == made.accountant_at(9)


def test_a_linear_chain_costs_exactly_that():
    """x -> L x - rate (g_i + Z), the steepest records of a quadratic loss: the last state is normal, of known
    distribution.
    """
    loss = SquaredLoss(features=1, norm=1.0, radius=1e6, target=1.0, penalty=0.3, intercept=False)
    rate, noise, n = 0.2, 0.7, 6
    made = SGDAccountant(loss=loss, n=n, rate=rate, noise_std=noise, order="given")
    shrink = 1 - rate * 0.3  # rows of zeros but the one that is replaced: the map with constant L
    assert made.contraction == pytest.approx(shrink)
    deviation = rate * noise * np.sqrt(sum(shrink ** (2 * j) for j in range(n)))
    for index in range(n):
        moved = rate * loss.gradient_sensitivity * shrink ** (n - 1 - index)
        truth = (moved / deviation) ** 2 / 2  # here the noise before the record hides it too, which maps may undo
        assert truth <= made.accountant_at(index).zcdp * (1 + 1e-10)
    assert made.accountant_at(0).zcdp == pytest.approx(
        (rate * loss.gradient_sensitivity * shrink**5 / deviation) ** 2 / 2
    )


def test_a_hidden_order_averages_curves():
    made = account(batch=3, n=10)
    shifts = made.shifts[np.arange(10) // 3]
    orders = np.array([1.001, 1.5, 4.0, 60.0])
    with mp.workdps(60):
        for order, found in zip(orders, made.rdp(orders), strict=True):
            a = mp.mpf(order)
            mean = mp.fsum(mp.exp((a - 1) * a * mp.mpf(mu) ** 2 / 2) for mu in shifts) / 10
            assert found == pytest.approx(float(mp.log(mean) / (a - 1)), rel=1e-10)
    curve = np.mean([GaussianAccountant(sensitivity=mu, noise_std=1).delta([0.0, 0.3, 1.0]) for mu in shifts], axis=0)
    assert made.delta([0.0, 0.3, 1.0]) == pytest.approx(curve, rel=1e-9)
    assert (made.rdp(orders) > np.mean([order * shifts**2 / 2 for order in orders], axis=1)).all()
    assert made.pairs[0].reverse() is made.pairs[0]
    assert made.pairs[0].is_expensive
    assert made.pure_epsilon == np.inf


@pytest.mark.parametrize(("n", "batch"), [(5000, 1), (5003, 7)])
def test_many_positions_are_charged_a_little_more_in_bins(n, batch):
    made = account(n=n, batch=batch, noise_std=4.0 / batch)
    shifts = made.shifts[np.arange(n) // batch]
    for order in (1.5, 8.0):
        exact = np.log(np.mean(np.exp((order - 1) * order * shifts**2 / 2))) / (order - 1)
        assert exact * (1 - 1e-9) <= made.rdp(order) <= exact * 1.02
    assert np.exp(made.pairs[0].log_weights).sum() == pytest.approx(1.0)


def test_the_worst_index_and_the_hidden_order():
    hidden, open_ = account(n=500), account(n=500, order="given")
    assert open_.rdp(2.0) == hidden.worst_account.rdp(2.0) == open_.worst_account.rdp(2.0)
    assert hidden.epsilon(1e-3) < open_.epsilon(1e-3)
    assert hidden.zcdp == pytest.approx(open_.zcdp)
    assert open_.kind("rdp") == "upper bound"
    assert "notes/sgd.md" in open_.source
    tail = account(n=500, order="given", public_tail=50)
    assert tail.epsilon(1e-3) < open_.epsilon(1e-3)


def test_forgotten_positions_cost_next_to_nothing():
    forgets = LogisticLoss(features=1, norm=1.0, radius=1.0, penalty=1.0, intercept=False)
    made = SGDAccountant(loss=forgets, n=2, rate=1.0, noise_std=1.0, public_tail=2000, order="given")
    assert made.contraction == pytest.approx(0.25)
    assert 0.0 < made.rdp(5.0) < 1e-260
    assert made.accountant_at(0).rdp(5.0) < 1e-260
    assert made.epsilon(1e-9) == 0.0
    assert made.pure_epsilon == np.inf


def test_a_step_that_forgets_all(monkeypatch):
    monkeypatch.setattr(LogisticLoss, "contraction", lambda self, rate: 0.0)
    assert account(public_tail=1).pure_epsilon == 0.0
    assert account(public_tail=0, order="given").rdp(2.0) > 0.0


def test_brute_force_over_two_coins():
    """One coefficient, projections that bite: hockey-sticks of the last state's distribution, by a fine grid, stay
    below.
    """
    loss = LogisticLoss(features=1, norm=1.0, radius=0.6, penalty=0.2, intercept=False)
    rate, noise = 1.5, 0.8
    grid = np.linspace(-0.6, 0.6, 401)
    edges = np.append(np.append(-np.inf, (grid[1:] + grid[:-1]) / 2), np.inf)

    def last(slopes):
        distribution = (grid == grid[200]).astype(float)
        for x in slopes:
            centre = grid - rate * (-x / (1 + np.exp(x * grid)) + 0.2 * grid)
            distribution = distribution @ np.diff(
                stats.norm.cdf((edges[None] - centre[:, None]) / (rate * noise)), axis=1
            )
        return distribution

    made = SGDAccountant(loss=loss, n=3, rate=rate, noise_std=noise, order="given")
    slack = []
    for index in range(3):
        for rest in ([1, 1], [-1, -1], [1, -1]):
            p, q = (last(np.insert(np.array(rest, dtype=float), index, x)) for x in (1.0, -1.0))
            for epsilon in (0.0, 0.5, 1.5):
                truth = np.maximum(p - np.exp(epsilon) * q, 0).sum()
                bound = made.accountant_at(index).delta(epsilon)
                assert truth <= bound + 1e-3
                slack.append(truth / bound)
    assert max(slack) > 0.5


@given(
    penalty=st.floats(0, 1),
    rate=st.floats(0.01, 1.5),
    n=st.integers(1, 30),
    batch=st.integers(1, 5),
    later=st.integers(0, 5),
)
def test_never_above_the_papers_theorem(penalty, rate, n, batch, later):
    loss = LogisticLoss(features=1, norm=1.0, radius=5.0, penalty=penalty, intercept=False)
    rho, beta = penalty, 0.25 + penalty
    if batch > n or rate > 2 / (beta + rho):
        return
    made = SGDAccountant(loss=loss, n=n, rate=rate, noise_std=1.0, batch=batch, public_tail=later)
    squared = 1 - 2 * rate * beta * rho / (beta + rho)
    after = made.steps - 1 + later
    bound = 2 / batch**2 * (1.0 if after == 0 else squared ** ((after + 1) / 2) / after)
    assert made.accountant_at(0).zcdp <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"rate": 0.0}, ValueError, "rate must be finite and > 0"),
        ({"rate": -1.0}, ValueError, "rate must be finite and > 0"),
        ({"rate": 4.0}, ValueError, r"rate must be at most 2/smoothness = 3.63636 here, got 4"),
        ({"batch": 11}, ValueError, "batch must be at most n = 10"),
        ({"public_tail": -1}, ValueError, "public_tail must be at least 0"),
        ({"noise_std": 0.0}, ValueError, "noise_std must be finite and > 0"),
        ({"order": 1}, ValueError, "order must be one of 'shuffle_once'|order must be one of 'given'"),
        ({"epochs": 0}, ValueError, "epochs must be at least 1"),
        ({"loss": None}, TypeError, "loss must be LogisticLoss"),
    ],
)
def test_bad_fields(changed, error, message):
    with pytest.raises(error, match=message):
        account(**changed)


def test_positions_outside_are_refused():
    with pytest.raises(ValueError, match=r"index must lie in 0, ..., 9, got 10"):
        account().accountant_at(10)


def test_an_order_pair_at_tiny_shifts_keeps_its_digits():
    pair = OrderPair(mus=np.array([1e-7, 2e-7]), log_weights=np.log([0.5, 0.5]))
    assert pair.renyi(np.array([2.0])) == pytest.approx([2.5e-14 * 2 / 2], rel=1e-9)


def test_noise_is_calibrated_and_the_best_that_meets_the_target():
    target = DP(epsilon=2.0, delta=1e-5)
    for order in ("shuffle_once", "given"):
        made = NoisyProjectedSGD.calibrate(loss=SQUARED, n=1000, rate=0.3, batch=20, target=target, order=order)
        assert target.met_by(made.accountant)
        less = SGDAccountant(
            loss=SQUARED, n=1000, rate=0.3, batch=20, noise_std=made.noise_std * (1 - 1e-6), order=order
        )
        assert not target.met_by(less)


@pytest.mark.parametrize("order", ["shuffle_once", "reshuffle", "given"])
def test_the_requirements_of_accounts(order):
    """Properties of every account: see tests/accounting/test_requirements.py."""
    made = account(n=60, batch=4, order=order, noise_std=1.0)
    orders = np.array([1 + 1e-5, 1.1, 2.0, 40.0, 1e6])
    values = made.rdp(orders)
    assert (np.diff(values) > 0).all()
    assert (values <= made.zcdp * orders * (1 + 1e-9)).all()
    assert made.delta(made.epsilon(1e-4)) <= 1e-4 * (1 + 1e-9)
    assert (np.diff(made.delta(np.array([-3.0, 0.0, 0.3, 2.0]))) < 0).all()
    assert (2 * made).epsilon(1e-4) > made.epsilon(1e-4)
    assert made.group(2).rdp(2.0) > made.rdp(2.0)
    assert Accountant.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_a_rare_late_position_is_not_lost_beside_one():
    """A billion positions of which the last costs all: its weight is lost where it is added to one."""
    pair = OrderPair(mus=np.array([1.3, 1e-9]), log_weights=np.array([np.log(1e-13), np.log1p(-1e-13)]))
    with mp.workdps(60):
        for order in (1.5, 2.0, 5.0):
            exponent = mp.mpf(order) * (mp.mpf(order) - 1) * mp.mpf(1.3) ** 2 / 2
            truth = mp.log1p(mp.mpf(1e-13) * mp.expm1(exponent)) / (mp.mpf(order) - 1)
            assert pair.renyi(np.array([order]))[0] == pytest.approx(float(truth), rel=1e-3)
            assert pair.renyi(np.array([order]))[0] >= float(truth)


def positions(order, batches, epochs):
    """Positions of a record in each epoch, all of them equally likely."""
    if order == "reshuffle":
        return list(itertools.product(range(batches), repeat=epochs))
    return [(place,) * epochs for place in (range(batches) if order == "shuffle_once" else [batches - 1])]


@pytest.mark.parametrize("order", ["shuffle_once", "reshuffle", "given"])
@pytest.mark.parametrize("radius", [0.6, 4.0])
def test_brute_force_over_epochs(order, radius):
    """Rows of zeros and one record in one dimension: the distribution of the last state over all orders, on a grid."""
    rate, noise, epochs, batches = 2.0, 0.8, 2, 3
    loss = LogisticLoss(features=1, norm=1.0, radius=radius, penalty=0.1, intercept=False)
    grid = np.linspace(-radius, radius, 401)
    edges = np.append(np.append(-np.inf, (grid[1:] + grid[:-1]) / 2), np.inf)

    def kernel(x):
        centre = grid - rate * (-x / (1 + np.exp(x * grid)) + 0.1 * grid)
        return np.diff(stats.norm.cdf((edges[None] - centre[:, None]) / (rate * noise)), axis=1)

    kernels = {x: kernel(x) for x in (-1.0, 0.0, 1.0)}

    def last(x):
        total = np.zeros(len(grid))
        for places in (each := positions(order, batches, epochs)):
            state = (grid == grid[200]).astype(float)
            for place in places:
                for step in range(batches):
                    state = state @ kernels[x if step == place else 0.0]
            total += state / len(each)
        return total

    made = SGDAccountant(loss=loss, n=batches, rate=rate, noise_std=noise, order=order, epochs=epochs)
    p, q = last(1.0), last(-1.0)
    ratios = [np.maximum(p - np.exp(e) * q, 0).sum() / made.delta(e) for e in (0.0, 0.3, 1.0)]
    assert 0.3 < max(ratios) <= 1 + 1e-3


def test_secret_positions_of_every_epoch_are_bounded_by_bins():
    """The mean over all pairs of positions, each by the hull of its own moves, is at most what is reported."""
    made = account(batch=2, epochs=2, order="reshuffle", n=10, noise_std=1.0)
    ones, move = np.ones(10), LOGISTIC.gradient_sensitivity / 2
    shifts = []
    for first, second in itertools.product(range(5), repeat=2):
        moves = np.zeros(10)
        moves[first] = moves[5 + second] = move
        shifts.append(least_shift(moves, ones, made.contraction * ones))
    truth = np.mean([GaussianAccountant(sensitivity=mu, noise_std=1).delta([0.3, 1.0]) for mu in shifts], axis=0)
    found = made.delta([0.3, 1.0])
    assert (truth <= found).all()
    assert (found <= 1.3 * truth).all()
    fixed = account(batch=2, epochs=2, order="shuffle_once", n=10, noise_std=1.0)
    assert (fixed.delta([0.3, 1.0]) <= found * (1 + 1e-12)).all()


def test_many_epochs_cost_less_than_their_composition():
    for order in ("shuffle_once", "reshuffle", "given"):
        costs = [account(n=500, batch=5, epochs=k, order=order, noise_std=2.0) for k in (1, 10, 100, 1000)]
        epsilons = [float(each.epsilon(1e-5)) for each in costs]
        assert all(more >= less * (1 - 1e-9) for less, more in itertools.pairwise(epsilons))
        assert epsilons[-1] < 1.01 * epsilons[-2]  # the cost has a limit
        for each in costs:
            assert each.epsilon(1e-5) <= each.composed.epsilon(1e-5) * (1 + 1e-9)
            assert each.worst_account.rdp(2.0) <= each.composed.rdp(2.0) * (1 + 1e-9)
    full = account(batch=10, epochs=7)
    gap = 1 - full.contraction**7
    expected = full.composed.zcdp / 7 * (1 + full.contraction) / (1 - full.contraction) * gap / (2 - gap)
    assert full.zcdp == pytest.approx(expected, rel=1e-9)
    assert full.epsilon(1e-5) == full.worst_account.epsilon(1e-5)
    assert "hidden_states.md" in full.source


def test_groups_of_a_given_order_have_multiples_of_the_shift():
    made = account(order="given", epochs=3)
    assert made.group(2).rdp(2.0) == pytest.approx(4 * made.rdp(2.0), rel=1e-9)
    assert made.group(2).relation == made.relation.group(2)
    assert made.group(10**6).rdp(2.0) == made.group(10).rdp(2.0)
    full = account(batch=10, epochs=3)
    assert full.group(3).rdp(2.0) == pytest.approx(9 * full.rdp(2.0), rel=1e-9)


@pytest.fixture
def short_tables(monkeypatch):
    """A sixteenth of the budget of each table, and a quarter of the orders that a search tries first.

    Chords are looser upper bounds then, and what is claimed here still holds. Under random
    allocation one value of the Rényi curve is an integral over a table of the privacy curve, and a whole table of such
    values takes ten seconds.
    """
    monkeypatch.setattr(tables, "_TABLE_BUDGET", tables._TABLE_BUDGET / 16)
    monkeypatch.setattr(chorded, "_COST", chorded._COST / 16)
    monkeypatch.setattr(gaussian_dp, "_ORDERS", gaussian_dp._ORDERS // 4)


# Under random allocation in the long lane, which takes seconds: the next test compares the table that is searched.
@pytest.mark.usefixtures("short_tables")
@pytest.mark.parametrize(
    "order", ["given", "shuffle_once", "reshuffle", pytest.param("allocated", marks=pytest.mark.long)]
)
def test_mu_and_its_regret_agree(order):
    loss = LogisticLoss(features=2, norm=1.0, radius=1.0)
    epochs = 1 if order == "allocated" else 2
    account = SGDAccountant(loss=loss, n=100, rate=0.5, noise_std=0.5, batch=25, epochs=epochs, order=order)
    mu, smaller = account.mu(), account.mu(1e-4)
    assert account.mu(np.float64(0.0)) == mu
    assert smaller <= account.mu(1e-9) <= mu
    assert account.regret(mu) == account.regret(np.float64(2.0 * mu)) == 0.0
    assert account.regret(smaller) <= 1e-4 * (1.0 + 1e-4)
    if order != "allocated":  # its curve is a bound of another kind, which may be above that of known steps
        epsilon = np.linspace(0.0, 6.0 * mu, 50)
        gaussian = GaussianAccountant(sensitivity=mu, noise_std=1.0, relation=account.relation)
        assert np.all(account.log_delta(epsilon) <= gaussian.log_delta(epsilon) + 1e-12)
    for read in (account.mu, account.regret):
        for wrong, error in ((True, TypeError), ("0", TypeError), (np.nan, ValueError), (-1.0, ValueError)):
            with pytest.raises(error, match="must"):
                read(wrong)
        with pytest.raises(RelationMismatch, match="direction"):
            read(0.1, direction="add")


@pytest.mark.usefixtures("short_tables")
def test_the_search_for_mu_under_random_allocation_reads_a_table_above_the_curve(monkeypatch):
    """The nodes of the search lie above the curve itself and close to it; those of a table that is too low do not."""
    loss = LogisticLoss(features=2, norm=1.0, radius=1.0)
    account = SGDAccountant(loss=loss, n=100, rate=0.5, noise_std=0.5, batch=25, epochs=1, order="allocated")
    epsilon = np.array([0.05, 0.4])
    (curve,) = direction_bounds(account)
    exact, on_table = curve.log_delta(epsilon), gaussian_dp._searchable(curve)
    found = on_table.log_delta(epsilon)
    assert np.all(found >= exact)
    assert found == pytest.approx(exact, abs=1e-3)
    values = TabulatedRenyi.__call__
    monkeypatch.setattr(TabulatedRenyi, "__call__", lambda table, orders: 0.8 * values(table, orders))
    assert np.any(on_table.log_delta(epsilon) < exact)
