"""Regressions by Langevin chains: the account of the fields, the draws, calibration, the public rule, and bad input."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import privsample as ps
from privsample.errors import SchemaError, UnreachableTarget
from tests.mechanisms.langevin import LIKELIHOODS, PLAIN, N, data, each_likelihood

FIXED = {
    "likelihood": ps.LogisticLikelihood(),
    "features": 3,
    "norm": 1.0,
    "relation": ps.ReplaceOne(300),
    "steps": 200,
}
TARGET = ps.DP(epsilon=1, delta=1e-6)


def test_the_account_is_that_of_the_fields():
    account, norm = PLAIN.accountant, np.hypot(1.5 * 2.0, 3.0)
    assert account.gradient_sensitivity == pytest.approx(2 * 0.5 * norm, rel=1e-12)
    assert account.strong_convexity == 1.0
    assert account.smoothness == pytest.approx(1 + 0.5 * N * norm**2 / 4, rel=1e-12)
    assert (account.steps, account.draws, account.relation) == (50, 2, ps.ReplaceOne(N))
    assert account.assumptions == {ps.Assumption.FLOAT_CHAIN}
    hidden = dataclasses.replace(PLAIN, relation=ps.AddRemove(unit="patient"), max_records=N)
    assert hidden.accountant.gradient_sensitivity == pytest.approx(0.5 * norm, rel=1e-12)
    assert hidden.accountant.smoothness == account.smoothness
    assert hidden.accountant.assumptions == {ps.Assumption.FLOAT_CHAIN, ps.Assumption.BOUNDED_SIZE}
    with pytest.raises(TypeError, match="does not take records that could be sampled"):
        hidden.for_size(3)
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
    assert "the prior is flat, and the posterior may be improper" in flat.validate(data(rng)).text()
    assert "flat" not in PLAIN.validate(data(rng)).text()
    assert np.isfinite(flat.release(data(rng), rng=rng)["coefficients"]).all()


@pytest.mark.statistical
@pytest.mark.parametrize(("prior_std", "accepted"), [(2.0, True), (2.2, False)])
def test_many_small_steps_draw_the_posterior(prior_std, accepted, rng, alpha):
    """Against exact draws by rejection; a wider prior is refuted."""
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


@each_likelihood
@pytest.mark.parametrize("intercept_std", [None, 2.0])
def test_every_likelihood(name, intercept_std, rng):
    mechanism = dataclasses.replace(PLAIN, likelihood=LIKELIHOODS[name], intercept_std=intercept_std, step_size=None)
    release = mechanism.release(data(rng), rng=rng)
    several = (3,) if name == "softmax" else ()
    assert release["coefficients"].shape == (2, *several, 2)
    if intercept_std:
        assert release["intercept"].shape == (2, *several)
    made = ps.LangevinPosterior.calibrate(**(FIXED | {"likelihood": LIKELIHOODS[name]}), target=TARGET)
    assert TARGET.met_by(made.accountant)
    assert ps.Release.from_json(release.to_json()) == release


@each_likelihood
@pytest.mark.parametrize("relation", [ps.ReplaceOne(2), ps.AddRemove()], ids=str)
def test_worst_neighbours_are_records_of_the_relation(name, relation, rng):
    hidden = isinstance(relation, ps.AddRemove)
    mechanism = dataclasses.replace(
        PLAIN, likelihood=LIKELIHOODS[name], relation=relation, max_records=2 if hidden else None, draws=1, steps=4
    )
    for case in mechanism.worst_neighbours():
        for dataset in case.datasets:
            assert case.draw(dataset(), 3, rng).shape == (3, case.width)
            assert not any("clipped" in reason for reason in mechanism.validate(dataset()).facts)


@pytest.mark.parametrize("features", [20, 50])
def test_many_features_without_an_assumption_of_convergence(features):
    """Ten thousand records at epsilon = 1: NUTS needs CONVERGED_CHAIN here, and an exact draw costs more."""
    fields = {"features": features, "norm": 1.0, "prior_std": 1.0}
    target = ps.DP(epsilon=1, delta=1e-6)
    chain = ps.LangevinPosterior.calibrate(
        likelihood=ps.LogisticLikelihood(), relation=ps.ReplaceOne(10_000), **fields, target=target
    )
    exact = ps.LogisticPosterior(n=10_000, **fields, data_weight=chain.data_weight)
    assert ps.Assumption.CONVERGED_CHAIN in exact.accountant.assumptions
    assert chain.accountant.assumptions == {ps.Assumption.FLOAT_CHAIN}
    assert chain.accountant.epsilon(1e-6) <= 1.0 < exact.accountant.epsilon(1e-6)
    assert chain.bias.largest_start <= 0.0101


def test_samples_keep_the_step_size():
    sampled = PLAIN.for_size(7)
    assert sampled.relation == ps.ReplaceOne(7)
    assert sampled.accountant.step_size == PLAIN.accountant.step_size
    assert sampled.accountant.shift <= PLAIN.accountant.shift
    assert PLAIN.for_size(90).accountant.step_size < PLAIN.accountant.step_size
    with pytest.raises(ValueError, match="n must be at least 1"):
        PLAIN.for_size(0)
    account = ps.Subsampled(base=PLAIN, scheme=ps.PoissonSampling(rate=0.5), relation=ps.ReplaceOne(N)).accountant
    assert account.epsilon(1e-6) < PLAIN.accountant.epsilon(1e-6)


@given(
    st.sampled_from(sorted(LIKELIHOODS)),
    st.sampled_from([None, 1, 2, 1000, 10**9, 2**53]),
    st.floats(-8, 8),
    st.floats(-8, 8),
    st.floats(-12, 0),
    st.sampled_from([1, 10, 10**6, 10**12]),
)
def test_extreme_fields(name, steps, log_norm, log_prior, log_weight, n):
    """Default step sizes always have an account, which is not above that of an exact draw."""
    made = ps.LangevinPosterior(
        likelihood=LIKELIHOODS[name],
        features=3,
        norm=10.0**log_norm,
        prior_std=10.0**log_prior,
        data_weight=10.0**log_weight,
        relation=ps.ReplaceOne(n),
        steps=steps,
    )
    account, bias = made.accountant, made.bias
    assert 0.0 < account.shift <= account.gradient_sensitivity * (1 + 1e-12)
    assert 1 <= bias.steps <= (steps or 100_000)
    assert bias.largest_widening <= np.sqrt(2) * (1 + 1e-12)
    assert bias.wasserstein >= 0.0
    assert not np.isnan(float(account.epsilon(1e-6)))


@dataclasses.dataclass(frozen=True)
class Halved(ps.RegressionLikelihood):
    """Half the logistic loss, as a user may define it."""

    own = ps.LogisticLikelihood()

    def smoothness(self, norm):
        return self.own.smoothness(norm) / 2

    def gradient_norm(self, norm):
        return norm / 2

    def slopes(self, scores, targets, room):
        return self.own.slopes(scores, targets, room) / 2

    def clean_targets(self, targets):
        return self.own.clean_targets(targets)

    def count_problems(self, targets):
        return self.own.count_problems(targets)

    def mean(self, scores):
        return self.own.mean(scores)

    @property
    def extreme_targets(self):
        return self.own.extreme_targets


def test_a_likelihood_of_your_own_states_its_constants():
    mechanism = dataclasses.replace(PLAIN, likelihood=Halved(), data_weight=1.0, step_size=0.01)
    same = dataclasses.replace(PLAIN, step_size=0.01)
    assert mechanism.accountant.shift == pytest.approx(same.accountant.shift, rel=1e-9)
    assert mechanism.accountant.assumptions == {ps.Assumption.FLOAT_CHAIN, ps.Assumption.STATED}
    records = data(np.random.default_rng(1))
    one, other = (each.release(records, rng=np.random.default_rng(2))["coefficients"] for each in (mechanism, same))
    assert np.allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("by", ["data_weight", "prior_weight"])
def test_calibrate_takes_the_step_size_that_it_chose(by):
    fields = {"likelihood": ps.LogisticLikelihood(), "features": 2, "norm": 1.0, "relation": ps.ReplaceOne(400)}
    fields |= {"by": by, "target": ps.DP(1, 1e-6), "prior_std": 2.0}
    chosen = ps.LangevinPosterior.calibrate(**fields)
    with pytest.raises(ValueError, match="step_size must be at most 2/smoothness"):
        dataclasses.replace(
            chosen, step_size=chosen.bias.step_size, data_weight=1.0, prior_weight=1.0, steps=chosen.bias.steps
        )
    again = ps.LangevinPosterior.calibrate(**fields, step_size=chosen.bias.step_size, steps=chosen.bias.steps)
    assert getattr(again, by) == pytest.approx(getattr(chosen, by), rel=1e-6)
    assert again.accountant.epsilon(1e-6) <= 1.0


def test_calibrate_stops_at_the_weight_that_the_step_size_allows():
    fields = {"likelihood": ps.LogisticLikelihood(), "features": 2, "norm": 1.0, "relation": ps.ReplaceOne(400)}
    found = ps.LangevinPosterior.calibrate(**fields, steps=5, step_size=0.05, target=ps.DP(1000, 1e-6))
    assert found.bias.smoothness * 0.05 == pytest.approx(2.0, rel=1e-9)
    assert found.accountant.epsilon(1e-6) < 1000
    with pytest.raises(ValueError, match="step_size must be at most 2/smoothness"):
        ps.LangevinPosterior.calibrate(**fields, steps=5, step_size=3.0, target=ps.DP(1, 1e-6))
