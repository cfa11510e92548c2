"""Classes of other packages get tags, old tags are read, and what could not be loaded is not even written."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

import privsample as ps
from privsample import _registry, _renamed
from privsample._serial import decode, encode, storable
from privsample.errors import NotRegistered

ROOT = Path(ps.__file__).parents[1]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Each test has empty tables of its own."""
    monkeypatch.setattr(_registry, "_BY_CLASS", {})
    monkeypatch.setattr(_registry, "_BY_NAME", {})
    _registry._own.cache_clear()
    yield
    _registry._own.cache_clear()


@dataclass(frozen=True, kw_only=True)
class Shift:
    hours: float = 8.0
    place: str = "ward"


class Colour(Enum):
    RED = "#f00"


@dataclass(frozen=True, kw_only=True)
class Halving(ps.LipschitzMap):
    factor: float = 0.5

    @property
    def constant(self):
        return 1.0

    def __call__(self, x):
        return self.factor * x


def contraction(step=None):
    noise = ps.GaussianMechanism(sensitivity=1, noise_std=2)
    return ps.NoisyContraction(base=noise, steps=(ps.NoisyStep(map=step or Halving(), noise_std=1.0),))


def test_a_registered_value_goes_there_and_back():
    assert ps.register(Shift, package="clinic-shifts") is Shift
    ps.register(package="clinic-shifts", name="Paint", version=3)(Colour)
    document = json.loads(json.dumps(encode((Shift(hours=math.inf), Colour.RED))))
    assert document == [
        {"type": ["clinic-shifts", "Shift", 1], "hours": {"type": "float", "name": "inf"}, "place": "ward"},
        {"type": ["clinic-shifts", "Paint", 3], "name": "RED"},
    ]
    assert decode(document) == (Shift(hours=math.inf), Colour.RED)
    assert _registry.registered_classes()[-2:] == (Shift, Colour)


@pytest.mark.parametrize(
    "item",
    [
        None,
        True,
        3,
        -0.0,
        1e-320,
        "text",
        (1.0, (2, "x")),
        frozenset({1, 2}),
        {"a": (1, 2), 2.5: {}},
        -math.inf,
        ps.Assumption.TIMING,
        ps.DP(epsilon=1, delta=1e-6),
    ],
)
def test_plain_values_go_there_and_back(item):
    found = decode(json.loads(json.dumps(encode(item), allow_nan=False)))
    assert found == item
    assert type(found) is type(item)


def test_numbers_of_numpy_are_numbers():
    assert encode([np.float64(0.1), np.int32(3), np.bool_(True), np.str_("x"), np.arange(2)]) == [
        0.1,
        3,
        True,
        "x",
        [0, 1],
    ]
    assert encode(np.float32(np.inf)) == {"type": "float", "name": "inf"}


class Plain:
    """Neither a dataclass nor an Enum."""


@pytest.mark.parametrize("odd", [Plain(), Shift(), Colour.RED, b"x", 1j, np.complex128(1), np.longdouble(1), object()])
def test_what_could_not_be_loaded_is_not_written(odd):
    name = type(odd).__qualname__
    with pytest.raises(NotRegistered, match=rf"{name} is not registered, .*privsample\.register\({name}, package="):
        encode((1, [odd]))


def test_nan_and_functions_are_not_written():
    for nan in (math.nan, np.float32("nan")):
        with pytest.raises(ValueError, match="NaN cannot be saved"):
            encode(nan)
    for function in (len, lambda x: x, Plain):
        with pytest.raises(TypeError, match="a function cannot be saved"):
            encode(function)


def test_a_release_with_an_unregistered_part_is_drawn_and_not_saved(tmp_path):
    release = contraction().release(1.0)
    for write in (release.to_json, release.to_arviz, lambda: release.save(tmp_path / "release.json")):
        with pytest.raises(NotRegistered, match=r"Halving is not registered.*nothing was written"):
            write()
    assert list(tmp_path.iterdir()) == []
    ps.register(Halving, package="maps")
    release.save(tmp_path / "release.json")
    assert ps.Release.load(tmp_path / "release.json") == release


