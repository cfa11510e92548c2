"""Sequential audits: true claims stand at every time, false ones fall, and an interruption changes nothing."""

import itertools
import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import joblib
import numpy as np
import pytest
from scipy import stats

import privsample as ps
from privsample.simulations.audit.betting import SCALES, SIZES, Wealth, log_factors
from privsample.simulations.audit.betting_events import fit_events
from privsample.simulations.audit.catalogue import audit_example, catalogue
from privsample.simulations.audit.sequential_identity import _subject

LAPLACE = ps.LaplaceMechanism(sensitivity=1, scale=1, exact=False)
HALF = ps.LaplaceMechanism(sensitivity=1, scale=0.5, exact=False)
GAUSSIAN = ps.GaussianMechanism(sensitivity=1, noise_std=1, exact=False)
PAIR = (np.zeros(2), np.array([1.0, 0.0]))


def noisy(data, rng):
    return data.sum() + rng.laplace(0.0, 0.6)


OWN = {"datasets": PAIR, "claim": LAPLACE.accountant}


@dataclass
class Noise:
    """An object whose method is audited."""

    scale: float

    def draw(self, data, rng):
        return data.sum() + rng.laplace(0.0, self.scale)

    def twice(self, data, rng):
        return 2.0 * data.sum() + rng.laplace(0.0, self.scale)


class Interrupted(Exception):
    """Raised by the progress function of a test."""


def interrupt(after):
    """A progress function that stops an audit after some draws."""

    def report(verdict):
        if verdict.samples >= after:
            raise Interrupted

    return report


# ---------------------------------------------------------------- the wealth is a supermartingale, exactly


def bernoulli_wealth(epsilon, delta):
    return Wealth(epsilons=np.array([epsilon]), claims=np.array([delta]), families=1, level=1e-6)


def expected_wealth(p, q, epsilon, delta, pairs, leader):
    """The mean wealth by enumeration. p, q: probabilities of three cells: the events A and B, and neither."""
    cells, total = range(3), 0.0
    outcomes = {(x, y): 8 * (x == 0) + 4 * (y == 0) + 2 * (y == 1) + (x == 1) for x in cells for y in cells}
    for path in itertools.product(outcomes, repeat=pairs):
        wealth, seen = bernoulli_wealth(epsilon, delta), np.empty((0, 1, 1), dtype=np.uint8)
        for pair in path:
            new = np.full((1, 1, 1), outcomes[pair], dtype=np.uint8)
            wealth.advance(new, leader(wealth, seen, new))
            seen = np.concatenate([seen, new])
        total += float(np.prod([p[x] * q[y] for x, y in path])) * np.exp(wealth.log_wealth(1.0))
    return total


def of_the_past(wealth, past, now):
    return wealth.best_leader(past) if len(past) else None


def of_the_present(wealth, past, now):
    """A mutant: the event and the size are chosen after the pair of draws on which they bet."""
    return wealth.best_leader(np.concatenate([past, now]))


BOUNDARIES = [  # e^epsilon q + delta = p for A, and the same for B with p and q exchanged
    ((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), np.log(3.0), 0.0),
    ((0.5, 0.2, 0.3), (0.2, 0.5, 0.3), np.log(2.0), 0.1),
    ((0.4, 0.4, 0.2), (0.4, 0.4, 0.2), 0.0, 0.0),
]


@pytest.mark.parametrize(("p", "q", "epsilon", "delta"), BOUNDARIES)
def test_the_mean_wealth_is_one_on_the_boundary_of_the_claim_and_at_most_one_inside(p, q, epsilon, delta):
    assert expected_wealth(p, q, epsilon, delta, 3, of_the_past) == pytest.approx(1.0, abs=1e-12)
    assert expected_wealth(p, q, epsilon, delta + 0.05, 3, of_the_past) < 0.999
    assert expected_wealth(p, q, epsilon, delta, 2, of_the_present) > 1.01


