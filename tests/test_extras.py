"""Optional packages: each is declared by an extra, and a use without it says which extra to install."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import privsample as ps
from privsample._compiled import compiled
from privsample._optional import DISTRIBUTIONS, MissingPackage, is_installed, require
from privsample.interop.arviz import read_netcdf

ROOT = Path(__file__).parents[1]
PACKAGE = Path(ps.__file__).parent
ALWAYS_THERE = {"privsample", *sys.stdlib_module_names}


@cache
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names(requirements):
    """The distributions of a list of requirements, extras of privsample itself followed."""
    found = set()
    for line in requirements:
        name, inside = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line).groups()
        if name == "privsample":
            for extra in inside.split(","):
                found |= of_extra(extra)
        else:
            found.add(name)
    return found


def of_extra(extra):
    return names(project()["optional-dependencies"][extra])


def distribution(module):
    return DISTRIBUTIONS.get(module, module.replace("_", "-"))


@cache
def sources():
    return {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


IMPORT = re.compile(r"^[ ]*(?:import ([A-Za-z_]\w*)|from ([A-Za-z_]\w*)[\w.]* import )", re.MULTILINE)
BY_NAME = re.compile(r'import_module\("([A-Za-z_]\w*)')


def imported(text):
    """The top-level names that a module imports, at its top, in a function or by `import_module`.

    Lines are read and not parsed, which takes a hundredth of the time; a line of a docstring may count, too.
    """
    return {
        name
        for found in (*IMPORT.findall(text), *BY_NAME.findall(text))
        for name in (found if isinstance(found, tuple) else (found,))
    } - {""}


def required(tree):
    """The packages and extras of calls of `require` whose arguments are written out, loops over names followed."""
    for node in ast.walk(tree):
        packages = []
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple):
            packages = [item.value for item in node.iter.elts if isinstance(item, ast.Constant)]
        inside = node.body if isinstance(node, ast.For) else []
        for call in (part for one in inside for part in ast.walk(one)):
            match call:
                case ast.Call(func=ast.Name(id="require"), args=[ast.Name(), ast.Constant(value=extra), *_]):
                    yield from ((package, extra) for package in packages)
        match node:
            case ast.Call(
                func=ast.Name(id="require"),
                args=[ast.Constant(value=str(package)), ast.Constant(value=str(extra)), *_],
            ):
                yield package, extra


def test_each_package_that_is_imported_is_declared():
    declared = names(project()["dependencies"]) | set().union(*map(of_extra, project()["optional-dependencies"]))
    seen = set()
    for path, text in sources().items():
        for module in imported(text) - ALWAYS_THERE:
            seen.add(module)
            assert distribution(module) in declared, f"{path} imports {module}: declare it in pyproject.toml"
    assert {"numpy", "pymc", "numba", "pyarrow", "h5py", "PIL", "nutpie", "distributed"} <= seen


def test_what_is_required_is_small_and_all_holds_every_extra_but_spark():
    assert names(project()["dependencies"]) == {"numpy", "scipy", "python-flint"}
    extras = set(project()["optional-dependencies"]) - {"all", "spark"}
    assert set().union(*map(of_extra, extras)) == of_extra("all")


def test_each_message_names_an_extra_that_installs_the_package():
    using = (text for text in sources().values() if re.search(r"import .*\brequire\b", text))
    found = {pair for text in using for pair in required(ast.parse(text))}
    assert len(found) > 20
    for package, extra in found:
        listed = of_extra(extra) if extra else names(project()["dependencies"])
        assert distribution(package) in listed, f"the extra {extra} does not install {package}"


def test_a_message_says_what_was_used_and_what_to_do():
    with pytest.raises(MissingPackage, match=r"^a table needs no-such, .* pip install 'privsample\[cli\]', or not$"):
        require("no-such", "cli", "a table", advice=", or not")
    require("numpy", "", "anything")
    assert not is_installed("no_such_package")


LAPLACE = ps.LaplaceMechanism(sensitivity=1, scale=1)
SUM = ps.GaussianSum(bounds=(0, 1), noise_std=9)
GROUPS = ps.by("place", SUM, keys=["a", "b"])


@cache
def arrow():
    return import_module("pyarrow").table({"x": [1.0], "place": ["a"]})


def noisy(datum, rng):
    return datum + rng.laplace()


def infer():
    model = ps.BetaBernoulli(alpha=1, beta=1)
    release = ps.NoisyStatistics(model=model, n=9, scale=2.0).release([0, 1, 1] * 3)
    return ps.infer(ps.PrivateStatistics(release=release), draws=2, tune=2, chains=1)


def one_run(train=lambda records, rng: None):
    return ps.audit_one_run(
        train, np.eye(9), claim=LAPLACE.accountant, guesses=5, score=lambda result, canary: float(canary @ canary)
    )


def engine(name, source=None):
    return ps.tally_source(source or arrow(), SUM, columns="x", engine=name)


USES = {
    "an estimator": ("sklearn", "learn", lambda: import_module("privsample.estimators")),
    "a distribution in PyMC": ("pymc", "bayes", lambda: import_module("privsample.pymc")),
    "infer, parallel": ("joblib", "bayes", infer),
    "infer, compiled": ("numba", "bayes", lambda: compiled(len)),
    "an audit in one run": ("joblib", "audit", one_run),
    "an audit of an estimator": ("sklearn", "audit", lambda: one_run(SimpleNamespace(fit=len))),
    "infer, one BLAS thread": ("threadpoolctl", "bayes", infer),
    "a model in PyMC": ("pymc", "bayes", lambda: ps.NormalMeanModel()({"y": np.zeros(2)})),
    "ArviZ": ("arviz", "bayes", lambda: LAPLACE.release(0.0).to_arviz()),
    "netCDF by xarray": ("xarray", "bayes", lambda: read_netcdf("r.nc")),
    "netCDF by h5netcdf": ("h5netcdf", "bayes", lambda: LAPLACE.release(0.0).save("r.nc")),
    "netCDF by h5py": ("h5py", "bayes", lambda: LAPLACE.release(0.0).save("r.nc")),
    "an event": ("dp_accounting", "crosscheck", lambda: ps.to_dp_event(LAPLACE.accountant)),
    "a PLD": ("dp_accounting", "crosscheck", lambda: ps.to_pld(LAPLACE.accountant)),
    "an audit": ("joblib", "audit", lambda: ps.audit(LAPLACE, samples=1000)),
    "a learned audit": (
        "sklearn",
        "audit",
        lambda: ps.audit(noisy, datasets=(0.0, 1.0), claim=LAPLACE.accountant, samples=1000),
    ),
    "a plot": ("matplotlib", "report", LAPLACE.accountant.plot),
    "numbers of an Arrow stream": ("pyarrow", "files", lambda: SUM.release(arrow()["x"])),
    "keys of an Arrow column": ("pyarrow", "files", lambda: GROUPS.tally((arrow()["place"], [1.0]))),
    "a tally in Arrow": ("pyarrow", "files", lambda: SUM.tally([1.0]).to_arrow()),
    "engine arrow": ("pyarrow", "files", lambda: engine("arrow", "x.parquet")),
    "engine duckdb": ("duckdb", "duckdb", lambda: engine("duckdb")),
    "engine polars": ("polars", "polars", lambda: engine("polars")),
    "engine dask": ("dask", "dask", lambda: engine("dask")),
    "engine spark": ("pyarrow", "spark", lambda: engine("spark")),
}


@pytest.mark.parametrize("use", USES)
def test_a_use_without_its_package_names_the_extra(use, monkeypatch, tmp_path):
    package, extra, call = USES[use]
    monkeypatch.chdir(tmp_path)
    arrow()
    for name in ("privsample.estimators", "privsample.pymc"):  # imported anew, and the old ones are put back
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in (package, "netCDF4"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackage) as caught:
        call()
    message = str(caught.value)
    assert f"needs {distribution(package)}, which is not installed" in message
    assert f"pip install 'privsample[{extra}]'" in message
    assert distribution(package) in of_extra(extra)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_spends_no_budget(monkeypatch, tmp_path):
    chains = ps.LogisticPosterior(n=3, features=1, norm=1, prior_std=1, sampler="nuts")
    budget = ps.DP(epsilon=50, delta=1e-6)
    ledger = ps.Ledger(tmp_path / "l", budget=budget, relation=chains.accountant.relation, dataset="d")
    plan = ledger.reserve([chains])
    monkeypatch.setitem(sys.modules, "pymc", None)
    data = (np.ones((3, 1)), np.ones(3))
    for call in (lambda: ledger.release(chains, data), lambda: plan.release(0, data), lambda: chains.release(data)):
        with pytest.raises(MissingPackage, match=r"privsample\[bayes\]"):
            call()
    assert len(ledger.history()) == 1
    monkeypatch.undo()
    plan.take(0)  # its one draw is left


def test_a_command_prints_the_message_as_one_line(monkeypatch, capsys):
    from privsample.cli import main

    monkeypatch.setitem(sys.modules, "joblib", None)
    assert main(["audit", "laplace", "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "pip install 'privsample[audit]'" in printed.err


def test_each_page_names_the_extras_that_its_examples_need():
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        code = "\n".join(re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", text, re.MULTILINE))
        # The package of docs/guides/extend.md, and the folder of a checkout that docs/guides/groups.md names.
        installed = names(project()["dependencies"]) | {"private-majority", "reproduction"}
        for extras, others in re.findall(r"pip install '(?:privsample|\.)\[([\w,]+)\]'((?: \w+)*)", text):
            installed |= set().union(*map(of_extra, extras.split(","))) | set(others.split())
        for module in imported(code) - ALWAYS_THERE:
            assert distribution(module) in installed, f"{page} imports {module}: name the extra at its start"


def test_the_tables_of_extras_are_whole():
    extras = set(project()["optional-dependencies"])
    guide, readme = ((ROOT / page).read_text(encoding="utf-8") for page in ("docs/guides/install.md", "README.md"))
    assert {extra for extra in extras if f"`{extra}`" in guide} == extras
    assert extras - {extra for extra in extras if f"`{extra}`" in readme} == {"duckdb", "polars", "dask"}


@pytest.mark.parametrize("tool", ["environment", "minimal_install"])
def test_an_interpreter_that_is_too_old_gets_one_line(tool):
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); sys.version_info = (3, 9, 1, 'final', 0); "
        f"runpy.run_path({str(ROOT / 'tools' / f'{tool}.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "privsample needs Python 3.11 to 3.14" in done.stderr
    assert "make test PYTHON=python3.12" in done.stderr
