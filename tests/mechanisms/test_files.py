"""A release survives JSON and netCDF exactly; damaged files and curator's notes are refused."""

import copy
import hashlib
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import privsample as ps
from privsample import CuratorNotes, Release, to_arviz
from privsample.errors import PrivateContent
from privsample.interop.arviz import read_netcdf
from privsample.mechanisms.files import forms
from privsample.mechanisms.release import writable, write_whole
from tests.mechanisms.documents import changed
from tests.mechanisms.examples import MECHANISMS, data_for, each_mechanism

COINS = MECHANISMS["dirichlet-posterior-3"]
NAMED = ps.DirectPosterior(model=ps.DirichletCategorical((1, 1, 1), names=["a", "b", "c"]), n=4, draws=12)
SUM = ps.LaplaceSum(bounds=(0, 1), scale=2)


@pytest.fixture
def release(rng):
    return COINS.release(data_for(COINS), rng=rng)


@each_mechanism
def test_json_round_trip(mechanism, rng, tmp_path):
    """With a caller's generator, which is an assumption of the account in the file, and without."""
    made = mechanism.release(data_for(mechanism), rng=rng)
    plain = replace(made, account=mechanism.accountant)
    made.save(tmp_path / "release.json")
    for written, loaded in (
        (made, Release.load(tmp_path / "release.json")),
        (plain, Release.from_json(plain.to_json())),
    ):
        assert loaded == written
        assert loaded.account == written.account
        assert hash(loaded) == hash(written)
        assert [a.dtype for a in loaded.draws.values()] == [a.dtype for a in written.draws.values()]


ONE_OF_EACH = [name for name in MECHANISMS if f"{name}-3" not in MECHANISMS]  # with three draws where it can make some


def released(name, rng):
    """A release that is not empty."""
    mechanism = MECHANISMS[name]
    data = data_for(mechanism)
    return next(release for _ in range(100) if (release := mechanism.release(data, rng=rng)).draws)


def survives_netcdf(made, path):
    made.save(path)
    return Release.load(path) == made


def test_netcdf_round_trip_of_each_form(rng, tmp_path):
    """One release of each form: the numbers of axes and the types of its draws, and whether it has names.

    Mechanism and account are stored as the text of `test_json_round_trip`, which all examples pass.
    """
    pytest.importorskip("h5netcdf")
    forms = {}
    for name in ONE_OF_EACH:
        made = released(name, rng)
        form = frozenset((array.ndim, array.dtype.str) for array in made.draws.values())
        forms.setdefault((form, bool(made.coords)), (name, made))
    assert 4 < len(forms) < len(ONE_OF_EACH) / 2
    failed = [name for name, made in forms.values() if not survives_netcdf(made, tmp_path / f"{name}.nc")]
    assert failed == []
    with pytest.raises(FileExistsError):
        made.save(tmp_path / f"{next(iter(forms.values()))[0]}.nc")


@pytest.mark.long
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_netcdf_round_trip(name, rng, tmp_path):
    pytest.importorskip("h5netcdf")
    assert survives_netcdf(released(name, rng), tmp_path / "release.nc")


def test_equal_data_give_equal_files(rng, tmp_path):
    """Nothing but draws, account and public fields is written: a file does not tell two data sets apart otherwise."""
    one, other = (COINS.release(np.array([code]), rng=np.random.default_rng(1)).to_json() for code in (0, 2))
    strip = [json.loads(text) | {"draws": 0, "digest": 0} for text in (one, other)]
    assert strip[0] == strip[1]


def test_an_existing_file_is_kept_unless_forced(release, tmp_path):
    path = tmp_path / "release.json"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="exists"):
        release.save(path)
    assert path.read_text(encoding="utf-8") == "mine"
    release.save(path, force=True)
    assert Release.load(path) == release
    assert [p.name for p in tmp_path.iterdir()] == ["release.json"]


def test_paths_are_checked(release, tmp_path):
    with pytest.raises(ValueError, match="must end in"):
        release.save(tmp_path / "release.txt")
    with pytest.raises(ValueError, match="the name must end in"):
        release.save("")
    with pytest.raises(FileNotFoundError, match="folder"):
        release.save(tmp_path / "none" / "release.json")
    assert writable(tmp_path / "a.html", force=False, endings=(".html",)).name == "a.html"


