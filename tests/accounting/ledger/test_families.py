"""Budgets that a family of releases fills: Gaussian releases, residues, and copies of one release."""

import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest

from privsample import (
    DP,
    GDP,
    RDP,
    ZCDP,
    AddRemove,
    ApproximateAccountant,
    BetaBernoulli,
    DiffusedPosterior,
    GaussianAccountant,
    GaussianMechanism,
    LaplaceAccountant,
    LaplaceMechanism,
    PairAccountant,
    PoissonSampling,
    Risk,
    SubsampledAccountant,
    ZCDPAccountant,
)
from privsample.accounting.ledger import copies, gaussian_filter
from privsample.accounting.ledger import residue as residues
from privsample.accounting.ledger.copies import CopiesFilter, _votes, copies_bound, copies_in
from privsample.accounting.ledger.filters import CurveFilter, SumFilter, largest_count
from privsample.accounting.ledger.gaussian_filter import GaussianFilter
from privsample.accounting.ledger.largest_mu import largest_mu
from privsample.accounting.ledger.residue import loss_masses, residue
from privsample.accounting.ledger.rules import filter_of
from privsample.accounting.loss.contour import summed_log_deltas
from privsample.accounting.loss.failure import FailurePair
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import binary_pair
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair
from privsample.errors import NumericalFailure, UnreachableTarget
from tests.accounting.ledger.adversary import best_attack
from tests.accounting.ledger.shared import pure

BUDGET = DP(1, 1e-6)
NOISY, LAPLACE = GaussianAccountant(sensitivity=1, noise_std=20), LaplaceAccountant(sensitivity=1, scale=20)
STEP = SubsampledAccountant(
    base=GaussianAccountant(sensitivity=1, noise_std=0.8), scheme=PoissonSampling(rate=0.001), relation=AddRemove()
)
STEPS = 11_397  # how many of them BUDGET holds


def fitting(found, account, most=60):
    """How many releases are admitted one at a time."""
    total, count = found.zero, 0
    while count < most and found.fits(total + found.cost(total, account, 1)):
        total, count = total + found.cost(total, account, 1), count + 1
    return count


@pytest.mark.parametrize(
    ("budget", "mu"),
    [
        (DP(1, 1e-6), 0.236704380663),
        (DP(1, 1e-5), 0.268051123211),
        (DP(4, 1e-8), 0.716546580527),
        (DP(0.1, 1e-10), 0.0184480415893),
    ],
)
def test_the_mu_that_a_budget_is_worth(budget, mu):
    found = largest_mu(budget, 0.0)
    assert found == pytest.approx(mu, rel=2e-12)
    assert GaussianPair(mu=found).log_delta(np.array([budget.epsilon]))[0] <= math.log(budget.delta)
    assert largest_mu(budget, budget.delta / 2) < found


def test_as_many_releases_as_a_plan_fixed_in_advance():
    by_family = {
        "gaussian": filter_of(BUDGET, family="gaussian"),
        "laplace": filter_of(BUDGET, family=LAPLACE),
        "general": filter_of(BUDGET),
    }
    assert {name: fitting(found, NOISY) for name, found in by_family.items()} == {
        "gaussian": 22, "laplace": 0, "general": 18}  # fmt: skip
    assert BUDGET.met_by(22 * NOISY)
    assert not BUDGET.met_by(23 * NOISY)
    assert {name: fitting(found, LAPLACE) for name, found in by_family.items()} == {
        "gaussian": 21, "laplace": 26, "general": 23}  # fmt: skip
    assert not BUDGET.met_by(27 * LAPLACE)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 10, 49, 1000])
@pytest.mark.parametrize("mu", [1.0, 0.3, 2 / 3])
def test_a_budget_of_mu_is_spent_whole_in_equal_parts(mu, parts):
    found = filter_of(GDP(mu))
    one = found.charge(GaussianAccountant(sensitivity=mu / math.sqrt(parts), noise_std=1))
    assert found.fits(parts * one)
    assert not found.fits((parts + 1) * one)
    assert found.left(parts * one) < 1e-6
    assert found.spent(parts * one) == pytest.approx(mu, rel=1e-14)
    assert found.left(found.zero) == mu
    assert found.spent(found.zero) == 0.0
    assert found.spent((parts + 1) * one) > mu


