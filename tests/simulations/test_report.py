"""The report: releases only, self-contained, escaped, the same bytes for the same releases."""

import re
from datetime import date
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import privsample as ps
from privsample._version import __version__
from privsample.errors import PrivateContent
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.release import Release
from privsample.simulations.report import figures
from privsample.simulations.report.content import Part, Picture, Section
from privsample.simulations.report.page import _curve_limit, _powers, _value_limits, page, render
from privsample.simulations.report.statements import chance, cost, rounded_up, small
from privsample.simulations.report.summary import intervals

BETA = ps.BetaBernoulli(alpha=6, beta=12)
UNIT = "<script>alert('x')</script> & $_{" + "long" * 20


def released(mechanism, data) -> Release:
    return mechanism.release(data, rng=np.random.default_rng(5))


N = 30
NORMAL = ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 2))
RELATION = ps.ReplaceOne(n=N, unit=UNIT)
QUERY = {"alpha": 2, "beta": 2, "bounds": (5, 30), "n": N}
COUNT = ps.GaussianMechanism(sensitivity=1, noise_std=3, relation=RELATION, shape=(20,), draws=2)


def few() -> list[Release]:
    column = np.zeros(N)
    return [
        released(ps.DirectPosterior(model=NORMAL, n=N, draws=300, unit=UNIT), column),
        released(COUNT, np.zeros(20)),
        released(ps.RandomizedResponse(log_odds=1, relation=RELATION), column),
    ]


def some() -> list[Release]:
    """The query has a unit of its own: its composition with the others takes as long as the rest of the page."""
    column, shares = np.zeros(N), ps.DirichletCategorical(alpha=(2, 3, 4))
    return [
        released(ps.DiffusedPosterior(model=BETA, n=N, data_weight=0.3, draws=4, unit=UNIT), column),
        released(ps.BetaQuery(**QUERY, prior_weight=2, unit=f"other {UNIT}"), column),
        released(ps.ConcentratedPosterior(model=shares, n=N, prior_weight=5), column),
        *few(),
    ]


@pytest.fixture(scope="module")
def html() -> str:
    return render(some())


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_same_releases_same_bytes():
    assert render(few()) == render([Release.from_json(release.to_json()) for release in few()])


def test_the_page_stands_alone_and_escapes_names(html):
    tags = Tags()
    tags.feed(html)
    names = {tag for tag, _ in tags.found}
    assert not names & {"script", "iframe", "object", "embed"}
    assert "<script" not in html
    assert "&lt;script&gt;alert" in html
    for tag, attributes in tags.found:
        assert not any(key.startswith("on") for key in attributes)
        target = attributes.get("src") or attributes.get("href") or "data:"
        assert target.startswith(("data:", "#")), (tag, target[:80])
        if tag == "img":
            assert attributes["alt"]
    assert "Content-Security-Policy" in html


def test_the_page_says_what_a_reader_needs(html):
    for words in (
        "The released values",
        "How to read epsilon",
        "Privacy statement",
        "50\N{NO-BREAK SPACE}:\N{NO-BREAK SPACE}50",
        "Privacy cost of all releases together",
    ):
        assert words in html
    (release,) = few()[:1]
    one = render([release], delta=1e-5)
    assert "from privsample import DirectPosterior, NormalKnownVariance" in one
    assert rounded_up(float(release.account.epsilon(1e-5))) in one
    assert "Privacy cost of all releases together" not in one


