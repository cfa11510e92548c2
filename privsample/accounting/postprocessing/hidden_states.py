"""Account of noisy steps of which some read private records, and only the last state is released.

A state starts at a point that depends on no record. Step k = 1, ..., T applies a map with Lipschitz constant c_k, adds
noise N(0, sigma_k^2 I) and, optionally, projects onto a convex set. The maps of neighbours differ by at most s_k.
The release costs as much as one Gaussian mechanism, whose shift is read off the lower convex hull of T + 1 points
(docs/notes/hidden_states.md). For a single step with a move it is the account of `ContractionAccountant`.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from privsample._checks import FloatArray, count_noun, nonnegative_numbers, number, positive_integer
from privsample._logspace import LEAST_LOSS, half_square
from privsample._value import frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.gaussian import GaussianPair
from privsample.accounting.loss.pair import LossPair, binary_pair
from privsample.relations import AddRemove, Relation, related

_EPS = float(np.finfo(np.float64).eps)
_LEAST_WEIGHT = 1e-130  # weights below this one count as zero: their squares would lose digits
_ALL, _SOME = 64, 96  # restarts: the last 64 steps, and 96 of the earlier ones


@frozen_value
class HiddenStateAccountant(Accountant):
    """Noisy Lipschitz steps on private records, of which only the last state is released.

    The state starts at a public point, or at a draw from a public distribution. Every step applies a map, adds Gaussian
    noise and may project onto a convex set. A record may be read by several steps, as in training over many epochs. The
    release is mu-GDP with mu = `shift` (Gaussian differential privacy; Dong, Roth and Su 2022).

    Parameters
    ----------
    moves : tuple of float, length steps
        Largest L2 distance between the maps of neighbouring datasets at one state, for each step, finite and >= 0; 0
        where the step reads no record in which they differ. In units of the state.
    noise_stds : tuple of float, length steps
        Standard deviation of the noise of each step, finite and >= 0, in units of the state.
    constants : tuple of float, length steps
        Lipschitz constant of the map of each step, for every dataset, finite and >= 0. A constant above 1 is allowed.
    diameter : float, default inf
        Diameter of a convex set onto which every step projects, > 0, in units of the state; +inf without projections.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee.
    assumptions : frozenset of Assumption, default {FLOAT_CHAIN, TRUSTED_SENSITIVITY}
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If a number is outside its range, the lengths differ, or a step with a move and all later steps have no noise.

    Notes
    -----
    Source: docs/notes/hidden_states.md, after Feldman, Mironov, Talwar and Thakurta 2018 (amplification by iteration)
    and Bok, Su and Altschuler 2024 (privacy curve of shifted interpolation).

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> moves = (0, 0, 1) * 2  # three batches, two epochs, the record is in the last batch
    >>> account = ps.HiddenStateAccountant(moves=moves, noise_stds=(1,) * 6, constants=(1,) * 6)
    >>> round(account.shift**2, 6), round(float(account.epsilon(1e-6)), 3)
    (1.333333, 5.76)
    """

    moves: tuple[float, ...]
    noise_stds: tuple[float, ...]
    constants: tuple[float, ...]
    diameter: float = np.inf
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset({Assumption.FLOAT_CHAIN, Assumption.TRUSTED_SENSITIVITY})

    def __post_init__(self) -> None:
        set_fields(self, relation=related(self.relation), diameter=number(diameter=self.diameter))
        if not self.diameter > 0.0:
            raise ValueError(f"diameter must be > 0, got {self.diameter}")
        lists = {"moves": self.moves, "noise_stds": self.noise_stds, "constants": self.constants}
        checked = {name: nonnegative_numbers(**{name: values}) for name, values in lists.items()}
        lengths = {name: len(values) for name, values in checked.items()}
        if len(set(lengths.values())) > 1 or not checked["moves"]:
            given = ", ".join(f"{length} {name}" for name, length in lengths.items())
            raise ValueError(f"moves, noise_stds and constants must have one number for each step, got {given}")
        set_fields(self, **checked)
        if not self.shift < np.inf:
            raise ValueError("noise_stds must be > 0 at the last step with a move or later: nothing hides that move")

    @property
    def source(self) -> str:
        """The theorem, and the works that it rests on."""
        return (
            "docs/notes/hidden_states.md; Feldman, Mironov, Talwar and Thakurta 2018; Bok, Su and Altschuler 2024 "
            "(privacy curve)"
        )

    @property
    def shift(self) -> float:
        """Mean shift mu of the dominating Gaussian mechanism, in standard deviations, rounded up; 0 without moves."""
        return least_shift(self.moves, self.noise_stds, self.constants, self.diameter)

    def _bounds(self) -> PrivacyBounds:
        """One Gaussian pair, which is its own reverse."""
        pair: LossPair = GaussianPair(mu=self.shift) if self.shift else binary_pair(0.0)
        name = f"convex hull over {count_noun(len(self.moves), 'step')}"
        return PrivacyBounds.from_pairs([pair], zcdp=half_square(self.shift), exact=frozenset(), curve_name=name)

    def group(self, size: int) -> "HiddenStateAccountant":
        """Groups have `size` times the moves."""
        size = positive_integer(size=size)
        moves = tuple(size * move for move in self.moves)
        return replace(self, moves=moves, relation=self.relation.group(size))


def least_shift(moves: ArrayLike, noise_stds: ArrayLike, constants: ArrayLike, diameter: float = np.inf) -> float:
    """Shift of the Gaussian pair that dominates the last states, rounded up; +inf if no noise hides a move.

    The three arrays have shape (steps,) and numbers >= 0. With a finite diameter it is the least over the start and
    restarts after the last 64 steps and after some of the earlier ones; each of them is a valid bound by itself
    (hidden_states.md, section 4), and so is the composition of all steps, as if every state were released.
    """
    moves, noises, factors = (np.asarray(x, dtype=np.float64) for x in (moves, noise_stds, constants))
    steps = len(moves)
    found = min(hull_shift(moves, noises, factors), _composed_shift(moves, noises))
    if not np.isfinite(diameter):
        return found
    for left in np.unique(np.append(np.arange(1, _ALL + 1), np.geomspace(_ALL, max(steps, _ALL), _SOME).astype(int))):
        if left < steps:
            found = min(found, hull_shift(moves[-left:], noises[-left:], factors[-left:], distance=diameter))
    return found


def hull_shift(moves: FloatArray, noises: FloatArray, factors: FloatArray, distance: float = 0.0) -> float:
    """`least_shift` from one start at which the states of neighbours are at most `distance` apart."""
    forgets = np.flatnonzero(factors == 0.0)
    first = int(forgets[-1]) if len(forgets) else 0  # what happened before a map with constant 0 is forgotten
    scale = noises.max()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moves, noises, factors = (moves[first:] / scale, noises[first:] / scale, factors[first:])
        weights = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)  # w_k, the product of the later factors
        start = distance / scale * factors[0]
        rises, runs = moves * weights, np.square(noises * weights)
        rises[0] += start * weights[0]
    moved = moves > 0.0
    moved[0] |= start > 0.0
    if not moved.any():
        return 0.0
    # Where weights underflow, the noise is left out and the distance reached so far is carried forward, with a
    # summand that exceeds what is lost below the smallest float (hidden_states.md, section 5).
    small = weights < _LEAST_WEIGHT
    runs[small] = 0.0
    rises[small & moved] += _LEAST_WEIGHT**2
    kept = np.flatnonzero(runs > 0.0)
    if not len(kept) or moved[kept[-1] + 1 :].any() or not (np.isfinite(rises) & np.isfinite(runs)).all():
        return np.inf
    # A step without noise cannot pay: its move is added to that of the next step with noise.
    rises = np.add.reduceat(rises[: kept[-1] + 1], np.append(0, kept[:-1] + 1))
    runs = runs[kept]
    # The slopes of a lower convex hull are the isotonic regression of the slopes of its path. It only adds positive
    # numbers, so no digits cancel.
    with np.errstate(over="ignore"):
        blocks = optimize.isotonic_regression(rises / runs, weights=runs).blocks[:-1]
        squared = float((np.square(np.add.reduceat(rises, blocks)) / np.add.reduceat(runs, blocks)).sum())
    return _rounded_up(squared, len(moves))


def _composed_shift(moves: FloatArray, noises: FloatArray) -> float:
    """The shift if every state were released; +inf if a move has no noise."""
    read = moves > 0.0
    with np.errstate(divide="ignore", over="ignore"):
        squared = float(np.square(moves[read] / noises[read]).sum())
    return _rounded_up(squared, len(moves)) if read.any() else 0.0


def _rounded_up(squared: float, steps: int) -> float:
    """The root of a sum over this many steps, raised by more than its rounding error: hidden_states.md, section 5."""
    return max(float(np.sqrt(squared)) * (1.0 + _EPS * (16 + 8 * steps)), LEAST_LOSS)
