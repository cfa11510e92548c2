"""Calibration: search for the value of a free parameter with the largest cost within a target (directed rounding)."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from typing import Any, Literal, TypeVar

from privsample._value import frozen_value, set_fields
from privsample.accounting.base import Accountant
from privsample.accounting.targets import (
    Target,
    check_target,
    largest,
    require,
    smallest,
    unreachable,
    warn_of_large_delta,
)
from privsample.mechanisms.log_root import smallest_nearby

M = TypeVar("M")
Fields = Mapping[str, Any]


def amount_itself(amount: float, _: Fields) -> float:
    """The default `value` of a free parameter: the amount."""
    return amount


def inverse(amount: float, _: Fields) -> float:
    """A `value` for a field >= 1 whose cost falls as it grows: the search runs over its inverse in (0, 1]."""
    return 1.0 / amount


def _accountant(made: Any) -> Accountant:
    account: Accountant = made.accountant
    return account


@frozen_value
class FreeParameter:
    """A parameter that `calibrate` may choose, and how: by a search over one positive number, the amount.

    Parameters
    ----------
    name : str
        The name that `calibrate(by=...)` accepts.
    advice : str
        What to do if no amount meets the target; the last words of the error.
    direction : {"largest", "smallest", "fewest"}, default "largest"
        "largest": the cost increases with the amount, and the search finds the largest amount in (0, upper].
        "smallest": the cost decreases, and the search finds the least amount. "fewest": the cost decreases, and the
        search finds the least whole number >= 1.
    upper : float, default 1.0
        The largest amount that "largest" tries, > 0; "fewest" gives up above it.
    value : function of (amount, fields), optional
        The value of the field, given the amount and all other fields, defaults included. By default the amount itself.
    decides : str, default `name`
        The field that the search determines.
    from_field : bool, default False
        Whether `value` starts from what the caller passes for this field. If False, the caller must leave the field
        out.
    options : mapping of str to object, default empty
        Further keyword arguments of `calibrate`, with their defaults. They are not fields; they are passed to `value`.
    limit : function of (fields), optional
        An account that bounds the cost of every amount from below: if it misses the target, there is no search.
    trial : mapping of str to object, default empty
        Fields that replace the caller's during the search, for choices that do not affect the account.
    account : function of (mechanism), optional
        The account that the search reads. By default the mechanism's `accountant`.
    if_given : str, default ""
        What the search determines and what to do instead, for the error that is raised if the caller passes the field.
    approximate : function of (mechanism), optional
        An approximate account in closed form, where the account is expensive, or None. A search for the smallest amount
        then follows the approximation, reads a few accounts only, and uses the target up to a relative 6e-3.
    allowed : function of (fields), optional
        The largest amount that the other fields allow, for "largest". The search tries none above it, nor above
        `upper`.

    Examples
    --------
    >>> import privsample as ps
    >>> free = ps.DiffusedPosterior.free_parameters[0]
    >>> free.name, free.direction, free.upper
    ('data_weight', 'largest', 1.0)
    """

    name: str
    advice: str
    direction: Literal["largest", "smallest", "fewest"] = "largest"
    upper: float = 1.0
    value: Callable[[float, Fields], Any] = amount_itself
    decides: str = ""
    from_field: bool = False
    options: Fields = field(default_factory=dict)
    limit: Callable[[Fields], Accountant] | None = None
    trial: Fields = field(default_factory=dict)
    account: Callable[[Any], Accountant] = _accountant
    if_given: str = ""
    allowed: Callable[[Fields], float] | None = None
    approximate: Callable[[Any], Accountant | None] | None = None

    def __post_init__(self) -> None:
        for name in ("name", "decides"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a string, got {type(getattr(self, name)).__name__}")
        set_fields(self, decides=self.decides or self.name)


def calibrated(
    cls: type[M],
    parameters: tuple[FreeParameter, ...],
    target: Target,
    *,
    by: str | None,
    given: Fields,
    advice: str,
) -> M:
    """The instance of `cls` that meets the target with the best value of one free parameter, if it has any.

    Raises UnreachableTarget; TypeError for fields that are unknown or missing; ValueError for an unknown `by`. Warns
    with LargeDeltaWarning if the target's delta is at least 1/n and n is public.
    """
    check_target(target)
    made = _found(cls, parameters, target, by, given, advice)
    warn_of_large_delta(target, _accountant(made).relation, stacklevel=4)
    return made


def _found(
    cls: type[M], parameters: tuple[FreeParameter, ...], target: Target, by: str | None, given: Fields, advice: str
) -> M:
    """The instance of `calibrated`, from arguments that were checked."""
    free = _chosen(cls, parameters, by)
    known = _complete(cls, free, given)
    if free is None:
        made = cls(**given)
        require(target, _accountant(made), advice)
        return made
    if free.limit is not None:
        require(target, free.limit(known), free.advice)
    own = {name: item for name, item in given.items() if name not in free.options}

    def build(amount: float) -> M:
        return cls(**(own | dict(free.trial) | {free.decides: free.value(amount, known)}))

    upper = free.upper if free.allowed is None else min(free.upper, free.allowed(known))
    found = _searched(free, build, target, upper)
    return cls(**(own | {free.decides: getattr(found, free.decides)})) if free.trial else found


def _searched(free: FreeParameter, build: Callable[[float], M], target: Target, upper: float) -> M:
    match free.direction:
        case "largest":
            return largest(build, free.account, target, most=upper, advice=free.advice)
        case "smallest":
            if free.approximate is not None and free.approximate(build(1.0)) is not None:
                return smallest_nearby(build, free.account, free.approximate, target, advice=free.advice)
            return smallest(build, free.account, target, advice=free.advice)
        case "fewest":
            return _fewest(build, free.account, target, most=upper, advice=free.advice)


def _fewest(
    build: Callable[[float], M], account: Callable[[M], Accountant], target: Target, *, most: float, advice: str
) -> M:
    """The mechanism with the least whole number >= 1 that meets the target; the cost decreases with it."""
    failed, count = 0, 1
    while not target._met_as_reported(account(build(count))):
        if count >= most:
            raise unreachable(target, account(build(count)), advice)
        failed, count = count, 2 * count
    while count - failed > 1:
        middle = (failed + count) // 2
        failed, count = (failed, middle) if target._met_as_reported(account(build(middle))) else (middle, count)
    return build(count)


def _chosen(cls: type, parameters: tuple[FreeParameter, ...], by: str | None) -> FreeParameter | None:
    if not (by is None or isinstance(by, str)):
        raise TypeError(f"by must be the name of a free parameter, got {type(by).__name__}")
    for free in parameters:
        if by in (None, free.name):
            return free
    if by is None:
        return None
    names = " or ".join(repr(free.name) for free in parameters)
    expected = f"by must be {names}" if names else f"by must be left out, {cls.__name__} has no free parameter"
    raise ValueError(f"{expected}, got {by!r}")


def _complete(cls: type, free: FreeParameter | None, given: Fields) -> Fields:
    """All fields except the one that is searched for: the caller's values, else the defaults. Raises TypeError."""
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} must be a frozen dataclass: calibrate reads its fields")
    listed = {item.name: item for item in fields(cls) if item.init}
    options: Fields = {} if free is None else free.options
    found = None if free is None or free.from_field else free.decides
    allowed = [name for name in listed if name != found]
    words = f"{cls.__name__} takes {', '.join([*allowed, *options])}"
    if found is not None:
        words += f"; calibrate determines {found}"
    for name in given:
        if free is not None and name == found and free.if_given:
            raise TypeError(f"{name} must be left out of calibrate: {free.if_given}")
        if name not in allowed and name not in options:
            raise TypeError(f"{name} must be left out of calibrate: {words}")
    complete = dict(options)
    for name in allowed:
        item = listed[name]
        if item.default is not MISSING:
            complete[name] = item.default
        elif item.default_factory is not MISSING:
            complete[name] = item.default_factory()
        elif name not in given:
            raise TypeError(f"{name} must be given to calibrate: {words}")
    return complete | dict(given)
