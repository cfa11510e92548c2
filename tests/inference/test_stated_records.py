"""Chains over records of stated distributions: each move, posteriors against quadrature, and simulation alone."""

import numpy as np
import pytest
from scipy import integrate, stats

import privsample as ps
from privsample.inference.chains import Observation, run_chains
from privsample.inference.priors import Coordinates, StatedPrior, stated_priors
from privsample.inference.stated_records import StatedDistribution, StatedRecords
from privsample.inference.walks import LearnedWalk, Walk
from tests.inference.calibration import noise_ranks, replicas, uniform_pvalue
from tests.inference.light import Light, LightPrior

NORMAL = ps.NormalKnownVariance(0, 1, noise_variance=1, bounds=(-1, 1))
LAPLACE = ps.LaplaceNoise(scale=0.8)


WAYS = {
    "density and quantiles": (),
    "density": ("cdf",),
    "quantiles": ("logpdf", "sf"),
    "simulation": ("logpdf", "ppf"),
}


def chain_maker(hidden, prior_hidden=()):
    priors = stated_priors({"mean": LightPrior(prior_hidden)})
    return lambda observation: StatedRecords(observation, prior=priors, records=lambda mean: Light(mean, hidden=hidden))


def from_prior(chain, rng):
    """Start once, so that the moves exist, then put a state from the prior."""
    if not hasattr(chain, "moves"):
        chain.start(rng)
    chain.state = chain._distribution({"mean": np.asarray(rng.standard_normal())})
    chain.x = chain.state.draw(chain.n, rng)
    chain.contributions = chain.contribution(chain.x)
    chain.log_prior = chain._log_prior(chain.state.values)


@pytest.mark.statistical
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("count", "factor"), [(1300, 0.7), pytest.param(4000, 0.8, marks=pytest.mark.long)])
def test_sweeps_keep_the_joint_distribution(way, count, factor, rng, alpha):
    """Parameters keep the prior, and release minus records stays noise.

    The mutant believes in `factor` times the noise. The dispersion of the ranks of its noise is wrong by 9 to 12
    standard deviations (1,300 data sets, factor 0.7; the limit is 6.3), and its own standard deviation is 0.9.
    """
    for believed, accepted in ((LAPLACE, True), (ps.LaplaceNoise(scale=factor * LAPLACE.scale), False)):
        means, noises = [], []
        for chain, observed in replicas(
            chain_maker(WAYS[way]),
            from_prior,
            count,
            rng,
            n=20,
            model=NORMAL,
            noise=LAPLACE,
            believed=believed,
            sweeps=2,
        ):
            means.append(float(chain.parameters()["mean"]))
            noises.append((observed - chain.contributions.sum(axis=0))[0, 0])
        found = uniform_pvalue(noise_ranks(LAPLACE, np.array(noises)))
        if accepted:
            found = min(found, uniform_pvalue(stats.norm.cdf(means)))
        assert (found > alpha) == accepted


@pytest.mark.parametrize(
    ("way", "moves"),
    [
        ("density and quantiles", ["density", "quantiles"]),
        ("density", ["density", "simulation"]),
        ("quantiles", ["quantiles", "simulation"]),
        ("simulation", ["simulation"]),
    ],
)
def test_the_moves_are_those_that_the_distribution_allows(way, moves, rng):
    chain = chain_maker(WAYS[way])(Observation(model=NORMAL, n=5, noise=LAPLACE, observed=np.array([1.0])))
    chain.start(rng)
    assert list(chain.moves) == moves


def quadrature(log_prior, log_likelihood, grid):
    weights = np.exp(log_prior(grid) + log_likelihood - (log_prior(grid) + log_likelihood).max())
    return integrate.cumulative_trapezoid(weights, grid, initial=0) / integrate.trapezoid(weights, grid)


