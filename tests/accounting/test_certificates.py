"""Certificates of accounts of every family: the checker proves what the account reports, and nothing stronger."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest

import privsample as ps
from privsample import verify
from privsample.accounting.certificates import cases
from privsample.accounting.engine.envelope import BoundsEnvelope
from privsample.accounting.engine.group import GroupEnvelope
from privsample.accounting.engine.tables import TabulatedPair
from privsample.accounting.loss.alternatives import OneOfPairs
from privsample.accounting.loss.bounded_range import BoundedRangeEnvelope
from privsample.accounting.loss.exact import exact, reversed_pair, rounded_up, weights_text
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.laplace import LaplacePair
from privsample.accounting.loss.pair import DiscretePair, binary_pair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.loss.worst import WorstPair
from privsample.accounting.noise.discrete import DiscreteGaussianPair, DiscreteLaplacePair
from privsample.accounting.noise.sums_of_losses import TwoLaplacePair
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.gamma import GammaRatePair, GammaShapePair
from privsample.accounting.posterior.random_scan import RandomScanEnvelope, RandomScanPair
from privsample.accounting.sgd import OrderPair
from privsample.accounting.stated.finite import LargeTable
from privsample.accounting.subsampling.gaussian import PoissonGaussianPair
from privsample.accounting.subsampling.pairs import MixturePair, PoissonPair, ReplacedRecordPair
from privsample.errors import NotCertified
from tests.cases import in_one_test
from tests.certified import without_digest

PLACE = ps.ReplaceOne(n=20)
GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=2)
LAPLACE = ps.LaplaceAccountant(sensitivity=1, scale=2)
MODEL = ps.BetaBernoulli(alpha=5, beta=7)


GRAPH = ps.ProfileGraph(profiles={"a": [0.6, 0.4], "b": [0.5, 0.5], "c": [0.3, 0.7]}, edges=[("a", "b"), ("b", "c")])


def statistics(noise, differences=((1, 1, 0),), **further):
    sensitivity = ps.RecordSensitivity(
        differences=[list(row) for row in differences], integer_valued=noise.integer_valued
    )
    return ps.StatisticsAccountant(differences=sensitivity, n=50, noise=noise, **further)


ACCOUNTS = {
    "gaussian": GAUSSIAN,
    "gaussians": 5 * GAUSSIAN + ps.GaussianAccountant(sensitivity=1, noise_std=0.7),
    "laplaces": 6 * LAPLACE,
    "gaussian and laplace": GAUSSIAN + 2 * LAPLACE,
    "parallel": LAPLACE | GAUSSIAN,
    "parallel of envelopes": ps.PosteriorAccountant(model=MODEL, n=20, data_weight=0.5)
    | ps.LaplaceAccountant(sensitivity=1, scale=2, relation=ps.ReplaceOne(n=20)),
    "group by curve": ps.Group(base=GAUSSIAN, size=3),
    "group of a pure guarantee": ps.Group(base=LAPLACE, size=3),
    "group of one, composed": 2 * ps.Group(base=LAPLACE, size=1),
    "groups composed": 2 * ps.Group(base=LAPLACE, size=2),
    "pure": 4 * ps.PureAccountant(stated_epsilon=0.5),
    "approximate": 3 * ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1e-7),
    "zcdp": 3 * ps.ZCDPAccountant(rho=0.05),
    "bounded range": ps.BoundedRangeAccountant(loss_range=0.8),
    "bounded range, composed": 3 * ps.BoundedRangeAccountant(loss_range=0.8)
    + ps.GaussianAccountant(sensitivity=1, noise_std=5),
    "randomized response": 3 * ps.RandomizedResponseAccountant(log_odds=1.0, categories=4, relation=PLACE),
    "laplace counts": statistics(ps.LaplaceNoise(scale=3)),
    "laplace counts of several differences": statistics(ps.LaplaceNoise(scale=3), ((1, 1, 0), (0, 0, 2))),
    "discrete laplace counts": statistics(ps.DiscreteLaplaceNoise(scale=3), draws=2),
    "discrete gaussian count": statistics(ps.DiscreteGaussianNoise(noise_std=3), ((1,),)),
    "discrete gaussian counts": statistics(ps.DiscreteGaussianNoise(noise_std=3)),
    "discrete gaussian, several differences": statistics(ps.DiscreteGaussianNoise(noise_std=9), ((1, 1, 0), (0, 0, 2))),
    "beta posterior": ps.PosteriorAccountant(model=MODEL, n=60, data_weight=0.5),
    "beta posterior of real records": ps.PosteriorAccountant(
        model=ps.BetaBernoulli(alpha=5, beta=7, fractional=True), n=30, data_weight=0.5
    ),
    "beta posterior, several draws": ps.PosteriorAccountant(model=MODEL, n=30, data_weight=0.4, draws=2),
    "beta posterior and noise": ps.PosteriorAccountant(model=MODEL, n=20, data_weight=0.4)
    + ps.GaussianAccountant(sensitivity=1, noise_std=4, relation=PLACE),
    "gamma-poisson posterior": ps.PosteriorAccountant(
        model=ps.GammaPoisson(shape=9, rate=2, upper=2), n=20, data_weight=0.3
    ),
    "gamma-exponential posterior": ps.PosteriorAccountant(
        model=ps.GammaExponential(shape=4, rate=9, upper=2), n=5, data_weight=0.3
    ),
    "subsampled gaussian": 3 * ps.SubsampledAccountant(base=GAUSSIAN, scheme=ps.PoissonSampling(rate=0.1)),
    "subsampled laplace": ps.SubsampledAccountant(base=LAPLACE, scheme=ps.PoissonSampling(rate=0.1)),
    "subsampled without replacement": ps.SubsampledAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=2, relation=ps.ReplaceOne(n=5)),
        scheme=ps.WithoutReplacement(n=20, m=5),
    ),
    "subsampled with replacement": ps.SubsampledAccountant(
        base=ps.GaussianAccountant(sensitivity=1, noise_std=2, relation=ps.ReplaceOne(n=5)),
        scheme=ps.WithReplacement(n=20, m=5),
    ),
    "profiles": ps.SmoothOneBit(graph=GRAPH, epsilon=0.5).accountant,
    "tempered": ps.TemperedAccountant(
        model=ps.DirichletCategorical(alpha=(1, 1, 1)), n=10, temperature=4, truncation=0.2
    ),
    "random scan": ps.RandomScanAccountant(base=ps.BoundedRangeAccountant(loss_range=0.8), variables=4, updated=2),
    "langevin": ps.HiddenStateAccountant(moves=(1, 0), noise_stds=(1, 1), constants=(1, 0.5)),
    "table": 2 * ps.PairAccountant(p=np.array([0.5, 0.3, 0.2]), q=np.array([0.4, 0.3, 0.3])),
    "table, unknown order": 2
    * ps.PairAccountant(p=np.array([0.5, 0.3, 0.2]), q=np.array([0.4, 0.3, 0.3]), relation=PLACE),
}


# A group of one that is composed in the long lane: "groups composed" follows its path.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name == "group of one, composed" else ()) for name in ACCOUNTS],
)
def test_the_checker_proves_what_the_account_reports(name):
    account, delta = ACCOUNTS[name], 1e-4
    certificate = account.certificate(delta=delta)
    ((epsilon, proved),) = certificate.verify()
    least = float(account.epsilon(delta))
    assert least <= epsilon <= least * 1.0022 + 1e-9
    assert proved <= delta
    made = without_digest(certificate.text)
    made["claims"][0]["epsilon"] = exact(least * 0.97)
    with pytest.raises(verify.Refused, match=r"does not prove|undecided"):
        verify.verify(json.dumps(made))


PAIRS = [
    GaussianPair(mu=0.7),
    LaplacePair(shift=0.9),
    DiscreteLaplacePair(shift=3, scale=2.0),
    DiscreteGaussianPair(shift=2, noise_std=2.5),
    BoundedRangeEnvelope(loss_range=1.4),
    BoundedRangeEnvelope(loss_range=0.7, draws=3),
    BetaPair(a=3.0, b=2.0, step=0.5),
    GammaShapePair(shape=4.0, step=1.0, rising=True),
    GammaShapePair(shape=4.0, step=1.0, rising=False),
    GammaRatePair(shape=4.0, rate=2.0, step=0.5, rising=True),
    GammaRatePair(shape=4.0, rate=2.0, step=0.5, rising=False),
    PoissonGaussianPair(mu=1.2, rate=0.2, removed=True),
    PoissonGaussianPair(mu=1.2, rate=0.2, removed=False),
    PoissonPair(base=LaplacePair(shift=2.0), rate=0.3, removed=True),
    PoissonPair(base=BetaPair(a=3.0, b=2.0, step=0.5), rate=0.3, removed=False),
    ReplacedRecordPair(base=LaplacePair(shift=2.0), rates=np.array([0.1, 0.4]), log_weights=np.log([0.5, 0.3])),
    MixturePair(members=(GaussianPair(mu=1.0), LaplacePair(shift=2.0)), log_weights=np.log([0.5, 0.3])),
    RandomScanPair(base=GaussianPair(mu=1.0), log_rate=float(np.log(0.3))),
    OrderPair(mus=np.array([0.5, 1.0]), log_weights=np.log([0.5, 0.5])),
    binary_pair(0.8),
    DiscretePair(log_p=np.log([0.5, 0.3, 0.2]), log_q=np.log([0.4, 0.3, 0.3])),
    LargeTable(table=DiscretePair(log_p=np.log([0.5, 0.3, 0.2]), log_q=np.log([0.4, 0.3, 0.3]))),
    TabulatedPair(pair=GaussianPair(mu=0.7)),
    BoundsEnvelope(bounds=LAPLACE.bounds),
    BoundsEnvelope(bounds=(LAPLACE | GAUSSIAN).bounds),
    WorstPair(log_p=np.log([[0.5, 0.5], [0.3, 0.7]]), log_q=np.log([[0.3, 0.7], [0.5, 0.5]])),
    WorstPair(log_p=np.log([[0.5, 0.5]]), log_q=np.log([[0.3, 0.7]])),
    OneOfPairs(members=(GaussianPair(mu=0.7), LaplacePair(shift=0.9))),
]


@in_one_test(itertools.product(PAIRS, [0.0, 0.3, 1.1]))
def test_curves_of_pairs_equal_those_of_the_checker(pair, epsilon):
    """In both orders; the library's value is rounded up, and a maximum takes both orders at once."""
    e = np.array([epsilon])
    with verify.ctx.workprec(200):
        curves = verify.read_pair(pair.certified_pair(), "a pair")()
        found = [float(curve(Fraction(epsilon)).mid()) for curve in curves]
    want = [float(np.exp(way.log_delta(e)[0])) for way in (pair, pair.reverse())]
    if pair.certified_pair()["kind"] == "maximum":
        want = [max(want)] * 2
    tolerance = 1e-2 if isinstance(pair, TabulatedPair) else 1e-9
    assert found == pytest.approx(want, rel=tolerance, abs=1e-13)


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (ps.SelectionAccountant(base=GAUSSIAN, repetitions=ps.Poisson(mean=5)), "Rényi curve and no dominating pair"),
        (ps.SelectionAccountant(base=LAPLACE, repetitions=ps.Poisson(mean=5)), "Rényi curve and no dominating pair"),
        (
            ps.PosteriorAccountant(model=MODEL, n=20, data_weight=0.2)
            + ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=9, beta=9), n=20, data_weight=0.2),
            "give one posterior several draws",
        ),
        (2 * ps.Group(base=GAUSSIAN, size=2), "bound for groups is not the curve of a pair"),
        (LAPLACE + ps.LaplaceAccountant(sensitivity=1, scale=3), "delta = 0 is proved for a composition only if"),
    ],
)
def test_what_cannot_be_certified_is_named(account, words):
    with pytest.raises(NotCertified, match=words):
        account.certificate(delta=0.0 if "delta = 0" in words else 1e-3)