def test_a_plan_with_an_unregistered_mechanism_is_not_reserved(tmp_path):
    ledger = ps.Ledger(
        tmp_path / "a.ledger", budget=ps.DP(epsilon=9, delta=1e-6), relation=ps.AddRemove(), dataset="toy"
    )
    with pytest.raises(NotRegistered, match="Halving"):
        ledger.reserve([contraction()])
    assert ledger.history() == ()
    ps.register(Halving, package="maps")
    assert ledger.reserve([contraction()]).release(0, 1.0).mechanism == contraction()


@dataclass(frozen=True, kw_only=True)
class Listed(ps.LipschitzMap):
    """Its list comes back as a tuple."""

    numbers: list = field(default_factory=lambda: [0.5])
    constant = 1.0

    def __call__(self, x):
        return x


@dataclass(frozen=True)
class Forgetful:
    """It cannot be built from its fields."""

    seen: int

    def __init__(self):
        object.__setattr__(self, "seen", 1)


def test_a_value_that_would_come_back_different_is_not_written():
    for cls in (Listed, Forgetful):
        ps.register(cls, package="maps")
    for item in (Forgetful(), contraction(Listed())):
        with pytest.raises(ValueError, match=f"the {type(item).__name__} cannot be stored exactly"):
            storable(item)
    with pytest.raises(ValueError, match="stored exactly"):
        contraction(Listed()).release(1.0).to_json()


def test_an_older_version_is_upgraded_step_by_step():
    steps = {1: lambda f: {"minutes": f.pop("time"), **f}, 2: lambda f: {"hours": f.pop("minutes") / 60, **f}}
    ps.register(Shift, package="units", version=3, aliases=("Duty", "Turn"), upgrade=steps)
    for name, version, fields in [
        ("Duty", 1, {"time": 120}),
        ("Turn", 2, {"minutes": 120}),
        ("Shift", 3, {"hours": 2}),
    ]:
        document = {"type": ["units", name, version], "place": "home", **fields}
        assert decode(document) == Shift(hours=2, place="home")
    assert encode(Shift())["type"] == ["units", "Shift", 3]
    with pytest.raises(NotRegistered, match=r"a newer units: .*version 4 of Shift.*up to 3; upgrade units"):
        decode({"type": ["units", "Shift", 4]})
    with pytest.raises(ValueError, match="does not describe a Duty: 'time'"):
        decode({"type": ["units", "Duty", 1]})


def test_an_older_version_without_a_step_is_refused():
    ps.register(Shift, package="units", version=3, upgrade={1: dict})
    with pytest.raises(
        NotRegistered, match="version 2 of units's Shift, and no function is registered that upgrades it"
    ):
        decode({"type": ["units", "Shift", 1]})


def test_own_classes_can_be_renamed_and_their_fields_changed(monkeypatch):
    """As a later version of privsample would do it; the files are of both formats."""
    monkeypatch.setitem(_renamed.RENAMED, "Stated", "PureAccountant")
    monkeypatch.setitem(_renamed.UPGRADES, ("PureAccountant", 1), lambda f: {"stated_epsilon": f.pop("epsilon"), **f})
    pure = ps.PureAccountant(stated_epsilon=0.5)
    assert encode(pure)["type"] == ["privsample", "PureAccountant", 2]
    for tag in ("Stated", "PureAccountant", ["privsample", "Stated", 1], ["privsample", "PureAccountant", 1]):
        assert decode({"type": tag, "epsilon": 0.5}) == pure
    assert decode(encode(pure)) == pure
    with pytest.raises(NotRegistered, match=r"a newer privsample: .*version 3 of PureAccountant"):
        decode({"type": ["privsample", "PureAccountant", 3]})


def test_a_former_name_may_have_an_upgrade_of_its_own(monkeypatch):
    """Two classes that became one: the name in the file says which it was."""
    monkeypatch.setitem(_renamed.RENAMED, "HalfPure", "PureAccountant")
    monkeypatch.setitem(_renamed.UPGRADES, ("HalfPure", 1), lambda f: {"stated_epsilon": f["half"] * 2})
    assert decode({"type": "HalfPure", "half": 0.25}) == ps.PureAccountant(stated_epsilon=0.5)


