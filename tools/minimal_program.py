"""What must work with the required packages alone; `minimal_install.py` runs it, far from the source tree."""

import sys
from importlib.metadata import distributions, requires
from pathlib import Path
from re import match

import numpy as np

import privsample as ps
from privsample.errors import BudgetExceeded

REQUIRED = {"numpy", "scipy", "python-flint"}
PATIENTS = ["north", "south", "north", "west"]


def environment() -> None:
    """Nothing is installed that privsample does not require, and privsample itself is no checkout."""
    installed = {str(one.metadata["Name"]).lower().replace("_", "-") for one in distributions()}
    assert installed - {"pip", "setuptools", "wheel"} == REQUIRED | {"privsample"}, installed
    declared = (match(r"[\w.-]+", line) for line in requires("privsample") or () if "extra ==" not in line)
    assert {found[0] for found in declared if found} == REQUIRED
    assert ps.__file__ is not None
    assert "site-packages" in Path(ps.__file__).parts, ps.__file__


def releases() -> None:
    """Draws from posteriors and noisy statistics, each with its account, and JSON files."""
    posterior = ps.DiffusedPosterior.calibrate(
        model=ps.BetaBernoulli(alpha=6, beta=12), n=100, draws=4, target=ps.DP(epsilon=1, delta=1e-6)
    )
    counter = ps.NoisyStatistics.calibrate(
        model=ps.BetaBernoulli(alpha=1, beta=1), n=100, target=ps.DP(epsilon=0.5), unit="patient"
    )
    release = counter.release(np.repeat([0, 1], 50))
    assert "patient" in release.statement()
    releases: tuple[ps.Release, ...] = (release, posterior.release(np.repeat([0, 1], 50)))
    for number, made in enumerate(releases):
        made.save(f"release{number}.json")
        assert ps.Release.load(f"release{number}.json") == made
    draws = ps.PrivateStatistics(release=release).draw(100)
    assert draws["theta"].shape == (100,)


def sums_and_groups() -> None:
    """Sums, tallies of parts, and one release for each group of a public list."""
    total = ps.GaussianSum(bounds=(0, 30), noise_std=20)
    parts = [total.tally(part) for part in ([3.5, 9.0], [12.0])]
    assert total.release(ps.merge_tallies(parts))["sum"].shape == (1,)
    groups = ps.by("hospital", total, keys=["north", "south", "west"])
    records = (PATIENTS, [3.5, 9.0, 12.0, 1.0])
    assert groups.release(groups.tally(records))["sum"].shape == (1, 3)
    assert groups.release(records)["sum"].shape == (1, 3)


def ledger() -> None:
    """A budget in a file, which refuses what exceeds it."""
    noise = ps.LaplaceMechanism(sensitivity=1, scale=2)
    relation = noise.accountant.relation
    made = ps.Ledger("budget.ledger", budget=ps.DP(epsilon=0.9, delta=0), relation=relation, dataset="patients")
    made.release(noise, 3.0)
    try:
        made.release(noise, 3.0)
    except BudgetExceeded:
        pass
    else:
        raise AssertionError("the ledger spent more than its budget")
    assert len(ps.Ledger("budget.ledger").history()) == 1


def accounts() -> None:
    """Epsilon, delta, composition and subsampling."""
    gaussian = ps.GaussianAccountant(sensitivity=1, noise_std=2)
    assert 0 < gaussian.delta(gaussian.epsilon(1e-6)) <= 1e-6
    assert (10 * gaussian).epsilon(1e-6) > gaussian.epsilon(1e-6)
    step = ps.Subsampled(base=ps.ClippedSum(norm=1, noise_std=1, width=3), scheme=ps.PoissonSampling(rate=0.01))
    assert 0 < (100 * step.accountant).epsilon(1e-5) < 100 * step.accountant.epsilon(1e-5)
    assert step.release(np.ones((50, 3)))["sum"].shape == (1, 3)


def chains() -> None:
    """Coefficients of a regression, drawn by Langevin chains."""
    mechanism = ps.LangevinPosterior.calibrate(
        likelihood=ps.LogisticLikelihood(),
        features=2,
        norm=1.0,
        relation=ps.ReplaceOne(n=40),
        draws=2,
        target=ps.DP(epsilon=3, delta=1e-5),
    )
    rows = np.linspace(-0.5, 0.5, 80).reshape(40, 2)
    assert mechanism.release((rows, (rows[:, 0] > 0).astype(int)))["coefficients"].shape == (2, 2)


def refusals() -> None:
    """A use without its extra says which one to install."""
    for use, extra in (
        (lambda: ps.PrivateLogisticRegression, "learn"),
        (lambda: ps.LaplaceAccountant(sensitivity=1, scale=1).plot(), "report"),
        (lambda: ps.audit(ps.LaplaceMechanism(sensitivity=1, scale=1), samples=1000), "audit"),
        (lambda: ps.LaplaceMechanism(sensitivity=1, scale=1).release(0.0).to_arviz(), "bayes"),
        (lambda: ps.GaussianSum(bounds=(0, 1), noise_std=9).tally([1]).to_arrow(), "files"),
    ):
        message = ""
        try:
            use()
        except ImportError as error:
            message = str(error)
        assert f"pip install 'privsample[{extra}]'" in message, f"without the extra {extra}: {message!r}"


for part in (environment, releases, sums_and_groups, ledger, accounts, chains, refusals):
    part()
print("done on Python", sys.version.split()[0])
