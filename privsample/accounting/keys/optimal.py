"""Account of the optimal selection of keys: each key is kept at random, with a probability that its units determine."""

from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction

import numpy as np

from privsample._checks import open_unit_interval, positive
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.compose import compose
from privsample.accounting.keys.base import KeysAccountant
from privsample.accounting.loss.pair import DiscretePair
from privsample.accounting.stated.base import bounds_of_tables, stated_bounds
from privsample.accounting.stated.exact import Masses, exponential, normalize_masses
from privsample.distributions.keep_probabilities import LARGEST_EPSILON, keep_probabilities
from privsample.relations import AddRemove, Relation

_ULP = float(np.finfo(np.float64).eps)
_SEPARATE = 5  # largest number of keys of a unit for which all choices of corners are kept separate
_MOST_KEYS = 10_000
_UP = 1 + Fraction(1, 10**32)  # exceeds the relative error of `exponential`


@frozen_value
class OptimalKeysAccountant(KeysAccountant):
    """Keys kept independently, each with the largest probability that its privacy parameters allow for its units.

    A unit that is added or removed changes the number of units of at most `keys_per_unit` keys by one. The dominating
    pairs are those of the probabilities that are used, at the corners of the region that contains all pairs of
    consecutive ones.

    Parameters
    ----------
    key_epsilon : float
        Privacy loss of one key in nats, in (0, 600].
    key_delta : float
        Probability in (0, 1) with which a key of one unit is kept.
    keys_per_unit : int, default 1
        Largest number of keys of one unit, >= 1.
    relation : Relation, default AddRemove()
        Neighbouring relation of the guarantee: one unit is added or removed.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    Source: Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1; Zhu, Dong and Wang 2022, Theorem 10;
    docs/notes/keys.md, sections 1 and 2.

    Kind: exact for one key per unit at epsilon >= 0, an upper bound for several.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.OptimalKeysAccountant(key_epsilon=1, key_delta=1e-5)
    >>> f"{float(account.delta(1.0)):.2e}", f"{float(account.delta(0.5)):.3f}"
    ('1.00e-05', '0.256')
    """

    key_epsilon: float
    key_delta: float
    keys_per_unit: int = 1
    relation: Relation = AddRemove()
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        set_fields(
            self,
            key_epsilon=positive(key_epsilon=self.key_epsilon),
            key_delta=open_unit_interval(key_delta=self.key_delta),
        )
        if not self.key_epsilon <= LARGEST_EPSILON:
            raise ValueError(f"key_epsilon must be at most {LARGEST_EPSILON:g}, got {self.key_epsilon!r}")
        if not self.key_delta < 1.0:
            raise ValueError("key_delta must be below 1: at 1 every key is kept, and there is no guarantee")
        self._check_keys()
        if self.keys_per_unit > _MOST_KEYS:
            raise ValueError(
                f"keys_per_unit must be at most {_MOST_KEYS} for the optimal selection, got {self.keys_per_unit}: use "
                "ThresholdKeys, which needs far fewer units for so many keys"
            )

    @property
    def source(self) -> str:
        """The theorems on the probabilities and on dominating pairs."""
        return "Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1; docs/notes/keys.md"

    @cached
    def _tables(self) -> tuple[Masses, ...]:
        """The corners (a, b) of the region of pairs of consecutive probabilities (keys.md, section 2, step 3)."""
        delta, grown = Fraction(self.key_delta), exponential(self.key_epsilon) * _UP
        shrunk = exponential(-self.key_epsilon) / _UP

        def steep(a: Fraction) -> Fraction:
            return grown * a + delta

        def flat(a: Fraction) -> Fraction:
            return min(1 - shrunk * (1 - a - delta), Fraction(1))

        kept = keep_probabilities(self.key_epsilon, self.key_delta)
        # the first probability from which `flat` is smaller
        turn = bisect_left(kept, True, key=lambda a: steep(Fraction(a)) >= flat(Fraction(a)))
        before, after = Fraction(kept[max(turn - 1, 0)]), Fraction(kept[min(turn, len(kept) - 1)])
        corners = {
            (Fraction(0), delta),
            (before, min(steep(before), flat(before))),
            (after, min(steep(after), flat(after))),
        }
        if turn < len(kept):  # otherwise the table ends before the second line
            corners.add((1 - delta, Fraction(1)))
        return tuple(normalize_masses([(b, a), (1 - b, 1 - a)]) for a, b in sorted(corners) if b > a)

    def _bounds(self) -> PrivacyBounds:
        """One pair for each corner, in both directions; for several keys, compositions (keys.md, section 2, step 5)."""
        if self.keys_per_unit > _SEPARATE:
            pair = composed_responses(self.key_epsilon, self.key_delta, self.keys_per_unit)
            return replace(stated_bounds([pair], [], ordered=False), exact=frozenset())
        one = bounds_of_tables(self._tables, ordered=True, group_size=1)
        return compose([(one, self.keys_per_unit)])


def composed_responses(epsilon: float, delta: float, count: int) -> DiscretePair:
    """The composition of `count` pairs that dominate (epsilon, delta); it is its own reverse.

    With probability 1 - (1 - delta)^count the loss is infinite. Otherwise it is (count - 2 low) epsilon, where low is
    binomial with success probability 1/(1 + e^epsilon) (Kairouz, Oh and Viswanath 2015, Theorem 3.3).
    """
    from scipy.special import gammaln

    low = np.arange(count + 1.0)
    log_success, size = count * np.log1p(-delta), gammaln(count + 1.0)
    choices = size - gammaln(low + 1.0) - gammaln(count - low + 1.0)
    log_p = log_success + choices - low * epsilon - count * np.log1p(np.exp(-epsilon))
    log_p += 16 * _ULP * (2.0 + size + count * (1.0 + epsilon))  # more than the rounding errors
    failing = np.log(-np.expm1(log_success)) + 4 * _ULP * (1.0 - log_success)
    nothing = np.array([-np.inf])
    return DiscretePair(
        log_p=np.concatenate([[failing], log_p, nothing]),
        log_q=np.concatenate([nothing, log_p[::-1], [failing]]),
        loss=np.concatenate([[np.inf], (count - 2 * low) * epsilon, [-np.inf]]),
    )