@pytest.mark.parametrize(
    "tag", ["Ledger", "audit", "__all__", "os", "Nothing", 3, None, [], ["privsample", "Ledger", 1], ["x"],
            ["privsample", "DP", 0], ["privsample", "DP", True], ["privsample", "DP", "1"], [["a"], "b", 1]],
    ids=str,
)  # fmt: skip
def test_other_tags_are_refused(tag):
    with pytest.raises(NotRegistered, match=r"the document names .* not a class of this version of privsample"):
        decode({"type": tag})


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"package": "privsample"}, ValueError, "package must be the name of your own package"),
        ({"package": ""}, ValueError, "package must be a name of letters"),
        ({"package": "a b"}, ValueError, "package must be a name"),
        ({"package": 3}, ValueError, "package must be a name"),
        ({"version": 0}, ValueError, "version must be an integer >= 1, got 0"),
        ({"version": True}, ValueError, "version must be"),
        ({"version": 1.0}, ValueError, "version must be"),
        ({"name": "a/b"}, ValueError, "identifiers"),
        ({"aliases": ("x y",)}, ValueError, "identifiers"),
        ({"upgrade": {1: dict}}, ValueError, "upgrade must have keys from 1 to 0"),
        ({"version": 2, "upgrade": {2: dict}}, ValueError, "upgrade must have keys from 1 to 1"),
        ({"target": Plain}, TypeError, "only a dataclass or an Enum.*put @register above"),
        ({"target": Shift()}, TypeError, "only a dataclass or an Enum"),
    ],
)
def test_bad_registrations_are_refused(wrong, error, words):
    before = dict(_registry._BY_NAME)
    with pytest.raises(error, match=words):
        ps.register(**{"target": Shift, "package": "units", **wrong})
    assert before == _registry._BY_NAME


def test_a_field_must_leave_the_tag_its_place():
    @dataclass(frozen=True)
    class Typed:
        type: str

    with pytest.raises(ValueError, match="has a field 'type'"):
        ps.register(Typed, package="units")


def test_tags_that_collide_name_both_classes():
    ps.register(Shift, package="units", aliases=("Duty",))
    ps.register(Shift, package="units", aliases=("Duty",))  # once more
    ps.register(Colour, package="others", name="Shift")
    for names in ({"name": "Shift"}, {"name": "Duty"}, {"name": "New", "aliases": ("Duty",)}):
        with pytest.raises(ValueError, match=r"belongs to \S+\.Shift already, so \S+\.Colour cannot have it"):
            ps.register(Colour, package="units", **names)
    with pytest.raises(ValueError, match=r"Shift is registered as \('units', 'Shift'\) already.*aliases"):
        ps.register(Shift, package="units", name="Duty2")
    assert decode(encode(Shift())) == Shift()
    with pytest.raises(NotRegistered):
        decode({"type": ["units", "New", 1]})


def test_a_class_that_is_defined_anew_takes_the_place_of_the_former():
    """As where a cell of a notebook is run twice."""

    def define():
        @ps.register(package="notebook")
        @dataclass(frozen=True)
        class Cell:
            number: int

        return Cell

    former, present = define(), define()
    assert decode(encode(present(1))) == present(1)
    with pytest.raises(NotRegistered):
        encode(former(1))


EXTENSION = """
from dataclasses import dataclass
import privsample as ps

@ps.register(package="{package}")
@dataclass(frozen=True, kw_only=True)
class Turned(ps.LipschitzMap):
    angle: float
    constant = 1.0
    def __call__(self, x):
        return x
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a package with an entry point where Python looks for installed ones."""

    def install(name, module, text, declared=True):
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        if declared:
            (info / "entry_points.txt").write_text(f"[privsample.extensions]\n{name} = {module}\n")

    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_an_installed_extension_is_imported_when_a_file_needs_it(installed):
    installed("turning-maps", "turned_by_test", EXTENSION.format(package="turning-maps"))
    assert "turned_by_test" not in sys.modules
    found = decode({"type": ["turning-maps", "Turned", 1], "angle": 0.5})
    assert type(found).__module__ == "turned_by_test"
    assert encode(found) == {"type": ["turning-maps", "Turned", 1], "angle": 0.5}
    with pytest.raises(NotRegistered, match="names 'Other' of the package 'turning-maps', which does not register it"):
        decode({"type": ["turning-maps", "Other", 1]})


