"""Private draws of logistic regressions: the distribution, the cost, the choice of sampler, and any data whatever."""

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

from privsample import DP, RDP, ZCDP, Assumption, CuratorNotes, LogisticAccountant, LogisticPosterior, Release
from privsample.accounting.ledger import Ledger
from privsample.errors import BudgetExceeded, PrivateContent, SchemaError, UnreachableTarget
from privsample.mechanisms.posterior import glm

N = 20
PLAIN = LogisticPosterior(n=N, features=2, norm=1.5, prior_std=2.0, intercept_std=3.0, data_weight=0.5, draws=2)
SCALAR = LogisticPosterior(n=N, features=1, norm=1.5, prior_std=2.0, prior_weight=2.5, data_weight=0.9)
FIXED = {"n": 300, "features": 3, "norm": 1.0, "prior_std": 1.0}


def data(rng, features=2):
    rows = rng.standard_normal((N, features))
    return rows, (rng.random(N) < 0.7).astype(int)


def test_the_account_is_that_of_the_fields():
    account = LogisticAccountant(n=N, features=2, norm=1.5, prior_std=2.0, intercept_std=3.0, data_weight=0.5, draws=2)
    assert PLAIN.uses_rejection
    assert PLAIN.accountant == dataclasses.replace(account, failure_probability=1e-15)
    assert PLAIN.accountant.infinity_mass == 1e-15
    timed = dataclasses.replace(PLAIN, constant_time=False)
    assert timed.accountant == account.assuming(Assumption.TIMING)
    for constant_time in (True, False):
        chain = dataclasses.replace(PLAIN, sampler="nuts", constant_time=constant_time)
        assert not chain.uses_rejection
        assert chain.accountant == account.assuming(Assumption.CONVERGED_CHAIN).assuming(Assumption.TIMING)


def test_the_sampler_is_chosen_by_public_fields():
    large = dataclasses.replace(SCALAR, features=60, norm=30.0, data_weight=1.0)
    assert not large.uses_rejection
    assert Assumption.CONVERGED_CHAIN in large.accountant.assumptions
    with pytest.raises(ValueError, match="sampler must be 'nuts'"):
        dataclasses.replace(large, sampler="rejection")
    assert dataclasses.replace(PLAIN, sampler="rejection").uses_rejection
    assert not dataclasses.replace(SCALAR, norm=1e150).uses_rejection
    with pytest.raises(ValueError, match="sampler must be 'auto'"):
        dataclasses.replace(PLAIN, sampler="gibbs")


def test_constant_time_bounds_the_work_that_is_always_done():
    """Seven features need 8e8 visits in expectation, and 2.7e10 in constant time."""
    fields = {"n": 10**6, "features": 7, "norm": 1.0, "prior_std": 1.0}
    assert not LogisticPosterior(**fields).uses_rejection
    assert LogisticPosterior(**fields, constant_time=False).uses_rejection
    assert LogisticPosterior(**fields | {"features": 6}).uses_rejection
    with pytest.raises(ValueError, match=r"in constant time always takes 2.7e\+10 visits.*constant_time=False"):
        LogisticPosterior(**fields, sampler="rejection")


@pytest.mark.parametrize("wrong", [0.0, 1.0, -1e-9, np.nan, np.inf])
@pytest.mark.parametrize("constant_time", [True, False])
def test_a_failure_probability_lies_between_zero_and_one(wrong, constant_time):
    with pytest.raises(ValueError, match=r"failure_probability must lie in \(0, 1\), got"):
        dataclasses.replace(PLAIN, failure_probability=wrong, constant_time=constant_time)
    with pytest.raises(TypeError, match="failure_probability must be a number"):
        dataclasses.replace(PLAIN, failure_probability="1e-9")


@pytest.mark.parametrize("delta", [1e-15, 1e-16])
def test_a_target_below_the_failure_probability_says_what_to_do(delta):
    fields = {"n": 9, "features": 2, "norm": 1.0, "prior_std": 0.2}
    with pytest.raises(UnreachableTarget, match=r"delta above failure_probability.*constant_time=False"):
        LogisticPosterior.calibrate(**fields, target=DP(1, delta))
    made = LogisticPosterior.calibrate(**fields, target=DP(1, delta), failure_probability=1e-20)
    assert made.accountant.epsilon(delta) <= 1.0


