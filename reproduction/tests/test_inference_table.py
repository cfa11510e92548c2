"""Table 4.1 in numbers: sensitivities, variances of posteriors, costs of draws and of sweeps."""

import numpy as np
import pytest

import privsample as ps
from reproduction import inference_table as table_41
from reproduction.tables import Table


@pytest.mark.parametrize("truncation", [1e-9, 0.01, 0.2, 0.49])
def test_sensitivities_are_those_of_the_thesis(truncation):
    laplace, exponential = table_41.sensitivities(truncation)
    assert laplace == 2.0
    assert exponential == pytest.approx(np.log1p(-truncation) - np.log(truncation), rel=1e-12)
    inside = np.linspace(truncation, 0.5, 1001)  # the other half is its mirror image
    assert np.abs(np.log(inside) - np.log1p(-inside)).max() <= exponential * (1 + 1e-12)


def test_variances_are_those_of_the_library(monkeypatch, rng):
    monkeypatch.setattr(table_41, "REPEATS", 1)

    class Fixed:
        def binomial(self, n, share, repeats):
            return np.array([3])

        def __getattr__(self, name):
            return getattr(rng, name)

    ratio = table_41.variance_ratios(10, Fixed())[table_41.EXPONENTIAL]
    cool = 1 / table_41.TEMPERATURE
    expected = ps.Beta(1 + 3 * cool, 1 + 7 * cool).variance / ps.Beta(4, 8).variance
    assert ratio == pytest.approx([expected], rel=1e-12)


def test_variances_of_many_records(rng):
    found = {name: ratios.mean() for name, ratios in table_41.variance_ratios(1_000_000, rng).items()}
    assert found[table_41.LAPLACE] == pytest.approx(1.0, abs=1e-3)
    assert found[table_41.EXPONENTIAL] == pytest.approx(table_41.TEMPERATURE, rel=1e-3)


def test_statistics_are_paid_once_and_samples_each_time():
    once, five = table_41.draw_costs(1), table_41.draw_costs(5)
    assert once[table_41.LAPLACE] == five[table_41.LAPLACE] == pytest.approx(table_41.EPSILON, rel=1e-9)
    assert five[table_41.EXPONENTIAL] == pytest.approx(5 * once[table_41.EXPONENTIAL], rel=1e-9)
    # the exponential mechanism of (4.13), whose cost the account attains at the truncation
    assert once[table_41.EXPONENTIAL] <= table_41.EPSILON * (1 + 1e-9)
    scale, temperature = table_41.one_sweep()
    one, ten = (table_41.gibbs_costs(sweeps, scale, temperature) for sweeps in (1, 10))
    assert all(0.999 * table_41.EPSILON < cost <= table_41.EPSILON for cost in one.values())
    assert ten[table_41.LAPLACE] == one[table_41.LAPLACE]
    assert ten[table_41.EXPONENTIAL] == pytest.approx(10 * one[table_41.EXPONENTIAL], rel=1e-9)


def test_every_column_of_the_table_is_in_the_figure(monkeypatch):
    monkeypatch.setattr(table_41, "COUNTS", (1, 2))
    monkeypatch.setattr(table_41, "REPEATS", 500)
    result = table_41._run()
    table = Table(columns=result.columns)
    assert set(table["column"]) == {
        table_41.SENSITIVITY, table_41.SPREAD, table_41.DRAWS, table_41.ARE, table_41.GIBBS,
    }  # fmt: skip
    for column in (table_41.ARE, table_41.SPREAD):
        assert (table.select(column=column)["standard_error"] > 0).all()
