"""A user's exponential family: what is checked when it is stated, its statistic, its draws and its audits."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import privsample as ps
from privsample.errors import NumericalFailure, SchemaError
from tests import families

RNG = np.random.default_rng


def test_it_is_released_calibrated_and_drawn_like_a_built_in_model():
    for name, (own, builtin) in families.FIVE.items():
        target = ps.RDP(order=1.5, epsilon=0.05)
        mine, theirs = (ps.DiffusedPosterior.calibrate(model=model, n=6, target=target) for model in (own, builtin))
        assert mine.data_weight == pytest.approx(theirs.data_weight, rel=1e-9), name
        data = [0, 1, 1, 0, 1, "?"]
        draws = replace(mine, draws=3).release(data, rng=RNG(1))["theta"]
        assert draws.shape == (3, *own.draw_shape)
        same = replace(theirs, draws=3, exact=False).release(data, rng=RNG(1))[theirs.parameter]
        assert draws == pytest.approx(same, rel=1e-7)
        with pytest.raises(SchemaError, match="6 records were declared"):
            mine.release([0, 1])


def test_concentrated_and_direct_draws_follow():
    own, builtin = families.FIVE["beta-bernoulli"]
    for kind, fields in ((ps.DirectPosterior, {}), (ps.ConcentratedPosterior, {"prior_weight": 2.0})):
        mine, theirs = (kind(model=model, n=5, **fields).accountant for model in (own, builtin))
        assert mine.rdp(2.0) == pytest.approx(theirs.rdp(2.0), rel=1e-11)


AUDITED = {name: own for name, (own, _) in families.FIVE.items()} | {
    "dirichlet-categorical": families.categorical(  # with three categories; the account of four takes seconds
        prior_parameter=[3.0, 2.0, 4.0],
        records=ps.Domain(low=0, high=2, missing=0, integer_valued=True),
        contribution=lambda x: np.eye(3)[x.astype(int)],
    )
}


@pytest.mark.parametrize(
    "own",
    [
        *(pytest.param(own, id=name) for name, own in AUDITED.items()),
        pytest.param(families.FIVE["dirichlet-categorical"][0], id="four categories", marks=pytest.mark.long),
    ],
)
def test_the_audit_confirms_it_and_finds_a_wrong_sampler(own):
    honest = ps.DiffusedPosterior(model=own, n=1, data_weight=0.6)
    broken = replace(
        honest,
        model=replace(
            own,
            sampler=lambda eta, size, rng: own.sampler(
                own.prior_parameter + 3 * (eta - own.prior_parameter), size, rng
            ),
        ),
    )
    claim = honest.accountant  # made once, because it keeps what it computes
    given = {"claim": claim, "epsilons": [0.0, 0.2, 0.6], "samples": 10_000}  # each epsilon is a search over orders
    assert ps.audit(honest, **given, rng=RNG(3)).outcome == "CONSISTENT"
    assert ps.audit(broken, **given, rng=RNG(3)).outcome == "VIOLATED"


def test_the_log_density_ratio_is_that_of_the_library():
    own, builtin = families.FIVE["gamma-exponential"]
    theta = np.array([0.2, 1.0, 3.0])
    mine = own.posterior(own.statistic(np.array([1.0, 2.0])), 2)
    theirs = builtin.posterior(builtin.statistic(np.array([1.0, 2.0])), 2)
    base = own.prior.log_density(theta) - builtin.prior.log_density(theta)
    assert mine.log_density(theta) - theirs.log_density(theta) == pytest.approx(base, abs=1e-12)
    assert mine.relative_entropy(own.prior) == pytest.approx(theirs.relative_entropy(builtin.prior), rel=1e-10)
    assert mine.statistic_mean[1] == pytest.approx(-theirs.mean)
    assert mine.statistic_variance[1, 1] == pytest.approx(theirs.variance)
    for asked in ("mean", "variance"):
        with pytest.raises(TypeError, match="not stated by the family"):
            getattr(mine, asked)
    with pytest.raises(TypeError, match="not stated by the family"):
        mine.quantile(np.array([0.5]))


def test_statistics_are_lines_tables_or_bounded():
    line = families.exponential()
    assert line.statistic(np.array([1.0, 9.0, np.nan])).tolist() == [3.0, 5.0]
    assert line.statistic(np.array([])).tolist() == [0.0, 0.0]
    table = families.categorical()
    assert table.statistic(np.array([0, 1, 1, 7])).tolist() == [1.0, 2.0, 0.0, 1.0]
    curved = squares()
    assert curved.statistic(np.array([0.5, -1.0])).tolist() == [-0.5, 1.25]
    assert curved.statistic(np.array([0.123456789])) == pytest.approx([0.123456789, 0.123456789**2])
    assert curved.feasible(np.array([9.0, -9.0]), 2).tolist() == [2.0, 0.0]
    assert table.record_sensitivity.l2 == pytest.approx(2**0.5)
    assert not curved.record_sensitivity.tight


def squares(**fields):
    """Records x in [-1, 1] with S(x) = (x, x^2), in a box; a normal posterior with precision 1 + its second entry.

    The convexity condition fails, so that the account needs the bound of Lemma 17: the trace, at its largest.
    """

    def bound(points):
        h, p = np.abs(points[:, 0]).max(), 1 + points[:, 1].min()
        return 1 / p + h**2 / p**3 + 0.5 / p**2

    def hessian(eta):
        h, p = eta[:, 0], 1 + eta[:, 1]
        return np.moveaxis(np.array([[1 / p, -h / p**2], [-h / p**2, h**2 / p**3 + 0.5 / p**2]]), 2, 0)

    normalizer = ps.LogNormalizer(
        value=lambda eta: eta[:, 0] ** 2 / (2 * (1 + eta[:, 1])) - np.log(1 + eta[:, 1]) / 2,
        gradient=lambda eta: np.column_stack(
            [eta[:, 0] / (1 + eta[:, 1]), -(eta[:, 0] ** 2) / 2 / (1 + eta[:, 1]) ** 2 - 0.5 / (1 + eta[:, 1])]
        ),
        hessian=hessian,
        normalizable=lambda eta: eta[:, 1] > -1,
    )
    return ps.ExponentialFamily(
        **{
            "prior_parameter": [0.0, 20.0],
            "records": ps.Domain(low=-1, high=1, missing=0),
            "contribution": lambda x: np.column_stack([x, x**2]),
            "normalizer": normalizer,
            "sampler": lambda eta, size, rng: rng.normal(eta[0] / (1 + eta[1]), (1 + eta[1]) ** -0.5, size),
            "parameter_statistic": lambda theta: np.column_stack([theta, -(theta**2) / 2]),
            "vertices": [[-1, 0], [-1, 1], [1, 0], [1, 1]],
            "hessian_bound": bound,
        }
        | fields
    )


def test_a_curved_contribution_needs_vertices_that_contain_it():
    account = ps.DiffusedPosterior(model=squares(), n=5, data_weight=0.5).accountant
    assert account.kind("rdp") == "upper bound"
    assert 0 < account.rdp(2.0) < 0.5
    with pytest.raises(ValueError, match="fails the convexity condition"):
        ps.DiffusedPosterior(model=squares(hessian_bound=None), n=5, data_weight=0.5)
    with pytest.raises(ValueError, match="vertices must be given, because contribution is not a straight line"):
        squares(vertices=None)
    with pytest.raises(ValueError, match=r"vertices must contain .* but not that of -1, which is \[-1.0, 1.0\]"):
        squares(vertices=[[-1, 0], [0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"vertices must be finite, of shape \(vertices, 2\)"):
        squares(vertices=[[-1.0], [1.0]])
    with pytest.raises(TypeError, match="vertices are stated, and need not belong to records"):
        ps.DiffusedPosterior(model=squares(), n=5, data_weight=0.5).worst_neighbours()


def test_a_record_whose_contribution_is_not_finite_counts_as_missing():
    def leaky(x):
        return np.column_stack([x, np.where(x == 0.123456, np.nan, x**2)])

    model = squares(contribution=leaky)
    assert model.statistic(np.array([0.123456, 0.5])).tolist() == [0.5, 0.25]

    def failing(x):
        if (x == 0.123456).any():
            raise RuntimeError("a record")
        return np.column_stack([x, x**2])

    model = squares(contribution=failing)
    assert model.statistic(np.array([0.123456, 0.5, -0.5])).tolist() == [0.0, 0.5]


def test_wrong_derivatives_are_refused_with_the_place():
    good = families.gamma_normalizer()
    for name, broken, found in (
        ("gradient", lambda eta: 1.01 * good.gradient(eta), "gradient disagrees with the derivative of value"),
        (
            "gradient",
            lambda eta: good.gradient(eta) + np.array([0.0, 0.01]),
            "gradient disagrees .* in coordinate 1 at",
        ),
        ("hessian", lambda eta: 1.01 * good.hessian(eta), "hessian disagrees with the derivative of gradient"),
        ("hessian", lambda eta: -good.hessian(eta), "hessian must be symmetric and positive semidefinite"),
        ("hessian", lambda eta: good.hessian(eta) + np.array([[0, 1], [0, 0]]), "hessian must be symmetric"),
        ("value", lambda eta: 1.01 * good.value(eta), "gradient disagrees with the derivative of value"),
        ("value", lambda eta: good.value(eta) + np.nan, "value must be finite, but is not at"),
        ("hessian", lambda eta: good.hessian(eta) + np.nan, "hessian must be finite, but is not at"),
        ("normalizable", lambda eta: eta[:, 1] < 100, "must be normalizable, but normalizable is False at"),
    ):
        with pytest.raises(ValueError, match=found):
            families.poisson(normalizer=replace(good, **{name: broken}))


def test_wrong_shapes_and_types_are_refused():
    good = families.gamma_normalizer()
    for name, broken in (
        ("value", lambda eta: good.value(eta)[:, None]),
        ("gradient", lambda eta: good.gradient(eta)[:, 0]),
        ("hessian", lambda eta: good.hessian(eta)[0]),
        ("normalizable", lambda eta: True),
    ):
        with pytest.raises(TypeError, match=f"{name} must map natural parameters of shape"):
            families.poisson(normalizer=replace(good, **{name: broken}))
    for fields, found in (
        ({"records": (0, 1)}, "records must be a Domain, got tuple"),
        ({"normalizer": good.value}, "normalizer must be a LogNormalizer, got function"),
        ({"sampler": None}, "sampler must be a function, got NoneType"),
        ({"contribution": lambda x: x}, "contribution must map records of shape"),
    ):
        with pytest.raises(TypeError, match=found):
            families.poisson(**fields)
    for fields, found in (
        ({"name": "not a name"}, "name must be an identifier"),
        ({"prior_parameter": [[1.0, 2.0]]}, r"prior_parameter must have shape \(k,\)"),
        ({"prior_parameter": [np.nan, 2.0]}, "prior_parameter must not contain NaN"),
        ({"prior_parameter": [-1.0, 2.0]}, "must be normalizable"),
        ({"contribution": lambda x: np.full((len(x), 2), np.nan)}, "contribution must be finite for every record"),
        ({"contribution": lambda x: np.ones((len(x), 2))}, "at least two different contributions"),
        ({"length": -1}, "length"),
        ({"hessian_bound": 0.0}, "hessian_bound must be"),
    ):
        with pytest.raises(ValueError, match=found):
            families.poisson(**fields)


def test_a_sampler_that_fails_releases_nothing():
    mechanism = ps.DiffusedPosterior(model=families.poisson(), n=2, data_weight=0.2, draws=2)
    for sampler, error, found in (
        (lambda eta, size, rng: np.full(size, np.nan), NumericalFailure, "sampler returned a value that is not finite"),
        (lambda eta, size, rng: rng.random(size + 1), TypeError, "sampler must return 2 draws along the first axis"),
    ):
        with pytest.raises(error, match=found):
            replace(mechanism, model=families.poisson(sampler=sampler)).release([1, 2], rng=RNG(1))
    wrong = families.poisson(parameter_statistic=lambda theta: theta)
    with pytest.raises(TypeError, match="parameter_statistic must map 3 draws"):
        wrong.prior.log_density(np.ones(3))
    with pytest.raises(ValueError, match="natural must be a normalizable natural parameter"):
        wrong.posterior(np.array([-99.0, 0.0]), 1)


@pytest.mark.statistical
@pytest.mark.parametrize("name", families.FIVE)
def test_the_sampler_is_compared_with_the_log_normalizer(name, rng):
    own, _ = families.FIVE[name]
    own.check_sampler(rng=rng)
    families.truncated().check_sampler(samples=4000, rng=rng)
    sharper = replace(own, sampler=lambda eta, size, rng: own.sampler(1.5 * eta, size, rng))
    with pytest.raises(ValueError, match=r"sampler disagrees .* coordinate . of T\(theta\) has the (mean|variance)"):
        sharper.check_sampler(rng=rng)
    with pytest.raises(ValueError, match="samples must be at least 2000, got 9"):
        own.check_sampler(samples=9)


def test_public_data_update_the_prior():
    own, builtin = (model.with_public_data([1, 3]) for model in families.FIVE["gamma-poisson"])
    assert own.prior_parameter.tolist() == [builtin.shape, builtin.rate]


@ps.register(package="family-test")
@dataclass(frozen=True, kw_only=True)
class Votes(ps.FamilyModel):
    """A registered model of a package: it can be saved and paid for, as it holds no function."""

    prior_parameters = ("first", "second")
    first: float
    second: float

    @property
    def family(self):
        return families.bernoulli(prior_parameter=[self.first, self.second])


def test_a_registered_model_is_saved_paid_for_and_audited(tmp_path):
    mechanism = ps.DiffusedPosterior(model=Votes(first=6.0, second=12.0), n=3, data_weight=0.5)
    release = mechanism.release([0, 1, 1], rng=RNG(1))
    release.save(tmp_path / "r.json")
    assert ps.Release.load(tmp_path / "r.json") == release
    ledger = ps.Ledger(tmp_path / "a.ledger", budget=ps.DP(5, 1e-6), relation=ps.ReplaceOne(3), dataset="votes")
    assert ledger.release(mechanism, [0, 1, 1])["theta"].shape == (1,)
    assert ps.audit(replace(mechanism, n=1), samples=10_000, rng=RNG(2)).outcome == "CONSISTENT"
    noisy = ps.NoisyStatistics(model=Votes(first=6.0, second=12.0), n=3, scale=1.0).release([0, 1, 1])
    assert ps.PrivateStatistics(release=noisy).posterior().natural.shape == (2,)
    assert mechanism.accountant.group(2).rdp(1.5) > mechanism.accountant.rdp(1.5)

    class Wrong(ps.FamilyModel):
        family = 1.0

    with pytest.raises(TypeError, match="family of Wrong must return an ExponentialFamily, got float"):
        ps.DirectPosterior(model=Wrong(), n=3)
    own = ps.DiffusedPosterior(model=families.bernoulli(), n=3, data_weight=0.5)
    assert mechanism.accountant.rdp(2.0) == own.accountant.rdp(2.0)
    with pytest.raises(TypeError, match="a model that holds functions cannot be saved: write a registered sub"):
        own.release([0, 1, 1]).save(tmp_path / "f.json")


@pytest.mark.parametrize(("bound", "value"), [("high", np.inf), ("low", -np.inf), ("high", np.nan)])
def test_records_without_finite_bounds_are_refused(bound, value):
    records = ps.Domain(**{"low": 0.0, "high": 1.0, "missing": 0.0} | {bound: value})
    with pytest.raises(ValueError, match=f"^records must have finite bounds, got {bound} = {value}$"):
        families.bernoulli(records=records)
