"""Messages about fields that are missing or unknown, and about functions of the user."""

import numpy as np
import pytest

import privsample as ps
from privsample.errors import SchemaError
from tests.mechanisms.examples import MECHANISMS

GAUSSIAN = ps.GaussianMechanism(sensitivity=1, noise_std=1)
SAMPLED = ps.Subsampled(base=ps.ClippedSum(norm=1, noise_std=1, width=1), scheme=ps.PoissonSampling(rate=0.5))
SELECTION = ps.ExponentialMechanism(candidates=(1, 2), rate=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ps.ExponentialMechanism(candidates=(1, 2), epsilon=1),
         "rate must be given; epsilon is not among the fields: ExponentialMechanism has candidates, rate, utility"),
        (lambda: ps.ExponentialMechanism(candidates=(1, 2), epsilon=1),
         "call ExponentialMechanism.calibrate(..., target=DP(epsilon=..., delta=...))"),
        (lambda: ps.GaussianMechanism(1, 2), "GaussianMechanism takes keyword arguments only, got 2 positional ones"),
        (lambda: ps.DP(1, 2, 3), "DP takes at most 2 positional arguments, got 3 positional ones: DP has"),
        (lambda: ps.BetaBernoulli(1, alpha=3), "alpha must be given once; beta must be given: BetaBernoulli has alpha"),
        (lambda: ps.GaussianAccountant(sensitivity=1), "noise_std must be given: GaussianAccountant has sensitivity"),
        (lambda: ps.GaussianMechanism(sensitivity=1, noise_std=1, nose=2, noise=3),
         "nose and noise are not among the fields: GaussianMechanism has"),
        (lambda: ps.GaussianMechanism(sensitivity="a", noise_std=1), "sensitivity must be a number, got 'a'"),
    ],
)  # fmt: skip
def test_wrong_fields_are_named(call, message):
    with pytest.raises(TypeError) as caught:
        call()
    assert message in str(caught.value)
    assert caught.value.__cause__ is None


def test_every_mechanism_names_its_fields():
    for mechanism in MECHANISMS.values():
        with pytest.raises(TypeError, match=f"wrong is not among the fields: {type(mechanism).__name__} has"):
            type(mechanism)(wrong=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ps.StatedKernel(function=lambda x: x),
         r"function must be a function of 2 arguments \(released array, generator\), got one with the signature \(x\)"),
        (lambda: ps.StatedDiffusion(transition=lambda x: x, sensitivity_bound=lambda t, d: 1.0),
         r"transition must be a function of 3 arguments \(states, time, generator\)"),
        (lambda: ps.StatedDiffusion(transition=lambda x, t, r: x, sensitivity_bound=lambda t: 1.0),
         r"sensitivity_bound must be a function of 2 arguments \(time, distance\)"),
        (lambda: ps.StatedUtility(sensitivity=1, function=lambda: 1), "function must be a function of 1 argument"),
        (lambda: ps.MarkovKernel(base=SELECTION, matrix=np.eye(2)), r"is AppliedKernel\(base=..., kernel=StatedKernel"),
        (lambda: ps.MarkovKernel(base=SAMPLED, matrix=[[1]]),
         r"Subsampled\(base=MarkovKernel"),
    ],
)  # fmt: skip
def test_functions_of_the_user_are_checked_when_they_are_given(call, message):
    with pytest.raises(TypeError, match=message):
        call()


class Unread:
    """Data that must not be touched."""

    def __array__(self, *_, **__):
        raise AssertionError("the data were read")


KERNELS = {
    "one number": (lambda x, rng: 1.0, r"first axis, of the draws, has length 1.*got shape \(\)"),
    "two draws": (lambda x, rng: np.zeros((2, 3)), r"got shape \(2, 3\)"),
    "ragged": (lambda x, rng: [[1], [1, 2]], "function must return an array of real numbers, got list"),
    "text": (lambda x, rng: "secret", "function must return an array of real numbers, got str"),
}


