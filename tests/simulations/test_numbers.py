"""Every number that a page, a figure or the demo shows, against the library: never below, and close."""

import re
from copy import deepcopy
from functools import partial
from html import unescape

import joblib
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.curves.conversion import epsilon_from_renyi
from privsample.mechanisms.draws import one_draw
from privsample.simulations.audit import audit
from privsample.simulations.audit.plots import claimed_curve
from privsample.simulations.demo import page as demo_page
from privsample.simulations.demo import run as demo
from privsample.simulations.report import figures
from privsample.simulations.report.page import render
from privsample.simulations.report.statements import chance, rounded_up

N, DELTA = 40, 1e-6
MODEL = ps.BetaBernoulli(alpha=6, beta=12)
MECHANISMS = [
    ps.DiffusedPosterior(model=MODEL, n=N, data_weight=0.07, draws=3),
    ps.ConcentratedPosterior(model=MODEL, n=N, prior_weight=1 / 0.13),
    ps.GaussianMechanism(sensitivity=1, noise_std=2.3, relation=ps.ReplaceOne(n=N)),
]
RELEASES = [
    mechanism.release(np.zeros(N) if k < 2 else 0.0, rng=np.random.default_rng(k))
    for k, mechanism in enumerate(MECHANISMS)
]


def near_above(shown: str | float, true: float, within: float = 1e-3) -> None:
    """Never below the truth (but for the safe side that the library itself adds), and at most this far above."""
    assert true * (1 - 1e-9) <= float(shown) <= true * (1 + within), (shown, true)


@pytest.fixture(scope="module")
def sections() -> list[str]:
    return unescape(render(RELEASES, delta=DELTA)).split("<section ")[2:]  # behind the summary


def cells(section: str) -> list[tuple[str, str]]:
    return re.findall(r'<th scope="row">(.*?)</th><td[^>]*>(.*?)</td>', section)


@pytest.mark.parametrize("at", range(3))
def test_every_number_of_a_release(sections, at):
    section, account = sections[at], RELEASES[at].account
    facts = dict(cells(section))
    for level in (1e-5, DELTA, 1e-9):
        shown = facts[f"epsilon at delta = {level:.0e}".replace("e-0", "e-")]
        near_above(shown, float(account.epsilon(level)))
        assert float(account.delta(float(shown))) <= level
    assert "zCDP: rho" not in facts or facts["zCDP: rho"]
    if np.isfinite(account.pure_epsilon):
        near_above(facts["epsilon at delta = 0"], account.pure_epsilon)
    else:
        assert facts["epsilon at delta = 0"] == "infinite"
    assert ("zCDP: rho" in facts) == np.isfinite(account.zcdp)
    if np.isfinite(account.zcdp):
        near_above(facts["zCDP: rho"], account.zcdp)
    if np.isfinite(account.order_limit):
        assert float(facts["Rényi curve finite below order"]) == pytest.approx(account.order_limit, rel=1e-3)
    epsilon = float(account.epsilon(DELTA))
    (stated,) = re.findall(r"Epsilon is ([\d.e+-]+)\. ", section)
    near_above(stated, epsilon)
    factors = re.findall(r"factor of at most ([\d.e+]+)", section)
    assert len(factors) == 2
    near_above(factors[0], np.exp(epsilon), 0.02)  # of the statement
    odds = float(account.posterior_odds(tail_probability=DELTA))
    assert odds > np.exp(epsilon)
    near_above(factors[1].rstrip("."), odds, 0.02)
    (sure,) = re.findall(r"can be at most ([\d.]+) % sure", section)
    near_above(sure, 100 * odds / (1 + odds), 0.01)
    (quoted,) = re.findall(r"\(epsilon = ([\d.e+]+)\)", section)
    assert quoted == stated == facts["epsilon at delta = 1e-6"]
    assert "1e-06" not in section.split("Code that repeats the release")[0]
    assert "one in 1,000,000" in section


def test_what_they_cost_together(sections):
    *members, total = cells(sections[3])
    assert total[0] == "all together"
    for (_, shown), release in zip(members, RELEASES, strict=True):
        near_above(shown, float(release.account.epsilon(DELTA)))
    near_above(total[1], float((RELEASES[0].account + RELEASES[1].account + RELEASES[2].account).epsilon(DELTA)))