def test_a_failed_write_leaves_nothing(release, tmp_path, monkeypatch):
    def fail(_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="full"):
        release.save(tmp_path / "release.json")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_bytes_or_text_and_nothing_is_left_where_it_cannot_be_moved(tmp_path):
    write_whole(tmp_path / "a", b"\x00\n")
    write_whole(tmp_path / "a", "é\n")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa9\n"
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_truncated_file_is_refused(release, cut):
    text = release.to_json()
    with pytest.raises(ValueError, match=r"cut short|not JSON"):
        Release.from_json(text[:cut])


ALTERED = [
    lambda d: d["draws"]["theta"]["values"].__setitem__(0, 0.123),
    lambda d: d["draws"].update(more=d["draws"]["theta"]),
    lambda d: d["draws"].update(other=d["draws"].pop("theta")),
    lambda d: d["draws"].clear(),
    lambda d: d["draws"]["theta"].update(shape=[36, 1]),
    lambda d: d["draws"]["theta"].update(dtype="<f4"),
    lambda d: d["mechanism"]["model"].update(alpha=[2.0, 1.0, 1.0]),
    lambda d: d["coords"].update(category=["c", "b", "a"]),
    lambda d: d["coords"].update(other=d["coords"].pop("category")),
    lambda d: d.pop("coords"),
    lambda d: d.update(delta=0.5),
    lambda d: d.update(privsample="0.0.1"),
    lambda d: d.update(further=1),
    lambda d: d.update(partly_digested=True),
    lambda d: d.pop("digest"),
    lambda d: d.update(digest=None),
    lambda d: d.update(format=2),
    lambda d: d.update(format=1),
]


@pytest.mark.parametrize("change", ALTERED)
def test_the_digest_covers_the_whole_document(change):
    """Nothing but the digest finds these: each of them would be a release that can be read."""
    release = NAMED.release([0, 1, 2, 1])
    with pytest.raises(ValueError, match=r"does not match its digest|do not belong together"):
        Release.from_json(changed(release.to_json(), change))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["draws"]["theta"].update(dtype="nonsense"),
        lambda d: d["draws"]["theta"].update(dtype="S1000000000"),
        lambda d: d["draws"]["theta"].update(dtype="(20000,25000)f8"),
        lambda d: d["draws"]["theta"].update(more=1),
        lambda d: d["draws"]["theta"].pop("values"),
        lambda d: d.update(draws=3),
        lambda d: d["mechanism"].update(data_weight=0.25),
        lambda d: d["mechanism"].update(n=13),
        lambda d: d["mechanism"].update(type="Release"),
        lambda d: d["mechanism"].update(type="os.system"),
        lambda d: d["mechanism"].update(type=None),
        lambda d: d["mechanism"].update(unheard=1),
        lambda d: d["mechanism"].pop("model"),
        lambda d: d.update(mechanism="DirectPosterior"),
        lambda d: d.pop("mechanism"),
        lambda d: d.pop("account"),
        lambda d: d.update(account=d["mechanism"]),
        lambda d: d["account"]["assumptions"].update(items=[]),
        lambda d: d.update(callers_generator=False),
        lambda d: d.update(partly_digested=1),
        lambda d: d.update(delta=float("1e999")),
        lambda d: d.update(format=4),
        lambda d: d.update(format=True),
        lambda d: d.update(format=3.0),
        lambda d: d.update(format=None),
        lambda d: d.pop("format"),
    ],
)
def test_an_altered_or_newer_file_is_refused_whatever_its_digest(release, change):
    words = r"altered|lacks|format|names|describe|not a privsample|numbers|must|not complete|not a complete"
    for new in (False, True):
        with pytest.raises(ValueError, match=words):
            Release.from_json(changed(release.to_json(), change, new_digest=new))


def test_other_forms_of_the_same_document_load(release):
    """Spaces, the order of fields, and other spellings of one number or text do not change what the digest covers."""
    document = json.loads(release.to_json())
    text = json.dumps(dict(reversed(document.items())), indent=2)
    assert Release.from_json(text.replace('"data_weight": 0.5', '"data_\\u0077eight": 5.00e-1')) == release


