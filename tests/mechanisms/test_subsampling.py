"""Mechanisms on subsamples: what is drawn, what is refused, and what leaves."""

import numpy as np
import pytest
from scipy import stats

from privsample import (
    DP,
    RDP,
    Accountant,
    AddRemove,
    Assumption,
    BetaBernoulli,
    BetaQuery,
    ClippedSum,
    ConditionalSelection,
    DirectPosterior,
    GaussianMechanism,
    GaussianSum,
    LaplaceSum,
    Poisson,
    PoissonSampling,
    RandomAllocation,
    RandomizedResponse,
    Release,
    RepeatedSelection,
    ReplaceOne,
    SamplingPart,
    Scheme,
    Subsampled,
    SubsampledAccountant,
    TruncatedNegativeBinomial,
    WithoutReplacement,
    WithReplacement,
)
from privsample._value import frozen_value
from privsample.errors import RelationMismatch, SchemaError

N, ADD = 6, AddRemove()
MODEL = BetaBernoulli(alpha=3, beta=4)
SUM = GaussianSum(bounds=(0, 1), noise_std=1)
COLUMN = [
    Subsampled(base=SUM, scheme=PoissonSampling(rate=0.3)),
    Subsampled(base=LaplaceSum(bounds=(-1, 2), scale=1, relation=ReplaceOne(n=3)), scheme=WithoutReplacement(n=N, m=3)),
    Subsampled(base=DirectPosterior(model=MODEL, n=3), scheme=WithReplacement(n=N, m=3)),
    Subsampled(base=DirectPosterior(model=MODEL, n=3), scheme=WithReplacement(n=N, m=3), relation=ADD),
    Subsampled(base=BetaQuery(alpha=1, beta=1, bounds=(0, 1), n=2), scheme=WithoutReplacement(n=N, m=2)),
    Subsampled(base=DirectPosterior(model=MODEL, n=N), scheme=PoissonSampling(rate=0.05), relation=ReplaceOne(n=N)),
    Subsampled(
        base=RandomizedResponse(log_odds=1, relation=ReplaceOne(n=N)),
        scheme=PoissonSampling(rate=0.2),
        relation=ReplaceOne(n=N),
    ),
    Subsampled(base=RandomizedResponse(log_odds=1, relation=ADD, slots=2), scheme=PoissonSampling(rate=0.2)),
    Subsampled(base=Subsampled(base=SUM, scheme=PoissonSampling(rate=0.5)), scheme=PoissonSampling(rate=0.5)),
]
ROWS = Subsampled(base=ClippedSum(norm=1, noise_std=1, width=2, draws=2), scheme=PoissonSampling(rate=0.5))
each = pytest.mark.parametrize("mechanism", COLUMN, ids=lambda m: f"{type(m.base).__name__}-{type(m.scheme).__name__}")
DATA = np.array([0.0, 1, 1, 0, 1, 0])


@each
def test_the_wrapper_equation(mechanism):
    own = mechanism.base.accountant
    made = SubsampledAccountant(base=own, scheme=mechanism.scheme, relation=mechanism.relation)
    assert mechanism.accountant == made
    assert Accountant.from_dict(made.to_dict()) == made
    assert mechanism.accountant.relation == mechanism.relation


