"""Releases that a ledger admits one at a time, by family, of those in a fixed plan, and the cost of a spend."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import privsample as ps
from benchmarks.measure import Row, milliseconds
from privsample.accounting.ledger.copies import copies_in

BUDGET = ps.DP(epsilon=1, delta=1e-6)
SAMPLED = ps.SubsampledAccountant(
    base=ps.GaussianAccountant(sensitivity=1, noise_std=4.30215), scheme=ps.PoissonSampling(rate=0.01)
)
CASES: dict[str, tuple[ps.Accountant, str]] = {
    "Gaussian sigma=20": (ps.GaussianAccountant(sensitivity=1, noise_std=20), "22 of 22"),
    "Laplace b=20": (ps.LaplaceAccountant(sensitivity=1, scale=20), ">= 24 of 26"),
    "Poisson 0.01, Gaussian sigma=4.302": (SAMPLED, ">= 99 %"),
}


def rows() -> Iterator[Row]:
    """Numbers of releases by the general rule, in a Gaussian ledger and in a ledger of their own family."""
    with TemporaryDirectory() as folder:
        for name, (account, target) in CASES.items():
            planned = copies_in(BUDGET, account)
            families: dict[str, str | ps.Accountant | None] = {
                "general": None, "Gaussian": "gaussian", "own family": account}  # fmt: skip
            for label, family in families.items():
                ledger = ps.Ledger(
                    Path(folder) / f"{name} {label}", budget=BUDGET, relation=ps.AddRemove(), dataset="d", family=family
                )
                admitted = ledger.remaining_releases(account)
                start = time.process_time()
                if admitted:
                    ledger.spend(account)
                spend = time.process_time() - start
                yield Row(
                    name=f"{name}, {label}",
                    library=f"{admitted}, {milliseconds(spend)} each",
                    peer=f"{planned} in a plan",
                    ratio=admitted / planned,
                    target=target if label == "own family" or (label, target) == ("Gaussian", "22 of 22") else "",
                )
