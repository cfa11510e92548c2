"""Which tests of this folder `make test` runs on the other generation of PyMC and ArviZ: those that are marked."""

import ast
import inspect
from pathlib import Path

import pytest

import privsample.pymc
from privsample.interop import arviz, pymc, pymc_records

# What users call, and what privsample calls of the modules that import PyMC or ArviZ.
METHODS = ("mcmc", "to_arviz", "save", "load")
MODULES = (arviz, pymc, pymc_records)
CALLED = {"check_name": "to_arviz", "sample_noise_aware": "mcmc"}  # each by the other


def public_names():
    own = [
        name
        for module in MODULES
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    return sorted({*privsample.pymc.__all__, *own, *METHODS} - CALLED.keys())


def marked_sources():
    """The names that a marked test uses, itself or through the functions and constants of its file."""
    folder = Path(__file__).parent
    files = [*folder.glob("test_pymc*.py"), *folder.glob("test_arviz*.py")]
    return set().union(*(names_of_marked_tests(ast.parse(file.read_text(encoding="utf-8"))) for file in files))


def names_of_marked_tests(tree):
    defined, marked = {}, []
    whole = any(
        isinstance(node, ast.Assign) and "pytestmark" in names_in(node) and "generations" in names_in(node)
        for node in tree.body
    )
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            defined[node.name] = node
            decorators = set().union(*map(names_in, node.decorator_list), set())
            chosen = (whole or "generations" in decorators) and not decorators & {"statistical", "long"}
            if node.name.startswith("test_") and chosen:
                marked.append(node)
        elif isinstance(node, ast.Assign):
            defined |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    used, left = set(), marked
    while left:
        found = names_in(left.pop()) - used
        used |= found
        left += [defined[name] for name in found if name in defined]
    return used


def names_in(node):
    """Names, attributes and arguments below a node; arguments name fixtures."""
    return {
        getattr(each, field)
        for each in ast.walk(node)
        for kind, field in ((ast.Name, "id"), (ast.Attribute, "attr"), (ast.arg, "arg"))
        if isinstance(each, kind)
    }


@pytest.mark.parametrize("name", public_names())
def test_each_public_function_is_in_a_test_of_both_generations(name):
    assert name in marked_sources()


def test_what_no_marked_test_uses_is_found():
    tree = ast.parse("""
def helper(): return first()

@pytest.mark.generations
def test_one(): helper()

def test_two(): second()

@pytest.mark.generations
@pytest.mark.long
def test_three(): third()
""")
    assert names_of_marked_tests(tree) & {"first", "second", "third"} == {"first"}
