"""Keys with extreme fields: refused at construction, or released; a ledger is never charged for nothing."""

import pytest

import privsample as ps
from privsample.errors import BudgetExceeded

UNIT = ps.AddRemove(unit="patient")
ROWS = ([*range(30), 0], ["common"] * 30 + ["rare"])


@pytest.mark.parametrize(
    "fields",
    [
        {"scale": 1.0, "threshold": 1e300, "noise": "laplace"},
        {"scale": 1e-290, "threshold": 1e100},
        {"scale": 1.0, "threshold": 3.0, "grid": 5e-324},
    ],
)
def test_thresholds_of_any_size_can_be_released(fields):
    release = ps.ThresholdKeys(relation=UNIT, **fields).release(ROWS)
    assert set(release.coords["key"]) <= ({"common"} if fields["threshold"] > 3 else {"common", "rare"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"key_epsilon": 601.0, "key_delta": 1e-6}, "key_epsilon must be at most 600"),
        ({"key_epsilon": 601.0, "key_delta": 1e-6, "keys_per_unit": 6}, "key_epsilon must be at most 600"),
        ({"key_epsilon": 1e308, "key_delta": 0.1}, "key_epsilon must be at most 600"),
        ({"key_epsilon": 1.0, "key_delta": 1 - 2**-53}, "key_delta must be so small"),
        ({"key_epsilon": 1.0, "key_delta": 0.9999999, "keys_per_unit": 6}, "key_delta must be so small"),
    ],
)
def test_keys_without_a_guarantee_are_not_made(fields, message):
    with pytest.raises(ValueError, match=message):
        ps.OptimalKeys(relation=UNIT, **fields)


@pytest.mark.parametrize(
    ("target", "rule", "keys_per_unit"),
    [
        (ps.DP(20, 1e-5), "discrete gaussian", 1),
        (ps.DP(1, 0.5), "discrete gaussian", 1),
        (ps.DP(1, 0.999999), "gaussian", 1),
        (ps.DP(1, 0.999999), "laplace", 3),
        (ps.DP(700, 1e-6), "optimal", 1),
    ],
)
def test_lenient_targets_are_met(target, rule, keys_per_unit):
    mechanism = ps.private_keys(target, rule=rule, keys_per_unit=keys_per_unit)
    assert mechanism.accountant.delta(target.epsilon) <= target.delta


def test_the_refusal_of_a_ledger_says_how_delta_is_set_aside(tmp_path):
    mechanism = ps.private_keys(ps.DP(1, 1e-6), relation=UNIT)
    strict = ps.Ledger(tmp_path / "strict", dataset="x", budget=ps.DP(3, 1e-5), relation=UNIT)
    with pytest.raises(BudgetExceeded, match=r"larger approximate_share, such as 0\.5"):
        strict.release(mechanism, ROWS)
    assert strict.spent() == 0
    shared = ps.Ledger(tmp_path / "shared", dataset="x", budget=ps.DP(3, 1e-5), relation=UNIT, approximate_share=0.5)
    shared.release(mechanism, ROWS)
    assert shared.spent() > 0
