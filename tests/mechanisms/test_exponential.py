"""Selections among candidates: the distribution of the choice, what records may move, and bad input."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

import privsample as ps
from privsample.errors import SchemaError
from tests.accounting.test_exponential import exponential, flip, flip_by_integral
from tests.mechanisms.candidates import CLASSES, NAMES, NUMBERS, STATED, of


class Unreadable:
    """An object that cannot be read as an array, and whose error shows a secret."""

    def __array__(self, *_, **__):
        raise ValueError("secret")


@pytest.mark.parametrize("utilities", [[0.0, 0.0, 0.0], [3.0, 2.5, -1.0], [0.0, -800.0, -800.0], [-1e6, -1e6, 7.0]])
def test_probabilities_by_definition(utilities):
    for cls, law in zip(CLASSES, (exponential, flip), strict=True):
        assert of(cls, rate=0.7).probabilities(utilities) == pytest.approx(law(0.7 * np.array(utilities)), rel=1e-13)


@pytest.mark.parametrize("count", [2, 7, 64, 1000])
def test_probabilities_of_many_candidates(count, rng):
    mechanism = of(ps.PermuteAndFlip, candidates=range(count))
    for spread in (0.0, 0.1, 3.0):
        utilities = spread * rng.standard_normal(count)
        found = mechanism.probabilities(utilities)
        assert found == pytest.approx(flip_by_integral(utilities), rel=1e-9)
        assert found.sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("rate", "accepted"), [(1.0, True), (1.3, False)])
@pytest.mark.parametrize("exact", [True, False])
def test_the_distribution_of_the_choice(exact, rate, accepted, rng, alpha):
    """Draws against probabilities; the broken copy has too large a rate. One large number moves all utilities."""
    utilities = np.array([0.0, -1.0, -2.5])
    for mechanism, law in (
        (of(ps.ExponentialMechanism, rate=rate), exponential),
        (of(ps.PermuteAndFlip, rate=rate), flip),
        (ps.ReportNoisyMax(candidates=NUMBERS, scale=1 / rate, utility=STATED), flip),
        (ps.ReportNoisyMax(candidates=NUMBERS, scale=1 / rate, utility=STATED, noise="gumbel"), exponential),
    ):
        drawn = replace(mechanism, draws=40_000, exact=exact).release(1e9 + utilities, rng=rng)["selected"]
        pvalue = stats.chisquare(np.bincount(drawn, minlength=3), 40_000 * law(utilities)).pvalue
        assert (pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize("cls", CLASSES)
def test_ties_at_extreme_rates(cls, rng, alpha):
    """With an enormous rate the best candidates are selected, each equally often, and nothing overflows."""
    tiny = ps.StatedUtility(sensitivity=1e-300)
    mechanism = of(cls, rate=1e300, utility=tiny, draws=2_000)
    drawn = mechanism.release([7.0, 6.0, 7.0], rng=rng)["selected"]
    assert set(drawn) == {0, 2}
    assert stats.binomtest(int((drawn == 0).sum()), 2_000, 0.5).pvalue > alpha
    assert set(mechanism.release([-1e308, 1e308, -1e308], rng=rng)["selected"]) == {1}
    assert mechanism.probabilities([7.0, 6.0, 7.0]) == pytest.approx([0.5, 0.0, 0.5])
    even = of(cls, rate=1e-310, draws=2_000).release([0.0, 1e5, -1e5], rng=rng)["selected"]
    assert stats.chisquare(np.bincount(even, minlength=3)).pvalue > alpha


@given(hnp.arrays(np.float64, st.integers(2, 40), elements=st.floats(-60, 60)), st.floats(1e-3, 10))
def test_permute_and_flip_is_never_worse(utilities, rate):
    """Its utility is stochastically at least as large: the chance of any level, hence the expectation too."""
    better, base = (
        of(cls, rate=rate, candidates=range(len(utilities))).probabilities(utilities) for cls in CLASSES[::-1]
    )
    order = np.argsort(-utilities, kind="stable")
    assert np.all(np.cumsum(better[order]) >= np.cumsum(base[order]) - 1e-12)
    assert better @ utilities >= base @ utilities - 1e-10


def test_probabilities_of_very_many_candidates_fit_in_memory():
    """One good candidate and n - 1 equal ones have probabilities in closed form; all factors at once need 0.6 GB."""
    n, a = 100_000, 0.01
    mechanism = of(ps.PermuteAndFlip, candidates=tuple(range(n)))
    tracemalloc.start()
    found = mechanism.probabilities(np.where(np.arange(n) == n - 1, 0.0, np.log(a)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e8
    assert found[-1] == pytest.approx(-np.expm1(n * np.log1p(-a)) / (n * a), rel=1e-12)
    assert found[:-1] == pytest.approx((1 - found[-1]) / (n - 1), rel=1e-12)


def test_permute_and_flip_loses_up_to_half_as_much_utility():
    mechanisms = [of(cls, candidates=(1, 2)) for cls in CLASSES]
    lost = [float(one.probabilities([0.0, -9.0])[1]) for one in mechanisms]
    assert lost[0] / lost[1] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("wrong", [lambda data: 1 / 0, lambda data: "text", lambda data: [1.0], lambda data: None])
def test_a_failing_function_shows_nothing(wrong, rng):
    mechanism = of(ps.ExponentialMechanism, utility=ps.StatedUtility(sensitivity=1, function=wrong), draws=200)
    assert set(mechanism.release([1.0], rng=rng)["selected"]) == {0, 1, 2}
    assert mechanism.validate([1.0]).facts == {"function failed, so that utilities count as 0": 3}


@pytest.mark.parametrize("cls", CLASSES)
def test_calibration(cls):
    for target in (ps.DP(epsilon=1), ps.DP(epsilon=2, delta=1e-6), ps.ZCDP(rho=0.1)):
        draws = 4 if cls is ps.ExponentialMechanism else 1  # Laplace losses take seconds to compose
        made = cls.calibrate(candidates=NUMBERS, utility=ps.SummedUtility(), draws=draws, target=target)
        assert target.met_by(made.accountant)
        assert not target.met_by(replace(made, rate=1.01 * made.rate).accountant)
    noisy = ps.ReportNoisyMax.calibrate(candidates=NUMBERS, target=ps.DP(epsilon=0.5))
    assert noisy.scale == pytest.approx(2.0)
    with pytest.raises(TypeError, match="utility must be a Utility"):
        cls.calibrate(candidates=NUMBERS, utility=3, target=ps.DP(epsilon=1))


def test_plots_and_tables_name_the_candidates():
    release = of(ps.PermuteAndFlip, candidates=NAMES, draws=50).release([0.0, 1.0, 0.5])
    labels = [label.get_text() for label in release.plot().get_xticklabels()]
    assert labels == list(NAMES)
    assert ps.Release.from_json(release.to_json()) == release


def test_accounts():
    assert of(ps.ExponentialMechanism, draws=3).accountant == ps.BoundedRangeAccountant(
        loss_range=2.0, draws=3, assumptions=STATED.assumptions
    )
    many = of(ps.ExponentialMechanism, draws=200).accountant
    assert many == 200 * of(ps.ExponentialMechanism).accountant
    assert of(ps.PermuteAndFlip, draws=3).accountant == 3 * of(ps.PermuteAndFlip).accountant
    gumbel = ps.ReportNoisyMax(candidates=NUMBERS, scale=0.5, utility=STATED, noise="gumbel")
    assert gumbel.accountant == of(ps.ExponentialMechanism, rate=2.0).accountant
    monotone = ps.StatedUtility(sensitivity=1, monotone=True)
    assert of(ps.ExponentialMechanism, utility=monotone).accountant.pure_epsilon == 1.0


def test_the_best_of_several_selections():
    """A selection is a base as any other mechanism is, here of the better of a random number of choices."""
    base = of(ps.ExponentialMechanism, utility=ps.SummedUtility())
    best = ps.RepeatedSelection(base=base, repetitions=ps.Poisson(mean=3))
    assert best.accountant.epsilon(1e-6) > base.accountant.epsilon(1e-6)
    assert set(best.release(np.eye(3), rng=np.random.default_rng(0)).draws) <= {"selected"}


def test_a_sample_of_numbers(rng):
    base = of(ps.ExponentialMechanism, utility=ps.CountUtility())
    sampled = ps.Subsampled(base=base, scheme=ps.PoissonSampling(rate=0.3))
    assert sampled.accountant.epsilon(1e-6) < base.accountant.epsilon(1e-6)
    assert sampled.release(np.ones(5), rng=rng)["selected"].shape == (1,)
    replaced = of(ps.PermuteAndFlip, utility=ps.QuantileUtility(), relation=ps.ReplaceOne(n=4))
    assert replaced.for_size(7).relation == ps.ReplaceOne(n=7)
    with pytest.raises(TypeError, match="takes utilities, and no records"):
        of(ps.ExponentialMechanism, utility=STATED).for_size(3)
    assert len(base.extreme_records()) == 2
    with pytest.raises(TypeError, match="defines no extreme records"):
        of(ps.ExponentialMechanism).extreme_records()


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"candidates": (1.0, np.inf)}, ValueError, "candidates must be finite"),
        ({"candidates": (1.0, np.nan)}, ValueError, "candidates must be finite"),
        ({"candidates": (1.0,)}, ValueError, "at least two"),
        ({"candidates": ("a", "a")}, ValueError, "different"),
        ({"candidates": (1, 1.0)}, ValueError, "different"),
        ({"candidates": ("a", 1.0)}, TypeError, "all numbers or all text"),
        ({"candidates": ("a", " ")}, ValueError, "not empty"),
        ({"candidates": "abc"}, TypeError, "candidates must be a list"),
        ({"candidates": {1.0, 2.0}}, TypeError, r"in a fixed order, got a set, whose order .*; pass sorted\(\.\.\.\)"),
        ({"candidates": frozenset(NAMES)}, TypeError, "in a fixed order, got a frozenset"),
        ({"candidates": (1.0, None)}, TypeError, r"candidates\[1\] must be a number"),
        ({"candidates": NAMES, "utility": ps.QuantileUtility()}, TypeError, "candidates must be numbers"),
        ({"rate": 0.0}, ValueError, "rate must be finite and > 0"),
        ({"rate": np.inf}, ValueError, "rate must be finite and > 0"),
        ({"utility": "sum"}, TypeError, "utility must be a Utility"),
        ({"draws": 0}, ValueError, "draws must be at least 1"),
        ({"relation": ps.AddRemove(members=2)}, ValueError, "group"),
        ({"utility": ps.StatedUtility(sensitivity=1, changes=[[1.0, 0.0]])}, ValueError, "3 columns"),
    ],
)
def test_bad_parameters(fields, error, said):
    with pytest.raises(error, match=said):
        of(ps.ExponentialMechanism, **fields)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ps.StatedUtility(sensitivity=0), "sensitivity must be finite and > 0"),
        (lambda: ps.StatedUtility(sensitivity=1e308), "sensitivity must be at most"),
        (lambda: ps.StatedUtility(sensitivity=1, bounds=(1, 0)), "low < high"),
        (lambda: ps.StatedUtility(sensitivity=1, changes=[1.0, 2.0]), "shape"),
        (lambda: ps.StatedUtility(sensitivity=1, changes=[[2.0, 0.0]]), "must not exceed the sensitivity"),
        (lambda: ps.StatedUtility(sensitivity=1, changes=[[1.0, 1.0]]), "must differ between candidates"),
        (lambda: ps.SummedUtility(bounds=(0, np.inf)), "bounds"),
        (lambda: ps.QuantileUtility(quantile=1.5), "quantile must lie"),
        (lambda: ps.QuantileUtility(quantile=np.nan), "quantile must lie"),
        (lambda: ps.ReportNoisyMax(candidates=NUMBERS, scale=1, noise="laplace"), "noise must be"),
        (lambda: of(ps.ExponentialMechanism).probabilities([1.0, 2.0]), "utilities must be 3 finite .* shape"),
        (lambda: of(ps.ExponentialMechanism).probabilities([1.0, 2.0, np.inf]), "3 finite .*, got inf for candidate 2"),
        (lambda: of(ps.ExponentialMechanism).probabilities([1.0, np.nan, 2.0]), "3 finite .*, got nan for candidate 1"),
        (lambda: of(ps.ExponentialMechanism, rate=1e200, utility=ps.StatedUtility(sensitivity=1e200)), "loss_range"),
    ],
)
def test_bad_numbers(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    ("utility", "data", "said"),
    [
        (STATED, [1.0, 2.0], r"shape \(3,\)"),
        (STATED, np.array(["a", "b", "c"]), "array of real numbers, got text"),
        (STATED, Unreadable(), "must be an array of real numbers"),
        (ps.SummedUtility(), np.ones((2, 4)), r"ratings must .* \(records, 3\), one column .*, got shape \(2, 4\)"),
        (ps.SummedUtility(), np.ones(3), r"ratings must have shape \(records, 3\), .*, got shape \(3,\)"),
        (ps.SummedUtility(), [1.0, 0.0, 1.0], r"ratings must have shape \(records, 3\), .*, got shape \(3,\)"),
        (ps.QuantileUtility(), np.ones((2, 4)), "one column"),
        (ps.CountUtility(), np.array(["a"]), "the column holds text"),
    ],
)
def test_data_of_another_form_are_refused(utility, data, said):
    with pytest.raises(SchemaError, match=said):
        of(ps.ExponentialMechanism, utility=utility).release(data)


def test_the_declared_number_of_records():
    for utility, data in ((ps.SummedUtility(), np.ones((3, 3))), (ps.QuantileUtility(), np.ones(3))):
        with pytest.raises(SchemaError, match="n = 4 records were declared, the data hold 3"):
            of(ps.ExponentialMechanism, utility=utility, relation=ps.ReplaceOne(n=4)).release(data)


def test_utilities_of_neighbours_in_an_audit():
    mechanism = of(ps.ExponentialMechanism)
    with pytest.raises(ValueError, match="changes of utilities between neighbours must differ"):
        ps.audit(mechanism, datasets=([0.0, 0.0, 0.0], [3.0, 0.0, 0.0]), samples=500)
    with pytest.raises(ValueError, match="changes of utilities between neighbours must differ"):
        ps.audit(mechanism, datasets=([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]), samples=500)


def test_clipping_may_undo_a_part_of_a_known_change():
    """The candidate at its bound does not move, so that the range of the change grows from 0.1 to 1."""
    utility = ps.StatedUtility(sensitivity=1, changes=[[1, 0.9, 0.9]], bounds=(0, 10))
    mechanism = ps.ExponentialMechanism(candidates=(1, 2, 3), rate=1.0, utility=utility)
    p, q = (mechanism.probabilities(np.minimum(u, 10.0)) for u in ([5, 10, 3.0], [6, 10.9, 3.9]))
    assert mechanism.accountant.pure_epsilon == 1.0
    assert mechanism.accountant.delta(0.1) >= np.maximum(q - np.exp(0.1) * p, 0).sum() > 0.01
    assert replace(utility, bounds=None).change_range(ps.AddRemove()) == pytest.approx(0.1)


def test_the_range_of_a_known_change_is_rounded_up():
    """1 - (-2^-54) is nearer to 1 than to the next float, and 1 would be too little."""
    utility = ps.StatedUtility(sensitivity=2, changes=[[1.0, -(2.0**-54)], [0.5, 0.0]])
    assert utility.change_range(ps.AddRemove()) == 1.0 + 2.0**-52


def test_a_replacement_is_not_monotone():
    """Each of two records raises one utility: their replacement raises one and lowers the other."""
    utility = ps.StatedUtility(sensitivity=1, monotone=True)
    assert [utility.change_range(each) for each in (ps.AddRemove(), ps.ReplaceOne(n=9))] == [1.0, 2.0]


def test_only_releases_of_the_mechanism_have_selected_candidates():
    mechanism = of(ps.ExponentialMechanism, candidates=dict.fromkeys(NAMES).keys(), utility=ps.CountUtility())
    assert mechanism.candidates == NAMES
    base = of(ps.ExponentialMechanism, relation=ps.ReplaceOne(n=2), utility=ps.QuantileUtility())
    wrapped = ps.Subsampled(base=base, scheme=ps.WithoutReplacement(n=4, m=2)).release([1.0, 2.0, 3.0, 1.0])
    assert base.selected(wrapped)[0] in NUMBERS
    other = of(ps.PermuteAndFlip, candidates=NAMES).release([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"must be one of this mechanism, got one of PermuteAndFlip$"):
        mechanism.selected(other)
    with pytest.raises(ValueError, match="got one of ExponentialMechanism with other fields"):
        mechanism.selected(of(ps.ExponentialMechanism).release([0.0, 1.0, 2.0]))
    with pytest.raises(TypeError, match="selected takes a Release of this mechanism, got int"):
        mechanism.selected(3)


@pytest.mark.parametrize(
    ("utilities", "found"),
    [(["a", "b", "c"], "text"), ([1, "2", 3], "text"), ({"a": 1}, "dict"), ([[1], 2, 3], "list")],
)
def test_utilities_that_are_no_numbers_have_no_probabilities(utilities, found):
    with pytest.raises(TypeError, match=f"utilities must be numbers, got {found}"):
        of(ps.ExponentialMechanism).probabilities(utilities)


def test_numeric_candidates_are_shown_by_their_values():
    mechanism = of(ps.PermuteAndFlip, rate=1e3, candidates=(1, 2.5, -3e30), utility=ps.QuantileUtility())
    release = mechanism.release([2.5] * 9)
    assert release.coords == {"category": ("1", "2.5", "-3e+30")}
    assert ps.Release.from_json(release.to_json()) == release
    assert [tick.get_text() for tick in release.plot().get_xticklabels()] == ["1", "2.5", "-3e+30"]
    grid = of(ps.PermuteAndFlip, rate=1e3, candidates=np.arange(1000) / 2, utility=ps.QuantileUtility())
    release = grid.release([70.5] * 9)
    assert [tick.get_text() for tick in release.plot().get_xticklabels()] == ["70.5"]
