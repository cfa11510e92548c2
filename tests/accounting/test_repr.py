"""The repr and the notebook card of public values: short, safe, quick, and never an error."""

import re
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pytest

import privsample as ps
from privsample._repr import code_repr, short_repr
from privsample.accounting.posterior import beta
from privsample.plots import html
from privsample.simulations.audit.catalogue import catalogue
from privsample.simulations.report.page import _code
from tests.cases import in_one_test

pytestmark = pytest.mark.check
WIDTH = 120
GAUSSIAN = ps.GaussianMechanism(sensitivity=1, noise_std=5)
EXAMPLES = [example.mechanism for example in catalogue().values()]


def posterior_draws(count=1000, name="theta", method="exact"):
    values = np.random.default_rng(1).normal(size=count)
    return ps.PosteriorDraws(draws={name: values}, account=GAUSSIAN.accountant, method=method)


class Checked(HTMLParser):
    """Collects the tags of a card, and checks that all are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_thousand_draws_take_one_line():
    release = ps.DirectPosterior(model=ps.BetaBernoulli(6, 12), n=2, draws=1000).release([1, 0])
    assert re.fullmatch(r"Release\(DirectPosterior, theta: 1000 draws, mean 0\.\d+, sd 0\.\d+.*\)", repr(release))
    assert len(repr(release)) < WIDTH
    assert repr(posterior_draws()).startswith("PosteriorDraws(theta: 1000 draws, mean ")
    assert len(repr(posterior_draws(method="x" * 500))) < WIDTH


def test_a_release_shows_its_numbers_and_its_epsilon():
    release = GAUSSIAN.release(2.0, rng=np.random.default_rng(1))
    value = release["statistic"].item()
    assert repr(release) == f"Release(GaussianMechanism, statistic = {value:.4g}; epsilon = 0.8342 at delta = 1e-06)"


@in_one_test(EXAMPLES)
def test_every_mechanism_and_account_shows_itself_in_one_line(mechanism):
    account = mechanism.accountant
    for value in (mechanism, account, account.group(2)):
        assert len(repr(value)) < WIDTH
        assert "\n" not in repr(value)
        assert "array([" not in repr(value)
    card = Checked(account._repr_html_())
    assert "script" not in card.tags


@in_one_test(EXAMPLES)
def test_code_repr_is_code(mechanism):
    names = {name: getattr(ps, name) for name in ps.__all__} | {"np": np}
    try:
        made = eval(code_repr(mechanism), names)
    except (NameError, SyntaxError):  # a class without a public name, or a graph, which shows its size only
        return
    assert made == mechanism


def test_short_values_stay_code():
    for value in (
        ps.DP(1, 1e-6),
        ps.BetaBernoulli(1, 2),
        ps.ReplaceOne(5),
        ps.DirichletCategorical((1, 2, 3)),
        GAUSSIAN,
    ):
        assert eval(repr(value), {name: getattr(ps, name) for name in ps.__all__}) == value
    assert repr(ps.BetaBernoulli(1, 2)) == "BetaBernoulli(alpha=1.0, beta=2.0, fractional=False)"


def test_long_values_are_abbreviated():
    model = ps.DirichletCategorical(tuple(range(1, 1001)))
    shown = ", ".join(f"{k}.0" for k in range(1, 13))
    assert repr(model) == f"DirichletCategorical(alpha=({shown}, ... 988 more))"
    assert len(short_repr(model, 40)) <= 40
    assert code_repr(model).count(",") == 999
    many = sum(ps.GaussianMechanism(sensitivity=1, noise_std=k).accountant for k in range(1, 30))
    assert repr(many).endswith(" + (26 more)")
    assert len(repr(many)) < WIDTH


def test_compositions_are_sums():
    one, other = GAUSSIAN.accountant, ps.LaplaceMechanism(sensitivity=1, scale=2).accountant
    first, second = (
        "GaussianAccountant(sensitivity=1.0, noise_std=5.0)",
        "LaplaceAccountant(sensitivity=1.0, scale=2.0)",
    )
    assert repr(100 * one) == f"100 * {first}"
    assert repr(one + other) == f"{first} + {second}"
    assert repr(one | other) == f"{first} | {second}"


@dataclass(frozen=True, kw_only=True)
class Broken(ps.Accountant):
    relation: ps.Relation = ps.AddRemove()
    assumptions: frozenset = frozenset()

    @property
    def source(self):
        raise RuntimeError("<b>broken</b>")

    def _bounds(self):
        raise RuntimeError("broken")


def test_a_broken_account_has_a_card_without_a_picture():
    card = Checked(Broken()._repr_html_())
    assert "table" in card.tags
    assert "svg" not in card.tags


def test_an_expensive_account_is_not_computed(monkeypatch):
    account = 50 * ps.DiffusedPosterior(model=ps.BetaBernoulli(6, 12), n=100, data_weight=0.3).accountant
    monkeypatch.setattr(type(account), "epsilon", lambda *_: pytest.fail("computed"))
    monkeypatch.setattr(type(account), "log_delta", lambda *_: pytest.fail("computed"))
    card = Checked(account._repr_html_())
    assert "table" in card.tags
    assert "svg" not in card.tags
    mechanism = ps.BernoulliSampling.examples()[0].mechanism
    monkeypatch.setattr(type(mechanism.accountant), "epsilon", lambda *_: pytest.fail("computed"))
    data = mechanism.worst_neighbours()[0].datasets[0]()
    assert "epsilon" not in repr(mechanism.release(data))


@pytest.mark.parametrize("weight", [1e13, 1e20, 1e300])
def test_an_extreme_posterior_is_shown_without_its_quadratures(monkeypatch, weight):
    mechanism = ps.ConcentratedPosterior(model=ps.BetaBernoulli(1, 1), n=5, prior_weight=weight, exact=False)
    calls = []
    integral = beta.log_integral
    monkeypatch.setattr(beta, "log_integral", lambda *given: calls.append(given) or integral(*given))
    assert "BetaBernoulli" in mechanism.accountant._repr_html_()
    repr(mechanism.release([1, 0, 1, 0, 1]))
    assert len(calls) < 20


def test_an_unfinished_value_has_a_repr():
    for cls in (ps.Release, ps.PosteriorDraws, ps.Verdict, ps.BetaBernoulli, ps.Composed, ps.GaussianAccountant):
        assert cls.__name__ in repr(object.__new__(cls))


def test_cards_escape_names():
    name = "<script>alert(1)</script>"
    text = posterior_draws(name=name, method='"<img src=x onerror=y>"')._repr_html_()
    assert "&lt;script&gt;" in text
    assert set(Checked(text).tags) <= {
        *("div", "strong", "table", "tr", "th", "td", "svg", "path", "rect", "polyline", "text", "circle")
    }
    for picture in (
        html.rows_picture([(name, 0.0, 1.0, 2.0)], label=name),
        html.bars_picture([name], [3], label=name),
        html.histogram_picture(np.arange(100.0), (5.0, 95.0), label=name),
        html.lines_picture(np.arange(3.0), np.arange(3.0), labels=(name, name)),
    ):
        assert "script" not in Checked(picture).tags


def test_cards_have_the_text_s_colour_and_hold_the_numbers():
    text = GAUSSIAN.accountant._repr_html_()
    assert "currentColor" in text
    assert "0.8342" in text
    assert "<svg" in text
    assert not re.search(r'fill="(black|white|#000|#fff)', text)
    release = ps.DirectPosterior(model=ps.DirichletCategorical((2, 3, 4)), n=3, draws=100).release([0, 1, 2])
    assert "theta[2]" in release._repr_html_()
    assert "<circle" in release._repr_html_()
    codes = ps.RandomizedResponse(log_odds=2.0, relation=ps.ReplaceOne(3), categories=3).release([0, 1, 2])
    assert "<rect" in codes._repr_html_()
    assert "90% interval of the noise" in GAUSSIAN.release(1.0)._repr_html_()


@pytest.mark.parametrize("values", [[1.0], [1.0] * 100, [1.0, np.inf] * 50], ids=["one", "equal", "infinite"])
def test_cards_of_odd_draws(values):
    draws = ps.PosteriorDraws(draws={"theta": values}, account=GAUSSIAN.accountant, method="test")
    assert "table" in Checked(draws._repr_html_()).tags
    assert len(repr(draws)) < WIDTH


def test_a_verdict_shows_itself():
    verdict = ps.audit(ps.GaussianMechanism(sensitivity=1, noise_std=1), samples=500, rng=np.random.default_rng(1))
    assert repr(verdict).startswith("Verdict(CONSISTENT, p = ")
    assert len(repr(verdict)) < WIDTH
    card = Checked(verdict._repr_html_())
    assert card.tags.count("polyline") == 1 + len(verdict.epsilons)


def test_a_report_shows_the_whole_mechanism():
    model = ps.DirichletCategorical(tuple(range(1, 101)))
    code = _code(ps.NoisyStatistics(model=model, n=5, scale=2.0), 1e-6)
    assert "99.0, 100.0" in code
    assert "..." not in code
