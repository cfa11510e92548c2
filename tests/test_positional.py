"""Fields whose order every reader knows are also taken by position; all others are keyword-only."""

import re
from importlib.metadata import version

import pytest

import privsample as ps

CALLS = [
    (ps.DP(1, 1e-6), ps.DP(epsilon=1, delta=1e-6)),
    (ps.DP(1), ps.DP(epsilon=1)),
    (ps.RDP(2, 0.5), ps.RDP(order=2, epsilon=0.5)),
    (ps.ZCDP(0.1), ps.ZCDP(rho=0.1)),
    (ps.Risk(0.01, 0.05), ps.Risk(baseline=0.01, success=0.05)),
    (ps.ReplaceOne(50), ps.ReplaceOne(n=50)),
    (ps.ReplaceOne(50, unit="patient"), ps.ReplaceOne(n=50, unit="patient")),
    (ps.BetaBernoulli(1, 2), ps.BetaBernoulli(alpha=1, beta=2)),
    (ps.BetaBernoulli(1, 2, fractional=True), ps.BetaBernoulli(alpha=1, beta=2, fractional=True)),
    (ps.DirichletCategorical((1, 2, 3)), ps.DirichletCategorical(alpha=(1, 2, 3))),
    (ps.GammaPoisson(2, 3, upper=9), ps.GammaPoisson(shape=2, rate=3, upper=9)),
    (ps.GammaExponential(2, 3, upper=9), ps.GammaExponential(shape=2, rate=3, upper=9)),
    (
        ps.NormalKnownVariance(0, 4, noise_variance=1, bounds=(-1, 1)),
        ps.NormalKnownVariance(mean=0, variance=4, noise_variance=1, bounds=(-1, 1)),
    ),
    (ps.Beta(2, 6), ps.Beta(a=2, b=6)),
    (ps.Dirichlet((2, 6)), ps.Dirichlet(alpha=(2, 6))),
    (ps.Gamma(2, 3), ps.Gamma(shape=2, rate=3)),
    (ps.Normal(0, 2), ps.Normal(location=0, scale=2)),
]


@pytest.mark.parametrize(("by_position", "by_name"), CALLS, ids=lambda value: type(value).__name__)
def test_position_and_name_give_equal_values(by_position, by_name):
    assert by_position == by_name
    assert eval(repr(by_position), vars(ps) | {type(by_name).__name__: type(by_name)}) == by_name


@pytest.mark.parametrize(
    "call",
    [
        lambda: ps.GammaPoisson(2, 3, 9),
        lambda: ps.BetaBernoulli(1, 2, True),
        lambda: ps.ReplaceOne(50, "patient"),
        lambda: ps.AddRemove("patient"),
        lambda: ps.GaussianMechanism(1, 5),
    ],
)
def test_other_fields_are_keyword_only(call):
    with pytest.raises(TypeError, match="positional"):
        call()


def test_version():
    assert ps.__version__ == version("privsample")
    assert "__version__" in dir(ps)
    assert re.match(r"\d+\.\d+", ps.__version__)
