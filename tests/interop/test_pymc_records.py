"""Gradients of single records of PyMC models against finite differences, and models that are refused."""

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import privsample as ps
from privsample.interop.pymc_graphs import quiet
from privsample.interop.pymc_records import record_program

pytestmark = pytest.mark.generations

RNG = np.random.default_rng(5)
ROWS, NUMBER = ps.RecordColumn(width=3), ps.RecordColumn()
BINARY = ps.RecordColumn(bounds=(0, 1), integer=True)
GROUP = ps.RecordColumn(names=("a", "b", "c", "d"))
COUNT = ps.RecordColumn(bounds=(0, 30), integer=True)


def linear(data):
    with pm.Model(coords={"feature": ["u", "v", "w"]}) as model:
        slope = pm.Normal("slope", 0.0, 1.0, dims="feature")
        spread = pm.HalfNormal("spread", 2.0)
        centre = pm.Deterministic("centre", data["x"] @ slope)
        pm.Deterministic("double", 2 * slope, dims="feature")
        records = pm.Normal("y", centre, spread, observed=data["y"])
        pm.Deterministic("residual", records - 1.0)
    return model


def hierarchical(data):
    with pm.Model(coords={"group": list("abcd")}) as model:
        centre, spread = pm.Normal("centre"), pm.HalfNormal("spread")
        offset = pm.Normal("offset", dims="group")
        rate = pm.Deterministic("rate", centre + spread * offset, dims="group")
        pm.Bernoulli("y", logit_p=rate[data["g"]], observed=data["b"])
    return model


def mixture(data):
    with pm.Model() as model:
        weight = pm.Dirichlet("weight", np.ones(2))
        mean = pm.Normal("mean", 0.0, 3.0, shape=2)
        pm.NormalMixture("y", weight, mean, sigma=0.7, observed=data["y"])
    return model


def two_outcomes(data):
    with pm.Model() as model:
        rate, tail = pm.Gamma("rate", 2.0, 1.0), pm.Gamma("tail", 3.0, 0.5)
        pm.Poisson("c", rate, observed=data["c"])
        pm.StudentT("y", tail, mu=rate, sigma=1.0, observed=data["y"])
    return model


def _mixture_logp(theta, record):
    parts = np.log(theta["weight"]) + stats.norm.logpdf(record["y"], theta["mean"], 0.7)
    return special.logsumexp(parts)


CASES = {
    "linear": (
        linear,
        {"x": ROWS, "y": NUMBER},
        lambda theta, at: stats.norm.logpdf(at["y"], at["x"] @ theta["slope"], theta["spread"]),
    ),
    "hierarchical": (
        hierarchical,
        {"g": GROUP, "b": BINARY},
        lambda theta, at: special.log_expit((2.0 * at["b"] - 1.0) * theta["rate"][at["g"]]),
    ),
    "mixture": (mixture, {"y": NUMBER}, _mixture_logp),
    "two outcomes": (
        two_outcomes,
        {"c": COUNT, "y": NUMBER},
        lambda theta, at: (
            stats.poisson.logpmf(at["c"], theta["rate"]) + stats.t.logpdf(at["y"], theta["tail"], theta["rate"], 1.0)
        ),
    ),
}


def _program(name):
    build, columns, logp = CASES[name]
    return record_program(build, tuple(columns.items())), columns, logp


def _records(columns, count):
    raw = {
        name: RNG.integers(0, 4, count).astype(float)
        if column.integer
        else 2 * RNG.standard_normal((count, *column.shape))
        for name, column in columns.items()
    }
    return {name: column.clean(raw[name]) for name, column in columns.items()}


def _finite_difference(function, point, step=1e-5):
    moved = step * np.eye(len(point))
    return np.array([(function(point + row) - function(point - row)) / (2 * step) for row in moved])


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_records(name):
    """Against finite differences of SciPy's log densities, at the constrained parameters."""
    program, columns, logp = _program(name)
    records, theta = _records(columns, 6), 0.5 * RNG.standard_normal((6, program.width))
    found = program.record_gradients(theta, records)
    for row, gradient, at in zip(theta, found, range(6), strict=True):
        record = {key: values[at] for key, values in records.items()}

        def log_likelihood(point, record=record):
            constrained = {key: value[0] for key, value in program.constrained(point[None]).items()}
            return logp(constrained, record)

        np.testing.assert_allclose(gradient, _finite_difference(log_likelihood, row), rtol=1e-5, atol=1e-6)


