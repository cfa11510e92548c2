"""The audit of bits: textbook noise falls, exact noise stands, and the event is described in plain words."""

from dataclasses import replace

import joblib
import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.exact.grid import Grid
from privsample.distributions.exact.integer_noise import rounded_gaussian, rounded_laplace
from privsample.mechanisms.neighbours import Neighbours
from privsample.simulations.audit import bit_features, bits
from privsample.simulations.audit.audit import informative_epsilons
from privsample.simulations.audit.catalogue import audit_example, catalogue
from privsample.simulations.audit.reachable import ReachedByInverse, ReachedBySum, candidate_statistics

LAPLACE = ps.LaplaceAccountant(sensitivity=1, scale=1)
GAUSSIAN = ps.GaussianAccountant(sensitivity=1, noise_std=1)
GRID = Grid(pitch=2.0**-40)
TENTHS = np.full(50, 0.1)


def inverse_laplace(statistic, count, rng):
    u = rng.random(count) - 0.5
    return statistic - np.sign(u) * np.log(1 - 2 * np.abs(u))


def box_muller(statistic, count, rng):
    return statistic + np.sqrt(-2 * np.log(1 - rng.random(count))) * np.cos(2 * np.pi * rng.random(count))


def four_uniforms(statistic, count, rng):
    """Laplace noise of Holohan and Braghin 2021, as in diffprivlib 0.6."""
    u = rng.random((4, count))
    return statistic - (np.log(1 - u[0]) * np.cos(np.pi * u[1]) + np.log(1 - u[2]) * np.cos(np.pi * u[3]))


def sum_in_data_order(records, count, rng):
    """Noise that is exact on its grid, added to a sum whose last bits depend on the records and their order."""
    return np.add.accumulate(records)[-1] + rounded_laplace(1.0, GRID, count, rng) * GRID.pitch


def sum_on_the_grid(records, count, rng):
    total = int(np.rint(records / GRID.pitch).astype(np.int64).sum())
    return (total + rounded_laplace(1.0, GRID, count, rng)) * GRID.pitch


def numpy_laplace(statistic, count, rng):
    return statistic + rng.laplace(size=count)


def numpy_normal(statistic, count, rng):
    return statistic + rng.normal(size=count)


def exact_laplace(statistic, count, rng):
    return (round(statistic / GRID.pitch) + rounded_laplace(1.0, GRID, count, rng)) * GRID.pitch


def exact_gaussian(statistic, count, rng):
    return (round(statistic / GRID.pitch) + rounded_gaussian(1.0, GRID, count, rng)) * GRID.pitch


class Drawn(ps.LaplaceMechanism):
    """A mechanism whose outputs are drawn by a function of (statistic, count, rng)."""

    __slots__ = ()


def many(draw, account, pair):
    """A mechanism of a user that draws many outputs at once, with its worst neighbours."""

    class Own(Drawn):
        __slots__ = ()

        def worst_neighbours(self, group=1):
            return (
                Neighbours(
                    account=account,
                    descriptions=("the first", "the second"),
                    datasets=(lambda: pair[0], lambda: pair[1]),
                    draw=draw,
                ),
            )

    return Own(sensitivity=1, scale=1)


ONES = (0.0, 1.0)
SUMS = (TENTHS, np.append(TENTHS[:-1], 0.3))
FAR_SUMS = (TENTHS, np.append(TENTHS[:-1], 1.1))

