"""The answer that most records give, chosen by permute-and-flip: an extension of privsample."""

from dataclasses import dataclass, replace

import numpy as np

import privsample as ps

ANSWER = ps.Domain(low=0, high=1, missing=0, whole=True)


@ps.register(package="private-majority")
@dataclass(frozen=True, kw_only=True)
class MajorityAccountant(ps.SizeFreeAccountant):
    """The cost of one choice between two answers by permute-and-flip. Kind: exact.

    One more record changes the lead of an answer from k to k + 1 or back. The answer that is behind is chosen with
    probability e^(-rate k) / 2, so all such pairs come from the one with k = 0 by a random map of the outputs.
    """

    rate: float
    relation: ps.Relation = ps.AddRemove()
    assumptions: frozenset[ps.Assumption] = frozenset({ps.Assumption.IDEAL_REALS})

    def __post_init__(self):
        if not 0 < self.rate <= 30:
            raise ValueError(f"rate must lie in (0, 30], got {self.rate!r}")

    @property
    def source(self):
        """The mechanism; its dominating pair follows from two answers' probabilities."""
        return "McKenna and Sheldon 2020, Algorithm 1, for two answers"

    def _bounds(self):
        log_behind = -self.rate - np.log(2)
        tie = ps.DiscretePair(log_p=np.log([0.5, 0.5]), log_q=[np.log1p(-np.exp(log_behind)), log_behind])
        return ps.PrivacyBounds.from_pairs([tie, tie.reverse()])


@ps.register(package="private-majority")
@dataclass(frozen=True, kw_only=True)
class PrivateMajority(ps.Mechanism):
    """The answer, 0 or 1, that most records give; one more record changes the probability of an answer by e^rate.

    `release` takes one column of answers; missing answers count as 0. It draws "majority", shape (draws,).
    """

    rate: float
    draws: int = 1
    free_parameters = (ps.FreeParameter(name="rate", upper=30.0, advice="every rate has a privacy loss"),)
    command = ps.CommandLine(data=("column",))

    @property
    def accountant(self):
        """The exact account of all draws."""
        return self.draws * MajorityAccountant(rate=self.rate)

    def _statistic(self, data):
        answers = ANSWER.clean(ps.read_column(data))
        return 2 * answers.sum() - len(answers)

    def _draw(self, lead, rng):
        behind = rng.random(self.draws) < np.exp(-self.rate * abs(lead)) / 2
        return {"majority": np.where(behind, lead <= 0, lead > 0).astype(np.int64)}

    def for_size(self, size):
        """The mechanism itself, which takes any number of records."""
        return self

    def worst_neighbours(self, group=1):
        """No records, which is a tie, and `group` records of answer 1."""
        log_behind = -self.rate * group - np.log(2)
        log_ratio = np.log(0.5) - np.array([log_behind, np.log1p(-np.exp(log_behind))])
        pair = ps.Neighbours(
            account=MajorityAccountant(rate=self.rate),
            descriptions=("no records", f"{group} of answer 1"),
            datasets=(lambda: np.empty(0), lambda: np.ones(group)),
            draw=lambda data, count, rng: replace(self, draws=count).release(data, rng=rng)["majority"],
            loss=lambda outputs: log_ratio[outputs[:, 0].astype(int)],
        )
        return (pair,)

    @classmethod
    def examples(cls):
        """An example whose mutant gives every record one and a half times its weight."""
        mechanism, bug = cls(rate=1.0), "every record has one and a half times its weight"
        return (ps.Example.with_wrong_fields("private-majority", mechanism, bug=bug, samples=20_000, rate=1.5),)
