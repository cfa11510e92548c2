"""Comparisons of mechanisms that answer the same question, at one target and over the same data."""

import numpy as np
import pytest

import privsample as ps
from privsample.comparison.questions import QUESTIONS, common_question
from privsample.errors import SchemaError

TARGET = ps.DP(epsilon=0.5, delta=0)
COLOURS = {"candidates": ("red", "green", "blue"), "utility": ps.CountUtility()}
GRAPH = ps.ProfileGraph(profiles={"a": (0.7, 0.2, 0.1), "b": (0.2, 0.5, 0.3)}, edges=[("a", "b")])
LOSS = ps.LogisticLoss(features=2, norm=1, radius=5, penalty=0.01, intercept=False)
REGRESSION = {"features": 2, "norm": 1, "prior_std": 2}
CHAIN = {"states": 2, "categories": (3,), "entries": (60, 60, 60), "sweeps": 10}
NETWORK = {"categories": (2, 3), "edges": ((0, 1),), "n": 100, "sweeps": 10, "scale": 1}
RESPONSES = (
    ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=400), categories=3),
    ps.LocalResponse(graph=GRAPH, epsilon=1),
    ps.SmoothCategorical(graph=GRAPH, epsilon=1),
)
SELECTIONS = {
    "exponential": ps.ExponentialMechanism(rate=9, **COLOURS),
    "flip": ps.PermuteAndFlip(rate=9, **COLOURS),
    "noisy max": ps.ReportNoisyMax(scale=9, **COLOURS),
}
CASES = {
    "selections": (SELECTIONS, TARGET),
    "codes": (RESPONSES, TARGET),
    "labels": (
        (
            ps.LogisticPosterior(n=300, features=2, norm=1, prior_std=2),
            ps.NoisyProjectedSGD(loss=LOSS, n=300, rate=0.5, noise_std=1),
            ps.LangevinPosterior(likelihood=ps.LogisticLikelihood(), relation=ps.ReplaceOne(300), **REGRESSION),
        ),
        ps.DP(2, 1e-5),
    ),
    "chains": ((ps.PrivateGibbsHMM(scale=1, **CHAIN), ps.PrivateGibbsHMM(temperature=2, **CHAIN)), ps.DP(2, 1e-5)),
    "networks": (
        {"aware": ps.PrivateGibbsNetwork(**NETWORK), "plug-in": ps.PrivateGibbsNetwork(noise_aware=False, **NETWORK)},
        ps.DP(2, 1e-5),
    ),
    "sums": (
        (
            ps.GaussianSum(bounds=(0, 1), noise_std=1, relation=ps.ReplaceOne(n=50)),
            ps.LaplaceSum(bounds=(0, 1), scale=1, relation=ps.ReplaceOne(n=50)),
        ),
        ps.DP(1, 1e-6),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_question_has_a_table(case):
    mechanisms, target = CASES[case]
    table = ps.compare_mechanisms(mechanisms, target=target, simulations=6, rng=np.random.default_rng(1))
    assert len(table) == len(mechanisms)
    for row in table:
        assert row.reason == ""
        assert np.isfinite([row.error, row.error_standard_error, row.amount]).all()
        assert row.excess == pytest.approx(row.error - table.best.error, abs=1e-15)
    assert table.best.excess == 0.0
    assert table.best.name in table.statement.sentence
    assert "no private data were used" in str(table)
    assert table.error in " ".join(str(table).split())
    if case in ("sums", "codes"):  # a seed decides the data and the draws of every question
        again = ps.compare_mechanisms(mechanisms, target=target, simulations=6, rng=np.random.default_rng(1))
        assert again == table


def test_every_mechanism_is_calibrated_to_the_target():
    mechanisms, target = CASES["chains"]
    names = ["private-gibbs-hmm:scale", "private-gibbs-hmm:temperature"]
    table = ps.compare_mechanisms(mechanisms, target=target, simulations=1)
    assert [row.name for row in table] == names
    for row, by in zip(table, ("scale", "temperature"), strict=True):
        assert row.amount == getattr(ps.PrivateGibbsHMM.calibrate(target=target, by=by, **CHAIN), by)
    table = ps.compare_mechanisms(RESPONSES, target=TARGET, simulations=1)
    assert (
        table[0].amount
        == ps.RandomizedResponse.calibrate(target=TARGET, relation=ps.ReplaceOne(n=400), categories=3).log_odds
    )
    assert table[1].amount == ps.LocalResponse.calibrate(target=TARGET, graph=GRAPH).epsilon


def regret(utilities, weights):
    """Expected regret of a choice with these weights."""
    return float(weights @ (max(utilities) - np.array(utilities))) / float(weights.sum())


def test_regrets_are_expectations_over_the_same_data():
    """The exponential mechanism by its definition; permute-and-flip is never worse (McKenna and Sheldon 2020)."""
    data = ["red"] * 12 + ["green"] * 9 + ["blue"] * 3
    table = ps.compare_mechanisms(SELECTIONS, target=TARGET, data=data)
    assert table[0].error == pytest.approx(regret([12, 9, 3], np.exp(0.5 * np.array([12, 9, 3]))), rel=1e-9)
    assert table[1].error == pytest.approx(table[2].error, rel=1e-12)
    assert "differ by rounding errors only" in table.statement.sentence
    assert table[1].error_standard_error < 1e-12
    assert table.on_given_data
    assert "is not private" in " ".join(str(table).split())
    for seed in range(5):
        random = ps.compare_mechanisms(SELECTIONS, target=TARGET, simulations=1, rng=np.random.default_rng(seed))
        assert random[1].error <= random[0].error * (1 + 1e-12)


def test_frequencies_are_unbiased_where_one_matrix_is_known():
    """The error of randomized response is that of a binomial; the raw answers, the broken copy, are biased by 0.3."""
    one, size = ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=400)), 400
    data = np.zeros(size)
    given = {"first": one, "second": one}
    table = ps.compare_mechanisms(given, target=ps.DP(1, 0), data=data, simulations=400, rng=np.random.default_rng(2))
    truth = 1 / (1 + np.exp(-1.0))
    deviation = np.sqrt(truth * (1 - truth) / size) / (2 * truth - 1)
    expected = deviation * np.sqrt(2 / np.pi)
    assert abs(table[0].error - expected) < 5 * table[0].error_standard_error
    assert 1 - truth > 5 * table[0].error_standard_error + expected  # what the raw answers would give
    assert table.rivals != ()  # the same mechanism twice is within chance of itself


