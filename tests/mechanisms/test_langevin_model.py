"""Langevin draws for PyMC models: steps, accounts, audits, bad data, files, and draws near the posterior."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import privsample as ps
from privsample.distributions.steps import record_langevin
from privsample.mechanisms.posterior import langevin_model
from privsample.testing import check_mechanism

NUMBERS = {"y": ps.RecordColumn()}
SETTINGS = {"columns": NUMBERS, "relation": ps.ReplaceOne(n=4), "clip": 1.0, "step_size": 0.05, "steps": 1}
FAR = {"y": np.array([1.0, 9.0, -7.0, 0.7])}


def normal(data):
    """The mean of normal records."""
    with pm.Model() as model:
        theta = pm.Normal("theta", 0.0, 2.0)
        pm.Normal("y", theta, 1.0, observed=data["y"])
    return model


def mixture(data):
    """Two means that may change places: the posterior has two modes."""
    with pm.Model(coords={"part": ["first", "second"]}) as model:
        mean = pm.Normal("mean", 0.0, 2.0, dims="part")
        pm.NormalMixture("y", np.array([0.5, 0.5]), mean, sigma=0.5, observed=data["y"])
    return model


@pytest.fixture(scope="module")
def example():
    """One step for one record, from a public point."""
    return ps.LangevinModel(
        ps.NormalMeanModel(), **SETTINGS | {"relation": ps.ReplaceOne(n=1), "step_size": 0.5}, start={"theta": 0.0}
    )


@pytest.mark.long
def test_requirements():
    """All at once; in `test`, tests of every mechanism check the requirements, and audit its examples."""
    check_mechanism(ps.LangevinModel)


# The step


def _scaled_step(mechanism, data, rng):
    """One step in units of its noise, around the mean that the clipped gradients give."""
    start = float(mechanism.start["theta"])
    draws = mechanism.release(data, rng=rng)["theta"]
    pull = np.clip(data["y"] - start, -mechanism.clip, mechanism.clip).sum()
    drift = -start / 4 + mechanism.data_weight * pull
    return (draws - start - mechanism.step_size * drift) / np.sqrt(2 * mechanism.step_size)


@pytest.mark.statistical
@pytest.mark.parametrize("accepted", [True, False])
def test_kernel_of_one_step(rng, alpha, accepted, monkeypatch):
    """N(x + step_size * drift, 2 step_size); the mutant adds noise of variance step_size."""
    if not accepted:
        _half_the_noise(monkeypatch)
    mechanism = ps.LangevinModel(normal, **SETTINGS, data_weight=0.7, start={"theta": 0.5}, draws=8000)
    assert (stats.kstest(_scaled_step(mechanism, FAR, rng), "norm").pvalue > alpha) == accepted


@pytest.mark.statistical
def test_a_batch_is_a_poisson_sample(rng, alpha):
    """Two equal records with clipped gradients 1: the step moves by a binomial number of them over the rate."""
    settings = SETTINGS | {"relation": ps.AddRemove(), "step_size": 1e-6}
    mechanism = ps.LangevinModel(normal, **settings, batch_probability=0.3, start={"theta": 0.0}, draws=20_000)
    draws = mechanism.release({"y": [50.0, 60.0]}, rng=rng)["theta"]
    assert abs(draws.mean() / 1e-6 - 2.0) < 6 * (1e6 * 2e-6 + 2 * 0.7 / 0.3) ** 0.5 * 1e3 / 20_000**0.5
    large = replace(mechanism, step_size=1.0, clip=1e4).release({"y": [1e5, 1e5]}, rng=rng)["theta"]
    counts = np.bincount(np.rint(large / 1e4 * 0.3).astype(int), minlength=3)
    assert stats.chisquare(counts, 20_000 * np.array([0.49, 0.42, 0.09])).pvalue > alpha


def test_a_failing_record_counts_as_zero_and_changes_no_other():
    def gradients(states, records):
        if (records["y"] == 3.0).any():
            raise np.linalg.LinAlgError("singular matrix")
        return records["y"][:, None] * states

    found = record_langevin.record_gradients(gradients, np.ones((6, 2)), {"y": np.arange(6.0)})
    assert np.isnan(found[3]).all()
    assert (np.delete(found, 3, axis=0) == np.delete(np.arange(6.0), 3)[:, None]).all()
    total = record_langevin.clipped_sums(
        gradients, np.ones((1, 2)), {"y": np.arange(6.0)}, clip=2.0, rate=1.0, rng=None
    )
    np.testing.assert_allclose(total, [[1 + 3 * 2**0.5] * 2], rtol=1e-12)


@pytest.mark.parametrize("clip", [1e-100, 1e-3, 1.0, 1e100])
def test_no_clipped_row_is_too_long(clip):
    """Rows of all lengths, also where squares overflow or vanish, against exact arithmetic."""
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((400, 5)) * 10.0 ** rng.uniform(-320, 308, (400, 1))
    rows[:4] = [[np.nan] * 5, [np.inf] * 5, [0.0] * 5, [1.0, np.nan, 2.0, 3.0, 4.0]]
    given = rows.copy()
    weights = record_langevin.clipping_weights(rows, clip)
    assert ((weights >= 0) & (weights <= 1)).all()
    for row, weight, before in zip(rows, weights, given, strict=True):
        square = sum(Fraction(entry) ** 2 for entry in (weight * row).tolist())
        assert square <= Fraction(clip) ** 2
        if np.isfinite(before).all() and square < Fraction(clip) ** 2 * Fraction(999, 1000):
            assert weight * row == pytest.approx(before, rel=1e-14)
        if not np.isfinite(before).all():
            assert (row == 0).all()


def test_large_data_in_parts(monkeypatch):
    """The sums do not depend on how many pairs are held at a time."""
    rng = np.random.default_rng(1)
    states, records = rng.standard_normal((3, 2)), {"y": rng.standard_normal(50), "x": rng.standard_normal((50, 2))}

    def gradients(states, records):
        return records["y"][:, None] * states + records["x"]

    def total():
        return record_langevin.clipped_sums(gradients, states, records, clip=0.5, rate=1.0, rng=rng)

    whole = total()
    for cells in (1, 9, 64):
        monkeypatch.setattr(record_langevin, "_CELLS", cells)
        np.testing.assert_allclose(total(), whole, rtol=1e-12)


# The account


@pytest.mark.parametrize(("relation", "reach"), [(ps.ReplaceOne(n=9), 2.0), (ps.AddRemove(), 1.0)])
def test_account_of_full_batches(relation, reach):
    """mu^2 = T eta G^2 / 2 for k chains of T steps, G = 2 C r or C r."""
    mechanism = ps.LangevinModel(
        ps.NormalMeanModel(), columns=NUMBERS, relation=relation, clip=1.5, step_size=0.003, steps=70, data_weight=0.4,
        draws=3,
    )  # fmt: skip
    mu = np.sqrt(3 * 70 * 0.003 / 2) * reach * 1.5 * 0.4
    known = ps.GaussianAccountant(sensitivity=mu, noise_std=1.0, relation=relation)
    account = mechanism.accountant
    assert account.zcdp == pytest.approx(known.zcdp, rel=1e-12)
    assert account.zcdp >= mu * mu / 2
    for epsilon in (0.1, 1.0, 4.0):
        assert float(account.delta(epsilon)) == pytest.approx(float(known.delta(epsilon)), rel=1e-11)
    assert account.relation == relation
    assert account.assumptions == {ps.Assumption.FLOAT_CHAIN}


def test_account_of_batches():
    """Each step is the Gaussian mechanism with noise multiplier q sqrt(2 / eta) / (r C) on a Poisson sample."""
    mechanism = ps.LangevinModel(
        ps.NormalMeanModel(), columns=NUMBERS, relation=ps.AddRemove(), clip=2.0, step_size=0.001, steps=50,
        batch_probability=0.1, data_weight=0.5,
    )  # fmt: skip
    step = ps.GaussianAccountant(sensitivity=1.0, noise_std=0.1 * np.sqrt(2 / 0.001) / (0.5 * 2.0))
    known = 50 * ps.SubsampledAccountant(base=step, scheme=ps.PoissonSampling(rate=0.1))
    for epsilon in (0.1, 0.5):
        assert float(mechanism.accountant.delta(epsilon)) == pytest.approx(float(known.delta(epsilon)), rel=1e-6)
    np.testing.assert_allclose(mechanism.accountant.rdp([2.0, 9.0]), known.rdp([2.0, 9.0]), rtol=1e-10)


def test_a_batch_of_all_records_costs_what_full_batches_cost():
    settings = SETTINGS | {"relation": ps.AddRemove(), "steps": 5}
    full, batches = (ps.LangevinModel(normal, **settings, batch_probability=rate) for rate in (None, 1.0))
    epsilon = full.accountant.epsilon(1e-6)
    assert batches.accountant.epsilon(1e-6) == pytest.approx(epsilon, rel=1e-3)
    assert batches.accountant.epsilon(1e-6) >= epsilon * (1 - 1e-12)


@pytest.mark.parametrize(
    ("by", "batches"),
    [
        ("data_weight", {}),
        ("step_size", {}),
        ("data_weight", {"batch_probability": 0.2}),
        pytest.param("step_size", {"batch_probability": 0.2}, marks=pytest.mark.long),
    ],
)
def test_calibration(by, batches):
    fixed = {"columns": NUMBERS, "relation": ps.AddRemove(), "clip": 3.0, "steps": 40} | batches
    fixed |= {"step_size": 0.5} if by == "data_weight" else {}
    target = ps.DP(epsilon=1.0, delta=1e-6)
    mechanism = ps.LangevinModel.calibrate(build=ps.NormalMeanModel(), target=target, by=by, **fixed)
    assert 0.98 < float(mechanism.accountant.epsilon(1e-6)) <= 1.0


# Audits


def _half_the_noise(monkeypatch):
    right = record_langevin.langevin_step
    monkeypatch.setattr(
        langevin_model, "langevin_step", lambda x, drift, eta, noise: right(x, drift, eta, noise / np.sqrt(2.0))
    )


def _no_clipping(monkeypatch):
    monkeypatch.setattr(record_langevin, "clipping_weights", lambda rows, clip: np.ones(len(rows)))


def _start_at_the_mode(monkeypatch):
    def mode(self, records, rng):
        return np.full((self.draws, 1), records["y"].mean() / 1e6)

    monkeypatch.setattr(ps.LangevinModel, "_first_states", mode)


@pytest.mark.parametrize("group", [1, 2])
def test_the_account_stands(example, group):
    mechanism = example if group == 1 else replace(example, relation=ps.ReplaceOne(n=3))
    assert ps.audit(mechanism, group=group, samples=20_000, rng=np.random.default_rng(2)).outcome == "CONSISTENT"


@pytest.mark.parametrize("break_it", [_half_the_noise, _no_clipping, _start_at_the_mode])
def test_broken_copies_are_found(example, break_it, monkeypatch):
    break_it(monkeypatch)
    assert ps.audit(example, samples=20_000, rng=np.random.default_rng(2)).outcome == "VIOLATED"


def test_audit_of_a_model_that_is_a_function():
    """A non-convex model has no known worst neighbours: the caller names the datasets."""
    mechanism = ps.LangevinModel(mixture, **SETTINGS | {"relation": ps.ReplaceOne(n=2), "steps": 2, "step_size": 0.3})
    with pytest.raises(TypeError, match="pass datasets="):
        mechanism.worst_neighbours()
    pair = ({"y": np.array([0.0, 1e3])}, {"y": np.array([0.0, -1e3])})
    assert ps.audit(mechanism, datasets=pair, samples=40, rng=np.random.default_rng(2)).outcome == "CONSISTENT"


# Draws


@pytest.mark.statistical
@pytest.mark.parametrize("accepted", [True, False])
def test_draws_follow_the_posterior(rng, alpha, accepted, monkeypatch):
    """No clipping, data weight 1: a normal limit around the posterior mean, wider by (1 - eta curvature / 2)^-1/2."""
    if not accepted:
        _half_the_noise(monkeypatch)
    y, eta = rng.normal(1.0, 1.0, 30), 0.004
    mechanism = ps.LangevinModel(
        normal, columns=NUMBERS, relation=ps.ReplaceOne(n=30), clip=1e6, step_size=eta, steps=150, draws=3000
    )
    curvature = 30 + 1 / 4
    width = np.sqrt(1 / curvature / (1 - eta * curvature / 2))
    draws = mechanism.release({"y": y}, rng=rng)["theta"]
    assert (stats.kstest((draws - y.sum() / curvature) / width, "norm").pvalue > alpha) == accepted


def test_several_modes_are_drawn():
    rng = np.random.default_rng(4)
    y = np.concatenate([rng.normal(-2, 0.5, 100), rng.normal(2, 0.5, 100)])
    mechanism = ps.LangevinModel(
        mixture, columns=NUMBERS, relation=ps.AddRemove(), clip=4.0, step_size=0.002, steps=200, draws=40
    )
    means = np.sort(mechanism.release({"y": y}, rng=rng)["mean"], axis=1)
    assert (np.abs(np.median(means, axis=0) - [-2.0, 2.0]) < 0.3).all()


def test_arviz_has_names_and_coordinates():
    mechanism = ps.LangevinModel(mixture, **SETTINGS | {"relation": ps.AddRemove()}, draws=8)
    posterior = mechanism.release({"y": [0.5, 2.0]}).to_arviz().posterior
    assert posterior["mean"].dims == ("chain", "draw", "part")
    assert posterior["part"].values.tolist() == ["first", "second"]
    assert "privsample_statement" in posterior.attrs


# Data


def test_invalid_records_are_ignored(rng):
    mechanism = ps.LangevinModel(normal, **SETTINGS, start={"theta": 0.0}, draws=2)
    some = {"y": [1.0, None, "no number", np.inf]}
    first = mechanism.release(some, rng=np.random.default_rng(1))["theta"]
    other = replace(mechanism, relation=ps.AddRemove()).release({"y": [1.0]}, rng=np.random.default_rng(1))["theta"]
    assert (first == other).all()
    assert mechanism.validate(some).facts == {
        "y: missing or not a number": 2,
        "y: not finite": 1,
        "records ignored, because an entry is invalid": 3,
    }


def test_invalid_entries_are_counted_by_reason():
    names = ps.RecordColumn(names=("no", "yes"))
    column = ["yes", "perhaps", "", None, np.inf, 1, 7]
    assert names.count_invalid(column) == {"not among the names": 1, "missing or not a number": 2, "not finite": 1}
    assert np.isnan(names.read(column)).sum() + np.isinf(names.read(column)).sum() == 4
    rows = [[1.0, 2.0], [np.nan, np.inf], [np.inf, 0.0], [0.0, np.nan]]
    assert ps.RecordColumn(width=2).count_invalid(rows) == {"missing or not a number": 2, "not finite": 1}
    assert ps.RecordColumn().count_invalid([-1.0, 1e300]) == {}
    assert ps.RecordColumn().count_invalid(np.empty(0)) == names.count_invalid([]) == {}
    assert ps.RecordColumn(width=2).count_invalid(np.empty((0, 2))) == {}


def test_columns_of_names_and_bounds():
    column = ps.RecordColumn(names=("no", "yes"))
    assert column.read(["yes", "no", "perhaps", "", 1]).tolist()[:2] == [1.0, 0.0]
    assert np.isnan(column.read(["yes", "perhaps"])[1])
    assert ps.RecordColumn(bounds=(0, 2), integer=True).clean(np.array([-1.0, 1.4, 9.0])).tolist() == [0, 1, 2]
    assert ps.RecordColumn(bounds=(0, 2)).changed(np.array([-1.0, 1.4, np.nan])) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"y": [1.0, 2.0]}, "n = 4 records were declared, the data hold 2"),
        ({"z": [1.0] * 4}, "y not found"),
        ([1.0] * 4, "mapping or table with the columns y"),
        ({"y": np.ones((4, 2))}, "column y"),
        ({"y": np.array(["a", "b", "c", "d"])}, "column y"),
    ],
)
def test_wrong_data(data, words):
    mechanism = ps.LangevinModel(ps.NormalMeanModel(), **SETTINGS)
    for method in (mechanism.release, mechanism.validate):
        with pytest.raises(ps.errors.SchemaError, match=words):
            method(data)


def test_columns_of_different_lengths():
    mechanism = ps.LangevinModel(
        ps.NormalMeanModel(), **SETTINGS | {"columns": NUMBERS | {"x": ps.RecordColumn(width=2)}}
    )
    with pytest.raises(ps.errors.SchemaError, match="one entry for each record"):
        mechanism.release({"y": [1.0] * 4, "x": np.ones((3, 2))})


def test_tables_are_read():
    pandas = pytest.importorskip("pandas")
    mechanism = ps.LangevinModel(ps.NormalMeanModel(), **SETTINGS)
    assert mechanism.release(pandas.DataFrame(FAR))["theta"].shape == (1,)


# Fields


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        ({"columns": {}}, ValueError, "at least one column"),
        ({"columns": {"y": 3}}, TypeError, "RecordColumn"),
        ({"relation": ps.ReplaceOne(n=3, members=2)}, ValueError, "about one record"),
        ({"clip": 0.0}, ValueError, "clip must be finite and > 0"),
        ({"clip": 1e-200}, ValueError, "clip must lie in"),
        ({"step_size": np.nan}, ValueError, "step_size must be finite and > 0"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"data_weight": 1.5}, ValueError, "data_weight must lie in"),
        ({"batch_probability": 0.1}, ValueError, "AddRemove"),
        ({"batch_probability": 1.5, "relation": ps.AddRemove()}, ValueError, "batch_probability"),
        ({"batch_probability": 0, "relation": ps.AddRemove()}, ValueError, "batch_probability must lie in"),
        ({"start": 3}, TypeError, "start must be 'prior', 'initial point' or a mapping"),
        ({"start": {"theta": [np.nan]}}, ValueError, "NaN"),
        ({"start": {"nobody": 1.0}}, ValueError, "start must name"),
        ({"backend": "fortran"}, ValueError, "backend must be"),
        ({"build": 3}, TypeError, "build must be a function"),
    ],
)
def test_wrong_fields(wrong, kind, words):
    given = {"build": normal} | SETTINGS | wrong
    with pytest.raises(kind, match=words):
        ps.LangevinModel(**given)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"integer": True}, "bounds must be given"),
        ({"integer": True, "bounds": (0, 1.5)}, "whole numbers"),
        ({"integer": True, "bounds": (0, 1e300)}, "within"),
        ({"names": ("one",)}, "at least two"),
        ({"names": ("a", "b"), "width": 2}, "without width"),
        ({"width": 0}, "at least 1"),
        ({"bounds": (2, 1)}, "low < high"),
    ],
)
def test_wrong_columns(wrong, words):
    with pytest.raises(ValueError, match=words):
        ps.RecordColumn(**wrong)


def test_a_flat_prior_needs_a_start():
    def flat(data):
        with pm.Model() as model:
            pm.Normal("y", pm.Flat("theta"), 1.0, observed=data["y"])
        return model

    with pytest.raises(ValueError, match="the prior cannot be drawn from"):
        ps.LangevinModel(flat, **SETTINGS).release(FAR)
    assert ps.LangevinModel(flat, **SETTINGS, start={}).release(FAR)["theta"].shape == (1,)


@ps.register(package="langevin-model-test")
@dataclass(frozen=True)
class NoModel(ps.RecordModel):
    """A value that builds no model."""

    columns = NUMBERS

    def __call__(self, data):
        return None


def test_a_refused_model_costs_nothing(tmp_path):
    """The ledger validates first: no budget is spent on a model that is refused."""
    budget = ps.DP(epsilon=50, delta=1e-3)
    ledger = ps.Ledger(tmp_path / "a.ledger", budget=budget, relation=ps.ReplaceOne(n=4), dataset="d")
    with pytest.raises(TypeError, match="must return a PyMC model"):
        ledger.release(ps.LangevinModel(NoModel(), **SETTINGS), FAR)
    assert not ledger.history()


# Files


@pytest.mark.parametrize("ending", ["json", "nc"])
def test_a_model_that_is_a_value_is_saved(tmp_path, ending):
    mechanism = ps.LangevinModel(ps.NormalMeanModel(prior_std=3.0), **SETTINGS, start={"theta": 1.0}, draws=3)
    release = mechanism.release(FAR)
    release.save(tmp_path / f"release.{ending}")
    assert ps.Release.load(tmp_path / f"release.{ending}") == release


@pytest.mark.parametrize("ending", ["json", "nc"])
def test_a_function_is_not_saved(tmp_path, ending):
    release = ps.LangevinModel(normal, **SETTINGS).release(FAR)
    with pytest.raises(TypeError, match="registered subclass of RecordModel"):
        release.save(tmp_path / f"release.{ending}")
    assert not list(tmp_path.iterdir())
