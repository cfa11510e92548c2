"""Draws to and from ArviZ, the same tests for both generations.

`python tests/interop/test_arviz.py` writes the file of the installed generation into tests/interop/data.
"""

import json
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privsample.interop import arviz as interop
from privsample.interop.arviz import arviz_generation, plot_posterior, read_netcdf, summary, to_arviz, write_netcdf

# ArviZ 0.23 announces ArviZ 1 when it is imported.
pytestmark = pytest.mark.filterwarnings(r"ignore:\s*ArviZ is undergoing a major refactor:FutureWarning")

DATA = Path(__file__).parent / "data"
HARD = [0.0, -0.0, 1.0, 5e-324, 2.2e-308, 1 - 2**-53, 1 + 2**-52, np.nan, np.inf, -np.inf]
STORED_DRAWS = {
    "p": np.array(HARD),
    "theta": (np.arange(30.0).reshape(10, 3) + 1) / 7,
    "state": np.arange(10) - 2**40,
}
STORED_DIMS, STORED_COORDS = {"theta": ["category"]}, {"category": ["a", "é", "c"]}
STORED_TEXT = {"account": '{"epsilon": 1.0, "name": "Rényi"}', "format": "1"}
ENGINES = [
    pytest.param("h5netcdf", marks=pytest.mark.skipif(not util.find_spec("h5py"), reason="no h5py")),
    pytest.param("netcdf4", marks=pytest.mark.skipif(not util.find_spec("netCDF4"), reason="no netCDF4")),
]


@pytest.fixture
def az() -> Any:
    import arviz

    return arviz


@pytest.fixture
def pyplot() -> Any:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