def test_claims_that_are_too_strong_or_no_numbers():
    with pytest.raises(NotCertified, match=r"GaussianAccountant cannot be certified: .*does not prove"):
        GAUSSIAN.certificate(epsilon=1.0, delta=1e-9)
    with pytest.raises(ValueError, match="a certificate needs epsilon, delta or both"):
        GAUSSIAN.certificate()
    for wrong in ({"delta": 2.0}, {"delta": -1.0}, {"epsilon": np.inf}, {"epsilon": -1.0}, {"delta": []}):
        with pytest.raises(ValueError, match="must be finite and >= 0"):
            GAUSSIAN.certificate(**wrong)
    with pytest.raises(NotCertified, match="no finite epsilon here"):
        GAUSSIAN.certificate(delta=0.0)
    with pytest.raises(NotCertified, match="no finite epsilon here"):
        ps.PairAccountant(p=np.array([0.9, 0.1]), q=np.array([1.0, 0.0])).certificate(delta=1e-6)


def test_several_claims_and_the_account_in_the_file(tmp_path):
    certificate = (2 * LAPLACE).certificate(epsilon=[0.2, 1.0], delta=[0.5, 0.0])
    assert certificate.claims == (("0.2", "0.5"), ("1.0", "0.0"))
    about = json.loads(certificate.to_json())["about"]
    assert about["account"] == repr(2 * LAPLACE)
    assert about["assumptions"] == sorted(one.value for one in LAPLACE.assumptions)
    certificate.save(tmp_path / "claim.json")
    assert ps.Certificate.load(tmp_path / "claim.json").claims == certificate.claims
    assert ps.Certificate.from_json(certificate.to_json()) == certificate
    ((epsilon, delta),) = LAPLACE.certificate(epsilon=0.25).verify()
    assert epsilon == 0.25
    assert float(LAPLACE.delta(0.25)) == pytest.approx(delta, rel=1e-12)
    with pytest.raises(ValueError, match="text must be a certificate"):
        ps.Certificate(text="{}")
    with pytest.raises(TypeError, match="text must be the content of a certificate, got int"):
        ps.Certificate(text=1)
    made = without_digest(certificate.text) | {"claims": [{"epsilon": "0.1", "delta": "0"}]}
    with pytest.raises(NotCertified, match="does not prove"):
        ps.Certificate(text=json.dumps(made)).verify()