BROKEN = {
    "Laplace by inverse CDF": (inverse_laplace, LAPLACE, ONES),
    "Laplace by inverse CDF, larger statistic": (inverse_laplace, LAPLACE, (37.0, 38.0)),
    "Box-Muller": (box_muller, GAUSSIAN, ONES),
    "four uniforms": (four_uniforms, LAPLACE, ONES),
    "NumPy's Laplace": (numpy_laplace, LAPLACE, ONES),
    "NumPy's normal": (numpy_normal, GAUSSIAN, ONES),
    "a sum in data order": (sum_in_data_order, LAPLACE, SUMS),
}
EXACT = {
    "Laplace": (exact_laplace, LAPLACE, ONES),
    "Laplace, larger statistic": (exact_laplace, LAPLACE, (37.0, 38.0)),
    "Gaussian": (exact_gaussian, GAUSSIAN, ONES),
    "a sum of integers": (sum_on_the_grid, LAPLACE, FAR_SUMS),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", BROKEN)
def test_textbook_noise_is_refuted(name, rng):
    verdict = ps.audit(many(*BROKEN[name]), view="bits", rng=rng)
    assert verdict.violated, verdict.statement
    assert verdict.lower > verdict.claim
    assert verdict.event in verdict.statement


@pytest.mark.statistical
@pytest.mark.parametrize("name", EXACT)
def test_exact_noise_is_consistent(name, rng, alpha):
    verdict = ps.audit(many(*EXACT[name]), view="bits", level=alpha, rng=rng)
    assert not verdict.violated, verdict.statement
    assert np.all(verdict.lowers <= verdict.claims)
    assert verdict.lowers.max() > verdict.claims.max() / 2  # the claim is nearly attained, so the audit has power


MECHANISMS = [
    ps.LaplaceMechanism(sensitivity=1, scale=1),
    ps.GaussianMechanism(sensitivity=2, noise_std=3, shape=(2,)),
    ps.LaplaceSum(bounds=(0, 1), scale=1, relation=ps.ReplaceOne(n=20)),
    ps.GaussianSum(bounds=(-1, 2), noise_std=2, relation=ps.AddRemove()),
]


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_pure_noise_mechanisms_are_refuted_where_they_are_not_exact(mechanism, rng, alpha):
    verdict = ps.audit(mechanism, view="bits", samples=20_000, level=alpha, rng=rng)
    assert not verdict.violated, verdict.statement
    floats = replace(mechanism, exact=False)
    assert ps.audit(floats, view="bits", samples=20_000, rng=rng).violated
    assert not ps.audit(floats, samples=20_000, level=alpha, rng=rng).violated  # as real numbers they are private


EXAMPLES = catalogue()
FLOATS = {ps.Assumption.IDEAL_REALS, ps.Assumption.FLOAT_CHAIN}
SLOW = {"gibbs-network", "gibbs-scan", "gibbs-updates", "sampled-tempered-posterior"}  # milliseconds a draw
WITHOUT_FLOATS = [
    name for name in EXAMPLES if name not in SLOW and not EXAMPLES[name].mechanism.accountant.assumptions & FLOATS
]
FEW, ENOUGH = 400, 4_000  # where a draw may take a millisecond, and to refute floating-point noise


@pytest.mark.statistical
@pytest.mark.parametrize("name", WITHOUT_FLOATS)
def test_accounts_that_do_not_assume_real_numbers_hold_for_bits(name, rng, alpha):
    example = EXAMPLES[name]
    epsilons = informative_epsilons(example.claim, (1.0, 0.3, 1e-3))  # each takes long for some accounts
    verdict = audit_example(example, view="bits", samples=FEW, epsilons=epsilons, level=alpha, rng=rng)
    assert not verdict.violated, verdict.statement


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("name", WITHOUT_FLOATS)
def test_accounts_that_do_not_assume_real_numbers_hold_for_the_bits_of_many_draws(name, rng, alpha):
    """As many draws as refute floating-point noise in `test_few_draws_refute_floating_point_noise`."""
    verdict = audit_example(EXAMPLES[name], view="bits", samples=ENOUGH, level=alpha, rng=rng)
    assert not verdict.violated, verdict.statement


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["laplace", "gaussian", "laplace-sum", "gaussian-sum"])
def test_few_draws_refute_floating_point_noise(name, rng):
    example = EXAMPLES[name]
    floats = replace(example, mechanism=replace(example.mechanism, exact=False))
    assert audit_example(floats, view="bits", samples=ENOUGH, rng=rng).violated
    assert floats.mechanism.accountant.assumptions & FLOATS


@pytest.mark.statistical
def test_a_function_of_the_user_is_audited_one_draw_at_a_time(rng, alpha):
    pair = (np.zeros(50), np.append(np.zeros(49), 1.0))
    options = {"datasets": pair, "claim": LAPLACE, "samples": 4_000, "view": "bits", "rng": rng}
    assert ps.audit(lambda data, rng: data.sum() + rng.laplace(), **options).violated
    exact = ps.audit(lambda data, rng: exact_laplace(data.sum(), 1, rng)[0], **options, level=alpha)
    assert not exact.violated, exact.statement