def test_factors_are_positive_and_have_mean_one_on_the_boundary_for_any_epsilon():
    epsilons, deltas = np.array([0.0, 1.0, 50.0, 3e4]), np.array([0.0, 0.3, 1e-12, 1.0])
    factors = np.exp(log_factors(epsilons, deltas))
    assert factors.shape == (3, 4, len(SIZES), 16)
    assert factors.min() >= 0.3 * (1 - 1e-12)
    own, other = np.divmod(np.arange(16) // 4, 2)
    expected = 1 + SIZES[:, None] / (np.e + 0.3) * (own - np.e * other - 0.3)
    assert factors[0, 1] == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------- levels, by simulation


def refuted_by_wealth(hits, level):
    wealth = bernoulli_wealth(0.0, 0.0)
    wealth.level = level
    outcomes = (8 * hits[0] + 4 * hits[1]).astype(np.uint8)[:, None, None]
    return wealth.advance(outcomes, None)


def refuted_by_peeking(hits, level):
    """A mutant: a test for a fixed number of draws, looked at after every draw."""
    seen, gap = np.arange(1, hits.shape[1] + 1), np.cumsum(hits[0] - hits[1].astype(float))
    spread = np.sqrt(np.maximum(np.cumsum(hits[0] != hits[1]), 1))
    return bool(np.any((gap / spread > stats.norm.isf(level)) & (seen >= 30)))


@pytest.mark.statistical
def test_a_true_claim_may_be_looked_at_after_every_draw(rng, alpha):
    level, runs = 0.05, 300
    draws = [rng.random((2, 600)) < 0.3 for _ in range(runs)]

    def chance_of_as_many(refuted):
        return stats.binom.sf(sum(refuted(hits, level) for hits in draws) - 1, runs, level)

    assert chance_of_as_many(refuted_by_wealth) > alpha
    assert chance_of_as_many(refuted_by_peeking) < alpha


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("honest", "broken"),
    [
        (LAPLACE, ps.LaplaceMechanism(sensitivity=1, scale=1 / 1.2, exact=False)),
        (GAUSSIAN, ps.GaussianMechanism(sensitivity=1, noise_std=1 / 1.2, exact=False)),
        (
            ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(n=1)),
            ps.RandomizedResponse(log_odds=1.2, relation=ps.ReplaceOne(n=1)),
        ),
    ],
    ids=["Laplace", "Gaussian", "response"],
)
def test_noise_that_is_too_small_is_found_and_true_noise_stands(honest, broken, rng, alpha):
    found = ps.audit(broken, claim=honest.accountant, samples=60_000, rng=rng, sequential=True)
    assert found.violated, found.statement
    assert found.samples < 30_000  # it stops at the first draw that refutes the claim
    assert found.scale >= 1.0
    assert found.times[-1] == found.samples
    true = ps.audit(honest, samples=10_000, rng=rng, level=alpha, sequential=True)
    assert not true.violated
    assert true.samples == true.maximum == 10_000
    assert true.scale < 1.0
    assert np.all(true.lowers <= true.epsilons + 1e-12)


@pytest.mark.statistical
def test_bounds_hold_at_every_time_and_approach_the_truth(rng, alpha):
    """A claim with twice the true epsilon: the true scale is 1/2, at every claimed delta."""
    claim, seen = HALF.accountant, []
    points = [2.0, 4.0 / 3.0]
    verdict = ps.audit(
        LAPLACE,
        claim=claim,
        epsilons=points,
        samples=30_000,
        rng=rng,
        level=alpha,
        sequential=True,
        progress=seen.append,
    )
    truth = [float(LAPLACE.accountant.epsilon(float(delta))) for delta in verdict.claims]
    assert all(np.all(one.lowers <= truth) for one in seen)
    assert all(np.all(np.diff(one.scales) >= 0.0) for one in seen[-1:])
    assert 0.4 < verdict.scale <= 0.5 + 1e-9
    assert verdict.empirical_epsilon > 0.8 * verdict.claimed_epsilon / 2


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["exponential", "concentrated-posterior", "one-bit"])
def test_examples_of_mechanisms_stand_and_their_mutants_fall(name, rng, alpha):
    example = catalogue()[name]
    honest = audit_example(example, samples=300, rng=rng, level=alpha, sequential=True)
    assert not honest.violated, honest.statement
    mutant = audit_example(example, mutant=True, samples=4 * example.samples, rng=rng, sequential=True)
    assert mutant.violated, mutant.statement


