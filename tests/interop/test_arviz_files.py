"""Draws in netCDF files: what is written comes back, by either generation of ArviZ.

`python tests/interop/test_arviz_files.py` writes the file of the installed generation into tests/interop/data.
"""

import json
import sys
from importlib import metadata, util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privsample.interop import arviz as interop
from privsample.interop.arviz import arviz_generation, read_netcdf, to_arviz, write_netcdf

pytestmark = pytest.mark.generations

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


def assert_same(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        assert got[name].dtype == values.dtype
        assert got[name].shape == values.shape
        assert got[name].tobytes() == values.tobytes(), name


@pytest.mark.parametrize("engine", ENGINES)
def test_file_round_trip_is_exact(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(interop, "netcdf_engine", lambda: engine)
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
    assert "Expected a complete netCDF4 file" in str(info.value)
    assert "write it again" in str(info.value)
    return str(info.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("generation", [0, 1])
def test_half_a_file_is_one_clear_error(engine, generation, tmp_path, monkeypatch):
    monkeypatch.setattr(interop, "netcdf_engine", lambda: engine)
    whole, path = (DATA / f"arviz{generation}.nc").read_bytes(), tmp_path / "half.nc"
    for length in (0, 1, 8, 9, 100, 1000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        clear_error(path)


def test_foreign_files_are_one_clear_error(tmp_path):
    import xarray

    path = tmp_path / "foreign.nc"
    path.write_text('{"draws": [1, 2]}')
    assert "has no netCDF4" in clear_error(path)
    for group, content, reason in [
        (None, {"p": (["x"], [1.0])}, "posterior"),
        ("posterior", {"p": (["x"], [1.0])}, "'p' is not an array of numbers over"),
        ("posterior", {"p": (["chain", "draw"], [["a", "b"]])}, "'p' is not an array of numbers over"),
        ("posterior", {}, "'posterior' is empty"),
    ]:
        xarray.Dataset(content).to_netcdf(path, group=group, engine=interop.netcdf_engine())
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
    with pytest.raises(ImportError, match=r"pip install 'privsample\[bayes\]'"):
        write_netcdf(to_arviz({"p": np.zeros(1)}, {}), tmp_path / "a.nc")
    with pytest.raises(ImportError, match=r"pip install 'privsample\[bayes\]'"):
        read_netcdf(DATA / "arviz0.nc")
    assert not list(tmp_path.iterdir())


def test_netcdf4_is_taken_where_h5py_is_not(monkeypatch):
    present = {"arviz", "xarray", "h5netcdf", "netCDF4"}
    monkeypatch.setattr(interop, "is_installed", lambda name: name in present)
    assert interop.netcdf_engine() == "netcdf4"
    present.add("h5py")
    assert interop.netcdf_engine() == "h5netcdf"


def test_only_trees_are_written(tmp_path):
    with pytest.raises(TypeError, match="what to_arviz returns"):
        write_netcdf({"posterior": {}}, tmp_path / "a.nc")


def write_stored_file() -> None:
    packages = ["arviz", "xarray", "h5netcdf", "h5py", "numpy"]
    versions = {name: metadata.version(name) for name in packages} | {"python": sys.version.split()[0]}
    text = STORED_TEXT | {"written_by": json.dumps(versions)}
    DATA.mkdir(exist_ok=True)
    write_netcdf(to_arviz(STORED_DRAWS, text, STORED_DIMS, STORED_COORDS), DATA / f"arviz{arviz_generation()}.nc")


if __name__ == "__main__":
    write_stored_file()
