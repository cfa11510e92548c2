"""The more frequent of two answers, chosen by permute-and-flip: an extension of privsample."""

from dataclasses import dataclass, replace

import numpy as np

import privsample as ps

ANSWER = ps.Domain(low=0, high=1, missing=0, integer_valued=True)


@ps.register(package="private-majority")
@dataclass(frozen=True, kw_only=True)
class MajorityAccountant(ps.SizeFreeAccountant):
    """The cost of one choice between two answers by permute-and-flip. Kind: exact.

    One more record changes the lead of the more frequent answer from k to k + 1 or back. The less frequent answer is
    chosen with probability e^(-rate k) / 2. The pair with k = 0 dominates the others, which are post-processings of it.
    """

    rate: float
    relation: ps.Relation = ps.AddRemove()
    assumptions: frozenset[ps.Assumption] = frozenset({ps.Assumption.IDEAL_REALS})

    def __post_init__(self):
        if not 0 < self.rate <= 30:
            raise ValueError(f"rate must lie in (0, 30], got {self.rate!r}")

    @property
    def source(self):
        """Author, year and theorem of the mechanism."""
        return "McKenna and Sheldon 2020, Algorithm 1, for two answers"

    def _bounds(self):
        log_minority = -self.rate - np.log(2)
        tie = ps.DiscretePair(log_p=np.log([0.5, 0.5]), log_q=[np.log1p(-np.exp(log_minority)), log_minority])
        return ps.PrivacyBounds.from_pairs([tie, tie.reverse()])


@ps.register(package="private-majority")
@dataclass(frozen=True, kw_only=True)
class PrivateMajority(ps.Mechanism):
    """The more frequent answer, 0 or 1; a further record changes each probability by a factor of at most e^rate.

    `release` takes one column of answers; missing answers count as 0. It returns draws of
    "majority", shape (draws,).
    """

    rate: float
    draws: int = 1
    free_parameters = (ps.FreeParameter(name="rate", upper=30.0, advice="ask for epsilon > 0 or delta > 0"),)
    command = ps.CommandLine(data=("column",))

    @property
    def accountant(self):
        """The exact account of all draws."""
        return self.draws * MajorityAccountant(rate=self.rate)

    def _statistic(self, data):
        answers = ANSWER.clean(ps.read_column(data))
        return 2 * answers.sum() - len(answers)

    def _draw(self, lead, rng):
        minority = rng.random(self.draws) < np.exp(-self.rate * abs(lead)) / 2
        return {"majority": np.where(minority, lead <= 0, lead > 0).astype(np.int64)}

    def for_size(self, size):
        """The mechanism itself, which takes any number of records."""
        return self

    def worst_neighbours(self, group=1):
        """The empty dataset, which is a tie, and a dataset of `group` records with answer 1."""
        log_minority = -self.rate * group - np.log(2)
        log_ratio = np.log(0.5) - np.array([log_minority, np.log1p(-np.exp(log_minority))])
        pair = ps.Neighbours(
            account=MajorityAccountant(rate=self.rate),
            descriptions=("no records", f"{group} records with answer 1"),
            datasets=(lambda: np.empty(0), lambda: np.ones(group)),
            draw=lambda data, count, rng: replace(self, draws=count).release(data, rng=rng)["majority"],
            loss=lambda outputs: log_ratio[outputs[:, 0].astype(int)],
        )
        return (pair,)

    @classmethod
    def examples(cls):
        """An example, and a mutant whose rate is 1.5 times the stated one."""
        mechanism, bug = cls(rate=1.0), "the rate is 1.5 times the stated one"
        return (ps.Example.with_wrong_fields("private-majority", mechanism, bug=bug, samples=20_000, rate=1.5),)
