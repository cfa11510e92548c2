"""Base class of the accounts of keys that are not public."""

from privsample._checks import positive_integer
from privsample._value import set_fields
from privsample.accounting.base import Group, SizeFreeAccountant
from privsample.relations import AddRemove, Relation, check_single_record_relation


class KeysAccountant(SizeFreeAccountant):
    """Account of a release of keys, under the addition or removal of one unit with at most `keys_per_unit` keys.

    The directions of the relation have different pairs, so that another relation wraps the account.
    """

    __slots__ = ()
    keys_per_unit: int

    def _check_keys(self) -> None:
        """Check and store the relation and the number of keys of one unit. Raises TypeError or ValueError."""
        relation = check_single_record_relation(self.relation)
        if not isinstance(relation, AddRemove):
            raise ValueError(
                f"relation must be AddRemove(unit=...), got {relation}: convert the account by .to(ReplaceOne(n=...))"
            )
        set_fields(self, keys_per_unit=positive_integer(keys_per_unit=self.keys_per_unit))

    def with_relation(self, relation: Relation) -> Group:
        """The same curves, of both directions together, under another relation, which is not validated."""
        return Group(base=self, size=1, relation=relation)
