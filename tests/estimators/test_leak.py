"""The example of a leak by tuning without privacy."""

import numpy as np

from examples.leak_by_tuning import BORDER, accuracies, main, records, tuned, with_outliers


def test_outliers_move_the_tuned_weight():
    plain = records(np.random.default_rng(1))
    mixed = with_outliers(*plain)
    assert len(mixed[0]) == len(mixed[1]) == 48
    assert tuned(accuracies(*plain)) <= BORDER < tuned(accuracies(*mixed))


def test_draws_its_picture_and_says_what_it_shows(tmp_path):
    path = tmp_path / "leak.png"
    assert main(str(path), data_sets=2).startswith("From the tuned alpha alone, 4 of 4 guesses")
    assert path.stat().st_size > 10_000
