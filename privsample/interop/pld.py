"""Conversion of accounts to and from the privacy loss distributions (PLDs) of Google's dp_accounting."""

from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from privsample._checks import check_memory, positive, probability
from privsample._optional import require
from privsample.accounting.base import Accountant
from privsample.accounting.loss.grid_plan import upper_truncation
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.selection.ranks import ordered_pairs
from privsample.accounting.stated.losses import LossDistribution, LossDistributionAccountant, remove_excess_mass
from privsample.relations import AddRemove, Relation

_TINY = float(np.finfo(np.float64).tiny)
_ULP = float(np.finfo(np.float64).eps)
_MASS_TOLERANCE = 1e-9  # a smaller deficit of the total mass is a rounding error
_LEAST_LOG_TAIL = -600.0  # log of the smallest tail mass that is resolved


def from_pld(
    pld: Any,
    *,
    relation: Relation | None = None,
    ordered: bool | None = None,
) -> LossDistributionAccountant:
    """Convert a PrivacyLossDistribution of dp_accounting to an account.

    Parameters
    ----------
    pld : dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        A pessimistic estimate. Its distributions for removal and addition become the two directions of the account; a
        symmetric PLD bounds both directions.
    relation : AddRemove, ReplaceOne or ProfileEdge, optional
        Neighbouring relation for which the PLD was computed; a PLD does not record it. None: AddRemove().
    ordered : bool, optional
        Whether the relation determines which of two neighbours comes first, as for `PairAccountant`. None: True under
        AddRemove and False otherwise.

    Returns
    -------
    LossDistributionAccountant
        The account, with the assumption STATED, because the PLD is not verified.

    Raises
    ------
    ImportError
        If dp_accounting is not installed.
    TypeError
        If `pld` is not a PrivacyLossDistribution.
    ValueError
        If `pld` is an optimistic estimate, which is a lower bound, or if the sum of its masses is not one.

    Notes
    -----
    Rounding errors of an FFT can leave more mass at very negative losses than is possible for two distributions; the
    excess is moved to larger losses. A symmetric PLD dominates both directions, as documented by dp_accounting.

    Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022. Kind: exact, for the PLD.

    Examples
    --------
    >>> import privsample as ps
    >>> from dp_accounting.pld import privacy_loss_distribution
    >>> pld = privacy_loss_distribution.from_laplace_mechanism(2.0)
    >>> account = ps.from_pld(pld)
    >>> f"{float(account.epsilon(1e-2)):.4f} {pld.get_epsilon_for_delta(1e-2):.4f}"
    '0.4799 0.4799'
    """
    library = _library()
    if not isinstance(pld, library.privacy_loss_distribution.PrivacyLossDistribution):
        raise TypeError(f"pld must be a PrivacyLossDistribution of dp_accounting, got {type(pld).__name__}")
    chosen = AddRemove() if relation is None else relation
    first = _distribution(pld._pmf_remove)
    second = None if pld._symmetric else _distribution(pld._pmf_add)
    return LossDistributionAccountant(first=first, second=second, relation=chosen, ordered=ordered)


def _distribution(pmf: Any) -> LossDistribution:
    """Return one direction of a PLD, from the first to the last loss with positive mass."""
    if not pmf._pessimistic_estimate:
        raise ValueError("pld must be a pessimistic estimate: an optimistic one is a lower bound, not a guarantee")
    dense = pmf.to_dense_pmf()
    masses = np.maximum(np.asarray(dense._probs, dtype=np.float64), 0.0)
    losses = (dense._lower_loss + np.arange(len(masses))) * float(dense._discretization)
    infinite = max(float(dense._infinity_mass), 0.0)
    missing = 1.0 - infinite - float(masses.sum())  # truncated mass may have any loss, so it is counted as infinite
    infinite += missing if missing > _MASS_TOLERANCE else 0.0
    masses = remove_excess_mass(masses, infinite)  # rounding errors of compositions by FFT
    used = np.flatnonzero(masses)
    kept = slice(used[0], used[-1] + 1) if used.size else slice(0, 1)
    return LossDistribution(losses=losses[kept], masses=masses[kept], infinity_mass=infinite)