@pytest.mark.parametrize("case", KERNELS)
def test_a_kernel_of_a_wrong_shape_is_refused_before_data_are_read(case):
    function, message = KERNELS[case]
    mechanism = ps.AppliedKernel(base=GAUSSIAN, kernel=ps.StatedKernel(function=function, dobrushin=0.5))
    with pytest.raises(TypeError, match=message):
        mechanism.release(Unread())
    around = ps.AppliedKernel(base=SELECTION, kernel=ps.StatedKernel(function=function, dobrushin=0.5))
    with pytest.raises(TypeError, match=message):  # the shape of this base's release is known after the draw only
        around.release([])


def test_a_transition_of_a_wrong_shape_is_refused_before_data_are_read():
    def made(transition):
        motion = ps.StatedDiffusion(transition=transition, sensitivity_bound=lambda time, distance: 1.0)
        return ps.DiffusedStatistic(diffusion=motion, sensitivity=1, time=1)

    with pytest.raises(TypeError, match=r"preserve the shape of the states, \(1,\), got \(7,\)"):
        made(lambda x, time, rng: np.zeros(7)).release(Unread())
    with pytest.raises(TypeError, match="transition must return an array of real numbers, got object"):
        made(lambda x, time, rng: object()).release(Unread())
    assert made(lambda x, time, rng: x + rng.normal(size=x.shape)).release(1.0)["statistic"].shape == (1,)


def test_a_utility_that_fails_counts_as_zero_and_the_curator_is_told():
    """An error could depend on a record; a broken copy that raises would show which data make the function fail."""
    utility = ps.StatedUtility(sensitivity=1, function=lambda data: [1 / data[0], 0])
    mechanism = ps.ExponentialMechanism(candidates=(1, 2), rate=1, utility=utility)
    assert mechanism.release([0])["selected"].shape == (1,)
    assert mechanism.validate([0]).facts == {"function failed, so that utilities count as 0": 2}
    assert mechanism.validate([1]).facts == {}
    assert (utility.totals([0], (1, 2), ps.AddRemove()) == 0).all()


@pytest.mark.parametrize("empty", [[], (), np.empty((0, 2))])
def test_no_records_are_data_under_add_remove(empty):
    assert SELECTION.release(empty)["selected"].shape == (1,)
    assert ps.ClippedSum(norm=1, noise_std=1, width=2).release(empty)["sum"].shape == (1, 2)
    with pytest.raises(SchemaError, match="n = 3 records were declared, the data hold 0"):
        ps.ExponentialMechanism(candidates=(1, 2), rate=1, relation=ps.ReplaceOne(n=3)).release(empty)


def test_statements_of_pure_guarantees():
    pure = ps.LaplaceMechanism.calibrate(sensitivity=1, target=ps.DP(1, 0)).accountant
    assert "at most 2.72 (epsilon = 1). Neighbouring" in ps.privacy_statement(pure)
    both = ps.privacy_statement(ps.LaplaceAccountant(sensitivity=1, scale=0.1), 0.01)
    assert "plus at most 0.01 (delta). Without delta, the factor is at most 22100 (epsilon = 10)." in both
    assert "Without delta" not in ps.privacy_statement(GAUSSIAN.accountant)
    assert "Without delta" not in ps.privacy_statement(ps.LaplaceAccountant(sensitivity=1, scale=0.1), 0)


@pytest.mark.parametrize(
    ("unit", "several"),
    [("record", "records"), ("entry", "entries"), ("day", "days"), ("person", "people"),
     ("hospital visit", "hospital visits"),
     ("box", "boxes"), ("Child", "Children"), ("class", "classes")],
)  # fmt: skip
def test_units_have_their_plural(unit, several):
    assert f"at most 3 {several}" in ps.AddRemove(unit=unit).group(3).change
    assert f"datasets of 7 {several}" in ps.ReplaceOne(n=7, unit=unit).description