@pytest.mark.parametrize(
    ("shift", "mu", "best"), [(0.05, 0.5, 0.4975307668472), (0.5, 1, 0.8811135416782), (1, 1.2, 0.7571278961247)]
)
def test_residues_of_laplace_noise(shift, mu, best):
    found = residue(loss_masses(LaplacePair(shift=shift)), mu)
    assert best * (1 - 5e-6) < found <= best + 1e-13


def test_residues_of_repeated_laplace_noise():
    mu, pair, found = 0.236704380663, loss_masses(LaplacePair(shift=0.05)), {}
    for count in range(1, 22):
        mu = residue(pair, mu)
        found[count] = mu
    assert [found[count] for count in (1, 2, 10, 20)] == pytest.approx(
        [0.231411626, 0.225992980, 0.176628685, 0.0768851883], rel=2e-6
    )
    assert residue(pair, mu) is None


@pytest.mark.parametrize("size", [0.05, 0.5])
@pytest.mark.parametrize("mu", [0.75, 2.5])
def test_a_residue_dominates_at_fifty_digits(size, mu):
    """Randomized response with the Gaussian residue, summed exactly, is nowhere above the Gaussian before it."""
    left = residue(loss_masses(binary_pair(size)), mu)
    points = [0.0, *np.geomspace(1e-6, 6 * mu, 60).tolist()]
    with mpmath.workdps(50):

        def delta(scale, epsilon):
            e, m = mpmath.mpf(epsilon), mpmath.mpf(scale)
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

        up = 1 / (1 + mpmath.exp(-mpmath.mpf(size)))

        def excess(scale):
            return max(
                (up * delta(scale, mpmath.mpf(e) - size) + (1 - up) * delta(scale, mpmath.mpf(e) + size)) / delta(mu, e)
                for e in points
            )

        assert excess(left) <= 1
        assert excess(math.sqrt(left * left + 1e-6 * (mu * mu - left * left))) > 1


def test_a_residue_is_refused_where_it_cannot_be_certified(monkeypatch):
    assert residue(loss_masses(binary_pair(2.0)), 0.5) is None  # it costs more than all
    assert residue(loss_masses(binary_pair(1e-6)), 0.5) is None  # too many cells
    assert loss_masses(GaussianPair(mu=1.0)) is None
    masses = loss_masses(binary_pair(0.2))
    best = residue(masses, 1.0)
    assert residues.uncertified_epsilon(masses, 1.0, best * 1.001) is not None
    monkeypatch.setattr(residues, "uncertified_epsilon", lambda *given: 0.3)
    assert residue(masses, 1.0) is None


@pytest.mark.parametrize(("sizes", "budgets"), [((0.2, 0.7), (0.6, 1.0)), ((0.3, 1.0), (0.6, 1.0, 1.4)),
    pytest.param((0.1, 0.4), (0.6,), marks=pytest.mark.long), ((0.5,), (0.6, 1.0, 1.4, 1.9))])  # fmt: skip
def test_no_adversary_overspends_a_budget_of_mu(sizes, budgets):
    """Every adaptive strategy is enumerated; the worst attains 0.9903 of the budget.

    The long lane adds longer strategies, of smaller releases.
    """
    for mu in budgets:
        found, epsilons = filter_of(GDP(mu)), np.array([0.0, 0.3, 0.8, 1.5, 2.5])
        allowed = np.exp(GaussianPair(mu=mu).log_delta(epsilons))
        for epsilon, delta in zip(epsilons, allowed, strict=True):
            assert best_attack([found], sizes, float(epsilon)) <= delta


@pytest.mark.parametrize("sizes", [(0.2, 0.7), (0.3, 1.0), (0.5,)])
@pytest.mark.parametrize("budget", [DP(1.5, 0.03), DP(1.0, 0.08), DP(2, 0.0074), DP(0.4, 0.2)])
def test_no_adversary_overspends_any_filter(sizes, budget):
    filters = [filter_of(budget), filter_of(budget, family="gaussian"), filter_of(DP(budget.epsilon))]
    filters += [filter_of(budget, family=pure(size)) for size in sizes if budget.met_by(pure(size))]
    for found in filters:
        assert best_attack([found], sizes, budget.epsilon) <= budget.delta * (1 + 1e-12)


