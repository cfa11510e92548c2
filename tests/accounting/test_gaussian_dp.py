"""The least mu of an account and its regret, against 50 digits, closed forms and brute force over random pairs."""

import functools
import itertools

import mpmath
import numpy as np
import pytest
from scipy import special

import privsample as ps
from privsample.accounting.engine import gaussian_domination
from privsample.accounting.engine.directions import direction_bounds
from privsample.accounting.engine.gaussian_domination import UpperCurve, is_dominated, log_excess
from privsample.accounting.engine.gaussian_tails import LossTail, gaussian_part, mu_at
from privsample.accounting.gaussian_dp import sampling_note
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.targets import unreachable
from privsample.errors import NumericalFailure, RelationMismatch, UnreachableTarget

LAPLACE = ps.LaplaceAccountant(sensitivity=1, scale=1)
GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=1)
SAMPLED = ps.SubsampledAccountant(base=GAUSSIAN, scheme=ps.PoissonSampling(rate=0.01))
SHIFTS = np.array([0.05, 0.1, 0.2])


def gaussian_delta(mu, epsilon):
    """delta_mu(epsilon) with 50 digits."""
    with mpmath.workdps(50):
        m, e = mpmath.mpf(float(mu)), mpmath.mpf(float(epsilon))
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def laplace_delta(epsilon):
    with mpmath.workdps(50):
        return max(1 - mpmath.exp((mpmath.mpf(float(epsilon)) - 1) / 2), mpmath.mpf(0))


def response_delta(epsilon):
    with mpmath.workdps(50):
        e = mpmath.e / (1 + mpmath.e)
        return max(e - mpmath.exp(mpmath.mpf(float(epsilon))) * (1 - e), mpmath.mpf(0))


def sampled_delta(epsilon):
    with mpmath.workdps(50):
        q = mpmath.mpf(0.01)
        inner = mpmath.log(1 + mpmath.expm1(mpmath.mpf(float(epsilon))) / q)
        return q * (mpmath.ncdf(0.5 - inner) - mpmath.exp(inner) * mpmath.ncdf(-0.5 - inner))


CASES = [
    (LAPLACE, laplace_delta, np.linspace(0, 1, 60)),
    (ps.PureAccountant(stated_epsilon=1), response_delta, np.linspace(0, 1, 60)),
    (SAMPLED, sampled_delta, np.linspace(0, 30, 120)),
]


@pytest.mark.parametrize(("account", "delta", "grid"), CASES, ids=["laplace", "response", "sampled"])
@pytest.mark.parametrize("regret", [0.0, 1e-3, 1e-9, pytest.param(1e-5, marks=pytest.mark.long)])
def test_mu_and_regret_hold_on_a_dense_grid_and_no_smaller_ones_do(account, delta, grid, regret):
    mu = account.mu(regret)
    if account is SAMPLED and regret == 0.0:
        assert mu == 1.0
        return
    grid = np.sort(np.append(grid, np.linspace(0.0, min(grid[-1], mu * (8 + mu)), 60)))
    at = grid[np.argmax([float((delta(e) - gaussian_delta(mu, e)) / gaussian_delta(mu, e)) for e in grid])]
    close = np.clip(at + np.linspace(-1, 1, 200) * mu / 20, 0.0, grid[-1])
    for e in np.concatenate([grid, close]):
        assert delta(e) <= gaussian_delta(mu, e) + regret, e
    found = account.regret(mu * 0.99)
    excess = [delta(e) - gaussian_delta(mu * 0.99, e) for e in np.concatenate([grid, close])]
    assert found >= float(max(excess))
    closest = account.regret(mu)
    assert closest <= regret * (1 + 1e-6)
    # a mu that is smaller by 3e-9 has a larger regret, so that no such mu is certified
    smaller = mu * (1 - 3e-9)
    start = np.linspace(0.0, min(grid[-1], mu * (8 + mu)), 20_001)
    gap = np.exp(account.log_delta(start)) - np.exp(GaussianPair(mu=smaller).log_delta(start))
    best = start[np.argmax(gap - regret)] + np.linspace(-1, 1, 801) * start[1]
    assert any(delta(e) > gaussian_delta(smaller, e) + regret for e in best[best >= 0.0])


