"""Synthetic data: the model and its posterior against enumeration, and the coverage of combined intervals."""

from itertools import combinations, product
from math import lgamma

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.marginal_tables import marginal_tables
from privsample.errors import NumericalFailure
from privsample.inference.synthetic.effects import Measured, contrasts, effects_of, measure
from privsample.inference.synthetic.junction_tree import JunctionTree
from privsample.inference.synthetic.log_linear import LogLinearModel, find_mode
from privsample.inference.synthetic.sampler import largest_split_rhat, sample_posterior

GRAPHS = {
    "chain": ((2, 3, 2, 4), ((0, 1), (1, 2), (2, 3))),
    "all pairs": ((2, 3, 2), ((0, 1), (0, 2), (1, 2))),
    "cycle with a column apart": ((2, 3, 2, 4, 3), ((0, 1), (1, 2), (2, 3), (0, 3), (4,))),
    "one column": ((3,), ((0,),)),
    "long cycle": ((2, 2, 2, 2, 2, 2), ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5))),
}


def full_table(sizes, tables, logs):
    """The distributions over all cells, shape (rows, ...)."""
    total = sum(
        log.reshape(-1, *(size if column in table else 1 for column, size in enumerate(sizes)))
        for table, log in zip(tables, logs, strict=True)
    )
    table = np.exp(np.broadcast_to(total, (len(logs[0]), *sizes)))
    each = table.reshape(len(table), -1).sum(axis=1)
    return table / each.reshape(-1, *(1 for _ in sizes)), np.log(each)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_junction_tree_has_the_marginals_of_the_full_table(name, rng):
    sizes, tables = GRAPHS[name]
    logs = [rng.normal(size=(3, *(sizes[column] for column in table))) for table in tables]
    tree = JunctionTree(sizes, tables)
    found, (expected, log_normalizer) = tree.calibrate(logs), full_table(sizes, tables, logs)
    assert np.allclose(found.log_normalizer, log_normalizer, atol=1e-12)
    for table, marginal in zip(tables, tree.marginals(found), strict=True):
        others = tuple(column + 1 for column in range(len(sizes)) if column not in table)
        assert np.allclose(marginal, expected.sum(axis=others), atol=1e-14)


@pytest.mark.statistical
@pytest.mark.parametrize("name", GRAPHS)
def test_a_junction_tree_draws_records_of_its_distribution(name, alpha, rng):
    sizes, tables = GRAPHS[name]
    logs = [rng.normal(size=(1, *(sizes[column] for column in table))) / 2 for table in tables]
    tree = JunctionTree(sizes, tables)
    codes = tree.sample(tree.calibrate(logs), 100_000, rng)
    counts = np.bincount(np.ravel_multi_index(tuple(codes.T), sizes), minlength=int(np.prod(sizes)))
    expected = 100_000 * full_table(sizes, tables, logs)[0].ravel()
    assert stats.chisquare(counts, expected).pvalue > alpha


@pytest.mark.parametrize(
    ("columns", "marginals", "parameters"),
    [({"a": 400, "b": 400}, None, "159,999"), ({f"x{k}": 30 for k in range(5)}, None, "8,555")],
)
def test_too_many_parameters_are_refused_before_matrices_are_made(columns, marginals, parameters):
    release = ps.NoisyMarginals(columns=columns, marginals=marginals, noise_std=1, exact=False).release(
        np.zeros((200, len(columns)))
    )
    with pytest.raises(ValueError, match=f"fewer combinations .* at least {parameters} parameters, at most 4,096"):
        ps.synthesize(release)


@pytest.mark.parametrize("noise", [0.3, 30.0])
def test_chains_agree_where_almost_all_cells_are_empty(noise):
    mechanism = ps.NoisyMarginals(columns={"a": 2, "b": 2, "c": 3}, noise_std=noise)
    data = ps.synthesize(
        mechanism.release(np.zeros((3000, 3)), rng=np.random.default_rng(1)), m=40, rng=np.random.default_rng(5)
    )
    assert float(data.method.split("R-hat ")[1]) <= 1.3
    assert data.posterior["theta"].std(axis=0).min() > 0.7  # no chain stays where it started
    assert (data.codes == 0).all(axis=2).mean() > 0.9


def test_parameters_that_nothing_determines_are_an_error(rng):
    release = ps.NoisyMarginals(columns={"a": 2, "b": 2, "c": 3}, noise_std=3).release(np.zeros((3000, 3)), rng=rng)
    with pytest.raises(NumericalFailure, match="of the log-linear model"):
        ps.synthesize(release, m=4, prior_std=1e6, rng=rng)