def test_a_record_enters_its_own_gradient_only():
    program, columns, _ = _program("hierarchical")
    records, theta = _records(columns, 5), RNG.standard_normal((5, program.width))
    found = program.record_gradients(theta, records)
    changed = {key: values.copy() for key, values in records.items()}
    changed["b"][2], changed["g"][2] = 1 - changed["b"][2], (changed["g"][2] + 1) % 4
    after = program.record_gradients(theta, changed)
    assert (np.delete(found, 2, axis=0) == np.delete(after, 2, axis=0)).all()
    assert (found[2] != after[2]).any()


def test_gradient_of_the_prior_includes_the_jacobian():
    """The spread is half normal, and its coordinate is its logarithm."""
    program, _, _ = _program("linear")
    theta = RNG.standard_normal((4, program.width))

    def log_prior(point):
        spread = np.exp(point[3])
        return stats.norm.logpdf(point[:3]).sum() + stats.halfnorm.logpdf(spread, scale=2.0) + point[3]

    expected = [_finite_difference(log_prior, row) for row in theta]
    np.testing.assert_allclose(program.prior_gradients(theta), expected, rtol=1e-6, atol=1e-8)


def test_what_depends_on_the_data_is_not_released():
    program, _, _ = _program("linear")
    assert sorted(program.constrained(np.zeros((2, 4)))) == ["double", "slope", "spread"]
    assert program.dims == {"slope": ("feature",), "double": ("feature",)}
    assert program.coords == {"feature": ("u", "v", "w")}


def test_what_depends_on_a_data_container_is_not_released():
    def build(data):
        with pm.Model() as model:
            theta = pm.Normal("theta")
            own = pm.Data("own", np.array([3.0, 7.0]))
            pm.Deterministic("product", theta * own)
            pm.Normal("y", theta, 1.0, observed=data["y"])
        return model

    program = record_program(build, (("y", NUMBER),))
    assert sorted(program.constrained(np.zeros((2, 1)))) == ["theta"]


@pytest.mark.statistical
def test_draws_from_the_prior(alpha):
    program, _, _ = _program("linear")
    drawn = program.constrained(program.prior_draws(4000, 3))
    assert stats.kstest(drawn["slope"].ravel(), "norm").pvalue > alpha
    assert stats.kstest(drawn["spread"], stats.halfnorm(scale=2.0).cdf).pvalue > alpha


def test_public_point():
    program, _, _ = _program("linear")
    np.testing.assert_allclose(program.point({"slope": [1, 2, 3], "spread": 2.0}), [1, 2, 3, np.log(2)])
    for wrong, words in [
        ({"centre": 1.0}, "must name"),
        ({"spread": -1.0}, "support"),
        ({"slope": [1.0]}, "fit|support"),
    ]:
        with pytest.raises(ValueError, match=words):
            program.point(wrong)


# Models that are refused


def _regression(likelihood):
    def build(data):
        with pm.Model() as model:
            theta = pm.Normal("theta")
            likelihood(theta, data)
        return model

    build.__name__ = likelihood.__name__
    return build


@_regression
def centred(theta, data):
    pm.Normal("y", theta * (data["x"][:, 0] - data["x"][:, 0].mean()), 1.0, observed=data["y"])


@_regression
def lagged(theta, data):
    before = pm.math.concatenate([[0.0], data["y"][:-1]])
    pm.Normal("y", theta * before, 1.0, observed=data["y"])


@_regression
def time_series(theta, data):
    pm.GaussianRandomWalk("y", mu=theta, sigma=1.0, init_dist=pm.Normal.dist(), observed=data["y"])


@_regression
def one_multivariate(theta, data):
    size = data["y"].shape[0]
    covariance = pm.math.eye(size) if hasattr(pm.math, "eye") else np.eye(3)
    pm.MvNormal("y", theta + 0 * data["y"], covariance, observed=data["y"])


@_regression
def potential(theta, data):
    pm.Potential("term", -((data["y"] - theta) ** 2).sum())
    pm.Normal("y", theta, 1.0, observed=data["y"])


@_regression
def own_numbers(theta, data):
    pm.Normal("y", theta, 1.0, observed=np.arange(3.0))