def test_closed_forms():
    assert GAUSSIAN.mu() == 1.0
    assert 100 * GAUSSIAN == 60 * GAUSSIAN + 40 * GAUSSIAN
    assert (100 * GAUSSIAN).mu() == pytest.approx(10.0, rel=1e-14)
    assert LAPLACE.mu() == pytest.approx(1.0300639976, rel=1e-9)
    response = ps.PureAccountant(stated_epsilon=1).mu()
    assert response == pytest.approx(1.232035385344901, rel=1e-9)
    assert response >= -2 * special.ndtri(1 / (1 + np.e))
    assert ps.PureAccountant(stated_epsilon=0).mu() == 0.0
    assert ps.PureAccountant(stated_epsilon=0).regret(1.0) == 0.0
    assert LAPLACE.regret(0.0) == pytest.approx(float(LAPLACE.delta(0)), rel=1e-14)


def test_a_subsampled_gaussian_meets_no_smaller_mu_than_without_sampling():
    epsilons = np.array([0, 0.5, 1, 2, 5, 10, 20, 40])
    curve = mu_at(epsilons, SAMPLED.log_delta(epsilons))
    assert curve == pytest.approx([0.0096, 0.115, 0.188, 0.301, 0.512, 0.678, 0.810, 0.896], abs=5.1e-4)
    assert (np.diff(curve) > 0).all()
    steps = 100 * SAMPLED
    assert steps.mu() == pytest.approx(10.0, rel=1e-12)
    assert all("without sampling" in sampling_note(account) for account in (SAMPLED, steps))
    assert SAMPLED.mu(1e-6) < SAMPLED.mu() / 2
    assert SAMPLED.mu(direction="add") < SAMPLED.mu(direction="remove") == 1.0
    assert not any(map(sampling_note, (GAUSSIAN, 2 * GAUSSIAN, LAPLACE)))


def test_the_regret_bounds_the_tradeoff_curve():
    a = np.linspace(0, 1, 501)
    true = np.where(a < np.exp(-1) / 2, 1 - np.e * a, np.where(a < 0.5, np.exp(-1) / (4 * np.maximum(a, 1e-9)), 0))
    true = np.where(a >= 0.5, np.exp(-1) * (1 - a), true)
    for mu in (0.5, 0.9, 1.0, 1.02):
        regret = LAPLACE.regret(mu)
        bound = special.ndtr(special.ndtri(np.clip(1 - a - regret, 0, 1)) - mu) - regret
        assert (true >= bound - 1e-15).all()
        # both parts of the bound, of slope below and above -1, and a smaller regret that breaks the first one
        assert (true >= special.ndtr(special.ndtri(np.clip(1 - a - regret, 0, 1)) - mu) - 1e-15).all()
        steep = special.ndtr(special.ndtri(1 - a) - mu)
        assert (true >= steep - regret - 1e-15).all()
        assert (true < steep - regret * 0.99).any()


def brute_force_mu(p, q):
    """The least mu of a table by a fine grid between its losses, where its curve is linear in e^epsilon."""
    knots = np.unique(np.append(np.log(p / q), 0.0))
    knots = knots[knots >= 0.0]
    cells = itertools.pairwise(knots)
    epsilon = np.concatenate([np.linspace(low, high, 2001) for low, high in cells])
    delta = np.maximum(p - np.exp(epsilon)[:, None] * q, 0.0).sum(axis=1)
    used = delta > 1e-13
    low, high = np.zeros(used.sum()), np.full(used.sum(), 50.0)
    e, d = epsilon[used], delta[used]
    for _ in range(70):
        mu = (low + high) / 2
        value = special.ndtr(mu / 2 - e / mu) - np.exp(e + special.log_ndtr(-mu / 2 - e / mu))
        low, high = np.where(value < d, mu, low), np.where(value < d, high, mu)
    return high.max()