def facts(html: str) -> dict[str, str]:
    """The rows of the summary of one release."""
    summary = html.partition('id="summary"')[2].partition("</section>")[0]
    return dict(re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', summary))


def test_the_page_opens_with_a_summary():
    release = released(ps.DiffusedPosterior(model=BETA, n=N, data_weight=0.3, draws=4), np.zeros(N))
    verdict = ps.audit(release.mechanism, samples=500, rng=np.random.default_rng(1))
    origin = {"data": "patients.csv", "column": "a<b", "day": date(2026, 11, 22)}
    html = render([release], **origin, audits=[verdict])
    assert html.index("Summary") < html.index("<img")
    found = facts(html)
    assert found["data set"] == "patients.csv"
    assert found["column"] == "a&lt;b"
    assert found["prior"] == "alpha = 6, beta = 12"
    assert found["records"] == str(N)
    assert float(found["ε at δ = 1e-6"]) == pytest.approx(float(release.account.epsilon(1e-6)), rel=1e-3)
    low, high = release["theta"].min(), release["theta"].max()
    assert found["interval"] == f"share of ones: {low:.4g} to {high:.4g} (range of 4 draws)"
    assert found["audit"] == '<span class="badge consistent">CONSISTENT</span>'
    assert found["date"] == "2026-11-22"
    assert found["version"] == f"privsample {__version__}"
    without = render([released(ps.DirectPosterior(model=NORMAL, n=N), np.zeros(N))])
    plain = facts(without)
    assert not {"data set", "column", "date"} & set(plain)
    assert "not audited" in plain["audit"]
    assert "audits=[verdict]" in without
    assert "audits=[verdict]" not in html
    with pytest.raises(ValueError, match="audits must have at most one entry for each of 1 releases, got 2"):
        render([release], audits=[verdict, verdict])


def test_each_cell_of_a_summary_of_several_releases_names_its_column():
    """A narrow page shows the names of the columns beside the cells, since the head of the table is hidden there."""
    release = released(ps.DirectPosterior(model=NORMAL, n=N), np.zeros(N))
    html = render([release, release])
    head = re.findall('<th scope="col">([^<]*)</th>', html)[:6]
    assert head == ["release", "prior", "records", "ε at δ = 1e-6", "interval", "audit"]
    assert re.findall('<td data-label="([^"]*)">', html)[:10] == 2 * head[1:]


def test_a_refuted_claim_has_its_badge():
    mechanism = ps.LaplaceMechanism(sensitivity=1, scale=1)
    verdict = ps.audit(mechanism, claim=lambda epsilon: 0.0, samples=2000, rng=np.random.default_rng(1))
    assert 'class="badge violated">VIOLATED<' in render([released(mechanism, 0.0)], audits=[verdict])


def test_the_interval_of_many_draws_is_the_central_one():
    release = few()[0]
    low, high = np.quantile(
        release["mu"] if "mu" in release.draws else next(iter(release.draws.values())), [0.05, 0.95]
    )
    assert intervals(release) == [f"mean: {low:.4g} to {high:.4g} (central 90% of 300 draws)"]


def test_the_statement_stands_once_and_the_contents_lead_to_every_section(html):
    releases = some()
    assert html.count("<blockquote>") == len(releases)
    for release in releases:
        assert unescape(html).count(_powers(release.statement(1e-6))) == 1
    targets = set(re.findall(r'href="#(.*?)"', html))
    assert targets == set(re.findall(r'<section id="(.*?)"', html))
    assert len(targets) == len(releases) + 2


def test_releases_of_the_same_quantity_share_their_axis():
    column = np.zeros(N)
    narrow, wide = (
        released(ps.DiffusedPosterior(model=BETA, n=N, data_weight=weight, draws=100), column) for weight in (1.0, 0.01)
    )
    other = few()[0]
    limits = _value_limits([narrow, other, wide])
    assert limits[0] == limits[2] == figures.common_limits([narrow, wide])
    assert limits[1] is None
    assert limits[0][0] < wide["theta"].min() < wide["theta"].max() < limits[0][1]
    assert _curve_limit([narrow], 1e-6) is None
    ends = [figures.last_epsilon(release.account, 1e-6) for release in (narrow, wide)]
    assert _curve_limit([narrow, wide], 1e-6) == max(ends)


@pytest.mark.parametrize("delta", [0.0, pytest.param(1e-15, marks=pytest.mark.long), 1e-300, 0.3])
def test_every_delta_has_a_page(delta):
    laplace = released(ps.LaplaceMechanism(sensitivity=1, scale=3), 0.0)
    assert "<html" in render([few()[0], laplace], delta=delta)


@pytest.mark.parametrize("wrong", [np.zeros(3), "text", {"theta": 0.3}, 1.0])
def test_only_releases_enter(wrong):
    with pytest.raises(TypeError, match="only a Release may enter"):
        render([*few(), wrong])


def test_notes_are_refused_wherever_they_hide():
    notes = ps.DiffusedPosterior(model=BETA, n=30, data_weight=0.3).validate(np.full(30, 7.0))
    for attempt in ([notes], notes, [*few(), notes], [[notes]], (item for item in [notes])):
        with pytest.raises(PrivateContent):
            render(attempt)
    with pytest.raises(PrivateContent):
        page([notes], title="", intro="")


def test_malformed_requests():
    with pytest.raises(ValueError, match="at least one"):
        render([])
    with pytest.raises(TypeError, match=r"render\(\[release\]\)"):
        render(few()[0])
    with pytest.raises(TypeError, match="only a Release may enter a report, got int"):
        render(3)
    with pytest.raises(ValueError, match="delta"):
        render(few(), delta=1.0)
    with pytest.raises(TypeError, match="sections"):
        page(["text"], title="", intro="")


def test_a_page_of_sections():
    part = Part(heading="a<b", bullets=("x",), columns=("k", "v"), rows=(("r", "1"),), quote="q", code="c", folded=True)
    picture = Picture(image=b"<svg/>", alt='"quoted"', caption="$x$")
    html = page([Section(title="t", lead=("l",), pictures=(picture,), parts=(part,))], title="<t>", intro="i")
    assert "a&lt;b" in html
    assert "&lt;t&gt;" in html
    assert "PHN2Zy8+" in html
    assert html.count("<details>") == html.count("</details>") == 1


def test_costs_in_words():
    assert cost(ps.PureAccountant(stated_epsilon=np.log(3)), 0.0)[0].startswith("Epsilon is 1.099")
    assert "at most 75.1 %" in cost(ps.PureAccountant(stated_epsilon=np.log(3)), 0.0)[1]
    presence = " ".join(cost(ps.PureAccountant(stated_epsilon=1), 0.0))
    assert "odds of the presence of one record" in presence
    assert "the presence and the absence of a record equally likely" in presence
    patients = " ".join(cost(ps.PureAccountant(stated_epsilon=1, relation=ps.ReplaceOne(9, unit="patient")), 0.0))
    assert "any hypothesis about one patient" in patients
    assert "two versions of a patient" in patients
    graph = ps.ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
    assert "two profiles that an edge joins" in cost(ps.OneBit(graph=graph, epsilon=0.5).accountant, 0.0)[0]
    failed = cost(ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-3), 1e-3)
    assert failed == (
        "Epsilon is 1. With probability delta, here 0.001, one in 1,000, the release may reveal a record.",
    )
    assert "almost no protection" in cost(ps.PureAccountant(stated_epsilon=40), 0.0)[0]
    assert "there is no guarantee" in cost(ps.GaussianAccountant(sensitivity=1, noise_std=1), 0.0)[0]
    assert chance(1e-6) == "1e-6, one in 1,000,000"
    assert chance(0.5) == small(0.5) == "0.5"
    assert [rounded_up(x) for x in (0.0, np.inf, 1 + 1e-13, 1.00001, 123456.0)] == [
        "0",
        "infinite",
        "1.001",
        "1.001",
        "1.235e+05",
    ]