def test_log_losses_come_near_those_of_the_truth_at_a_large_epsilon():
    """With coefficients known, the log loss is the entropy of the labels: here log 2, as rows carry no information."""
    rng = np.random.default_rng(3)
    rows, labels = rng.standard_normal((1300, 2)) / 10, rng.integers(0, 2, 1300)
    mechanisms, _ = CASES["labels"]
    held_out = rows[300:], labels[300:]
    given = {"data": (rows[:300], labels[:300]), "held_out": held_out, "simulations": 10, "rng": rng}
    near, far = (ps.compare_mechanisms(mechanisms, target=ps.DP(eps, 1e-5), **given) for eps in (8.0, 0.5))
    assert near[0].error == pytest.approx(np.log(2), abs=0.02)
    assert far[1].error > near[1].error


def test_different_relations_are_named():
    table = ps.compare_mechanisms(RESPONSES, target=TARGET, simulations=1)
    shown = " ".join(str(table).split())
    assert "protect against different changes of the data. randomized-response: one record is replaced" in shown
    same = ps.compare_mechanisms(RESPONSES[1:], target=TARGET, simulations=1)
    assert same.relations == ""
    assert "different changes" not in str(same)


def test_a_function_simulates_the_data():
    seen = []

    def simulate(rng):
        seen.append(rng.integers(0, 2, 400))
        return seen[-1]

    given = {"a": RESPONSES[0], "b": RESPONSES[0]}
    table = ps.compare_mechanisms(given, target=TARGET, data=simulate, simulations=4)
    assert len(seen) == 4
    assert not table.on_given_data


def test_a_target_out_of_reach_is_a_row_with_a_reason():
    mechanisms, _ = CASES["sums"]
    table = ps.compare_mechanisms(mechanisms, target=ps.DP(1, 0), simulations=3)
    assert "cannot be met" in table[0].reason
    assert np.isnan(table[0].error)
    assert table.statement.sentence.startswith("Only laplace-sum meets the target")
    assert "gaussian-sum: epsilon 1" in str(table)
    table = ps.compare_mechanisms([mechanisms[0], *mechanisms[:0], ps.GaussianMechanism(sensitivity=1, noise_std=1)],
                                  target=ps.DP(1, 0), simulations=3)  # fmt: skip
    assert table.best is None
    with pytest.raises(ValueError, match="no mechanism meets the target"):
        table.plot()