@pytest.mark.parametrize("seed", range(12))
def test_random_tables_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.full(6, 0.7 + seed / 4)) + 1e-3 for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    account = ps.PairAccountant(p=p, q=q)
    expected = max(brute_force_mu(p, q), brute_force_mu(q, p))
    assert account.mu() >= expected * (1 - 1e-9)
    assert account.mu() <= expected * (1 + 1e-6)
    assert account.regret(account.mu()) == 0.0


@functools.cache
def mixed(name):
    """Accounts by every method of composition, with a tail of every kind."""
    laplace, response = ps.LaplaceAccountant(sensitivity=1, scale=5), ps.PureAccountant(stated_epsilon=0.1)
    sampled = ps.SubsampledAccountant(base=laplace, scheme=ps.PoissonSampling(rate=0.1))
    gaussian = ps.GaussianAccountant(sensitivity=1, noise_std=4)
    of_two = gaussian.with_relation(ps.ReplaceOne(n=2))
    group = ps.SubsampledAccountant(base=of_two, scheme=ps.WithoutReplacement(n=20, m=2))
    return {
        "grid": 60 * laplace,
        "table": 20 * response,
        "both": 3 * laplace + gaussian,
        "sampled": 5 * sampled,
        "group": group,
        "parallel": ps.ZCDPAccountant(rho=0.01) | gaussian,
        "renyi": ps.ZCDPAccountant(rho=0.1),
        "envelope": 2 * (laplace | gaussian),
        "range": ps.BoundedRangeAccountant(loss_range=0.5),
    }[name]


# The envelope, whose curve takes long, is in the long lane: "both" composes its parts, "parallel" takes their worst.
@pytest.mark.parametrize(
    "name",
    [
        *("grid", "table", "both", "sampled", "group", "parallel", "renyi", "range"),
        pytest.param("envelope", marks=pytest.mark.long),
    ],
)
def test_compositions_lie_below_their_gaussian_curve(name):
    account = mixed(name)
    mu = account.mu()
    top = min(account.pure_epsilon, mu * 15)
    epsilons = np.sort(np.append(np.linspace(0, top, 9), top * np.random.default_rng(5).random(4)))
    found = account.log_delta(epsilons)
    assert (found <= GaussianPair(mu=mu).log_delta(epsilons) + 1e-7).all()
    assert np.isfinite(mu)
    needed = mu_at(epsilons, found).max()
    assert needed <= mu * (1 + 1e-6)
    assert name == "group" or mu <= needed * 1.01


# The regrets of the envelope, whose curve takes long, in the long lane: they are read from the curve as any other's.
@pytest.mark.parametrize(
    "name",
    [
        *("grid", "table", "both", "sampled", "group", "parallel", "renyi", "range"),
        pytest.param("envelope", marks=pytest.mark.long),
    ],
)
def test_compositions_meet_a_smaller_mu_with_a_regret(name):
    account = mixed(name)
    mu = account.mu()
    assert account.mu(1e-3) < account.mu(1e-6) <= mu
    assert account.regret(account.mu(1e-4)) <= 1e-4 * (1 + 1e-4)
    assert account.regret(mu * 1.001) == 0.0


