"""The leak by tuning without privacy."""

from dataclasses import replace

import numpy as np

from privsample.simulations.experiments.leak import (
    ALPHAS,
    FIGURE_1,
    accuracies,
    border,
    leak,
    records,
    tuned,
    with_outliers,
)


def test_outliers_move_the_tuned_weight():
    plain = records(np.random.default_rng(1))
    mixed = with_outliers(*plain)
    assert len(mixed[0]) == len(mixed[1]) == 48
    assert tuned(accuracies(*plain)) < tuned(accuracies(*mixed))


def test_the_border_parts_the_tuned_weights_best():
    small, large = ALPHAS[[1, 2, 2]], ALPHAS[[2, 9, 11]]
    assert border(small, large) == ALPHAS[2]


def test_draws_its_picture_and_says_what_it_shows(tmp_path):
    picture, numbers, sentence = replace(FIGURE_1, run=lambda: leak(2)).write(tmp_path)
    assert sentence.startswith("From the tuned α alone, 2 of 2 guesses")
    assert picture.stat().st_size > 10_000
    assert len(numbers.read_text(encoding="utf-8").splitlines()) == 1 + 2 * 2 * len(ALPHAS)
