"""The table of what each mechanism assumes, in docs/limits.md, is that of the accounts."""

import re
from pathlib import Path

import privsample as ps
from privsample.accounting.assumptions import Assumption
from privsample.simulations.audit.catalogue import catalogue

PAGE = Path(ps.__file__).parents[1] / "docs" / "limits.md"
README = PAGE.parents[1] / "README.md"
STATED = {
    "TRUSTED_SENSITIVITY",
    "STATED",
    "KNOWN_PROFILES",
    "INDEPENDENT_PROFILES",
    "INDEPENDENT_OBSERVATIONS",
    "BOUNDED_SIZE",
    "FIXED_PARTS",
    "LISTED_KEYS",
    "WHOLE_UNITS",
}  # what a user states


def listed():
    """Mechanism -> (assumptions, the reason) of the table."""
    text = PAGE.read_text(encoding="utf-8").partition("## What each mechanism assumes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| ([^|]*)\|$", text, re.MULTILINE)
    return {name: (set(re.findall(r"[A-Z_]{5,}", assumed)), why.strip()) for name, assumed, why in rows}


def assumed():
    """Mechanism -> the assumptions of its examples."""
    found = {}
    for example in catalogue().values():
        names = {one.name for one in example.mechanism.accountant.assumptions}
        found.setdefault(type(example.mechanism).__name__, set()).update(names)
    return found


def test_the_table_is_that_of_the_accounts():
    table = {name: assumptions for name, (assumptions, _) in listed().items()}
    assert table == assumed()


def test_every_assumption_has_a_reason():
    for name, (assumptions, why) in listed().items():
        assert bool(assumptions) == bool(why), name
        assert assumptions <= {one.name for one in Assumption}


def test_the_mechanisms_of_the_readme_are_in_the_table():
    rows = README.read_text(encoding="utf-8").partition("## Mechanisms")[2].partition("\n## ")[0]
    named = {name for name in re.findall(r"`(\w+)`", rows) if name in dir(ps)}
    mechanisms = {name for name in named if issubclass(getattr(ps, name), ps.Mechanism)}
    assert len(mechanisms) > 25
    assert mechanisms <= set(listed())


def test_what_a_user_did_not_state_is_named():
    """Where more is assumed than a user stated, the statement says which condition it is."""
    for example in catalogue().values():
        account = example.mechanism.accountant
        for one in account.assumptions:
            if one.name not in STATED:
                assert one.value in ps.privacy_statement(account)