@pytest.mark.statistical
def test_true_claims_are_rarely_refuted(rng, alpha):
    """The level is kept because the event is chosen on other draws; on the same draws it would not be."""

    def chance_of_as_many(claim, runs):
        subject = many(exact_laplace, claim, ONES)
        found = [ps.audit(subject, samples=500, level=0.01, view="bits", rng=rng) for _ in range(runs)]
        return stats.binom.sf(sum(verdict.violated for verdict in found) - 1, runs, 0.01)

    assert chance_of_as_many(LAPLACE, 40) > alpha
    assert chance_of_as_many(ps.LaplaceAccountant(sensitivity=1, scale=3), 10) < alpha


@pytest.mark.statistical
def test_of_several_pairs_the_one_that_shows_the_bug_is_audited(rng):
    def careless(data, rng):
        return data.sum() + (rng.laplace() if data[-1] == 2.0 else exact_laplace(0.0, 1, rng)[0])

    pairs = [(np.zeros(3), np.array([0.0, 0.0, last])) for last in (1.0, 2.0, 0.5)]
    claim = ps.LaplaceAccountant(sensitivity=2, scale=1)
    verdict = ps.audit(careless, datasets=pairs, claim=claim, view="bits", samples=4_000, rng=rng)
    assert verdict.violated, verdict.statement
    assert "pair 2 of 3" in verdict.pair


@pytest.mark.statistical
def test_the_column_that_shows_the_bug_is_audited(rng):
    """Of thirty numbers, the last one carries the difference."""

    def draw(data, count, rng):
        table = exact_laplace(0.0, 30 * count, rng).reshape(count, 30)
        table[:, 29] = numpy_laplace(data, count, rng)
        return table

    verdict = ps.audit(many(draw, LAPLACE, ONES), samples=8_000, view="bits", rng=rng)
    assert verdict.violated, verdict.statement
    assert "number 30 of the output" in verdict.event


def test_discrete_outputs_and_constants_are_audited(rng):
    response = ps.RandomizedResponse(log_odds=0.5, relation=ps.ReplaceOne(n=2))
    verdict = ps.audit(response, view="bits", samples=4_000, rng=rng)
    assert not verdict.violated
    verdict = ps.audit(many(lambda data, count, rng: np.full(count, data), LAPLACE, ONES), view="bits", rng=rng)
    assert verdict.violated
    silent = ps.audit(many(lambda data, count, rng: np.zeros(count), LAPLACE, ONES), view="bits", rng=rng)
    assert not silent.violated


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_blocks_and_workers_change_nothing(backend, monkeypatch):
    monkeypatch.setattr("privsample.simulations.audit.draws._BLOCK", 300)
    noise = many(numpy_laplace, LAPLACE, ONES)
    alone = ps.audit(noise, samples=1_001, view="bits", rng=np.random.default_rng(3))
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert ps.audit(noise, samples=1_001, view="bits", rng=np.random.default_rng(3)) == alone


def test_outputs_are_never_held_together(monkeypatch):
    """Ten million draws fit into memory because no more than a block of them exists at a time."""
    monkeypatch.setattr("privsample.simulations.audit.draws._BLOCK", 1_000)
    monkeypatch.setattr(bits, "_PILOT", 1_000)
    sizes = []

    def draw(data, count, rng):
        sizes.append(count)
        return numpy_laplace(data, count, rng)

    ps.audit(many(draw, LAPLACE, ONES), samples=20_000, view="bits", rng=np.random.default_rng(0))
    assert max(sizes) == 1_000
    assert sum(sizes) == 2 * 20_000


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_refused(bad):
    noise = many(lambda data, count, rng: np.full(count, bad), LAPLACE, ONES)
    with pytest.raises(ValueError, match="outputs must be finite numbers, got NaN or infinity"):
        ps.audit(noise, samples=100, view="bits")


