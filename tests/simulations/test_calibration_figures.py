"""The calibration experiment, its simulations replaced by ranks that are known: what it tests, tells and plots."""

import numpy as np

from privsample.simulations.experiments import calibration


def test_uniform_ranks_pass_and_narrow_posteriors_fail(rng):
    ranks = rng.integers(0, calibration.KEPT + 1, 2000)
    assert calibration.uniformity(ranks) > 1e-6
    assert calibration.uniformity(np.where(ranks % 4 == 0, 0, ranks)) < 1e-12


def test_table_words_and_picture(monkeypatch, tmp_path):
    """The first method is given even ranks, the second ranks at the ends."""
    even = np.linspace(0, calibration.KEPT, calibration.REPEATS).round()
    found = np.stack([even, np.where(even < 50, 0, calibration.KEPT)])[..., None].repeat(2, axis=-1)
    monkeypatch.setattr(calibration, "ranks", lambda n, epsilon, repeats, rng: found)
    picture, numbers, sentence = calibration.EXPERIMENT.write(tmp_path)
    assert "noise-aware, 0 of 8 (p-values from 1 to 1)" in sentence
    assert "plug-in, 8 of 8" in sentence
    assert "at the level 0.00125 each, 1% for the 8 tests of a method together" in sentence
    assert picture.stat().st_size > 10_000
    rows = 1 + calibration.REPEATS * len(calibration.SETTINGS) * 4
    assert len(numbers.read_text().splitlines()) == rows


def test_rejected_ranks_are_simulated_anew_and_both_are_told(monkeypatch):
    """Ranks at the ends at first, even ones anew: the first stage is counted, the second stated beside it."""
    even = np.linspace(0, calibration.KEPT, calibration.REPEATS).round()
    ends = np.where(even < 50, 0, calibration.KEPT)
    calls = []

    def ranks(n, epsilon, repeats, rng):
        calls.append((n, epsilon))
        first = len(calls) == 1
        return np.stack([ends if first else even, ends])[..., None].repeat(2, axis=-1)

    monkeypatch.setattr(calibration, "ranks", ranks)
    sentence = calibration.run().sentence
    assert calls == [calibration.SETTINGS[0], *calibration.SETTINGS]
    assert "noise-aware, 2 of 8" in sentence
    assert "Fresh simulations of the noise-aware mean at n = 20 and ε = 0.3 have the p-value 1." in sentence
    assert "Fresh simulations of the noise-aware variance at n = 20 and ε = 0.3 have the p-value 1." in sentence


def test_bands_of_calibration_hold_every_bar_at_their_rate():
    """Twice the false-alarm rate is a bound of what the union over the bars gives; 99 % a bar is far from it."""
    rng = np.random.default_rng(11)
    bars = calibration.BINS * len(calibration.SETTINGS) * len(calibration.PARAMETERS)
    low, high = calibration.band(200)
    heights = rng.multinomial(200, [1 / calibration.BINS] * calibration.BINS, size=(2000, bars // calibration.BINS))
    outside = ((heights < low) | (heights > high)).any(axis=(1, 2)).mean()
    assert outside <= 2 * calibration.FALSE_ALARM
    assert ((heights < 10) | (heights > 31)).any(axis=(1, 2)).mean() > 0.3