@pytest.mark.statistical
def test_the_bits_of_floating_point_noise_are_found_and_those_of_exact_noise_stand(rng, alpha):
    floating = ps.audit(LAPLACE, view="bits", samples=4_000, rng=rng, sequential=True)
    assert floating.violated
    exact = ps.LaplaceMechanism(sensitivity=1, scale=1)
    assert not ps.audit(exact, view="bits", samples=1_000, rng=rng, level=alpha, sequential=True).violated


@pytest.mark.statistical
def test_functions_with_several_numbers_and_several_pairs_of_datasets(rng, alpha):
    pairs = [(np.zeros(3), np.array([1.0, 0, 0])), (np.zeros(3), np.array([0, 0, 1.0]))]

    def broken(data, rng):
        return data.cumsum()[1:] + rng.laplace(0.0, [5.0, 0.4])

    claim = ps.LaplaceAccountant(sensitivity=1, scale=1)
    assert ps.audit(broken, datasets=pairs, claim=claim, samples=4_000, rng=rng, sequential=True).violated
    honest = lambda data, rng: data[:2] + rng.laplace(0.0, 1.0, 2)  # noqa: E731
    assert not ps.audit(
        honest, datasets=pairs, claim=claim, samples=500, rng=rng, level=alpha, sequential=True
    ).violated


# ---------------------------------------------------------------- interruptions and workers


