"""Requirements on the use of a mechanism: value semantics, calibration, composition, files and the ledger."""

import copy
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from privsample._optional import is_installed
from privsample.accounting.assumptions import Assumption
from privsample.accounting.base import Accountant
from privsample.accounting.ledger import Ledger
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.targets import DP
from privsample.errors import BudgetExceeded, LargeDeltaWarning
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.release import Release
from privsample.relations import ProfileEdge
from privsample.testing.accounts import ORDERS, same_numbers, some_numbers
from privsample.testing.base import NotApplicable, Violation, require, short
from privsample.testing.case import Case, rebuilt

_DELTA = 1e-6
_NETCDF = ("arviz", "xarray", "h5netcdf", "h5py")
_THE_AMOUNT_ITSELF = FreeParameter(name="amount", advice="").value


def equal_values(case: Case) -> None:
    """Check that the mechanism is an immutable value: equal fields give equal mechanisms, also after pickling."""
    mechanism, advice = case.mechanism, "write @dataclass(frozen=True, kw_only=True) above the class"
    other = rebuilt(mechanism)
    require(other == mechanism, f"two mechanisms of equal fields are not equal: {short(mechanism)}", advice)
    try:
        require(hash(other) == hash(mechanism), "two equal mechanisms have different hashes", advice)
    except TypeError as error:
        raise Violation(
            f"the mechanism cannot be hashed: {error}", "use tuples in fields, not lists or dicts"
        ) from error
    for name, copied in (("copy", copy.deepcopy(mechanism)), ("pickled copy", pickle.loads(pickle.dumps(mechanism)))):
        require(copied == mechanism, f"a {name} of the mechanism is not equal to it", advice)
    for field in fields(mechanism):  # type: ignore[arg-type]
        try:
            setattr(mechanism, field.name, getattr(mechanism, field.name))
        except AttributeError:
            continue
        raise Violation(f"the field {field.name} can be set, which would change the account", advice)


def account_of_fields(case: Case) -> None:
    """Check that the account depends on the public fields only, and on no data or earlier release."""
    advice = "compute the accountant from the fields alone; _statistic and _draw must not store anything"
    mechanism = rebuilt(case.mechanism)
    before = mechanism.accountant
    require(
        isinstance(before, Accountant),
        f"accountant is a {type(before).__name__}",
        "return an Accountant from accountant",
    )
    require(
        mechanism.accountant == before,
        "two calls of accountant gave different accounts",
        advice + "; and make the accountant a frozen dataclass that compares by content",
    )
    numbers = some_numbers(before)
    for data in case.datasets:
        release = mechanism.release(copy.deepcopy(data), rng=case.rng())
        after, now = mechanism.accountant, rebuilt(case.mechanism).accountant
        for name, account in (("the mechanism's account", after), ("the account of an equal mechanism", now)):
            require(
                account == before,
                f"after a release from {short(data)} {name} is {short(account)}; before, it was {short(before)}",
                advice,
            )
        require(
            release.account == before.assuming(Assumption.RNG_FRESH),
            f"the release from {short(data)} has the account {short(release.account)}",
            advice,
        )
    # An account may take seconds to evaluate, so that its numbers are compared once, after all releases.
    found = some_numbers(rebuilt(case.mechanism).accountant)
    require(
        np.array_equal(found, numbers),
        f"after releases the account of an equal mechanism gives the numbers {short(found)}; before, {short(numbers)}",
        advice,
    )


def calibration(case: Case) -> None:
    """Check that `calibrate` meets its target at least as well as this mechanism."""
    mechanism = case.mechanism
    given = _non_default_fields(mechanism)
    own = mechanism.accountant
    delta = _DELTA if own.infinity_mass <= _DELTA / 2 else min(2 * own.infinity_mass, 0.5)
    epsilon = float(own.epsilon(delta))
    if not 0.0 < epsilon < np.inf:
        raise NotApplicable(f"the account has epsilon = {epsilon:g} at delta = {delta:g}: there is no finite target")
    target = DP(epsilon=epsilon * (1 + 1e-6), delta=delta)
    known = [free for free in mechanism.free_parameters if getattr(mechanism, free.decides) is not None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LargeDeltaWarning)  # the example may have few records
        _check_calibrations(case, known, given, target)


