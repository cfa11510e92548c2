"""Private hidden Markov chains: account, releases, public rules, calibration, and what a chain recovers."""

import dataclasses

import numpy as np
import pytest

from privsample import DP, CuratorNotes, PrivateGibbsHMM, Release
from privsample.accounting.posterior.gibbs import FIXED_PARTS, histograms_account, sweeps_account
from privsample.errors import PrivateContent, SchemaError

ENTRIES = (4, 0, 6, 5)
GIVEN = {"states": 2, "categories": (3, 2), "entries": ENTRIES, "sweeps": 6, "released_sweeps": 4}
NOISY = PrivateGibbsHMM(**GIVEN, scale=2.0)
TEMPERED = PrivateGibbsHMM(**GIVEN, temperature=3.0, truncation=0.2)
ROWS = np.random.default_rng(3).integers(0, [3, 2], (15, 2))


def test_accounts():
    assumed = {"assumptions": FIXED_PARTS}
    assert NOISY.accountant == histograms_account(features=2, n=15, noise=NOISY.distribution, **assumed)
    floats = dataclasses.replace(NOISY, exact=False).accountant
    assert floats == histograms_account(features=2, n=15, noise=NOISY.distribution)
    assert dataclasses.replace(NOISY, sweeps=1000, states=7).accountant == NOISY.accountant
    assert TEMPERED.distribution is None
    assert TEMPERED.accountant == sweeps_account(
        categories=(3, 2), entries=ENTRIES, states=2, prior=1.0, temperature=3.0, truncation=0.2, sweeps=6, **assumed
    )


@pytest.mark.parametrize("made", [NOISY, TEMPERED, dataclasses.replace(NOISY, noise="gaussian")], ids=["a", "b", "c"])
def test_release(made, rng, tmp_path):
    release, notes = made.release_with_notes(ROWS, rng=rng)
    assert release["states"].shape == (4, 4)
    assert release["emissions"].shape == (4, 2, 5)
    assert release["transitions"].shape == (4, 2, 2)
    assert Release.from_json(release.to_json()) == release
    assert "log likelihood" in notes.text()
    with pytest.raises(PrivateContent):
        Release(mechanism=made, draws={"states": notes}, account=release.account)
    assert np.isfinite(made.log_predictive(release, made.histograms(ROWS))).all()
    assert made.release(ROWS)["states"].shape == (4, 4)


def test_a_scan_moves_as_many_states_as_it_says(rng):
    """Between two sweeps only `scan` of the steps with records may change; at a high temperature all others would."""

    def moves(sweeps, **more):
        counts = {"sweeps": sweeps, "released_sweeps": sweeps}
        made = PrivateGibbsHMM(**GIVEN | {"states": 7, "temperature": 1e6} | counts, **more)
        return np.diff(made.release(ROWS, rng=rng)["states"], axis=0) != 0

    for scan in (1, 2):
        assert moves(20, scan=scan)[:, [0, 2, 3]].sum(axis=1).max() == scan
        moved = moves(120, scan=scan, exact=False)[:, [0, 2, 3]]  # exact draws take ten times as long
        assert moved.sum(axis=1).max() == scan
        assert (moved.sum(axis=0) > 0.4 * 119 * scan / 3 * 6 / 7).all()
    assert moves(20).sum(axis=1).max() == 4


REGIONS = {"states": 2, "categories": (3, 2), "entries": (40,) * 24, "sweeps": 40, "released_sweeps": 20, "chains": 2}


