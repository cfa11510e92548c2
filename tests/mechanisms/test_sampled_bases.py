"""Everything that takes records can be sampled: what is drawn, what it costs, and what the audit says."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import special, stats

import privsample as ps
from privsample.errors import RelationMismatch, SchemaError
from privsample.mechanisms.base import Mechanism

N, NINE = 9, ps.ReplaceOne(n=9)
BETA = ps.BetaBernoulli(alpha=2, beta=3)
REGRESSION = ps.LinearRegression(feature_bounds=((0, 1),), target_bounds=(0, 1), shape=2, scale=1)
NAMES = ps.DirichletCategorical(alpha=(1, 1, 1), names=("no", "yes", "other"))
COLUMN, ROWS = np.array([0.0, 1, 1, 0, 1, 0, 0, 1, 1]), np.arange(9.0)[:, None] / 9
LABELLED = (ROWS, COLUMN)
BASES = {
    "statistics": (ps.NoisyStatistics(model=BETA, n=3, scale=1.0), COLUMN),
    "moments": (ps.NoisyStatistics(model=REGRESSION, n=3, scale=1.0, noise="gaussian"), LABELLED),
    "names": (ps.NoisyStatistics(model=NAMES, n=3, scale=1.0), ["yes", "no", "?", *["other"] * 6]),
    "tempered": (ps.TemperedPosterior(model=BETA, n=3, temperature=2.0, truncation=0.1), COLUMN),
    "logistic": (ps.LogisticPosterior(n=3, features=1, norm=1, prior_std=1), LABELLED),
    "langevin": (
        ps.LangevinPosterior(
            likelihood=ps.HuberLikelihood(threshold=1), features=1, norm=1, relation=ps.ReplaceOne(n=3), steps=9
        ),
        LABELLED,
    ),
    "gibbs": (ps.PrivateGibbsHMM(states=1, categories=(2,), entries=(3,), scale=2.0, sweeps=2), COLUMN[:, None]),
    "tempered gibbs": (
        ps.PrivateGibbsHMM(states=2, categories=(2,), entries=(3,), temperature=8.0, sweeps=2),
        COLUMN[:, None],
    ),
    "best of runs": (
        ps.RepeatedSelection(base=ps.DirectPosterior(model=BETA, n=3), repetitions=ps.Poisson(mean=2)),
        COLUMN,
    ),
    "kernel": (
        ps.MarkovKernel(base=ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=3)), matrix=np.eye(2)),
        COLUMN,
    ),
    "network": (
        ps.PrivateGibbsNetwork(categories=(2, 2), edges=((0, 1),), n=3, scale=2.0, sweeps=2),
        np.column_stack([COLUMN, COLUMN[::-1]]),
    ),
    "counts": (
        ps.ExponentialMechanism(
            candidates=("no", "yes", "other"), utility=ps.CountUtility(), rate=0.5, relation=ps.ReplaceOne(n=3)
        ),
        ["yes", "no", "?", *["other"] * 6],
    ),
    "ratings": (
        ps.PermuteAndFlip(candidates=(1, 2), utility=ps.SummedUtility(), rate=0.5, relation=ps.ReplaceOne(n=3)),
        np.column_stack([COLUMN, ROWS]),
    ),
    "ranks": (
        ps.ReportNoisyMax(candidates=(0, 1), utility=ps.QuantileUtility(), scale=2.0, relation=ps.ReplaceOne(n=3)),
        COLUMN,
    ),
    "descent": (
        ps.NoisyProjectedSGD(loss=ps.LogisticLoss(features=1, norm=1, radius=1), n=3, rate=0.5, noise_std=2),
        LABELLED,
    ),
}
SLOW = ("best of runs", "logistic")  # to audit
each = pytest.mark.parametrize("name", BASES)


@pytest.mark.parametrize("build", [ps.ExponentialMechanism, ps.PermuteAndFlip])
@pytest.mark.parametrize("added", [False, True])
def test_sampled_selections_cost_at_least_the_truth(build, added):
    """All datasets of four records and three names, one of which is replaced or added, and all of their samples."""
    names, utility, rate = ("a", "b", "c"), ps.CountUtility(), 0.8
    relation = ps.AddRemove() if added else ps.ReplaceOne(n=2)
    base = build(candidates=names, utility=utility, rate=rate, relation=relation)
    scheme = ps.PoissonSampling(rate=0.3) if added else ps.WithoutReplacement(n=4, m=2)
    account = ps.Subsampled(base=base, scheme=scheme).accountant
    epsilons = np.array([0.0, 0.05, 0.2, 0.5, 0.8])

    def law(counts):
        """The distribution of the choice from a sample of so many records of each name."""
        found, total = np.zeros(3), 0.0
        for part in itertools.product(*(range(count + 1) for count in counts)):
            ways = np.prod([special.comb(count, kept) for count, kept in zip(counts, part, strict=True)])
            chance = 0.3 ** sum(part) * 0.7 ** (sum(counts) - sum(part)) if added else float(sum(part) == 2)
            found, total = found + ways * chance * base.probabilities(np.array(part, float)), total + ways * chance
        return found / total

    pairs = []
    for counts in itertools.product(range(5), repeat=3):
        if sum(counts) == 4:
            for lost, gained in itertools.permutations(range(3), 2):
                other = np.array(counts) - np.eye(3, dtype=int)[lost] + (0 if added else np.eye(3, dtype=int)[gained])
                if other.min() >= 0:
                    pairs += [(law(counts), law(tuple(other))), (law(tuple(other)), law(counts))]
    truth = np.max([np.maximum(p - np.exp(epsilons)[:, None] * q, 0.0).sum(-1) for p, q in pairs], axis=0)
    assert (truth <= account.delta(epsilons) * (1 + 1e-12)).all()
    assert truth[0] > 0.4 * account.delta(0.0)  # counts of few records do not attain the worst tilt
    wrong = ps.Subsampled(base=replace(base, rate=rate / 3), scheme=scheme).accountant  # a third of the rate
    assert (truth > wrong.delta(epsilons)).any()


def test_utilities_hold_no_records_to_sample():
    base = ps.ExponentialMechanism(candidates=(1, 2), utility=ps.StatedUtility(sensitivity=1), rate=0.5)
    with pytest.raises(TypeError, match="StatedUtility takes utilities, and no records that could be sampled"):
        ps.Subsampled(base=base, scheme=ps.PoissonSampling(rate=0.1))


@each
def test_it_is_drawn_and_accounted(name):
    base, data = BASES[name]
    mechanism = ps.Subsampled(base=base, scheme=ps.WithoutReplacement(n=N, m=3))
    release = mechanism.release(data, rng=np.random.default_rng(1))
    assert release == mechanism.release(data, rng=np.random.default_rng(1))
    assert ps.Release.from_json(release.to_json()) == release
    assert mechanism.relation == NINE
    own = base.accountant
    inner = np.log1p(3 * np.expm1(0.2))
    searched = name in ("tempered gibbs", "best of runs")  # their curves are tabulated first
    expected = pytest.approx(float(own.delta(inner)) / 3, rel=0.2 if searched else 1e-9)
    assert mechanism.accountant.delta(0.2) == expected
    assert isinstance(mechanism.validate(data), ps.CuratorNotes)
    with pytest.raises(SchemaError):
        mechanism.release([0.0, 1.0])


@pytest.mark.parametrize(
    ("name", "record"),
    [  # the best of runs at night but for one record: its curve is tabulated first
        pytest.param(name, record, marks=pytest.mark.long if name == "best of runs" and not np.isnan(record) else ())
        for name, record in itertools.product(BASES, [np.nan, np.inf, 1e300, -5.0])
    ],
)
def test_no_record_causes_an_error(name, record):
    base, data = BASES[name]
    odd = (np.full((N, 1), record), np.full(N, record)) if isinstance(data, tuple) else np.full(np.shape(data), record)
    mechanism = ps.Subsampled(base=base, scheme=ps.WithReplacement(n=N, m=3))
    for seed in range(3):
        for draw in mechanism.release(odd, rng=np.random.default_rng(seed)).draws.values():
            assert np.isfinite(draw).all()


@pytest.mark.parametrize(
    "name",
    [
        *("statistics", "moments", "tempered", "logistic", "gibbs", "tempered gibbs", "kernel"),
        pytest.param("best of runs", marks=pytest.mark.long),  # its curve is tabulated first
    ],
)
def test_poisson_samples_under_replace_one(name):
    base, data = BASES[name]
    base = base.for_size(N)
    mechanism = ps.Subsampled(base=base, scheme=ps.PoissonSampling(rate=0.2), relation=NINE)
    assert mechanism.release(data, rng=np.random.default_rng(2)).account.relation == NINE
    with pytest.raises(RelationMismatch, match=r"relation=ReplaceOne\(n=n\)"):
        ps.Subsampled(base=base, scheme=ps.PoissonSampling(rate=0.2))


def test_a_cost_that_depends_on_the_size_is_refused_for_random_sizes():
    base, _ = BASES["descent"]
    with pytest.raises(TypeError, match="not known for other numbers of records"):
        ps.Subsampled(base=base.for_size(N), scheme=ps.PoissonSampling(rate=0.2), relation=NINE)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    ["moments", "tempered", "gibbs", "descent", *(pytest.param(name, marks=pytest.mark.long) for name in SLOW)],
)
def test_audits_agree(name, rng, alpha):
    """At night the best of runs, of which each draw runs its base, and logistic posteriors, whose sampler is set up."""
    mechanism = ps.Subsampled(base=BASES[name][0], scheme=ps.WithoutReplacement(n=N, m=3))
    assert not ps.audit(mechanism, samples=200, rng=rng, level=alpha).violated


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["statistics", pytest.param("logistic", marks=pytest.mark.long)])
def test_audits_of_the_hybrid_agree(name, rng, alpha):
    """Of logistic posteriors at night: each sample has another size, for which the sampler is set up anew."""
    scheme = ps.WithReplacement(n=4, m=3)
    mechanism = ps.Subsampled(base=BASES[name][0], scheme=scheme, relation=ps.AddRemove())
    assert not ps.audit(mechanism, samples=200, rng=rng, level=alpha).violated


def test_the_loss_of_sampled_statistics_is_that_of_the_mixture():
    """Against an enumeration of all samples, for every scheme with a known number of copies."""
    base = ps.NoisyStatistics(model=BETA, n=2, scale=1.0)
    pairs = list(itertools.combinations(range(4), 2))
    strata = [(first, 3) for first in range(3)]
    for scheme, samples in (
        (ps.WithoutReplacement(n=4, m=2), pairs),
        (ps.StratifiedSampling(sizes=(3, 1), samples=(1, 1)), strata),
    ):
        mechanism = ps.Subsampled(base=base, scheme=scheme)
        for case in mechanism.worst_neighbours():
            curves = []
            for build in case.datasets:
                data = build()
                counts = np.array([data[list(sample)].sum() for sample in samples])
                weights = np.bincount(counts.astype(int), minlength=3) / len(counts)
                at = np.arange(-3.0, 6.0)
                curves.append(weights @ [np.exp(base.distribution.log_mass(at - k)) for k in range(3)])
            loss = case.loss(np.column_stack([at, np.ones(len(at))]))
            assert loss == pytest.approx(np.log(curves[0] / curves[1]), abs=1e-9)


@dataclass(frozen=True, kw_only=True)
class NoisyCount(Mechanism):
    """A mechanism of another package that declares its records by one attribute."""

    n: int
    scale: float = 1.0
    record_format = ps.RowFormat(width=2)

    @property
    def accountant(self):
        return ps.LaplaceAccountant(sensitivity=1, scale=self.scale, relation=ps.ReplaceOne(n=self.n))

    def _statistic(self, data):
        if len(data) != self.n:
            raise SchemaError(f"n = {self.n} rows were declared, got {len(data)}")
        return float((np.nan_to_num(data)[:, 0] > 0).sum())

    def _draw(self, statistic, rng):
        return {"count": statistic + rng.laplace(0, self.scale, 1)}


@dataclass(frozen=True, kw_only=True)
class AnySize(NoisyCount):
    n: int = 1
    relation: ps.Relation = NINE


def test_a_stranger_declares_one_attribute():
    mechanism = ps.Subsampled(base=NoisyCount(n=3), scheme=ps.WithoutReplacement(n=9, m=3))
    assert mechanism.release(np.ones((9, 2)), rng=np.random.default_rng(1))["count"].shape == (1,)
    assert mechanism.accountant.epsilon(0.0) == pytest.approx(np.log1p(np.expm1(1) / 3))
    assert NoisyCount(n=3).for_size(7) == NoisyCount(n=7)
    assert NoisyCount(n=3).for_strata((2, 3)) == NoisyCount(n=5)
    poisson = ps.Subsampled(base=NoisyCount(n=9), scheme=ps.PoissonSampling(rate=0.1), relation=NINE)
    assert poisson.release(np.ones((9, 2)), rng=np.random.default_rng(1))["count"].shape == (1,)
    data = (np.zeros((9, 2)), np.vstack([np.ones((1, 2)), np.zeros((8, 2))]))
    verdict = ps.audit(mechanism, datasets=data, samples=2_000, rng=np.random.default_rng(3))
    assert not verdict.violated
    with pytest.raises(TypeError, match=r"does not take records.*record_format"):
        ps.GaussianMechanism(sensitivity=1, noise_std=1).for_size(3)


def test_strata_keep_their_records():
    scheme = ps.StratifiedSampling(sizes=(6, 0, 4), samples=(2, 0, 1))
    base = ps.PrivateGibbsHMM(states=2, categories=(2,), entries=(2, 0, 1), scale=2.0, sweeps=2, released_sweeps=1)
    mechanism = ps.Subsampled(base=base, scheme=scheme)
    assert mechanism.relation == ps.ReplaceOne(n=10)
    assert mechanism.record_strata == (6, 0, 4)
    assert mechanism.release(np.zeros((10, 1)), rng=np.random.default_rng(1))["states"].shape == (1, 3)
    inner = np.log1p(3 * np.expm1(0.2))
    assert mechanism.accountant.delta(0.2) == pytest.approx(float(base.accountant.delta(inner)) / 3, rel=1e-9)
    rows = np.zeros((10, 1))
    rows[0] = np.nan
    assert mechanism.validate(rows).facts == {"feature 0, missing": 1}
    for wrong in (ps.WithoutReplacement(n=10, m=3), ps.StratifiedSampling(sizes=(6, 0, 4), samples=(1, 0, 2))):
        with pytest.raises(ValueError, match=r"StratifiedSampling\(sizes=..., samples=\(2, 0, 1\)\)"):
            ps.Subsampled(base=base, scheme=wrong)
    with pytest.raises(TypeError, match="3 time steps cannot be sampled together"):
        base.for_size(7)
    assert base.for_size(3) is base
    nested = ps.Subsampled(
        base=ps.RepeatedSelection(base=base, repetitions=ps.Poisson(mean=1), score=len), scheme=scheme
    )
    assert nested.record_strata == (6, 0, 4)
    assert nested.base.for_strata((1, 0, 1)).base.entries == (1, 0, 1)
    assert ps.Subsampled(base=NoisyCount(n=3), scheme=scheme).record_strata is None


@pytest.mark.statistical
@pytest.mark.parametrize(("samples", "accepted"), [((2, 3), True), ((3, 2), False)])
def test_strata_are_sampled_uniformly(samples, accepted, rng, alpha):
    scheme = ps.StratifiedSampling(sizes=(4, 6), samples=samples)
    drawn = np.array([np.bincount(scheme.draw(10, rng), minlength=10) for _ in range(4_000)])
    expected = 4_000 * np.repeat([2 / 4, 3 / 6], [4, 6])
    assert (stats.chisquare(drawn.sum(axis=0) * 20_000 / drawn.sum(), expected).pvalue > alpha) or not accepted
    assert ((drawn[:, :4].sum(axis=1) == 2).all() and (drawn[:, 4:].sum(axis=1) == 3).all()) == accepted
    assert drawn.max() == 1


@pytest.mark.parametrize(
    ("sizes", "samples", "words"),
    [
        ((3, 2), (1,), "one number for each of the 2 strata"),
        ((3, 2), (1, 3), r"samples\[1\] must lie between 0 and sizes\[1\] = 2, got 3"),
        ((3, 2), (-1, 1), r"samples\[0\] must lie between"),
        ((3, 2), (0, 0), "no record would be drawn"),
        ((3, 0.5), (0, 0), r"sizes\[1\] must be a whole number"),
    ],
)
def test_wrong_strata(sizes, samples, words):
    with pytest.raises(ValueError, match=words):
        ps.StratifiedSampling(sizes=sizes, samples=samples)


def test_formats_of_records():
    pair = ps.LabelledFormat(features=2)
    for wrong in (np.ones((2, 2)), (np.ones((2, 3)), [1, 2]), (np.ones((2, 2)), [1])):
        with pytest.raises(SchemaError):
            pair.read(wrong)
    named = ps.ColumnFormat(names=("a", "b")).read(["b", "a", "?", ""])
    assert np.array_equal(named, [1, 0, -1, np.nan], equal_nan=True)
    assert REGRESSION.record_format == ps.LabelledFormat(features=1)
    assert BETA.record_format == ps.ColumnFormat()
    with pytest.raises(ValueError, match="width"):
        ps.RowFormat(width=0)