def test_a_ledger_accepts_the_defaults(tmp_path, rng):
    """The failure probabilities of hundreds of releases fit into the default share of delta, and it is not free."""
    mechanism = dataclasses.replace(SCALAR, data_weight=1e-3)
    ledger = Ledger(tmp_path / "l", budget=DP(1, 1e-6), relation=mechanism.accountant.relation, dataset="d")
    ledger.release(mechanism, data(rng, 1))
    assert ledger.fits(mechanism.accountant, 999)
    assert not ledger.fits(mechanism.accountant, 1_000)
    with pytest.raises(BudgetExceeded, match=r"set aside.*constant_time=False"):
        ledger.release(dataclasses.replace(mechanism, failure_probability=1e-9), data(rng, 1))


def test_release(rng):
    records = data(rng)
    one, other = (PLAIN.release(records, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == other != PLAIN.release(records, rng=np.random.default_rng(6))
    assert one["coefficients"].shape == (2, 2)
    assert one["intercept"].shape == (2,)
    assert one.account == PLAIN.accountant.assuming(Assumption.RNG_FRESH)
    assert Release.from_json(one.to_json()) == one
    secret = SCALAR.release(data(rng, 1))
    assert secret.account == SCALAR.accountant
    assert set(secret.draws) == {"coefficients"}
    assert secret["coefficients"].shape == (1, 1)


def test_notes_stay_with_the_curator(rng):
    _, notes = PLAIN.release_with_notes(data(rng), rng=rng)
    assert isinstance(notes, CuratorNotes)
    assert notes.facts["proposals"] >= 2
    with pytest.raises(PrivateContent):
        Release(mechanism=PLAIN, draws={"notes": notes}, account=PLAIN.accountant)


def joint(rows, labels, mechanism):
    """Grids and distribution functions of slope and intercept, from the definition in the user's units."""
    slopes = np.linspace(-9, 9, 601) * mechanism.prior_std
    own = np.linspace(-9, 9, 601) * mechanism.intercept_std
    slope, intercept = np.meshgrid(slopes, own, indexing="ij")
    variance = 1 / mechanism.prior_weight
    log_density = -(slope**2 / mechanism.prior_std**2 + intercept**2 / mechanism.intercept_std**2) / (2 * variance)
    for x, label in zip(np.clip(rows[:, 0], -mechanism.norm, mechanism.norm), labels, strict=True):
        odds = slope * x + intercept
        log_density -= mechanism.data_weight * np.logaddexp(0.0, -odds if label else odds)
    mass = np.exp(log_density - logsumexp(log_density))
    functions = []
    for grid, part in ((slopes, mass.sum(axis=1)), (own, mass.sum(axis=0))):
        functions.append(lambda x, grid=grid, part=part: np.interp(x, grid, np.cumsum(part) - part / 2))
    return functions


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.1, False)])
def test_draws_follow_the_posterior_in_the_users_units(factor, accepted, rng, alpha):
    mechanism = LogisticPosterior(
        n=N, features=1, norm=1.0, prior_std=2.0, intercept_std=0.5, data_weight=0.5, prior_weight=1 / 0.6, draws=20_000
    )
    rows, labels = data(rng, 1)
    release = mechanism.release((rows, labels), rng=rng)
    drawn = (release["coefficients"][:, 0], release["intercept"])
    values = [stats.kstest(factor * x, f).pvalue for x, f in zip(drawn, joint(rows, labels, mechanism), strict=True)]
    assert all(p > alpha for p in values) == accepted


@pytest.mark.parametrize("target", [DP(epsilon=0.5, delta=1e-6), RDP(order=8, epsilon=0.3), ZCDP(rho=0.01)], ids=str)
@pytest.mark.parametrize("by", ["data_weight", "prior_weight"])
@pytest.mark.parametrize("extra", [{}, {"intercept_std": 2.0, "draws": 3}])
def test_calibrate(by, target, extra):
    made = LogisticPosterior.calibrate(
        **FIXED, **extra, target=target, by=by, sampler="rejection", constant_time=isinstance(target, DP)
    )
    assert made.sampler == "rejection"
    assert target.met_by(made.accountant)
    factor = 1 + 1e-6 if by == "data_weight" else 1 - 1e-6
    further = dataclasses.replace(made, **{by: getattr(made, by) * factor})
    assert not target.met_by(further.accountant)


def test_calibrate_refuses():
    with pytest.raises(ValueError, match="by must be"):
        LogisticPosterior.calibrate(**FIXED, target=DP(epsilon=1, delta=1e-6), by="norm")
    with pytest.raises(UnreachableTarget, match="delta > 0"):
        LogisticPosterior.calibrate(**FIXED, target=DP(epsilon=1))
    for target in (RDP(order=8, epsilon=0.3), ZCDP(rho=0.01)):
        with pytest.raises(UnreachableTarget, match=r"infinity mass of 1e-15.*constant_time=False"):
            LogisticPosterior.calibrate(**FIXED, target=target)
    with pytest.raises(UnreachableTarget, match="constant_time=False"):
        LogisticPosterior.calibrate(**FIXED, target=DP(epsilon=1, delta=1e-16))
    weak = LogisticPosterior.calibrate(**FIXED, target=DP(epsilon=500, delta=1e-6))
    assert weak.data_weight == 1.0