def test_columns_that_are_joined_too_much_are_refused():
    columns = {f"x{k}": 5 for k in range(10)}
    release = ps.NoisyMarginals(columns=columns, noise_std=1).release(np.zeros((200, 10)))
    with pytest.raises(ValueError, match="marginals must join columns less: the model would need tables of 9,765,625"):
        ps.synthesize(release)


def test_many_columns_in_a_chain_have_a_small_model(rng):
    chain = [(f"x{k}", f"x{k + 1}") for k in range(29)]
    mechanism = ps.NoisyMarginals(columns={f"x{k}": 2 for k in range(30)}, marginals=chain, noise_std=3)
    walks = np.cumsum(rng.random((500, 30)) < 0.2, axis=1) % 2
    data = ps.synthesize(mechanism.release(walks, rng=rng), m=2, size=2000, rng=rng)
    assert np.abs((data.codes[:, :, 1:] != data.codes[:, :, :-1]).mean(axis=(0, 1)) - 0.2).max() < 0.1


def test_contrasts_are_orthonormal():
    for size in (2, 3, 7):
        basis = np.column_stack([np.full(size, size**-0.5), contrasts(size)])
        assert np.allclose(basis.T @ basis, np.eye(size))


LAYOUT = marginal_tables(
    {"a": 2, "b": 3, "c": 2, "d": 4}, [("a", "b", "c"), ("b", "d"), ("a", "b"), ("c",), ("a", "c", "d")]
)


def test_the_noisy_sums_are_the_least_squares_estimates(rng):
    effects = effects_of(LAYOUT)
    records = np.array(list(product(*map(range, LAYOUT.sizes))))
    design = np.array([LAYOUT.counts(record[None]) for record in records]).T  # tables of each record
    one = [[] for _ in effects.hosts]
    for record in records:
        for host, found in zip(effects.hosts, one, strict=True):
            table = np.zeros([effects.sizes[column] for column in host.columns])
            table[tuple(record[list(host.columns)])] = 1.0
            found.append(table)
    statistics = effects.of_tables([np.array(found) for found in one])  # of each record, shape (records, width)
    every = np.column_stack([statistics, np.ones(len(records))])
    assert np.linalg.matrix_rank(design) == every.shape[1] == np.linalg.matrix_rank(every)
    noisy = rng.normal(size=LAYOUT.width)
    # sums of the statistics are a linear function of consistent tables, on which least squares projects
    linear = np.linalg.lstsq(design.T, every, rcond=None)[0].T @ design @ np.linalg.pinv(design)
    measured = measure(effects, LAYOUT, noisy, 4.0)
    assert np.allclose(np.append(measured.sums, measured.size), linear @ noisy)
    covariance = 4.0 * linear @ linear.T
    assert np.allclose(covariance, np.diag(np.append(measured.variances, measured.size_variance)))


def test_derivatives_agree_with_the_full_table(rng):
    effects = effects_of(LAYOUT)
    measured = Measured(rng.normal(size=effects.width), np.ones(effects.width), 50.0, 2.0)
    model = LogLinearModel(effects, measured, None, 2.0)
    states = np.column_stack([rng.normal(size=(2, effects.width)) / 2, [40.0, 60.0]])
    posterior = find_mode(model).posterior
    _, slopes = posterior.log_density(states)
    for k in range(states.shape[1]):
        step = np.zeros_like(states)
        step[:, k] = 1e-4
        up, down = posterior.log_density(states + step)[0], posterior.log_density(states - step)[0]
        assert np.allclose((up - down) / 2e-4, slopes[:, k], rtol=1e-3, atol=2e-3)


N, NOISE, PRIOR = 60, 3.0, 1.0


def exact_posterior(noisy, noise):
    """Mean and standard deviation of the two parameters of three categories, by enumeration of all counts of N."""
    counts = np.array([(a, b, N - a - b) for a in range(N + 1) for b in range(N + 1 - a)])
    places = np.linspace(-3.5, 3.5, 71)
    theta = np.array(list(product(places, places)))
    logits = theta @ contrasts(3).T
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    own = -((noisy - counts) ** 2).sum(axis=1) / 2 / noise**2
    own -= np.array([sum(lgamma(count + 1) for count in row) for row in counts])
    log_likelihood = np.concatenate(
        [np.logaddexp.reduce(part @ counts.T + own, axis=1) for part in np.array_split(log_p, 20)]
    )
    weights = log_likelihood - (theta**2).sum(axis=1) / 2 / PRIOR**2
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