OTHER = ps.PermuteAndFlip(candidates=("red", "green"), utility=ps.CountUtility(), rate=1)
RECORDS = REGRESSION | {"relation": ps.ReplaceOne(200)}
COUNTS = ps.LangevinPosterior(likelihood=ps.PoissonLikelihood(max_count=5, clip=2), **RECORDS)
STATED = ps.StatedUtility(sensitivity=1, function=len)
ERRORS = {
    "one": ([RESPONSES[0]], {}, ValueError, "must be at least two, got 1 mechanism"),
    "twice": ([RESPONSES[0]] * 2, {}, ValueError, "randomized-response twice"),
    "no mechanism": ([3, 4], {}, TypeError, "must be mechanisms, got int"),
    "named no mechanism": ({"a": 3, "b": 4}, {}, TypeError, "must be mechanisms, got int"),
    "questions": ([RESPONSES[0], OTHER], {}, TypeError, "answer the same question"),
    "candidates": ([SELECTIONS["exponential"], OTHER], {}, ValueError, "same candidates"),
    "codes": ([RESPONSES[1], ps.RandomizedResponse(log_odds=1, relation=ps.ReplaceOne(n=5))], {}, ValueError,
              "equally many codes, got 2 and 3"),
    "model": ([RESPONSES[0], ps.DirectPosterior(model=ps.BetaBernoulli(6, 12), n=9)], {}, TypeError,
              "with compare.model="),
    "estimator": ([RESPONSES[0], ps.PrivateLogisticRegression()], {}, TypeError,
                  r"estimator PrivateLogisticRegression: pass estimator.mechanism_for\(n, features\)"),
    "likelihood": ({"a": COUNTS, "b": ps.LangevinPosterior(likelihood=ps.LogisticLikelihood(), **RECORDS)}, {},
                   TypeError, "must be LogisticLikelihood.* got PoissonLikelihood"),
    "sizes": ([ps.LangevinPosterior(likelihood=ps.LogisticLikelihood(), **RECORDS), CASES["labels"][0][0]], {},
              ValueError, "the same n and features"),
    "pymc": ([RESPONSES[0], ps.LangevinModel(ps.NormalMeanModel(), relation=ps.AddRemove(), clip=1, step_size=1,
                                             steps=1)], {}, TypeError, "simulated from its prior"),
    "target": (RESPONSES, {"target": 1}, TypeError, "target must be"),
    "rng": (RESPONSES, {"rng": 1}, TypeError, "rng must be"),
    "simulations": (RESPONSES, {"simulations": 0}, ValueError, "simulations must be at least 1"),
    "held out": (RESPONSES, {"held_out": 1}, ValueError, "held_out must be left out where"),
    "held out simulated": (CASES["networks"][0], {"held_out": 1}, ValueError, "held_out must be left out without"),
    "held out missing": (CASES["networks"][0], {"data": 1}, ValueError, "held_out must be given"),
    "data": (RESPONSES, {"data": [0] * 400}, SchemaError, "columns"),
    "function": ({"a": ps.PermuteAndFlip(candidates=(1, 2), utility=STATED, rate=1),
                  "b": ps.ExponentialMechanism(candidates=(1, 2), utility=STATED, rate=1)}, {}, TypeError,
                 "pass data="),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_one_clear_error(case):
    mechanisms, more, kind, message = ERRORS[case]
    with pytest.raises(kind, match=message):
        ps.compare_mechanisms(mechanisms, **({"target": TARGET, "simulations": 2} | more))


def test_langevin_chains_with_a_public_bound_are_compared():
    """Under AddRemove the simulated data hold as many records as the bound allows."""
    bounded = REGRESSION | {"likelihood": ps.LogisticLikelihood(), "relation": ps.AddRemove(), "max_records": 300}
    mechanisms = {"bounded": ps.LangevinPosterior(intercept_std=1, **bounded), "exact": CASES["labels"][0][0]}
    table = ps.compare_mechanisms(mechanisms, target=ps.DP(2, 1e-5), simulations=3, rng=np.random.default_rng(1))
    assert np.isfinite([row.error for row in table]).all()
    assert "one record is replaced" in table.relations


def test_each_question_takes_its_own_mechanisms():
    for mechanisms, _ in CASES.values():
        made = list(mechanisms.values()) if isinstance(mechanisms, dict) else list(mechanisms)
        assert common_question(made) in QUESTIONS