def test_either_of_two_filters_is_no_filter():
    """A twin that admits what one of two valid filters admits overspends, and each of the two does not."""
    sizes = (0.2, 0.7)
    delta = float((10 * pure(0.2)).delta(1.0)) * (1 + 1e-9)
    budget = DP(1.0, delta)
    two = [filter_of(budget), filter_of(budget, family=pure(0.2))]
    assert all(best_attack([found], sizes, 1.0) <= delta for found in two)
    assert best_attack(two, sizes, 1.0) == pytest.approx(1.0636 * delta, rel=1e-4)


def test_what_a_gaussian_ledger_charges():
    found = filter_of(BUDGET, family="gaussian", approximate_share=0.1)
    assert found.charge(pure(0.0)).loss == 0
    assert found.charge(ZCDPAccountant(rho=1e-4)).loss.is_finite()  # by its own mu
    assert found.charge(STEP).loss > Decimal("1.5")
    assert found.charge(3 * NOISY).loss == 3 * found.charge(NOISY).loss
    mixed = found.charge(2 * NOISY + LAPLACE)
    assert 2 * found.charge(NOISY).loss < mixed.loss < 3 * found.charge(NOISY).loss
    posterior = DiffusedPosterior(model=BetaBernoulli(alpha=6, beta=12), n=100, data_weight=0.01).accountant
    assert not found.charge(posterior).loss.is_finite()  # its loss has a heavier tail than any Gaussian
    failing = ApproximateAccountant(stated_epsilon=0.01, stated_delta=4e-8)
    assert found.charge(failing).loss == pytest.approx(Decimal("1e-4"), rel=Decimal("0.01"))
    assert found.fits(2 * found.charge(failing))
    assert not found.fits(3 * found.charge(failing))
    assert math.isinf(found.spent(3 * found.charge(failing)))
    failure = FailurePair(base=GaussianPair(mu=0.05), mass=1e-9)
    assert found._added(Decimal(0), (failure,), 1) == found.charge(NOISY).loss
    revealing = PairAccountant(p=[0.5, 0.5, 0.0], q=[0.5, 0.0, 0.5])
    assert not found.fits(found.charge(revealing))
    assert found.cost(found.zero, pure(1e-3), 101).loss == 101 * found._own_square(pure(1e-3))
    assert not found.fits(found.cost(found.zero, LAPLACE, 30))


def test_a_guarantee_without_mu_does_not_fit(monkeypatch):
    def fails(self, *given, **more):
        raise NumericalFailure("no bound")

    monkeypatch.setattr(ZCDPAccountant, "mu", fails)
    found = filter_of(GDP(1.0))
    assert not found.fits(found.charge(ZCDPAccountant(rho=1e-4)))


@pytest.mark.parametrize("k", [1, 7])
def test_shares_of_a_budget_of_mu(k):
    found = filter_of(GDP(0.5))
    total = found.charge(LAPLACE)
    for kind in (GaussianMechanism, LaplaceMechanism):
        account = kind.calibrate(sensitivity=1, target=found.share(total, k)).accountant
        so_far = total
        for _ in range(k):
            so_far = so_far + found.cost(so_far, account, 1)
        assert found.fits(so_far)
        assert found.remaining_releases(total, account) >= k
    exact = GaussianMechanism.calibrate(sensitivity=1, target=found.share(total, k)).accountant
    assert found.remaining_releases(total, exact) == k


def test_remaining_releases(monkeypatch):
    found = filter_of(BUDGET, family="gaussian")
    assert found.remaining_releases(found.zero, NOISY) == 22
    assert found.remaining_releases(found.zero, LAPLACE) == 21
    monkeypatch.setattr(gaussian_filter, "_MOST_RESIDUES", 20)
    many = found.remaining_releases(found.zero, pure(0.02))  # the first 20 by residue, the others by their own mu
    assert 20 < many < 0.236704**2 / 0.02**2
    general = filter_of(BUDGET)
    assert general.remaining_releases(general.zero, NOISY) == 18
    assert general.remaining_releases(general.zero, pure(0.0)) == 10**12
    assert largest_count(lambda times: times <= 5) == 5