def test_a_release_is_certified_at_its_own_delta():
    release = ps.GaussianMechanism(sensitivity=1, noise_std=5).release(2.0, rng=np.random.default_rng(1))
    assert release.certificate().claims[0][1] == "1e-06"
    assert release.certificate(delta=1e-3).claims[0][1] == "0.001"
    assert release.certificate(epsilon=1.0).claims[0][0] == "1.0"


def test_tempered_posteriors_are_certified_by_the_closer_closed_form():
    account = ps.TemperedAccountant(model=MODEL, n=20, temperature=4, truncation=0.2)
    ((envelope,),) = account.bounds.directions
    for epsilon, kind in ((0.01, "gaussian"), (float(account.pure_epsilon) * 0.99, "bounded_range")):
        ((((_, pair),),)) = envelope.certified_cases(((epsilon, -5.0),))
        assert pair["kind"] in {kind, "bounded_range"}
    assert envelope.certified_pair()["kind"] == "bounded_range"
    assert envelope.certified_renyi() == envelope.bounded.certified_renyi()


def test_renyi_bounds_of_pairs():
    assert BoundsEnvelope(bounds=GAUSSIAN.bounds).certified_renyi() == (Fraction(1, 8), ())
    assert BoundsEnvelope(bounds=(GAUSSIAN | LAPLACE).bounds).certified_renyi() == (Fraction(1, 8), ())
    assert DiscreteGaussianPair(shift=2, noise_std=4.0).certified_renyi() == (Fraction(1, 8), ())
    assert LaplacePair(shift=0.5).certified_renyi() == (Fraction(1, 8), ())
    assert BoundedRangeEnvelope(loss_range=0.5, draws=2).certified_renyi() == (0, (Fraction(1, 2),) * 2)
    unbounded = (ps.PosteriorAccountant(model=MODEL, n=20) | GAUSSIAN.to(PLACE)).bounds
    with pytest.raises(NotCertified, match="no zCDP guarantee"):
        BoundsEnvelope(bounds=unbounded).certified_renyi()
    with pytest.raises(NotCertified, match="no Rényi bound of BetaPair"):
        BetaPair(a=3.0, b=2.0, step=0.5).certified_renyi()


