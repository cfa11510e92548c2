"""A hidden Markov chain of categorical records, sampled in private: from noisy histograms, or by tempered updates."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from privsample._checks import (
    FloatArray,
    check_memory,
    count_noun,
    listed,
    number,
    positive,
    positive_integer,
    whole_number,
)
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.gibbs import histograms_account, sweeps_account
from privsample.distributions.domains import Domain
from privsample.distributions.models.hmm import CategoricalHMM, Chain, onto_counts
from privsample.distributions.noise import LARGEST_DISCRETE, Noise, noise_distribution
from privsample.distributions.rows import table
from privsample.errors import SchemaError
from privsample.mechanisms.arguments import CommandLine, noise_argument
from privsample.mechanisms.base import DrawsWithNotes, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.draws import one_by_one
from privsample.mechanisms.examples import QUIET, Example
from privsample.mechanisms.neighbours import Dataset, Neighbours, others_beside
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.release import Release

_ADVICE = "ask for fewer sweeps, a larger truncation, or delta > 0"


def _scale(ratio: float, _: Mapping[str, Any]) -> float:
    return min(ratio, LARGEST_DISCRETE)


def _temperature(share: float, _: Mapping[str, Any]) -> float:
    return 1.0 / share


@frozen_value
class PrivateGibbsHMM(Mechanism):
    """Hidden states of time steps that hold `entries` categorical records each, and what each state emits.

    Records are rows of one code for each feature, in {0, ..., K-1} with K from `categories`, in the order of their
    steps; how many each step holds, 0 for one left out, is public. Two ways to be private:

    - `scale`: noise of the distribution `noise` on every step's histograms, once; what comes out is projected to
      counts, and
      any number of sweeps is post-processing;
    - `temperature` T >= 1: each update of each of the `sweeps` is drawn at T, shares of K categories held at
      `truncation`/K or more. Every update is paid for, and no chain has to converge.

    With one state the model is naive Bayes; give it one step. `release` takes rows of shape (n, features) in the order
    of their steps, and draws "states" (kept, steps), "emissions" (kept, states, cells) and "transitions" (kept, states,
    states) of the last `kept` sweeps; by default the second half of them.
    Source: Foulds, Geumlek, Welling and Chaudhuri 2016; Geumlek 2020, section 4.4; docs/notes/gibbs.md.
    """

    states: int
    categories: tuple[int, ...]
    entries: tuple[int, ...]
    scale: float | None = None
    noise: str = "discrete laplace"
    temperature: float | None = None
    truncation: float = 0.1
    sweeps: int = 200
    kept: int | None = None
    emission_prior: float = 1.0
    transition_prior: float = 1.0
    unit: str = "record"
    free_parameters = (
        FreeParameter(name="scale", direction="smallest", value=_scale, advice=_ADVICE),
        FreeParameter(name="temperature", value=_temperature, advice=_ADVICE),
    )
    command = CommandLine(
        data=("rows",),
        help={
            "states": "how many hidden states there are",
            "categories": "how many categories each feature has, e.g. 2,3",
            "entries": "how many records each time step holds, e.g. 10,0,12",
            "scale": "the spread of the noise on the histograms; or give --temperature",
            "truncation": "K categories have shares of at least this over K (default: 0.1)",
            "sweeps": "how often all states are updated (default: 200)",
            "kept": "how many of the last sweeps are released (default: half of them)",
            "emission_prior": "the Dirichlet prior of what each state emits (default: 1)",
            "transition_prior": "the Dirichlet prior of the steps between states (default: 1)",
        },
        arguments={"noise": noise_argument("discrete-laplace")},
    )

    def __post_init__(self) -> None:
        model = self.model
        set_fields(self, states=model.states, categories=model.categories, emission_prior=model.emission_prior)
        set_fields(self, transition_prior=model.transition_prior, entries=_entries(self.entries))
        set_fields(self, sweeps=positive_integer(sweeps=self.sweeps))
        kept = (self.sweeps + 1) // 2 if self.kept is None else positive_integer(kept=self.kept)
        if not kept <= self.sweeps:
            raise ValueError(f"kept must be at most sweeps = {self.sweeps}, got {kept}")
        set_fields(self, kept=kept)
        check_memory(len(self.entries) * (model.cells + model.states), lower="categories, states or steps")
        each = len(self.entries) + model.states * (model.cells + model.states)
        check_memory(kept * each, lower="kept, states or categories")
        truncation = number(truncation=self.truncation)
        if not 0.0 < truncation < 0.5:
            raise ValueError(f"truncation must lie in (0, 1/2), got {self.truncation!r}")
        if (self.scale is None) == (self.temperature is None):
            raise ValueError(
                "give either scale (noise on the histograms, once) or temperature (tempered updates), not "
                f"{'both' if self.scale is not None else 'neither'}"
            )
        set_fields(self, truncation=truncation)
        if self.scale is not None:
            set_fields(self, scale=positive(scale=self.scale))
        else:
            set_fields(self, temperature=number(temperature=self.temperature))
        self.accountant  # noqa: B018 - building it checks the rest

    @cached
    def model(self) -> CategoricalHMM:
        """The model without its privacy."""
        return CategoricalHMM(
            states=self.states,
            categories=self.categories,
            emission_prior=self.emission_prior,
            transition_prior=self.transition_prior,
        )

    @property
    def _last_sweeps(self) -> int:
        """`kept`, which is a number once the fields are checked."""
        assert self.kept is not None
        return self.kept

    @property
    def n(self) -> int:
        """How many records there are."""
        return sum(self.entries)

    @cached
    def distribution(self) -> Noise | None:
        """The distribution of the noise on the histograms, if there is any."""
        return None if self.scale is None else noise_distribution(self.noise, self.scale)

    @cached
    def accountant(self) -> Accountant:
        """Under ReplaceOne(n): the histograms' once, or every update's."""
        if (distribution := self.distribution) is not None:
            return histograms_account(features=len(self.categories), n=self.n, noise=distribution, unit=self.unit)
        assert self.temperature is not None
        return sweeps_account(
            categories=self.categories,
            entries=self.entries,
            states=self.states,
            prior=self.emission_prior,
            temperature=self.temperature,
            truncation=self.truncation,
            sweeps=self.sweeps,
            unit=self.unit,
        )

    @property
    def title(self) -> str:
        """The model."""
        return "Hidden Markov chain of categorical records"

    @property
    def description(self) -> str:
        """Where the noise is."""
        if self.temperature is None:
            return (
                f"Random noise ({self.noise}, scale {self.scale:.4g}) was added once to how often each category "
                "occurs in each time step; all else was computed from these noisy counts."
            )
        return (
            f"Each of {self.sweeps} rounds of random updates was flattened by a temperature of "
            f"{self.temperature:.4g}, and every one of them is paid for."
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Noisy histograms, and tempered updates."""
        small: dict[str, Any] = {"states": 1, "categories": (2,), "entries": (1,), "sweeps": 1, "kept": 1}
        noisy, tempered = cls(**small, scale=5.0), cls(**small, temperature=8.0, truncation=0.2)
        bug = "the updates are too cold"
        return (
            Example.with_wrong_fields("gibbs-histograms", noisy, scale=0.5, bug=QUIET, samples=1_500),
            Example.with_wrong_fields("gibbs-updates", tempered, temperature=1.0, bug=bug, samples=800),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """Records of zeros only, and the first of them replaced by one of the last categories."""
        group = positive_integer(group=group)
        others_beside(group, self.n)
        cells = self.states * (sum(self.categories) + self.states) + len(self.entries)

        def dataset(changed: int) -> Dataset:
            def build() -> FloatArray:
                rows = np.zeros((self.n, len(self.categories)))
                rows[:changed] = np.array(self.categories) - 1.0
                return rows

            return build

        among = f"{group:,} of {self.n:,} records"
        return (
            Neighbours(
                account=self.accountant,
                words=(f"{among} of zeros", f"{among} of the last categories"),
                datasets=(dataset(0), dataset(group)),
                draw=one_by_one(self),
                width=self._last_sweeps * cells + 1,
            ),
        )

    def release_with_notes(self, data: Any, *, rng: np.random.Generator | None = None) -> tuple[Release, CuratorNotes]:
        """`release`, and how well its last sweep describes the records."""
        return self._release_with_notes(data, rng)

    def _statistic(self, data: Any) -> FloatArray:
        return self.histograms(data)

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> DrawsWithNotes:
        chain = self._chain(statistic, rng)
        scores = (statistic * np.log(chain.emissions[-1])[chain.states[-1]]).sum()
        notes = CuratorNotes(title="the last sweep", facts={"log likelihood for each record": scores / self.n})
        draws = {"states": chain.states, "emissions": chain.emissions, "transitions": chain.transitions}
        return DrawsWithNotes(draws=draws, notes=notes)

    def histograms(self, data: Any) -> FloatArray:
        """Counts of every category in every step, (steps, cells), after the public rule. Raises: SchemaError."""
        rows = self._rows(data)
        codes = [domain.clean(column) for domain, column in zip(self._domains, rows.T, strict=True)]
        steps = np.repeat(np.arange(len(self.entries)), self.entries)
        return self.model.histograms(steps, np.column_stack(codes).astype(np.int64), len(self.entries))

    def validate(self, data: Any) -> CuratorNotes:
        """What the public rule would change in these data, for the curator's eyes. Raises: SchemaError."""
        facts: dict[str, object] = {}
        for feature, (domain, column) in enumerate(zip(self._domains, self._rows(data).T, strict=True)):
            facts |= {
                f"feature {feature}, {reason}": count for reason, count in domain.count_problems([column]).items()
            }
        return CuratorNotes(
            title=f"{count_noun(self.n, 'row')} of {count_noun(len(self.categories), 'code')}", facts=facts
        )

    def log_predictive(self, release: Release, histograms: FloatArray) -> FloatArray:
        """log likelihood of further histograms, (steps, cells), of steps that were left out; (steps,)."""
        return self.model.log_predictive(Chain(**release.draws), histograms)

    def _chain(self, histograms: FloatArray, source: np.random.Generator) -> Chain:
        if self.temperature is not None:
            return self.model.sample(
                histograms,
                self.sweeps,
                self._last_sweeps,
                source,
                temperature=self.temperature,
                truncation=self.truncation,
            )
        return self.model.sample(self._noisy(histograms, source), self.sweeps, self._last_sweeps, source)

    def _noisy(self, histograms: FloatArray, source: np.random.Generator) -> FloatArray:
        """Histograms with noise where there are records, brought back to counts of the public number of records."""
        assert self.distribution is not None
        totals = np.array(self.entries, dtype=np.float64)
        noisy = histograms + self.distribution.sample(histograms.shape, source)
        parts = [onto_counts(noisy[:, part], totals) for part in self.model.features]
        return np.concatenate(parts, axis=1)

    @property
    def _domains(self) -> list[Domain]:
        """Of each feature; whatever is missing or outside counts as category 0."""
        return [
            Domain(low=0.0, high=count - 1.0, missing=0.0, whole=True, outside_is_missing=True)
            for count in self.categories
        ]

    def _rows(self, data: Any) -> FloatArray:
        rows = table(data, len(self.categories))
        if len(rows) != self.n:
            raise SchemaError(f"n = {self.n} records were declared by entries, the data hold {len(rows)}")
        return rows


def _entries(entries: Any) -> tuple[int, ...]:
    """Whole numbers, one at least above zero. Raises: TypeError, ValueError."""
    counts = listed(entries=entries)
    found = tuple(whole_number(**{f"entries[{step}]": count}) for step, count in enumerate(counts))
    if not (min(found, default=0) >= 0 and any(found)):
        raise ValueError("entries must be >= 0 and name at least one step that holds a record")
    positive_integer(**{"the sum of entries": sum(found)})
    return found