@pytest.mark.parametrize(
    ("mechanism", "title", "words"),
    [
        (
            ps.DirectPosterior(model=ps.GammaPoisson(shape=3, rate=2, upper=5), n=N),
            "the mean count",
            "the posterior belief",
        ),
        (
            ps.DirectPosterior(model=ps.GammaExponential(shape=3, rate=2, upper=5), n=N),
            "the rate",
            "the posterior belief",
        ),
        (ps.DirectPosterior(model=NORMAL, n=N), "Direct posterior of the mean", "the posterior belief about the mean"),
        (ps.DiffusedPosterior(model=BETA, n=N, data_weight=0.3), "the share of ones", "counts 30 % of its full weight"),
        (ps.ConcentratedPosterior(model=BETA, n=N, prior_weight=5), "the share of ones", "counts 5 times"),
        (ps.BetaQuery(**QUERY), "Mean of a bounded column", "counts 100 % of its full weight"),
        (ps.BetaQuery(**QUERY, prior_weight=2), "Mean of a bounded column", "counts 2 times"),
        (ps.BetaQuery(**QUERY, prior_weight=2, data_weight=0.5), "Mean of", "a weakened belief"),
        (COUNT, "Statistic with Gaussian noise", "standard deviation 3"),
        (ps.LaplaceMechanism(sensitivity=1, scale=3), "Statistic with Laplace noise", "scale 3"),
        (ps.RandomizedResponse(log_odds=1, relation=RELATION), "Randomized response", "2.72 times"),
    ],
)
def test_mechanisms_in_words(mechanism, title, words):
    assert title in mechanism.title
    assert words in mechanism.description


def test_a_new_mechanism_has_a_name_before_it_has_words():
    class NoisyMedian(Mechanism):
        __slots__ = ()
        accountant = _statistic = _draw = None

    assert NoisyMedian().title == "Noisy median"
    assert "random" in NoisyMedian().description


@pytest.mark.browser
def test_a_phone_shows_it_without_scrolling_sideways(html, phone):
    seen = phone(html)
    assert (seen.too_wide, seen.broken, seen.console) == (0, 0, "")
    assert seen.pictures > len(some())


@pytest.mark.browser
def test_the_browser_would_see_what_is_wrong(html, phone):
    wide = html.replace("<h1>", '<h1 style="width:700px">').replace(
        "data:image/svg+xml;base64,PD", "data:image/png,", 1
    )
    seen = phone(wide)
    assert seen.too_wide > 300
    assert seen.broken == 1
