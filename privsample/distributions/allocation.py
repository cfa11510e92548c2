"""Random allocation: each record takes part in a secret random choice of the steps of an epoch."""

import numpy as np

from privsample._checks import check_memory, nonnegative_integer, positive_integer
from privsample._value import frozen_value, set_fields
from privsample.distributions.schemes import Conversions, Indices, SamplingRule, unit_of
from privsample.relations import AddRemove, Relation


@frozen_value
class RandomAllocation(SamplingRule):
    """The samples of all steps of an epoch: each record takes part in exactly `times` of `steps` steps.

    Each record's steps are a uniformly random set, secret, independent of the other records, and drawn anew for each
    epoch. The number of records of a step is therefore random (balls in bins), and may be 0. Records of one step are in
    uniformly random order.

    Parameters
    ----------
    steps : int
        Number of steps of the epoch, t >= 1.
    times : int, default 1
        Number of steps in which a record takes part, 1 <= k <= t.

    Raises
    ------
    TypeError
        If a parameter is not a whole number.
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    docs/notes/allocation.md. The account covers records that are added or removed. It does not hold for batches of a
    fixed size, in which another record takes the place of a removed one.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> samples = ps.RandomAllocation(steps=3).draw_steps(6, np.random.default_rng(1))
    >>> len(samples), sorted(np.concatenate(samples).tolist())
    (3, [0, 1, 2, 3, 4, 5])
    """

    steps: int
    times: int = 1
    proved = True

    def __post_init__(self) -> None:
        set_fields(self, steps=positive_integer(steps=self.steps), times=positive_integer(times=self.times))
        if not self.times <= self.steps:
            raise ValueError(
                f"times must be at most steps = {self.steps}, got {self.times}: a step reads a record once"
            )

    def conversions(self, base: Relation) -> Conversions:
        """AddRemove to AddRemove."""
        return ((AddRemove(unit=unit_of(base)),) * 2,)

    def conversion_rule(self, base: Relation) -> str:
        """The pair of relations, and how to account for a replaced record."""
        del base
        return "AddRemove to AddRemove (for a replaced record, account.to(ReplaceOne(n=...)) is a group of two)"

    @property
    def source(self) -> str:
        """The theorem of the dominating pair."""
        several = ", with the bound by blocks" if self.times > 1 else ""
        return f"Feldman and Shenfeld 2025 (random allocation){several}; docs/notes/allocation.md"

    def draw_steps(self, size: int, rng: np.random.Generator) -> tuple[Indices, ...]:
        """Draw the records of each step of one epoch.

        Parameters
        ----------
        size : int
            Number of records in the dataset, >= 0.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        tuple of array of shape (k,)
            For each step the indices of its records, in uniformly random order.

        Raises
        ------
        ValueError
            If `size` is negative, or if the indices do not fit into memory.
        """
        size = nonnegative_integer(size=size)
        check_memory(size * self.times + self.steps, lower="steps or times")
        chosen = np.empty((size, self.times), dtype=np.int64)
        for at, last in enumerate(range(self.steps - self.times, self.steps)):  # Floyd 1987: a uniformly random set
            drawn = rng.integers(0, last, size, endpoint=True)
            repeated = (chosen[:, :at] == drawn[:, None]).any(axis=1)
            chosen[:, at] = np.where(repeated, last, drawn)
        order = rng.permutation(chosen.size)  # of all places at once, so that the orders of the steps are independent
        order = order[np.argsort(chosen.ravel()[order], kind="stable")]
        ends = np.cumsum(np.bincount(chosen.ravel(), minlength=self.steps))[:-1]
        return tuple(np.split(order // self.times, ends))