@_regression
def prior_of_the_data(theta, data):
    scale = pm.HalfNormal("scale", pm.math.abs(data["y"]).max())
    pm.Normal("y", theta, scale, observed=data["y"])


@_regression
def latent_for_each_record(theta, data):
    latent = pm.Normal("latent", theta, 1.0, shape=data["y"].shape[0])
    pm.Normal("y", latent, 1.0, observed=data["y"])


@_regression
def discrete_latent(theta, data):
    label = pm.Bernoulli("label", 0.5)
    pm.Normal("y", theta + label, 1.0, observed=data["y"])


@_regression
def minibatch(theta, data):
    pm.Normal("y", theta, 1.0, observed=data["y"], total_size=100)


@_regression
def nothing_observed(theta, data):
    pm.Normal("y", theta, 1.0)


@_regression
def wrong_first_axis(theta, data):
    pm.Normal("y", theta, 1.0, observed=data["x"].T)


@_regression
def never_finite(theta, data):
    pm.Uniform("y", 1000.0, 1001.0 + theta**2, observed=data["y"])


@_regression
def random_numbers(theta, data):
    pm.Normal("y", theta + pm.Normal.dist(), 1.0, observed=data["y"])


@_regression
def no_gradient(theta, data):
    from pytensor.compile.ops import as_op
    from pytensor.tensor import dscalar

    @as_op(itypes=[dscalar], otypes=[dscalar])
    def black_box(x):
        return np.sin(x)

    pm.Normal("y", black_box(theta), 1.0, observed=data["y"])


@_regression
def index_of_the_second_axis(theta, data):
    table = pm.Normal("table", shape=(2, 3))
    pm.Normal("y", table[:, (data["y"] > 0).astype(int)].sum(axis=0), 1.0, observed=data["y"])


REFUSED = {
    centred: "not independent|example records",
    lagged: "not independent|example records",
    time_series: "one log density for all records",
    one_multivariate: "one log density for all records",
    potential: "potential 'term' depends on the data",
    own_numbers: "not among the columns",
    prior_of_the_data: "prior of scale depends on the data",
    latent_for_each_record: "depends on the number of records",
    discrete_latent: "discrete",
    minibatch: "minibatch",
    nothing_observed: "without observed variables",
    wrong_first_axis: "first axis|not independent|example records",
    never_finite: "not finite",
    random_numbers: "random numbers|log density",
    no_gradient: "gradient of the model's log density cannot be taken",
}


@pytest.mark.parametrize(("build", "words"), REFUSED.items(), ids=[build.__name__ for build in REFUSED])
def test_refused_models(build, words):
    with pytest.raises(ValueError, match=words):
        record_program(build, (("x", ROWS), ("y", NUMBER)))


def test_an_index_of_the_second_axis_is_right_or_refused():
    """PyTensor 2 cannot compute it for several records at once, and PyTensor 3 can."""
    try:
        program = record_program(index_of_the_second_axis, (("x", ROWS), ("y", NUMBER)))
    except ValueError as error:
        assert "for several records at once" in str(error)  # noqa: PT017 - one of two right outcomes
        return
    theta, y = RNG.standard_normal((4, program.width)), np.array([-1.0, 0.5, 2.0, -0.3])
    found = program.record_gradients(theta, {"x": np.zeros((4, 3)), "y": y})[:, -6:].reshape(4, 2, 3)
    column, table = (y > 0).astype(int), theta[:, -6:].reshape(4, 2, 3)
    expected = np.zeros((4, 2, 3))
    for k in range(4):
        expected[k, :, column[k]] = y[k] - table[k, :, column[k]].sum()
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_no_model():
    with pytest.raises(TypeError, match="must return a PyMC model, got NoneType"):
        record_program(lambda data: None, (("y", NUMBER),))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_numba_computes_the_same():
    pytest.importorskip("numba")
    build, columns, _ = CASES["linear"]
    plain, compiled = (record_program(build, tuple(columns.items()), backend) for backend in ("numpy", "numba"))
    records, theta = _records(columns, 7), RNG.standard_normal((7, plain.width))
    with quiet():  # as in a chain; Numba warns where it compiles a product of matrices for the first time
        found = compiled.record_gradients(theta, records)
    np.testing.assert_allclose(found, plain.record_gradients(theta, records), rtol=1e-10)
