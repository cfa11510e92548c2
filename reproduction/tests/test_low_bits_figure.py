"""The figure of low bits: which outputs reveal the dataset, against brute force, and that a broken grid is seen."""

import numpy as np
import pytest

from reproduction import low_bits


def test_revealing_outputs_against_all_uniform_numbers():
    """With uniform numbers of ten bits, all textbook outputs of both datasets can be listed."""
    bits, pitch = 10, 2.0**-9
    sizes = np.log(np.arange(1, 2**bits + 1) / 2.0**bits)
    points = {s: np.unique(np.rint(np.concatenate([s + sizes, s - sizes]) / pitch) * pitch) for s in (0.0, 1.0)}
    found = low_bits.reached_by_inverse(points[0.0], 1.0, 1.0, bits, pitch=pitch)
    assert np.array_equal(found, np.isin(points[0.0], points[1.0]))
    assert 0.0 < found.mean() < 1.0


def test_exact_noise_reaches_all_points_of_its_grid(rng):
    pitch = 2.0**-20
    assert low_bits.reached("exact", low_bits.exact(0.0, 1_000, rng, pitch), pitch).all()
    off = low_bits.exact(0.0, 1_000, rng, pitch) + pitch / 4  # a statistic that was not rounded to the grid
    assert not low_bits.reached("exact", off, pitch).any()


@pytest.mark.statistical
def test_what_the_sentence_says(monkeypatch):
    monkeypatch.setattr(low_bits, "DRAWS", 20_000)
    monkeypatch.setattr(low_bits, "SAMPLES", (1_000, 10_000))
    result = low_bits.run(seed=3)
    assert "textbook noise has at least" in result.sentence
    assert "exact noise is not refuted" in result.sentence
    monkeypatch.setitem(low_bits.SAMPLERS, "exact", low_bits.textbook)
    assert "exact noise is not refuted" not in low_bits.run(seed=3).sentence
