"""Synthetic data sets from a release of noisy marginal tables, each from one draw of a noise-aware posterior."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._checks import check_memory, count_noun, generator, positive, positive_integer
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.statement import privacy_statement
from privsample.inference.synthetic.effects import effects_of, measure
from privsample.inference.synthetic.log_linear import LogLinearModel, find_mode
from privsample.inference.synthetic.sampler import sample_posterior
from privsample.mechanisms.noise.marginals import NoisyMarginals
from privsample.mechanisms.posterior.inference import PosteriorDraws
from privsample.mechanisms.release import Release
from privsample.relations import ReplaceOne

_CHAINS = 4
_TUNE = 30
_THIN = 2


@frozen_value
class SyntheticData:
    """Synthetic data sets, with the account of the release behind them.

    A sequence of data sets. Each is a dictionary from the name of a column to an array of names of categories, which
    pandas.DataFrame, polars.DataFrame and pyarrow.table take.

    Parameters
    ----------
    codes : array of int, shape (m, size, columns)
        The codes of the categories of all records of all sets.
    columns : tuple of (str, tuple of str)
        The public columns with the names of their categories.
    posterior : PosteriorDraws
        The parameters "theta" from which the sets were drawn, one draw for each set, with the diagnostics of the
        sampler; and "size", the number of records in the data, if it was not public.
    """

    codes: NDArray[Any]
    columns: tuple[tuple[str, tuple[str, ...]], ...]
    posterior: PosteriorDraws

    @property
    def account(self) -> Accountant:
        """The account of the noisy tables: drawing from the posterior costs nothing more."""
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

    def __getitem__(self, place: int) -> Mapping[str, NDArray[Any]]:
        return {
            name: np.array(categories)[self.codes[place, :, column]]
            for column, (name, categories) in enumerate(self.columns)
        }

    def __iter__(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        return (self[place] for place in range(len(self)))


def synthesize(
    release: Release,
    *,
    m: int = 100,
    size: int | None = None,
    prior_std: float = 2.0,
    rng: np.random.Generator | None = None,
) -> SyntheticData:
    """Draw m synthetic data sets, each from one draw of the posterior given noisy marginal tables."""
    mechanism = getattr(release, "mechanism", None)
    if not isinstance(mechanism, NoisyMarginals):
        raise TypeError(f"release must be a Release of NoisyMarginals, got {type(mechanism or release).__name__}")
    source, sets, prior = generator(rng), positive_integer(m=m), positive(prior_std=prior_std)
    layout, public = mechanism.layout, mechanism.relation.n if isinstance(mechanism.relation, ReplaceOne) else None
    effects = effects_of(layout)
    counts = release["counts"]
    measured = measure(effects, layout, counts.mean(axis=0), mechanism.noise_std**2 / len(counts))
    model = LogLinearModel(effects, measured, public, prior)
    each = positive_integer(size=round(model.size_guess) if size is None else size)
    check_memory(sets * each * len(layout.columns), lower="m or size")
    mode = find_mode(model)
    sample = sample_posterior(mode, draws=-(-sets // _CHAINS), chains=_CHAINS, tune=_TUNE, thin=_THIN, rng=source)
    states = sample.states.reshape(-1, len(mode.state))[:sets]
    kind = np.min_scalar_type(max(layout.sizes) - 1)
    codes = np.empty((sets, each, len(layout.columns)), dtype=kind)
    for place, state in enumerate(states):
        codes[place] = model.tree.sample(model.distribution(model.split(state[None])[0]), each, source)
    posterior = PosteriorDraws(draws={"theta": states}, account=release.account, method=f"log-linear model; acceptance {sample.acceptance:.2f}")
    return SyntheticData(codes=codes, columns=layout.columns, posterior=posterior)