CASES = {
    "known density": (LAPLACE, {"claim": ps.LaplaceAccountant(sensitivity=1, scale=1.1), "samples": 3_000}),
    "learned score": (noisy, {**OWN, "samples": 700}),
    "bits": (LAPLACE, {"view": "bits", "samples": 300, "epsilons": [1.0, 3.0]}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_interrupted_audit_continues_as_if_it_had_not_been(case, tmp_path):
    subject, options = CASES[case]
    whole = ps.audit(subject, rng=np.random.default_rng(1), sequential=True, **options)
    path, options = tmp_path / "one.audit", options | {"state": tmp_path / "one.audit", "sequential": True}
    for after in (1, 150, 200, 600):
        try:
            ps.audit(subject, rng=np.random.default_rng(1), progress=interrupt(after), **options)
        except Interrupted:
            continue
    assert ps.audit(subject, **options) == whole  # the seed is that of the file
    content = path.read_bytes()
    assert ps.audit(subject, **options) == whole  # it has ended, and draws nothing
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_batches_that_are_longer_than_the_past_still_choose_events(tmp_path, monkeypatch):
    """Batches grow with the audit; the last part of the last one is kept, also after an interruption."""
    for name, size in (("_PAST", 24), ("_LEAST_PAST", 24)):
        monkeypatch.setattr(f"privsample.simulations.audit.sequential.{name}", size)
    chosen = []

    def fit(task, case, past, wealth):
        chosen.append(np.concatenate(past, axis=1))
        return fit_events(task, case, past, wealth)

    monkeypatch.setattr("privsample.simulations.audit.sequential.fit_events", fit)
    options = {"samples": 200, "sequential": True}
    whole = ps.audit(LAPLACE, rng=np.random.default_rng(1), **options)
    assert [len(past) for past in chosen] == [24, 24, 24]  # after 32, 64 and 128 pairs
    options["state"] = tmp_path / "one.audit"
    with pytest.raises(Interrupted):
        ps.audit(LAPLACE, rng=np.random.default_rng(1), progress=interrupt(128), **options)
    assert ps.audit(LAPLACE, **options) == whole
    assert np.array_equal(chosen[2], chosen[-1])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 on this system")
def test_a_killed_audit_continues_with_the_batches_that_were_written(tmp_path):
    options = {"samples": 600, "sequential": True, **OWN}
    whole = ps.audit(noisy, rng=np.random.default_rng(1), **options)
    options["state"] = tmp_path / "one.audit"

    def kill(verdict):
        if verdict.samples >= 300:
            os.kill(os.getpid(), signal.SIGKILL)

    child = get_context("fork").Process(
        target=partial(ps.audit, noisy, rng=np.random.default_rng(1), progress=kill, **options)
    )
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert ps.audit(noisy, **options) == whole


def test_an_audit_that_ended_continues_with_more_samples(tmp_path):
    options = {"rng": np.random.default_rng(1), "sequential": True, "state": tmp_path / "one.audit"}
    first = ps.audit(LAPLACE, samples=100, **options)
    more = ps.audit(LAPLACE, samples=1_000, **options)
    assert (first.samples, more.samples) == (100, 1_000)
    assert more.times[: len(first.times)].tolist() == first.times.tolist()
    assert ps.audit(LAPLACE, samples=10, **options) == ps.audit(LAPLACE, samples=1_000, **options)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_the_number_of_workers_changes_nothing(backend):
    alone = ps.audit(noisy, rng=np.random.default_rng(3), samples=300, sequential=True, **OWN)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert ps.audit(noisy, rng=np.random.default_rng(3), samples=300, sequential=True, **OWN) == alone


# ---------------------------------------------------------------- the file


@pytest.fixture
def started(tmp_path):
    """The file of an audit of `noisy` after 100 draws."""
    path = tmp_path / "started.audit"
    ps.audit(noisy, rng=np.random.default_rng(3), samples=100, sequential=True, state=path, **OWN)
    return path


@pytest.mark.parametrize(
    ("part", "subject", "changed"),
    [
        ("claim", noisy, {"claim": ps.LaplaceAccountant(sensitivity=1, scale=2)}),
        ("claim", noisy, {"epsilons": [0.5]}),
        ("mechanism", lambda data, rng: data.sum() + rng.laplace(), {}),
        ("mechanism", partial(noisy), {}),
        ("mechanism", LAPLACE, {"datasets": (0.0, 1.0)}),
        ("datasets", noisy, {"datasets": (PAIR[0], PAIR[1] / 2)}),
        ("loss", noisy, {"loss": lambda outputs: outputs[:, 0]}),
        ("level", noisy, {"level": 1e-3}),
        ("view", noisy, {"view": "bits", "epsilons": None}),
    ],
)
def test_a_file_of_another_audit_is_refused_and_unchanged(part, subject, changed, started):
    content = started.read_bytes()
    options = OWN | {"samples": 200, "sequential": True, "state": started} | changed
    if part == "view":
        part = "claim"  # the bits have more epsilons
    with pytest.raises(ValueError, match=f"another {part}: .* the file was not changed"):
        ps.audit(subject, **options)
    assert started.read_bytes() == content


def test_functions_are_known_by_their_code_and_by_what_they_are_bound_to():
    def noise(scale, kinds=(1, 2)):
        seen = []
        return lambda data, rng: seen.append(kinds) or next(rng.laplace(0.0, scale) for _ in "a")

    used = noise(1.0)
    used(0.0, np.random.default_rng(1))
    assert _subject(noise(1.0)) == _subject(used)
    subjects = [
        noise(1.0),
        noise(2.0),
        noise(1.0, (1, 3)),
        partial(noise, 2.0),
        partial(noise, kinds=2.0),
        noisy,
        LAPLACE,
    ]
    subjects += [lambda data, rng: 1.0, lambda data, rng: 2.0, eval("lambda data, rng: [1.0 for _ in data]")]
    subjects += [eval("lambda data, rng: [2.0 for _ in data]"), eval("lambda data, rng: data in {1, 2}")]
    subjects += [Noise(1.0), Noise(2.0), Noise(1.0).draw, Noise(2.0).draw, Noise(1.0).twice]
    assert len({_subject(one) for one in subjects}) == len(subjects)
    assert _subject(Noise(1.0).draw) == _subject(Noise(1.0).draw)


def test_a_file_is_locked_while_an_audit_runs(started):
    def second(verdict):
        content = started.read_bytes()
        with pytest.raises(TimeoutError, match="is used by another audit"):
            ps.audit(noisy, samples=200, sequential=True, state=started, **OWN)
        assert started.read_bytes() == content

    ps.audit(noisy, samples=120, sequential=True, state=started, progress=second, **OWN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("a text that is not a database" * 100), "not written by a sequential audit"),
        (lambda path: path.write_bytes(path.read_bytes()[:3000]), "damaged or was not written"),
        (lambda path: _execute(path, "PRAGMA user_version = 2"), "has format 2, and this version"),
        (lambda path: _execute(path, "PRAGMA application_id = 7"), "not written by a sequential audit"),
        (lambda path: _execute(path, "DELETE FROM document"), "damaged or was not written"),
        (lambda path: _execute(path, "UPDATE document SET text = '{}'"), "damaged or was not written"),
        # lost draws would be drawn, and bet on, a second time
        (lambda path: _execute(path, "DELETE FROM draws"), "damaged or was not written"),
        (lambda path: _execute(path, "DELETE FROM draws WHERE first_pair = 96"), "damaged or was not written"),
        (lambda path: _execute(path, "DELETE FROM draws WHERE first_pair = 32"), "damaged or was not written"),
        (lambda path: _execute(path, "UPDATE draws SET x = y WHERE first_pair = 32"), "damaged or was not written"),
    ],
)
def test_other_and_damaged_files_are_refused_and_unchanged(change, message, started):
    change(started)
    content = started.read_bytes()
    with pytest.raises(ValueError, match=message):
        ps.audit(noisy, samples=200, sequential=True, state=started, **OWN)
    assert started.read_bytes() == content


