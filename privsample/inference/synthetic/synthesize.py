"""Synthetic data sets from a release of noisy marginal tables, each from one draw of a noise-aware posterior.

docs/notes/synthetic.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import (
    check_memory,
    count_noun,
    generator,
    positive,
    positive_integer,
    real_array,
    whole_number,
)
from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.statement import privacy_statement
from privsample.distributions.marginal_tables import checked_columns
from privsample.errors import NumericalFailure
from privsample.inference.synthetic.effects import effects_of, measure
from privsample.inference.synthetic.log_linear import LogLinearModel, Mode, find_mode
from privsample.inference.synthetic.sampler import PosteriorSample, largest_split_rhat, sample_posterior
from privsample.mechanisms.noise.marginals import NoisyMarginals
from privsample.mechanisms.posterior.inference import PosteriorDraws
from privsample.mechanisms.release import Release
from privsample.relations import ReplaceOne

_INTEGERS = tuple(map(np.dtype, (np.uint8, np.uint16, np.uint32, np.int64)))
_CHAINS = 4
_TUNE = 30  # sweeps before the first draw; the chains start from the normal approximation
_THIN = 2  # sweeps for each draw, or more if there are few draws
_SWEEPS = 40  # after tuning, at least: fewer tell nothing about convergence
_MOST_RHAT = 1.3  # of chains that are kept; the largest of many coordinates and few sweeps is above 1 by chance
_LONGER = (1, 4, 16)  # times as many sweeps, until the chains agree
_PRIORS = (1e-6, 1e6)  # of prior_std: far beyond either end the precision matrix is singular
_LEAST_RATIO = 3.0  # of the noisy number of records to the noise in it


@frozen_value
class SyntheticData:
    """Synthetic data sets, with the account of the release behind them.

    Index or iterate over the data sets. Each is a dictionary from the name of a column to an array of names of
    categories, as pandas.DataFrame, polars.DataFrame and pyarrow.table take it.

    Parameters
    ----------
    codes : array of int, shape (m, size, columns)
        The codes of the categories of all records of all sets. The array is copied and read-only.
    columns : mapping of str to sequence of str
        The public columns with the names of their categories, stored as rows of a name and its categories.
    posterior : PosteriorDraws
        The draws of the parameters "theta", one for each set, and of the number of records "size" if it was not public.

    Raises
    ------
    TypeError, ValueError
        If a field has the wrong type, or a code is none of its column.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> rng = np.random.default_rng(0)
    >>> mechanism = ps.NoisyMarginals(columns={"ill": ("no", "yes"), "smoker": ("no", "yes")}, noise_std=5)
    >>> data = ps.synthesize(mechanism.release(rng.integers(2, size=(500, 2)), rng=rng), m=4, size=200, rng=rng)
    >>> len(data), sorted(data[0]), data[0]["ill"].shape
    (4, ['ill', 'smoker'], (200,))
    """

    codes: NDArray[Any]
    columns: Mapping[str, Sequence[str]] | tuple[tuple[str, ...], ...]  # stored as ((name, category, ...), ...)
    posterior: PosteriorDraws

    def __post_init__(self) -> None:
        columns = checked_columns(self.columns)
        sizes = [len(categories) for _, categories in columns]
        given: Any = self.codes
        codes = given if getattr(given, "dtype", None) in _INTEGERS else real_array(codes=given)
        if np.ndim(codes) != 3 or codes.shape[2] != len(columns) or not _are_codes(codes, sizes):
            raise ValueError(
                f"codes must be codes of categories, shape (m, size, {len(columns)}), got numbers of shape "
                f"{np.shape(codes)}"
            )
        if not isinstance(self.posterior, PosteriorDraws):
            raise TypeError(f"posterior must be PosteriorDraws, got {type(self.posterior).__name__}")
        kept = np.array(codes, dtype=np.min_scalar_type(max(sizes) - 1))
        kept.flags.writeable = False
        set_fields(self, codes=kept, columns=tuple((name, *categories) for name, categories in columns))

    @property
    def account(self) -> Accountant:
        """The account of the noisy tables: all that is computed from them costs nothing more."""
        return self.posterior.account

    @property
    def method(self) -> str:
        """What was modelled, and the diagnostics of the sampler."""
        return self.posterior.method

    def statement(self, delta: float = 1e-6) -> str:
        """The privacy statement of the release behind the data.

        Parameters
        ----------
        delta : float, default 1e-6
            The delta in (0, 1) at which epsilon is reported.

        Returns
        -------
        str
            The statement in plain words, with every assumption of the account.
        """
        return privacy_statement(self.account, delta)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, place: int) -> dict[str, NDArray[Any]]:
        codes = self.codes[whole_number(place=place)]
        return {row[0]: np.array(row[1:])[codes[:, column]] for column, row in enumerate(self._rows)}

    @property
    def _rows(self) -> tuple[tuple[str, ...], ...]:
        assert isinstance(self.columns, tuple)
        return self.columns

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        m, size, width = self.codes.shape
        each = f"{count_noun(size, 'record')} and {count_noun(width, 'column')}"
        return f"SyntheticData({count_noun(m, 'data set')} of {each})"


def synthesize(
    release: Release,
    *,
    m: int = 100,
    size: int | None = None,
    prior_std: float = 2.0,
    rng: np.random.Generator | None = None,
) -> SyntheticData:
    """Draw m synthetic data sets from noisy marginal tables, such that analyses of them have valid intervals.

    The records are modelled by the distribution of largest entropy with given marginal tables: a log-linear model with
    an effect for each set of columns in a table. Its parameters have a posterior that models the noise and the sampling
    of the records. Each data set is drawn from one posterior draw. Analyse each set as if it were real, and `combine`
    the results. All of it is post-processing: the privacy cost is that of the tables alone.

    An analysis is only as good as the model: effects that no table holds are missing from the synthetic data. For a
    regression, release the tables of the outcome with each feature, and of the features among themselves.

    Parameters
    ----------
    release : Release
        A release of NoisyMarginals.
    m : int, default 100
        Number of data sets, >= 1; `combine` needs at least 2, and intervals become stable from about 50 on.
    size : int, optional
        Number of records in each set, >= 1. By default the public or noisy number of records in the data. Larger sets
        make estimates more stable.
    prior_std : float, default 2.0
        Standard deviation of the normal prior of each parameter, from 1e-6 to 1e6. A log odds ratio of two pairs of
        categories has twice this standard deviation.
    rng : numpy.random.Generator, optional
        Random generator. None draws from the system's entropy.

    Returns
    -------
    SyntheticData
        The data sets, with the account of the release and a description of the method.

    Raises
    ------
    TypeError
        If `release` is no Release of NoisyMarginals, or an argument has the wrong type.
    ValueError
        If a number is out of range, the tables join so many columns that the model needs more than 2^20 cells, the
        model has more than 4096 parameters, or the noisy number of records is not above the noise.
    NumericalFailure
        If the posterior mode is not found, or the chains do not converge: with a wide prior and empty categories.

    Notes
    -----
    Räisä, Jälkö, Kaski and Honkela 2023 (NAPSU-MQ). The likelihood of the noisy sums is normal, with the covariance at
    the posterior mode; parameters are drawn by Hamiltonian Monte Carlo, and models of many columns are computed on a
    junction tree. Kind: approximate: normal likelihood, and the convergence of the chains; docs/notes/synthetic.md.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> rng = np.random.default_rng(1)
    >>> smoker = rng.random(4000) < 0.3
    >>> ill = rng.random(4000) < np.where(smoker, 0.4, 0.2)
    >>> columns = {"smoker": ("no", "yes"), "ill": ("no", "yes")}
    >>> mechanism = ps.NoisyMarginals.calibrate(columns=columns, target=ps.DP(1, 1e-6))
    >>> release = mechanism.release({"smoker": smoker, "ill": ill}, rng=rng)
    >>> data = ps.synthesize(release, m=50, rng=rng)
    >>> shares = np.array([(one["ill"][one["smoker"] == "yes"] == "yes").mean() for one in data])
    >>> variances = [p * (1 - p) / (one["smoker"] == "yes").sum() for p, one in zip(shares, data)]
    >>> combined = ps.combine(shares, variances)
    >>> low, high = combined.interval(0.95)
    >>> bool(low < 0.4 < high), data.account == release.account
    (True, True)
    """
    mechanism = getattr(release, "mechanism", None)
    if not isinstance(mechanism, NoisyMarginals):
        found = type(release if mechanism is None else mechanism).__name__
        raise TypeError(f"release must be a Release of NoisyMarginals, got {found}")
    source, sets, prior = generator(rng), positive_integer(m=m), positive(prior_std=prior_std)
    if not _PRIORS[0] <= prior <= _PRIORS[1]:
        raise ValueError(f"prior_std must be from {_PRIORS[0]:g} to {_PRIORS[1]:g}, got {prior!r}")
    layout, public = mechanism.layout, mechanism.relation.n if isinstance(mechanism.relation, ReplaceOne) else None
    effects, counts = effects_of(layout), release["counts"]
    measured = measure(effects, layout, counts.mean(axis=0), mechanism.noise_std**2 / len(counts))
    if public is None and not measured.size >= _LEAST_RATIO * measured.size_variance**0.5:
        raise ValueError(
            f"release must count more records than the noise hides: the noisy number of records is {measured.size:.4g} "
            f"with a standard error of {measured.size_variance**0.5:.4g}; use less noise, or fewer tables"
        )
    model = LogLinearModel(effects, measured, public, prior)
    each = positive_integer(size=round(model.size_guess) if size is None else size)
    check_memory(sets * each * len(layout.columns), lower="m or size")
    draws = -(-sets // _CHAINS)
    thin = max(_THIN, -(-_SWEEPS // draws))
    check_memory(_LONGER[-1] * _CHAINS * draws * thin * (effects.width + 1), lower="m")
    mode = find_mode(model)
    sample, rhat = _converged(mode, draws, thin, source)
    states = sample.states.swapaxes(0, 1).reshape(-1, len(mode.state))[:sets]
    theta, numbers = model.split(states)
    codes = np.empty((sets, each, len(layout.columns)), dtype=np.min_scalar_type(max(layout.sizes) - 1))
    for place in range(sets):
        codes[place] = model.tree.sample(model.distribution(theta[place : place + 1]), each, source)
    method = (
        f"log-linear model with {count_noun(effects.width, 'parameter')}, noise-aware posterior by Hamiltonian Monte "
        f"Carlo; {_CHAINS} chains, acceptance rate {sample.acceptance:.2f}, largest split R-hat {rhat:.3f}"
    )
    parameters = {"theta": theta} if public is not None else {"theta": theta, "size": numbers}
    posterior = PosteriorDraws(
        draws=parameters, account=release.account, method=method, observed_data={"noisy_counts": counts}
    )
    return SyntheticData(codes=codes, columns=dict(layout.columns), posterior=posterior)


def _converged(mode: Mode, draws: int, thin: int, rng: np.random.Generator) -> tuple[PosteriorSample, float]:
    """Draws of chains that agree, with their largest split R-hat: longer chains are tried, at last an error raised."""
    rhat = float("inf")
    for times in _LONGER:
        sample = sample_posterior(mode, draws=draws, chains=_CHAINS, tune=times * _TUNE, thin=times * thin, rng=rng)
        rhat = largest_split_rhat(sample.places)
        if rhat <= _MOST_RHAT:
            return sample, rhat
    raise NumericalFailure(
        f"the chains of the log-linear model did not converge: the largest split R-hat is {rhat:.3g}, at most "
        f"{_MOST_RHAT} was expected; use a smaller prior_std, or merge categories with few records"
    )


def _are_codes(codes: NDArray[Any], sizes: list[int]) -> bool:
    """Whether the numbers are codes of columns of these sizes."""
    whole = codes.dtype in _INTEGERS or bool((codes == np.rint(codes)).all())
    return whole and bool(((codes >= 0) & (codes < np.array(sizes))).all())
