"""Requirements on a release: it accepts every record, has a fixed form, and uses the given generator only."""

import copy
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privsample._entropy import SystemBits
from privsample.errors import SchemaError
from privsample.mechanisms.notes import CuratorNotes
from privsample.relations import AddRemove, ReplaceOne
from privsample.testing.base import NotApplicable, Violation, require, short
from privsample.testing.case import Case, Outcome, form_of, outcome, reads_records, rebuilt
from privsample.testing.content import odd_cases, same_content, with_one_more, without_records

_REPEATS, _PATIENCE = 20, 1_000
_FEW = 3  # generators that are enough for real numbers, which agree by chance with negligible probability
_FINE = 10  # no multiple of 2^-10 is among draws that count as real numbers


def total_release(case: Case) -> None:
    """Check that no value of a record makes `release` fail, warn, refuse the data, or draw NaN or infinity."""
    looked = 0
    for data in case.datasets:
        for odd in odd_cases(data):
            ordinary = outcome(case.mechanism, odd.ordinary, case.rng(), "ordinary records")
            found = outcome(case.mechanism, odd.odd, case.rng(), odd.description)
            looked += 1
            seen = f"for {odd.description}, {short(odd.odd)}, release "
            advice = (
                "let a public rule map every value of a record into the domain in _statistic: read_column "
                "converts values that are not numbers to NaN, and Domain.clean replaces NaN and values out of bounds"
            )
            require(
                found.refused == ordinary.refused,
                seen + f"{_result_text(found)}; with ordinary records it {_result_text(ordinary)}",
                advice,
            )
            require(found.warned <= ordinary.warned, seen + f"warned {sorted(found.warned - ordinary.warned)}", advice)
            require(
                found.finite or not ordinary.finite,
                seen + "drew NaN or an infinite number, which reveals the record",
                advice,
            )
            require(
                case.mechanism._draws_coords  # the names that are released are random, and so are the shapes
                or found.form == ordinary.form
                or not (found.form and ordinary.form),  # or there is no output
                seen + f"drew {found.form}; with ordinary records, {ordinary.form}",
                "let the shapes of the draws depend on the fields alone",
            )
    if not looked:
        raise NotApplicable("the data are not arrays of numbers; test release with unusual records in your own tests")


def _result_text(found: Outcome) -> str:
    """The result of a release for messages."""
    return "raised nothing" if found.refused is None else f"raised SchemaError({found.refused!r})"


def empty_data(case: Case) -> None:
    """Check that a dataset without records is accepted if the number of records is private."""
    if not isinstance(case.mechanism.accountant.relation, AddRemove):
        raise NotApplicable("the number of records is public")
    empty = [without_records(data) for data in case.datasets if reads_records(case.mechanism, data)]
    if not empty:
        raise NotApplicable(
            "the data are not an array of records, or one more record is refused; pass data as an array"
        )
    for data in empty:
        found = outcome(case.mechanism, data, case.rng(), "no records")
        require(
            found.refused is None and found.finite,
            f"for data without records release raised SchemaError({found.refused!r})"
            if found.refused
            else "for data without records release drew NaN or an infinite number",
            "under AddRemove the number of records is private, so accept a dataset without records",
        )


def schema_first(case: Case) -> None:
    """Check that data of a wrong schema raise SchemaError before any draw, without revealing a record."""
    outcome(
        case.mechanism, object(), case.rng(), "an object that is no data"
    )  # it may also be accepted, as an invalid number
    _refused(case, np.zeros((1,) * 7), "an array with seven axes")
    for data in case.wrong:
        _refused(case, data, "wrong_data")
    if isinstance(case.mechanism.accountant.relation, ReplaceOne):
        for data in case.datasets:
            more = [with_one_more(data, record) for record in (None, 0.0, np.nan, 1e300)]
            messages = {_refused(case, one, "one record too many") for one in more if one is not None}
            require(
                len(messages) <= 1,
                f"the message for one record too many depends on the record: {short(sorted(messages), 400)}",
                "name public facts only in a SchemaError",
            )