def test_without_a_gaussian_tail_mu_is_infinite_and_a_regret_helps():
    failing = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-8)
    assert failing.mu() == failing.mu(1e-9) == np.inf
    assert gaussian_part(failing.bounds) == (0.0, np.inf)
    assert failing.regret(2.0) == failing.regret(2.0)
    assert failing.mu(1e-6) == pytest.approx(ps.PureAccountant(stated_epsilon=0.5).mu(), rel=1e-4)
    assert 1e-8 <= failing.regret(2.0) <= 1e-8 * (1 + 1e-8)
    heavy = ps.DirectPosterior(model=ps.BetaBernoulli(6, 12), n=40).accountant
    assert heavy.mu() == np.inf > heavy.mu(1e-6)
    assert (2 * failing).mu(1e-6) < np.inf
    curve = UpperCurve(sharp=lambda e: -np.maximum(np.log1p(e), 0.5)).with_first_nodes()
    assert gaussian_domination.least_mu(curve, tail=LossTail(), regret=1e-300) == np.inf
    assert not is_dominated(lambda e: -5 - np.log1p(e), 1.0, tail=LossTail())


LAPLACE_RESIDUES = [(0.05, 0.5, 0.4975307668472), (0.5, 1.0, 0.8811135416782), (1.0, 1.2, 0.7571278961247)]


@pytest.mark.parametrize(("shift", "mu", "residue"), LAPLACE_RESIDUES)
def test_the_residue_of_a_laplace_release_is_accepted_and_a_larger_one_refused(shift, mu, residue):
    nodes = np.linspace(-shift, shift, 2001)
    log_p, _ = LaplacePair(shift=shift).discretize(nodes)

    def curve(rest):
        gaussian = GaussianPair(mu=rest)
        return lambda e: np.minimum(special.logsumexp(log_p + gaussian.log_delta(e[:, None] - nodes), axis=1), 0.0)

    for rest, fits in ((residue * (1 - 1e-6), True), (residue * (1 + 1e-7), False)):
        tail = LossTail(shifted=((rest, shift),))
        assert is_dominated(curve(rest), mu, tail=tail) is fits
    assert not is_dominated(curve(rest), mu, tail=LossTail(shifted=((mu, shift),)))


def test_mutants_without_chords_or_without_the_tail_report_too_little(monkeypatch):
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    expected = max(brute_force_mu(p, q), brute_force_mu(q, p))
    assert ps.PairAccountant(p=p, q=q).mu() >= expected * (1 - 1e-9)
    with monkeypatch.context() as broken:
        broken.setattr(gaussian_domination, "_fails", lambda epsilon, log_delta, mu: np.zeros(len(epsilon) - 1, bool))
        assert ps.PairAccountant(p=p, q=q).mu() < expected * (1 - 1e-6)
    whole = SAMPLED.bounds.directions[0][0]
    with monkeypatch.context() as broken:
        broken.setattr(LossTail, "start", lambda self, mu: 6 * mu)
        far = LossTail(shifted=((0.0, 1e6),))
        low = gaussian_domination.least_mu(UpperCurve(sharp=whole.log_delta).with_first_nodes(), tail=far)
    assert sampled_delta(40) > gaussian_delta(low, 40)


def test_tails():
    tail = LossTail(shifted=((0.5, 1.0),))
    start = tail.start(0.8)
    e = start + np.linspace(0, 20, 300)
    assert (GaussianPair(mu=0.5).log_delta(e - 1.0) <= GaussianPair(mu=0.8).log_delta(e)).all()
    only = LossTail(zcdp=0.2)
    assert only.start(0.63) == np.inf > only.start(0.64) >= only.start(0.8)
    e = only.start(0.8) + np.linspace(0, 30, 300)
    with mpmath.workdps(50):
        for x in e:
            z = (x - 0.2) ** 2 / (4 * 0.2)
            assert mpmath.exp(-z) <= mpmath.ncdf(-x / 0.8 + 0.4)
    assert LossTail(zcdp=0.0).start(0.1) == 0.0
    assert LossTail().start(1.0) == LossTail().least_mu == LossTail().dominating_mu == np.inf
    assert LossTail(shifted=((0.5, 0.0),)).start(0.5) == 0.0


