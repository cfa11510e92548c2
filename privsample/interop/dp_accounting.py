"""Conversion of accounts to and from the events of Google's dp_accounting.

An event has a mechanism but no neighbouring relation, so the caller of a conversion states the relation. In
dp_accounting a noise multiplier is the noise over C, the largest norm of a record's value. Adding or removing a record
changes the sum by C. For replacing a record its accountants disagree: PLDAccountant uses a change of 2 C, RdpAccountant
uses C. Every conversion here uses the interpretation with the larger bound.
"""

import math
from typing import Any

import numpy as np

from privsample._checks import positive
from privsample._optional import require
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant, Composed
from privsample.accounting.guarantees import PureAccountant, ZCDPAccountant
from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
from privsample.accounting.randomized import RandomizedResponseAccountant
from privsample.accounting.subsampling.subsampled import SubsampledAccountant
from privsample.distributions.schemes import PoissonSampling, SamplingRule, WithoutReplacement, WithReplacement
from privsample.errors import RelationMismatch
from privsample.relations import AddRemove, Relation, ReplaceOne

_SUPPORTED = (
    "Gaussian and Laplace noise, randomized response, pure and zCDP guarantees, sums of these, and these on subsamples"
)


def to_dp_event(account: Accountant) -> Any:
    """Convert an account to a DpEvent of dp_accounting.

    The event does not keep the relation, the unit and the assumptions. A noise multiplier keeps only the ratio of noise
    to sensitivity: for a ReplaceOne account RdpAccountant gives equal numbers, and PLDAccountant larger ones. A pure
    guarantee becomes (xi, 0)-zCDP.

    Parameters
    ----------
    account : Accountant
        The account.

    Returns
    -------
    dp_accounting.DpEvent
        The event.

    Raises
    ------
    ValueError
        If no event describes the account.
    TypeError
        If `account` is not an Accountant.
    ImportError
        If dp_accounting is not installed.

    Examples
    --------
    >>> import privsample as ps
    >>> ps.to_dp_event(ps.GaussianAccountant(sensitivity=2.0, noise_std=3.0))
    GaussianDpEvent(noise_multiplier=1.5)
    """
    events = _events()
    match account:
        case GaussianAccountant(sensitivity=sensitivity, noise_std=noise_std):
            return events.GaussianDpEvent(noise_multiplier=noise_std / sensitivity)
        case LaplaceAccountant(sensitivity=sensitivity, scale=scale):
            return events.LaplaceDpEvent(noise_multiplier=scale / sensitivity)
        case RandomizedResponseAccountant(log_odds=log_odds, categories=categories):
            uniform = float(
                np.nextafter(categories / (_expm1(log_odds) + categories), 0.0)
            )  # rounded down: less noise gives a larger bound
            return events.RandomizedResponseDpEvent(noise_parameter=uniform, num_buckets=categories)
        case PureAccountant(stated_epsilon=0.0):
            return events.NoOpDpEvent()
        case PureAccountant(stated_epsilon=epsilon):
            return events.ZCDpEvent(rho=0.0, xi=epsilon)
        case ZCDPAccountant(rho=rho):
            return events.ZCDpEvent(rho=rho)
        case Composed(entries=((member, times),)):
            return _repeated_event(member, times, events)
        case Composed(entries=entries):
            return events.ComposedDpEvent(events=[_repeated_event(member, times, events) for member, times in entries])
        case SubsampledAccountant(base=base, scheme=scheme):
            return _sampled_event(to_dp_event(base), scheme, events)
        case _:
            raise _unsupported(account)


def _unsupported(account: object) -> Exception:
    name = type(account).__name__
    if not isinstance(account, Accountant):
        return TypeError(f"account must be an Accountant, got {name}; for a mechanism pass mechanism.accountant")
    return ValueError(f"account must be expressible as a DpEvent, got {name}; events exist for {_SUPPORTED}")


def _repeated_event(member: Accountant, times: int, events: Any) -> Any:
    event = to_dp_event(member)
    return event if times == 1 else events.SelfComposedDpEvent(event=event, count=times)


def _sampled_event(event: Any, scheme: SamplingRule, events: Any) -> Any:
    match scheme:
        case PoissonSampling(rate=rate):
            return events.PoissonSampledDpEvent(sampling_probability=rate, event=event)
        case WithoutReplacement(n=n, m=m):
            return events.SampledWithoutReplacementDpEvent(source_dataset_size=n, sample_size=m, event=event)
        case WithReplacement(n=n, m=m):
            return events.SampledWithReplacementDpEvent(source_dataset_size=n, sample_size=m, event=event)
        case _:
            raise ValueError(f"the sampling scheme must be expressible as a DpEvent, got {type(scheme).__name__}")


