"""Exact choices: an index with probability proportional to enclosed weights, of which each choice has its own."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from privsample.distributions.exact.balls import enclose
from privsample.distributions.exact.lazy import LazyUniform, refine
from privsample.distributions.exact.words import WordStream

Weight = Callable[[int], Any] | Fraction | int


def exact_choice(weights: Sequence[Weight], words: WordStream) -> int:
    """An index with probability exactly proportional to its weight.

    Parameters
    ----------
    weights : sequence of callable, Fraction or int
        Numbers >= 0, of which one is > 0, or functions from a precision in bits to enclosures of such numbers.
    words : WordStream
        The source of the random bits.

    Returns
    -------
    int
        The index.

    Raises
    ------
    ValueError
        If a rational weight is negative, or if all weights are the number 0.

    Notes
    -----
    Finds the place of a uniform number, times the sum of the weights, among the cumulated weights. The comparison is
    made in ball arithmetic until it is certain (exact_draws.md, step 3). Kind: exact.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from privsample.distributions.exact.choice import exact_choice
    >>> from privsample.distributions.exact.words import WordStream
    >>> words = WordStream(np.random.default_rng(0))
    >>> exact_choice([Fraction(0), Fraction(2, 7), Fraction(0)], words)
    1
    """
    numbers = [weight for weight in weights if isinstance(weight, (Fraction, int))]
    if any(weight < 0 for weight in numbers):
        raise ValueError(f"weights must be >= 0, got {min(numbers)}")
    if not weights or (len(numbers) == len(weights) and not any(numbers)):
        raise ValueError(f"weights must hold one number > 0, got {list(weights)}")
    uniform = LazyUniform(words)

    def place(bits: int) -> int | None:
        balls = [_ball(weight, bits) for weight in weights]
        total = sum(balls[1:], balls[0])
        level = uniform.ball(bits) * total
        cumulated = enclose(0)
        for index, ball in enumerate(balls):
            cumulated += ball
            if level < cumulated:
                return index  # every sum before is certainly below the level
            if not level > cumulated:
                # The last sum is the total, which a uniform number times the total never reaches.
                return None if index + 1 < len(balls) else index
        return None

    return refine(place)


def _ball(weight: Weight, bits: int) -> Any:
    """An enclosure of a weight at the working precision."""
    return enclose(weight) if isinstance(weight, (Fraction, int)) else weight(bits)