def sampled_posterior(noisy, variance, rng):
    layout = marginal_tables({"x": 3}, None)
    effects = effects_of(layout)
    mode = find_mode(LogLinearModel(effects, measure(effects, layout, noisy, variance), N, PRIOR))
    sample = sample_posterior(mode, draws=400, chains=4, tune=50, thin=1, rng=rng)
    assert 0.6 < sample.acceptance < 1.0
    assert largest_split_rhat(sample.places) < 1.02
    states = sample.states.reshape(-1, 2)
    return states.mean(axis=0), states.std(axis=0)


@pytest.mark.parametrize("noisy", [(33.1, 18.4, 12.2), (25.0, 31.0, 4.0)])
def test_the_posterior_agrees_with_enumeration(noisy, rng):
    mean, std = exact_posterior(np.array(noisy), NOISE)
    found, spread = sampled_posterior(np.array(noisy), NOISE**2, rng)
    assert np.abs((found - mean) / std).max() < 0.25  # the normal likelihood of 60 records
    assert np.abs(np.log(spread / std)).max() < 0.12
    _, too_sure = sampled_posterior(np.array(noisy), 1e-6, rng)  # a mutant: no noise
    assert np.log(too_sure / std).min() < -0.12


COLUMNS = {"x": 2, "z": 2, "y": 2}


def records(rng, n=600):
    x = rng.random(n) < 0.4
    z = rng.random(n) < np.where(x, 0.6, 0.35)
    return np.column_stack([x, z, rng.random(n) < 1 / (1 + np.exp(0.8 - 1.0 * x - 0.6 * z))]).astype(float)


def coefficients(codes):
    """Logistic regression of y on x and z: the two coefficients, and their covariance matrix."""
    counts = np.bincount(np.ravel_multi_index(tuple(codes.T.astype(int)), (2, 2, 2)), minlength=8).reshape(4, 2)
    design, found = np.array([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]), np.zeros(3)
    total = counts.sum(axis=1)
    for _ in range(20):
        mean = 1 / (1 + np.exp(-design @ found))
        covariance = np.linalg.inv(design.T @ ((total * mean * (1 - mean))[:, None] * design))
        found = found + covariance @ design.T @ (counts[:, 1] - total * mean)
    return found[1:], covariance[1:, 1:]


@pytest.mark.statistical
@pytest.mark.parametrize("relation", [ps.AddRemove(), ps.ReplaceOne(600)], ids=["noisy size", "public size"])
@pytest.mark.parametrize("runs", [45, pytest.param(200, marks=pytest.mark.long)])
def test_combined_intervals_cover_and_naive_ones_do_not(relation, runs, alpha, rng):
    """Naive intervals cover with probability 0.3, and 45 of them are rejected with probability 0.9997."""
    mechanism = ps.NoisyMarginals(columns=COLUMNS, noise_std=12.0, relation=relation)
    combined = naive = 0
    for _ in range(runs):
        data = ps.synthesize(mechanism.release(records(rng), rng=rng), m=24, size=1000, rng=rng)
        found = [coefficients(codes) for codes in data.codes]
        low, high = ps.combine([q for q, _ in found], [v for _, v in found]).interval(0.9)
        combined += bool(low[0] < 1.0 < high[0])
        first, covariance = found[0]
        naive += abs(first[0] - 1.0) < 1.645 * covariance[0, 0] ** 0.5
    assert stats.binomtest(combined, runs, 0.9).pvalue > alpha
    assert stats.binom.cdf(naive, runs, 0.9) < alpha  # a mutant: the first set as if it were real


