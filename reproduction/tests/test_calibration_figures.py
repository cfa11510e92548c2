"""The calibration experiment, its simulations replaced by ranks that are known: what it tests, tells and plots."""

import numpy as np
import pytest

from reproduction import calibration
from reproduction.calibration_models import MODELS
from reproduction.calibration_outcomes import AWARE, CONTROLS, INFER, LEVEL, PLUG_IN, PYMC, TESTED, UNBOUNDED, outcomes
from reproduction.calibration_uniformity import counts_below


@pytest.fixture
def known_ranks(monkeypatch):
    """Even ranks for methods of the library, and for controls those of a posterior that is much too narrow.

    `failing` is the method and model of a cell whose ranks are like those of controls.
    """
    failing = set()

    def run(cell, simulations, seed):
        even = (np.arange(simulations) + 0.5) / simulations
        narrow = cell.method in CONTROLS or (cell.method, cell.case.name, cell.n) in failing
        counts = counts_below(np.where(even < 0.5, even / 5, 1 - (1 - even) / 5) if narrow else even)
        place = {"method": cell.method, "model": cell.case.name, "records": cell.n}
        return {**place, "epsilon": cell.epsilon, "clipped": cell.clipped, "columns": 2, "place": 0, "count": counts}

    monkeypatch.setattr(calibration.Cell, "run", run)
    return failing


def test_table_words_and_picture(known_ranks, tmp_path):
    picture, numbers, sentence = calibration.EXPERIMENT.write(tmp_path)
    assert "1,000 simulations in each cell" in sentence
    assert "at the level 1e-06 for each cell rejects: PyMC, 0 of 54; noise_aware, 0 of 12; infer, 0 of 8; " in sentence
    assert "plug-in, 48 of 48; bounds ignored, 6 of 6; noise × 0.8, 18 of 18." in sentence
    assert "Rejected" not in sentence
    assert "The smallest p-value of the PyMC, noise_aware and infer cells that are not rejected is 1." in sentence
    assert picture.stat().st_size > 10_000
    assert len(numbers.read_text().splitlines()) == 1 + 65 * (54 + 12 + 8 + 48 + 6 + 18)


def test_rejected_cells_are_named(known_ranks):
    known_ranks.add((PYMC, "normal, unknown variance", 10))
    result = calibration.run()
    assert "PyMC, 2 of 54" in result.sentence
    assert "Rejected: PyMC, normal, unknown variance, n = 10, ε = 1, 5% clipped (p = " in result.sentence
    assert "ε = 5, 25% clipped (p = " in result.sentence
    found = {finding.name: finding for finding in result.describe(result.columns).findings}
    assert found["PyMC, rejected - 0.5"].compared
    assert not found["infer, rejected - 0.5"].compared
    assert sum(cell.rejected for cell in outcomes(result.columns) if cell.method in TESTED) == 2
    assert all(cell.p_value <= LEVEL for cell in outcomes(result.columns) if cell.method in CONTROLS)


def test_every_size_epsilon_and_share_occurs_for_every_model():
    for case in MODELS:
        own = [cell for cell in calibration.cells(PYMC) if cell.case is case]
        assert len({(cell.n, cell.epsilon) for cell in own}) == len(own) == 6
        assert {cell.clipped for cell in own} == set(case.shares())
        assert {cell.n for cell in own} == set(calibration.SIZES)
        assert {cell.epsilon for cell in own} == set(calibration.EPSILONS)
        whole = [cell for cell in calibration.cells(PYMC, whole=True) if cell.case is case]
        assert len(whole) == 9 * len(case.shares())
        assert set(own) <= set(whole)


def test_methods_are_run_where_they_are_defined():
    names = {method: {cell.case.name for cell in calibration.cells(method)} for method in (*TESTED, *CONTROLS)}
    every = {case.name for case in MODELS}
    assert names[PYMC] == every
    assert names[INFER] == names[PLUG_IN] == every - {"Poisson total"}
    assert names[AWARE] == {"binary", "two categories"}
    slow = {cell.case.name for cell in calibration.cells(AWARE, whole=True)} - names[AWARE]
    assert slow == names[UNBOUNDED]
    assert names[UNBOUNDED] == {"Poisson counts", "exponential times", "normal, known variance"}


def test_methods_see_the_same_simulations_and_a_cell_can_be_run_alone():
    chosen = [cell for cell in calibration.cells(PLUG_IN) if cell.case.name == "binary"][:2]
    alone, again = chosen[0].run(50, 7), chosen[0].run(50, 7)
    assert np.array_equal(alone["count"], again["count"])
    assert not np.array_equal(alone["count"], chosen[0].run(50, 8)["count"])
    assert not np.array_equal(alone["count"], chosen[1].run(50, 7)["count"])