def from_dp_event(event: Any, *, relation: Relation | None = None, sensitivity: float | None = None) -> Accountant:
    """Convert a DpEvent of dp_accounting to an account.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The event.
    relation : Relation, optional
        Neighbouring relation of the account; None: AddRemove().
    sensitivity : float, optional
        Change of a noisy statistic between neighbours, finite and > 0, in units of the bound to which noise multipliers
        refer. None: 1 under AddRemove and 2 under ReplaceOne, as for a sum of bounded values; in a sample of fixed size
        records are replaced. Use 1 if multipliers already refer to the change by a replacement, as in `to_dp_event`.

    Returns
    -------
    Accountant
        The account, with the assumption STATED and, for noise, TRUSTED_SENSITIVITY. An event without a release becomes
        a pure guarantee of 0.

    Raises
    ------
    ValueError
        If no account describes the event, it has no guarantee, or its parameters are invalid.
    RelationMismatch
        If the event has no guarantee under this relation.
    TypeError
        If `event` is not a DpEvent, or `relation` is not a Relation.
    ImportError
        If dp_accounting is not installed.

    Examples
    --------
    >>> import privsample as ps
    >>> from dp_accounting import dp_event
    >>> account = ps.from_dp_event(dp_event.GaussianDpEvent(noise_multiplier=2.0))
    >>> account.sensitivity, account.noise_std
    (1.0, 2.0)
    """
    chosen = AddRemove() if relation is None else relation
    if not isinstance(chosen, Relation):
        raise TypeError(f"relation must be AddRemove or ReplaceOne, got {type(chosen).__name__}")
    each = None if sensitivity is None else positive(sensitivity=sensitivity)
    made = _account(event, chosen, each)
    if made is None:
        return PureAccountant(stated_epsilon=0.0, relation=chosen)
    return made.assuming(Assumption.STATED)


def _account(event: Any, relation: Relation, sensitivity: float | None) -> Accountant | None:
    """Return the account of the event, or None if nothing is released."""
    events = _events()
    match event:
        case events.SelfComposedDpEvent(count=0):
            return None
        case events.SelfComposedDpEvent(event=inner, count=count):
            made = _account(inner, relation, sensitivity)
            return None if made is None else count * made
        case events.ComposedDpEvent(events=parts):
            found = [_account(part, relation, sensitivity) for part in parts]
            entries = tuple((made, 1) for made in found if made is not None)
            return Composed(entries=entries) if entries else None
        case events.PoissonSampledDpEvent(sampling_probability=0.0):
            return None
        case events.PoissonSampledDpEvent(sampling_probability=rate):
            return _subsampled(event, PoissonSampling(rate=rate), relation, relation, sensitivity)
        case events.SampledWithoutReplacementDpEvent(source_dataset_size=n, sample_size=m):
            return _subsampled(
                event, WithoutReplacement(n=n, m=m), _sample_relation(m, relation), relation, sensitivity
            )
        case events.SampledWithReplacementDpEvent(source_dataset_size=n, sample_size=m):
            return _subsampled(event, WithReplacement(n=n, m=m), _sample_relation(m, relation), relation, sensitivity)
        case _:
            return _single_release(event, relation, sensitivity)


def _subsampled(
    event: Any, scheme: SamplingRule, within: Relation, relation: Relation, sensitivity: float | None
) -> Accountant | None:
    base = _account(event.event, within, sensitivity)
    return None if base is None else SubsampledAccountant(base=base, scheme=scheme, relation=relation)


def _sample_relation(m: int, relation: Relation) -> ReplaceOne:
    """Return the relation of the m records in a sample of fixed size."""
    return ReplaceOne(n=m, unit=getattr(relation, "unit", "record"))


def _single_release(event: Any, relation: Relation, sensitivity: float | None) -> Accountant | None:
    """Return the account of a single release, or None if nothing is released."""
    events = _events()
    change = sensitivity or (2.0 if isinstance(relation, ReplaceOne) else 1.0)
    match event:
        case events.NoOpDpEvent() | events.ZCDpEvent(rho=0.0, xi=0.0) | events.RandomizedResponseDpEvent(num_buckets=1):
            return None
        case events.GaussianDpEvent(noise_multiplier=noise):
            noise = positive(noise_multiplier=noise)
            return GaussianAccountant(sensitivity=change, noise_std=noise, relation=relation)
        case events.LaplaceDpEvent(noise_multiplier=noise):
            noise = positive(noise_multiplier=noise)
            return LaplaceAccountant(sensitivity=change, scale=noise, relation=relation)
        case events.RandomizedResponseDpEvent(noise_parameter=uniform, num_buckets=categories):
            return _randomized(uniform, categories, relation)
        case events.ZCDpEvent(rho=0.0, xi=epsilon):
            return PureAccountant(stated_epsilon=epsilon, relation=relation)
        case events.ZCDpEvent(rho=rho, xi=0.0):
            return ZCDPAccountant(rho=rho, relation=relation)
        case events.NonPrivateDpEvent():
            raise ValueError("event must have a privacy guarantee, got a NonPrivateDpEvent")
        case events.DpEvent():
            raise ValueError(f"event must be convertible to an account, got {event}; supported are {_SUPPORTED}")
        case _:
            raise TypeError(f"event must be a DpEvent of dp_accounting, got {type(event).__name__}")


def _randomized(uniform: float, categories: int, relation: Relation) -> Accountant | None:
    """Return the account of a uniform answer with probability `uniform`, and the true answer otherwise."""
    if not isinstance(relation, ReplaceOne):
        raise RelationMismatch(
            f"randomized response needs ReplaceOne, since it does not hide the presence of a record, got {relation}"
        )
    if not 0.0 < uniform <= 1.0:
        raise ValueError(f"noise_parameter must lie in (0, 1], got {uniform!r}: there is no guarantee at 0")
    odds = float(np.log1p(categories * (1.0 - uniform) / uniform))
    return RandomizedResponseAccountant(log_odds=odds, categories=categories, relation=relation) if odds else None


def _expm1(x: float) -> float:
    return math.expm1(x) if x < 700.0 else math.inf


def _events() -> Any:
    require("dp_accounting", "crosscheck", "an event")
    from dp_accounting import dp_event

    return dp_event
