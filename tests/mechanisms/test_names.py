"""Names of categories, features and coordinates travel from the data and the model into all that is made of them."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privsample as ps
from privsample.interop.arviz import summary
from tests.mechanisms.documents import with_digest

COLOURS = ("red", "green", "blue")
MODEL = ps.DirichletCategorical((1, 1, 1), names=COLOURS)
RECORDS = ["red", "blue", "blue", "green", "red", "purple", ""]
COUNTS = [4, 1, 2]  # text that is no name counts as the first category
RNG = np.random.default_rng


@pytest.mark.parametrize(
    "column",
    [
        RECORDS,
        np.array(RECORDS),
        np.array([*RECORDS[:-1], None], dtype=object),
        pd.Series(RECORDS),
        pd.Series(pd.Categorical(RECORDS)),
        pl.Series(RECORDS),
        pl.Series(RECORDS, dtype=pl.Categorical),
        pa.array(RECORDS),
        pa.chunked_array([RECORDS[:3], RECORDS[3:]]),
        pa.array(RECORDS).dictionary_encode(),
        [0, 2, 2, 1, 0, 7, None],
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_a_column_of_names_is_counted(column):
    counts, n = MODEL.summarize(column)
    assert (counts.tolist(), n) == (COUNTS, 7)
    notes = ps.DirectPosterior(model=MODEL, n=7).validate(column)
    assert "1" in notes.text()


def test_names_are_the_public_ones_and_no_record_adds_one():
    release = ps.DirectPosterior(model=MODEL, n=7, draws=100).release(pd.Series(pd.Categorical(RECORDS)))
    assert release.coords == {"category": COLOURS}
    assert "purple" not in release.to_json()


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (("a", "b"), ValueError),
        (("a", "a", "b"), ValueError),
        ("abc", TypeError),
        (("a", "b", ""), TypeError),
        (3, TypeError),
    ],
)
def test_wrong_names_are_refused(names, error):
    with pytest.raises(error, match="names"):
        ps.DirichletCategorical((1, 1, 1), names=names)


def test_names_do_not_change_the_account_or_the_likelihood():
    plain = ps.DirichletCategorical((1, 1, 1))
    assert plain.likelihood == MODEL.likelihood
    named = ps.DirectPosterior(model=MODEL, n=7).accountant
    assert named.epsilon(1e-6) == ps.DirectPosterior(model=plain, n=7).accountant.epsilon(1e-6)
    assert MODEL.with_public_data(["red"]).names == COLOURS


@pytest.mark.parametrize("ending", [".json", ".nc"])
def test_names_are_kept_in_files(tmp_path, ending):
    release = ps.DirectPosterior(model=MODEL, n=7, draws=12).release(RECORDS)
    path = tmp_path / f"release{ending}"
    release.save(path)
    loaded = ps.Release.load(path)
    assert loaded == release
    assert loaded.coords == {"category": COLOURS}


def test_a_file_without_names_loads():
    release = ps.DirectPosterior(model=ps.DirichletCategorical((1, 1, 1)), n=3).release([0, 1, 2])
    assert '"coords"' not in release.to_json()
    old = json.dumps(with_digest(json.loads(release.to_json().replace(', "names": []', ""))))
    assert '"names"' not in old
    assert ps.Release.from_json(old) == release


def test_names_reach_arviz_tables_and_plots():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    release = ps.DirectPosterior(model=MODEL, n=7, draws=100).release(RECORDS)
    posterior = release.to_arviz().posterior
    assert posterior["theta"].dims == ("chain", "draw", "category")
    assert tuple(posterior["category"].values) == COLOURS
    assert {f"theta[{name}]" for name in COLOURS} == set(map(str, summary(release.to_arviz()).index))
    ax = release.plot(plt.figure().subplots())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [f"theta[{name}]" for name in COLOURS]
    assert "theta[green]" in release._repr_html_()
    plt.close("all")


def test_names_of_statistics_reach_what_is_inferred():
    release = ps.NoisyStatistics(model=MODEL, n=7, scale=2.0).release(RECORDS)
    assert release.to_arviz().posterior["statistic"].dims == ("chain", "draw", "category")
    draws = ps.PrivateStatistics(release=release).draw(40, plug_in=True, rng=RNG(1))
    assert tuple(draws.to_arviz().posterior["category"].values) == COLOURS
    assert "theta[green]" in draws._repr_html_()


TABLES = [
    pd.DataFrame({"age": [0.1, 0.2], "income": [0.3, 0.4]}),
    pl.DataFrame({"age": [0.1, 0.2], "income": [0.3, 0.4]}),
]


@pytest.mark.parametrize("table", TABLES, ids=["pandas", "polars"])
def test_columns_name_the_features(table):
    release = ps.ClippedSum(norm=1, noise_std=2, width=2, draws=2).release(table)
    assert release.coords == {"feature": ("age", "income")}
    assert release.to_arviz().posterior["sum"].dims == ("chain", "draw", "feature")
    assert ps.Release.from_json(release.to_json()) == release
    fit = ps.LogisticPosterior(n=2, features=2, norm=1, prior_std=0.5, draws=20).release((table, [0, 1]))
    assert tuple(fit.to_arviz().posterior["feature"].values) == ("age", "income")
    regression = ps.LinearRegression(feature_bounds=((0, 1), (0, 1)), target_bounds=(0, 1), shape=2, scale=1)
    noisy = ps.NoisyStatistics(model=regression, n=2, scale=2.0).release((table, [0.0, 1.0]))
    assert noisy.coords == {"feature": ("age", "income")}
    context = ps.PrivateStatistics(release=noisy)._context({"coefficients": np.zeros((8, 2))})
    draws = ps.PosteriorDraws(
        draws={"coefficients": np.zeros((8, 2)), "intercept": np.zeros(8)}, account=noisy.account, method="x", **context
    )
    assert tuple(draws.to_arviz().posterior["feature"].values) == ("age", "income")


def test_a_sample_keeps_the_names_of_its_columns():
    base = ps.ClippedSum(norm=1, noise_std=2, width=2)
    release = ps.Subsampled(base=base, scheme=ps.PoissonSampling(rate=0.5)).release(TABLES[0])
    assert release.coords == {"feature": ("age", "income")}


def test_data_without_text_names_have_none():
    mechanism = ps.ClippedSum(norm=1, noise_std=2, width=2)
    for data in ([[1, 2]], np.ones((1, 2)), pd.DataFrame([[1, 2]]), pd.DataFrame([[1, 2]], columns=["a", "a"])):
        assert mechanism.release(data).coords == {}


def test_coords_of_a_release_are_checked():
    release = ps.GaussianMechanism(sensitivity=1, noise_std=1).release(0.0)
    wrongs = ({"a": "text"}, TypeError), ({"a": (1, 2)}, TypeError), ({"a": ("x", "x")}, ValueError), (3, TypeError)
    for wrong, error in wrongs:
        with pytest.raises(error, match="coords"):
            ps.Release(mechanism=release.mechanism, draws=release.draws, account=release.account, coords=wrong)


def test_names_that_no_file_can_hold(tmp_path):
    with pytest.raises(ValueError, match="UTF-8"):
        ps.DirichletCategorical((4, 5), names=("a", "\ud800"))
    release = ps.GaussianMechanism(sensitivity=1, noise_std=1).release(1.0)
    for coords in ({"category": ("a", "\ud800")}, {"\ud800": ("a",)}):
        with pytest.raises(ValueError, match="UTF-8"):
            replace(release, coords=coords)
    with pytest.raises(TypeError, match="sequence of names"):
        replace(release, coords={3: ("a",)})
    assert replace(release, coords={"category": iter("ab")}).coords == {"category": ("a", "b")}


def test_names_that_do_not_fit_are_left_out():
    release = ps.DirectPosterior(model=ps.DirichletCategorical((1, 1, 1)), n=3, draws=8).release([0, 1, 2])
    odd = ps.Release(
        mechanism=release.mechanism, draws=release.draws, account=release.account, coords={"category": ("a", "b")}
    )
    assert odd.to_arviz().posterior["theta"].dims == ("chain", "draw", "category")
    assert "theta[0]" in odd._repr_html_()


def test_answers_are_named():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mechanism = ps.RandomizedResponse(log_odds=30.0, relation=ps.ReplaceOne(7), categories=3, names=COLOURS)
    release = mechanism.release(pd.Series(RECORDS), rng=RNG(1))
    assert np.bincount(release["answers"].ravel()).tolist() == COUNTS
    assert release.coords == {"category": COLOURS}
    assert ps.Release.from_json(release.to_json()) == release
    ax = release.plot(plt.figure().subplots())
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(COLOURS)
    assert [bar.get_height() for bar in ax.patches] == COUNTS
    plt.close("all")
    assert ">green</text>" in release._repr_html_()
    with pytest.raises(ValueError, match="names must hold 2 distinct names"):
        ps.RandomizedResponse(log_odds=1.0, relation=ps.ReplaceOne(7), names=COLOURS)


def test_names_reach_the_figure_of_a_report():
    """The figure writes text as paths: figures of the same draws with other names differ."""
    pytest.importorskip("matplotlib")
    from privsample.simulations.report.figures import released

    figures = set()
    for names in ((), COLOURS, ("a", "b", "c")):
        model = ps.DirichletCategorical((1, 1, 1), names=names)
        mechanism = ps.DirectPosterior(model=model, n=3, draws=80)
        figures.add(released(mechanism.release([0, 1, 2], rng=RNG(1))))
    assert len(figures) == 3
