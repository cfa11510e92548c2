"""Compiled Metropolis moves on hidden counts of categories, given noisy counts (docs/notes/inference.md, section 6).

Every move exchanges whole records, and its cost depends on the number of categories, not on the number of records.
"""

import math

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray
from privsample._compiled import compiled

Counts = NDArray[np.int64]
BLOCK, PAIR, RESIZE, WALK = 0, 1, 2, 3
MOVES = 4
LAPLACE, GAUSSIAN = 0, 1
_FEW = 4  # so few records are chosen one by one


@compiled
def log_rising(x: float, m: int) -> float:
    """Return log Gamma(x + m) - log Gamma(x) for m >= 0; their difference would cancel at large x."""
    total, z, left = 0.0, x, m
    while left > 0 and (z < 16.0 or left <= 8):
        total += math.log(z)
        z += 1.0
        left -= 1
    if left == 0:
        return total
    end = z + left
    own, other = 1.0 / (z * z), 1.0 / (end * end)
    series = (1 - own * (1 / 30 - own * (1 / 105 - own / 140))) / (12 * z)
    series_end = (1 - other * (1 / 30 - other * (1 / 105 - other / 140))) / (12 * end)
    return total + (z - 0.5) * math.log1p(left / z) + left * math.log(end) - left + series_end - series


@compiled
def toss(rng: np.random.Generator, n: int, p: float) -> int:
    """Draw from Binomial(n, p), also for p = 1 or a p that rounding moved beyond 0 or 1."""
    if n == 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    return int(rng.binomial(n, p))


@compiled
def take(rng: np.random.Generator, m: int, pool: Counts, taken: Counts) -> None:
    """Move m records, a uniformly random subset, from `pool` to `taken`: a multivariate hypergeometric draw.

    Each round moves every record of one side with a probability that depends on the two sizes alone. Given the sizes,
    the subset stays uniform, so it is uniform when the size is m (inference.md, section 6, "Subsets"). The missing
    number of records falls to about its square root in a round.
    """
    taken[:] = 0
    outside, inside = pool.sum(), 0
    while inside != m:
        forward = inside < m
        gap = m - inside if forward else inside - m
        size = outside if forward else inside
        moved = 0
        if gap <= _FEW:
            for _ in range(gap):
                place, k = rng.integers(0, size - moved), 0
                while True:
                    here = pool[k] if forward else taken[k]
                    if place < here:
                        break
                    place -= here
                    k += 1
                step = 1 if forward else -1
                pool[k] -= step
                taken[k] += step
                moved += 1
        else:
            for k in range(len(pool)):
                here = pool[k] if forward else taken[k]
                each = toss(rng, here, gap / size)
                pool[k] -= each if forward else -each
                taken[k] += each if forward else -each
                moved += each
        outside -= moved if forward else -moved
        inside += moved if forward else -moved


@compiled
def add(
    rng: np.random.Generator, m: int, counts: Counts, share: FloatArray, suffix: FloatArray, collapsed: bool
) -> None:
    """Add m records: Multinomial(m, share), or the Pólya urn of `counts` and the pseudo-counts `share` if `collapsed`.

    `suffix[k]` is the sum of share[k:].
    """
    later, left = counts.sum(), m
    for k in range(len(counts)):
        if left == 0:
            return
        later -= counts[k]
        if k == len(counts) - 1:
            each = left
        elif collapsed:
            each = toss(rng, left, rng.beta(share[k] + counts[k], suffix[k + 1] + later))
        else:
            each = toss(rng, left, share[k] / suffix[k])
        counts[k] += each
        left -= each


