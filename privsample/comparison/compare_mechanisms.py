"""Which of several mechanisms to choose: errors of their releases at one privacy target, over the same data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from privsample._checks import FloatArray, count_noun, generator, listed, mapping, positive_integer
from privsample.accounting.targets import Target, check_target
from privsample.comparison.question import Question
from privsample.comparison.questions import common_question
from privsample.comparison.table import Comparison, ComparisonTable, comparison_table
from privsample.errors import UnreachableTarget
from privsample.mechanisms.arguments import command_name
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.profiles.base import ProfileMechanism

Calibrations = Mapping[str, tuple[str, Callable[[], Any]]]  # name -> calibrated field, and the calibrated mechanism


def compare_mechanisms(
    mechanisms: Mapping[str, Mechanism] | Sequence[Mechanism],
    *,
    target: Target,
    data: Any = None,
    held_out: Any = None,
    simulations: int = 200,
    rng: np.random.Generator | None = None,
) -> ComparisonTable:
    """Compare mechanisms that answer the same question by the errors of their releases at one privacy target.

    Each mechanism is calibrated to the target. All of them then release from the same data, and the errors are
    compared in pairs. Mechanisms answer the same question if they select from the same candidates, release codes whose
    frequencies are estimated, predict labels (`LogisticPosterior`, `LangevinPosterior` with `LogisticLikelihood`, or
    gradient descent with a logistic loss), predict categories (private Gibbs samplers with noise or with tempered
    updates), or release a noisy statistic or sum. For an estimator, pass `estimator.mechanism_for(n, features)`.

    Parameters
    ----------
    mechanisms : mapping of str to Mechanism, or sequence of Mechanism
        Two mechanisms or more, by name. Without names, each has its name on the command line. The field that
        calibration chooses may have any value; it is the first free parameter whose field differs from its default.
    target : Target
        The privacy target: `DP`, `RDP` or `ZCDP`.
    data : object, or function of a numpy.random.Generator, optional
        Data as for `release`, or a function that simulates them. None simulates data that suit the question. For codes
        these are columns "profile" and "symbol" if one of the mechanisms is profile-based.
    held_out : object, or function of a numpy.random.Generator, optional
        Further records of the same form, whose labels or categories are predicted. Required with `data` where
        predictions are compared, else left out.
    simulations : int, default 200
        Number of releases of each mechanism, >= 1, each from simulated data of its own unless `data` are given.
    rng : numpy.random.Generator, optional
        Generator of the simulations; by default seeded by the operating system.

    Returns
    -------
    ComparisonTable
        One row for each mechanism, with its calibrated parameter, its error and their standard errors; NaN if it cannot
        meet the target, with the reason. `best` is the row with the smallest error, `rivals` are those whose excess
        over it is at most 3 of its standard errors, and `statement.sentence` states this. If `data` are given, the
        errors depend on them: the table is then not private.

    Raises
    ------
    TypeError
        If the mechanisms answer different questions or none, `target` is not a target, or data cannot be simulated.
    ValueError
        If there are fewer than two mechanisms, two have the same name, they cannot be given the same data, or
        `held_out` is missing.
    SchemaError
        If a mechanism does not take `data`.

    Notes
    -----
    The error of a selection is the expected regret, without sampling noise. Frequencies are unbiased estimates where
    the response does not depend on the profile, else the frequencies of the released symbols. The error of predictions
    is the mean log loss of held-out records, under probabilities that are averaged over the released draws. At equal
    epsilon, profile-based mechanisms protect the profile of a source, and randomized response each record.

    Examples
    --------
    >>> import numpy as np, privsample as ps
    >>> fields = {"candidates": ("red", "green", "blue"), "utility": ps.CountUtility(), "rate": 1}
    >>> table = ps.compare_mechanisms(
    ...     [ps.ExponentialMechanism(**fields), ps.PermuteAndFlip(**fields)],
    ...     target=ps.DP(epsilon=0.1, delta=0),
    ...     data=["red"] * 30 + ["green"] * 20,
    ... )
    >>> [(row.name, round(row.error, 2)) for row in table]
    [('exponential', 3.65), ('permute-and-flip', 2.46)]
    >>> table.best.name, table.rivals
    ('permute-and-flip', ())
    """
    named = _named(mechanisms)
    check_target(target)
    common_question(list(named.values()))  # before calibration, which takes time
    calibrations = {name: _calibration(made, target) for name, made in named.items()}
    return measured(calibrations, target, data=data, held_out=held_out, simulations=simulations, rng=rng)


def _calibration(made: Any, target: Target) -> tuple[str, Callable[[], Any]]:
    """The calibrated field of a mechanism, and a function that calibrates it and keeps all other fields."""
    free = _free_parameter(made)
    found = {one.name: getattr(made, one.name) for one in fields(made) if one.init}
    if free is not None and not free.from_field:
        del found[free.decides]
    if isinstance(made, ProfileMechanism):
        del found["matrices"]  # they are computed from the other fields
    by = None if free is None else free.name
    return "" if free is None else free.decides, lambda: type(made).calibrate(target=target, by=by, **found)


def _free_parameter(made: Any) -> FreeParameter | None:
    """The first free parameter whose field differs from its default, or the first of all."""
    defaults = {one.name: one.default for one in fields(made)}
    for free in made.free_parameters:
        default = defaults[free.decides]
        if default is MISSING or getattr(made, free.decides) != default:
            return free
    return next(iter(made.free_parameters), None)


def measured(
    calibrations: Calibrations,
    target: Target,
    *,
    data: Any = None,
    held_out: Any = None,
    simulations: int,
    rng: np.random.Generator | None,
) -> ComparisonTable:
    """The table of calibrated mechanisms. Raises as `compare_mechanisms` does."""
    simulations = positive_integer(simulations=simulations)
    source = generator(rng) if rng is not None else np.random.default_rng()
    rows, made = [], {}
    for name, (field, calibrate) in calibrations.items():
        amount, reason = np.nan, ""
        try:
            found = made[name] = calibrate()
            amount = getattr(found, field) if field and isinstance(getattr(found, field), int | float) else np.nan
        except UnreachableTarget as error:
            reason = str(error)
        rows.append(Comparison(name=name, parameter=field, amount=float(amount), reason=reason))
    if not made:
        return comparison_table(rows, {}, paired=True, simulations=simulations, title=target.description)
    question = common_question(list(made.values()))
    _check_held_out(question, data, held_out)
    return comparison_table(
        rows,
        _errors(question, made, data, held_out, simulations, source),
        paired=True,
        simulations=simulations,
        title=target.description,
        error=question.error,
        on_given_data=data is not None and not callable(data),
        relations=_differing_relations(made),
    )


def _differing_relations(made: Mapping[str, Any]) -> str:
    """The change of the data that each mechanism protects against, or "" if it is the same for all."""
    changes: dict[str, list[str]] = {}
    for name, mechanism in made.items():
        changes.setdefault(mechanism.accountant.relation.change, []).append(name)
    if len(changes) < 2:
        return ""
    return "; ".join(f"{', '.join(names)}: {change}" for change, names in changes.items())


def _errors(
    question: Question, made: Mapping[str, Any], data: Any, held_out: Any, simulations: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """The error of each mechanism in each simulation, by name."""
    errors = {name: np.empty(simulations) for name in made}
    if question.exact and data is not None and not callable(data):
        return {name: np.full(simulations, question.error_of(one, data, None, rng)) for name, one in made.items()}
    for k in range(simulations):
        if data is None:
            shared, further = question.simulate(list(made.values()), rng)
        else:
            one = data(rng) if callable(data) else data
            shared, further = [one] * len(made), held_out(rng) if callable(held_out) else held_out
        for (name, mechanism), own in zip(made.items(), shared, strict=True):
            errors[name][k] = question.error_of(mechanism, own, further, rng)
    return errors


def _check_held_out(question: Question, data: Any, held_out: Any) -> None:
    """Raise ValueError unless held-out records are given exactly where they are needed."""
    needed = question.held_out and data is not None
    if needed and held_out is None:
        raise ValueError("held_out must be given with data: records whose labels or categories are predicted")
    if held_out is not None and not needed:
        given = "without data, which are then simulated" if question.held_out else "where no predictions are compared"
        raise ValueError(f"held_out must be left out {given}")


def _named(mechanisms: Any) -> dict[str, Any]:
    """The mechanisms by name. Raises TypeError or ValueError."""
    if isinstance(mechanisms, Mapping):
        found = {str(name): made for name, made in mapping(mechanisms=mechanisms).items()}
    else:
        found = {}
        for made in listed(mechanisms=mechanisms):
            name = _name(made)
            if name in found:
                raise ValueError(
                    f"mechanisms must have different names, got {name} twice: pass a mapping of names to mechanisms"
                )
            found[name] = made
    for made in found.values():
        _check_mechanism(made)
    if len(found) < 2:
        raise ValueError(f"mechanisms must be at least two, got {count_noun(len(found), 'mechanism')}")
    return found


def _check_mechanism(made: Any) -> None:
    """Raise TypeError unless it is a mechanism, and say how to get one from an estimator."""
    if isinstance(made, Mechanism):
        return
    name = type(made).__name__
    if hasattr(made, "mechanism_for"):
        raise TypeError(
            f"mechanisms must be mechanisms, got the estimator {name}: pass estimator.mechanism_for(n, features)"
        )
    raise TypeError(f"mechanisms must be mechanisms, got {name}")


def _name(made: Any) -> str:
    """The name on the command line, with the calibrated parameter if the class has several."""
    _check_mechanism(made)
    free = _free_parameter(made)
    several = free is not None and len(made.free_parameters) > 1
    return f"{command_name(type(made))}:{free.name}" if free is not None and several else command_name(type(made))