def test_cases_of_envelopes():
    claims = ((0.5, np.log(1e-3)),)
    pair = OneOfPairs(members=(GaussianPair(mu=0.7), LaplacePair(shift=0.9)))
    assert [case[0][1]["kind"] for case in pair.certified_cases(claims)] == ["gaussian", "laplace"]
    assert TabulatedPair(pair=pair).certified_cases(claims) == pair.certified_cases(claims)
    rows = WorstPair(log_p=np.log([[0.5, 0.5], [0.3, 0.7]]), log_q=np.log([[0.3, 0.7], [0.5, 0.5]]))
    assert len(rows.certified_cases(claims)) == 2
    twice = ProductPair(members=((rows, 2), (GaussianPair(mu=0.7), 1)))
    assert [len(case) for case in twice.certified_cases(claims)] == [3, 3, 3]
    often = ProductPair(members=((rows, 99), (GaussianPair(mu=0.7), 1)))
    ((release, other),) = often.certified_cases(claims)
    assert (release[0], release[1]["kind"], other[1]["kind"]) == (99, "maximum", "gaussian")
    one = GroupEnvelope(base=LAPLACE.bounds, size=1)
    assert one.certified_cases(claims) == (((1, {"kind": "laplace", "shift": "1/2"}),),)
    envelope = RandomScanEnvelope(base=BoundedRangeEnvelope(loss_range=0.5), log_rate=-1.0)
    assert envelope.certified_pair()["kind"] == "mixture"


