"""Draws as ArviZ's trees, their summaries and their plots: the same tests for both generations."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from privsample.interop import arviz as interop
from privsample.interop.arviz import arviz_generation, plot_posterior, summary, to_arviz

pytestmark = pytest.mark.generations


@pytest.fixture
def pyplot() -> Any:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


def beta_and_dirichlet(draws: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {"p": rng.beta(2, 3, draws), "theta": rng.dirichlet([1, 2, 3], draws), "k": rng.integers(0, 9, draws)}


def test_generation_is_that_of_the_installed_package(az):
    assert arviz_generation() == int(az.__version__.split(".")[0])


def test_import_is_light():
    code = (
        "import sys; from privsample.interop.arviz import arviz_generation; arviz_generation(); "
        "print([m for m in ('arviz', 'xarray', 'matplotlib', 'pymc') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("draws", [1, 2, 10])
def test_shapes_and_values(draws):
    data = beta_and_dirichlet(draws)
    posterior = to_arviz(data, {}).posterior
    assert set(posterior.data_vars) == set(data)
    for name, values in data.items():
        assert posterior[name].dims[:2] == ("chain", "draw")
        assert posterior[name].dtype == values.dtype
        assert posterior[name].values.tobytes() == values[np.newaxis].tobytes()


def test_the_callers_array_is_copied():
    values = np.zeros(3)
    tree = to_arviz({"p": values}, {})
    values[:] = 1.0
    assert not tree.posterior["p"].values.any()


def test_a_dict_of_groups_is_a_trap_in_generation_0_only(az):
    group = {"p": np.zeros((1, 3))}
    wrong = az.from_dict({"posterior": group}).posterior
    assert ("p" in wrong) == (arviz_generation() == 1)  # generation 0 makes one variable of objects, without a word
    right = to_arviz({"p": np.zeros(3)}, {}).posterior
    assert set(right.data_vars) == {"p"}
    assert right["p"].shape == (1, 3)
    assert right["p"].dtype == np.float64


def test_dims_and_coords():
    data = {"theta": beta_and_dirichlet(4)["theta"], "transition": np.ones((4, 3, 2))}
    dims = {"theta": ["category"], "transition": ("category", "state")}
    posterior = to_arviz(data, {}, dims=dims, coords={"category": ("a", "b", "é"), "state": [10, 20]}).posterior
    assert posterior["theta"].dims == ("chain", "draw", "category")
    assert posterior["transition"].dims == ("chain", "draw", "category", "state")
    assert list(posterior["category"].values) == ["a", "b", "é"]
    assert list(posterior["state"].values) == [10, 20]
    assert np.array_equal(posterior["theta"].sel(category="é").values[0], data["theta"][:, 2])


def test_attributes_are_on_group_and_root():
    text = {"account": '{"epsilon": 1.0, "name": "Rényi"}', "format": "1"}
    tree = to_arviz({"p": np.zeros(2)}, text)
    for attrs in (tree.posterior.attrs, tree.attrs):
        assert text.items() <= dict(attrs).items()


@pytest.mark.parametrize(
    ("draws", "error", "message"),
    [
        ({}, ValueError, "one common number of draws"),
        ({"p": np.zeros(2), "q": np.zeros(3)}, ValueError, "one common number of draws, got \\[2, 3\\]"),
        ({"p": np.float64(1)}, ValueError, "must have shape"),
        ({"p": np.zeros(0)}, ValueError, "must have shape"),
        ({"p": np.array(["a"])}, TypeError, "got <U1"),
        ({"p": np.zeros(2, dtype=complex)}, TypeError, "complex128"),
        ({"p": np.zeros(2, dtype=np.float16)}, TypeError, "float16"),
        ({"p": np.zeros(2, dtype=np.uint64)}, TypeError, "uint64"),
        ({"p": np.zeros(2, dtype="m8[s]")}, TypeError, "timedelta64"),
        ({"p": np.array([None])}, TypeError, "object"),
        ({"a/b": np.zeros(2)}, ValueError, "names must start with"),
        ({"": np.zeros(2)}, ValueError, "names must start with"),
        ({"_p": np.zeros(2)}, ValueError, "names must start with"),
        ({"p ": np.zeros(2)}, ValueError, "names must start with"),
        ({"e\u0301": np.zeros(2)}, ValueError, "NFC"),
        ({"chain": np.zeros(2)}, ValueError, "must differ in name"),
    ],
)
def test_draws_that_cannot_be_stored_are_refused(draws, error, message):
    with pytest.raises(error, match=message):
        to_arviz(draws, {})


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"n": 1}, TypeError, "n must be a string, got int"),
        ({"n": b"a"}, TypeError, "n must be a string, got bytes"),
        ({"n": "a\0"}, ValueError, "n must have no NUL or lone surrogate"),
        ({"n": "\ud800"}, ValueError, "n must have no NUL or lone surrogate"),
        ({"created_at": "now"}, ValueError, "nor a name in"),
        ({"coordinates": "x"}, ValueError, "nor a name in"),
        ({"a/b": "x"}, ValueError, "names must start with"),
    ],
)
def test_attributes_that_cannot_be_stored_are_refused(attributes, error, message):
    with pytest.raises(error, match=message):
        to_arviz({"p": np.zeros(2)}, attributes)


@pytest.mark.parametrize(
    ("dims", "coords", "message"),
    [
        ({"theta": []}, {}, "each axis"),
        ({"theta": ["a", "b"]}, {}, "each axis"),
        ({"m": ["a", "a"]}, {}, "each axis"),
        ({"other": ["a"]}, {}, "each axis"),
        ({"theta": ["a"], "m": ["a", "b"]}, {}, "one size each"),
        ({"theta": ["theta"]}, {}, "must differ in name"),
        ({"theta": ["draw"]}, {}, "must differ in name"),
        ({"theta": ["a/b"]}, {}, "names must start with"),
        ({"theta": ["a"]}, {"a": ["x", "y"]}, "coords must have one label"),
        ({}, {"a": ["x", "y", "z"]}, "coords must have one label"),
    ],
)
def test_dims_and_coords_that_do_not_fit_are_refused(dims, coords, message):
    data = {"theta": np.zeros((5, 3)), "m": np.zeros((5, 2, 2))}
    with pytest.raises(ValueError, match=message):
        to_arviz(data, {}, dims=dims, coords=coords)


@pytest.mark.parametrize("draws", [1, 2, 3, 4, 10, 200])
def test_summary(draws, az, caplog, capfd):
    tree = to_arviz(beta_and_dirichlet(draws), {}, {"theta": ["category"]}, {"category": ["a", "b", "c"]})
    table = summary(tree)
    assert sorted(table.index) == sorted(["p", "theta[a]", "theta[b]", "theta[c]", "k"])
    assert float(table["mean"]["p"]) == pytest.approx(float(beta_and_dirichlet(draws)["p"].mean()), abs=0.06)
    assert "Shape validation" not in caplog.text + "".join(capfd.readouterr())
    if draws > 1:  # with one draw, ArviZ's own call may warn; it must give the same table all the same
        assert table.equals(az.summary(tree))


@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_the_users_own_summary_works_for_one_draw(az):
    tree = to_arviz({"p": np.array([0.5]), "bit": np.array([True])}, {})
    assert sorted(az.summary(tree)["mean"].astype(float)) == [0.5, 1.0]


def test_booleans_have_a_summary(az):
    tree = to_arviz({"bit": np.array([True, False, True, False])}, {})
    assert list(az.summary(tree)["mean"].astype(float)) == [0.5]


def test_warnings_that_are_not_about_few_draws_escape():
    tree = to_arviz({"constant": np.zeros(10)}, {})
    with pytest.warns(RuntimeWarning, match="invalid value"):
        summary(tree)


@pytest.mark.parametrize("draws", [1, 2, 3, 10, 200])
def test_plot_draws_a_figure(draws, pyplot, tmp_path):
    assert plot_posterior(to_arviz(beta_and_dirichlet(draws), {})) is not None
    figure = pyplot.gcf()
    assert len(figure.axes) >= 5
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_plot_of_bits_and_small_integers(pyplot):
    tree = to_arviz(
        {"bit": np.arange(9) % 2 == 0, "byte": np.arange(9, dtype=np.int8), "u": np.arange(9, dtype="u1")}, {}
    )
    assert plot_posterior(tree) is not None


def test_plot_without_a_library_names_the_extra(monkeypatch):
    monkeypatch.setattr(interop, "_arviz", lambda: SimpleNamespace(rcParams={"plot.backend": "none"}))
    with pytest.raises(ImportError, match=r"pip install 'privsample\[report\]'"):
        plot_posterior(None)