def test_what_is_left_out_is_said():
    wide = ps.GaussianMechanism(sensitivity=1, noise_std=3, relation=ps.ReplaceOne(n=N), shape=(20,))
    html = render([wide.release(np.zeros(20))])
    assert '<th scope="row">and 8 more</th>' in html
    assert "Only the first 12 of 20 are shown" in html
    assert "nothing else" not in html


def test_rounding_is_always_on_the_safe_side():
    assert chance(0.06) == "0.06, one in 16"
    assert [chance(x).split()[-1] for x in (0.1, 1e-5, 1e-6, 3e-4, 1 / 17)] == [
        "10",
        "100,000",
        "1,000,000",
        "3,333",
        "17",
    ]
    for x in np.random.default_rng(1).uniform(0, 10, 300) ** 3:
        near_above(rounded_up(float(x)), float(x), 1.001e-3)
        assert float(rounded_up(float(x))) >= x


@pytest.mark.parametrize(
    "account", [release.account for release in RELEASES], ids=["diffused", "concentrated", "noise"]
)
def test_the_cost_curves_are_those_of_the_account(account):
    top = float(account.epsilon(1e-10))
    grid, delta = figures.cost_curve(account, top, 1e-10)
    assert grid[0] == 0
    assert grid[-1] == top
    assert np.allclose(delta, np.maximum(account.delta(grid), 1e-11), rtol=1e-9)
    found, deltas = figures.by_renyi(account, 1e-10)
    true = [epsilon_from_renyi(account.rdp, account.order_limit, float(x)) for x in np.log(deltas)]
    assert np.allclose(found, true, rtol=1e-3, atol=1e-6)
    place, words = figures.mark(account, DELTA)
    near_above(place, float(account.epsilon(DELTA)), 1e-9)
    near_above(words.removeprefix("ε = "), float(account.epsilon(DELTA)))
    points, claim = claimed_curve(account, 0.7)
    assert points[-1] == pytest.approx(0.805)
    assert np.allclose(claim, account.delta(points), rtol=1e-9)


@pytest.mark.parametrize("kind", ["diffused", "concentrated"])
def test_the_curves_of_the_thesis(kind):
    """Beta(6, 12), n = 100, against the divergence of two Betas by its formula, and its order limit."""
    from scipy.special import betaln

    for (label, orders, values, limit), share in zip(
        figures.renyi_data(kind), (0.1, 0.3, 0.5, 0.7, 0.9, 1.0), strict=True
    ):
        assert label == (f"r = {share:g}" if kind == "diffused" else f"1/m = {1 / share:.3g}")
        r, m = (share, 1.0) if kind == "diffused" else (1.0, share)
        assert limit == pytest.approx(1 + 6 / m / r)
        a, b = 6 / m, 12 / m + 99 * r  # 99 failures beside the record that changes
        picked = slice(None, 90, 10)
        x = orders[picked]
        shifted = betaln(x * (a + r) + (1 - x) * a, x * b + (1 - x) * (b + r))
        other = betaln(x * a + (1 - x) * (a + r), x * (b + r) + (1 - x) * b)
        here, there = betaln(a + r, b), betaln(a, b + r)
        forth = (shifted - x * here - (1 - x) * there) / (x - 1)
        back = (other - x * there - (1 - x) * here) / (x - 1)
        assert np.allclose(values[picked], np.maximum(forth, back), rtol=1e-6, atol=1e-9)


@pytest.fixture(scope="module")
def drawn():
    data = demo.load()
    return data, demo.draw(data)