def _refused(case: Case, data: Any, words: str) -> str:
    """The message of the SchemaError that these data raise. Raises Violation if there is none."""
    rng = case.rng()
    before = copy.deepcopy(rng.bit_generator.state)
    advice = "check the form of the data in _statistic and raise privsample.errors.SchemaError there"
    message = None
    try:
        case.mechanism.release(data, rng=rng)
    except SchemaError as error:
        message = str(error)
    except Exception as error:
        seen = f"for {words}, {short(data)}, release raised {type(error).__name__}: {error}; SchemaError was expected"
        raise Violation(seen, advice) from error
    if message is None:
        raise Violation(f"release took {words}, {short(data)}; SchemaError was expected", advice)
    require(
        same_content(before, rng.bit_generator.state),
        f"release drew from rng before it refused {words}, {short(data)}",
        advice,
    )
    return message


def draw_shape(case: Case) -> None:
    """Check that shapes and types of the draws do not depend on the data; the first axis is the number of draws."""
    if case.mechanism._draws_coords:
        raise NotApplicable("the names that are released are random, and so is their number; the account covers both")
    forms: dict[Any, Any] = {}
    for data in case.datasets:
        for stream in range(3):
            release = case.mechanism.release(copy.deepcopy(data), rng=case.rng(stream))
            if release.draws:  # an empty release is covered by the account
                forms.setdefault(form_of(release), data)
    require(
        len(forms) <= 1,
        "draws differ in name, shape or type: "
        + "; ".join(f"{form} for {short(data, 80)}" for form, data in forms.items()),
        "let names, shapes and types of the draws depend on the fields alone: a shape that depends on data reveals it",
    )
    count = getattr(case.mechanism, "draws", None)
    if forms and isinstance(count, int):
        sizes = {shape[0] for _, shape, _ in next(iter(forms))}
        require(
            sizes == {count},
            f"the first axis of the draws must have length draws = {count}, got {sorted(sizes)}",
            "return arrays of shape (draws, ...) from _draw",
        )


def inputs_unchanged(case: Case) -> None:
    """Check that a release changes neither its data nor the result of `_statistic`."""
    for data in case.datasets:
        held = copy.deepcopy(data)
        statistic = case.mechanism._statistic(held)
        require(
            same_content(held, data),
            f"_statistic changed its data, {short(data)}, to {short(held)}",
            "work on a copy of the data",
        )
        before = copy.deepcopy(statistic)
        case.mechanism._draw(statistic, case.rng())
        require(
            same_content(statistic, before),
            f"_draw changed its statistic, {short(before)}, to {short(statistic)}, so a second draw would differ",
            "add out of place in _draw: noise + statistic, not statistic += noise",
        )
        require(same_content(held, data), f"_draw changed the data, {short(data)}", "work on a copy of the data")


def own_generator(case: Case) -> None:
    """Check that all randomness comes from the given generator."""
    advice = "use only the rng that is passed to _draw"
    data = case.datasets[0]

    def drawn(stream: int) -> Any:
        return dict(case.mechanism.release(copy.deepcopy(data), rng=case.rng(stream)).draws)

    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    for stream in range(_repeats(case)):
        one, other = drawn(stream), drawn(stream)
        require(
            same_content(one, other),
            f"two equal generators gave different draws, {short(one)} and {short(other)}",
            advice,
        )
    touched = not same_content(numpy_state, np.random.get_state())  # noqa: NPY002
    touched = touched or python_state != random.getstate()
    np.random.set_state(numpy_state)  # noqa: NPY002
    random.setstate(python_state)
    require(not touched, "a release changed the state of the global generator of numpy.random or random", advice)
    first = drawn(0)
    require(
        any(not same_content(first, drawn(stream)) for stream in range(1, _PATIENCE)),
        f"{_PATIENCE:,} different generators all gave the same draws, {short(first)}",
        advice,
    )