@pytest.mark.statistical
def test_a_model_of_scipy_against_quadrature(rng, alpha):
    """One record from a Student distribution with known degrees of freedom, clipped, with normal noise.

    The mutant is the posterior that ignores the clipping. Its distribution function differs by 0.46: by 6.4 over the
    root of 200 draws, as good as independent, give or take 0.5, and the limit is 3.3.
    """
    noise, observed, grid = ps.GaussianNoise(noise_std=0.5), 1.2, np.linspace(-20, 24, 441)
    x = np.linspace(-1, 1, 401)
    kernel = stats.norm(observed, 0.5).pdf
    inside = np.array([integrate.trapezoid(stats.t.pdf(x - at, 3) * kernel(x), x) for at in grid])
    ends = stats.t.sf(1 - grid, 3) * kernel(1.0) + stats.t.cdf(-1 - grid, 3) * kernel(-1.0)
    wide = np.linspace(-8, 10, 901)  # the kernel has a width of 0.5
    ignored = np.array([integrate.trapezoid(stats.t.pdf(wide - at, 3) * kernel(wide), wide) for at in grid])
    prior = stats.norm(0, 4)
    chain = lambda: StatedRecords(  # noqa: E731
        Observation(model=NORMAL, n=1, noise=noise, observed=np.array([observed])),
        prior=stated_priors({"centre": prior}),
        records=lambda centre: stats.t(3, centre),
    )
    drawn = run_chains(chain, draws=2000, tune=200, chains=1, rng=rng).draws["centre"][::10]
    for likelihood, accepted in ((inside + ends, True), (ignored, False)):
        below = quadrature(prior.logpdf, np.log(likelihood), grid)
        assert (stats.kstest(drawn, lambda at, below=below: np.interp(at, grid, below)).pvalue > alpha) == accepted


@pytest.mark.statistical
@pytest.mark.parametrize("hidden", [False, True], ids=["with quantiles", "simulation"])
def test_counts_and_an_integer_parameter_by_enumeration(hidden, rng, alpha):
    """Binomial counts with an unknown number of trials, uniform on 1..6; the mutant has noise of another scale."""
    model, noise = ps.GammaPoisson(1, 1, upper=3), ps.DiscreteLaplaceNoise(scale=1.0)

    class Simulated:
        def __init__(self, trials):
            self.rvs = stats.binom(trials, 0.4).rvs

    def mass(trials, scale):
        one = np.bincount(np.minimum(np.arange(trials + 1), 3), stats.binom.pmf(np.arange(trials + 1), trials, 0.4), 4)
        two = np.convolve(one, one)
        return two @ np.exp(ps.DiscreteLaplaceNoise(scale=scale).log_mass(4.0 - np.arange(7)))

    records = Simulated if hidden else (lambda trials: stats.binom(int(trials), 0.4))
    if hidden:
        records = lambda trials: Simulated(int(trials))  # noqa: E731
    chain = lambda: StatedRecords(  # noqa: E731
        Observation(model=model, n=2, noise=noise, observed=np.array([4.0])),
        prior=stated_priors({"trials": stats.randint(1, 7)}),
        records=records,
    )
    drawn = run_chains(chain, draws=2000, tune=100, chains=1, rng=rng).draws["trials"][::8]
    counts = np.bincount(drawn.astype(int), minlength=7)[1:]
    for scale, accepted in ((1.0, True), (0.1, False)):
        due = np.array([mass(trials, scale) for trials in range(1, 7)])
        found = stats.chisquare(counts, due / due.sum() * counts.sum()).pvalue
        assert (found > alpha) == accepted


def test_priors_without_density_are_drawn_from(rng):
    """One parameter walks, the other is drawn anew; a release without information leaves both priors."""
    priors = stated_priors({"mean": LightPrior(hidden=("logpdf",)), "std": stats.uniform(1, 2)})
    assert priors["mean"].density is None
    chain = lambda: StatedRecords(  # noqa: E731
        Observation(model=NORMAL, n=2, noise=ps.LaplaceNoise(scale=1e6), observed=np.array([0.0])),
        prior=priors,
        records=Light,
    )
    trace = run_chains(chain, draws=3000, tune=100, chains=1, rng=rng)
    assert trace.draws["std"].min() > 1
    assert trace.draws["std"].max() < 3
    assert abs(trace.draws["std"].mean() - 2.0) < 0.2
    assert 0.8 < trace.draws["mean"].std() < 1.2


def test_records_of_several_columns_and_moments(rng):
    """Rows for a regression: the contributions add up to the model's own statistic."""
    regression = ps.LinearRegression(feature_bounds=((0, 1),), target_bounds=(-1, 1), shape=3, scale=2)
    noise = ps.LaplaceNoise(scale=2.0)
    chain = StatedRecords(
        Observation(model=regression, n=15, noise=noise, observed=np.zeros((1, *regression.empty.shape))),
        prior=stated_priors({"slope": stats.norm(0, 1), "root": stats.norm([0.0, 0.0], 1.0)}),
        records=lambda slope, root: stats.multivariate_normal([root[0], slope], [[1, 0.5], [0.5, 1]]),
    )
    chain.start(rng)
    for _ in range(5):
        chain.sweep(rng, tuning=True)
    assert chain.x.shape == (15, 2)
    expected = regression.moments.sums(chain.x)
    assert chain.contributions.sum(axis=0) == pytest.approx(expected, rel=1e-12)
    assert chain.parameters()["root"].shape == (2,)


