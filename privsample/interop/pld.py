"""Accounts to and from the privacy loss distributions (PLDs) of Google's dp_accounting."""

from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np

from privsample._checks import check_memory, positive, probability
from privsample.accounting.base import Accountant
from privsample.accounting.loss.lattice_plan import reach
from privsample.accounting.loss.pair import LossPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.selection.ranks import ordered_pairs
from privsample.accounting.stated.losses import LossDistribution, LossDistributionAccountant, without_excess
from privsample.relations import AddRemove, Relation

_TINY = float(np.finfo(np.float64).tiny)
_ULP = float(np.finfo(np.float64).eps)
_TOTAL = 1e-9
_LEAST = -600.0  # log of the least tail that is told apart


def from_pld(
    pld: Any,
    *,
    relation: Relation | None = None,
    ordered: bool | None = None,
) -> LossDistributionAccountant:
    """The account of a PrivacyLossDistribution of dp_accounting.

    Parameters
    ----------
    pld : dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        A pessimistic estimate. Its two sides, for removal and for addition, become the two directions of the account;
        a PLD with one side bounds both orders of the neighbours.
    relation : AddRemove, ReplaceOne or ProfileEdge, optional
        AddRemove() unless said otherwise: the neighbouring relation that the PLD was made for; it names none itself.
    ordered : bool, optional
        Whether the relation tells removal from addition; as in PairAccountant.

    Returns
    -------
    LossDistributionAccountant
        What the PLD says is taken on trust (STATED).

    Raises
    ------
    ImportError
        Without dp_accounting.
    TypeError
        For anything but a PrivacyLossDistribution.
    ValueError
        For an optimistic estimate, which is a lower bound and no guarantee; for masses that do not add up to one.

    Notes
    -----
    Losses far below zero are raised where the rounding of an FFT left more mass there than two distributions can have.
    The two orders of a PLD with one side are each dominated by it, as dp_accounting says of a symmetric one.

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
    """One side of a PLD, from the first to the last loss that has a mass."""
    if not pmf._pessimistic_estimate:
        raise ValueError("pld must be a pessimistic estimate: an optimistic one is a lower bound, not a guarantee")
    dense = pmf.to_dense_pmf()
    masses = np.maximum(np.asarray(dense._probs, dtype=np.float64), 0.0)
    losses = (dense._lower_loss + np.arange(len(masses))) * float(dense._discretization)
    infinite = max(float(dense._infinity_mass), 0.0)
    lacking = 1.0 - infinite - float(masses.sum())  # what a truncation left out may have any loss
    infinite += lacking if lacking > _TOTAL else 0.0
    masses = without_excess(masses, infinite)  # compositions by FFT leave some
    used = np.flatnonzero(masses)
    kept = slice(used[0], used[-1] + 1) if used.size else slice(0, 1)
    return LossDistribution(losses=losses[kept], masses=masses[kept], infinity_mass=infinite)


def to_pld(account: Accountant, *, discretization: float = 1e-4, tail_mass: float = 1e-15) -> Any:
    """A PrivacyLossDistribution of dp_accounting that dominates this account.

    Its privacy curve joins the account's at the multiples of `discretization` by straight lines in e^epsilon: it is
    never below the account's, and above it by about the squared step.

    Parameters
    ----------
    account : Accountant
        Any account. Under AddRemove one that tells removal from addition gives a PLD with two sides. One that knows
        a Rényi curve only is converted by its best orders, which is loose.
    discretization : float, default 1e-4
        The grid's step in nats. PLDs must share it to be composed.
    tail_mass : float in [0, 1), default 1e-15
        About the probability of losses above the grid, which become infinite.

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        A pessimistic estimate. Relation, unit and assumptions are not kept.

    Raises
    ------
    ImportError
        Without dp_accounting.
    TypeError
        For anything but an account.
    ValueError
        For a step or a tail out of range, or so small a step that the grid would not fit into memory.

    Notes
    -----
    Source: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, Algorithm 1. Kind: upper bound.

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
        raise TypeError(f"account must be an account, got {type(account).__name__}; of a mechanism give .accountant")
    step, tail = positive(discretization=discretization), probability(tail_mass=tail_mass)
    bounds = account.bounds
    pairs = ordered_pairs(bounds) if bounds.single_pairs is None else bounds.single_pairs
    return library.privacy_loss_distribution.PrivacyLossDistribution(*(_pmf(pair, step, tail) for pair in pairs))


def _pmf(pair: LossPair, step: float, tail: float) -> Any:
    """One side of a PLD: independent releases are composed on the grid."""
    if not isinstance(pair, ProductPair) or len(pair.alternatives) > 1:
        return _discretized(pair, step, tail)
    members = [_discretized(member, step, tail).self_compose(times, tail) for member, times in pair.members]
    return reduce(lambda one, other: one.compose(other, tail), members)


def _discretized(pair: LossPair, step: float, tail: float) -> Any:
    """The masses of a dominating pair on the grid, rounded up."""
    with np.errstate(divide="ignore"):
        goal = float(np.log(tail))
    high, low = (reach(side, max(goal, _LEAST)) for side in (pair, pair.reverse()))
    first, last = int(np.floor(-low / step)), max(int(np.ceil(high / step)), 1)
    check_memory(last - first, lower="the reach of the losses, or choose a larger discretization")
    nodes = np.arange(first, last + 1) * np.float64(step)
    log_p, log_infinite = pair.discretize(nodes)
    masses = np.exp(log_p) * (1.0 + 4 * _ULP * (1.0 + np.abs(np.maximum(log_p, -800.0))))
    infinite = min(float(np.exp(log_infinite)) + len(nodes) * _TINY, 1.0) if log_infinite > -np.inf else 0.0
    return _library().pld_pmf.DensePLDPmf(step, first, without_excess(masses, infinite), infinite, True)


def _library() -> Any:
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError:
        raise ImportError("PLDs need dp_accounting: pip install 'privsample[crosscheck]'") from None
    return SimpleNamespace(pld_pmf=pld_pmf, privacy_loss_distribution=privacy_loss_distribution)