@each
def test_releases(mechanism):
    one, other = (mechanism.release(DATA, rng=np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert Release.from_json(one.to_json()) == one
    assert set(one.draws) == set(mechanism.base.release(DATA[: _size(mechanism.base)]).draws)
    assert one.account == mechanism.accountant.assuming(Assumption.RNG_FRESH)
    assert mechanism.release(DATA).account == mechanism.accountant
    assert mechanism.release(DATA).account != one.account


def _size(base):
    relation = base.accountant.relation
    return relation.n if isinstance(relation, ReplaceOne) else None


@each
@pytest.mark.parametrize("record", [np.nan, np.inf, -np.inf, 1e300, -5.0, 0.4])
def test_release_is_total(mechanism, record):
    for seed in range(5):
        for draw in mechanism.release(np.full(N, record), rng=np.random.default_rng(seed)).draws.values():
            assert np.isfinite(draw).all()


@each
def test_the_curator_sees_all_records(mechanism):
    data = DATA.copy()
    data[2] = np.nan
    assert mechanism.validate(data).facts == {"missing": 1}
    assert mechanism.validate(DATA).facts == {}


@each
@pytest.mark.parametrize("data", [np.ones((N, 2)), "text", None, np.ones(N - 2), np.ones(N + 1)])
def test_wrong_data_are_refused_before_anything_is_drawn(mechanism, data):
    least = 0 if isinstance(mechanism.scheme, PoissonSampling) else N - 1
    if mechanism.relation == ADD and np.ndim(data) == 1 and len(data) >= least:
        return
    source = np.random.default_rng(1)
    before = source.bit_generator.state
    with pytest.raises(SchemaError):
        mechanism.release(data, rng=source)
    assert source.bit_generator.state == before
    with pytest.raises(SchemaError):
        mechanism.validate(data)
    with pytest.raises(TypeError, match="Generator or None"):
        mechanism.release(DATA, rng=3)


def test_empty_samples_and_empty_data(rng):
    assert np.isfinite(COLUMN[0].release(np.empty(0), rng=rng)["sum"]).all()
    assert ROWS.release(np.empty((0, 2)), rng=rng)["sum"].shape == (2, 2)
    never = Subsampled(
        base=DirectPosterior(model=MODEL, n=N), scheme=PoissonSampling(rate=1e-12), relation=ReplaceOne(n=N)
    )
    assert 0 < never.release(DATA, rng=rng)["theta"][0] < 1


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rate", "accepted"), [(0.3, True), (0.27, False), pytest.param(0.33, False, marks=pytest.mark.long)]
)
def test_a_sampled_sum_follows_its_distribution(rate, accepted, rng, alpha):
    """Binomial(4, 0.3) plus normal noise of deviation 0.05; the mutants sample a tenth more or less."""
    made = Subsampled(base=GaussianSum(bounds=(0, 1), noise_std=0.05), scheme=PoissonSampling(rate=rate))
    drawn = [made.release(np.ones(4), rng=rng)["sum"][0] for _ in range(4000)]
    seen = np.bincount(np.rint(np.clip(drawn, 0, 4)).astype(int), minlength=5)
    assert (stats.chisquare(seen, 4000 * stats.binom.pmf(np.arange(5), 4, 0.3)).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("scheme", "distribution"), [
    (WithoutReplacement(n=6, m=3), stats.hypergeom(6, 3, 3)),
    (WithReplacement(n=6, m=3), stats.binom(3, 0.5)),
])  # fmt: skip
@pytest.mark.parametrize(("ones", "accepted"), [(3, True), (2, False), (4, False)])
def test_sampled_sums_of_fixed_size(scheme, distribution, ones, accepted, rng, alpha):
    base = GaussianSum(bounds=(0, 1), noise_std=0.05, relation=ReplaceOne(n=3))
    data = np.arange(6) < ones
    made = Subsampled(base=base, scheme=scheme)
    drawn = [made.release(data, rng=rng)["sum"][0] for _ in range(1000)]
    seen = np.bincount(np.rint(np.clip(drawn, 0, 3)).astype(int), minlength=4)
    assert (stats.chisquare(seen, 1000 * distribution.pmf(np.arange(4))).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.9, False), (1.1, False)])
def test_noise_of_sums_has_the_declared_scale(factor, accepted, rng, alpha):
    data = np.array([2.0, -9.0, np.nan])
    normal = GaussianSum(bounds=(-1, 1), noise_std=2.0 * factor, draws=50_000).release(data, rng=rng)["sum"]
    laplace = LaplaceSum(bounds=(1, 3), scale=2.0 * factor, draws=50_000).release(data, rng=rng)["sum"]
    assert (stats.kstest(normal, stats.norm(0, 2).cdf).pvalue > alpha / 2) == accepted
    assert (stats.kstest(laplace, stats.laplace(4, 2).cdf).pvalue > alpha / 2) == accepted


def test_sensitivities():
    under = ReplaceOne(n=3)
    assert GaussianSum(bounds=(-1, 3), noise_std=1).sensitivity == 3
    assert GaussianSum(bounds=(-1, 3), noise_std=1, relation=under).sensitivity == 4
    assert LaplaceSum(bounds=(-4, 3), scale=1).sensitivity == 4
    assert ClippedSum(norm=2, noise_std=1, width=3).sensitivity == 2
    assert ClippedSum(norm=2, noise_std=1, width=3, relation=under).sensitivity == 4
    assert Assumption.TRUSTED_SENSITIVITY not in SUM.accountant.assumptions


