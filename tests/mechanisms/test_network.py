"""Private Bayesian networks: account, releases, public rules, calibration, and what the draws recover."""

import dataclasses
import itertools

import numpy as np
import pytest

from privsample import DP, CuratorNotes, PrivateGibbsNetwork, Release
from privsample.accounting.posterior.gibbs import histograms_account
from privsample.errors import SchemaError

GIVEN = {"categories": (2, 3, 2), "edges": ((0, 1), (1, 2)), "n": 30, "scale": 2.0, "sweeps": 20}
MADE = PrivateGibbsNetwork(**GIVEN)
ROWS = np.random.default_rng(3).integers(0, [2, 3, 2], (30, 3))


def test_account():
    """Two tables, of which a replaced record changes two cells each, whatever the sweeps."""
    assert MADE.accountant.pure_epsilon == pytest.approx(2 * 2 / 2.0)
    assert MADE.accountant.delta(0.3) == histograms_account(features=2, n=30, noise=MADE.distribution).delta(0.3)
    assert dataclasses.replace(MADE, sweeps=7, released_sweeps=None, noise_aware=False).accountant == MADE.accountant
    assert dataclasses.replace(MADE, edges=()).accountant.pure_epsilon == pytest.approx(3 * 2 / 2.0)
    assert dataclasses.replace(MADE, edges=((0, 1), (0, 2), (1, 2))).accountant.pure_epsilon == pytest.approx(1.0)


def test_every_pair_of_neighbours_changes_the_tables_as_stated():
    """Over all pairs of records: two cells of each table at most, and exactly so for the worst neighbours."""
    records = list(itertools.product(range(2), range(3), range(2)))
    one = dataclasses.replace(MADE, n=1)
    changes = [np.sort(np.abs(one.tables([x]) - one.tables([y])))[::-1] for x, y in itertools.combinations(records, 2)]
    assert max(int(change.sum()) for change in changes) == 4
    assert all(change.max() == 1 for change in changes)
    first, second = (build() for build in MADE.worst_neighbours()[0].datasets)
    assert np.abs(MADE.tables(first) - MADE.tables(second)).sum() == 4


@pytest.mark.parametrize("changes", [{}, {"noise_aware": False}, {"noise": "gaussian"}, {"edges": ()}])
def test_release(changes, rng):
    made = dataclasses.replace(MADE, **changes)
    release = made.release(ROWS, rng=rng)
    assert release["probabilities"].shape == (10, made.network.probabilities)
    assert Release.from_json(release.to_json()) == release
    middle = made.conditional(release, 1)
    assert middle.shape == ((10, 3) if "edges" in changes else (10, 2, 3))
    np.testing.assert_allclose(middle.sum(axis=-1), 1.0)
    found = made.log_predictive(release, list(itertools.product(range(2), range(3), range(2))))
    assert np.exp(found).sum() == pytest.approx(1.0)
    assert made.release(ROWS)["probabilities"].shape == release["probabilities"].shape


def test_no_value_of_a_record_can_fail(rng):
    odd = ROWS.astype(object)
    odd[0], odd[1, 0], odd[2, 1] = (None, "x", np.nan), -1, 10**400
    assert np.isfinite(MADE.release(odd, rng=rng)["probabilities"]).all()
    notes = MADE.validate(odd)
    assert isinstance(notes, CuratorNotes)
    assert "feature 0, missing" in notes.text()
    for wrong in (ROWS[:29], ROWS[:, :2]):
        with pytest.raises(SchemaError):
            MADE.release(wrong)


def test_noise_aware_draws_predict_better(rng):
    """Parameters from the prior, little data and much noise: the expected log likelihood of a further record."""
    gaps = []
    cells = list(itertools.product(range(2), range(2)))
    for _ in range(40):
        share, late = rng.random(), rng.random(2)
        first = rng.random(40) < share
        rows = np.column_stack([first, rng.random(40) < late[first.astype(int)]]).astype(int)
        truth = [(share if a else 1 - share) * (late[a] if b else 1 - late[a]) for a, b in cells]
        scores = []
        for flag in (True, False):
            made = PrivateGibbsNetwork(
                categories=(2, 2), edges=((0, 1),), n=40, scale=40.0, noise_aware=flag, sweeps=100, released_sweeps=75
            )
            scores.append(truth @ made.log_predictive(made.release(rows, rng=rng), cells))
        gaps.append(scores[0] - scores[1])
    assert np.mean(gaps) > 2 * np.std(gaps) / 40**0.5


def test_calibration_and_what_it_recovers(rng):
    target = DP(epsilon=1.0, delta=1e-6)
    made = PrivateGibbsNetwork.calibrate(
        categories=(2, 2, 2), edges=((0, 1), (1, 2)), n=4000, sweeps=100, target=target
    )
    assert target.met_by(made.accountant)
    a = rng.random(4000) < 0.3
    b = rng.random(4000) < np.where(a, 0.8, 0.1)
    c = rng.random(4000) < np.where(b, 0.6, 0.2)
    release = made.release(np.column_stack([a, b, c]).astype(int), rng=rng)
    np.testing.assert_allclose(made.conditional(release, 0).mean(axis=0)[1], 0.3, atol=0.05)
    np.testing.assert_allclose(made.conditional(release, 1).mean(axis=0)[:, 1], [0.1, 0.8], atol=0.05)
    np.testing.assert_allclose(made.conditional(release, 2).mean(axis=0)[:, 1], [0.2, 0.6], atol=0.06)


def test_fields_are_checked():
    for fields, message in (
        ({"n": 0}, "n must be"),
        ({"scale": 0.0}, "scale must be finite and > 0"),
        ({"noise": "cauchy"}, "cauchy"),
        ({"released_sweeps": 21}, "released_sweeps must be at most sweeps = 20, got 21"),
        ({"sweeps": 0}, "sweeps"),
        ({"edges": ((0, 1), (1, 0))}, "cycle"),
    ):
        with pytest.raises(ValueError, match=message):
            PrivateGibbsNetwork(**GIVEN | fields)


@pytest.mark.parametrize(
    ("variable", "error"),
    [(7, ValueError), (-1, ValueError), (0.5, ValueError), ("name", TypeError), (None, TypeError)],
)
def test_a_variable_that_the_network_has_not_is_refused(variable, error, rng):
    release = MADE.release(ROWS, rng=rng)
    with pytest.raises(error, match=f"^variable must be a whole number from 0 to 2, got {variable!r}$"):
        MADE.conditional(release, variable)
