"""What netCDF files may not do: be damaged, allocate much memory, or name other files. Nothing of them is read."""

import struct
import tracemalloc

import numpy as np
import pytest

import privsample as ps
from privsample.interop import arviz as interop
from privsample.interop.arviz import check_labels, read_netcdf, read_posterior, to_arviz, write_netcdf
from privsample.interop.netcdf_limits import FLOOR, RATIO, check_limits

h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.generations
LARGE = 10**9  # numbers, which need 8 GB


@pytest.fixture
def path(tmp_path):
    write_netcdf(
        to_arviz({"p": np.arange(6.0).reshape(3, 2)}, {"a": "text"}, {"p": ["x"]}, {"x": ["u", "v"]}), tmp_path / "a.nc"
    )
    return tmp_path / "a.nc"


def refused(path, words):
    """Whether reading raises an error with these words, in little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=words) as caught:
            read_netcdf(path)
        assert tracemalloc.get_traced_memory()[1] < FLOOR + 2 * RATIO * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert "cannot be read" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_within_the_limits_is_read(path):
    stored = read_posterior(path)
    assert stored.labels == {"x": ["u", "v"], "chain": [0], "draw": [0, 1, 2]}
    assert stored.attributes == {"a": "text"}
    assert check_limits(path, "posterior", "h5netcdf")
    assert not check_limits(path, "prior", "h5netcdf")


def test_every_flipped_bit_is_found_before_hdf5_opens_the_file(path, monkeypatch):
    whole, (draws, _) = path.read_bytes(), read_netcdf(path)
    end = len(whole) - 84  # where the line with the digest begins
    assert whole[end:].startswith(b"\nprivsample sha256 ")
    monkeypatch.setattr(interop, "check_limits", None)
    for place in [*range(8, end, 97), end - 1, end + 19, len(whole) - 2]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="does not match the digest at its end"):
            read_netcdf(path)
    monkeypatch.undo()
    for other in (whole[:end], whole[:end] + b"X" + whole[end + 1 :], whole[:-1]):  # without a digest that can be read
        path.write_bytes(other)
        assert np.array_equal(read_netcdf(path)[0]["p"], draws["p"])


def test_a_program_that_changes_a_file_removes_the_digest_of_its_bytes(path):
    with h5py.File(path, "r+") as file:
        file["posterior/p"][0, 0, 0] = 7.0
    assert b"privsample sha256" not in path.read_bytes()
    assert read_netcdf(path)[0]["p"][0, 0] == 7.0


def test_heaps_at_which_hdf5_stays_for_ever_are_refused(path):
    content = path.read_bytes()[:-84]
    found = content.rindex(b"GCOL\x01")
    (size,) = struct.unpack_from("<Q", content, found + 8)
    at = found + 16
    while int.from_bytes(content[at : at + 2], "little"):  # up to the free space at the end of the heap
        at += 16 + (int.from_bytes(content[at + 8 : at + 16], "little") + 7) // 8 * 8
    assert int.from_bytes(content[at + 8 : at + 16], "little") == found + size - at
    for index, length in ((0, 0), (1, 2**64 - 16), (1, 2**64 - 20)):
        path.write_bytes(content[:at] + struct.pack("<HHLQ", index, 0, 0, length) + content[at + 16 :])
        refused(path, "a heap of its texts is damaged")


@pytest.mark.parametrize("chunks", [None, (1, 1000), (1, LARGE)])
def test_numbers_that_were_never_written_are_refused(path, chunks):
    """HDF5 fills them in: a file of some kilobytes declares gigabytes."""
    with h5py.File(path, "r+") as file:
        file["posterior"].create_dataset("q", (1, LARGE), "f8", chunks=chunks, compression=chunks and "gzip")
    assert path.stat().st_size < 20_000
    refused(path, "need more than [0-9]+ bytes, too many for a file of its size")


def test_shapes_are_checked_without_h5py(path, monkeypatch):
    pytest.importorskip("netCDF4")
    monkeypatch.setattr(interop, "netcdf_engine", lambda: "netcdf4")
    assert check_limits(path, "posterior", "netcdf4")
    assert not check_limits(path, "prior", "netcdf4")
    with h5py.File(path, "r+") as file:
        held = file["posterior"]
        del held["p"], held["chain"], held["draw"]
        numbers = held.create_dataset("q", (1, LARGE), "f8", chunks=(1, 1000))
        for axis, name, size in zip(numbers.dims, ("chain", "draw"), numbers.shape, strict=True):
            labels = held.create_dataset(name, (size,), "i8", chunks=(1,))
            labels.make_scale(name)
            axis.attach_scale(labels)
    refused(path, "need more than")


def test_a_chunk_that_is_larger_than_its_array_is_refused(path):
    with h5py.File(path, "r+") as file:
        file["posterior"].create_dataset("q", (1, 3), "f8", chunks=(1, LARGE // 10), maxshape=(1, None))
    refused(path, "need more than")


def test_numbers_that_were_compressed_twice_are_refused(path):
    with h5py.File(path, "r+") as file:
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((1, 3))
        plan.set_deflate(9)
        plan.set_deflate(9)
        space = h5py.h5s.create_simple((1, 3))
        h5py.h5d.create(file["posterior"].id, b"q", h5py.h5t.IEEE_F64LE, space, plan)
    refused(path, "compressed more than once")


def test_many_references_to_one_long_text_are_refused(path):
    with h5py.File(path, "r+") as file:
        texts = ["x" * 100_000, *map(str, range(5000))]
        labels = file["posterior"].create_dataset("y", data=texts, dtype=h5py.string_dtype())
        start = labels.id.get_offset()
    content = bytearray(path.read_bytes())
    content[start : start + 16 * len(texts)] = content[start : start + 16] * len(texts)
    path.write_bytes(content)
    with h5py.File(path, "r") as file:
        assert len(file["posterior/y"][4999]) == 100_000
    refused(path, "need more than")


def test_long_lists_of_texts_in_attributes_are_refused(path):
    with h5py.File(path, "r+") as file:
        file.attrs["names"] = ["a"] * 65
    refused(path, "attribute 'names' has 65 elements")


def test_rows_of_texts_that_are_too_long_to_read_in_parts_are_refused(path):
    with h5py.File(path, "r+") as file:
        file["posterior"].create_dataset("y", (1, 10**7), h5py.string_dtype())
    refused(path, "need more than|in a row")


@pytest.mark.parametrize("kind", ["soft", "external", "raw", "virtual", "group"])
def test_content_of_other_files_is_refused(path, kind):
    other = path.with_name("other.nc")
    with h5py.File(other, "w") as file:
        file["posterior/q"] = np.zeros((1, 3))
    with h5py.File(path, "r+") as file:
        held = file["posterior"]
        match kind:
            case "soft":
                held["q"] = h5py.SoftLink("/posterior/p")
            case "external":
                held["q"] = h5py.ExternalLink(str(other), "posterior/q")
            case "raw":
                held.create_dataset("q", (1, 3), "f8", external=[(str(other), 0, 24)])
            case "virtual":
                layout = h5py.VirtualLayout((1, 3), "f8")
                layout[:] = h5py.VirtualSource(str(other), "posterior/q", (1, 3))
                held.create_virtual_dataset("q", layout)
            case "group":
                del file["posterior"]
                file["posterior"] = h5py.ExternalLink(str(other), "posterior")
    refused(path, "another file")


def test_compressed_draws_are_read(tmp_path):
    """Whole numbers compress to a thousandth."""
    tree = to_arviz({"code": np.zeros(10**6, dtype=np.int64)}, {})
    encoding = {name: {"zlib": True, "complevel": 9} for name in ("code", "draw")}
    posterior = tree.posterior.dataset if hasattr(tree.posterior, "dataset") else tree.posterior
    posterior.to_netcdf(tmp_path / "a.nc", group="posterior", engine="h5netcdf", encoding=encoding)
    assert (tmp_path / "a.nc").stat().st_size < 2_000_000
    assert read_netcdf(tmp_path / "a.nc")[0]["code"].shape == (10**6,)


def test_labels_are_those_of_the_draws_or_positions(path):
    stored = read_posterior(path)
    check_labels(path, stored, {"x": ["u", "v"], "more": ["w"]})
    for coords in ({"x": ["v", "u"]}, {"x": ["u"]}, {}):
        with pytest.raises(ValueError, match="labels of its axis 'x' are not those of its draws"):
            check_labels(path, stored, coords)
    write_netcdf(to_arviz({"p": np.zeros((3, 2))}, {}, {"p": ["x"]}), path)
    check_labels(path, read_posterior(path), {})


@pytest.mark.parametrize("what", ["label", "constant", "grid", "further constant"])
def test_what_arviz_shows_of_a_release_is_checked(what, tmp_path):
    model = ps.DirichletCategorical((1, 1, 1), names=["a", "b", "c"])
    release = ps.DirectPosterior(model=model, n=3, draws=4).release([0, 1, 2])
    release.save(tmp_path / "r.nc")
    with h5py.File(tmp_path / "r.nc", "r+") as file:
        match what:
            case "label":
                file["posterior/category"][:] = ["b", "a", "c"]
            case "constant":
                file["constant_data/n"][...] = 4
            case "grid":
                file["constant_data/theta_grid"][...] = 1.0
            case _:
                file["constant_data/noise_std"] = 1.0
    with pytest.raises(ValueError, match="was altered"):
        ps.Release.load(tmp_path / "r.nc")
