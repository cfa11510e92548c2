"""The leak by tuning without privacy."""

from dataclasses import replace

import numpy as np

from reproduction.leak import ALPHAS, FIGURE_1, accuracies, leak, records, right_guesses, tuned, with_outliers


def test_outliers_move_the_tuned_weight():
    plain = records(np.random.default_rng(1))
    mixed = with_outliers(*plain)
    assert len(mixed[0]) == len(mixed[1]) == 48
    assert tuned(accuracies(*plain)) @ np.log(ALPHAS) < tuned(accuracies(*mixed)) @ np.log(ALPHAS)


def test_right_guesses_by_border():
    one, other = np.eye(len(ALPHAS))[[2]], np.eye(len(ALPHAS))[[9]]
    assert right_guesses(one, other)[0].tolist() == [0.5] * 2 + [1.0] * 7 + [0.5] * (len(ALPHAS) - 9)


def test_draws_its_picture_and_says_what_it_shows(tmp_path):
    picture, numbers, sentence = replace(FIGURE_1, run=lambda: leak(4)).write(tmp_path)
    assert sentence.startswith("An attacker who sees only the tuned α")
    assert picture.stat().st_size > 10_000
    assert len(numbers.read_text(encoding="utf-8").splitlines()) == 1 + 2 * 4 * len(ALPHAS)