@pytest.mark.parametrize(
    "model",
    [ps.DirichletCategorical((1, 2, 3)), ps.NormalUnknownVariance.example(), ps.BetaBernoulli(1, 1, fractional=True)],
    ids=lambda model: type(model).__name__,
)
def test_contributions_add_up_to_the_statistic(model, rng):
    from privsample.inference.contributions import contributions_of

    x = rng.random(30) if model.empty.shape == () else rng.integers(0, 3, 30).astype(float)
    assert contributions_of(model)(x).sum(axis=0) == pytest.approx(np.ravel(model.statistic(x)), rel=1e-12)


def test_contributions_of_a_model_of_ones_own(rng):
    from privsample.inference.contributions import contributions_of
    from tests import families

    model = families.poisson()
    x = rng.integers(0, 7, 30).astype(float)
    assert contributions_of(model)(x).sum(axis=0) == pytest.approx(model.statistic(x), rel=1e-12)


def test_coordinates_of_every_support():
    priors = stated_priors(
        {
            "real": stats.norm(0, 2),
            "positive": stats.gamma(3),
            "share": stats.beta(2, 3, loc=1, scale=2),
            "negative": stats.gumbel_l(),
            "below": BelowFive(),
            "whole": stats.poisson(4),
            "pair": stats.expon([0.0, 1.0], 1.0),
            "own": ps.Gamma(2, 1),
        }
    )
    coordinates = Coordinates(list(priors.values()))
    values = {
        "real": -0.7, "positive": 2.5, "share": 1.9, "negative": 0.2, "below": 3.0, "whole": 6.0,
        "pair": np.array([0.5, 1.5]), "own": 0.3,
    }  # fmt: skip
    values = {name: np.asarray(value, dtype=float) for name, value in values.items()}
    z = coordinates.unconstrain(values)
    found = coordinates.constrain(z)
    for name, value in values.items():
        assert found[name].shape == value.shape
        assert found[name] == pytest.approx(value, rel=1e-12)
    step = 1e-6
    slope = 0.0
    for i in range(len(z)):
        up, down = z.copy(), z.copy()
        up[i], down[i] = z[i] + step, z[i] - step
        change = sum(
            float(np.sum(coordinates.constrain(up)[name] - coordinates.constrain(down)[name])) for name in values
        )
        slope += 0.0 if change == 0 else np.log(change / (2 * step))
    assert coordinates.log_slope(z) == pytest.approx(slope - np.log(2.0), abs=1e-5)  # but for a constant, the scale 2


class BelowFive:
    """5 minus an exponential number, with a support that is bounded above only."""

    def rvs(self, random_state=None, size=None):
        return 5.0 - random_state.standard_exponential(size)

    def logpdf(self, x):
        return np.where(x <= 5, x - 5.0, -np.inf)

    def support(self):
        return -np.inf, 5.0


def test_parameters_at_a_bound_are_moved_inside(rng):
    """Draws of Gamma(1e-4, 1) are rounded to 0, where their density is infinite and an exponential has no scale."""
    priors = stated_priors({"scale": stats.gamma(1e-4), "share": stats.beta(1e-4, 1e-4), "whole": stats.randint(0, 2)})
    coordinates = Coordinates(list(priors.values()))
    given = {"scale": np.asarray(0.0), "share": np.asarray(1.0), "whole": np.asarray(0.0)}
    found = coordinates.away_from_bounds(given)
    assert found["scale"] > 0
    assert 0 < found["share"] < 1
    assert found["whole"] == 0
    assert coordinates.away_from_bounds(found) is found
    for z in (np.array([800.0, 0.0, 0.0]), np.array([0.0, 40.0, 0.0]), np.array([np.inf, 0.0, 1.0])):
        assert not coordinates.are_inside(z, coordinates.constrain(z))
    chain = lambda: StatedRecords(  # noqa: E731
        Observation(model=ps.GammaExponential.example(), n=10, noise=LAPLACE, observed=np.array([30.0])),
        prior=stated_priors({"scale": stats.gamma(1e-3)}),
        records=lambda scale: stats.expon(scale=scale),
    )
    trace = run_chains(chain, draws=200, tune=200, chains=1, rng=rng)
    assert (trace.draws["scale"] > 0).all()
    assert np.isfinite(trace.draws["scale"]).all()


