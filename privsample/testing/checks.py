"""The check that the author of a mechanism runs."""

from collections.abc import Collection, Iterable
from typing import Any

from privsample._checks import positive_integer, probability
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.examples import Example
from privsample.testing import audits, releases, uses
from privsample.testing.accounts import ACCOUNT_LAWS
from privsample.testing.base import Broken, CheckedDistribution, Law, LawBroken, check_distributions, check_names, short
from privsample.testing.case import Case, datasets_of, example_of

_ADVICE = "see the error above; every law asks that a mechanism does its work for the case that is shown"


def _of_account(law: Law[Any]) -> Law[Case]:
    return Law(law.name, lambda case: law.check(case.mechanism.accountant), law.advice)


_LAWS: tuple[Law[Case], ...] = (
    Law("equal-values", uses.equal_values, _ADVICE),
    Law("account-of-fields", uses.account_of_fields, _ADVICE),
    Law("schema-first", releases.schema_first, _ADVICE),
    Law("draw-shape", releases.draw_shape, _ADVICE),
    Law("total-release", releases.total_release, _ADVICE),
    Law("empty-data", releases.empty_data, _ADVICE),
    Law("inputs-unchanged", releases.inputs_unchanged, _ADVICE),
    Law("own-generator", releases.own_generator, _ADVICE),
    Law("entropy-failure", releases.entropy_failure, _ADVICE),
    Law("validate", releases.validation, _ADVICE),
    *map(_of_account, ACCOUNT_LAWS),
    Law("calibrate", uses.calibration, _ADVICE),
    Law("composition", uses.composition, _ADVICE),
    Law("files", uses.files, _ADVICE),
    Law("ledger", uses.ledger, _ADVICE),
    Law("neighbours", audits.neighbours, _ADVICE),
    Law("audit", audits.audit, _ADVICE),
    Law("mutant", audits.mutant, _ADVICE),
)


def check_mechanism(
    subject: Mechanism | type[Mechanism] | Example,
    *,
    data: Any = None,
    wrong_data: Iterable[Any] = (),
    skip: Collection[str] = (),
    samples: int = 2_000,
    level: float = 1e-6,
    seed: int = 0,
) -> tuple[CheckedDistribution, ...]:
    """Check that a mechanism obeys the laws that hold for every mechanism, as the author of one does in a test.

    The laws: the mechanism is a value, and its account depends on its fields alone; a release takes every record,
    refuses other data before it draws, changes no input, has one shape, draws from the given generator alone, and is
    thrown away where the system gives no entropy; the account obeys the laws of `check_accountant`; calibrating,
    composing, saving, loading and paying by a ledger work; the worst neighbours are neighbours, an audit does not
    refute the account, and it catches the mutant. A check can show that a law is broken. It cannot prove that the
    account is true.

    Parameters
    ----------
    subject : Mechanism, class of mechanisms, or Example
        A class is checked by all its `examples()`. A mechanism that is one of these is audited with its mutant.
    data : optional
        A small dataset that `release` takes. By default, the datasets of `worst_neighbours()`.
    wrong_data : iterable
        Further data that `release` must refuse with a `SchemaError`.
    skip : collection of str
        Names of laws that are not to be checked.
    samples : int, default 2000
        Draws of an audit from each dataset where the density ratio is not known; else, and for the mutant, as many as
        the example says.
    level : float, default 1e-6
        The chance that a true account is called refuted.
    seed : int, default 0
        Of all draws but those of the ledger, so that a check gives the same result every time.

    Returns
    -------
    tuple of CheckedLaw
        The laws, in the order in which they were checked, with a note where one could not be.

    Raises
    ------
    LawBroken
        For the first law that is broken. The message names it, shows the case, and says what to do.
    TypeError
        If `subject` is none of these, or `data` must be given.
    ValueError
        If `skip` names something that is no law.

    Examples
    --------
    >>> import privsample as ps
    >>> from privsample.testing import check_mechanism
    >>> checked = check_mechanism(ps.GaussianMechanism(sensitivity=1, noise_std=2), data=3.0, skip=["files"])
    >>> [law.law for law in checked if not law.applied]
    ['empty-data', 'files', 'mutant']
    """
    settings: Any = {
        "wrong": tuple(wrong_data),
        "samples": positive_integer(samples=samples),
        "level": probability(level=level),
        "seed": seed,
    }
    skipped = check_names(skip, _LAWS)
    found: list[CheckedDistribution] = []
    for mechanism, example in _subjects(subject):
        try:
            datasets = datasets_of(mechanism, data)
        except Broken as broken:
            raise LawBroken("neighbours", short(mechanism), broken.seen, broken.advice) from broken.__cause__
        case = Case(mechanism=mechanism, example=example, data=datasets, **settings)
        found += check_distributions(_LAWS, case, short(mechanism), skipped)
    return tuple(found)


def _subjects(subject: Any) -> list[tuple[Mechanism, Example | None]]:
    if isinstance(subject, Example):
        return [(subject.mechanism, subject)]
    if isinstance(subject, Mechanism):
        return [(subject, example_of(subject))]
    if not (isinstance(subject, type) and issubclass(subject, Mechanism)):
        raise TypeError(f"subject must be a mechanism, a class of mechanisms or an Example, got {short(subject)}")
    examples = subject.examples()
    if not examples:
        raise LawBroken(
            "examples",
            subject.__name__,
            "examples() gives none, so there is nothing to check",
            "define the class method examples(), which returns a tuple of privsample.Example, each with a mutant; or "
            "check a mechanism: check_mechanism(mechanism, data=...)",
        )
    return [(example.mechanism, example) for example in examples]
