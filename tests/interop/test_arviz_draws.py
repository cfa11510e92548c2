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
            assert read_group(tmp_path / "d.nc", group).keys() == getattr(draws, group).keys()
    assert read_group(tmp_path / "d.nc", "missing") == {}
    loaded.save(tmp_path / "again.nc")
    assert ps.PosteriorDraws.load(tmp_path / "again.nc") == draws


@pytest.mark.parametrize("what", ["text", "draw", "method", "account", "chains", "coords", "label", "observed"])
def test_altered_files_do_not_load(what, tmp_path):
    import h5py

    DRAWS.save(tmp_path / "d.nc")
    with h5py.File(tmp_path / "d.nc", "r+") as file:
        attributes = file["posterior"].attrs
        match what:
            case "draw":
                file["posterior/theta"][0, 0, 0] += 1
            case "method":
                attributes["privsample_method"] = "another method"
            case "account":
                cheaper = ps.GaussianAccountant(sensitivity=1, noise_std=20).to_dict()
                attributes["privsample_account"] = json.dumps(cheaper)
            case "text":
                attributes["privsample_draws"] = "{"
            case "label":
                file["posterior/clinic"][:] = ["south", "north"]
            case "observed":
                file["observed_data/sum"][0] = 9
            case _:
                document = json.loads(attributes["privsample_draws"])
                document |= {"chains": 1} if what == "chains" else {"coords": {"clinic": ["south", "north"]}}
                attributes["privsample_draws"] = json.dumps(document)
    with pytest.raises(ValueError, match="was altered"):
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