def test_tuned_walks_take_steps_of_the_size_of_the_distribution(rng):
    """A normal distribution with deviations 1 and 0.01: the walk accepts at its target, in both directions."""
    deviations = np.array([1.0, 0.01])
    for kind in (Walk, LearnedWalk):
        walk, z, accepted = kind(np.array([1.0, 1.0])), np.zeros(2), []
        for i in range(6000):
            proposal = walk.propose(z, rng)
            log_ratio = 0.5 * ((z / deviations) ** 2 - (proposal / deviations) ** 2).sum()
            taken = log_ratio > -rng.standard_exponential()
            z = proposal if taken else z
            if i < 4000:
                walk.tune(log_ratio, z)
            else:
                accepted.append(taken)
        assert 0.2 < np.mean(accepted) < 0.6
        sizes = np.sqrt(np.diag(walk.root @ walk.root.T))
        assert 30 < sizes[0] / sizes[1] < 300


class Counts:
    """Poisson counts with quantiles, and with probabilities if `masses` is set."""

    def __init__(self, rate, masses=False):
        from scipy import special

        self.rate, self.cdf = rate, lambda x: special.pdtr(x, rate)
        if masses:
            self.pmf = stats.poisson(rate).pmf
            self.logpmf = stats.poisson(rate).logpmf

    def rvs(self, size, random_state):
        return random_state.poisson(self.rate, size).astype(float)

    def ppf(self, q):
        return stats.poisson.ppf(q, self.rate)


class Inflated(Light):
    """A normal distribution rounded up to 0: its density says nothing of the probability of 0."""

    def _rvs(self, size, random_state):
        return np.maximum(super()._rvs(size, random_state), 0.0)

    def _cdf(self, x):
        return np.where(x < 0, 0.0, super()._cdf(x))

    def _ppf(self, q):
        return np.maximum(super()._ppf(q), 0.0)


def test_quantiles_of_single_values_are_not_used(rng):
    """F(x) is no uniform number if x has a probability of its own: keeping it would not keep the posterior."""
    assert not StatedDistribution(lambda: Counts(2.0), {}, None).has_quantiles
    assert StatedDistribution(lambda: Counts(2.0, masses=True), {}, None).has_quantiles
    assert not StatedDistribution(lambda: Inflated(0.5, hidden=("sf", "isf")), {}, None).has_quantiles
    model, prior = ps.GammaPoisson(2, 1, upper=5), {"rate": stats.gamma(2)}
    observation = Observation(model=model, n=8, noise=ps.LaplaceNoise(scale=2.0), observed=np.array([9.0]))
    chain = StatedRecords(observation, prior=stated_priors(prior), records=Counts)
    chain.start(rng)
    assert set(chain.moves) == {"simulation"}
    assert chain.description == "exact: data augmentation with simulated records"


def test_chains_find_the_release_under_a_very_wide_prior(rng):
    """Almost all of the prior has every record clipped, at either bound: no walk would come back from there."""
    wide = stated_priors({"mean": stats.norm(0, 1e7)})
    observation = Observation(model=NORMAL, n=40, noise=LAPLACE, observed=np.array([10.0]))
    for _ in range(5):
        chain = StatedRecords(observation, prior=wide, records=Light)
        chain.start(rng)
        assert abs(chain.contributions.sum() - 10.0) < 10
        assert chain.moves["density"][1].root[0, 0] < 1e3
    only_simulated = stated_priors({"mean": LightPrior(hidden=("logpdf",))})
    chain = StatedRecords(observation, prior=only_simulated, records=Light)
    chain.start(rng)
    assert abs(chain.state.values["mean"]) < 5


def test_distributions_of_the_library_are_records(rng):
    one = StatedDistribution(lambda mean: ps.Normal(mean, 1), {"mean": np.asarray(0.5)}, None)
    assert one.has_density
    assert not one.has_quantiles
    x = one.draw(5, rng)
    assert one.log_likelihood(x) == pytest.approx(stats.norm(0.5, 1).logpdf(x).sum(), rel=1e-12)


def test_far_tails_keep_their_digits():
    """The distribution function rounds to 1 above 8.3; the tail does not."""
    rng = np.random.default_rng(0)
    one = StatedDistribution(Light, {"mean": np.asarray(0.0)}, None)
    x = np.array([-20.0, -1.0, 0.3, 9.0, 20.0])
    assert one.at_ranks(one.ranks(x, rng)) == pytest.approx(x, rel=1e-12)


def test_a_prior_on_part_of_a_circle():
    assert StatedPrior("angle", stats.vonmises_line(1.0)).high == pytest.approx(np.pi)