@compiled
def propose(
    rng: np.random.Generator,
    move: int,
    first: int,
    second: int,
    size: float,
    new: Counts,
    taken: Counts,
    share: FloatArray,
    suffix: FloatArray,
    collapsed: bool,
    guess: FloatArray,
    log_size: FloatArray,
) -> float:
    """Change `new`, the current counts, into a proposal, and return the log of all but the noise in its acceptance.

    BLOCK redraws about `size` records out of many, and all if `size` is very large. PAIR redraws so many records of two
    categories that their counts change by about `size`. RESIZE adds or removes ceil(|size|) records by the sign of
    `size`, WALK does so in category `first`.
    """
    total = new.sum()
    if move == BLOCK:
        block = min(math.ceil(total / (1.0 + total / size)), total)
        take(rng, block, new, taken)
        add(rng, block, new, share, suffix, collapsed)
        return 0.0
    if move == PAIR:
        both = new[first] + new[second]
        if both == 0:
            return 0.0
        q = guess[first] / (guess[first] + guess[second])  # public, so the block's size does not depend on the state
        block = min(math.ceil(both / (1.0 + both * 2 * q * (1 - q) / (size * size))), both)
        own, out, part, tail = np.empty(2, np.int64), np.empty(2, np.int64), np.empty(2), np.empty(2)
        own[0], own[1] = new[first], new[second]
        part[0], part[1] = share[first], share[second]
        tail[0], tail[1] = share[first] + share[second], share[second]
        take(rng, block, own, out)
        add(rng, block, own, part, tail, collapsed)
        new[first], new[second] = own[0], own[1]
        return 0.0
    block = math.ceil(abs(size))
    after = total + block if size > 0 else total - block
    if after < 0 or after >= len(log_size) or log_size[after] == -np.inf:
        return -np.inf
    prior = float(log_size[after] - log_size[total])
    if move == RESIZE:
        if size > 0:
            add(rng, block, new, share, suffix, collapsed)
        else:
            take(rng, block, new, taken)
        return prior
    if size < 0 and new[first] < block:
        return -np.inf
    new[first] += block if size > 0 else -block
    least, fewest = (new[first] - block, total) if size > 0 else (new[first], after)
    ways = log_rising(fewest + 1.0, block) - log_rising(least + 1.0, block)
    if collapsed:
        weight = log_rising(share[first] + least, block) - log_rising(suffix[0] + fewest, block)
    elif share[first] > 0.0:
        weight = block * math.log(share[first] / suffix[0])
    else:
        return -np.inf
    return prior + ways + weight if size > 0 else prior - ways - weight


@compiled
def noise_change(observed: FloatArray, k: int, old: int, new: int, kind: int, scale: float) -> float:
    """Return the change of the log density of the noise of all copies if the count of category k changes."""
    total = 0.0
    for copy in range(len(observed)):
        y = observed[copy, k]
        if kind == LAPLACE:
            total += (abs(y - old) - abs(y - new)) / scale
        else:  # factored: the squares alone would lose the difference at large counts
            total += (new - old) * ((y - new) + (y - old)) / (2 * scale * scale)
    return total


@compiled
def run_moves(
    rng: np.random.Generator,
    moves: Counts,
    firsts: Counts,
    seconds: Counts,
    sizes: FloatArray,
    counts: Counts,
    share: FloatArray,
    suffix: FloatArray,
    collapsed: bool,
    guess: FloatArray,
    log_size: FloatArray,
    observed: FloatArray,
    seen: NDArray[np.bool_],
    kind: int,
    scale: float,
) -> FloatArray:
    """Run the moves in order on `counts`, and return the acceptance probability of each."""
    new, taken, chances = counts.copy(), np.empty_like(counts), np.empty(len(moves))
    every, two = np.arange(len(counts)), np.empty(2, np.int64)
    for i in range(len(moves)):
        two[0], two[1] = firsts[i], seconds[i]
        touched = two if moves[i] in (PAIR, WALK) else every
        log_ratio = propose(
            rng, moves[i], two[0], two[1], sizes[i], new, taken, share, suffix, collapsed, guess, log_size
        )
        for k in touched:
            if seen[k] and new[k] != counts[k]:
                log_ratio += noise_change(observed, k, counts[k], new[k], kind, scale)
        chances[i] = math.exp(min(log_ratio, 0.0))
        if rng.random() < chances[i]:
            counts[touched] = new[touched]
        else:
            new[touched] = counts[touched]
    return chances