def no_memory(case: Case) -> None:
    """Check that a release does not depend on the data of the release before it."""
    if len(case.datasets) < 2:
        raise NotApplicable("there is only one dataset; pass other data of the same schema to compare two orders")
    repeats = _repeats(case)
    for first, second in ((0, 1), (1, 0)):
        for mechanism in (case.mechanism, rebuilt(case.mechanism)):
            _, before, again = (_drawn(case, mechanism, second, repeats) for _ in range(3))
            _drawn(case, mechanism, first, repeats)
            after = _drawn(case, mechanism, second, repeats)
            require(
                same_content(before, after) or not same_content(before, again),  # `own_generator` reports the latter
                f"equal generators gave {short(after)} from {short(case.data[second])} after a release from "
                f"{short(case.data[first])}, and {short(before)} otherwise",
                "keep nothing of the data in the mechanism, its class or its module: a later release would reveal it",
            )


def _repeats(case: Case) -> int:
    """How many generators to compare draws with: few if a few releases from each dataset are all of real numbers."""
    drawn = [draws for place in range(len(case.data)) for draws in _drawn(case, case.mechanism, place, _FEW)]
    return _FEW if all(draws and all(map(_is_real, draws.values())) for draws in drawn) else _REPEATS


def _is_real(array: NDArray[Any]) -> bool:
    """Whether all draws are finite floating-point numbers off a coarse grid."""
    if array.dtype.kind != "f" or not np.isfinite(array).all():
        return False
    return bool(np.all(array % 2.0**-_FINE != 0.0))


def _drawn(case: Case, mechanism: Any, place: int, repeats: int) -> Any:
    """The draws of releases from one of the datasets, one for each generator."""
    streams = map(case.rng, range(repeats))
    return [dict(mechanism.release(copy.deepcopy(case.data[place]), rng=rng).draws) for rng in streams]


class _FailingBits(SystemBits):
    """A bit generator that simulates a failure of the operating system's entropy from the first word."""

    words = 0

    def __init__(self) -> None:
        super().__init__()
        self._stand_in = np.random.default_rng(0)

    def block(self, count: int) -> NDArray[np.uint64]:
        """Simulate a failure of the system's entropy."""
        self.failed = True
        _FailingBits.words += count
        return self._stand_in.integers(0, 1 << 64, size=count, dtype=np.uint64)

    def spawn(self, count: int) -> list[SystemBits]:
        """Return child generators that fail, too."""
        return [_FailingBits() for _ in range(count)]


def entropy_failure(case: Case) -> None:
    """Check that nothing is released if the operating system provides no entropy."""
    bits, before = _FailingBits(), _FailingBits.words
    try:
        case.mechanism.release(case.datasets[0], rng=np.random.Generator(bits))  # type: ignore[arg-type]
    except OSError:
        return
    raise Violation(
        f"release did not raise OSError after {_FailingBits.words - before} words without entropy",
        "draw from the rng that _draw is given itself, not from generators that it spawns; a class that sets "
        "_checks_entropy must call draw_with_entropy_check around each draw",
    )


def validation(case: Case) -> None:
    """Check that `validate` accepts and refuses the same data as `release`."""
    advice = "let validate read the data by the same function as _statistic, and return CuratorNotes"
    for data in case.datasets:
        for words, one in [("these data", data), *((odd.description, odd.odd) for odd in odd_cases(data))]:
            try:
                case.mechanism._statistic(copy.deepcopy(one))
            except SchemaError:
                continue
            try:
                notes = case.mechanism.validate(copy.deepcopy(one))
            except Exception as error:
                seen = f"release takes {words}, {short(one)}, and validate raised {type(error).__name__}: {error}"
                raise Violation(seen, advice) from error
            require(
                isinstance(notes, CuratorNotes),
                f"validate returned {type(notes).__name__}; CuratorNotes were expected",
                advice,
            )
    try:
        case.mechanism.validate(np.zeros((1,) * 7))
    except SchemaError:
        return
    except Exception as error:
        raise Violation(f"validate raised {type(error).__name__} for an array with seven axes", advice) from error
    raise Violation("validate took an array with seven axes; SchemaError was expected", advice)