def test_the_inverse_of_the_gaussian_curve():
    mu = np.array([1e-6, 1e-3, 0.05, 0.3, 1.0, 4.0, 30.0])[:, None]
    epsilon = np.array([0.0, 1e-9, 0.01, 1.0, 20.0])
    found = np.array([GaussianPair(mu=float(m)).log_delta(epsilon) for m in mu[:, 0]])
    seen = np.isfinite(found) & (found < -1e-12)
    assert mu_at(epsilon, found)[seen] == pytest.approx(np.broadcast_to(mu, found.shape)[seen], rel=1e-9)
    assert mu_at(np.zeros(2), np.array([0.0, -np.inf])).tolist() == [np.inf, 0.0]
    with mpmath.workdps(50):
        excess = mpmath.log(mpmath.mpf(np.exp(-9.0)) - mpmath.mpf(1e-5))
    assert 0 <= log_excess(np.array([-9.0]), 1e-5)[0] - float(excess) < 1e-13
    assert np.isneginf(log_excess(np.array([-20.0]), 1e-5)[0])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: LAPLACE.mu(1.0), ValueError, r"regret must lie in \[0, 1\), got 1\.0"),
        (lambda: LAPLACE.mu(np.nan), ValueError, "regret must lie in"),
        (lambda: LAPLACE.mu("0"), TypeError, "regret must be a number"),
        (lambda: LAPLACE.mu(np.zeros(2)), TypeError, "regret must be a single number"),
        (lambda: LAPLACE.mu(True), TypeError, "regret must be a number"),
        (lambda: LAPLACE.regret(-1.0), ValueError, "mu must be finite and >= 0"),
        (lambda: LAPLACE.regret(np.inf), ValueError, "mu must be finite and >= 0"),
        (lambda: LAPLACE.regret(10**400), TypeError, "mu must be a number that fits a float"),
        (lambda: LAPLACE.mu(direction="both"), ValueError, "direction must be"),
        (lambda: LAPLACE.with_relation(ps.ReplaceOne(n=3)).mu(direction="add"), RelationMismatch, "direction"),
        (lambda: ps.GDP(0.0), ValueError, "mu must be finite and > 0"),
        (lambda: ps.GDP("1"), TypeError, "mu must be a number"),
    ],
)
def test_wrong_arguments(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_curve_of_nan_is_an_error():
    with pytest.raises(NumericalFailure):
        is_dominated(lambda e: np.full(e.shape, np.nan), 1.0, tail=LossTail())


def test_results_do_not_depend_on_earlier_ones():
    first, second = (6 * ps.LaplaceAccountant(sensitivity=1, scale=5) for _ in range(2))
    assert [first.mu(), first.mu(1e-4), first.regret(0.3)] == [
        *reversed([second.mu(1e-4), second.mu()]),
        second.regret(0.3),
    ]
    assert first.mu(np.float64(1e-4)) == first.mu(1e-4)


def test_calibration_to_a_mu():
    for made in (
        ps.GaussianMechanism.calibrate(target=ps.GDP(0.5), sensitivity=1),
        ps.LaplaceMechanism.calibrate(target=ps.GDP(0.5), sensitivity=1),
    ):
        assert 0.5 * (1 - 1e-8) <= made.accountant.mu() <= 0.5
        assert ps.GDP(0.5).met_by(made.accountant)
    assert str(ps.GDP(0.5)) == "GDP(mu=0.5)"
    with pytest.raises(UnreachableTarget, match="no finite mu bounds the tail"):
        ps.DirectPosterior.calibrate(model=ps.BetaBernoulli(6, 12), n=40, target=ps.GDP(0.5))
    with pytest.raises(UnreachableTarget, match=r"mechanism is 1; .*without sampling"):
        ps.Subsampled.calibrate(base=ps.GaussianSum(bounds=(0, 1), noise_std=1), target=ps.GDP(0.5))
    failing = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-8)
    assert "infinity mass of 1e-08 no mu is finite" in str(unreachable(ps.GDP(1), failing, "advice"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": 1, "delta": 1e-6}, r"in place of epsilon and delta: write target=ps\.DP\(1, 1e-06\)"),
        ({"epsilon": 0.5}, r"in place of epsilon: write target=ps\.DP\(0\.5, 1e-06\)"),
        ({"epsilon": "a"}, r"write target=ps\.DP\(1, 1e-6\)"),
        ({}, "target must be given: write"),
    ],
)
def test_a_calibration_without_a_target_says_what_to_write(given, words):
    with pytest.raises(TypeError, match=words):
        ps.GaussianMechanism.calibrate(sensitivity=1, **given)