ROWS = np.ones((N, 2))
LABELS = np.ones(N)


@pytest.mark.parametrize(
    "odd",
    [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, None, "secret", 2**2000, object(), b"x", 1j, [1]],
    ids=lambda odd: type(odd).__name__,
)
def test_any_record_is_taken(odd, rng):
    rows, labels = ROWS.astype(object), LABELS.astype(object)
    rows[3, 1] = odd
    labels[4] = odd
    release = PLAIN.release((rows, labels), rng=rng)
    assert np.isfinite(release["coefficients"]).all()


def test_the_public_rule(rng):
    """What breaks the rule draws what its stand-in draws."""
    rows, labels = data(rng)
    odd_rows, odd_labels = rows.copy(), labels.astype(float)
    odd_rows[0] = np.nan
    rows[0] = 0.0
    odd_rows[1] = [30.0, 40.0]
    rows[1] = [0.9, 1.2]
    odd_labels[2] = -7.0
    labels[2] = 0
    one = PLAIN.release((odd_rows, odd_labels), rng=np.random.default_rng(1))
    other = PLAIN.release((pd.DataFrame(rows), pd.Series(labels)), rng=np.random.default_rng(1))
    assert np.allclose(one["coefficients"], other["coefficients"], rtol=1e-9)
    notes = PLAIN.validate((odd_rows, odd_labels)).facts
    assert notes["not finite"] == 1
    assert notes["labels that are neither 0 nor 1"] == 1
    assert notes["scaled down"] >= 1
    assert PLAIN.validate((0.1 * ROWS, LABELS)).facts == {}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (ROWS, "pair"),
        ((ROWS,), "pair"),
        ((ROWS[:, :1], LABELS), r"shape \(n, 2\)"),
        ((ROWS[0], LABELS), "shape"),
        ((ROWS[1:], LABELS[1:]), "n = 20"),
        ((ROWS, LABELS[1:]), "19 labels"),
        ((ROWS, ROWS), "one column"),
        ((ROWS.astype(str), LABELS), "real numbers"),
        ((ROWS + 1j, LABELS), "Complex"),
        ((ROWS, LABELS.astype(str)), "numbers"),
        (([[1, 2], [3]], LABELS), "real numbers"),
        (([["1", "2"]] * N, LABELS[1:]), "19 labels"),
    ],
)
def test_wrong_schema(wrong, words):
    class Untouched(np.random.Generator):
        def standard_normal(self, *_, **__):
            raise AssertionError("something was drawn")

    with pytest.raises(SchemaError, match=words):
        PLAIN.release(wrong, rng=Untouched(np.random.PCG64(0)))
    with pytest.raises(SchemaError, match=words):
        PLAIN.validate(wrong)


def test_a_seed_is_refused(rng):
    with pytest.raises(TypeError, match="seeded"):
        PLAIN.release(data(rng), rng=3)


def test_a_failure_of_the_systems_entropy_ends_the_search(monkeypatch, rng):
    monkeypatch.setitem(sys.modules, "randomgen", None)
    monkeypatch.setattr("privsample._entropy.os.urandom", lambda _: 1 / 0)
    with pytest.raises(OSError, match="nothing was released"):
        PLAIN.release(data(rng))


def test_chains_give_one_draw_each(monkeypatch, rng):
    asked = {}

    def chains(rows, weight, count, generator):
        asked.update(rows=rows, weight=weight, count=count)
        return np.arange(4 * 5 * 3.0).reshape(4, 5, 3), {"largest R-hat": 1.0}

    monkeypatch.setattr(glm.pymc, "logistic_chains", chains)
    mechanism = dataclasses.replace(PLAIN, sampler="nuts", prior_weight=4)
    release, notes = mechanism.release_with_notes(data(rng), rng=rng)
    assert np.allclose(release["coefficients"], [[12.0, 13.0], [27.0, 28.0]])  # last states times 2 / 2
    assert np.allclose(release["intercept"], [21.0, 43.5])
    assert notes.facts == {"largest R-hat": 1.0}
    assert asked["weight"] == 0.5
    assert np.linalg.norm(asked["rows"], axis=1).max() <= mechanism.accountant.scaled_row_norm * (1 + 1e-12)
    assert Assumption.CONVERGED_CHAIN in release.account.assumptions