@pytest.mark.parametrize("view", [None, "bit", 1, ("bits",)])
def test_unknown_views_are_refused(view):
    with pytest.raises(ValueError, match="view must be 'outputs' or 'bits'"):
        ps.audit(ps.LaplaceMechanism(sensitivity=1, scale=1), view=view)


NUMBERS = np.array([1.0, -1.0, 0.75, -3.0, 0.1, 2.0**-30 * 5, 1e300, 5e-324, 2.0**-1022, 0.0, -0.0, 12345.0])


def exact_parts(x):
    """The odd significand and the exponent with x = significand 2^exponent, by whole-number arithmetic."""
    numerator, denominator = abs(float(x)).as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    while numerator and numerator % 2 == 0:
        numerator, exponent = numerator // 2, exponent + 1
    return numerator, exponent


def test_the_bits_of_numbers_are_read_exactly():
    significand, last = bit_features.significands(NUMBERS)
    zeros = bit_features.trailing_zeros(significand)
    for x, m, e, z in zip(NUMBERS, significand.tolist(), last.tolist(), zeros.tolist(), strict=True):
        assert m * 2.0**e == abs(x) or m == 0 == x
        if m:
            assert exact_parts(x) == (m >> z, e + z)


def test_every_number_lies_in_one_cell_that_describes_it():
    found = bit_features.bit_features(np.concatenate([NUMBERS, NUMBERS]))
    assert len({type(feature) for feature in found}) == 6
    for feature in found:
        cells = feature.cell(np.concatenate([NUMBERS, [1e-300, -1e308, 0.3]]))
        assert cells.min() >= 0
        assert cells.max() < feature.cells
        assert all(feature.describe(int(cell)) for cell in cells)
    lowest = next(feature for feature in found if isinstance(feature, bit_features.LowestBit))
    near = bit_features.LowestBit(base=-60)
    assert near.describe(int(near.cell(np.array([0.75]))[0])) == "an odd multiple of 2^-2"
    assert near.describe(int(near.cell(np.array([0.0]))[0])) == "the number 0"
    assert lowest.base < 1024
    zeros = bit_features.TrailingZeros(top=3)
    words = zeros.describe(int(zeros.cell(np.array([-0.75]))[0]))
    assert words == "a negative number of size 2^-1 to 2^0 whose mantissa ends in 51 zero bits"
    residue = bit_features.Residue(exponent=-8)
    assert residue.cell(np.array([5.25, -0.75, 1e300])).tolist() == [64, 64, 0]


def test_reachable_numbers_are_recognized():
    rng = np.random.default_rng(5)
    for statistic in (0.0, 1.0, 0.1, 37.0):
        for scale in (1.0, 0.3):
            x = statistic + rng.laplace(scale=scale, size=4_000)
            inverse = ReachedByInverse(statistic=statistic, scale=scale, bits=53, top=5)
            assert np.mean(inverse.cell(x) >= inverse.cells // 2) > 0.99  # libm's logarithm may differ in the last bit
            total = ReachedBySum(statistic=statistic, top=5)
            assert np.all(total.cell(x) >= total.cells // 2)
            elsewhere = ReachedByInverse(statistic=statistic + 0.5, scale=scale, bits=53, top=5)
            assert np.mean(elsewhere.cell(x) >= elsewhere.cells // 2) < (0.995 if statistic == 37.0 else 0.9)
            assert "cannot be" in inverse.describe(0)
            assert "below" in inverse.describe(inverse.cells - 1)


def test_statistics_are_guessed_from_the_data():
    outputs = np.full((5, 1), 4.2)
    assert candidate_statistics(3.0, outputs, 0) == [4.0, 3.0]
    assert candidate_statistics(np.array([1.0, 2.0]), outputs, 0) == [4.0, 3.0, 1.5]
    assert candidate_statistics("text", outputs, 0) == [4.0]
    assert candidate_statistics(np.array([np.nan]), outputs, 0) == [4.0]
    both = np.full((5, 2), 4.2)
    assert candidate_statistics(np.array([1.0, 2.0]), both, 1) == [4.0, 2.0]
    assert candidate_statistics(np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 0.0]]), both, 1) == [4.0, 6.0, 2.0]
