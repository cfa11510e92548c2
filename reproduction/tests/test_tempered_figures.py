"""Errors of tempered draws: their sentence on few and on ten records, and the stated error against draws."""

import numpy as np
import pytest
from scipy import stats

from privsample.distributions.parametric.truncated import temper, truncate
from reproduction import tempered


def test_the_tempered_draw_is_not_called_better_at_ten_records():
    """It was, on less than one standard error of 1,000 repeats; the error of the draw is computed, and larger."""
    columns = tempered.errors(sizes=(3, 10), repeats=20_000).columns
    few, ten = range(2)
    gap = [columns["tempered"][k] - columns["both"][k] for k in (few, ten)]
    assert gap[ten] > 10 * columns["both_standard_error"][ten]
    assert gap[few] < -3 * columns["both_standard_error"][few]
    sentence = tempered._describe_errors(columns).sentence
    assert "smaller with 3 records and larger with 10." in sentence


@pytest.mark.statistical
@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.1, False)])
def test_the_error_of_a_tempered_draw_against_draws(rng, alpha, factor, accepted):
    a, b, repeats = 1 + 20 / 7.0, 1 + 180 / 7.0, 40_000
    distribution = truncate(temper(tempered.MODEL.posterior(np.asarray(20.0), 200), 7.0), 0.05, 0.95)
    errors = np.abs(distribution.sample(repeats, rng) - tempered.SHARE)
    stated = factor * float(tempered.beta_error(np.array(a), np.array(b), 0.05))
    z = (errors.mean() - stated) / (errors.std() / repeats**0.5)
    assert (abs(z) < stats.norm.isf(alpha / 2)) == accepted
