"""Random allocation: enumeration, quadrature, limits, bad input, and mutants that the checks refute."""

import itertools
import math

import mpmath
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, LossPair, binary_pair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.subsampling import allocation_bounds
from privsample.accounting.subsampling.allocation import AllocationPair, allocation_pair, allocation_pairs
from privsample.errors import NotCertified, RelationMismatch


def both(base: LossPair, steps: int, epsilon: float) -> tuple[float, float]:
    """Delta of removal and of addition at one epsilon."""
    pairs = allocation_pair(base, steps, removed=True), allocation_pair(base.reverse(), steps, removed=False)
    removal, addition = (math.exp(pair.log_delta(np.array([epsilon]))[0]) for pair in pairs)
    return removal, addition


def enumerated(q: list[float], p: list[float], steps: int, times: int, epsilon: float) -> tuple[float, float]:
    """Delta of removal and of addition from all outputs of an epoch and all sets of steps, without the library."""
    sets = list(itertools.combinations(range(steps), times))
    removal = addition = 0.0
    for output in itertools.product(range(len(q)), repeat=steps):
        without = math.prod(q[y] for y in output)
        each = (math.prod((p if i in chosen else q)[y] for i, y in enumerate(output)) for chosen in sets)
        included = math.fsum(each) / len(sets)
        removal += max(included - math.exp(epsilon) * without, 0.0)
        addition += max(without - math.exp(epsilon) * included, 0.0)
    return removal, addition


def response(epsilon: float) -> tuple[list[float], list[float]]:
    likely = 1 / (1 + math.exp(-epsilon))
    return [1 - likely, likely], [likely, 1 - likely]


def allocated(epsilon: float, steps: int, times: int) -> ps.SubsampledAccountant:
    base = ps.RandomizedResponseAccountant(log_odds=epsilon, categories=2, relation=ps.AddRemove())
    return ps.SubsampledAccountant(base=base, scheme=ps.RandomAllocation(steps=steps, times=times))


def directions(account: ps.Accountant, epsilon: float) -> tuple[float, float]:
    groups = account.bounds.directions
    removal, addition = (math.exp(pair.log_delta(np.array([epsilon]))[0]) for (pair,) in (groups[0], groups[-1]))
    return removal, addition


def test_randomized_response_agrees_with_enumeration() -> None:
    expected = 0.1514201955107864, 0.15230565195653945
    assert both(binary_pair(1.0), 5, 0.1) == pytest.approx(expected, abs=1e-12)
    assert enumerated(*response(1.0), 5, 1, 0.1) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("loss", "steps"), [(1e-15, 20), (1e-14, 3), (1e-14, 7), (1e-8, 7), (1e-6, 7), (0.3, 50), (2.0, 11)]
)
def test_no_digit_is_lost_downwards(loss: float, steps: int) -> None:
    """Against sums over the number of ones at 60 digits, up to the largest loss and for losses next to nothing."""
    account = allocated(loss, steps, 1)
    with mpmath.workdps(60):
        grown = mpmath.exp(loss)
        likely = grown / (1 + grown)
        rows = [(mpmath.binomial(steps, k), (k * grown + (steps - k) / grown) / steps, k) for k in range(steps + 1)]

        def of_q(ways: mpmath.mpf, k: int) -> mpmath.mpf:
            return ways * (1 - likely) ** k * likely ** (steps - k)

        for share in (0.0, 0.25, 0.9, 0.999, 1 - 1e-9, 1 - 1e-12):
            epsilon = loss * share
            kept = mpmath.exp(epsilon)
            removed = mpmath.fsum(of_q(ways, k) * max(mean - kept, 0) for ways, mean, k in rows)
            added = mpmath.fsum(of_q(ways, k) * max(1 - kept * mean, 0) for ways, mean, k in rows)
            true, found = max(removed, added), account.delta(epsilon)
            assert true <= found <= true * (1 + 1e-11 + 1e-15 / (1 - share))
        moments = [mpmath.fsum(of_q(ways, k) * mean**power for ways, mean, k in rows) for power in (2, -1)]
        true = mpmath.log(max(moments))
        assert true <= float(account.rdp(2.0)) <= true * (1 + 1e-13)


def test_addition_may_cost_more_than_removal() -> None:
    """An account of one direction only is below the truth; that is the mutant of the two directions."""
    removal, addition = both(binary_pair(1.0), 5, 0.1)
    true = max(enumerated(*response(1.0), 5, 1, 0.1))
    assert removal < true <= addition * (1 + 1e-12)
    assert float(allocated(1.0, 5, 1).delta(0.1)) >= true