def test_how_many_copies_dominate_a_release():
    assert copies_bound(LAPLACE, LAPLACE) == (1, 0.0)
    assert copies_bound(3 * LAPLACE + LaplaceAccountant(sensitivity=1, scale=40), LAPLACE) == (4, 0.0)
    assert copies_bound(pure(0.0), LAPLACE) == (0, 0.0)
    assert copies_bound(NOISY, LAPLACE) == (math.inf, 0.0)
    assert copies_bound(ZCDPAccountant(rho=1e-9), LAPLACE)[0] == math.inf
    failing = ApproximateAccountant(stated_epsilon=0.001, stated_delta=1e-9)
    assert copies_bound(failing, LAPLACE) == (1, 1e-9)
    assert copies_bound(pure(0.001), STEP)[0] == 7
    assert copies_bound(pure(50.0), LaplaceAccountant(sensitivity=1e-6, scale=1))[0] == math.inf
    for size, family in ((0.05, LAPLACE), (0.1, LAPLACE), (0.5, pure(0.2)), (1.0, pure(0.7))):
        count, _ = copies_bound(pure(size), family)
        epsilons = np.linspace(0.0, size, 40)
        both = np.array([(count * family).delta(epsilons), pure(size).delta(epsilons)])
        assert (both[0] >= both[1] * (1 - 1e-9)).all()


def test_a_step_on_a_sample_fills_a_budget_as_its_own_family():
    """As many steps as a plan fixed in advance; the general rule admits none, and mu is that of unsampled noise."""
    found = filter_of(BUDGET, family=STEP, copies=STEPS)
    assert BUDGET.met_by(found.copies * STEP)
    assert not BUDGET.met_by((found.copies + 1) * STEP)
    assert found.remaining_releases(found.zero, STEP) == found.copies
    half = (found.copies // 2) * found.charge(STEP)
    assert 0.6 < found.spent(half) < 0.9
    general = filter_of(BUDGET)
    assert not general.fits(general.charge(STEP))


@pytest.mark.long
def test_the_search_finds_as_many_steps():
    """The search for the number of copies takes seconds for steps; for other families each lane makes it."""
    found = filter_of(BUDGET, family=STEP)
    assert found.copies == STEPS
    assert 0.6 < found.left((STEPS // 2) * found.charge(STEP)) < 0.9
    assert found.spent(STEPS * found.charge(STEP)) <= 1.0


@pytest.mark.parametrize(
    ("budget", "family", "count"),
    [
        (DP(1.0), pure(0.1), 10),
        (DP(1.0), pure(0.3), 3),
        (ZCDP(0.5), GaussianAccountant(sensitivity=1, noise_std=10), 100),
        (RDP(4, 1.0), GaussianAccountant(sensitivity=1, noise_std=10), 50),
        (GDP(0.5), GaussianAccountant(sensitivity=1, noise_std=10.01), 25),
        (GDP(0.125), LAPLACE, 5),
    ],
)
def test_copies_fill_every_kind_of_budget(budget, family, count):
    found = filter_of(budget, family=family)
    assert found.copies == count
    assert budget.met_by(found.copies * family) or isinstance(filter_of(budget), SumFilter)  # up to the 15th digit
    assert not budget.met_by((found.copies + 1) * family)
    one = found.charge(family)
    assert found.spent(found.zero) == 0.0
    assert found.spent(one) + found.left((found.copies - 1) * one) <= 2.1 * found.amount
    assert found.left(found.copies * one) == 0.0
    assert found.spent((found.copies + 1) * one) > found.amount * (1 - 1e-9)
    assert math.isinf(found.spent(found.charge(GaussianAccountant(sensitivity=1, noise_std=1e-3))))


def test_copies_beside_infinity_masses_and_shares():
    found = filter_of(BUDGET, family=LAPLACE, approximate_share=0.5)
    assert found.set_aside == 5e-7
    failing = found.charge(ApproximateAccountant(stated_epsilon=0.01, stated_delta=2e-7))
    assert found.fits(2 * failing)
    assert not found.fits(3 * failing)
    assert math.isinf(found.spent(3 * failing))
    share = found.share(found.zero, 5)
    assert share.description == f"{found.copies // 5} copies of LaplaceAccountant"
    mechanism = LaplaceMechanism.calibrate(sensitivity=1, target=share)
    assert copies_bound(mechanism.accountant, LAPLACE)[0] <= 5
    assert found.fits(5 * found.charge(mechanism.accountant))
    with pytest.raises(UnreachableTarget, match="at least one release fits"):
        copies_in(DP(0.01), LAPLACE)
    assert list(copies._from(6)) == [6, 5, 3, 1]  # where a search for the number of copies goes down


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"budget": ZCDP(1), "family": "gaussian"}, ValueError, "needs a budget GDP"),
        ({"budget": DP(1), "family": "gaussian"}, ValueError, "needs a budget GDP"),
        ({"budget": GDP(1e-160)}, ValueError, "mu of the budget must lie in"),
        ({"budget": GDP(1e200)}, ValueError, "mu of the budget must lie in"),
        ({"budget": GDP(1), "weights": {2.0: 1.0}}, ValueError, "omit them"),
        ({"budget": GDP(1), "approximate_share": 0.1}, ValueError, "omit them"),
        ({"budget": BUDGET, "family": "laplace"}, ValueError, "'gaussian' or an accountant, got 'laplace'"),
        ({"budget": BUDGET, "family": 3.0}, TypeError, "got float"),
        ({"budget": Risk(0.01, 0.02)}, TypeError, "budget must be DP, ZCDP, RDP or GDP, got Risk"),
        ({"budget": BUDGET, "family": LaplaceMechanism(sensitivity=1, scale=2)}, TypeError, "got LaplaceMechanism"),
        ({"budget": BUDGET, "family": ZCDPAccountant(rho=1e-3)}, ValueError, "one dominating pair"),
        ({"budget": filter_of(GDP(1.0)).share(filter_of(GDP(1.0)).zero, 1).description}, TypeError, "budget must be"),
    ],
)
def test_a_family_must_fit_the_budget(given, error, words):
    with pytest.raises(error, match=words):
        filter_of(**given)