def test_a_table_with_the_losses_of_randomized_response_and_other_masses_is_a_table():
    log_p, losses = np.log([0.5, 0.25, 0.25]), np.array([0.5, -0.5, 0.0])
    log_q = log_p - losses
    rest = np.log(1.0 - np.exp(log_q[:2]).sum())
    pair = DiscretePair(log_p=log_p, log_q=np.append(log_q[:2], rest), loss=np.append(losses[:2], log_p[2] - rest))
    assert pair.certified_pair()["kind"] == "finite"
    p = np.array([0.5, 0.2, 0.3])
    q = np.array([0.2, 0.5, 0.3])  # losses are those of randomized response, and two answers are not
    assert DiscretePair(log_p=np.log(p), log_q=np.log(q)).certified_pair()["kind"] == "finite"


def test_pairs_without_a_notation():
    plain = ps.LaplaceSumAccountant(sensitivity=1, scale=2, further_scale=3)
    with pytest.raises(NotCertified, match="has no notation in certificates"):
        plain.bounds.pairs[0].certified_pair()
    with pytest.raises(NotCertified, match=r"bound for groups"):
        GroupEnvelope(base=GAUSSIAN.bounds, size=2).certified_pair()
    with pytest.raises(NotCertified, match="no dominating pair"):
        BoundsEnvelope(bounds=ps.ZCDPAccountant(rho=1.0).bounds).certified_pair()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (1.23456, "1.235"),
        (1.0, "1"),
        (2.0**-60, "8.674e-19"),
        (123456.0, "123500"),
        (2e7, "2e7"),
        (0.5, "0.5"),
    ],
)
def test_numbers_are_rounded_up(number, text):
    assert rounded_up(number) == text
    assert Fraction(text) >= Fraction(number)


def test_weights_never_exceed_one_and_are_rounded_up():
    found = list(map(Fraction, weights_text(np.log([0.25, 0.75]))))
    assert sum(found) == 1
    found = list(map(Fraction, weights_text(np.array([np.log(0.25), -np.inf]))))
    assert found[0] > Fraction(1, 4)
    assert 0 < found[1] < 1e-290


def test_reversing_twice_gives_the_pair():
    for pair in (GammaShapePair(shape=4.0, step=1.0, rising=True), BetaPair(a=3.0, b=2.0, step=0.5)):
        made = pair.certified_pair()
        assert reversed_pair(reversed_pair(made)) == made
        assert reversed_pair(made) == pair.reverse().certified_pair()


def test_losses_on_one_grid():
    laplace = {"kind": "laplace", "shift": "1/2"}
    twice = {"kind": "randomized_response", "epsilon": "1", "delta": "0", "others": 1}
    assert cases._lattice(((1, laplace), (2, twice))) == Fraction(1, 2)
    assert cases._lattice(((1, laplace), (2, {"kind": "laplace", "shift": "1/3"}))) is None
    assert cases._lattice(((1, laplace), (2, {"kind": "gaussian", "mu_squared": "1"}))) is None
    assert cases._lattice(((1, {"kind": "discrete_laplace", "places": 3, "scale": "4"}),)) == Fraction(1, 4)
    assert TwoLaplacePair(shift=0.25).certified_pair() == laplace


def test_masses_that_rounding_raises_above_one_are_certified():
    account = 3 * ps.PairAccountant(p=np.array([0.5, 0.5, 0.0]), q=np.array([0.4, 0.4, 0.2]))
    assert account.certificate(epsilon=1.0, delta=0.5).verify()[0][1] == pytest.approx(1.0 - 0.8**3, rel=1e-9)
    with pytest.raises(NotCertified, match="does not prove"):
        account.certificate(epsilon=1.0, delta=0.48)


def test_a_zcdp_bound_holds_for_both_orders_and_without_infinite_losses():
    with pytest.raises(NotCertified, match="no Rényi bound"):  # the loss is bounded in one order only
        PoissonGaussianPair(mu=1.2, rate=0.2, removed=False).certified_renyi()
    table = DiscretePair(log_p=np.log([0.5, 0.5]), log_q=np.log([0.1, 0.9]))
    assert table.certified_renyi() == table.reverse().certified_renyi()
    assert float(table.certified_renyi()[0]) == pytest.approx(np.log(5.0) ** 2 / 2)


def test_rates_of_samples_without_replacement_are_rounded_up():
    base = ps.LaplaceAccountant(sensitivity=1, scale=2, relation=ps.ReplaceOne(n=5))
    for n in (7, 15, 49, 60):
        ((pair,),) = ps.SubsampledAccountant(base=base, scheme=ps.WithoutReplacement(n=n, m=5)).bounds.directions
        (rate,) = map(Fraction, pair.certified_pair()["rates"])
        assert Fraction(5, n) <= rate <= Fraction(5, n) * (1 + Fraction(1, 10**14))