def test_rows_are_scaled_to_the_norm(rng):
    made = ClippedSum(norm=1, noise_std=1e-9, width=2)
    rows = [[3.0, 4.0], [0.3, 0.4], [1e300, 1e300], [1e-300, 0.0], [np.nan, 0.5], [np.inf, 0.0]]
    expected = [0.6 + 0.3 + 0.5**0.5, 0.8 + 0.4 + 0.5**0.5 + 0.5]
    assert np.allclose(made.release(rows, rng=rng)["sum"][0], expected, atol=1e-7)
    assert made.validate(rows).facts == {"not finite": 2, "scaled down": 2}
    odd = np.array([[None, "x"], [10**400, True]], dtype=object)
    assert np.allclose(made.release(odd, rng=rng)["sum"][0], [0, 1], atol=1e-7)
    assert np.allclose(made.release([["x", 1j], [np.ones(2), 1.0]], rng=rng)["sum"][0], [0, 1], atol=1e-7)
    masked = np.ma.array([[0.1, 0.2], [0.3, 0.4]], mask=[[0, 0], [1, 1]])
    assert np.allclose(made.release(masked, rng=rng)["sum"][0], [0.1, 0.2], atol=1e-7)
    for wrong in (np.ones(2), np.ones((2, 3)), np.array([["a", "b"]]), [[1, 2], [3]], [1, 2]):
        with pytest.raises(SchemaError):
            made.release(wrong, rng=rng)
    with pytest.raises(SchemaError, match="n = 3"):
        ClippedSum(norm=1, noise_std=1, width=2, relation=ReplaceOne(n=3)).release(np.ones((2, 2)), rng=rng)


def test_calibration():
    target = DP(epsilon=1.0, delta=1e-6)
    for made in (
        GaussianSum.calibrate(bounds=(0, 2), target=target),
        ClippedSum.calibrate(norm=2, width=3, target=target),
        LaplaceSum.calibrate(bounds=(0, 2), target=target),
        Subsampled.calibrate(base=LaplaceSum(bounds=(0, 1), scale=0.5), target=target),
    ):
        assert made.accountant.epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
        assert target.met_by(made.accountant)
    assert Subsampled.calibrate(base=SUM, target=RDP(order=2, epsilon=9)).scheme == PoissonSampling(rate=1)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: Subsampled(base=SUM.accountant, scheme=PoissonSampling(rate=0.1)), TypeError, "must be a mechanism"),
        (lambda: Subsampled(base=SUM, scheme=0.1), TypeError, "scheme must be"),
        (lambda: Subsampled(base=SUM, scheme=WithoutReplacement(n=9, m=3)), RelationMismatch, "n=3"),
        (
            lambda: Subsampled(base=GaussianMechanism(sensitivity=1, noise_std=1), scheme=PoissonSampling(rate=0.1)),
            TypeError,
            "GaussianSum",
        ),
        (
            lambda: Subsampled(base=DirectPosterior(model=MODEL, n=N), scheme=PoissonSampling(rate=0.1)),
            RelationMismatch,
            r"; pass relation=ReplaceOne\(n=6\) to Subsampled$",
        ),
        (
            lambda: Subsampled(
                base=GaussianSum(bounds=(0, 1), noise_std=1, relation=ReplaceOne(n=9, unit="visit")),
                scheme=PoissonSampling(rate=0.1),
            ),
            RelationMismatch,
            r"; pass relation=ReplaceOne\(n=9, unit='visit'\) to Subsampled$",
        ),
        (lambda: GaussianSum(bounds=(0, 1), noise_std=0), ValueError, "noise_std"),
        (lambda: LaplaceSum(bounds=(1, 0), scale=1), ValueError, "low < high"),
        (lambda: ClippedSum(norm=np.nan, noise_std=1, width=2), ValueError, "norm"),
        (lambda: ClippedSum(norm=1, noise_std=1, width=0), ValueError, "width"),
        (lambda: GaussianSum(bounds=(0, 1), noise_std=1, relation="add"), ValueError, "relation must be"),
    ],
)
def test_bad_parameters(build, error, words):
    with pytest.raises(error, match=words):
        build()


@frozen_value
class OwnScheme(Scheme):
    """A scheme whose methods return what the test says."""

    drawn: object = (0,)
    pairs: object = ((AddRemove(), AddRemove()),)
    worst: object = ((SamplingPart(rate=0.5),),)

    def draw(self, size, rng):
        return self.drawn

    def conversions(self, base):
        return self.pairs

    def parts(self, base, relation):
        return self.worst