def _check_calibrations(case: Case, known: list[FreeParameter], given: Mapping[str, Any], target: DP) -> None:
    """Check the calibration of each known free parameter, or of a mechanism without any."""
    mechanism = case.mechanism
    if not mechanism.free_parameters:
        require(
            type(mechanism).calibrate(target=target, **given) == mechanism,
            f"without free parameters calibrate did not give the mechanism itself, which meets {target.description}",
            "change __post_init__ so that it accepts the fields of an existing mechanism unchanged",
        )
    for free in known:
        _calibrated(case, free, given, target)


def _non_default_fields(mechanism: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults; of two exclusive fields one is at its default."""
    given = {field: getattr(mechanism, field.name) for field in fields(mechanism) if field.init}
    return {field.name: item for field, item in given.items() if field.default is MISSING or field.default != item}


def _calibrated(case: Case, free: FreeParameter, given: Mapping[str, Any], target: DP) -> None:
    """Calibrate one free parameter and check that the result meets the target at least as well."""
    asked = f"calibrate(target={target.description}, by={free.name!r}) "
    advice = f"check direction, upper, decides and value of FreeParameter(name={free.name!r})"
    others = {name: item for name, item in given.items() if free.from_field or name != free.decides}
    try:
        found = type(case.mechanism).calibrate(target=target, by=free.name, **others)
    except ValueError as error:
        if free.decides != free.name:  # the field may have another type than the calibrated values
            return
        raise Violation(f"{asked}failed: {error!s}; but {short(case.mechanism)} meets this target", advice) from error
    cost = float(found.accountant.epsilon(target.delta))
    require(
        target.met_by(found.accountant) and cost <= target.epsilon * (1 + 1e-9),
        f"{asked}gave {short(found)}, which costs epsilon = {cost:.9g}",
        advice,
    )
    chosen, mine = getattr(found, free.decides), getattr(case.mechanism, free.decides)
    if not (isinstance(chosen, (int, float)) and isinstance(mine, (int, float))):
        return
    if free.value is not _THE_AMOUNT_ITSELF:
        return  # the amount may be on another scale with the opposite direction
    better = chosen >= mine * (1 - 1e-6) if free.direction == "largest" else chosen <= mine * (1 + 1e-6)
    ended = chosen == free.upper or free.allowed is not None  # another limit than the target may end the search
    tight = free.direction == "fewest" or ended or cost >= 0.99 * target.epsilon
    require(
        better and tight,
        f"{asked}gave {free.decides} = {chosen!r}, which costs epsilon = {cost:.6g}; the mechanism's own "
        f"{mine!r} meets the target, too",
        advice,
    )


def composition(case: Case) -> None:
    """Check composition with a Gaussian account: no smaller bound, and the same relation and assumptions."""
    own = _independent(case.mechanism.accountant)
    try:
        gaussian = _independent(GaussianAccountant(sensitivity=1.0, noise_std=5.0, relation=own.relation))
    except (TypeError, ValueError) as error:
        raise NotApplicable(f"no Gaussian mechanism has this relation: {error}") from None
    both = own + gaussian
    cost, least = float(both.epsilon(_DELTA)), float(own.epsilon(_DELTA))
    require(
        cost >= least * (1 - 1e-9),
        f"composition with a Gaussian account lowers epsilon at delta = {_DELTA:g} from {least:.9g} to {cost:.9g}",
        "check the bounds of the accountant: dominating pairs must dominate every pair of neighbours",
    )
    require(
        np.all(both.rdp(ORDERS) >= own.rdp(ORDERS) * (1 - 1e-9)),
        "composition with a Gaussian account lowers the Rényi curve",
        "check the Rényi curve of the accountant's bounds",
    )
    require(
        own.assumptions <= both.assumptions and both.relation == own.relation,
        "composed with a Gaussian, assumptions are missing or the relation differs",
        "keep relation and assumptions as fields of the accountant",
    )


def _independent(account: Accountant) -> Accountant:
    """Return an account that composes: under ProfileEdge observations must be assumed independent."""
    if isinstance(account.relation, ProfileEdge):
        return account.assuming(Assumption.INDEPENDENT_OBSERVATIONS)
    return account


def files(case: Case) -> None:
    """Check that a saved release loads as an equal release, as JSON and, if h5netcdf is installed, as netCDF."""
    advice = (
        'register the classes: privsample.register(package="...") above @dataclass, for the mechanism, its accountant '
        "and every value in their fields"
    )
    release = case.mechanism.release(case.datasets[0], rng=case.rng())
    with TemporaryDirectory() as folder:
        endings = ["json", "nc"] if release.draws and all(map(is_installed, _NETCDF)) else ["json"]
        for ending in endings:
            path = Path(folder) / f"release.{ending}"
            try:
                release.save(path)
                loaded = Release.load(path)
            except (TypeError, ValueError) as error:
                raise Violation(f"a release cannot be saved and loaded as .{ending}: {error}", advice) from error
            require(
                loaded == release and loaded.mechanism == case.mechanism and loaded.account == release.account,
                f"a release that was saved as .{ending} is not equal to the loaded release: {short(loaded)}",
                advice,
            )
            require(
                same_numbers(loaded.account, release.account),
                f"the account of a release that was saved as .{ending} gives other numbers",
                advice,
            )


def ledger(case: Case) -> None:
    """Check that a ledger records a release, and refuses one that the budget does not cover."""
    mechanism, account = case.mechanism, case.mechanism.accountant
    if isinstance(account.relation, ProfileEdge):
        raise NotApplicable("accounts under ProfileEdge compose only if observations are assumed independent")
    delta = _DELTA if account.infinity_mass <= _DELTA / 4 else min(4 * account.infinity_mass, 0.9)
    cost = float(account.epsilon(delta / 2))
    if not 0.0 < cost < np.inf:
        raise NotApplicable(f"the account has epsilon = {cost:g} at delta = {delta / 2:g}: no finite budget covers it")
    with TemporaryDirectory() as folder:
        names: Any = {"relation": account.relation, "dataset": "checked"}
        if account.infinity_mass > 0.0:
            names["approximate_share"] = 0.5
        ledger = Ledger(Path(folder) / "ledger.db", budget=DP(epsilon=20 * cost + 20, delta=delta), **names)
        advice = "register the accountant: privsample.register; and check relation and Rényi curve of its bounds"
        require(
            ledger.fits(account),
            f"a budget of {ledger.budget.description} does not cover an account of {cost:g}",
            advice,
        )
        release = ledger.release(mechanism, case.datasets[0])
        require(
            release.account == account and len(ledger.history()) == 1 and ledger.spent() > 0,
            f"after one release the ledger holds {len(ledger.history())} entries and {ledger.spent():g} spent",
            advice,
        )
        again = Ledger(Path(folder) / "ledger.db")
        require(again.spent() == ledger.spent(), "the reopened ledger has another total", advice)
        small_ledger = Ledger(
            Path(folder) / "small_ledger.db", budget=DP(epsilon=cost / 100, delta=delta / 100), **names
        )
        try:
            small_ledger.release(mechanism, case.datasets[0])
        except BudgetExceeded:
            return
        raise Violation(
            f"a ledger with a budget of {small_ledger.budget.description} accepted an account of epsilon = {cost:g}",
            advice,
        )