@pytest.mark.parametrize(("steps", "times"), [(2, 1), (3, 2), (4, 2), (4, 3), (5, 2), (5, 3), (6, 4), (4, 4)])
@pytest.mark.parametrize("base", [0.5, 2.0])
def test_several_times_are_never_below_enumeration(steps: int, times: int, base: float) -> None:
    account = allocated(base, steps, times)
    for epsilon in (0.1, 0.5, 1.5):
        true, bound = enumerated(*response(base), steps, times, epsilon), directions(account, epsilon)
        assert all(have >= want * (1 - 1e-12) - 1e-15 for have, want in zip(bound, true, strict=True))
        if times in (1, steps):  # exact: one block, or all steps
            assert bound == pytest.approx(true, rel=1e-9, abs=1e-12)


def test_seven_steps_three_times() -> None:
    true = 0.7290405081863187, 0.7610439791448333
    assert enumerated(*response(2.0), 7, 3, 0.5) == pytest.approx(true, abs=1e-12)
    bound = directions(allocated(2.0, 7, 3), 0.5)
    assert all(want <= have <= want + 0.1 for have, want in zip(bound, true, strict=True))


def test_infinite_losses_are_counted_once() -> None:
    """An output that is possible only with the record, and one that is possible only without it."""
    q, p = [0.6, 0.3, 0.1, 0.0], [0.5, 0.4, 0.0, 0.1]
    with np.errstate(divide="ignore"):
        pair = DiscretePair(log_p=np.log(p), log_q=np.log(q))
    for epsilon in (0.0, 0.05, 0.5, 3.0):
        assert both(pair, 4, epsilon) == pytest.approx(enumerated(q, p, 4, 1, epsilon), rel=1e-9, abs=1e-13)


def test_lattice_agrees_with_the_table_of_a_finite_base() -> None:
    """The lattice for a base of which it knows only the curve, including infinite losses; never below the table.

    A base with many steps is compared where epochs of it are composed.
    """
    with np.errstate(divide="ignore"):
        finite = DiscretePair(log_p=np.log([0.5, 0.4, 0.0, 0.1]), log_q=np.log([0.6, 0.3, 0.1, 0.0]))
    for removed in (True, False):
        table = allocation_pair(finite, 12, removed=removed)
        lattice = AllocationPair(base=finite, steps=12, removed=removed)
        e = np.array([-0.4, 0.02, 0.25])
        above = np.exp(lattice.log_delta(e)) - np.exp(table.log_delta(e))
        assert (above >= -1e-13).all()
        assert (above <= 2e-6).all()