def beta_and_dirichlet(draws: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {"p": rng.beta(2, 3, draws), "theta": rng.dirichlet([1, 2, 3], draws), "k": rng.integers(0, 9, draws)}


def assert_same(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        assert got[name].dtype == values.dtype
        assert got[name].shape == values.shape
        assert got[name].tobytes() == values.tobytes(), name


def test_generation_is_that_of_the_installed_package(az):
    assert arviz_generation() == int(az.__version__.split(".")[0])


def test_import_is_light():
    code = (
        "import sys; from privsample.interop.arviz import arviz_generation; arviz_generation(); "
        "print([m for m in ('arviz', 'xarray', 'matplotlib', 'pymc') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("draws", [1, 2, 10])
def test_shapes_and_values(draws):
    data = beta_and_dirichlet(draws)
    posterior = to_arviz(data, {}).posterior
    assert set(posterior.data_vars) == set(data)
    for name, values in data.items():
        assert posterior[name].dims[:2] == ("chain", "draw")
        assert posterior[name].dtype == values.dtype
        assert posterior[name].values.tobytes() == values[np.newaxis].tobytes()


def test_the_callers_array_is_copied():
    values = np.zeros(3)
    tree = to_arviz({"p": values}, {})
    values[:] = 1.0
    assert not tree.posterior["p"].values.any()


def test_a_dict_of_groups_is_a_trap_in_generation_0_only(az):
    group = {"p": np.zeros((1, 3))}
    wrong = az.from_dict({"posterior": group}).posterior
    assert ("p" in wrong) == (arviz_generation() == 1)  # generation 0 makes one variable of objects, without a word
    right = to_arviz({"p": np.zeros(3)}, {}).posterior
    assert set(right.data_vars) == {"p"}
    assert right["p"].shape == (1, 3)
    assert right["p"].dtype == np.float64


def test_dims_and_coords():
    data = {"theta": beta_and_dirichlet(4)["theta"], "transition": np.ones((4, 3, 2))}
    dims = {"theta": ["category"], "transition": ("category", "state")}
    posterior = to_arviz(data, {}, dims=dims, coords={"category": ("a", "b", "é"), "state": [10, 20]}).posterior
    assert posterior["theta"].dims == ("chain", "draw", "category")
    assert posterior["transition"].dims == ("chain", "draw", "category", "state")
    assert list(posterior["category"].values) == ["a", "b", "é"]
    assert list(posterior["state"].values) == [10, 20]
    assert np.array_equal(posterior["theta"].sel(category="é").values[0], data["theta"][:, 2])


def test_attributes_are_on_group_and_root():
    tree = to_arviz({"p": np.zeros(2)}, STORED_TEXT)
    for attrs in (tree.posterior.attrs, tree.attrs):
        assert STORED_TEXT.items() <= dict(attrs).items()


@pytest.mark.parametrize("engine", ENGINES)
def test_file_round_trip_is_exact(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(interop, "_engine", lambda: engine)
    long = json.dumps({f"κλειδί {i}": [i / 7, "\n\t\"'\\"] for i in range(3000)}, ensure_ascii=False)
    assert len(long.encode()) > 100_000
    text = {
        "account": long,
        "ascii": "x" * 100_000,
        "empty": "",
        "space": " a\n",
        "emoji 1.0": "😀\u2028\x01",
        "units": "s",
    }
    draws = STORED_DRAWS | {
        "θ[0]": np.full(10, -(2**63)),
        "age group": np.full(10, 2**63 - 1),
        "single": np.linspace(0, 1, 10, dtype=np.float32),
        "matrix": np.asfortranarray(np.arange(40.0).reshape(10, 2, 2)),
    }
    write_netcdf(to_arviz(draws, text, STORED_DIMS, STORED_COORDS), tmp_path / "a.nc")
    got, attributes = read_netcdf(str(tmp_path / "a.nc"))
    assert_same(got, draws)
    assert attributes == text


def test_booleans_and_integers_become_int64_and_byte_order_native(tmp_path):
    bits, one, big = np.array([True, False]), np.array([200, 1], dtype=np.uint8), np.array([1.5, 2.5], dtype=">f8")
    write_netcdf(to_arviz({"bits": bits, "one": one, "big": big}, {}), tmp_path / "a.nc")
    expected = {"bits": np.array([1, 0]), "one": np.array([200, 1]), "big": np.array([1.5, 2.5])}
    assert_same(read_netcdf(tmp_path / "a.nc")[0], expected)


@settings(max_examples=25, deadline=None)
@given(
    bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5),
    text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
def test_any_bits_and_any_text_come_back(bits, text, tmp_path_factory):
    draws, path = {"p": np.array(bits, dtype=np.uint64).view(np.float64)}, tmp_path_factory.mktemp("bits") / "a.nc"
    write_netcdf(to_arviz(draws, {"text": text}), path)
    got, attributes = read_netcdf(path)
    assert_same(got, draws)
    assert attributes == {"text": text}


@pytest.mark.parametrize("generation", [0, 1])
def test_files_of_both_generations_are_read(generation):
    draws, attributes = read_netcdf(DATA / f"arviz{generation}.nc")
    assert_same(draws, STORED_DRAWS)
    versions = json.loads(attributes.pop("written_by"))
    assert versions["arviz"].startswith(f"{generation}.")
    assert attributes == STORED_TEXT


@pytest.mark.parametrize("generation", [0, 1])
def test_arviz_itself_reads_files_of_both_generations(generation, az):
    tree = az.from_netcdf(str(DATA / f"arviz{generation}.nc"))
    assert np.array_equal(tree.posterior["theta"].values[0], STORED_DRAWS["theta"])
    assert list(tree.posterior["category"].values) == STORED_COORDS["category"]
    table = az.summary(tree, var_names=["theta"])  # p holds infinities
    assert sorted(table.index) == sorted(["theta[a]", "theta[é]", "theta[c]"])
    tree.close()


def test_several_chains_are_read_one_after_the_other(tmp_path, az):
    values = np.arange(12.0).reshape(2, 3, 2)
    tree = (
        az.from_dict(posterior={"m": values}) if arviz_generation() == 0 else az.from_dict({"posterior": {"m": values}})
    )
    write_netcdf(tree, tmp_path / "a.nc")
    assert_same(read_netcdf(tmp_path / "a.nc")[0], {"m": values.reshape(6, 2)})


def test_a_file_is_replaced_whole_or_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.nc"
    write_netcdf(to_arviz({"p": np.zeros(1000), "old": np.ones(1000)}, {"a": "1"}), path)
    write_netcdf(to_arviz({"p": np.ones(2)}, {}), path)
    draws, attributes = read_netcdf(path)
    assert_same(draws, {"p": np.ones(2)})
    assert attributes == {}
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(interop.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_netcdf(to_arviz({"p": np.zeros(5)}, {}), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]


def clear_error(path: Path) -> str:
    with pytest.raises(ValueError, match="cannot be read") as info:
        read_netcdf(path)
    assert info.value.__cause__ is None
    assert info.value.__context__ is None or info.value.__suppress_context__
    assert str(path) in str(info.value)
    assert "Expected a whole netCDF4 file" in str(info.value)
    assert "write it again" in str(info.value)
    return str(info.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("generation", [0, 1])
def test_half_a_file_is_one_clear_error(engine, generation, tmp_path, monkeypatch):
    monkeypatch.setattr(interop, "_engine", lambda: engine)
    whole, path = (DATA / f"arviz{generation}.nc").read_bytes(), tmp_path / "half.nc"
    for length in (0, 1, 8, 9, 100, 1000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        clear_error(path)


def test_foreign_files_are_one_clear_error(tmp_path):
    import xarray

    path = tmp_path / "foreign.nc"
    path.write_text('{"draws": [1, 2]}')
    assert "does not begin as a netCDF4" in clear_error(path)
    for group, content, reason in [
        (None, {"p": (["x"], [1.0])}, "posterior"),
        ("posterior", {"p": (["x"], [1.0])}, "'p' is no array of numbers over"),
        ("posterior", {"p": (["chain", "draw"], [["a", "b"]])}, "'p' is no array of numbers over"),
        ("posterior", {}, "'posterior' is empty"),
    ]:
        xarray.Dataset(content).to_netcdf(path, group=group, engine=interop._engine())
        assert reason in clear_error(path)


def test_missing_file_and_missing_folder_say_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_netcdf(tmp_path / "none.nc")
    with pytest.raises(FileNotFoundError):
        write_netcdf(to_arviz({"p": np.zeros(1)}, {}), tmp_path / "none" / "a.nc")


@pytest.mark.parametrize("missing", ["h5netcdf", "h5py"])
def test_missing_netcdf_library_names_the_extra(missing, tmp_path, monkeypatch):
    for name in (missing, "netCDF4"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'privsample\[netcdf\]'"):
        write_netcdf(to_arviz({"p": np.zeros(1)}, {}), tmp_path / "a.nc")
    with pytest.raises(ImportError, match=r"pip install 'privsample\[netcdf\]'"):
        read_netcdf(DATA / "arviz0.nc")
    assert not list(tmp_path.iterdir())


def test_netcdf4_is_taken_where_h5py_is_not(monkeypatch):
    present = {"h5netcdf", "netCDF4"}
    monkeypatch.setattr(interop.util, "find_spec", lambda name: name if name in present else None)
    assert interop._engine() == "netcdf4"
    present.add("h5py")
    assert interop._engine() == "h5netcdf"


def test_only_trees_are_written(tmp_path):
    with pytest.raises(TypeError, match="what to_arviz returns"):
        write_netcdf({"posterior": {}}, tmp_path / "a.nc")


@pytest.mark.parametrize("draws", [1, 2, 3, 4, 10, 200])
def test_summary(draws, az, caplog, capfd):
    tree = to_arviz(beta_and_dirichlet(draws), {}, {"theta": ["category"]}, {"category": ["a", "b", "c"]})
    table = summary(tree)
    assert sorted(table.index) == sorted(["p", "theta[a]", "theta[b]", "theta[c]", "k"])
    assert float(table["mean"]["p"]) == pytest.approx(float(beta_and_dirichlet(draws)["p"].mean()), abs=0.06)
    assert "Shape validation" not in caplog.text + "".join(capfd.readouterr())
    if draws > 1:  # with one draw, ArviZ's own call may warn; it must give the same table all the same
        assert table.equals(az.summary(tree))


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_the_users_own_summary_works_for_one_draw(az):
    tree = to_arviz({"p": np.array([0.5]), "bit": np.array([True])}, {})
    assert sorted(az.summary(tree)["mean"].astype(float)) == [0.5, 1.0]


def test_booleans_have_a_summary(az):
    tree = to_arviz({"bit": np.array([True, False, True, False])}, {})
    assert list(az.summary(tree)["mean"].astype(float)) == [0.5]


def test_warnings_that_are_not_about_few_draws_escape():
    tree = to_arviz({"constant": np.zeros(10)}, {})
    with pytest.warns(RuntimeWarning, match="invalid value"):
        summary(tree)


@pytest.mark.parametrize("draws", [1, 2, 3, 10, 200])
def test_plot_draws_a_figure(draws, pyplot, tmp_path):
    assert plot_posterior(to_arviz(beta_and_dirichlet(draws), {})) is not None
    figure = pyplot.gcf()
    assert len(figure.axes) >= 5
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_plot_of_bits_and_small_integers(pyplot):
    tree = to_arviz(
        {"bit": np.arange(9) % 2 == 0, "byte": np.arange(9, dtype=np.int8), "u": np.arange(9, dtype="u1")}, {}
    )
    assert plot_posterior(tree) is not None


def test_plot_without_a_library_names_the_extra(monkeypatch):
    monkeypatch.setattr(interop, "_arviz", lambda: SimpleNamespace(rcParams={"plot.backend": "none"}))
    with pytest.raises(ImportError, match=r"pip install 'privsample\[report\]'"):
        plot_posterior(None)


@pytest.mark.parametrize(
    ("draws", "error", "message"),
    [
        ({}, ValueError, "one common number of draws"),
        ({"p": np.zeros(2), "q": np.zeros(3)}, ValueError, "one common number of draws, got \\[2, 3\\]"),
        ({"p": np.float64(1)}, ValueError, "must have shape"),
        ({"p": np.zeros(0)}, ValueError, "must have shape"),
        ({"p": np.zeros((3, 0))}, ValueError, "must have shape"),
        ({"p": np.array(["a"])}, TypeError, "got <U1"),
        ({"p": np.zeros(2, dtype=complex)}, TypeError, "complex128"),
        ({"p": np.zeros(2, dtype=np.float16)}, TypeError, "float16"),
        ({"p": np.zeros(2, dtype=np.uint64)}, TypeError, "uint64"),
        ({"p": np.zeros(2, dtype="m8[s]")}, TypeError, "timedelta64"),
        ({"p": np.array([None])}, TypeError, "object"),
        ({"a/b": np.zeros(2)}, ValueError, "names must be"),
        ({"": np.zeros(2)}, ValueError, "names must be"),
        ({"_p": np.zeros(2)}, ValueError, "names must be"),
        ({"p ": np.zeros(2)}, ValueError, "names must be"),
        ({"e\u0301": np.zeros(2)}, ValueError, "NFC"),
        ({"chain": np.zeros(2)}, ValueError, "must differ in name"),
    ],
)
def test_draws_that_cannot_be_stored_are_refused(draws, error, message):
    with pytest.raises(error, match=message):
        to_arviz(draws, {})


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"n": 1}, TypeError),
        ({"n": b"a"}, TypeError),
        ({"n": "a\0"}, ValueError),
        ({"n": "\ud800"}, ValueError),
        ({"created_at": "now"}, ValueError),
        ({"coordinates": "x"}, ValueError),
        ({"a/b": "x"}, ValueError),
    ],
)
def test_attributes_that_cannot_be_stored_are_refused(attributes, error):
    with pytest.raises(error):
        to_arviz({"p": np.zeros(2)}, attributes)


@pytest.mark.parametrize(
    ("dims", "coords", "message"),
    [
        ({"theta": []}, {}, "each axis"),
        ({"theta": ["a", "b"]}, {}, "each axis"),
        ({"m": ["a", "a"]}, {}, "each axis"),
        ({"other": ["a"]}, {}, "each axis"),
        ({"theta": ["a"], "m": ["a", "b"]}, {}, "one size each"),
        ({"theta": ["theta"]}, {}, "must differ in name"),
        ({"theta": ["draw"]}, {}, "must differ in name"),
        ({"theta": ["a/b"]}, {}, "names must be"),
        ({"theta": ["a"]}, {"a": ["x", "y"]}, "coords must label"),
        ({}, {"a": ["x", "y", "z"]}, "coords must label"),
    ],
)
def test_dims_and_coords_that_do_not_fit_are_refused(dims, coords, message):
    data = {"theta": np.zeros((5, 3)), "m": np.zeros((5, 2, 2))}
    with pytest.raises(ValueError, match=message):
        to_arviz(data, {}, dims=dims, coords=coords)


def write_stored_file() -> None:
    packages = ["arviz", "xarray", "h5netcdf", "h5py", "numpy"]
    versions = {name: metadata.version(name) for name in packages} | {"python": sys.version.split()[0]}
    text = STORED_TEXT | {"written_by": json.dumps(versions)}
    DATA.mkdir(exist_ok=True)
    write_netcdf(to_arviz(STORED_DRAWS, text, STORED_DIMS, STORED_COORDS), DATA / f"arviz{arviz_generation()}.nc")


if __name__ == "__main__":
    write_stored_file()
