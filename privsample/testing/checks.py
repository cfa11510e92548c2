"""Check all requirements on a mechanism."""

from collections.abc import Collection, Iterable
from typing import Any

from privsample._checks import positive_integer, probability
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.examples import Example
from privsample.testing import audits, releases, uses
from privsample.testing.accounts import ACCOUNT_REQUIREMENTS
from privsample.testing.base import (
    CheckedRequirement,
    Requirement,
    RequirementViolated,
    Violation,
    check_requirements,
    check_skipped,
    short,
)
from privsample.testing.case import Case, datasets_of, example_of

_ADVICE = "see the error above; the mechanism must support the case shown there"


def _of_account(requirement: Requirement[Any]) -> Requirement[Case]:
    """The requirement on the account of a mechanism."""
    return Requirement(requirement.name, lambda case: requirement.check(case.mechanism.accountant), requirement.advice)


_REQUIREMENTS: tuple[Requirement[Case], ...] = (
    Requirement("equal-values", uses.equal_values, _ADVICE),
    Requirement("account-of-fields", uses.account_of_fields, _ADVICE),
    Requirement("schema-first", releases.schema_first, _ADVICE),
    Requirement("draw-shape", releases.draw_shape, _ADVICE),
    Requirement("total-release", releases.total_release, _ADVICE),
    Requirement("empty-data", releases.empty_data, _ADVICE),
    Requirement("inputs-unchanged", releases.inputs_unchanged, _ADVICE),
    Requirement("no-memory", releases.no_memory, _ADVICE),
    Requirement("own-generator", releases.own_generator, _ADVICE),
    Requirement("entropy-failure", releases.entropy_failure, _ADVICE),
    Requirement("validate", releases.validation, _ADVICE),
    *map(_of_account, ACCOUNT_REQUIREMENTS),
    Requirement("calibrate", uses.calibration, _ADVICE),
    Requirement("composition", uses.composition, _ADVICE),
    Requirement("files", uses.files, _ADVICE),
    Requirement("ledger", uses.ledger, _ADVICE),
    Requirement("neighbours", audits.neighbours, _ADVICE),
    Requirement("audit", audits.audit, _ADVICE),
    Requirement("many-draws", audits.many_draws, _ADVICE),
    Requirement("other-pairs", audits.other_pairs, _ADVICE),
    Requirement("mutant", audits.mutant, _ADVICE),
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
) -> tuple[CheckedRequirement, ...]:
    """Check that a mechanism satisfies the requirements on all mechanisms, for use in the tests of its author.

    The requirements: the mechanism is an immutable value, and its account depends on its fields only. A release accepts
    every record, refuses data of another schema before it draws, changes no input, has a fixed shape, does not depend
    on data of earlier releases, draws from the given generator only, and is discarded if the operating system gives no
    entropy. The account satisfies the requirements of `check_accountant`. Calibration, composition, saving, loading and
    the ledger work. The worst neighbours are neighbours. Audits of one release, of twelve times as many draws together,
    and of everything that is released from other datasets do not refute the account, and the first audit refutes the
    mutant. A check can find a violation; it cannot prove that the account is correct.

    Parameters
    ----------
    subject : Mechanism, class of mechanisms, or Example
        For a class, all its `examples()` are checked. A mechanism that is one of them is audited with its mutant.
    data : optional
        A small dataset that `release` takes. By default, the datasets of `worst_neighbours()`.
    wrong_data : iterable
        Further data for which `release` must raise `SchemaError`.
    skip : collection of str
        Names of requirements that are not checked.
    samples : int, default 2000
        Number of draws from each dataset in an audit with unknown density ratio, >= 1. Other audits, and that of the
        mutant, use the number given by the example.
    level : float, default 1e-6
        Probability in (0, 1) that the audit refutes a correct account.
    seed : int, default 0
        Seed of all draws except those of the ledger check, so that the result is reproducible.

    Returns
    -------
    tuple of CheckedRequirement
        The results in the order of the checks, with a note for each requirement that was not checked.

    Raises
    ------
    RequirementViolated
        For the first violation. The message names the requirement, the failing case and a correction.
    TypeError
        If `subject` has another type, or if `data` is needed but not given.
    ValueError
        If `skip` names something that is not a requirement.

    Examples
    --------
    >>> import privsample as ps
    >>> from privsample.testing import check_mechanism
    >>> checked = check_mechanism(ps.GaussianMechanism(sensitivity=1, noise_std=2), data=3.0, skip=["files"])
    >>> [requirement.requirement for requirement in checked if not requirement.applied]
    ['empty-data', 'files', 'other-pairs', 'mutant']
    """
    settings: Any = {
        "wrong": tuple(wrong_data),
        "samples": positive_integer(samples=samples),
        "level": probability(level=level),
        "seed": seed,
    }
    skipped = check_skipped(skip, _REQUIREMENTS)
    found: list[CheckedRequirement] = []
    for mechanism, example in _subjects(subject):
        try:
            datasets = datasets_of(mechanism, data)
        except Violation as broken:
            raise RequirementViolated("neighbours", short(mechanism), broken.seen, broken.advice) from broken.__cause__
        case = Case(mechanism=mechanism, example=example, data=datasets, **settings)
        found += check_requirements(_REQUIREMENTS, case, short(mechanism), skipped)
    return tuple(found)


def _subjects(subject: Any) -> list[tuple[Mechanism, Example | None]]:
    """The mechanisms to check, each with its example if it has one."""
    if isinstance(subject, Example):
        return [(subject.mechanism, subject)]
    if isinstance(subject, Mechanism):
        return [(subject, example_of(subject))]
    if not (isinstance(subject, type) and issubclass(subject, Mechanism)):
        raise TypeError(f"subject must be a mechanism, a class of mechanisms or an Example, got {short(subject)}")
    examples = subject.examples()
    if not examples:
        raise RequirementViolated(
            "examples",
            subject.__name__,
            "examples() returned no example to check",
            "define the class method examples(), which returns a tuple of privsample.Example, each with a mutant; or "
            "check a mechanism: check_mechanism(mechanism, data=...)",
        )
    return [(example.mechanism, example) for example in examples]