def quadrature(mu: float, epsilon: float) -> tuple[float, float]:
    """Delta of two steps with Gaussian noise, by integrating over the output of the first step at 30 digits."""
    mpmath.mp.dps = 30
    e, m = mpmath.e ** mpmath.mpf(epsilon), mpmath.mpf(mu)

    def upper(c: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Q(Y > c) and P(Y > c)."""
        if c <= 0:
            return mpmath.mpf(1), mpmath.mpf(1)
        z = mpmath.log(c) / m + m / 2
        return mpmath.ncdf(-z), mpmath.ncdf(m - z)

    def ratio(z: mpmath.mpf) -> mpmath.mpf:
        return mpmath.e ** (m * z - m * m / 2)

    def remove(z: mpmath.mpf) -> mpmath.mpf:
        q, p = upper(2 * e - ratio(z))
        return mpmath.npdf(z) * (p - (2 * e - ratio(z)) * q) / 2

    def add(z: mpmath.mpf) -> mpmath.mpf:
        c = 2 / e - ratio(z)
        q, p = upper(c)
        return mpmath.npdf(z) * e * (c * (1 - q) - (1 - p)) / 2 if c > 0 else mpmath.mpf(0)

    kinks = [(mpmath.log(2 * x) + m * m / 2) / m for x in (e, 1 / e)]
    return tuple(
        float(mpmath.quad(f, [-12, *sorted([kink]), 12 + 2 * m]))
        for f, kink in ((remove, kinks[0]), (add, kinks[1]))  # type: ignore[return-value]
    )


@pytest.mark.parametrize(("std", "epsilon"), [(1.0, 1.0), (2.0, 0.5), (0.7, 2.0)])
def test_two_gaussian_steps_agree_with_quadrature(std: float, epsilon: float) -> None:
    true = quadrature(1 / std, epsilon)
    bound = both(GaussianPair(mu=1 / std), 2, epsilon)
    assert all(want <= have <= want * (1 + 2e-6) for have, want in zip(bound, true, strict=True))


@pytest.mark.parametrize(
    ("base", "steps", "delta", "true"),
    [  # the values for Gaussian noise from a Laplace inversion, to about 1e-6
        (GaussianPair(mu=1.0), 100, 1e-5, (0.620939, 0.421953)),
        (GaussianPair(mu=1.0), 1000, 1e-6, (0.171728, 0.149430)),
        (GaussianPair(mu=1e-6), 100, 1e-9, (1.938355e-7, 1.938355e-7)),
        (LaplacePair(shift=1.0), 100, 1e-6, (0.325512, 0.408864)),
    ],
)
def test_epsilon_of_many_steps(base: LossPair, steps: int, delta: float, true: tuple[float, float]) -> None:
    for removed, value in zip((True, False), true, strict=True):
        pair = allocation_pair(base, steps, removed=removed)
        epsilon = pair.least_epsilon(math.log(delta))
        assert value <= epsilon <= value * (1 + 2e-6) + 2e-6 * (steps < 1e6) * value + 1.1e-6 * (base.reverse() == base)
        assert (
            pair.log_delta(np.array([epsilon]))[0] <= math.log(delta) < pair.log_delta(np.array([epsilon * 0.999]))[0]
        )


def test_heavy_tails() -> None:
    """With little noise one step decides: removal costs what the base does at epsilon + log t."""
    base = GaussianPair(mu=5.0)
    pair = AllocationPair(base=base, steps=10, removed=True)
    for epsilon in (21.0, 30.8, 39.0):
        one = base.log_delta(np.array([epsilon + math.log(10)]))[0]
        assert one <= pair.log_delta(np.array([epsilon]))[0] <= one + 0.02
    assert allocation_pair(base, 10, removed=False).least_epsilon(math.log(1e-5)) == pytest.approx(15.78123, abs=1e-4)


def test_poisson_sampling_in_place_of_allocation_is_refuted() -> None:
    """A mutant: t steps of Poisson sampling at rate 1/t cost less than allocation in the direction of addition."""
    true = enumerated(*response(1.0), 5, 1, 0.1)
    base = ps.RandomizedResponseAccountant(log_odds=1.0, categories=2, relation=ps.AddRemove())
    poisson = 5 * ps.SubsampledAccountant(base=base, scheme=ps.PoissonSampling(rate=0.2))
    gaps = [have - want for have, want in zip(directions(poisson, 0.1), true, strict=True)]
    assert max(abs(gap) for gap in gaps) > 0.005


def test_curves_are_monotone_and_invert() -> None:
    account = ps.SubsampledAccountant(
        base=ps.LaplaceAccountant(sensitivity=1, scale=1), scheme=ps.RandomAllocation(steps=20)
    )
    e = np.concatenate([np.linspace(-1.0, 1.2, 200), [5.0, 1e6]])
    log_delta = account.log_delta(e)
    assert (np.diff(np.maximum(log_delta, -1e3)) <= 1e-9).all()
    assert log_delta[-1] == -np.inf
    for delta in (0.4, 1e-3, 1e-8, 1e-30, 1e-200):
        epsilon = float(account.epsilon(delta))
        assert account.delta(epsilon) <= delta * (1 + 1e-9)
        assert epsilon <= account.pure_epsilon
    assert account.rdp(4.0) <= account.base.rdp(4.0)


def test_far_tail_of_unbounded_losses() -> None:
    pair = AllocationPair(base=GaussianPair(mu=1.0), steps=20, removed=True)
    logs = pair.log_delta(np.array([12.0, 16.0, 600.0, 1e7]))
    base = GaussianPair(mu=1.0).log_delta(np.array([12.0, 16.0, 600.0, 1e7]))
    assert (logs <= base).all()
    assert (logs >= base - 40.0)[:2].all()
    assert (np.diff(logs) < 0.0).all()
    assert pair.least_epsilon(-1e6) == GaussianPair(mu=1.0).least_epsilon(-1e6)
    assert 12.0 < pair.least_epsilon(float(logs[0]) - 1.0) < 16.0


def test_least_epsilon_between_two_lattices() -> None:
    """Next to the end of a lattice the approximation may name the wrong one; the result is the least valid epsilon."""
    for mu, steps, removed in ((1.0, 50, True), (3.0, 3, False)):
        pair = AllocationPair(base=GaussianPair(mu=mu), steps=steps, removed=removed)
        for end in pair._ends[:2]:
            values = pair.log_delta(np.array([np.nextafter(end, 0.0), end])).tolist()
            for goal in (*values, sum(values) / 2, (values[1] + pair._approximate(end)) / 2):
                epsilon = pair.least_epsilon(goal)
                assert pair.log_delta(np.array([epsilon]))[0] <= goal
                assert epsilon == 0.0 or pair.log_delta(np.array([epsilon * (1 - 1e-6)]))[0] > goal - 1e-9


def test_one_step_and_all_steps_are_the_base() -> None:
    assert allocation_pair(binary_pair(1.0), 1, removed=True) == binary_pair(1.0)
    base = ps.GaussianAccountant(sensitivity=1, noise_std=2)
    one = ps.SubsampledAccountant(base=base, scheme=ps.RandomAllocation(steps=1))
    every = ps.SubsampledAccountant(base=base, scheme=ps.RandomAllocation(steps=5, times=5))
    assert one.epsilon(1e-5) == base.epsilon(1e-5)
    assert one.kind("delta") == "exact"
    assert every.epsilon(1e-5) == pytest.approx(float((5 * base).epsilon(1e-5)), rel=1e-12)


def test_composition_over_epochs_and_with_other_releases() -> None:
    epoch = ps.SubsampledAccountant(
        base=ps.LaplaceAccountant(sensitivity=1, scale=2), scheme=ps.RandomAllocation(steps=30)
    )
    other = ps.GaussianAccountant(sensitivity=1, noise_std=5)
    total = 10 * epoch + other
    assert max(epoch.epsilon(1e-6), other.epsilon(1e-6)) < total.epsilon(1e-6)
    assert total.epsilon(1e-6) < 10 * epoch.epsilon(1e-7) + other.epsilon(3e-7)
    assert epoch.to(ps.ReplaceOne(n=50)).epsilon(1e-6) > epoch.epsilon(1e-6)


def test_composed_lattices_agree_with_composed_tables() -> None:
    """Epochs composed from the lattices' table of losses, against the product of the exact tables."""
    for removed in (True, False):
        table = allocation_pair(binary_pair(0.3), 60, removed=removed)
        lattice = AllocationPair(base=binary_pair(0.3), steps=60, removed=removed)
        losses = lattice._table
        e = np.linspace(-0.3, 0.3, 61)
        falls = np.maximum(np.exp(losses.log_p) - np.exp(e[:, None] + losses.log_p - losses.loss), 0.0)
        assert (falls.sum(axis=1) + np.exp(losses.log_infinite) >= np.exp(table.log_delta(e))).all()
        true, found = (ProductPair(members=((pair, 20),)).least_epsilon(-11.5) for pair in (table, lattice))
        assert true * (1 - 1e-7) <= found <= true * (1 + 3e-6)


def test_ten_epochs_of_gaussian_steps() -> None:
    """The limit for ever finer lattices is 1.701499; beyond its end, the table gives way to the curve."""
    epoch = ps.SubsampledAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=1), scheme=ps.RandomAllocation(steps=100)
    )
    assert 1.701498 < (10 * epoch).epsilon(1e-5) < 1.701501
    pair = AllocationPair(base=GaussianPair(mu=1.0), steps=3, removed=True)
    assert pair.reverse().reverse() is pair
    beyond = pair._table.end + 10.0
    assert pair.discretize(np.array([0.0, 1.0, beyond]))[1] == pair.log_delta(np.array([beyond]))[0]