def test_a_file_never_imports_a_module_that_is_not_declared(installed):
    """Whatever a tag says: a module that can be imported is left alone unless it is declared under that very name."""
    installed("quiet", "undeclared_by_test", "raise SystemExit('imported')", declared=False)
    installed("turning-maps", "turned_by_test", EXTENSION.format(package="turning-maps"))
    for package in ("undeclared_by_test", "quiet", "turned_by_test", "os", "turning-maps:x", "privsample.cli", "."):
        with pytest.raises(NotRegistered, match="has not registered it, or is not installed"):
            decode({"type": [package, "Turned", 1]})
    assert not {"undeclared_by_test", "turned_by_test"} & set(sys.modules)


def test_extensions_can_be_loaded_at_once(installed):
    installed("turning-maps", "turned_by_test", EXTENSION.format(package="turning-maps"))
    assert "turning-maps" in ps.load_extensions()
    assert _registry.registered_classes()[-1].__name__ == "Turned"


def test_an_extension_that_cannot_be_imported_is_named(installed):
    installed("broken-maps", "broken_by_test", "1 / 0")
    words = "the installed package 'broken-maps' extends privsample, but .*ZeroDivisionError.*repair or uninstall"
    with pytest.raises(ImportError, match=words):
        ps.load_extensions()
    with pytest.raises(NotRegistered, match=words):
        decode({"type": ["broken-maps", "Turned", 1]})


def test_a_ledger_that_needs_an_extension_opens_in_another_process(installed, tmp_path):
    installed("turning-maps", "turned_by_test", EXTENSION.format(package="turning-maps"))
    turned = decode({"type": ["turning-maps", "Turned", 1], "angle": 0.5})
    path = tmp_path / "a.ledger"
    ledger = ps.Ledger(path, budget=ps.DP(epsilon=9, delta=1e-6), relation=ps.AddRemove(), dataset="toy")
    ledger.reserve([contraction(turned)])
    program = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(tmp_path)!r}]; import privsample as ps; "
        f"print(ps.Ledger({str(path)!r}).reservation(1).release(0, 1.0).mechanism.steps[0].map)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "Turned(angle=0.5)", done.stderr


def test_classes_of_privsample_keep_their_own_tag() -> None:
    """Else every later file of this process would name a package that nobody else has."""
    with pytest.raises(ValueError, match="GaussianMechanism is a class of privsample"):
        ps.register(ps.GaussianMechanism, package="other-package")
    assert (
        '"type": ["privsample", "GaussianMechanism", 2]'
        in ps.GaussianMechanism(sensitivity=1, noise_std=2).release(1.0).to_json()
    )


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": 2, "mechanism": ' + "[" * 100_000])
def test_text_that_is_nested_too_deep_is_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="not a complete release file"):
        ps.Release.from_json(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistered(ps.Mechanism):
    noise_std: float

    @property
    def accountant(self) -> ps.Accountant:
        return ps.GaussianAccountant(sensitivity=1, noise_std=self.noise_std)

    def _statistic(self, data: object) -> float:
        return float(data)  # type: ignore[arg-type]

    def _draw(self, statistic: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
        raise AssertionError("nothing may be drawn")


def test_a_ledger_pays_for_no_release_that_no_file_could_hold(tmp_path: Path) -> None:
    ledger = ps.Ledger(
        tmp_path / "budget.ledger", budget=ps.DP(epsilon=9, delta=1e-6), relation=ps.AddRemove(), dataset="toy"
    )
    with pytest.raises(NotRegistered, match="Unregistered is not registered"):
        ledger.release(Unregistered(noise_std=2.0), 1.0)
    assert ledger.history() == ()
