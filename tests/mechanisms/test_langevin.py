"""Regressions by Langevin chains: the account of the fields, the draws, calibration, the public rule, and bad input."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.errors import SchemaError, UnreachableTarget

N = 20
PLAIN = ps.LangevinPosterior(
    likelihood=ps.LogisticLikelihood(),
    features=2,
    norm=1.5,
    prior_std=2.0,
    intercept_std=3.0,
    data_weight=0.5,
    draws=2,
    relation=ps.ReplaceOne(N),
    steps=50,
)
FIXED = {
    "likelihood": ps.LogisticLikelihood(),
    "features": 3,
    "norm": 1.0,
    "relation": ps.ReplaceOne(300),
    "steps": 200,
}
TARGET = ps.DP(epsilon=1, delta=1e-6)


def data(rng, features=2, n=N):
    return rng.standard_normal((n, features)), (rng.random(n) < 0.7).astype(int)


def test_the_account_is_that_of_the_fields():
    account, norm = PLAIN.accountant, np.hypot(1.5 * 2.0, 3.0)
    assert account.gradient_sensitivity == pytest.approx(2 * 0.5 * norm, rel=1e-12)
    assert account.strong_convexity == 1.0
    assert account.smoothness == pytest.approx(1 + 0.5 * N * norm**2 / 4, rel=1e-12)
    assert (account.steps, account.draws, account.relation) == (50, 2, ps.ReplaceOne(N))
    assert account.assumptions == {ps.Assumption.IDEAL_REALS}
    hidden = dataclasses.replace(PLAIN, relation=ps.AddRemove(unit="patient"), max_records=N)
    assert hidden.accountant.gradient_sensitivity == pytest.approx(0.5 * norm, rel=1e-12)
    assert hidden.accountant.smoothness == account.smoothness
    strong = dataclasses.replace(PLAIN, prior_weight=4.0)
    assert strong.accountant.gradient_sensitivity == pytest.approx(0.5 * norm, rel=1e-12)
    scalar = dataclasses.replace(PLAIN, features=1, intercept_std=None)
    assert scalar.accountant.gradient_sensitivity == pytest.approx(1.0516339915 * 0.5 * 3.0, rel=1e-9)


def test_below_the_account_of_an_exact_draw():
    exact = ps.LogisticPosterior(n=N, features=2, norm=1.5, prior_std=2.0, intercept_std=3.0, data_weight=0.5, draws=2)
    for steps in (None, 1, 10, 10**9):
        own = dataclasses.replace(PLAIN, steps=steps).accountant
        assert own.shift < exact.accountant.shift


def test_release(rng):
    records = data(rng)
    one, other = (PLAIN.release(records, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == other != PLAIN.release(records, rng=np.random.default_rng(6))
    assert one["coefficients"].shape == (2, 2)
    assert one["intercept"].shape == (2,)
    assert ps.Release.from_json(one.to_json()) == one
    alone = dataclasses.replace(PLAIN, intercept_std=None, draws=1).release(records)
    assert set(alone.draws) == {"coefficients"}


def chain_by_definition(mechanism, rows, labels, noise):
    """One chain after another, one record after another, in the units of the prior."""
    account, root = mechanism.accountant, np.sqrt(mechanism.prior_weight)
    units = np.array([mechanism.prior_std] * mechanism.features + [mechanism.intercept_std]) / root
    found = []
    for own in np.moveaxis(noise, 1, 0):
        w = np.zeros(len(units))
        for z in own:
            slope = w.copy()
            for row, label in zip(rows, labels, strict=True):
                x = np.append(row * min(1.0, mechanism.norm / np.linalg.norm(row)), 1.0) * units
                slope += mechanism.data_weight * (1 / (1 + np.exp(-x @ w)) - label) * x
            w = w - account.step_size * slope + np.sqrt(2 * account.step_size) * z
        found.append(w * units)
    return np.array(found)


def test_the_chain_is_the_one_that_is_accounted():
    records = data(np.random.default_rng(3))
    mechanism = dataclasses.replace(PLAIN, prior_weight=1.7)
    release = mechanism.release(records, rng=np.random.default_rng(5))
    noise = np.random.default_rng(5).standard_normal((50, 2, 3))
    expected = chain_by_definition(mechanism, *records, noise)
    assert np.allclose(release["coefficients"], expected[:, :2], rtol=1e-10)
    assert np.allclose(release["intercept"], expected[:, 2], rtol=1e-10)


@pytest.mark.parametrize("target", [TARGET, ps.RDP(order=8, epsilon=0.3), ps.ZCDP(rho=0.01)], ids=str)
@pytest.mark.parametrize("by", ["data_weight", "prior_weight"])
@pytest.mark.parametrize("extra", [{}, {"intercept_std": 2.0, "draws": 3, "steps": None}])
def test_calibrate(by, target, extra):
    made = ps.LangevinPosterior.calibrate(**(FIXED | extra), target=target, by=by)
    assert target.met_by(made.accountant)
    factor = 1 + 1e-3 if by == "data_weight" else 1 - 1e-3
    assert not target.met_by(dataclasses.replace(made, **{by: getattr(made, by) * factor}).accountant)


def test_calibrate_refuses():
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        ps.LangevinPosterior.calibrate(**FIXED, target=ps.DP(epsilon=1))
    assert ps.LangevinPosterior.calibrate(**FIXED, target=ps.DP(epsilon=500, delta=1e-6)).data_weight == 1.0


@pytest.mark.parametrize(
    "odd",
    [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, None, "secret", 2**2000, object(), b"x", 1j, [1]],
    ids=lambda odd: type(odd).__name__,
)
def test_any_record_is_taken(odd, rng):
    rows, labels = np.ones((N, 2), dtype=object), np.ones(N, dtype=object)
    rows[3, 1] = odd
    labels[4] = odd
    assert np.isfinite(PLAIN.release((rows, labels), rng=rng)["coefficients"]).all()


def test_the_public_rule(rng):
    """What breaks the rule draws what its stand-in draws."""
    rows, labels = data(rng)
    odd_rows, odd_labels = rows.copy(), labels.astype(float)
    odd_rows[0], rows[0] = np.nan, 0.0
    odd_rows[1], rows[1] = [30.0, 40.0], [0.9, 1.2]
    odd_labels[2], labels[2] = -7.0, 0
    one = PLAIN.release((odd_rows, odd_labels), rng=np.random.default_rng(1))
    other = PLAIN.release((rows, labels), rng=np.random.default_rng(1))
    assert np.allclose(one["coefficients"], other["coefficients"], rtol=1e-9)
    facts = PLAIN.validate((odd_rows, odd_labels)).facts
    assert (facts["not finite"], facts["labels that are neither 0 nor 1"]) == (1, 1)
    odd_labels[5] = np.nan
    assert PLAIN.validate((odd_rows, odd_labels)).facts["labels that are no number"] == 1


def test_refusals(rng):
    rows, labels = data(rng)
    with pytest.raises(SchemaError, match="n = 20 records were declared, the data hold 19 rows"):
        PLAIN.validate((rows[1:], labels[1:]))
    with pytest.raises(SchemaError, match="text"):
        PLAIN.release((rows, np.array(["yes", "no"] * 10)))
    hidden = dataclasses.replace(PLAIN, relation=ps.AddRemove(), max_records=N)
    assert hidden.release((rows[:0], labels[:0]), rng=rng)["coefficients"].shape == (2, 2)
    assert hidden.release((rows, labels), rng=rng)["coefficients"].shape == (2, 2)
    with pytest.raises(SchemaError, match="max_records = 20 was declared, the data hold more records: declare"):
        hidden.release((np.zeros((N + 1, 2)), np.zeros(N + 1)))


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"likelihood": "logistic"}, TypeError, r"likelihood must be a RegressionLikelihood, such as Logi"),
        ({"relation": ps.AddRemove()}, ValueError, "max_records must be given under AddRemove"),
        ({"max_records": 20}, ValueError, "left out under ReplaceOne"),
        ({"relation": ps.ReplaceOne(9, members=2)}, ValueError, "must be about one record"),
        ({"prior_std": 0.0}, ValueError, "prior_std must be > 0, or inf for a flat prior, got 0.0"),
        ({"prior_std": np.nan}, ValueError, "prior_std must be > 0"),
        ({"norm": np.inf}, ValueError, "norm must be finite"),
        ({"norm": 1e200}, ValueError, "norm . prior_std must be finite"),
        ({"step_size": 1.0}, ValueError, "step_size must be at most 2/smoothness"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"prior_std": np.inf, "steps": None}, ValueError, "steps must be given with a flat prior: the posterior may"),
        ({"draws": 10**9}, ValueError, "lower draws or features"),
    ],
    ids=str,
)
def test_wrong_fields(wrong, error, words):
    with pytest.raises(error, match=words):
        dataclasses.replace(PLAIN, **wrong)


def test_a_flat_prior_has_an_account(rng):
    flat = dataclasses.replace(PLAIN, prior_std=np.inf, prior_weight=3.0)
    assert flat.accountant.strong_convexity == 0.0
    account = flat.accountant
    assert account.shift == pytest.approx(account.gradient_sensitivity * np.sqrt(account.step_size * 50), rel=1e-12)
    assert flat.bias.wasserstein == np.inf
    assert np.isfinite(flat.release(data(rng), rng=rng)["coefficients"]).all()


@pytest.mark.statistical
@pytest.mark.parametrize(("prior_std", "accepted"), [(2.0, True), (2.2, False)])
def test_many_small_steps_draw_the_posterior(prior_std, accepted, rng, alpha):
    """Against exact draws by rejection; a wider prior is told apart."""
    records = data(rng)
    fields = {"features": 2, "norm": 1.5, "intercept_std": 3.0, "data_weight": 0.5, "draws": 4_000}
    exact = ps.LogisticPosterior(n=N, prior_std=2.0, **fields).release(records, rng=rng)
    chains = ps.LangevinPosterior(
        likelihood=ps.LogisticLikelihood(),
        relation=ps.ReplaceOne(N),
        prior_std=prior_std,
        **fields,
        steps=1500,
        step_size=0.004,
    ).release(records, rng=rng)
    values = [
        stats.ks_2samp(x, y).pvalue
        for x, y in [
            (exact["coefficients"][:, 0], chains["coefficients"][:, 0]),
            (exact["coefficients"][:, 1], chains["coefficients"][:, 1]),
            (exact["intercept"], chains["intercept"]),
        ]
    ]
    if accepted:
        assert min(values) > alpha
    else:
        assert min(values) < 1e-2