def to_pld(account: Accountant, *, discretization: float = 1e-4, tail_mass: float = 1e-15) -> Any:
    """Convert an account to a PrivacyLossDistribution of dp_accounting that dominates it.

    Connect-the-dots discretization: the privacy curve of the PLD interpolates that of the account linearly in e^epsilon
    between multiples of `discretization`. It is an upper bound, with an error of the order of the squared step.

    Parameters
    ----------
    account : Accountant
        Any account. Under AddRemove an account with two directions gives an asymmetric PLD. An account with only a
        Rényi curve is converted by the best order at each epsilon, which is loose.
    discretization : float, default 1e-4
        Grid step in nats, finite and > 0. Only PLDs with equal steps can be composed.
    tail_mass : float in [0, 1), default 1e-15
        Approximate probability of losses above the grid, which are counted as infinite.

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        A pessimistic estimate. Relation, unit and assumptions are not kept.

    Raises
    ------
    ImportError
        If dp_accounting is not installed.
    TypeError
        If `account` is not an Accountant.
    ValueError
        If an argument is out of range, or the grid would not fit into memory.

    Notes
    -----
    Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022 (connect-the-dots). Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.RandomizedResponseAccountant(log_odds=1.0, categories=3, relation=ps.ReplaceOne(n=10))
    >>> pld = ps.to_pld(account)
    >>> f"{float(account.epsilon(1e-2)):.4f} {pld.get_epsilon_for_delta(1e-2):.4f}"
    '0.9825 0.9825'
    """
    library = _library()
    if not isinstance(account, Accountant):
        raise TypeError(
            f"account must be an Accountant, got {type(account).__name__}; for a mechanism pass mechanism.accountant"
        )
    step, tail = positive(discretization=discretization), probability(tail_mass=tail_mass)
    bounds = account.bounds
    pairs = ordered_pairs(bounds) if bounds.single_pairs is None else bounds.single_pairs
    return library.privacy_loss_distribution.PrivacyLossDistribution(*(_pmf(pair, step, tail) for pair in pairs))


def _pmf(pair: LossPair, step: float, tail: float) -> Any:
    """Return one direction of the PLD; independent releases are composed on the grid."""
    if not isinstance(pair, ProductPair) or len(pair.alternatives) > 1:
        return _discretized(pair, step, tail)
    members = [_discretized(member, step, tail).self_compose(times, tail) for member, times in pair.members]
    return reduce(lambda one, other: one.compose(other, tail), members)


def _discretized(pair: LossPair, step: float, tail: float) -> Any:
    """Return the masses of a dominating pair on the grid, rounded up so that the PLD stays pessimistic."""
    with np.errstate(divide="ignore"):
        goal = float(np.log(tail))
    high, low = (upper_truncation(side, max(goal, _LEAST_LOG_TAIL)) for side in (pair, pair.reverse()))
    first, last = int(np.floor(-low / step)), max(int(np.ceil(high / step)), 1)
    check_memory(last - first, lower="the range of the losses, or choose a larger discretization")
    nodes = np.arange(first, last + 1) * np.float64(step)
    log_p, log_infinite = pair.discretize(nodes)
    masses = np.exp(log_p) * (1.0 + 4 * _ULP * (1.0 + np.abs(np.maximum(log_p, -800.0))))
    infinite = min(float(np.exp(log_infinite)) + len(nodes) * _TINY, 1.0) if log_infinite > -np.inf else 0.0
    return _library().pld_pmf.DensePLDPmf(step, first, remove_excess_mass(masses, infinite), infinite, True)


def _library() -> Any:
    require("dp_accounting", "crosscheck", "a PLD")
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    return SimpleNamespace(pld_pmf=pld_pmf, privacy_loss_distribution=privacy_loss_distribution)