def test_the_bounds_of_one_direction_follow_its_own_curve():
    base = ps.LaplaceAccountant(sensitivity=1, scale=1)
    account = ps.SubsampledAccountant(base=base, scheme=ps.PoissonSampling(rate=0.01))
    remove, add = account.bounds.pairs
    for direction, pair in (("remove", remove), ("add", add)):
        mu, epsilons = account.mu(direction=direction), np.linspace(0, pair.max_divergence, 200)
        needed = mu_at(epsilons, pair.log_delta(epsilons)).max()
        assert needed <= mu <= needed * (1 + 1e-4)


def test_a_tail_that_starts_far_away_costs_no_accuracy():
    p, q = np.array([9.2e-8, 1 - 9.2e-8]), np.array([1.5e-7, 1 - 1.5e-7])  # a tiny delta, and losses up to 0.49
    account = ps.PairAccountant(p=p, q=q)
    expected = brute_force_mu(q, p)
    assert expected * (1 - 1e-9) <= account.mu(direction="add") <= expected * (1 + 1e-6)
    never = UpperCurve(sharp=lambda e: -1.0 - e).with_first_nodes()
    for tail in (LossTail(), LossTail(shifted=((0.0, 1e40),))):
        assert gaussian_domination.least_mu(never, tail=tail) == np.inf


def test_an_infinity_mass_of_one_direction_leaves_the_other_finite():
    p, q = np.array([0.05, 0.55, 0.4]), np.array([0.0, 0.45, 0.55])
    account = ps.PairAccountant(p=p, q=q)
    assert account.mu() == account.mu(direction="remove") == np.inf > account.mu(0.051)
    epsilon = np.linspace(0, np.log(0.55 / 0.4), 2001)
    with np.errstate(divide="ignore"):
        needed = mu_at(epsilon, np.log(np.maximum(q - np.exp(epsilon)[:, None] * p, 0.0).sum(axis=1))).max()
    assert needed <= account.mu(direction="add") <= needed * (1 + 1e-6)
    assert account.regret(needed * 1.001, direction="add") == 0.0 < account.regret(needed * 1.001)
    assert direction_bounds(account, "add")[0].pure_epsilon == pytest.approx(np.log(0.55 / 0.4))


def test_extremes():
    gaussian = GaussianPair(mu=1.0)
    assert not is_dominated(
        gaussian.log_delta, 1.0, tail=LossTail(shifted=((0.0, 30.0),))
    )  # equal curves prove nothing
    assert is_dominated(gaussian.log_delta, 1.0, tail=LossTail(shifted=((1.0, 0.0),)))
    loud = ps.GaussianAccountant(sensitivity=100, noise_std=1)
    assert loud.mu() == 100.0
    assert 0.6 < loud.regret(1.0) <= 1.0
    strong = ps.PureAccountant(stated_epsilon=1000)
    assert -2 * special.ndtri_exp(-1000.0) <= strong.mu() < 90.0
    assert strong.regret(1.0) <= 1.0
    for scale in (1e-12, 1e-3, 1.0, 1e3, 1e12):
        account = ps.LaplaceAccountant(sensitivity=1, scale=scale)
        mu = account.mu()
        assert 0.0 < mu < np.inf
        assert 0.0 <= account.regret(mu / 2) <= account.delta(0.0)
