"""What releases and posterior draws give to ArviZ: chains, groups, names, and no warning, in both generations."""

import logging
import warnings

import numpy as np
import pytest

import privsample as ps
from privsample.interop.arviz import default_chains, read_netcdf

pytestmark = pytest.mark.generations

NAMES = ("no", "perhaps", "yes")
# ArviZ 0.23 calls matplotlib 3.11 in a way that matplotlib 3.13 removes; it is not ours to mend.
MATPLOTLIB = "Passing a dict or None as alias_mapping"


def release(draws=100):
    model = ps.DirichletCategorical((1, 1, 1), names=NAMES)
    return ps.DirectPosterior(model=model, n=3, draws=draws).release([0, 1, 2], rng=np.random.default_rng(1))


def posterior_draws(draws=400):
    mechanism = ps.NoisyStatistics(model=ps.BetaBernoulli(1, 1), n=20, scale=2.0, draws=2)
    statistics = ps.PrivateStatistics(release=mechanism.release([1] * 10 + [0] * 10, rng=np.random.default_rng(2)))
    return statistics, statistics.draw(draws, rng=np.random.default_rng(3))


def sizes(tree, name="theta"):
    return tree.posterior[name].shape[:2]


@pytest.mark.parametrize(
    ("draws", "chains"), [(1, 1), (4, 1), (7, 1), (8, 2), (10, 2), (15, 1), (16, 4), (18, 2), (1000, 4), (1002, 2)]
)
def test_independent_draws_are_split_where_diagnostics_need_it(draws, chains):
    assert default_chains(draws) == chains
    made = release(draws)
    assert sizes(made.to_arviz()) == (chains, draws // chains)
    assert np.array_equal(made.to_arviz().posterior["theta"].values.reshape(draws, 3), made["theta"])


def test_the_number_of_chains_can_be_chosen():
    assert sizes(release().to_arviz(chains=5)) == (5, 20)
    assert sizes(posterior_draws()[1].to_arviz(chains=1)) == (1, 400)
    for wrong in (3, 0):
        with pytest.raises(ValueError, match="chains"):
            release().to_arviz(chains=wrong)
        with pytest.raises(ValueError, match="chains"):
            posterior_draws()[1].to_arviz(chains=wrong)


def test_chains_of_a_sampler_stay():
    draws = ps.PosteriorDraws(
        draws={"theta": np.arange(60.0)},
        account=release().account,
        method="test",
        chains=3,
        sample_stats={"diverging": np.arange(60) == 21},
    )
    tree = draws.to_arviz()
    assert sizes(tree) == (3, 20)
    assert np.argwhere(tree.sample_stats["diverging"].values).tolist() == [[1, 1]]


def test_groups_hold_what_was_conditioned_on_and_the_public_numbers():
    statistics, draws = posterior_draws()
    tree = draws.to_arviz()
    assert np.array_equal(tree.observed_data["noisy_statistic"].values, statistics.observed)
    assert tree.constant_data["n"].item() == 20
    assert tree.constant_data["noise_variance"].item() == statistics.noise.variance
    assert release().to_arviz().constant_data["n"].item() == 3
    assert not draws.observed_data["noisy_statistic"].flags.writeable


def test_groups_do_not_disturb_the_files(tmp_path):
    _, draws = posterior_draws()
    draws.save(tmp_path / "draws.nc")
    found, _ = read_netcdf(tmp_path / "draws.nc")
    assert found.keys() == {"theta"}
    assert np.array_equal(found["theta"], draws["theta"])
    made = release()
    made.save(tmp_path / "release.nc")
    assert ps.Release.load(tmp_path / "release.nc") == made


@pytest.mark.parametrize("make", [release, lambda: posterior_draws()[1]], ids=["release", "posterior draws"])
def test_summary_and_plots_raise_no_warning(az, make, caplog):
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    tree = make().to_arviz()
    for logger in ("arviz", "arviz_stats.base.stats_utils"):
        logging.getLogger(logger).addHandler(caplog.handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", MATPLOTLIB)
            table = az.summary(tree)
            distribution = az.plot_posterior if az.__version__.startswith("0.") else az.plot_dist
            for plot in (distribution, az.plot_trace, az.plot_forest):
                plot(tree)
    finally:
        for logger in ("arviz", "arviz_stats.base.stats_utils"):
            logging.getLogger(logger).removeHandler(caplog.handler)
        plt.close("all")
    assert caplog.records == []
    assert np.isfinite(table["r_hat"].astype(float)).all()
    if make is release:
        assert list(table.index) == [f"theta[{name}]" for name in NAMES]
