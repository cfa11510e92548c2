"""Nothing altered loads: a file that was changed at random is refused in one line, or holds what it held before."""

import json
from collections import Counter

import numpy as np
import pytest

import privsample as ps
from privsample.mechanisms import release as release_file
from tests.mechanisms.mutations import mutated_copy

MODEL = ps.DirichletCategorical((1, 2, 3), names=["yes", "no", "maybe"])
STATISTICS = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=6, beta=2), n=8, scale=2.0)


def releases():
    """Of a posterior with names, of statistics under a prior, and of an integer with its own delta."""
    named = ps.DirectPosterior(model=MODEL, n=4, draws=4).release([0, 1, 2, 1], rng=np.random.default_rng(1))
    statistics = STATISTICS.release([1, 0, 1, 1, 0, 0, 1, 1])
    counts = ps.NoisyStatistics(model=MODEL, n=4, scale=2.0).release([0, 1, 2, 1])
    own = ps.Release(mechanism=counts.mechanism, draws=counts.draws, account=counts.account, delta=1e-4)
    return {"named": named, "statistics": statistics, "counts": own}


def posterior_draws():
    """Draws of two chains with all further groups."""
    return ps.PosteriorDraws(
        draws={"theta": np.linspace(0, 1, 24).reshape(8, 3), "runs": np.arange(8, dtype=np.int16)},
        account=STATISTICS.accountant,
        method="numbers that were made up",
        chains=2,
        dims={"theta": ("category",)},
        coords={"category": ("yes", "no", "maybe")},
        sample_stats={"diverging": np.arange(8) % 3 == 0},
        observed_data={"statistic": np.array([3.5])},
        constant_data={"n": np.array(8)},
    )


def load_certificate(path):
    """The content of a certificate: spaces between its parts are none of it."""
    return json.loads(ps.Certificate.load(path).text)


def write(folder, kind):
    """Write the files of a kind; returns their paths and the function that loads them."""
    if kind == "draws.nc":
        posterior_draws().save(folder / kind)
        return [folder / kind], ps.PosteriorDraws.load
    if kind == "certificate.json":
        account = 2 * ps.GaussianAccountant(sensitivity=1, noise_std=3.0)
        account.certificate(epsilon=[1.0, 2.0]).save(folder / kind)
        return [folder / kind], load_certificate
    name, ending = kind.split(".")
    paths = []
    for title, release in releases().items():
        paths.append(folder / f"{name}-{title}.{ending}")
        release.save(paths[-1])
    return paths, ps.Release.load


def outcomes(folder, kind, count, rng):
    """How many of `count` mutated files were refused in a short line, loaded as before, or loaded altered."""
    paths, load = write(folder, kind)
    whole = {path: load(path) for path in paths}
    found = Counter()
    for _ in range(count):
        path = paths[int(rng.integers(len(paths)))]
        target = folder / f"mutant{path.suffix}"
        mutated_copy(path, target, rng)
        try:
            loaded = load(target)
        except ValueError as refusal:
            short = len(str(refusal)) < 1000 and "\n" not in str(refusal)
            found["refused" if short else "refused at length"] += 1
        else:
            found["unchanged" if loaded == whole[path] else "altered"] += 1
    return found


KINDS = {"release.json": (120, 1200), "certificate.json": (60, 600), "release.nc": (12, 700), "draws.nc": (12, 500)}


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        pytest.param(kind, count, marks=mark, id=f"{kind}-{count}")
        for kind, counts in KINDS.items()
        for count, mark in zip(counts, ((), pytest.mark.long), strict=True)
    ],
)
def test_nothing_altered_loads(kind, count, tmp_path):
    """3,000 mutations in the long lane. Some change nothing: spaces, or bytes of a netCDF file that hold nothing."""
    if kind.endswith(".nc"):
        pytest.importorskip("h5py")
    found = outcomes(tmp_path, kind, count, np.random.default_rng([count, *kind.encode()]))
    assert found.keys() <= {"refused", "unchanged"}, found
    assert found["refused"] >= 0.3 * count


def test_altered_files_would_load_without_the_digest(tmp_path, monkeypatch):
    """The mutations would find a digest that is not compared: the account alone does not depend on everything."""
    monkeypatch.setattr(release_file, "check_digest", lambda document, canonical: None)
    found = outcomes(tmp_path, "release.json", 120, np.random.default_rng(1))
    assert found["altered"] >= 5