def test_the_true_posterior_is_grey_and_the_private_posterior_is_not(drawn):
    data, releases = drawn
    (diffused, concentrated, count), wines, (query,) = (panels for _, panels in demo_page.sheet(data, releases))
    for panel in (diffused, concentrated, count):
        (grey, real), (label, distribution) = panel.distributions
        assert grey == "true posterior"
        assert (real.a, real.b) == (6 + 212, 12 + 357)
        assert distribution.variance > real.variance or panel is concentrated
        assert label == "private posterior"
    weight, prior_weight = releases[0].mechanism.data_weight, releases[1].mechanism.prior_weight
    assert diffused.distributions[1][1].a == pytest.approx(6 + weight * 212)
    assert concentrated.distributions[1][1].a == pytest.approx(6 * prior_weight + 212)
    assert concentrated.distributions[1][1].b == pytest.approx(12 * prior_weight + 357)
    total = ((data.radius - 5) / 25).sum()
    assert query.distributions[0][1].a == pytest.approx(2 + total)
    assert (
        query.distributions[1][1].a < query.distributions[0][1].a
        or query.distributions[1][1].b > query.distributions[0][1].b
    )
    for k, times in enumerate([59, 71, 48]):
        (_, real), (_, distribution) = wines[k].distributions
        assert (real.a, real.b) == (2 + times, 6 + 178 - (2 + times))
        assert distribution.a == pytest.approx(2 + releases[4].mechanism.data_weight * times)
    for panel, release in zip((diffused, concentrated, query), releases, strict=False):
        assert np.array_equal(panel.draws, next(iter(release.draws.values())))


def test_the_posterior_given_a_noisy_count_is_wider_than_the_true_posterior():
    distribution = demo_page.count_posterior(MODEL, 100, 40.0, 5.0)
    rng = np.random.default_rng(2)
    theta = rng.beta(6, 12, 400_000)
    kept = theta[np.abs(rng.binomial(100, theta) + rng.normal(0, 5, theta.size) - 40) < 0.5]
    assert float(distribution.mean) == pytest.approx(kept.mean(), abs=0.003)
    assert float(distribution.variance) == pytest.approx(kept.var(), rel=0.08)
    assert distribution.variance > MODEL.posterior(np.asarray(40.0), 100).variance
    edge = demo_page.count_posterior(MODEL, 100, -20.0, 5.0)
    assert 0 < edge.mean < 0.1


def half_delta(account, epsilon):
    return float(account.delta(epsilon)) / 2


def test_verdicts_are_of_the_mechanisms_beside_them(drawn):
    _, releases = drawn
    with joblib.parallel_config(backend="threading", n_jobs=2):
        found = [make() for make in demo.trial_makers(releases, 400)]
    assert len(found) == len(releases)
    for release, trial in zip(releases, found, strict=True):
        one = one_draw(release.mechanism).accountant
        points = trial.verdict.epsilons
        assert tuple(points) == audit.informative_epsilons(one)
        assert trial.verdict.claims == pytest.approx(one.delta(points))
        assert trial.control.claims == pytest.approx(one.delta(points) / 2)
        assert trial.verdict.level == trial.control.level == 1e-6
    for release, rng, trial in zip(releases, np.random.default_rng(2017).spawn(5), found, strict=True):
        one = one_draw(release.mechanism)
        points = trial.verdict.epsilons  # those that an audit chooses, as was seen above
        assert trial.verdict == ps.audit(one, epsilons=points, samples=400, rng=deepcopy(rng))
        half = partial(half_delta, one_draw(release.mechanism).accountant)
        assert trial.control == ps.audit(release.mechanism, claim=half, epsilons=points, samples=400, rng=rng)
    lines = [line for line in demo._summary(demo.Path("a b"), releases, found) if "  epsilon " in line]
    for line, release, trial in zip(lines, releases, found, strict=True):
        near_above(line.split("  epsilon ")[1].split()[0], float(release.account.epsilon(DELTA)))
        assert line.endswith(trial.outcomes)


@pytest.mark.parametrize("local", [True, False])
def test_the_printed_commands_can_be_run_from_here(drawn, tmp_path, monkeypatch, local):
    monkeypatch.chdir(tmp_path)
    if local:
        (tmp_path / ".venv/bin").mkdir(parents=True)
        (tmp_path / ".venv/bin/privsample").touch()
    start = ".venv/bin/privsample" if local else "python -m privsample"
    (lines,) = [part.code for part in demo_page.commands(demo.Path("a b")).parts if "release" in part.code]
    assert lines.count(f"{start} release 'a b/") == 4
    data, releases = drawn
    gaussian = ps.audit(MECHANISMS[2], epsilons=[0.1], samples=100)
    trial = demo_page.Trial(verdict=gaussian, control=gaussian)
    assert f"  {start} release 'a b/breast-cancer.csv' --column" in "\n".join(
        demo._summary(demo.Path("a b"), releases, [trial] * len(data.malignant[:5]))
    )
