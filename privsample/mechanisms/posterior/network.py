"""Private Gibbs sampling for a Bayesian network of categorical variables, from tables with noise."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from privsample._checks import FloatArray, check_memory, flag, positive, positive_integer, whole_number
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.posterior.gibbs import tables_account
from privsample.distributions.exact.grid import Grid
from privsample.distributions.models.network import CategoricalNetwork
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
    check_rows,
    codes_of_part,
    extreme_rows,
    variable_names,
)
from privsample.mechanisms.posterior.table_noise import noise_assumptions, noise_grid, noisy_tables
from privsample.mechanisms.release import Release


def _scale(ratio: float, _: Mapping[str, Any]) -> float:
    return min(ratio, LARGEST_DISCRETE)


@frozen_value
class PrivateGibbsNetwork(Mechanism):
    """A private Gibbs sampler for the conditional probabilities of a Bayesian network of categorical variables.

    Noise is added once to the table of counts of each family, which is a variable with its parents; families that lie
    in another one need no table of their own. All Gibbs sweeps are post-processing. They alternate between the
    probabilities and the unknown counts of all combinations of categories, so that the draws follow the noise-aware
    posterior given the noisy tables.

    `release` takes rows of shape (n, variables), and releases "probabilities" (R, P): the conditional probabilities
    of all families, which `conditional` shapes into tables. Each has a name such as "lung=1 | smoke=0", from the names
    of the data's columns, or x0, x1, ... A code that is missing or out of range counts as 0. The guarantee holds under
    ReplaceOne(n).

    Parameters
    ----------
    categories : tuple of int
        Number K of categories of each variable, >= 2; codes are 0, ..., K-1. They have at most 4096 combinations.
    n : int
        Public number of records, >= 1. Data with another number of records are refused with SchemaError.
    scale : float
        Scale or standard deviation of the noise on the tables, finite and > 0.
    edges : tuple of (int, int), default ()
        Pairs (parent, child) of variables, without cycles. The structure is public and must not depend on the records.
    noise : str, default "discrete laplace"
        Name of the noise distribution, as for `NoisyStatistics`.
    noise_aware : bool, default True
        True for Gibbs sweeps of the noise-aware posterior. False for independent draws from the plug-in posterior, that
        of the tables of n records that are nearest to the noisy ones.
    sweeps : int, default 1000
        Number of Gibbs sweeps, >= 1.
    released_sweeps : int, optional
        Number of last sweeps that are released, in 1, ..., `sweeps`. By default the second half.
    prior : float, default 1.0
        Concentration of the symmetric Dirichlet prior of all conditional probabilities, > 0.
    unit : str, default "record"
        What one record is, for example "patient". The privacy statement uses this word.
    exact : bool, default True
        True draws the noise exactly, so that the account does not assume IDEAL_REALS.
    grid : float, optional
        Distance of the grid points, a power of two, to which continuous noise is rounded. None takes 2^-40 of its
        scale, or 1 if that is less. Discrete noise has no grid.

    Raises
    ------
    ValueError
        If a field lies outside its range, or the edges form a cycle.

    Notes
    -----
    Foulds, Geumlek, Welling and Chaudhuri 2016, section 4 (Gibbs sampling from noisy statistics); Bernstein and Sheldon
    2018 (noise-aware sampling); docs/notes/gibbs.md, section 5. Kind: exact for the privacy curve of the tables, upper
    bound for the draws.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> mechanism = ps.PrivateGibbsNetwork(categories=(2, 3), edges=((0, 1),), n=60, scale=2.0, sweeps=20)
    >>> release = mechanism.release(np.column_stack([np.arange(60) % 2, np.arange(60) % 3]))
    >>> release["probabilities"].shape, mechanism.conditional(release, 1).shape
    ((10, 8), (10, 2, 3))
    >>> round(float(mechanism.accountant.epsilon(0.0)), 6)
    1.0
    """

    categories: tuple[int, ...]
    n: int
    scale: float
    edges: tuple[tuple[int, int], ...] = ()
    noise: str = "discrete laplace"
    noise_aware: bool = True
    sweeps: int = 1000
    released_sweeps: int | None = None
    prior: float = 1.0
    unit: str = "record"
    exact: bool = True
    grid: float | None = None
    free_parameters = (
        FreeParameter(name="scale", direction="smallest", value=_scale, advice="ask for delta > 0, or for fewer edges"),
    )
    command = CommandLine(
        data=("rows",),
        help={
            "categories": "the number of categories of each variable, e.g. 2,3",
            "scale": "the scale of the noise on the tables",
            "edges": "pairs parent,child of variables with semicolons between them, e.g. 0,1;1,2",
            "noise_aware": "whether the draws model the noise (default: yes)",
            "sweeps": "the number of Gibbs sweeps (default: 1000)",
            "released_sweeps": "the number of last sweeps that are released (default: half of them)",
            "prior": "the Dirichlet prior of all conditional probabilities (default: 1)",
        },
        arguments={"noise": noise_argument("discrete-laplace")},
    )

    def __post_init__(self) -> None:
        network = self.network
        set_fields(self, categories=network.categories, edges=network.edges, prior=network.prior)
        set_fields(self, n=positive_integer(n=self.n), scale=positive(scale=self.scale))
        set_fields(self, noise_aware=flag(noise_aware=self.noise_aware), sweeps=positive_integer(sweeps=self.sweeps))
        released_sweeps = (
            (self.sweeps + 1) // 2
            if self.released_sweeps is None
            else positive_integer(released_sweeps=self.released_sweeps)
        )
        check_memory(released_sweeps * network.probabilities, lower="released_sweeps or categories")
        if not released_sweeps <= self.sweeps:
            raise ValueError(f"released_sweeps must be at most sweeps = {self.sweeps}, got {released_sweeps}")
        set_fields(self, released_sweeps=released_sweeps, exact=flag(exact=self.exact))
        self._rounding  # noqa: B018 - checks the grid
        self.accountant  # noqa: B018 - building it checks the rest

    @cached
    def network(self) -> CategoricalNetwork:
        """The model without privacy."""
        return CategoricalNetwork(categories=self.categories, edges=self.edges, prior=self.prior)

    @cached
    def distribution(self) -> Noise:
        """The distribution of the noise on the tables."""
        return noise_distribution(self.noise, self.scale)

    @cached
    def accountant(self) -> Accountant:
        """The account of the noisy tables under ReplaceOne(n)."""
        return tables_account(
            tables=len(self.network.tables),
            n=self.n,
            noise=self.distribution,
            unit=self.unit,
            assumptions=noise_assumptions(self._rounding),
        )

    @cached
    def _rounding(self) -> Grid | None:
        """The public grid of the noise; None if `exact` is False."""
        return noise_grid(self.distribution, self.grid, exact=self.exact)

    @property
    def title(self) -> str:
        """The fixed text "Bayesian network of categorical records"."""
        return "Bayesian network of categorical records"

    @property
    def description(self) -> str:
        """How many tables got noise, in one sentence."""
        count = len(self.network.tables)
        return (
            f"Random noise ({self.noise}, scale {self.scale:.4g}) was added once to {count} "
            f"{'table' if count == 1 else 'tables'} of counts; everything else was computed from these noisy counts."
        )

    @property
    def quantity(self) -> str:
        """The label "conditional probability"."""
        return "conditional probability"

    @property
    def record_format(self) -> RowFormat:  # type: ignore[override]
        """Rows of one code for each variable."""
        return RowFormat(width=len(self.categories))

    def extreme_records(self) -> FloatArray:
        """A record of zeros, and one of the last categories."""
        return extreme_rows(self.categories)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Two variables with an edge; the mutant adds too little noise."""
        example = cls(categories=(2, 2), edges=((0, 1),), n=1, scale=5.0, prior=0.1, sweeps=10, released_sweeps=1)
        return (Example.with_wrong_fields("gibbs-network", example, scale=0.5, bug=TOO_LITTLE_NOISE, samples=500),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """All records zero, and the same with the first `group` records in the last categories."""
        width = self._last_sweeps * self.network.probabilities + 1
        return (category_neighbours(self, self.categories, self.n, width=width, group=group),)

    @property
    def _last_sweeps(self) -> int:
        """`released_sweeps`, which is a number once the fields are checked."""
        assert self.released_sweeps is not None
        return self.released_sweeps

    @property
    def _dims(self) -> Mapping[str, tuple[str, ...]]:
        return {"probabilities": ("probability",)}

    def _coords(self, data: Any) -> Mapping[str, tuple[str, ...]]:
        """A name such as "lung=1 | smoke=0" for each probability, in the order of the families."""
        found = self._probability_names(variable_names(data, len(self.categories)))
        if len(set(found)) < len(found):  # columns whose names look like conditional probabilities
            found = self._probability_names(variable_names(None, len(self.categories)))
        return {"probability": found}

    def _probability_names(self, variables: Sequence[str]) -> tuple[str, ...]:
        found = []
        for family in self.network.families:
            for codes in np.ndindex(*(self.categories[v] for v in family)):
                *given, own = (f"{variables[v]}={k}" for v, k in zip(family, codes, strict=True))
                found.append(f"{own} | {', '.join(given)}" if given else own)
        return tuple(found)

    def _statistic(self, data: Any) -> FloatArray:
        return self.tables(data)

    def _integers(self, data: Any) -> tuple[tuple[int, ...], int]:
        codes = codes_of_part(data, self.categories)
        return tuple(map(int, self.network.counts(codes).tolist())), len(codes)

    def _from_integers(self, sums: tuple[int, ...], count: int) -> FloatArray:
        check_rows(count, self.n, "the mechanism")
        return np.array(sums, dtype=np.float64)

    @property
    def _tally_width(self) -> int:
        return sum(self.network.size(each) for each in self.network.tables)

    def _draw(self, statistic: FloatArray, rng: np.random.Generator) -> DrawsWithNotes:
        noisy = noisy_tables(statistic, self.distribution, self._rounding, rng)
        noise = self.distribution if self.noise_aware else None
        found = self.network.sample(noisy, self.n, noise, self.sweeps, self._last_sweeps, rng)
        return DrawsWithNotes(draws={"probabilities": found})

    def tables(self, data: Any) -> FloatArray:
        """The tables of counts to which noise is added, after the public rule.

        Parameters
        ----------
        data : array of shape (n, variables)
            The records.

        Returns
        -------
        numpy.ndarray of float
            The tables of `network.tables`, one after the other. They depend on the data and are not private.

        Raises
        ------
        SchemaError
            If the data have another shape or number of records.
        """
        return self.network.counts(category_codes(data, self.categories, self.n, named_by="the mechanism"))

    def validate(self, data: Any) -> CuratorNotes:
        """Count the values that the public rule would replace, for the curator only. Raises SchemaError."""
        return category_problems(data, self.categories, self.n, named_by="the mechanism")

    def conditional(self, release: Release, variable: int) -> FloatArray:
        """The draws of the conditional probabilities of one variable given its parents.

        Parameters
        ----------
        release : Release
            A release of this mechanism.
        variable : int
            The variable, from 0.

        Returns
        -------
        numpy.ndarray of float
            The probabilities, with one axis for the draws, one for each parent in increasing order, and one for the
            variable's own categories.

        Raises
        ------
        TypeError
            If `variable` is not a number.
        ValueError
            If `variable` is not one of the variables.
        """
        last = len(self.categories) - 1
        rule = f"variable must be a whole number from 0 to {last}, got {variable!r}"
        try:
            variable = whole_number(variable=variable)
        except TypeError:
            raise TypeError(rule) from None
        except ValueError:
            raise ValueError(rule) from None
        if not 0 <= variable <= last:
            raise ValueError(rule)
        sizes = [self.network.size(family) for family in self.network.families]
        start, family = sum(sizes[:variable]), self.network.families[variable]
        found = release["probabilities"][:, start : start + sizes[variable]]
        return found.reshape(len(found), *(self.categories[v] for v in family))

    def log_predictive(self, release: Release, data: Any) -> FloatArray:
        """The log likelihood of further records under a release.

        Parameters
        ----------
        release : Release
            A release of this mechanism.
        data : array of shape (records, variables)
            Codes of any number of records, in range.

        Returns
        -------
        numpy.ndarray of float
            The log of each record's likelihood averaged over the released draws, in nats, shape (records,).
        """
        rows = np.asarray(data)
        codes = category_codes(rows, self.categories, len(rows), named_by="the mechanism")
        with np.errstate(divide="ignore"):
            found = self.network.log_cells(np.log(release["probabilities"]), codes)
        return special.logsumexp(found, axis=0) - np.log(len(found))
