"""Finite mechanisms on samples."""

import numpy as np

from privsample import (
    Accountant,
    AddRemove,
    Assumption,
    GaussianAccountant,
    ReplaceOne,
)
from privsample._value import frozen_value
from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.pair import DiscretePair, binary_pair

EPSILONS = np.array([-1.5, -0.3, -0.02, 0.0, 1e-9, 0.004, 0.05, 0.2, 0.5, 1.0, 1.7, 3.0])
ADD, ODDS = AddRemove(), 1.3
GAUSS = GaussianAccountant(sensitivity=1, noise_std=1)


@frozen_value
class Member(Accountant):
    """Randomized response to the question whether v is in the data: for a group it costs no more."""

    relation: AddRemove | ReplaceOne = ADD
    assumptions: frozenset[Assumption] = frozenset()

    @property
    def source(self):
        return "Balle, Barthe and Gaboardi 2018, section 5"

    def _bounds(self):
        return PrivacyBounds.from_pairs([binary_pair(ODDS)])

    def group(self, size):
        return self

    def for_sizes(self, low, high):
        return self


def member(sample):
    true = 1 / (1 + np.exp(-ODDS))
    return np.array([true, 1 - true] if "v" in sample else [1 - true, true])


@frozen_value
class Sizes(Accountant):
    """A mechanism on tuples of two values by its distributions for each size: exact curves by enumeration."""

    distributions: tuple[
        tuple[tuple[tuple[float, ...], ...], ...], ...
    ]  # distributions[k][ones] for k records of which `ones` are 1
    relation: AddRemove | ReplaceOne
    distance: int = 1
    sizes: tuple[int, int] = (0, 0)
    assumptions: frozenset[Assumption] = frozenset()

    @property
    def source(self):
        return "enumeration"

    def _bounds(self):
        found = []
        low, high = self.sizes
        for k in range(low, high + 1):
            rows = np.array(self.distributions[k])
            if isinstance(self.relation, ReplaceOne):
                near = [(i, j) for i in range(k + 1) for j in range(k + 1) if 0 < abs(i - j) <= self.distance]
                found += [(rows[i], rows[j]) for i, j in near]
            elif k > low:
                less = np.array(self.distributions[k - 1])
                near = [(i, j) for i in range(k + 1) for j in (i - 1, i) if 0 <= j < k]
                found += [pair for i, j in near for pair in ((rows[i], less[j]), (less[j], rows[i]))]
        return PrivacyBounds.from_pairs([DiscretePair(log_p=np.log(p), log_q=np.log(q)) for p, q in found])

    def group(self, size):
        return Sizes(distributions=self.distributions, relation=self.relation, distance=size, sizes=self.sizes)

    def for_sizes(self, low, high):
        return Sizes(distributions=self.distributions, relation=self.relation, sizes=(low, high))
