"""Selection of keys: each key is kept with the largest probability that its privacy parameters allow."""

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, nonnegative_integer, open_unit_interval, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.guarantees import ApproximateAccountant
from privsample.accounting.keys.optimal import OptimalKeysAccountant
from privsample.distributions.exact.categorical import bernoulli_draws
from privsample.distributions.keep_probabilities import keep_probabilities
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws
from privsample.mechanisms.calibration import Fields, FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.keys.base import PrivateKeys
from privsample.mechanisms.neighbours import Neighbours
from privsample.relations import AddRemove, Relation

_LARGEST_EPSILON = 50.0


def _account_of_lone_keys(fields: Fields) -> Accountant:
    """What every `key_epsilon` costs at least: a key of one unit is kept with probability `key_delta`."""
    delta = min(open_unit_interval(key_delta=fields["key_delta"]), float(np.nextafter(1.0, 0.0)))
    return ApproximateAccountant(stated_epsilon=0.0, stated_delta=delta, relation=fields["relation"])


@frozen_value
class OptimalKeys(PrivateKeys):
    """Keys kept at random, each with the largest probability for its number of units; no count is released.

    A key of n units is kept with probability min(e^key_epsilon pi_(n-1) + key_delta, 1 - e^-key_epsilon (1 - pi_(n-1) -
    key_delta), 1), where pi_0 = 0. `release` takes `(units, keys)`, two columns of equal length that hold text or whole
    numbers: the unit and the key of each row. A unit counts once for each of its keys, and for at most `keys_per_unit`
    keys: those of most of its rows. Rows in which one of the two is missing are left out. The release names the kept
    keys in `coords["key"]`, and holds "kept", ones of shape (1, kept keys).

    Parameters
    ----------
    key_epsilon : float
        Privacy loss of one key in nats, in (0, 600].
    key_delta : float
        Probability in (0, 1) with which a key of one unit is kept.
    keys_per_unit : int, default 1
        Largest number of keys for which a unit counts, >= 1.
    relation : Relation, default AddRemove()
        The neighbouring relation, `AddRemove(unit=...)`: one unit with all of its rows is added or removed.

    Raises
    ------
    ValueError
        If a field lies outside its range.

    Notes
    -----
    Desfontaines, Voss, Gipson and Mandayam 2022, Theorem 1; docs/notes/keys.md. Kind: exact for one key per unit at
    epsilon >= 0, an upper bound for several.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.OptimalKeys(key_epsilon=1, key_delta=1e-5)
    >>> units, keys = range(60), ["rare"] + ["common"] * 59
    >>> mechanism.release((list(units), keys)).coords["key"]
    ('common',)
    >>> round(mechanism.keep_probability(12), 6)
    0.760311
    """

    key_epsilon: float
    key_delta: float
    keys_per_unit: int = 1
    relation: Relation = AddRemove()
    free_parameters = (
        FreeParameter(
            name="key_epsilon",
            upper=_LARGEST_EPSILON,
            limit=_account_of_lone_keys,
            advice="lower key_delta, or ask for a larger epsilon or delta",
        ),
    )
    command = CommandLine(
        help={
            "key_epsilon": "the privacy loss of one key",
            "key_delta": "the probability with which a key of one unit is kept",
            "keys_per_unit": "the largest number of keys for which a unit counts (default: 1)",
        }
    )

    def __post_init__(self) -> None:
        account = self.accountant
        set_fields(
            self,
            key_epsilon=account.key_epsilon,
            key_delta=account.key_delta,
            keys_per_unit=account.keys_per_unit,
        )
        try:
            account.bounds  # noqa: B018 - computing them checks that there is a guarantee
        except ValueError:
            raise ValueError(
                "key_delta must be so small that the account can be computed: nearly every key would be released; "
                f"got {self.key_delta!r} with {self.keys_per_unit} keys per unit"
            ) from None

    @cached
    def accountant(self) -> OptimalKeysAccountant:
        """The account of one release."""
        return OptimalKeysAccountant(
            key_epsilon=self.key_epsilon,
            key_delta=self.key_delta,
            keys_per_unit=self.keys_per_unit,
            relation=self.relation,
        )

    @cached
    def _probabilities(self) -> NDArray[np.float64]:
        return keep_probabilities(self.key_epsilon, self.key_delta)

    def keep_probability(self, units: int) -> float:
        """The probability of keeping a key that so many units have.

        Parameters
        ----------
        units : int
            Number of units, >= 0.

        Returns
        -------
        float
            The probability in [0, 1]; 0 for no unit.
        """
        return float(self._probabilities[min(nonnegative_integer(units=units), len(self._probabilities) - 1)])

    def _kept(self, units: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray[np.bool_], Draws]:
        places = np.minimum(units, len(self._probabilities) - 1)
        kept = bernoulli_draws(self._probabilities[places], rng)
        return kept, {self.quantity: np.ones((1, int(kept.sum())), dtype=np.int64)}

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Keys whose numbers of units are where both bounds on the probability meet, and `group` more units."""
        group, table = positive_integer(group=group), self._probabilities
        turn = int(np.searchsorted(table, 1.0 / (1.0 + np.exp(self.key_epsilon))))

        def case(units: int) -> Neighbours:
            a, b = (table[min(size, len(table) - 1)] for size in (units, units + group))
            with np.errstate(divide="ignore", invalid="ignore"):
                left_out, kept = np.log1p(-a) - np.log1p(-b), np.log(a) - np.log(b)

            def loss(outputs: FloatArray) -> FloatArray:
                return np.where(outputs > 0, kept, left_out).sum(axis=1)

            return self._neighbours(units, group, loss)

        return tuple(case(units) for units in dict.fromkeys((max(turn - 1, 1), turn)))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example for one key per unit, and a mutant that keeps too many keys."""
        example = cls(key_epsilon=0.5, key_delta=1e-7)
        return (Example.with_wrong_fields("optimal-keys", example, key_epsilon=0.8, bug="keys are kept too often"),)

    @property
    def quantity(self) -> str:
        """The name "kept"."""
        return "kept"

    @property
    def title(self) -> str:
        """The fixed text "Keys kept at random"."""
        return "Keys kept at random"

    @property
    def description(self) -> str:
        """How many units a key needs, in one sentence."""
        half = int(np.searchsorted(self._probabilities, 0.5))
        return (
            f"A key of one unit is released with probability {self.key_delta:.3g}, and one of {half} "
            "or more with probability 1/2 or more; a key that nobody has is never released."
        )
