"""Files that earlier versions wrote load for ever, and their accounts keep their numbers."""

import json
import shutil
from pathlib import Path

import pytest

import privsample as ps
from privsample._serial import decode
from tests.data import make
from tests.data.numbers import account_numbers

FORMATS = sorted((Path(__file__).parent / "data").glob("format[0-9]*"))
FILES = [
    pytest.param(path, id=f"{path.parts[-3]}-{path.name}") for f in FORMATS for path in sorted(f.glob("releases/*"))
]
each_format = pytest.mark.parametrize("folder", FORMATS, ids=lambda folder: folder.name)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


TIGHTER = {
    # one update: a composition of one account reports all of that account's own numbers now
    "gibbs-updates": ("epsilon", "delta"),
    # small tables are composed outcome by outcome now, not on a grid
    "subsampled-draws": ("epsilon", "delta"),
    # the largest Rényi divergence over all sums, not closed forms
    "tempered-posterior": ("rdp",),
}


def assert_same_numbers(account, recorded, *, tighter=()):
    """Equal to what was recorded; `tighter`: the views of which a sharper theorem has lowered some numbers since."""
    found = account_numbers(account)
    assert found.keys() == recorded.keys()
    for view, numbers in recorded.items():
        if view in ("relation", "assumptions"):
            assert found[view] == numbers
        elif view in tighter:
            pairs = zip(map(float, found[view]), map(float, numbers), strict=True)
            assert all(own <= before * (1 + 1e-9) for own, before in pairs), view
        else:
            assert list(map(float, found[view])) == pytest.approx(list(map(float, numbers)), rel=1e-9), view


def test_there_are_samples():
    assert [folder.name for folder in FORMATS][:1] == ["format1"]
    assert all(len(list(folder.glob("releases/*.json"))) >= 51 for folder in FORMATS)


@pytest.mark.parametrize("path", FILES)
def test_a_release_loads_with_the_numbers_that_it_was_published_with(path):
    if path.suffix == ".nc":
        pytest.importorskip("h5netcdf")
        assert ps.Release.load(path) == ps.Release.load(path.with_suffix(".json"))
        return
    release = ps.Release.load(path)
    assert {name: x.ravel().tolist() for name, x in release.draws.items()} == {
        name: table["values"] for name, table in read(path)["draws"].items()
    }
    recorded = read(path.parent.parent / "expected.json")["releases"][path.stem]
    assert_same_numbers(release.account, recorded, tighter=TIGHTER.get(path.stem, ()))
    assert ps.Release.from_json(release.to_json()) == release


@each_format
def test_values_load(folder):
    accounts = read(folder / "expected.json")["accounts"]
    for name, document in read(folder / "values.json").items():
        found = decode(document)
        if name in accounts:
            assert isinstance(found, ps.Accountant)
            assert_same_numbers(ps.Accountant.from_dict(document), accounts[name], tighter=TIGHTER.get(name, ()))
            assert ps.Accountant.from_dict(found.to_dict()) == found


@each_format
def test_a_ledger_opens_with_what_was_spent_and_goes_on(folder, tmp_path):
    for name, recorded in read(folder / "expected.json")["ledgers"].items():
        path = tmp_path / f"{name}.ledger"
        shutil.copy(folder / path.name, path)
        path.chmod(0o644)
        ledger = ps.Ledger(path)
        assert ledger.spent() == pytest.approx(recorded["spent"], rel=1e-9)
        assert ledger.remaining() == pytest.approx(recorded["remaining"], rel=1e-9)
        assert len(ledger.history()) == recorded["entries"]
        reservation = ledger.reservation(3)
        assert [item.left for item in reservation.items] == [2, 0]
        assert isinstance(reservation.release(0, 2.0).mechanism, ps.GaussianMechanism)
        relation = ledger.relation
        ledger.spend(ps.PureAccountant(stated_epsilon=1e-3, relation=relation))
        assert len(ps.Ledger(path).history()) == recorded["entries"] + 1
        assert ps.Ledger(path).spent() == ledger.spent() > recorded["spent"]


@each_format
def test_accounts_of_an_export_can_be_read(folder):
    for name in ("curve", "zcdp"):
        entries = read(folder / f"{name}.export.json")["entries"]
        assert [entry["kind"] for entry in entries][:3] == ["spend", "release", "plan"]
        ledger = ps.Ledger(folder / f"{name}.ledger")
        found = [ps.Accountant.from_dict(item["account"]) for entry in entries for item in entry["items"]]
        assert found == [item.account for entry in ledger.history() for item in entry.items]
        assert decode(entries[2]["items"][0]["mechanism"]).accountant == found[2]


def test_files_of_the_present_format_can_be_added(tmp_path):
    """The program that writes the samples still runs, and they load as older ones do."""
    pytest.importorskip("h5netcdf")
    folder = tmp_path / "now"
    make.write(folder)
    for path in sorted(folder.glob("releases/*.json")):
        release = ps.Release.load(path)
        assert read(path)["mechanism"]["type"][:2] == ["privsample", type(release.mechanism).__name__]
    test_a_ledger_opens_with_what_was_spent_and_goes_on(folder, tmp_path)
    test_accounts_of_an_export_can_be_read(folder)
