"""The chain of regressions and normal records: its pieces, stationarity, brute force, and mutants that must fail."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

from privsample import (
    GammaPoisson,
    GaussianNoise,
    LaplaceNoise,
    LinearRegression,
    NoisyStatistics,
    NormalUnknownVariance,
    PrivateStatistics,
    infer,
)
from privsample.inference import regression_moves as moves
from privsample.inference import regression_records as hidden
from privsample.inference.chains import Observation
from privsample.inference.regression import RegressionChain
from privsample.interop.pymc import noisy_observation
from tests.inference.noises import OwnLogistic

NORMAL = NormalUnknownVariance(mean=0.5, observations=0.5, shape=3.0, scale=2.0, bounds=(-1.0, 2.0))
LINE = LinearRegression(feature_bounds=((-1.0, 2.0),), target_bounds=(-2.0, 2.0), shape=3.0, scale=1.0)
PLANE = LinearRegression(
    feature_bounds=((-1.0, 2.0), (0.0, 0.5)), target_bounds=(0.0, 4.0), shape=4.0, scale=3.0, observations=0.7
)
MODELS = {"normal": NORMAL, "line": LINE, "plane": PLANE}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def observation(model, n, noise, observed, size_prior=None):
    return Observation(model=model, n=n, noise=noise, observed=np.asarray(observed, dtype=float), size_prior=size_prior)


def width_of(model):
    return len(model.moments.bounds) - 1


def prior_draw(model, rng):
    """Parameters in the units of the records, as the documentation of the models states their prior."""
    variance = model.scale / rng.gamma(model.shape)
    if isinstance(model, NormalUnknownVariance):
        mean = model.mean + (variance / model.observations) ** 0.5 * rng.standard_normal()
        return {"mean": mean, "variance": variance}
    width, size = width_of(model), model.feature_prior_scale
    halves = np.array([(high - low) / 2 for low, high in model.feature_bounds])
    middles = np.array([(high + low) / 2 for low, high in model.feature_bounds])
    scaled = (variance / model.observations) ** 0.5 * rng.standard_normal(width + 1)
    root = np.tril(size / 2 * rng.standard_normal((width, width)), -1)
    root += np.diag(size * np.abs(rng.standard_normal(width)))
    coefficients = scaled[:width] / halves
    return {
        "coefficients": coefficients,
        "intercept": scaled[width] + sum(model.target_bounds) / 2 - coefficients @ middles,
        "variance": variance,
        "feature_mean": middles + halves * size * rng.standard_normal(width),
        "feature_root": halves[:, None] * root,
    }


def simulate(theta, n, rng):
    """Records before clipping, shape (n, features + 1)."""
    if "mean" in theta:
        return theta["mean"] + theta["variance"] ** 0.5 * rng.standard_normal((n, 1))
    x = theta["feature_mean"] + rng.standard_normal((n, len(theta["feature_mean"]))) @ theta["feature_root"].T
    y = x @ theta["coefficients"] + theta["intercept"] + theta["variance"] ** 0.5 * rng.standard_normal(n)
    return np.column_stack([x, y])


def set_state(chain, theta, records):
    """Put the chain into this state."""
    model, width = chain.model, chain.width
    halves, middles = chain.halves, chain.middles
    chain.variance = float(theta["variance"])
    chain.records = np.column_stack([(records[:, :-1] - middles[:-1]) / halves[:-1], records[:, -1] - middles[-1]])
    if isinstance(model, NormalUnknownVariance):
        chain.slopes = np.array([theta["mean"] - middles[-1]])
        return
    chain.slopes = np.append(
        theta["coefficients"] * halves[:-1], theta["intercept"] + theta["coefficients"] @ middles[:-1] - middles[-1]
    )
    chain.mean = (theta["feature_mean"] - middles[:-1]) / halves[:-1]
    chain.root = theta["feature_root"] / halves[:-1, None]
    assert width == len(chain.mean)


@each_model
def test_pieces_of_the_chain(model, rng):
    theta = prior_draw(model, rng)
    records = simulate(theta, 40, rng)
    chain = RegressionChain(observation(model, 40, LaplaceNoise(scale=1.0), [np.zeros_like(model.empty)]))
    set_state(chain, theta, records)
    for name, value in chain.parameters().items():
        assert value == pytest.approx(np.asarray(theta[name]), rel=1e-12)
    truth = model.moments.sums(records)
    state, bounds = chain._state, chain._bounds
    assert hidden.contributions(chain.records, *bounds).sum(axis=0) == pytest.approx(truth, rel=1e-12)
    residuals = hidden.standardize(chain.records, *state)
    assert hidden.build_records(residuals, *state) == pytest.approx(chain.records, rel=1e-9, abs=1e-12)
    assert hidden.statistic(residuals, *state, *bounds) == pytest.approx(truth, rel=1e-9, abs=1e-9)
    ones = np.column_stack([chain.records[:, :-1], np.ones(40), chain.records[:, -1]])
    assert hidden.gram(chain.records) == pytest.approx(ones.T @ ones, rel=1e-12)
    wide = hidden.contributions(chain.records / 1e6, *bounds).sum(axis=0)  # nothing is clipped
    small = chain.mean / 1e6, chain.root / 1e6, np.append(chain.slopes[:-1], chain.slopes[-1] / 1e6), state[3] / 1e6
    unclipped = hidden.unclipped_statistic(hidden.gram(residuals), *small, *bounds)
    assert unclipped == pytest.approx(wide, rel=1e-8)
    place = chain._coordinates()
    kept = {name: value.copy() for name, value in chain.parameters().items()}
    deviation = moves.from_coordinates(
        place, chain._location, chain._prior_root, chain.feature_scale, chain.mean, chain.root, chain.slopes
    )
    assert deviation**2 == pytest.approx(chain.variance)
    for name, value in chain.parameters().items():
        assert value == pytest.approx(kept[name], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("width", [0, 1, 3])
def test_the_prior_density_of_the_coordinates(width, rng):
    """Against SciPy's densities, with the Jacobians of the logarithms."""
    shape, scale, size = 3.5, 2.0, 0.4
    places = rng.standard_normal((5, 2 + 2 * width + width * (width + 1) // 2))
    logs = places[:, [width + 1]], places[:, 2 * width + 2 : 3 * width + 2]
    normal = np.delete(places, [width + 1, *range(2 * width + 2, 3 * width + 2)], axis=1)
    truth = (
        stats.norm.logpdf(normal).sum(axis=1)
        + (stats.invgamma(shape, scale=scale).logpdf(np.exp(logs[0])) + logs[0])[:, 0]
        + (stats.halfnorm(scale=size).logpdf(np.exp(logs[1])) + logs[1]).sum(axis=1)
    )
    found = np.array([moves.log_prior(place, width, shape, scale, size) for place in places])
    assert found - found[0] == pytest.approx(truth - truth[0], rel=1e-10, abs=1e-10)


def test_the_density_of_the_root_given_features(rng):
    records, width, size = rng.standard_normal((7, 3)), 3, 0.6
    scatter = records.T @ records
    values, vectors = np.linalg.eigh(scatter)

    def truth(root):
        density = stats.multivariate_normal(np.zeros(3), root @ root.T).logpdf(records).sum()
        below = root[np.tril_indices(3, -1)]
        diagonal = np.diagonal(root)
        prior = stats.norm(scale=size / 2).logpdf(below).sum() + stats.halfnorm(scale=size).logpdf(diagonal).sum()
        return density + prior + np.log(diagonal).sum()

    roots = [np.linalg.cholesky(np.cov(rng.standard_normal((3, 9)))) for _ in range(3)]
    found = [moves._root_log_density(root, vectors * np.sqrt(values), 7, size) for root in roots]
    assert np.diff(found) == pytest.approx(np.diff([truth(root) for root in roots]), rel=1e-9)
    assert width == len(roots[0])


def tuned(model, n, noise, rng, *, sweeps=150):
    """A chain whose proposals were tuned to another release of the same model."""
    theta = prior_draw(model, rng)
    observed = model.moments.sums(simulate(theta, n, rng)) + noise.sample(model.empty.shape, rng)
    chain = RegressionChain(observation(model, n, noise, [observed]))
    chain.start(rng)
    for _ in range(sweeps):
        chain.sweep(rng, tuning=True)
    return chain


def transitions(model, n, noise, rng, *, replicates, sweeps, assumed=None, fault=None):
    """Parameters and noise after some sweeps that start from exact draws of parameters, records and release."""
    pilot = tuned(model, n, noise, rng)
    found = []
    for _ in range(replicates):
        theta = prior_draw(model, rng)
        records = simulate(theta, n, rng)
        observed = model.moments.sums(records) + noise.sample(model.empty.shape, rng)
        chain = copy.copy(pilot)
        chain.acceptance = RegressionChain(observation(model, n, assumed or noise, [observed])).acceptance
        if fault is not None:
            fault(chain)
        set_state(chain, theta, records)
        for _ in range(sweeps):
            chain.sweep(rng, tuning=False)
        last = {name: np.copy(value) for name, value in chain.parameters().items()}
        left = observed - hidden.contributions(chain.records, *chain._bounds).sum(axis=0)
        found.append((last, left))
    return found


def prior_p_values(model, found):
    """P-values of the parameters, standardized so that each has a known distribution under the prior."""
    last = {name: np.array([theta[name] for theta, _ in found]) for name in found[0][0]}
    values = [stats.kstest(last["variance"], stats.invgamma(model.shape, scale=model.scale).cdf).pvalue]
    if isinstance(model, NormalUnknownVariance):
        standard = (last["mean"] - model.mean) / (last["variance"] / model.observations) ** 0.5
        return [*values, stats.kstest(standard, stats.norm.cdf).pvalue]
    halves = np.array([(high - low) / 2 for low, high in model.feature_bounds])
    middles = np.array([(high + low) / 2 for low, high in model.feature_bounds])
    size, deviation = model.feature_prior_scale, (last["variance"] / model.observations) ** 0.5
    intercept = last["intercept"] + last["coefficients"] @ middles - sum(model.target_bounds) / 2
    columns = [*(last["coefficients"] * halves / deviation[:, None]).T, intercept / deviation]
    columns += list(((last["feature_mean"] - middles) / halves / size).T)
    root = last["feature_root"] / halves[:, None]
    for i in range(len(halves)):
        values.append(stats.kstest(root[:, i, i], stats.halfnorm(scale=size).cdf).pvalue)
        columns += [2 * root[:, i, j] / size for j in range(i)]
    return values + [stats.kstest(column, stats.norm.cdf).pvalue for column in columns]


NOISES = {"laplace": LaplaceNoise(scale=1.0), "gaussian": GaussianNoise(noise_std=1.0), "own": OwnLogistic(scale=1.0)}


def joint_cases():
    """Each model and each noise in each run; all pairs, with more replicates, in the long lane."""
    short = {("normal", "laplace"): 400, ("line", "laplace"): 400, ("plane", "laplace"): 400}
    short |= {("line", "gaussian"): 400, ("normal", "own"): 150}
    for (name, noise), count in short.items():
        yield pytest.param(MODELS[name], NOISES[noise], count, id=f"{name}-{noise}")
    for name, noise in itertools.product(MODELS, NOISES):
        given = MODELS[name], NOISES[noise], 300 if noise == "own" else 1200
        yield pytest.param(*given, id=f"{name}-{noise}-long", marks=pytest.mark.long)


@pytest.mark.statistical
@pytest.mark.parametrize(("model", "noise", "count"), list(joint_cases()))
def test_sweeps_keep_the_joint_distribution(model, noise, count, rng, alpha):
    """Exact draws of parameters, records and release stay exact after sweeps, for any tuning of the proposals.

    test_broken_copies_change_the_joint_distribution has the power of 400 replicates.
    """
    found = transitions(model, 8, noise, rng, replicates=count, sweeps=6)
    values = prior_p_values(model, found)
    left = np.array([noise_left for _, noise_left in found])
    cdf = {"laplace": stats.laplace, "gaussian": stats.norm, "logistic": stats.logistic}[noise.name].cdf
    values += [stats.kstest(column, cdf).pvalue for column in left.T]
    if noise.name == "laplace":
        values.append(total_noise(left))
    assert min(values) > alpha / len(values)


@pytest.mark.statistical
def test_sweeps_are_exact_for_any_surrogate(rng, alpha):
    """A matrix and a reference that fit badly let fewer rounds be accepted, and change nothing else."""

    def bad_surrogate(chain):
        chain._clipping = 0.8 * chain._clipping + 0.1
        chain._center = chain._center + 0.3

    noise = LaplaceNoise(scale=1.0)
    found = transitions(LINE, 8, noise, rng, replicates=400, sweeps=6, fault=bad_surrogate)
    values = [*prior_p_values(LINE, found), total_noise(np.array([left for _, left in found]))]
    assert min(values) > alpha / len(values)


def total_noise(left):
    """P-value of the sum of the moduli of Laplace noise of scale 1, which has a Gamma distribution."""
    total = stats.gamma(left.size)
    return 2 * min(total.cdf(np.abs(left).sum()), total.sf(np.abs(left).sum()))


@pytest.mark.statistical
@pytest.mark.parametrize("model", [NORMAL, LINE], ids=["normal", "line"])
@pytest.mark.parametrize(("count", "scale"), [(300, 0.6), pytest.param(1200, 0.8, marks=pytest.mark.long)])
def test_broken_copies_change_the_joint_distribution(model, count, scale, rng, alpha):
    """A noise of another scale, and a prior of another scale.

    The sum of the moduli of the noise has a p-value below 1e-12 with probability 0.999 (300 replicates, scale 0.6: the
    mean modulus is 0.61 and 0.72 instead of 1). The distribution function of the variance is wrong by 0.27: by 5.4 over
    the root of 400 replicates, give or take 0.5, and the limit is 3.5.
    """
    found = transitions(
        model, 40, LaplaceNoise(scale=1.0), rng, replicates=count, sweeps=15, assumed=LaplaceNoise(scale=scale)
    )
    assert total_noise(np.array([noise_left for _, noise_left in found])) < alpha

    def another_prior(chain):
        chain.prior = replace(chain.prior, scale=1.5 * chain.prior.scale)

    found = transitions(model, 8, LaplaceNoise(scale=1.0), rng, replicates=400, sweeps=6, fault=another_prior)
    assert min(prior_p_values(model, found)) < alpha


def summaries(theta):
    """Bounded functions of the parameters, whose posterior means are compared."""
    flat = np.concatenate([np.ravel(value) for name, value in sorted(theta.items()) if name != "variance"])
    return np.concatenate([np.tanh(flat), np.tanh(flat) ** 2, [np.tanh(theta["variance"])]])


@pytest.mark.statistical
@pytest.mark.parametrize(("size", "sweeps"), [(4_000, 1_000), pytest.param(20_000, 3_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("model", "n"), [(NORMAL, 1), (LINE, 2), (NORMAL, 3), (LINE, 3)], ids=["normal-1", "line-2", "normal-3", "line-3"]
)
def test_few_records_against_weighted_draws_from_the_prior(model, n, size, sweeps, rng, alpha):
    """The broken copy reads another release: its z-scores are 18, 38, 29 and 35, the limit is 8.4 to 8.8.

    The long lane sees errors of half the size.
    """
    noise = LaplaceNoise(scale=0.5)
    observed = model.moments.sums(np.column_stack([np.full(n, 0.9)] * (width_of(model) + 1))) + 0.2
    thetas = [prior_draw(model, rng) for _ in range(size)]
    sums = np.array([model.moments.sums(simulate(theta, n, rng)) for theta in thetas])
    weights = np.exp(noise.log_mass(observed - sums).sum(axis=1))
    weights /= weights.sum()
    values = np.array([summaries(theta) for theta in thetas])
    truth = weights @ values
    variance = (weights**2) @ (values - truth) ** 2
    chain = RegressionChain(observation(model, n, noise, [observed]))

    def error(chain):
        chain.start(rng)
        for _ in range(300):
            chain.sweep(rng, tuning=True)
        drawn = []
        for _ in range(sweeps):
            chain.sweep(rng, tuning=False)
            drawn.append(summaries(chain.parameters()))
        means = np.array([batch.mean(axis=0) for batch in np.array_split(np.array(drawn), 40)])
        own = means.var(axis=0, ddof=1) / 40
        return np.abs(means.mean(axis=0) - truth) / np.sqrt(variance + own + 1e-16)

    limit = stats.t.isf(alpha / 2 / len(truth), 39)
    assert error(chain).max() < limit
    wrong = RegressionChain(observation(model, n, noise, [observed - 2.0]))
    assert error(wrong).max() > limit


def test_many_records_agree_with_the_central_limit(rng):
    """Against quadrature of the density that NUTS is given, a central limit, times the prior as it is documented."""
    pm = pytest.importorskip("pymc")
    mechanism = NoisyStatistics(model=NORMAL, n=4000, scale=40.0, noise="gaussian")
    statistics = PrivateStatistics(release=mechanism.release(rng.normal(0.7, 0.6, 4000), rng=rng))
    chain = RegressionChain(observation(NORMAL, 4000, statistics.noise, statistics.observed))
    chain.start(rng)
    drawn = []
    for sweep in range(1100):
        chain.sweep(rng, tuning=sweep < 300)
        drawn.append([float(chain.parameters()[name]) for name in ("mean", "variance")])
    found = np.array(drawn[300:])
    with pm.Model() as graph:
        flat = {"mean": pm.Flat("mean"), "variance": pm.HalfFlat("variance", default_transform=None)}
        noisy_observation("released", statistics, **flat)
    density = graph.compile_logp(jacobian=False, mode="FAST_COMPILE")
    axes = [
        centre + spread * np.linspace(-6, 6, 17) for centre, spread in zip(found.mean(0), found.std(0), strict=True)
    ]
    mean, variance = (axis.ravel() for axis in np.meshgrid(*axes))
    mean, variance = mean[variance > 0], variance[variance > 0]
    log_density = [density({"mean": m, "variance": v}) for m, v in zip(mean, variance, strict=True)]
    log_density += stats.norm.logpdf(mean, NORMAL.mean, (variance / NORMAL.observations) ** 0.5)
    weights = special.softmax(log_density + stats.invgamma.logpdf(variance, NORMAL.shape, scale=NORMAL.scale))
    for column, axis in zip(found.T, (mean, variance), strict=True):
        centre = weights @ axis
        spread = (weights @ (axis - centre) ** 2) ** 0.5
        assert abs(column.mean() - centre) < 0.35 * spread  # the error of the chain is about 0.06
        assert column.std() == pytest.approx(spread, rel=0.25)


@each_model
@pytest.mark.parametrize("copies", [1, 3])
def test_chains_start_from_any_release(model, copies, rng):
    for far in (0.0, 1.0, 1e3, -1e6):
        for noise in (LaplaceNoise(scale=2.0), GaussianNoise(noise_std=1e-3), OwnLogistic(scale=1.0)):
            observed = far + noise.sample((copies, *model.empty.shape), rng)
            chain = RegressionChain(observation(model, 5, noise, observed))
            chain.start(rng)
            for _ in range(30):
                assert 0 <= chain.sweep(rng, tuning=True) <= 1
            assert all(np.isfinite(value).all() for value in chain.parameters().values())


def test_one_generator_gives_one_chain():
    def drawn():
        rng = np.random.default_rng(3)
        chain = RegressionChain(observation(PLANE, 30, LaplaceNoise(scale=2.0), [np.ones(9)]))
        chain.start(rng)
        return [chain.sweep(rng, tuning=True) for _ in range(30)], chain.parameters()

    (first, theta), (second, again) = drawn(), drawn()
    assert first == second
    assert all((theta[name] == again[name]).all() for name in theta)


def test_infer_uses_the_chain(rng):
    x = rng.normal(0.5, 0.6, (50, 2))
    data = x, x @ [0.7, -1.0] + 2.0 + 0.5 * rng.standard_normal(50)
    made = NoisyStatistics(model=PLANE, n=50, scale=3.0).release(data, rng=rng)
    posterior = infer(made, draws=60, tune=60, chains=2, rng=rng)
    shapes = {name: array.shape for name, array in posterior.draws.items()}
    assert shapes == {
        "coefficients": (120, 2),
        "intercept": (120,),
        "variance": (120,),
        "feature_mean": (120, 2),
        "feature_root": (120, 2, 2),
    }
    assert posterior.account == made.account
    assert posterior.method.startswith("exact: data augmentation with unclipped records; 2 chains of 60, largest R-hat")
    made = NoisyStatistics(model=NORMAL, n=50, scale=3.0).release(x[:, 0], rng=rng)
    wider = replace(NORMAL, observations=1e4)  # a prior that holds the mean at 0.5
    posterior = infer(made, prior=wider, draws=60, tune=60, chains=2, rng=rng)
    assert set(posterior.draws) == {"mean", "variance"}
    assert np.abs(posterior["mean"] - 0.5).max() < 0.1


def test_other_models_are_refused():
    noise = LaplaceNoise(scale=2.0)
    with pytest.raises(TypeError, match="records must be normal with noisy second moments, got GammaPoisson"):
        RegressionChain(observation(GammaPoisson(shape=2, rate=1, upper=5), 20, noise, [3.0]))
    with pytest.raises(ValueError, match="NormalUnknownVariance needs a public n"):
        RegressionChain(observation(NORMAL, 20, noise, [[3.0, 3.0]], np.zeros(30)))
    with pytest.raises(ValueError, match="lower n, or use"):
        RegressionChain(observation(NORMAL, 10**12, noise, [[3.0, 3.0]]))