def test_every_filter_names_its_rule():
    for found, words in (
        (filter_of(DP(1)), "are added"),
        (filter_of(BUDGET), "mixed with fixed weights"),
        (filter_of(GDP(1)), "Squares of mu"),
        (filter_of(BUDGET, family=LAPLACE), "copies"),
    ):
        assert words in found.rule
        assert found.rule.endswith(".")
        assert found.capacity >= found.progress(found.zero) == 0.0
        assert found.measure
    assert isinstance(filter_of(BUDGET), CurveFilter)
    assert isinstance(filter_of(GDP(1)), GaussianFilter)
    assert isinstance(filter_of(BUDGET, family=LAPLACE), CopiesFilter)
    assert filter_of(BUDGET, family=LAPLACE, copies=3).copies == 3


@pytest.mark.parametrize(("epsilon", "response"), [(50.0, 40.0), (70.0, 40.0), (3.0, 0.5)])
def test_votes_with_tiny_chances_of_error_are_not_rounded_down(epsilon, response):
    votes = _votes(epsilon, response)
    assert votes * response >= epsilon


def test_votes_beyond_the_least_float_are_not_claimed():
    assert _votes(800.0, 40.0) == math.inf


def test_values_of_a_sampled_composition_do_not_depend_on_the_others_in_the_call():
    pair, epsilon = PoissonGaussianPair(mu=1 / 0.79, rate=0.001, removed=True), np.linspace(0.5, 2, 5)
    together = summed_log_deltas([(pair, 1000)], np.full(5, np.inf), epsilon)
    alone = [summed_log_deltas([(pair, 1000)], np.array([np.inf]), epsilon[[place]])[0] for place in (0, 4)]
    assert together[[0, 4]] == pytest.approx(alone, rel=1e-10)