def test_a_field_that_is_given_twice_is_refused(release):
    text = release.to_json()
    with pytest.raises(ValueError, match="names a field twice"):
        Release.from_json(text[:-1] + ', "delta": 0.5, "delta": 1e-06}')
    with pytest.raises(ValueError, match="names a field twice"):
        Release.from_json(text.replace('"dtype"', '"values": [0.5], "dtype"'))


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "1" * 5000])
def test_numbers_beyond_doubles_are_refused(release, number):
    with pytest.raises(ValueError, match=r"not a complete release|Out of range float"):
        Release.from_json(release.to_json()[:-1] + f', "delta": {number}}}')


def test_both_kinds_of_files_have_one_digest_which_the_guide_defines(release, tmp_path):
    pytest.importorskip("h5netcdf")
    release.save(tmp_path / "release.nc")
    _, attributes = read_netcdf(tmp_path / "release.nc")
    stored, document = json.loads(attributes["privsample_release"]), json.loads(release.to_json())
    assert stored["digest"] == document["digest"]
    theta = document["draws"]["theta"]
    numbers = np.array(theta.pop("values"), dtype="<f8").tobytes()
    document["draws"]["theta"] = theta | {"sha256": hashlib.sha256(numbers).hexdigest()}
    assert document == stored
    del document["digest"]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode("ascii")).hexdigest() == stored["digest"]


def test_byte_order_is_kept_and_digests_do_not_depend_on_it():
    big, native = (
        Release(mechanism=SUM, draws={"sum": np.array([1.5], dtype=kind)}, account=SUM.accountant)
        for kind in (">f8", "<f8")
    )
    assert Release.from_json(big.to_json()) == big != native
    assert forms(big.draws)["sum"]["sha256"] == forms(native.draws)["sum"]["sha256"]


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', "{}"])
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match="not a privsample release"):
        Release.from_json(text)


def test_a_foreign_netcdf_file_is_refused(release, tmp_path):
    pytest.importorskip("h5netcdf")
    from privsample.interop import arviz

    arviz.write_netcdf(arviz.to_arviz({"x": np.zeros(3)}, {}), tmp_path / "other.nc")
    with pytest.raises(ValueError, match="without a privsample release"):
        Release.load(tmp_path / "other.nc")
    release.save(tmp_path / "release.nc")
    whole = (tmp_path / "release.nc").read_bytes()
    (tmp_path / "half.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cannot be read"):
        Release.load(tmp_path / "half.nc")


def test_a_release_checks_its_parts(release):
    mechanism, account = release.mechanism, release.account
    for wrong in (np.float64(1.0), np.array(["x"]), np.array([None])):
        with pytest.raises(ValueError, match="array of numbers"):
            Release(mechanism=mechanism, draws={"theta": wrong}, account=account)
    poorer = copy.copy(MECHANISMS["direct-posterior"].accountant)
    object.__setattr__(poorer, "assumptions", frozenset())
    with pytest.raises(ValueError, match="assumptions"):
        Release(mechanism=mechanism, draws=release.draws, account=poorer)


def test_statements_speak_of_the_account(release):
    assert release.account.relation.description in release.statement()
    assert release.statement(1e-3) != release.statement(1e-9)


def test_curators_notes_are_refused_by_every_writer(release, tmp_path):
    notes = CuratorNotes(title="secret", facts={"count": 424242})
    for write in (
        lambda: json.dumps(notes),
        lambda: pickle.dumps(notes),
        lambda: pickle.dumps([notes], protocol=0),
        lambda: copy.deepcopy(notes),
        lambda: to_arviz(notes),
        lambda: to_arviz([notes]),
        lambda: to_arviz({"x": [notes]}),
        lambda: Release(mechanism=release.mechanism, draws={"theta": notes}, account=release.account),
        lambda: Release(mechanism=release.mechanism, draws={"theta": [notes]}, account=release.account),
    ):
        with pytest.raises(TypeError) as caught:
            write()
        assert "424242" not in str(caught.value)
    for write in (lambda: pickle.dumps(notes), lambda: to_arviz(notes)):
        with pytest.raises(PrivateContent, match="curator"):
            write()
    assert "424242" not in repr(notes)
    assert "424242" not in str(notes)
    assert "424242" not in f"{notes}"
    assert "424242" in notes.text()
    with pytest.raises(TypeError):
        to_arviz(np.zeros(3))
