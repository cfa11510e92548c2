"""Posterior draws in files: they load equal to what was saved, and nothing altered loads."""

import json

import numpy as np
import pytest

import privsample as ps
from privsample.interop.arviz import read_group

pytestmark = pytest.mark.generations
xarray = pytest.importorskip("xarray")
ACCOUNT = ps.GaussianAccountant(sensitivity=1, noise_std=2)
DRAWS = ps.PosteriorDraws(
    draws={"theta": np.arange(24.0).reshape(12, 2), "count": np.arange(12, dtype=np.int32)},
    account=ACCOUNT,
    method="exact draws",
    chains=3,
    dims={"theta": ("clinic",)},
    coords={"clinic": ("north", "south")},
    sample_stats={"diverging": np.arange(12) % 5 == 0},
    observed_data={"sum": np.array([3.5, 4.5], np.float32)},
    constant_data={"n": np.array(7)},
)
PLAIN = ps.PosteriorDraws(draws={"theta": np.linspace(0, 1, 40)}, account=ACCOUNT, method="independent draws")


@pytest.mark.parametrize("draws", [DRAWS, PLAIN])
def test_draws_load_equal_to_what_was_saved(draws, tmp_path):
    draws.save(tmp_path / "d.nc")
    loaded = ps.PosteriorDraws.load(tmp_path / "d.nc")
    assert loaded == draws
    assert loaded.statement() == draws.statement()
    assert {name: array.dtype for name, array in loaded.items()} == {name: at.dtype for name, at in draws.items()}
    assert list(loaded) == list(draws)
    for group in ("sample_stats", "observed_data", "constant_data"):
        if getattr(draws, group):
            assert read_group(tmp_path / "d.nc", group).arrays.keys() == getattr(draws, group).keys()
    assert read_group(tmp_path / "d.nc", "missing").arrays == {}
    loaded.save(tmp_path / "again.nc")
    assert ps.PosteriorDraws.load(tmp_path / "again.nc") == draws


def set_copies(file, name, text):
    """Set an attribute in all groups that hold it."""
    for group in (file, *file.values()):
        if name in group.attrs:
            group.attrs[name] = text


def set_document(file, **fields):
    document = json.loads(file["posterior"].attrs["privsample_draws"])
    set_copies(file, "privsample_draws", json.dumps(document | fields))


CHEAPER = ps.GaussianAccountant(sensitivity=1, noise_std=20)
CHANGES = {
    "text": lambda file: set_copies(file, "privsample_draws", "{"),
    "draw": lambda file: file["posterior/theta"].__setitem__((0, 0, 0), -1.0),
    "method": lambda file: set_copies(file, "privsample_method", "another method"),
    "account": lambda file: set_copies(file, "privsample_account", json.dumps(CHEAPER.to_dict())),
    "chains": lambda file: set_document(file, chains=1),
    "coords": lambda file: set_document(file, coords={"clinic": ["south", "north"]}),
    "label": lambda file: file["posterior/clinic"].__setitem__(..., ["south", "north"]),
    "chain": lambda file: file["sample_stats/chain"].__setitem__(0, 5),
    "copy": lambda file: file.attrs.__setitem__("privsample_method", "another method"),
    "observed": lambda file: file["observed_data/sum"].__setitem__(0, 9),
}


@pytest.mark.parametrize("what", CHANGES)
def test_altered_files_do_not_load(what, tmp_path):
    import h5py

    DRAWS.save(tmp_path / "d.nc")
    with h5py.File(tmp_path / "d.nc", "r+") as file:
        CHANGES[what](file)
    with pytest.raises(ValueError, match="different attributes" if what == "copy" else "was altered"):
        ps.PosteriorDraws.load(tmp_path / "d.nc")


def test_each_kind_of_file_names_what_reads_it(tmp_path):
    PLAIN.save(tmp_path / "d.nc")
    ps.GaussianMechanism(sensitivity=1, noise_std=2, draws=4).release(0.0).save(tmp_path / "r.nc")
    with pytest.raises(ValueError, match=r"PosteriorDraws\.load reads"):
        ps.Release.load(tmp_path / "d.nc")
    with pytest.raises(ValueError, match=r"Release\.load reads it"):
        ps.PosteriorDraws.load(tmp_path / "r.nc")
    (tmp_path / "t.nc").write_bytes(b"text")
    with pytest.raises(ValueError, match="cannot be read"):
        ps.PosteriorDraws.load(tmp_path / "t.nc")