@pytest.mark.parametrize("tied", [True, False])
def test_one_chain_for_each_region(tied, rng, tmp_path):
    """Both regions change in the middle, in opposite directions; untied regions have other probabilities as well."""
    late = np.array([0] * 6 + [1] * 6 + [1] * 6 + [0] * 6)
    shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    other = shares if tied else np.array([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    rows = np.array([(rng.choice(3, p=(shares, other)[t // 12][late[t]]), 0) for t in range(24) for _ in range(40)])
    made = PrivateGibbsHMM(**REGIONS, tied=tied, scale=0.5)
    release, notes = made.release_with_notes(rows, rng=rng)
    own = () if tied else (2,)
    assert release["states"].shape == (20, 24)
    assert release["emissions"].shape == (20, *own, 2, 5)
    assert release["transitions"].shape == (20, *own, 2, 2)
    assert Release.from_json(release.to_json()) == release
    assert "log likelihood" in notes.text()
    assert made.log_predictive(release, made.histograms(rows)).shape == (24,)
    last = release["states"][-1]
    for part in [slice(0, 24)] if tied else [slice(0, 12), slice(12, 24)]:
        agreement = (last[part] == late[part]).mean()
        assert max(agreement, 1 - agreement) > 0.9
    assert made.accountant == PrivateGibbsHMM(**REGIONS | {"chains": 1}, scale=0.5).accountant


def test_scans_of_several_chains(rng):
    """The scan is over the steps of all chains, tied or not, and costs the same."""
    for tied in (True, False):
        steps = {"entries": (4, 0, 6, 5, 4, 3), "chains": 2, "states": 7}
        fields = GIVEN | steps | {"sweeps": 30, "released_sweeps": 30}
        made = PrivateGibbsHMM(**fields, temperature=1e6, scan=2, tied=tied)
        rows = np.zeros((22, 2))
        release = made.release(rows, rng=rng)
        moved = np.diff(release["states"], axis=0) != 0
        assert np.delete(moved, 1, axis=1).sum(axis=1).max() == 2
        assert moved.any(axis=0).all()
        assert made.accountant.entries[-1][0].variables == 5
        assert np.isfinite(made.log_predictive(release, made.histograms(rows))).all()


def test_no_value_of_a_record_can_fail(rng):
    odd = ROWS.astype(object)
    odd[0], odd[1], odd[2, 0], odd[3, 1] = (None, "x"), (np.nan, np.inf), -1, 10**400
    release = TEMPERED.release(odd, rng=rng)
    assert np.isfinite(release["emissions"]).all()
    counts = NOISY.histograms(odd)
    assert counts[0, :3].sum() == 4
    notes = NOISY.validate(odd)
    assert isinstance(notes, CuratorNotes)
    assert "feature 0, missing" in notes.text()
    for wrong in (ROWS[:14], ROWS[:, :1]):
        with pytest.raises(SchemaError):
            NOISY.release(wrong)


def test_noisy_histograms_are_counts_of_the_public_size(rng):
    counts = NOISY.histograms(ROWS)
    noisy = dataclasses.replace(NOISY, scale=20.0)._noisy(counts, rng)
    assert noisy.min() >= 0
    for part in NOISY.model.features:
        np.testing.assert_allclose(noisy[:, part].sum(axis=1), ENTRIES, atol=1e-9)


def test_a_private_chain_recovers_two_kinds_of_days(rng):
    days, each = 60, 300
    kinds = (np.arange(days) // 10) % 2
    shares = np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]])
    rows = np.array([(rng.choice(3, p=shares[kind]), rng.integers(2)) for kind in kinds for _ in range(each)])
    given = {"states": 2, "categories": (3, 2), "entries": (each,) * days, "target": DP(epsilon=2.0, delta=1e-6)}
    for by, sweeps, truncation in (("scale", 30, 0.1), ("temperature", 4, 0.4)):
        made = PrivateGibbsHMM.calibrate(**given, by=by, sweeps=sweeps, released_sweeps=1, truncation=truncation)
        assert given["target"].met_by(made.accountant)
        states = made.release(rows, rng=rng)["states"][-1]
        agreement = (states == kinds).mean()
        assert max(agreement, 1 - agreement) > 0.9, by


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "neither"),
        ({"scale": 1.0, "temperature": 2.0}, "both"),
        ({"scale": 0.0}, "scale must be finite and > 0"),
        ({"temperature": 0.5}, "temperature must be finite and >= 1"),
        ({"temperature": 2.0, "truncation": 0.5}, r"truncation must lie in \(0, 1/2\)"),
        ({"scale": 1.0, "truncation": 0.0}, "truncation"),
        ({"scale": 1.0, "noise": "cauchy"}, "cauchy"),
        ({"scale": 1.0, "scan": 1}, "scan is used with temperature only"),
        ({"temperature": 2.0, "scan": 4}, "scan must be at most the 3 time steps that have records, got 4"),
        ({"temperature": 2.0, "scan": 0}, "scan must be at least 1"),
        ({"scale": 1.0, "chains": 3}, "chains must divide the 4 steps of entries"),
        ({"scale": 1.0, "chains": 0}, "chains must be at least 1"),
        ({"scale": 1.0, "released_sweeps": 9}, "released_sweeps must be at most sweeps"),
        ({"scale": 1.0, "entries": (0, 0)}, "at least one step"),
        ({"scale": 1.0, "entries": (3, -1)}, "entries"),
        ({"scale": 1.0, "categories": (3, 1)}, "categories"),
        ({"scale": 1.0, "states": 0}, "states"),
    ],
)
def test_fields_are_checked(fields, message):
    with pytest.raises(ValueError, match=message):
        PrivateGibbsHMM(**GIVEN | fields)
    with pytest.raises(ValueError, match=r"entries\[1\] must be a whole number"):
        PrivateGibbsHMM(**GIVEN | {"scale": 1.0, "entries": (3, 1.5)})
    assert PrivateGibbsHMM(**GIVEN | {"scale": 1.0, "entries": (3.0, np.int8(1))}).entries == (3, 1)
    with pytest.raises(ValueError, match="by must be"):
        PrivateGibbsHMM.calibrate(**GIVEN, target=DP(epsilon=1), by="sweeps")


@pytest.mark.parametrize(("sweeps", "released_sweeps"), [(1, 1), (2, 1), (40, 20), (200, 100)])
def test_by_default_the_second_half_of_the_sweeps_is_kept(sweeps, released_sweeps):
    given = {name: item for name, item in GIVEN.items() if name not in ("sweeps", "released_sweeps")}
    assert PrivateGibbsHMM(**given, scale=1.0, sweeps=sweeps).released_sweeps == released_sweeps
    assert PrivateGibbsHMM(**given, scale=1.0).released_sweeps == 100
