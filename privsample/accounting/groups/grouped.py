"""Account of one release for each of many public groups, and of units that contribute records to several of them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from privsample._checks import listed, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed, Group, all_assumptions, checked_account
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.engine.compose import compose, compose_parallel
from privsample.accounting.engine.group import group
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove, Relation, ReplaceOne

_MOST_CASES = 12  # ways in which units can share groups that are compared; beyond, the general bound for groups holds
_MOST_CHANGED = 100  # groups that one unit changes, for such a comparison


@frozen_value
class GroupedAccountant(Accountant):
    """One release for each of many public groups; a unit contributes records to at most `groups_per_unit` of them.

    The groups are disjoint parts of the records, and the noise of different groups is independent. Under AddRemove the
    group of a record may depend on its contents. Adding or removing a unit changes at most `groups_per_unit` groups, by
    at most `records_per_group` records each, so that the account is the composition of that many accounts of one group.
    With one record for each unit it is the account of one group. Under ReplaceOne the groups are fixed by public
    positions (assumption FIXED_PARTS), and the account is the maximum over them.

    Parameters
    ----------
    accounts : tuple of (Accountant, int)
        The account of one group for one record, and the number of groups that have it, >= 1. Under AddRemove there is
        one entry. Under ReplaceOne there is one for each distinct account: the numbers of records may differ.
    groups_per_unit : int, default 1
        Largest number of groups to which one unit contributes, >= 1. Values above the number of groups become it.
    records_per_group : int, default 1
        Largest number of records that a unit contributes to one group, >= 1.
    unit : str, optional
        What one unit is, for example "patient". None takes the unit of the accounts.
    members : int, default 1
        Number of units in which neighbours differ, >= 1.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the accounts are added.

    Raises
    ------
    TypeError
        If an entry is not a pair of an account and a number.
    ValueError
        If there is no entry, or a number is below 1.
    RelationMismatch
        If the accounts are neither under AddRemove, with one entry, nor all under ReplaceOne with one unit; if one is
        that of a group of records; or if units contribute several records under ReplaceOne.

    Notes
    -----
    Source: McSherry 2009, Theorem 4; docs/notes/groups.md.

    Kind: that of the accounts for one record; exact for Gaussian noise; otherwise that of the composition.

    Examples
    --------
    >>> import privsample as ps
    >>> one = ps.GaussianAccountant(sensitivity=1, noise_std=4)
    >>> account = ps.GroupedAccountant(accounts=((one, 1000),), groups_per_unit=4, unit="patient")
    >>> exact = ps.GaussianAccountant(sensitivity=2, noise_std=4)
    >>> round(float(account.epsilon(1e-6)), 9) == round(float(exact.epsilon(1e-6)), 9)
    True
    """

    accounts: tuple[tuple[Accountant, int], ...]
    groups_per_unit: int = 1
    records_per_group: int = 1
    unit: str | None = None
    members: int = 1
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        accounts = _checked_accounts(self.accounts)
        relations = [part.relation for part, _ in accounts]
        fixed = all(isinstance(relation, ReplaceOne) for relation in relations)
        units = {str(getattr(relation, "unit", "")) for relation in relations}
        if not (fixed or (isinstance(relations[0], AddRemove) and len(accounts) == 1)) or len(units) != 1:
            raise RelationMismatch(
                "accounts must be one account under AddRemove, or accounts under ReplaceOne about one unit, got "
                f"{', '.join(sorted(set(map(str, relations))))}"
            )
        if any(getattr(relation, "members", 1) > 1 for relation in relations):
            raise RelationMismatch("accounts must be accounts of one record: apply .group to the account of all groups")
        numbers = {
            name: positive_integer(**{name: getattr(self, name)})
            for name in ("groups_per_unit", "records_per_group", "members")
        }
        groups = sum(count for _, count in accounts)
        numbers["groups_per_unit"] = min(numbers["groups_per_unit"], groups)
        if fixed and numbers != dict.fromkeys(numbers, 1):
            raise RelationMismatch(
                "accounts must be under AddRemove for units that contribute several records, or for groups of units: "
                "under ReplaceOne the number of records of each group is public, which several records of a unit change"
            )
        unit = units.pop() if self.unit is None else AddRemove(unit=self.unit).unit
        more = frozenset({Assumption.FIXED_PARTS} if fixed else ())
        union = self.assumptions.union(all_assumptions(tuple(part for part, _ in accounts)), more)
        set_fields(self, accounts=accounts, unit=unit, assumptions=union, **numbers)
        if not fixed:
            self._cases  # noqa: B018 - the accounts of groups of records refuse what has no guarantee

    @property
    def groups(self) -> int:
        """The number of groups."""
        return sum(count for _, count in self.accounts)

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """AddRemove of a unit; or ReplaceOne with the number of records of all groups together."""
        assert self.unit is not None
        sizes = [part.relation.n * count for part, count in self.accounts if isinstance(part.relation, ReplaceOne)]
        return ReplaceOne(n=sum(sizes), unit=self.unit) if sizes else AddRemove(unit=self.unit, members=self.members)

    @property
    def source(self) -> str:
        """The theorem on parallel composition, the note with the proofs, and the sources of the accounts."""
        members = dict.fromkeys(part.source for part, _ in self.accounts)
        return "; ".join(["McSherry 2009, Theorem 4 (parallel composition); docs/notes/groups.md", *members])

    def _bounds(self) -> PrivacyBounds:
        """The largest bounds among all ways in which units can share groups; the general bound if there are many."""
        if isinstance(self.relation, ReplaceOne):
            return _largest([part.bounds for part, _ in self.accounts])
        if self._cases is None:
            return group(replace(self, members=1).bounds, self.members)
        return _largest([compose([(one.bounds, times) for one, times in case]) for case in self._cases])

    @cached
    def _cases(self) -> tuple[tuple[tuple[Accountant, int], ...], ...] | None:
        """For each way in which units can share groups, the accounts of the groups that change, with their numbers.

        None if there are too many ways (groups.md, steps 4 and 5).
        """
        (base, _), own = self.accounts[0], self.records_per_group
        found = self._shared_groups
        return (
            None
            if found is None
            else tuple(
                tuple((base.group(own * k) if own * k > 1 else base, case.count(k)) for k in dict.fromkeys(case))
                for case in found
            )
        )

    @property
    def _shared_groups(self) -> list[tuple[int, ...]] | None:
        """Numbers of units that contribute to each changed group, for all ways that matter; None if they are many."""
        units, changed = self.members, self.groups_per_unit
        if units == 1 or changed == self.groups or _is_cheaper_spread(self.accounts[0][0]):
            return [(units,) * changed]
        if changed > _MOST_CHANGED:
            return None
        found = list(islice(_partitions(units * changed, self.groups, units), _MOST_CASES + 1))
        return found if len(found) <= _MOST_CASES else None

    def group(self, size: int) -> Accountant:
        """The account for `size` units: the worst way in which they can share groups.

        Under ReplaceOne it is the general bound for groups.
        """
        size = positive_integer(size=size)
        if isinstance(self.relation, ReplaceOne):
            return Accountant.group(self, size)
        return replace(self, members=size * self.members)

    def with_relation(self, relation: Relation) -> Group:
        """The same curves under another relation, which is not validated."""
        return Group(base=self, size=1, relation=relation)


def _checked_accounts(given: object) -> tuple[tuple[Accountant, int], ...]:
    """The entries, with equal accounts counted together. Raises TypeError or ValueError."""
    counts: dict[Accountant, int] = {}
    for entry in listed(accounts=given):
        if not (isinstance(entry, tuple) and len(entry) == 2):
            raise TypeError(f"accounts must hold pairs (account, number of groups), got {type(entry).__name__}")
        account = checked_account(accounts=entry[0])
        counts[account] = counts.get(account, 0) + positive_integer(groups=entry[1])
    if not counts:
        raise ValueError("accounts must hold at least one account")
    return tuple(counts.items())


def _is_cheaper_spread(account: Accountant) -> bool:
    """True if two records that change different groups cost no more than two that change one (groups.md, step 5)."""
    members = account.entries if isinstance(account, Composed) else ((account, 1),)
    return all(isinstance(member, (GaussianAccountant, LaplaceAccountant)) for member, _ in members)


def _largest(found: list[PrivacyBounds]) -> PrivacyBounds:
    """The maximum of bounds in every view."""
    return found[0] if len(found) == 1 else compose_parallel(found)


def _partitions(total: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    """The partitions of `total` into at most `parts` parts of at most `largest`, each in falling order."""
    if total == 0:
        yield ()
        return
    for first in range(min(largest, total), -(-total // parts) - 1, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)
