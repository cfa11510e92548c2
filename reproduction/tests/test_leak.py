"""The leak by tuning without privacy."""

import numpy as np

from reproduction.leak import ALPHAS, accuracies, records, right_guesses, tuned, with_outliers


def test_outliers_move_the_tuned_weight():
    plain = records(np.random.default_rng(1))
    mixed = with_outliers(*plain)
    assert len(mixed[0]) == len(mixed[1]) == 48
    assert tuned(accuracies(*plain)) @ np.log(ALPHAS) < tuned(accuracies(*mixed)) @ np.log(ALPHAS)


def test_right_guesses_by_border():
    one, other = np.eye(len(ALPHAS))[[2]], np.eye(len(ALPHAS))[[9]]
    assert right_guesses(one, other)[0].tolist() == [0.5] * 2 + [1.0] * 7 + [0.5] * (len(ALPHAS) - 9)


def test_draws_its_picture_and_says_what_it_shows(tmp_path, small_once):
    """At the small size: four data sets."""
    picture, numbers, sentence = small_once("papernot-1").made.write(tmp_path)
    assert sentence.startswith("An attacker who sees only the tuned α")
    assert picture.stat().st_size > 1_000
    assert len(numbers.read_text(encoding="utf-8").splitlines()) == 1 + 2 * 4 * len(ALPHAS)
