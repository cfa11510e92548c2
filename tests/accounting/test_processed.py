"""What holds for every account, for those of what comes after a release."""

import json

import numpy as np
import pytest

from privsample import (
    Accountant,
    AddRemove,
    ApproximateAccountant,
    Assumption,
    ContractionAccountant,
    GaussianAccountant,
    KernelAccountant,
    LaplaceSumAccountant,
    RandomizedResponseAccountant,
    ReplaceOne,
    privacy_statement,
)

ORDERS = np.array([1.01, 2.0, 8.0, 300.0])
EPSILONS = np.array([-2.0, -0.1, 0.0, 0.1, 0.5, 2.0, 20.0])
ROWS = np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
ANSWERS = RandomizedResponseAccountant(log_odds=1.5, categories=3, relation=AddRemove())
ACCOUNTS = [
    KernelAccountant(base=ANSWERS, matrix=ROWS),
    KernelAccountant(base=GaussianAccountant(sensitivity=1, noise_std=1), matrix=ROWS),
    KernelAccountant(base=ApproximateAccountant(stated_epsilon=1, stated_delta=1e-3), matrix=np.eye(3)),
    ContractionAccountant(sensitivity=1, noise_stds=(1, 0.5), constants=(0.8,)),
    LaplaceSumAccountant(sensitivity=1, scale=1, further_scale=2),
    LaplaceSumAccountant(sensitivity=1, scale=1, further_scale=2, coordinates=3),
]
each = pytest.mark.parametrize(
    "account",
    [  # sums of several coordinates, whose grids take a second, in the long lane
        pytest.param(account, marks=pytest.mark.long if getattr(account, "coordinates", 1) > 1 else ())
        for account in ACCOUNTS
    ],
    ids=lambda account: type(account).__name__,
)


@each
def test_curves(account):
    renyi, delta = account.rdp(ORDERS), account.delta(EPSILONS)
    assert (np.isinf(renyi) == (account.order_limit <= ORDERS)).all()
    assert (renyi <= account.zcdp * ORDERS * (1 + 1e-9)).all()
    if account.infinity_mass == 0.0:
        assert (np.diff(renyi) >= 0).all()
        assert (renyi <= account.pure_epsilon * (1 + 1e-9)).all()
    assert (np.diff(delta) <= 1e-9).all()
    assert (delta >= -np.expm1(EPSILONS) * (1 - 1e-12)).all()
    assert (np.diff(delta) >= -np.diff(np.exp(EPSILONS)) * (1 + 1e-9) - 1e-12).all()
    epsilon = account.epsilon(1e-2)
    assert account.delta(epsilon) <= 1e-2 * (1 + 1e-8)
    assert account.explain(1e-2)[0].epsilon == pytest.approx(epsilon, abs=1e-12)


@each
def test_values(account):
    copied = Accountant.from_dict(json.loads(json.dumps(account.to_dict(), allow_nan=False)))
    assert copied == account
    assert hash(copied) == hash(account)
    assert copied.delta(0.3) == account.delta(0.3)
    assert account != account.assuming(Assumption.CONVERGED_CHAIN)
    assert account.source in privacy_statement(account, 0.1)
    for name in account.__dataclass_fields__:
        with pytest.raises(AttributeError):
            setattr(account, name, 1)


@each
def test_groups_and_relations(account):
    group = account.group(2)
    assert group.relation == AddRemove(members=2)
    assert group.epsilon(0.1) >= account.epsilon(0.1)
    moved = account.to(ReplaceOne(n=7))
    assert moved.relation == ReplaceOne(n=7)
    assert moved.delta(0.3) == pytest.approx(float(group.delta(0.3)))


@each
def test_compositions(account):
    both = account + GaussianAccountant(sensitivity=1, noise_std=3)
    epsilon = float(both.epsilon(0.1))
    assert float(account.epsilon(0.1)) * (1 - 1e-6) <= epsilon
    if account.infinity_mass == 0.0:
        assert (both.rdp(ORDERS) >= account.rdp(ORDERS)).all()