def test_no_lattice_covers_more_than_its_step_and_window_suit() -> None:
    """At most 0.6 nats and a ratio of 1.8 where one large ratio makes the mean large, otherwise 2.4 nats."""
    removal, addition = allocation_pairs(LaplacePair(shift=3.0), LaplacePair(shift=3.0).reverse(), 6)
    ends = np.array(removal._ends)
    assert np.diff(ends, prepend=0.0)[0] == pytest.approx(0.6)
    assert (ends[1:] <= 1.8 * ends[:-1] * (1 + 1e-12)).all()
    assert np.diff(addition._ends, prepend=0.0).max() <= 2.4


def test_directions_share_lattices_only_if_they_are_reverses() -> None:
    base = GaussianPair(mu=1.0)
    removal, addition = allocation_pairs(base, base, 4)
    assert removal.reverse() is addition
    assert allocation_pairs(base, LaplacePair(shift=1.0), 4)[1] != addition


def test_certificates_have_no_notation_for_an_allocation() -> None:
    for pair in allocation_pairs(GaussianPair(mu=1.0), GaussianPair(mu=1.0), 5):
        with pytest.raises(NotCertified, match="AllocationPair has no notation in certificates"):
            pair.certified_pair()


def test_bases_with_a_failure_and_with_a_table() -> None:
    scheme = ps.RandomAllocation(steps=8)
    for pure in (1.0, np.inf):
        stated = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-4)
        base = stated if pure == 1.0 else stated + ps.GaussianAccountant(sensitivity=1, noise_std=2)
        account = ps.SubsampledAccountant(base=base, scheme=scheme)
        assert account.infinity_mass == base.infinity_mass
        assert account.pure_epsilon == base.pure_epsilon
        assert 1e-4 <= account.delta(0.7) <= base.delta(0.7)
        assert (account.bounds.renyi(np.array([2.0])) <= np.inf).all()


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"steps": 2.5}, ValueError, "steps must be"),
        ({"steps": 0}, ValueError, "steps must be"),
        ({"steps": 3, "times": 4}, ValueError, "times must be at most steps = 3, got 4"),
        ({"steps": 3, "times": "1"}, TypeError, "times must be"),
    ],
)
def test_wrong_numbers_of_steps(fields: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ps.RandomAllocation(**fields)  # type: ignore[arg-type]


def test_wrong_bases() -> None:
    scheme = ps.RandomAllocation(steps=4)
    with pytest.raises(RelationMismatch, match=r"AddRemove to AddRemove .*group of two"):
        ps.SubsampledAccountant(
            base=ps.GaussianAccountant(sensitivity=1, noise_std=1, relation=ps.ReplaceOne(n=4)), scheme=scheme
        )
    with pytest.raises(ValueError, match="base must have a privacy curve"):
        ps.SubsampledAccountant(base=ps.ZCDPAccountant(rho=0.1), scheme=scheme)


def test_a_million_steps() -> None:
    account = ps.SubsampledAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=1), scheme=ps.RandomAllocation(steps=10**6)
    )
    assert 0.0036 < account.epsilon(1e-6) < 0.0037


