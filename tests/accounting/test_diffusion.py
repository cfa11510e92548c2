"""Intrinsic sensitivity of a user's own diffusion: an integral from above."""

import numpy as np
import pytest

from privsample import Assumption, ReplaceOne, diffusion_account, intrinsic_sensitivity
from privsample.accounting.postprocessing.diffusion import diffused
from privsample.distributions.steps.diffusions import BrownianDiffusion, OrnsteinUhlenbeckDiffusion
from privsample.errors import NumericalFailure

BROWNIAN = {"kappa": lambda s: 1 / (4 * s * s), "tail": lambda s: 1 / (4 * s)}


@pytest.mark.parametrize("time", [1e-3, 0.5, 30.0])
def test_the_integral_is_a_tight_upper_bound(time):
    got = intrinsic_sensitivity(**BROWNIAN, time=time)
    assert 1 / (4 * time) <= got <= 1 / (4 * time) * (1 + 2e-3)
    assert diffused(BrownianDiffusion(), time, 1.0).zcdp == pytest.approx(1 / (4 * time))
    theta, rho = 0.8, 1.3
    kappa = lambda s: (theta / rho * np.exp(theta * s) / np.expm1(2 * theta * s)) ** 2 * rho**2 / rho**2  # noqa: E731
    truth = diffused(OrnsteinUhlenbeckDiffusion(theta=theta, rho=rho), time, 1.0).zcdp
    scale = truth / (theta / (2 * rho**2 * np.expm1(2 * theta * time)))
    assert scale == pytest.approx(1.0)
    found = intrinsic_sensitivity(kappa, time, lambda s: theta / (2 * rho**2 * np.expm1(min(2 * theta * s, 700))))
    assert truth <= found <= truth * (1 + 2e-3)


def test_hardly_any_reversion_is_brownian_motion():
    for theta in (5e-324, 1.5e-323, 1e-300, 1e-17):
        distribution = OrnsteinUhlenbeckDiffusion(theta=theta, rho=1.0)
        assert distribution.variance(0.3) == pytest.approx(0.6, rel=1e-15)
        assert distribution.noise_at_start(0.3) == pytest.approx(BrownianDiffusion().noise_at_start(0.3), rel=1e-14)


def test_the_account():
    account = diffusion_account(0.3, ReplaceOne(n=4))
    assert account.rdp(2.0) == pytest.approx(0.6)
    assert account.relation == ReplaceOne(n=4)
    assert Assumption.STATED in account.assumptions
    assert diffusion_account(0.0).epsilon(1e-9) == 0.0


def test_nothing_at_all():
    assert intrinsic_sensitivity(lambda s: 0.0, 1.0, lambda s: 0.0) == 0.0


def test_refused():
    with pytest.raises(ValueError, match="must be nonincreasing"):
        intrinsic_sensitivity(lambda s: s / (1 + s), 1.0, lambda s: 1e-9)
    with pytest.raises(NumericalFailure, match="tail"):
        intrinsic_sensitivity(lambda s: np.exp(-s), 1.0, lambda s: 1.0)
    with pytest.raises(NumericalFailure, match="not computed"):
        intrinsic_sensitivity(**BROWNIAN, time=1.0, accuracy=1e-9)
    for bad in (np.nan, -1.0, np.inf):
        with pytest.raises(ValueError, match="must be finite and >= 0"):
            intrinsic_sensitivity(lambda s, bad=bad: bad, 1.0, lambda s: 0.0)
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="time"):
            intrinsic_sensitivity(**BROWNIAN, time=bad)
        with pytest.raises(ValueError, match="accuracy"):
            intrinsic_sensitivity(**BROWNIAN, time=1.0, accuracy=bad)