@pytest.mark.parametrize(
    ("drawn", "error", "words"),
    [
        ([0, -1], ValueError, "whole numbers from 0 to size - 1, got -1 for size 3"),
        ([0, 3], ValueError, "got 3 for size 3"),
        ([0.5], ValueError, "got 0.5 for size 3"),
        ([np.nan], ValueError, "got nan for size 3"),
        (["a"], TypeError, "got text"),
        ([True, False, True], TypeError, "got bool"),
        (1, TypeError, r"shape \(k,\), got int of shape \(\)"),
        ([[0], [1, 2]], TypeError, "got list"),
    ],
)
def test_positions_of_an_own_scheme_are_checked(drawn, error, words):
    with pytest.raises(error, match=f"OwnScheme.draw must return an array of positions.*{words}"):
        Subsampled(base=SUM, scheme=OwnScheme(drawn=drawn)).release([0.1, 0.2, 0.3])


@pytest.mark.parametrize("drawn", [[2, 0, 2], (), np.array([1.0]), np.array([1], dtype=np.uint8)])
def test_valid_positions_are_drawn(drawn):
    assert Subsampled(base=SUM, scheme=OwnScheme(drawn=drawn)).release([0.1, 0.2, 0.3])["sum"].shape == (1,)


def test_samples_of_a_size_without_an_account_are_refused():
    """The base's account is for two records, or for the sizes that the parts state; nobody's record is in none."""
    base = DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=2)
    pairs = ((ReplaceOne(n=2), ReplaceOne(n=3)),)
    sized = ((SamplingPart(rate=0.5, sizes=(1, 2)), SamplingPart(rate=0.5, sizes=(3, 3))),)
    for drawn, worst, words in (
        ((0,), ((SamplingPart(rate=0.5),),), "must return 2 positions, for which the base has an account, got 1"),
        ((0, 1, 2), ((SamplingPart(rate=0.5),),), "got 3"),
        ((0, 1, 2, 0), sized, "must return 1 to 2 or 3 positions, .*, got 4"),
    ):
        with pytest.raises(ValueError, match=words):
            Subsampled(base=base, scheme=OwnScheme(drawn=drawn, pairs=pairs, worst=worst)).release([0, 1, 1])
    for drawn, worst in (((0, 1), ((SamplingPart(rate=0.5),),)), ((), sized), ((1,), sized), ((0, 1, 2), sized)):
        Subsampled(base=base, scheme=OwnScheme(drawn=drawn, pairs=pairs, worst=worst)).release([0, 1, 1])


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"worst": SamplingPart(rate=0.5)}, TypeError, "OwnScheme.parts must .* got SamplingPart"),
        ({"worst": (SamplingPart(rate=0.5),)}, TypeError, "OwnScheme.parts must .* got a tuple with SamplingPart"),
        ({"worst": ((0.5,),)}, TypeError, "OwnScheme.parts must .* got a part of type float"),
        ({"worst": ()}, ValueError, "OwnScheme.parts must .* got an empty one"),
        ({"pairs": AddRemove()}, TypeError, "OwnScheme.conversions must .* got AddRemove"),
        ({"pairs": (AddRemove(), AddRemove())}, TypeError, "OwnScheme.conversions must .* got a tuple with AddRemove"),
        ({"pairs": ((AddRemove(), 3),)}, TypeError, "OwnScheme.conversions must .* a pair of AddRemove, int"),
        ({"pairs": ()}, ValueError, "OwnScheme.conversions must .* got an empty one"),
    ],
)
def test_parts_and_conversions_of_an_own_scheme_are_checked(fields, error, words):
    with pytest.raises(error, match=words):
        Subsampled(base=SUM, scheme=OwnScheme(**fields))


def test_calibrate_says_what_it_chooses():
    base = GaussianSum(bounds=(0, 1), noise_std=2)
    with pytest.raises(TypeError, match=r"scheme must be left out.*largest rate.*to keep the scheme, search"):
        Subsampled.calibrate(base=base, scheme=PoissonSampling(rate=0.1), target=DP(1, 1e-6))


@pytest.mark.parametrize(
    "base",
    [
        ConditionalSelection(base=SUM, threshold=0.0, stop_probability=0.2),
        RepeatedSelection(base=SUM, repetitions=Poisson(mean=2.0)),
    ],
    ids=["conditional", "repeated"],
)
def test_an_epoch_of_steps_that_may_release_nothing_is_refused(base):
    """Which step a draw belongs to would be lost, and a release failed with its budget spent."""
    with pytest.raises(TypeError, match="base must release draws in every step"):
        Subsampled(base=base, scheme=RandomAllocation(steps=3))
    once = RepeatedSelection(base=SUM, repetitions=TruncatedNegativeBinomial(eta=1, gamma=0.5))
    drawn = Subsampled(base=once, scheme=RandomAllocation(steps=3)).release([0.5, 1.0, 0.2])
    assert drawn["sum"].shape == (3,)