def test_synthetic_data_are_columns_of_names_with_the_account_of_the_release(rng):
    columns = {"sex": ("F", "M"), "age": ("young", "middle", "old")}
    release = ps.NoisyMarginals(columns=columns, noise_std=3, draws=2).release(np.ones((300, 2)), rng=rng)
    data = ps.synthesize(release, m=5, rng=np.random.default_rng(7))
    assert len(data) == len(list(data)) == 5
    assert data[0].keys() == columns.keys()
    assert all(280 < len(one["sex"]) < 320 and set(one["age"]) <= {"young", "middle", "old"} for one in data)
    assert np.mean([(one["age"] == "middle").mean() for one in data]) > 0.9
    assert data.account == release.account
    assert data.statement(1e-5) == release.statement(1e-5).split(" The numbers were drawn")[0]
    assert data.posterior["theta"].shape == (5, 5)
    assert np.abs(data.posterior["size"] - 300).max() < 30
    assert "noise-aware" in data.method
    assert repr(data).startswith("SyntheticData(5 data sets of ")
    again = ps.synthesize(release, m=5, rng=np.random.default_rng(7))
    assert (again.codes == data.codes).all()
    with pytest.raises(TypeError, match="place must be a whole number"):
        data[1:2]
    with pytest.raises(ValueError, match="read-only"):
        data.codes[0] = 0


def test_a_release_in_which_noise_hides_the_records(rng):
    hidden = ps.NoisyMarginals(columns=COLUMNS, noise_std=50).release(np.zeros((0, 3)), rng=rng)
    with pytest.raises(ValueError, match="must count more records than the noise hides"):
        ps.synthesize(hidden)
    public = ps.NoisyMarginals(columns=COLUMNS, noise_std=1e6, relation=ps.ReplaceOne(50))
    data = ps.synthesize(public.release(np.zeros((50, 3)), rng=rng), m=40, rng=rng)
    assert data.codes.shape == (40, 50, 3)
    assert 1.0 < data.posterior["theta"].std() < 3.0  # the prior


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"release": 3}, TypeError, "release must be a Release of NoisyMarginals, got int"),
        ({"release": ps.GaussianSum(bounds=(0, 1), noise_std=1).release([1])}, TypeError, "got GaussianSum"),
        ({"m": 0}, ValueError, "m must be at least 1"),
        ({"m": True}, TypeError, "m must be a whole number"),
        ({"size": 0}, ValueError, "size must be at least 1"),
        ({"size": 2.5}, ValueError, "size must be a whole number"),
        ({"size": 10**12}, ValueError, "lower m or size"),
        ({"prior_std": np.nan}, ValueError, "prior_std must be finite and > 0"),
        ({"prior_std": 0}, ValueError, "prior_std must be finite and > 0"),
        ({"prior_std": 1e-200}, ValueError, "prior_std must be from 1e-06 to 1e\\+06, got 1e-200"),
        ({"m": 10**8, "size": 1}, ValueError, "lower m"),
        ({"rng": 3}, TypeError, "rng must be"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, words):
    release = ps.NoisyMarginals(columns=COLUMNS, noise_std=1).release(np.zeros((50, 3)))
    with pytest.raises(error, match=words):
        ps.synthesize(**{"release": release} | arguments)


def test_wrong_codes_are_refused():
    release = ps.NoisyMarginals(columns=COLUMNS, noise_std=1).release(np.zeros((50, 3)))
    data = ps.synthesize(release, m=1)
    with pytest.raises(ValueError, match="codes must be codes of categories"):
        ps.SyntheticData(codes=np.full((1, 2, 3), 0.5), columns=data.columns, posterior=data.posterior)
    same = ps.SyntheticData(codes=data.codes.tolist(), columns=data.columns, posterior=data.posterior)
    assert same == data


def test_short_chains_have_no_split_rhat():
    assert np.isnan(largest_split_rhat(np.zeros((3, 4, 2))))


def test_the_rule_for_given_numbers():
    estimates, variances = [[1.0, 5.0], [2.0, 5.0], [3.0, 5.1]], [[0.2, 4.0], [0.3, 4.0], [0.4, 4.0]]
    combined = ps.combine(estimates, variances)
    assert np.allclose(combined.estimate, [2.0, 15.1 / 3])
    assert np.allclose(combined.between, [1.0, 0.01 / 3])
    assert np.allclose(combined.variance, [4 / 3 - 0.3, 4.0])
    assert combined.replaced.tolist() == [False, True]
    assert np.allclose(combined.degrees_of_freedom, [2 * (1 - 0.3 / (4 / 3)) ** 2, 2.0])
    low, high = combined.interval(0.9)
    assert np.allclose(stats.t.cdf((high - combined.estimate) / combined.std_error, combined.degrees_of_freedom), 0.95)
    assert np.allclose(low + high, 2 * combined.estimate)
    single = ps.combine([1.0, 2.0, 3.0], [0.2, 0.3, 0.4])
    assert single.estimate.shape == ()
    assert single.interval().shape == (2,)
    assert np.isclose(single.variance, combined.variance[0])
    assert ps.combine([1.0, 1.0], [0.0, 0.0]).variance == 0.0


