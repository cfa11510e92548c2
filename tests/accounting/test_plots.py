"""Plots of accounts, releases, draws and verdicts: they return the axes, which hold the numbers of the object."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.curves.tradeoff import tradeoff_bound
from privsample.mechanisms import intervals
from privsample.mechanisms.shown import noise_reach
from privsample.plots.draws import Coordinate

pytestmark = pytest.mark.check
GAUSSIAN = ps.GaussianMechanism(sensitivity=1, noise_std=2).accountant
LAPLACE = ps.LaplaceMechanism(sensitivity=1, scale=2).accountant
BETA = ps.BetaBernoulli(6, 12)


@pytest.fixture
def ax():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt.figure().subplots()
    plt.close("all")


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_privacy_curve_holds_the_account_s_numbers(ax):
    assert GAUSSIAN.plot(ax=ax) is ax
    (line,) = ax.lines
    x, y = line.get_data()
    assert x[0] == 0.0
    assert np.array_equal(y, GAUSSIAN.delta(x))
    assert y[-1] == pytest.approx(1e-10, rel=1e-3)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("ε (nats)", "δ", "log")


def test_accounts_on_the_same_axes_overlay_with_a_legend(ax):
    GAUSSIAN.plot(ax=ax, label="price $1 and $2", color="red", lw=3)
    assert ax.get_legend() is None
    LAPLACE.plot(ax=ax)
    assert labels(ax) == [r"price \$1 and \$2", "Laplace(sensitivity=1.0, scale=2.0)"]
    assert (ax.lines[0].get_color(), ax.lines[0].get_linewidth()) == ("red", 3)
    x, y = ax.lines[1].get_data()
    assert np.isnan(y[x >= 0.5]).all()  # no probability of a loss beyond the pure guarantee


def test_the_renyi_curve_ends_below_the_order_limit(ax):
    account = ps.DirectPosterior(model=BETA, n=50).accountant
    account.plot("renyi", ax=ax)
    x, y = ax.lines[0].get_data()
    assert x[-1] < account.order_limit < 1.01 * x[-1]
    assert np.isfinite(y).all()
    assert np.array_equal(y, account.rdp(x))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("order α", "Rényi divergence (nats)")


def test_the_trade_off_curve_of_a_gaussian_is_a_tight_lower_bound(ax):
    from scipy.stats import norm

    GAUSSIAN.plot("tradeoff", ax=ax)
    x, y = ax.lines[-1].get_data()
    exact = norm.cdf(norm.ppf(1 - x) - 0.5)  # mu = sensitivity / noise_std
    assert (y <= exact + 1e-15).all()
    assert np.abs(y - exact).max() < 2e-3
    GAUSSIAN.plot("tradeoff", ax=ax)
    assert sum(line.get_gid() == "no information" for line in ax.lines) == 1


@pytest.mark.parametrize("noise_std", [0.1, 1.0, 30.0])
def test_straight_lines_of_the_trade_off_plot_stay_below_the_curve_of_a_gaussian(ax, noise_std):
    from scipy.stats import norm

    ps.GaussianAccountant(sensitivity=1.0, noise_std=noise_std).plot("tradeoff", ax=ax)
    at = np.append(np.geomspace(1e-300, 0.5, 3001), np.linspace(1e-6, 1.0, 3001))
    assert (np.interp(at, *ax.lines[-1].get_data()) <= norm.cdf(-norm.ppf(at) - 1 / noise_std) + 1e-15).all()


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1, 3.0, 100.0, 690.0, 800.0])
def test_the_trade_off_plot_of_a_pure_guarantee_is_exact_between_its_points(ax, epsilon):
    ps.PureAccountant(stated_epsilon=epsilon).plot("tradeoff", ax=ax)
    at = np.append(np.geomspace(1e-300, 0.5, 3001), np.linspace(1e-6, 1.0, 3001))
    exact = np.maximum(1 - np.exp(min(epsilon, 700.0)) * at, np.exp(-epsilon) * (1 - at))
    shown = np.interp(at, *ax.lines[-1].get_data())
    assert (shown <= exact + 1e-15).all()
    assert np.abs(shown - exact).max() < 1e-14


def test_an_account_with_a_large_infinity_mass_has_a_curve(ax):
    account = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=0.99)
    account.plot(ax=ax)
    assert ax.lines[-1].get_ydata().min() >= 0.99


def test_the_trade_off_bound_of_a_pure_guarantee():
    at = np.array([0.0, 0.1, 0.5, 1.0])
    epsilon = np.log(3.0)
    expected = np.maximum(1 - 3 * at, (1 - at) / 3)
    found = tradeoff_bound(np.array([epsilon]), np.array([0.0]), at)
    assert found == pytest.approx(expected, abs=1e-14)
    assert (found <= expected).all()
    assert np.array_equal(tradeoff_bound(np.array([800.0]), np.array([0.25]), at), [0.75 - 2**-50, 0, 0, 0])
    assert not tradeoff_bound(np.array([1.0]), np.array([1.0]), at).any()


def test_what_cannot_be_plotted_is_refused(ax):
    with pytest.raises(ValueError, match="view must be"):
        GAUSSIAN.plot("curve", ax=ax)
    with pytest.raises(TypeError, match="ax must be a Matplotlib Axes or None, got int"):
        GAUSSIAN.plot(ax=3)
    approximate = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-6)
    with pytest.raises(ValueError, match="use view='delta'"):
        ps.ThresholdKeys(scale=4, threshold=30).accountant.group(2).plot("renyi", ax=ax)
    approximate.plot(ax=ax)
    assert ax.lines[-1].get_ydata().min() >= 1e-6


def test_posterior_draws_are_binned(ax):
    rng = np.random.default_rng(1)
    release = ps.DiffusedPosterior(model=BETA, n=10, data_weight=0.3, draws=500).release([1, 0] * 5, rng=rng)
    assert release.plot(ax) is ax
    (bins,) = ax.patches
    heights, edges, _ = bins.get_data()
    expected = np.histogram(release["theta"], edges)[0] / 500 / np.diff(edges)
    assert np.allclose(heights, expected)
    low, high = release.interval()["theta"]
    assert list(ax.lines[0].get_xdata()) == [low, high]
    assert ax.get_xlabel() == "theta"
    assert labels(ax) == ["theta", "90% interval"]


def test_many_coordinates_have_a_row_each(ax):
    release = ps.DirectPosterior(model=ps.DirichletCategorical((2,) * 6), n=6, draws=100).release([0, 1, 2, 3, 4, 5])
    release.plot(ax, probability=0.5)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [f"theta[{k}]" for k in range(6)]
    assert np.allclose(ax.lines[0].get_xdata(), release.interval(0.5)["theta"][:, 0])
    assert ax.yaxis_inverted()


def test_few_draws_are_ticks(ax):
    release = ps.DirectPosterior(model=BETA, n=2, draws=3).release([1, 0])
    release.plot(ax)
    assert np.array_equal(ax.lines[0].get_xdata(), release["theta"])


def test_noisy_statistics_have_the_interval_of_the_noise(ax):
    mechanism = ps.GaussianSum(bounds=(0, 1), noise_std=2)
    release = mechanism.release([0.5, 1.0])
    release.plot(ax, probability=0.9)
    (bars,) = ax.collections[-1:]
    ((low, _), (high, _)) = bars.get_segments()[0]
    assert (low + high) / 2 == pytest.approx(release["sum"].item())
    assert (high - low) / 2 == pytest.approx(2 * 1.6449, rel=1e-3)
    with pytest.raises(TypeError, match="noisy statistics"):
        release.interval()


def test_the_reach_of_discrete_noise_is_the_least_whole_number():
    noise = ps.DiscreteLaplaceNoise(scale=2.0)
    masses = np.exp(noise.log_mass(np.arange(-200.0, 201.0)))
    within = [masses[200 - t : 201 + t].sum() for t in range(10)]
    for probability in (0.1, 0.5, 0.9):
        assert noise_reach(noise, probability) == next(t for t in range(10) if within[t] >= probability)


def test_codes_are_counted(ax):
    mechanism = ps.RandomizedResponse(log_odds=2.0, relation=ps.ReplaceOne(4), categories=3)
    release = mechanism.release([0, 1, 2, 1])
    release.plot(ax)
    assert sum(bar.get_height() for bar in ax.patches) == 4
    with pytest.raises(TypeError, match="whole numbers"):
        release.interval()


def test_posterior_draws_have_intervals_and_plots(ax):
    rng = np.random.default_rng(1)
    draws = ps.PosteriorDraws(
        draws={"theta": rng.normal(size=(1000, 2)), "tau": rng.gamma(2, size=1000)}, account=GAUSSIAN, method="test"
    )
    found = draws.interval(probability=0.8)
    assert found["theta"].shape == (2, 2)
    assert np.allclose(found["tau"], np.quantile(draws["tau"], [0.1, 0.9]))
    assert draws.plot(ax) is ax
    assert labels(ax) == ["theta[0]", "theta[1]", "tau"]
    for wrong in (0.0, 1.0, np.nan, 90):
        with pytest.raises(ValueError, match="probability"):
            draws.interval(wrong)
        with pytest.raises(ValueError, match="probability"):
            draws.plot(ax, probability=wrong)


def test_an_array_of_a_million_coordinates_is_plotted_in_part(ax, monkeypatch):
    made = []
    monkeypatch.setattr(intervals, "Coordinate", lambda label, values: made.append(label) or Coordinate(label, values))
    draws = ps.PosteriorDraws(draws={"theta": np.zeros((2, 1_000_000))}, account=GAUSSIAN, method="test")
    assert draws.plot(ax).get_title() == "the first 40 of 1000000 coordinates"
    assert "and 999994 more coordinates" in draws._repr_html_()
    assert len(made) < 100


@pytest.mark.parametrize(
    "values",
    [[1.0, np.inf] * 50, [1e308, -1e308] * 50, [0.0, 5e-324] * 50, [1.0, 1.0 + 2**-52] * 50, [1e18] * 100],
    ids=["infinite", "huge", "tiny", "neighbours", "equal"],
)
def test_odd_draws_are_binned(ax, values):
    draws = ps.PosteriorDraws(draws={"theta": values}, account=GAUSSIAN, method="test")
    assert np.isfinite(draws.plot(ax).patches[0].get_data().edges).all()
    assert "<rect" in draws._repr_html_()
    assert "PosteriorDraws(theta: 100 draws" in repr(draws)


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros((0, 3)), np.zeros((5, 0)), [np.nan] * 100, [0, 1]])
def test_draws_that_cannot_be_plotted(ax, values):
    draws = ps.PosteriorDraws(draws={"theta": values}, account=GAUSSIAN, method="test")
    with pytest.raises(ValueError, match="nothing to plot"):
        draws.plot(ax)
    assert "theta" in draws._repr_html_()
    assert "theta: " in repr(draws) or "theta = 0, 1" in repr(draws)


def test_no_draws_have_no_interval():
    draws = ps.PosteriorDraws(draws={"theta": np.zeros((0, 3))}, account=GAUSSIAN, method="test")
    with pytest.raises(ValueError, match="there are no draws"):
        draws.interval()


def test_draws_of_a_mechanism_around_noise_have_no_interval():
    release = ps.PostNoise(base=ps.GaussianMechanism(sensitivity=1, noise_std=1, draws=5), noise=1.0).release(1.0)
    with pytest.raises(TypeError, match="noisy statistics"):
        release.interval()


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_axes_with_a_projection_are_refused(ax, projection):
    with pytest.raises(ValueError, match="without a projection"):
        GAUSSIAN.plot(ax=ax.figure.add_subplot(projection=projection))


def test_a_verdict_plots_its_bounds_beside_the_claim(ax):
    verdict = ps.audit(ps.GaussianMechanism(sensitivity=1, noise_std=1), samples=500, rng=np.random.default_rng(1))
    assert verdict.plot(ax) is ax
    assert np.array_equal(ax.lines[0].get_xydata(), np.column_stack([verdict.epsilons, verdict.claims]))
    ends = np.array([bar[:, 1] for bar in ax.collections[0].get_segments()])
    assert np.allclose(ends, np.column_stack([verdict.lowers, verdict.uppers]))
    assert ax.get_title().startswith("CONSISTENT")


def test_without_axes_a_new_figure_is_made(ax):
    assert GAUSSIAN.plot() is not ax
    assert GAUSSIAN.plot().figure is not ax.figure


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'privsample\[report\]'"):
        GAUSSIAN.plot()


def test_objects_that_can_plot_do_not_load_matplotlib():
    code = (
        "import sys, privsample as ps; release = ps.GaussianMechanism(sensitivity=1, noise_std=1).release(0.0); "
        "repr(release); ps.Verdict; ps.PosteriorDraws; print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_account_without_a_finite_epsilon_has_no_curve_to_plot():
    account = ps.ApproximateAccountant(stated_epsilon=0.5, stated_delta=1.0 - 2.0**-53)
    with pytest.raises(ValueError, match="no finite epsilon"):
        account.plot()


def test_signatures_show_the_fields_and_abstract_classes_have_none():
    assert "noise_std" in inspect.signature(ps.GaussianAccountant).parameters
    assert not inspect.signature(ps.Accountant).parameters


def test_renyi_curves_without_an_order_limit(ax):
    (line,) = GAUSSIAN.plot("renyi", ax=ax).lines[:1]
    assert line.get_ydata()[-1] == pytest.approx(float(GAUSSIAN.rdp(line.get_xdata()[-1])))


def test_long_compositions_are_shortened():
    parts = [ps.GaussianMechanism(sensitivity=1.25, noise_std=2 + k / 7).accountant for k in range(3)]
    total = sum(10**14 * part for part in parts)
    assert "100000000000000 * " in repr(total)
