"""Files that earlier versions wrote load for ever, and their accounts keep their numbers."""

import functools
import json
import math
import shutil
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import privsample as ps
from privsample._renamed import UPGRADES
from privsample._serial import decode, encode
from tests.data import make
from tests.data.numbers import account_numbers

FORMATS = sorted((Path(__file__).parent / "data").glob("format[0-9]*"))
# Their numbers take a second or more; in the short lane those of an earlier format, or other tests, stand for them.
SLOW = {
    f"format3-{name}.json"
    for name in (
        "gibbs-scan",
        "random-allocation",
        "regression-statistics",
        "sampled-tempered-posterior",
        "tempered-posterior",
    )
}
FILES = [
    pytest.param(path, id=name, marks=pytest.mark.long if name in SLOW else ())
    for folder in FORMATS
    for path in sorted(folder.glob("releases/*"))
    for name in [f"{folder.name}-{path.name}"]
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
# accounts that are composed on grids, of which others answer now
ON_GRIDS = {"composed": ("epsilon", "delta"), "regression-statistics": ("epsilon", "delta")}

# accounts whose assumptions have been stated more exactly since: (removed, added)
CHAIN = ({"IDEAL_REALS"}, {"FLOAT_CHAIN"})
RESTATED = {
    "gradient-descent": CHAIN,
    "public-descent": CHAIN,
    "contraction": CHAIN,
    "contraction-maps": CHAIN,
    "logistic-posterior": (set(), {"TIMING"}),
}


numbers_of = functools.cache(account_numbers)  # several formats hold the same accounts


def assert_same_numbers(account, recorded, name="", *, restated=(set(), set())):
    """Equal to what was recorded, but for the views that the tables above list for this name."""
    found, (removed, added) = numbers_of(account), restated
    recorded = recorded | {"assumptions": sorted({*recorded["assumptions"]} - removed | added)}
    assert found.keys() == recorded.keys()
    for view, numbers in recorded.items():
        if view == "relation":
            assert account.relation == decode(numbers)
        elif view == "assumptions":
            assert found[view] == numbers
        elif view in TIGHTER.get(name, ()):
            pairs = zip(map(float, found[view]), map(float, numbers), strict=True)
            assert all(own <= before * (1 + 1e-9) for own, before in pairs), view
        else:
            rel = 2e-7 if view in ON_GRIDS.get(name, ()) else 1e-9
            assert list(map(float, found[view])) == pytest.approx(list(map(float, numbers)), rel=rel), view


DIVISORS = [1.0, 0.5, 0.2, 0.3, 0.7, 1 / 3, 0.1, 0.999, 1 - 2.0**-53, 1e-3, 1e-9, 0.013979492563659844]


def former(name, divisor, **fields):
    """A document of the first format, in which the prior was divided by `prior_divisor`."""
    return {"type": name, "prior_divisor": divisor} | fields


def test_a_prior_divisor_becomes_a_weight_that_costs_no_less():
    step = UPGRADES["PosteriorAccountant", 1]
    for divisor in [*DIVISORS, *np.random.default_rng(4).uniform(1e-6, 1, 200).tolist()]:
        weight = step({"prior_divisor": divisor})["prior_weight"]
        assert 1 <= Fraction(weight) <= 1 / Fraction(divisor) < Fraction(math.nextafter(weight, math.inf))
    assert step({"prior_divisor": 5e-324})["prior_weight"] == sys.float_info.max


@pytest.mark.parametrize("divisor", DIVISORS)
def test_files_with_a_prior_divisor_load(divisor):
    beta = encode(ps.BetaBernoulli(alpha=0.3, beta=9.0))
    found = decode(former("ConcentratedPosterior", divisor, model=beta, n=20))
    assert found == decode(encode(found))
    assert found.prior_weight == pytest.approx(1 / divisor, rel=1e-15)
    assert found.accountant == decode(former("PosteriorAccountant", divisor, model=beta, n=20))
    one = ps.ConcentratedPosterior(model=decode(beta), n=20, prior_weight=max(1.0, 1 / divisor)).accountant
    assert found.accountant.epsilon(1e-6) == pytest.approx(float(one.epsilon(1e-6)), rel=1e-13)
    assert found.accountant.order_limit <= 1 + 0.3 / divisor
    query = decode(former("BetaQuery", divisor, alpha=2.0, beta=3.0, bounds=[0.0, 1.0], n=3))
    assert query.accountant == decode(encode(query.accountant))
    fields = {"n": 9, "features": 2, "norm": 1.0, "prior_std": 2.0}
    logistic = decode(former("LogisticPosterior", divisor, **fields))
    own = decode(former("LogisticAccountant", divisor, **fields))
    assert not logistic.constant_time
    assert logistic.accountant == own.assuming(ps.Assumption.TIMING)
    assert own.shift == pytest.approx(4 * divisor**0.5, rel=1e-15)


def test_a_group_under_a_prior_divided_to_one_loads():
    """The lemma for groups needs prior counts of at least 1, which 0.3 times the rounded 1 / 0.3 just misses."""
    model = ps.DirichletCategorical(alpha=(0.3, 2.0, 3.0))
    found = decode(former("PosteriorAccountant", 0.3, model=encode(model), n=20, group_size=2))
    assert found.group_size == 2
    assert Fraction(0.3) * Fraction(found.prior_weight) >= 1


@pytest.mark.parametrize("divisor", [0.0, -1.0, 2.0, "a half"])
def test_a_prior_divisor_out_of_range_is_refused(divisor):
    with pytest.raises(ValueError, match=r"prior_weight|does not describe"):
        decode(former("LogisticAccountant", divisor, n=9, features=2, norm=1.0, prior_std=2.0))


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
    partly = int(path.parts[-3].removeprefix("format")) < 3
    restated = RESTATED.get(path.stem, (set(), set())) if partly else (set(), set())
    assert_same_numbers(release.account, recorded, path.stem, restated=restated)
    assert ps.Release.from_json(release.to_json()) == release
    assert release.partly_digested == partly
    if path.stem == "gaussian-sum":
        assert ("whose digest covered the released numbers only" in release.statement()) == partly


@pytest.mark.parametrize("path", [path for f in FORMATS for path in f.glob("draws/*.nc")], ids=lambda path: path.name)
def test_posterior_draws_load(path):
    pytest.importorskip("h5netcdf")
    draws = ps.PosteriorDraws.load(path)
    recorded = read(path.parent.parent / "expected.json")["draws"][path.stem]
    assert {name: array.ravel().tolist() for name, array in draws.items()} == recorded["numbers"]
    assert draws.method == recorded["method"]
    assert_same_numbers(draws.account, recorded["account"])


@pytest.mark.parametrize(
    "path", [path for f in FORMATS for path in f.glob("certificates/*")], ids=lambda path: path.name
)
def test_certificates_are_proved(path):
    recorded = read(path.parent.parent / "expected.json")["certificates"][path.stem]
    certificate = ps.Certificate.load(path)
    assert [list(claim) for claim in certificate.claims] == recorded
    assert certificate.verify()


@each_format
def test_values_load(folder):
    accounts = read(folder / "expected.json")["accounts"]
    for name, document in read(folder / "values.json").items():
        found = decode(document)
        if name in accounts:
            assert isinstance(found, ps.Accountant)
            assert_same_numbers(ps.Accountant.from_dict(document), accounts[name], name)
            assert ps.Accountant.from_dict(found.to_dict()) == found


@each_format
def test_a_ledger_opens_with_what_was_spent_and_goes_on(folder, tmp_path):
    for name, recorded in read(folder / "expected.json")["ledgers"].items():
        path = tmp_path / f"{name}.ledger"
        shutil.copy(folder / path.name, path)
        path.chmod(0o644)
        # Files of versions before the binding to a place open anywhere; later ones, as copies, after `moved`.
        ledger = ps.Ledger(path) if folder in FORMATS else ps.Ledger.moved(path)
        # The least zCDP of a loss is smaller than what was charged then, by at most a thousandth for these.
        assert recorded["spent"] * 0.999 <= ledger.spent() <= recorded["spent"] * (1 + 1e-9)
        assert ledger.remaining() == pytest.approx(recorded["remaining"], rel=1e-3)
        before = ledger.spent()
        assert len(ledger.history()) == recorded["entries"]
        reservation = ledger.reservation(3)
        assert [item.left for item in reservation.items] == [2, 0]
        assert isinstance(reservation.release(0, 2.0).mechanism, ps.GaussianMechanism)
        relation = ledger.relation
        ledger.spend(ps.PureAccountant(stated_epsilon=1e-3, relation=relation))
        assert len(ps.Ledger(path).history()) == recorded["entries"] + 1
        assert ps.Ledger(path).spent() == ledger.spent() > before


@each_format
def test_accounts_of_an_export_can_be_read(folder):
    for name in ("curve", "zcdp"):
        entries = read(folder / f"{name}.export.json")["entries"]
        assert [entry["kind"] for entry in entries][:3] == ["spend", "release", "plan"]
        ledger = ps.Ledger(folder / f"{name}.ledger")
        found = [ps.Accountant.from_dict(item["account"]) for entry in entries for item in entry["items"]]
        assert found == [item.account for entry in ledger.history() for item in entry.items]
        assert decode(entries[2]["items"][0]["mechanism"]).accountant == found[2]


def test_files_of_the_present_format_can_be_added(tmp_path, monkeypatch):
    """The program that writes the samples still runs, and they load as older ones do.

    The numbers of the accounts, which take seconds, are those that other tests here compare.
    """
    pytest.importorskip("h5netcdf")
    monkeypatch.setattr(make, "account_numbers", lambda account: {})
    folder = tmp_path / "now"
    make.write(folder)
    for path in sorted(folder.glob("releases/*.json")):
        release = ps.Release.load(path)
        assert read(path)["mechanism"]["type"][:2] == ["privsample", type(release.mechanism).__name__]
    assert all(ps.PosteriorDraws.load(path).draws for path in folder.glob("draws/*.nc"))
    assert len([ps.Certificate.load(path) for path in folder.glob("certificates/*")]) == 2
    test_a_ledger_opens_with_what_was_spent_and_goes_on(folder, tmp_path)
    test_accounts_of_an_export_can_be_read(folder)


FORMER_FIELDS = {
    "BetaShifts": (ps.BetaShifts(a=1, b=2, integer_valued=True), {"whole": "integer_valued"}),
    "ConditionalAccountant": (
        ps.ConditionalAccountant(
            base=ps.PureAccountant(stated_epsilon=0.1), event_probability=0.2, geometric_stopping=True
        ),
        {"floor": "event_probability", "stops": "geometric_stopping"},
    ),
    "Domain": (ps.Domain(low=0, high=3, missing=1, integer_valued=True), {"whole": "integer_valued"}),
    "EmissionAccountant": (
        ps.EmissionAccountant(n=9, min_records=4, categories=2, prior=1.0, temperature=2.0, truncation=0.1),
        {"least": "min_records"},
    ),
    "GammaRateShift": (
        ps.GammaRateShift(shape=2, rate=1, max_shift=5, shape_per_record=3),
        {"reach": "max_shift", "each": "shape_per_record"},
    ),
    "GammaShapeShift": (ps.GammaShapeShift(shape=2, max_shift=5), {"reach": "max_shift"}),
    "LinearRegression": (
        ps.LinearRegression(feature_bounds=((0, 1),), target_bounds=(0, 2), shape=2, scale=1, feature_prior_scale=0.25),
        {"spread": "feature_prior_scale"},
    ),
    "NormalShift": (ps.NormalShift(variance=1, noise_variance=2, record_range=3), {"reach": "record_range"}),
    "PrivateGibbsHMM": (
        ps.PrivateGibbsHMM(
            states=1, categories=(2,), entries=(3,), scale=4.0, sweeps=4, released_sweeps=1, exact=False
        ),
        {"kept": "released_sweeps"},
    ),
    "SelectionAccountant": (
        ps.SelectionAccountant(base=ps.PureAccountant(stated_epsilon=0.1), repetitions=ps.Poisson(mean=3.0)),
        {"runs": "repetitions"},
    ),
}


@pytest.mark.parametrize(("value", "former"), FORMER_FIELDS.values(), ids=FORMER_FIELDS)
def test_values_load_with_their_former_fields(value, former):
    document = json.loads(json.dumps(encode(value)))
    package, name, _ = document["type"]
    document["type"] = [package, name, 1]
    for before, now in former.items():
        document[before] = document.pop(now)
    assert decode(document) == value


@pytest.mark.parametrize(("version", "field"), [(1, "moved"), (2, "records_may_move")])
def test_parts_between_which_records_might_move_load(version, field):
    """Nothing in the file proves that the maximum holds for parts under ReplaceOne: the account says so now."""
    for relation in (ps.AddRemove(), ps.ReplaceOne(n=5)):
        parts = (ps.LaplaceAccountant(sensitivity=1, scale=2, relation=relation),)
        document = encode(ps.Parallel(parts=parts))
        document["type"] = ["privsample", "Parallel", version]
        del document["shared"], document["replaced"]
        account = decode(document | {field: True})
        fixed = relation == ps.ReplaceOne(n=5)
        assert account == ps.Parallel(parts=parts, shared=fixed, assumptions=account.assumptions)
        assert (ps.Assumption.STATED in account.assumptions) == fixed
        assert account.epsilon(0.0) == 0.5


def test_both_former_formats_of_a_sensitivity_load():
    value = ps.RecordSensitivity(differences=[[1.0, 2.0]], integer_valued=True, tight=False, l2=1.5)
    first = {"type": "Differences", "vectors": [[1.0, 2.0]], "whole": True, "attained": False, "length": 1.5}
    second = {"differences": [[1.0, 2.0]], "whole": True, "tight": False, "l2": 1.5}
    assert decode(first) == decode({"type": ["privsample", "RecordSensitivity", 2]} | second) == value
    assert encode(value)["type"] == ["privsample", "RecordSensitivity", 3]