def test_more_steps_than_a_lattice_resolves_cost_what_the_most_of_them_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """With lattices of up to 100 steps. The truth of more steps lies below, by more the more steps there are."""
    base = ps.GaussianAccountant(sensitivity=1, noise_std=1)

    def epoch(steps: int) -> ps.SubsampledAccountant:
        return ps.SubsampledAccountant(base=base, scheme=ps.RandomAllocation(steps=steps))

    epsilons = np.array([0.0, 0.01, 0.1])
    truth = {steps: epoch(steps).delta(epsilons) for steps in (100, 101, 400)}
    assert (truth[101] < truth[100]).all()
    monkeypatch.setattr(allocation_bounds, "MOST_STEPS", 100)
    for steps in (101, 400):
        capped = epoch(steps)
        np.testing.assert_array_equal(capped.delta(epsilons), truth[100])
        assert (capped.delta(epsilons) > truth[steps]).all()
        assert {capped.kind("delta"), capped.kind("rdp")} == {"upper bound"}
    assert 1.9 < truth[100][0] / truth[400][0] < 2.1  # the square root of the ratio of the steps


def test_draws_are_uniform_sets_of_steps() -> None:
    scheme, rng = ps.RandomAllocation(steps=5, times=2), np.random.default_rng(7)
    samples = scheme.draw_steps(20_000, rng)
    member = np.zeros((20_000, 5), dtype=bool)
    for step, chosen in enumerate(samples):
        assert len(set(chosen.tolist())) == len(chosen)
        member[chosen, step] = True
    assert (member.sum(axis=1) == 2).all()
    counts = np.bincount(member @ (1 << np.arange(5)))
    assert np.sum((counts[counts > 0] - 2000.0) ** 2 / 2000.0) < 40.0  # chi-square with 9 degrees, false alarm 1e-5
    assert not np.array_equal(samples[0], np.sort(samples[0]))
    assert [len(chosen) for chosen in scheme.draw_steps(0, rng)] == [0] * 5