def test_covariance_matrices_are_combined_in_every_direction(rng):
    estimates = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 3))
    root = rng.normal(size=(3, 3)) / 4
    within = np.broadcast_to(root @ root.T + 0.01 * np.eye(3), (20, 3, 3))
    combined = ps.combine(estimates, within)
    for direction in rng.normal(size=(10, 3)):
        one = ps.combine(estimates @ direction, np.full(20, direction @ within[0] @ direction))
        assert np.isclose(direction @ combined.covariance @ direction, one.variance) or combined.replaced.any()
    assert np.allclose(combined.variance, np.diagonal(combined.covariance))
    diagonal = ps.combine(estimates[:, :1], within[:, :1, :1])
    assert np.allclose(diagonal.variance, ps.combine(estimates[:, :1], within[:, 0, :1]).variance)
    large = ps.combine(estimates, 1e3 * within)
    assert np.linalg.eigvalsh(large.covariance).min() > 0
    assert large.replaced.any()


@pytest.mark.statistical
@pytest.mark.parametrize("sampling", [0.1, 1.0, 3.0])
def test_the_rule_covers_for_sets_of_any_size(sampling, alpha, rng):
    """Posterior variance 1 and sets that estimate with variance `sampling`; the mutant is the rule v + (1 + 1/m) b."""
    posterior_mean = rng.normal(0.0, 1.0, 2000)
    estimates = rng.normal(posterior_mean, (1.0 + sampling) ** 0.5, (60, 2000))
    low, high = ps.combine(estimates, np.full((60, 2000), sampling)).interval(0.95)
    hits = int(((low < 0) & (high > 0)).sum())
    assert stats.binom.cdf(hits, 2000, 0.95 - 0.015) > alpha
    assert sampling > 1 or stats.binom.sf(hits - 1, 2000, 0.95 + 0.015) > alpha  # small sets: wide by chance
    wide = 1.96 * (sampling + (1 + 1 / 60) * (1 + sampling)) ** 0.5
    too_wide = int((np.abs(estimates.mean(axis=0)) < wide).sum())
    assert sampling < 1 or stats.binom.sf(too_wide - 1, 2000, 0.95 + 0.015) < alpha


@pytest.mark.parametrize(
    ("estimates", "variances", "error", "words"),
    [
        ([1.0], [1.0], ValueError, "m >= 2 synthetic data sets"),
        (1.0, 1.0, ValueError, "m >= 2"),
        ([[[1.0]], [[1.0]]], [1.0, 1.0], ValueError, "shape"),
        ([1.0, 2.0], [1.0], ValueError, "variances must have shape \\(2,\\)"),
        ([1.0, 2.0], [1.0, -1.0], ValueError, "variances must be >= 0"),
        ([1.0, np.nan], [1.0, 1.0], ValueError, "estimates must not contain NaN"),
        ([1.0, np.inf], [1.0, 1.0], ValueError, "estimates must be finite"),
        (["a", "b"], [1.0, 1.0], TypeError, "estimates must be real numbers"),
        ([1.0, 2.0], {}, TypeError, "variances"),
        ([[1.0, 2.0]] * 3, [[[1.0, 0.5], [0.0, 1.0]]] * 3, ValueError, "symmetric"),
        ([[1.0, 2.0]] * 3, [[[1.0, 1.0], [1.0, 1.0]]] * 3, ValueError, "positive definite"),
        ([[1.0, 2.0]] * 3, [[[1.0, 0.0], [0.0, -1.0]]] * 3, ValueError, "variances must be >= 0"),
    ],
)
def test_wrong_numbers_are_not_combined(estimates, variances, error, words):
    with pytest.raises(error, match=words):
        ps.combine(estimates, variances)


def test_the_probability_of_an_interval_is_checked():
    with pytest.raises(ValueError, match="probability"):
        ps.combine([1.0, 2.0], [0.1, 0.1]).interval(1.0)


def test_all_effects_of_a_table_occur_once():
    effects = effects_of(LAYOUT)
    sets = {part for table in LAYOUT.places for count in range(1, 4) for part in combinations(table, count)}
    assert set(effects.sets) == sets
    assert effects.width == sum(int(np.prod([effects.sizes[column] - 1 for column in part])) for part in sets)