def _execute(path, command):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(command)


def test_no_file_is_left_where_no_batch_was_drawn(tmp_path):
    def fails(data, rng):
        raise ZeroDivisionError

    with pytest.raises(RuntimeError, match="raised ZeroDivisionError"):
        ps.audit(fails, state=str(tmp_path / "none"), sequential=True, **OWN)
    assert not list(tmp_path.iterdir())
    with pytest.raises(IsADirectoryError, match="state must name a file"):
        ps.audit(noisy, state=tmp_path, sequential=True, **OWN)
    with pytest.raises(FileNotFoundError, match="create it first"):
        ps.audit(noisy, state=tmp_path / "no" / "file", sequential=True, **OWN)


# ---------------------------------------------------------------- arguments and verdicts


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"state": "x"}, ValueError, "state needs sequential=True"),
        ({"progress": True}, ValueError, "progress needs sequential=True"),
        ({"sequential": 1}, TypeError, "sequential must be True or False"),
        ({"sequential": True, "view": "time"}, ValueError, "has no sequential audit"),
        ({"sequential": True, "state": 3}, TypeError, "state must be a path or None"),
        ({"sequential": True, "progress": "yes"}, TypeError, "progress must be True or False"),
        ({"sequential": True, "progress": lambda: None}, TypeError, "progress must be a function of 1 argument"),
        ({"sequential": True, "samples": 0}, ValueError, "samples must be at least 1"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        ps.audit(LAPLACE, **options)


def test_outputs_that_change_their_shape_are_refused():
    calls = itertools.count()

    def grows(data, rng):
        return np.zeros(1 + (next(calls) >= 64))

    with pytest.raises(ValueError, match="outputs must keep their shape"):
        ps.audit(grows, samples=100, sequential=True, **OWN)


def test_a_progress_bar_counts_the_draws(capsys):
    ps.audit(LAPLACE, samples=64, rng=np.random.default_rng(1), sequential=True, progress=True)
    assert "audit" in capsys.readouterr().err


def test_a_verdict_says_what_it_rests_on():
    rng = np.random.default_rng(4)
    true = ps.audit(LAPLACE, samples=500, rng=rng, sequential=True)
    assert true.outcome == "CONSISTENT"
    assert "This verdict does not prove the claim." in str(true)
    assert "500 draws from each of two neighbouring datasets" in true.statement
    assert "continues" not in true.statement
    assert repr(true).startswith("SequentialVerdict(CONSISTENT, p = ")
    assert true._repr_html_().startswith("<div")
    false = ps.audit(HALF, claim=LAPLACE.accountant, samples=5_000, rng=rng, sequential=True)
    assert false.outcome == "VIOLATED"
    assert false.e_value == pytest.approx(1.0 / false.p_value, rel=1e-6)
    assert false.p_value <= 1e-6
    assert f"Refuted is the claim with all epsilons times {true.scale:.4g}." in true.statement
    assert "VIOLATED: the audit made" in false.statement
    assert true != false
    assert hash(true) != hash(false)
    seen = []
    ps.audit(LAPLACE, samples=100, rng=rng, sequential=True, progress=seen.append)
    assert "The audit continues up to 100 draws." in seen[0].statement


def test_an_epsilon_of_zero_has_no_scale_above_one():
    """An epsilon of 0 cannot be scaled; the bounds at each delta hold nevertheless."""
    verdict = ps.audit(
        HALF, claim=lambda epsilon: 0.1, epsilons=[0.0], samples=2_000, rng=np.random.default_rng(1), sequential=True
    )
    assert verdict.violated
    assert verdict.scale == 1.0
    assert verdict.empirical_epsilon >= verdict.claimed_epsilon == 0.0
    assert verdict.empirical_delta == 0.1


def test_pictures_show_the_line_and_the_interval():
    pytest.importorskip("matplotlib")
    verdict = ps.audit(HALF, claim=LAPLACE.accountant, rng=np.random.default_rng(1), sequential=True)
    axes = verdict.plot()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "1/level = 1e+06: refuted",
        "wealth of all bets",
    ]
    assert axes.lines[-1].get_xydata()[0].tolist() == [0.0, 0.0]
    assert axes.lines[-1].get_xydata()[-1] == pytest.approx([verdict.samples, -np.log10(verdict.p_value)], rel=1e-6)
    interval = verdict.plot(view="interval")
    assert interval.get_ylabel() == "true ε / claimed ε"
    with pytest.raises(ValueError, match="view must be 'wealth' or 'interval'"):
        verdict.plot(view="both")


@pytest.mark.parametrize(
    ("name", "item", "message"),
    [
        ("p_value", 2.0, "p_value"),
        ("samples", 20, "samples must be at most maximum"),
        ("claims", [1.5], "claims"),
        ("lowers", [-1.0], "lowers must be >= 0"),
        ("lowers", [1.0, 2.0], "lowers must have one number for each of epsilons"),
        ("scales", [np.nan], "scales must not contain NaN"),
        ("level", 0.0, "level"),
    ],
)
def test_verdicts_check_their_fields(name, item, message):
    arrays = {key: [0.5] for key in ("epsilons", "claims", "lowers", "times", "log_wealths", "scales")}
    fields = {"pair": "", "samples": 1, "maximum": 10, "level": 0.1, "p_value": 0.5} | arrays
    verdict = ps.SequentialVerdict(**fields)
    with pytest.raises(ValueError, match="read-only"):
        verdict.scales[0] = 1.0
    with pytest.raises(ValueError, match=message):
        ps.SequentialVerdict(**fields | {name: item})


def test_scales_increase_and_hold_the_claim():
    assert np.all(np.diff(SCALES) > 0.0)
    assert SCALES[0] == 0.0
    assert 1.0 in SCALES
