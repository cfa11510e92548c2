"""Private Gibbs sampling for a hidden Markov chain of categorical records: noisy histograms or tempered updates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    FloatArray,
    check_memory,
    count_noun,
    flag,
    listed,
    number,
    positive,
    positive_integer,
    whole_number,
)
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.gibbs import FIXED_PARTS, histograms_account, sweeps_account
from privsample.distributions.exact.grid import Grid
from privsample.distributions.models.exact_chain import ExactUpdates
from privsample.distributions.models.hmm import CategoricalHMM, Chain, project_onto_counts, random_scans
from privsample.distributions.models.truncation import share_bounds
from privsample.distributions.noise import LARGEST_DISCRETE, Noise, noise_distribution
from privsample.distributions.record_format import RowFormat
from privsample.mechanisms.arguments import CommandLine, noise_argument
from privsample.mechanisms.base import DrawsWithNotes, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import TOO_LITTLE_NOISE, Example
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.notes import CuratorNotes
from privsample.mechanisms.posterior.categorical_rows import (
    category_codes,
    category_neighbours,
    category_problems,
    extreme_rows,
    variable_names,
)
from privsample.mechanisms.posterior.table_noise import noise_grid, noisy_tables
from privsample.mechanisms.release import Release

_ADVICE = "ask for fewer sweeps, a larger truncation, or delta > 0"


def _scale(ratio: float, _: Mapping[str, Any]) -> float:
    return min(ratio, LARGEST_DISCRETE)


def _temperature(share: float, _: Mapping[str, Any]) -> float:
    return 1.0 / share


@frozen_value
class PrivateGibbsHMM(Mechanism):
    """A private Gibbs sampler for the hidden states of time steps and the emission probabilities of each state.

    Each time step holds `entries` categorical records. The sampler is private in one of two ways:

    - `scale`: noise is added once to every step's histograms, which are then projected to counts; all sweeps are
      post-processing.
    - `temperature`: each update of each of the `sweeps` is drawn at temperature T >= 1, with the shares of K categories
      bounded below by `truncation`/K. The account composes all updates; the chain need not converge. With `scan`, each
      sweep updates the states of that many time steps, chosen at random.

    `release` takes rows of shape (n, features) in the order of their steps, and releases "states" (R, steps),
    "emissions" (R, states, cells) and "transitions" (R, states, states) of the last R = `released_sweeps` sweeps.
    Their coordinates have the names of the states and of the data's columns, or x0, x1, ... A code that is missing or
    out of range counts as 0. The guarantee holds under ReplaceOne(n), n = sum of `entries`.
    With one state the model is naive Bayes; give it one step.

    Several chains of equal length, for example one for each region, have either common emission and transition
    probabilities (`tied`) or their own. If they have their own, "emissions" and "transitions" have a further axis for
    the chains after the first. The account is the same.

    Parameters
    ----------
    states : int
        Number of hidden states, >= 1.
    categories : tuple of int
        Number K of categories of each feature, >= 2; codes are 0, ..., K-1.
    entries : tuple of int
        Public number of records of each time step, >= 0; 0 for a step that is left out.
    scale : float, optional
        Scale or standard deviation of the noise on the histograms, finite and > 0. Give either `scale` or
        `temperature`.
    noise : str, default "discrete laplace"
        Name of the noise distribution, as for `NoisyStatistics`; used with `scale`.
    temperature : float, optional
        Temperature T of each update, >= 1.
    truncation : float, default 0.1
        The shares of K categories are at least `truncation`/K, in (0, 1/2); used with `temperature`.
    sweeps : int, default 200
        Number of sweeps, each an update of all emission probabilities and of the states, >= 1.
    released_sweeps : int, optional
        Number of sweeps that are released, the last ones, in 1, ..., `sweeps`. By default the second half.
    emission_prior : float, default 1.0
        Concentration of the symmetric Dirichlet prior of the emissions, > 0.
    transition_prior : float, default 1.0
        Concentration of the symmetric Dirichlet prior of the transitions, > 0.
    scan : int, optional
        Number of time steps with records whose states one sweep updates, chosen at random, from 1 to the number of such
        steps; used with `temperature`. None updates all. The release shows which states were updated.
    chains : int, default 1
        Number of chains, >= 1. `entries` lists the steps chain by chain, and all chains have equally many steps.
    tied : bool, default True
        True if all chains have common emission and transition probabilities; False if each has its own.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    exact : bool, default True
        True draws every update, or the noise, exactly, so that the account does not assume IDEAL_REALS.
    grid : float, optional
        Distance of the grid points, a power of two, to which emission probabilities are rounded, or histograms with
        continuous noise. None takes 2^-40 of the public scale. Histograms with discrete noise have no grid.

    Raises
    ------
    ValueError
        If a field lies outside its range, or both or neither of `scale` and `temperature` are given.

    Notes
    -----
    Foulds, Geumlek, Welling and Chaudhuri 2016; Geumlek 2020, section 4.4; docs/notes/gibbs.md. Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> mechanism = ps.PrivateGibbsHMM(states=2, categories=(2,), entries=(3, 3), scale=4.0, sweeps=4)
    >>> release = mechanism.release([[0], [1], [1], [0], [0], [1]])
    >>> release["states"].shape, release["emissions"].shape
    ((2, 2), (2, 2, 2))
    >>> mechanism.log_predictive(release, mechanism.histograms([[0], [1], [1], [0], [0], [1]])).shape
    (2,)
    """

    states: int
    categories: tuple[int, ...]
    entries: tuple[int, ...]
    scale: float | None = None
    noise: str = "discrete laplace"
    temperature: float | None = None
    truncation: float = 0.1
    sweeps: int = 200
    released_sweeps: int | None = None
    emission_prior: float = 1.0
    transition_prior: float = 1.0
    scan: int | None = None
    chains: int = 1
    tied: bool = True
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    free_parameters = (
        FreeParameter(name="scale", direction="smallest", value=_scale, advice=_ADVICE),
        FreeParameter(name="temperature", value=_temperature, advice=_ADVICE),
    )
    command = CommandLine(
        data=("rows",),
        help={
            "states": "the number of hidden states",
            "categories": "the number of categories of each feature, e.g. 2,3",
            "entries": "the number of records of each time step, e.g. 10,0,12",
            "scale": "the scale of the noise on the histograms; or give --temperature",
            "truncation": "K categories have shares of at least this over K (default: 0.1)",
            "scan": "the number of steps whose states one tempered sweep updates, at random (default: all)",
            "sweeps": "the number of Gibbs sweeps (default: 200)",
            "released_sweeps": "the number of last sweeps that are released (default: half of them)",
            "chains": "the number of chains of equal length, whose steps are listed chain by chain (default: 1)",
            "tied": "whether all chains have common probabilities (default: yes)",
            "emission_prior": "the Dirichlet prior of the emissions (default: 1)",
            "transition_prior": "the Dirichlet prior of the transitions (default: 1)",
        },
        arguments={"noise": noise_argument("discrete-laplace")},
    )

    def __post_init__(self) -> None:
        model = self.model
        set_fields(self, states=model.states, categories=model.categories, emission_prior=model.emission_prior)
        set_fields(self, transition_prior=model.transition_prior, entries=_entries(self.entries))
        set_fields(self, chains=positive_integer(chains=self.chains), tied=flag(tied=self.tied))
        if len(self.entries) % self.chains:
            raise ValueError(
                f"chains must divide the {len(self.entries)} steps of entries, as all chains have equally many, got "
                f"{self.chains}"
            )
        set_fields(self, sweeps=positive_integer(sweeps=self.sweeps))
        released_sweeps = (
            (self.sweeps + 1) // 2
            if self.released_sweeps is None
            else positive_integer(released_sweeps=self.released_sweeps)
        )
        if not released_sweeps <= self.sweeps:
            raise ValueError(f"released_sweeps must be at most sweeps = {self.sweeps}, got {released_sweeps}")
        set_fields(self, released_sweeps=released_sweeps)
        check_memory(len(self.entries) * (model.cells + model.states), lower="categories, states or steps")
        check_memory(released_sweeps * self._numbers_of_a_sweep, lower="released_sweeps, states or categories")
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
        set_fields(self, scan=self._checked_scan(), exact=flag(exact=self.exact))
        self.accountant  # noqa: B018 - building it checks the rest
        self._check_grid()

    def _check_grid(self) -> None:
        """Check the grid. Raises TypeError, ValueError."""
        if self.grid is not None and not self.exact:
            raise ValueError(f"grid must be None with exact=False: only exact draws are rounded, got {self.grid!r}")
        self._rounding  # noqa: B018 - checks the rest

    @cached
    def _rounding(self) -> Grid | None:
        """The public grid of the emission probabilities, or of the noise; None if `exact` is False."""
        if self.distribution is not None:
            return noise_grid(self.distribution, self.grid, exact=self.exact)
        if not self.exact:
            return None
        ends = [share_bounds(self.truncation / count, count) for count in self.categories]
        width = min(high - low for low, high in ends)
        return Grid.of_scale(width, grid=self.grid, low=0.0, high=width)

    def _checked_scan(self) -> int | None:
        """The number of states that one sweep updates, or None for all. Raises ValueError."""
        if self.scan is None:
            return None
        scan = positive_integer(scan=self.scan)
        if self.temperature is None:
            raise ValueError(
                "scan is used with temperature only: noisy histograms cost the same whatever the sweeps update, so "
                "leave scan out"
            )
        steps = sum(count > 0 for count in self.entries)
        if not scan <= steps:
            raise ValueError(f"scan must be at most the {steps} time steps that have records, got {scan}")
        check_memory(self.sweeps * len(self.entries), lower="sweeps or steps")
        return scan

    @cached
    def model(self) -> CategoricalHMM:
        """The model without privacy."""
        return CategoricalHMM(
            states=self.states,
            categories=self.categories,
            emission_prior=self.emission_prior,
            transition_prior=self.transition_prior,
            chains=self.chains if self.tied else 1,
        )

    @property
    def _numbers_of_a_sweep(self) -> int:
        """How many numbers one released sweep releases."""
        own = 1 if self.tied else self.chains
        return len(self.entries) + own * self.states * (sum(self.categories) + self.states)

    @property
    def _last_sweeps(self) -> int:
        """`released_sweeps`, which is a number once the fields are checked."""
        assert self.released_sweeps is not None
        return self.released_sweeps

    @property
    def n(self) -> int:
        """The public number of records."""
        return sum(self.entries)

    @cached
    def distribution(self) -> Noise | None:
        """The distribution of the noise on the histograms, or None with tempered updates."""
        return None if self.scale is None else noise_distribution(self.noise, self.scale)

    @cached
    def accountant(self) -> Accountant:
        """The account under ReplaceOne(n): of the noisy histograms, or of all tempered updates."""
        assumed = FIXED_PARTS if self.exact else FIXED_PARTS | {Assumption.IDEAL_REALS}
        if (distribution := self.distribution) is not None:
            return histograms_account(
                features=len(self.categories), n=self.n, noise=distribution, unit=self.unit, assumptions=assumed
            )
        assert self.temperature is not None
        return sweeps_account(
            categories=self.categories,
            entries=self.entries,
            states=self.states,
            prior=self.emission_prior,
            temperature=self.temperature,
            truncation=self.truncation,
            sweeps=self.sweeps,
            scan=self.scan,
            unit=self.unit,
            assumptions=assumed,
        )

    @property
    def record_format(self) -> RowFormat:  # type: ignore[override]
        """Rows of one code for each feature, in the order of their steps."""
        return RowFormat(width=len(self.categories))

    @property
    def record_strata(self) -> tuple[int, ...] | None:  # type: ignore[override]
        """The numbers of records of the time steps, if more than one step holds records: no record changes its step."""
        return self.entries if sum(count > 0 for count in self.entries) > 1 else None

    def for_size(self, size: int) -> "PrivateGibbsHMM":
        """The same sampler for `size` records of the only step that holds records.

        Parameters
        ----------
        size : int
            Number of records, >= 1.

        Returns
        -------
        PrivateGibbsHMM
            The sampler for `size` records.

        Raises
        ------
        TypeError
            If several steps hold records and `size` differs from their total.
        """
        size = positive_integer(size=size)
        if size == self.n:
            return self
        if self.record_strata is not None:
            raise TypeError(
                f"the records of {count_noun(len(self.entries), 'time step')} cannot be sampled together: give the "
                "number of records of each step by StratifiedSampling(sizes=..., samples=...)"
            )
        return replace(self, entries=tuple(size if count else 0 for count in self.entries))

    def for_strata(self, sizes: tuple[int, ...]) -> "PrivateGibbsHMM":
        """The same sampler for other numbers of records of the time steps."""
        return replace(self, entries=sizes)

    @property
    def title(self) -> str:
        """The fixed text "Hidden Markov chain of categorical records"."""
        return "Hidden Markov chain of categorical records"

    @property
    def quantity(self) -> str:
        """The label "probability"."""
        return "probability"

    @property
    def description(self) -> str:
        """Where the noise or the temperature enters, in one sentence."""
        if self.temperature is None:
            return (
                f"Random noise ({self.noise}, scale {self.scale:.4g}) was added once to how often each category "
                "occurs in each time step; everything else was computed from these noisy counts."
            )
        return (
            f"Each of {self.sweeps} rounds of random updates was flattened by a temperature of "
            f"{self.temperature:.4g}, and the account covers all of them."
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """One example with noisy histograms, one with tempered updates and one with a random scan."""
        small: dict[str, Any] = {"states": 1, "categories": (2,), "entries": (1,), "sweeps": 1, "released_sweeps": 1}
        noisy, tempered = cls(**small, scale=5.0), cls(**small, temperature=8.0, truncation=0.2)
        scanned = cls(**small | {"states": 2, "entries": (1, 1)}, temperature=25.0, scan=1)
        bug = "the updates are too cold"
        return (
            Example.with_wrong_fields("gibbs-histograms", noisy, scale=0.5, bug=TOO_LITTLE_NOISE, samples=900),
            Example.with_wrong_fields("gibbs-updates", tempered, temperature=1.0, bug=bug, samples=1_200),
            Example.with_wrong_fields("gibbs-scan", scanned, temperature=1.0, bug=bug, samples=2_000),
        )

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """All records zero, and the same with the first `group` records in the last categories."""
        width = self._last_sweeps * self._numbers_of_a_sweep + 1
        return (category_neighbours(self, self.categories, self.n, width=width, group=group),)

    def extreme_records(self) -> FloatArray:
        """A record of zeros, and one of the last categories."""
        return extreme_rows(self.categories)

    def release_with_notes(self, data: Any, *, rng: np.random.Generator | None = None) -> tuple[Release, CuratorNotes]:
        """`release`, and the log likelihood of the records under the last sweep.

        Parameters
        ----------
        data : array of shape (n, features)
            The records, as for `release`.
        rng : numpy.random.Generator, optional
            Random generator, for simulations: the account then assumes RNG_FRESH. None draws from the system's entropy.

        Returns
        -------
        tuple of (Release, CuratorNotes)
            The release, and notes that depend on the data and are for the curator only.
        """
        return self._release_with_notes(data, rng)

    @property
    def _grid(self) -> Mapping[str, float] | None:
        if self._rounding is None or self.temperature is None:
            return None
        return {"emissions": self._rounding.pitch}

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        own = () if self.tied else ("sequence",)
        return {
            "states": ("step",),
            "emissions": (*own, "state", "cell"),
            "transitions": (*own, "state", "next_state"),
        }

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        """Names such as "state 0", and "colour=2" for the cells of the emission probabilities."""
        names = variable_names(data, len(self.categories))
        states = tuple(f"state {k}" for k in range(self.states))
        cells = tuple(f"{name}={k}" for name, count in zip(names, self.categories, strict=True) for k in range(count))
        return {"state": states, "cell": cells, "next_state": states}

    def _statistic(self, data: Any) -> FloatArray:
        return self.histograms(data)

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> DrawsWithNotes:
        chain = self._chain(statistic, rng)
        emissions = np.log(chain.emissions[-1]).reshape(-1, self.states, statistic.shape[1])
        own = np.arange(len(statistic)) * len(emissions) // len(statistic)
        scores = (statistic * emissions[own, chain.states[-1]]).sum()
        notes = CuratorNotes(title="the last sweep", facts={"log likelihood for each record": scores / self.n})
        draws = {"states": chain.states, "emissions": chain.emissions, "transitions": chain.transitions}
        return DrawsWithNotes(draws=draws, notes=notes)

    def histograms(self, data: Any) -> FloatArray:
        """Counts of every category in every step, after the public rule.

        Parameters
        ----------
        data : array of shape (n, features)
            The records in the order of their steps.

        Returns
        -------
        numpy.ndarray of float
            The counts, shape (steps, cells). They depend on the data and are not private.

        Raises
        ------
        SchemaError
            If the data have another shape or number of records.
        """
        codes = category_codes(data, self.categories, self.n, named_by="entries")
        steps = np.repeat(np.arange(len(self.entries)), self.entries)
        return self.model.histograms(steps, codes, len(self.entries))

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        return category_problems(data, self.categories, self.n, named_by="entries")

    def log_predictive(self, release: Release, histograms: FloatArray) -> FloatArray:
        """The log likelihood of further histograms under a release, for example of steps that were left out.

        Parameters
        ----------
        release : Release
            A release of this mechanism.
        histograms : numpy.ndarray of float
            Counts of every category in every step, shape (steps, cells).

        Returns
        -------
        numpy.ndarray of float
            The log of each step's likelihood averaged over the released sweeps, in nats, shape (steps,).
        """
        chain = Chain(**release.draws)
        if self.tied:
            return self.model.log_predictive(chain, histograms)
        parts = zip(_chains_of(chain), np.split(histograms, self.chains), strict=True)
        return np.concatenate([self.model.log_predictive(one, part) for one, part in parts])

    def _chain(self, histograms: FloatArray, source: np.random.Generator) -> Chain:
        """The released sweeps: of all chains together, or of each by itself and joined along a further axis."""
        if self.temperature is None:
            histograms = self._noisy(histograms, source)
        updated: list[NDArray[np.bool_] | None] = [None] * self.chains
        if self.scan is not None:
            scans = random_scans(np.array(self.entries) > 0, self.scan, self.sweeps, source)
            updated = [scans] if self.tied else list(np.split(scans, self.chains, axis=1))
        if self.tied:
            return self._sweeps(histograms, updated[0], source)
        parts = zip(np.split(histograms, self.chains), updated, strict=True)
        return _joined([self._sweeps(part, own, source) for part, own in parts])

    def _sweeps(self, histograms: FloatArray, updated: NDArray[np.bool_] | None, source: np.random.Generator) -> Chain:
        """The released sweeps over one set of histograms."""
        sweeps, last = self.sweeps, self._last_sweeps
        if self.temperature is None:
            return self.model.sample(histograms, sweeps, last, source, updated=updated)
        if self._rounding is not None:
            updates = ExactUpdates(
                model=self.model,
                temperature=self.temperature,
                truncation=self.truncation,
                pitch=self._rounding.pitch,
            )
            return updates.sample(histograms, sweeps, last, source, updated)
        return self.model.sample(
            histograms,
            sweeps,
            last,
            source,
            temperature=self.temperature,
            truncation=self.truncation,
            updated=updated,
        )

    def _noisy(self, histograms: FloatArray, source: np.random.Generator) -> FloatArray:
        """Histograms with noise in the steps that hold records, projected to counts of the public number of records."""
        assert self.distribution is not None
        totals = np.array(self.entries, dtype=np.float64)
        noisy = noisy_tables(histograms, self.distribution, self._rounding, source)
        parts = [project_onto_counts(noisy[:, part], totals) for part in self.model.features]
        return np.concatenate(parts, axis=1)


def _joined(chains: list[Chain]) -> Chain:
    """Chains with probabilities of their own as one value: states side by side, probabilities along a further axis."""
    return Chain(
        states=np.concatenate([chain.states for chain in chains], axis=1),
        emissions=np.stack([chain.emissions for chain in chains], axis=1),
        transitions=np.stack([chain.transitions for chain in chains], axis=1),
    )


def _chains_of(joined: Chain) -> list[Chain]:
    """The chains that `_joined` joined."""
    count = joined.emissions.shape[1]
    return [
        Chain(states=states, emissions=joined.emissions[:, k], transitions=joined.transitions[:, k])
        for k, states in enumerate(np.split(joined.states, count, axis=1))
    ]


def _entries(entries: Any) -> tuple[int, ...]:
    """Whole numbers >= 0, at least one of them > 0. Raises TypeError or ValueError."""
    counts = listed(entries=entries)
    found = tuple(whole_number(**{f"entries[{step}]": count}) for step, count in enumerate(counts))
    if not (min(found, default=0) >= 0 and any(found)):
        raise ValueError("entries must be >= 0 and name at least one step that holds a record")
    positive_integer(**{"the sum of entries": sum(found)})
    return found
