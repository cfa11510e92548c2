"""A private hidden Markov chain of 390,000 records, 10 states and 200 sweeps, compared with the non-private one."""

from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, paired

CATEGORIES, STEPS, STATES, SWEEPS, RECORDS = (16, 3, 5, 5, 4), 365, 10, 200, 390_000
TARGET = ps.DP(epsilon=5.0)


def rows() -> Iterator[Row]:
    """Time of a release including the reading of records, and of counting and sampling alone."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, STEPS)
    entries = np.bincount(rng.integers(0, STEPS, RECORDS), minlength=STEPS)
    distributions = [rng.dirichlet(np.full(k, 5.0), 3) for k in CATEGORIES]
    shares = [np.repeat(distribution[kinds].cumsum(axis=1), entries, axis=0) for distribution in distributions]
    data = np.column_stack([(rng.random((RECORDS, 1)) > share[:, :-1]).sum(axis=1) for share in shares])
    for name, by in (("noisy histograms", "scale"), ("tempered updates", "temperature")):
        made = ps.PrivateGibbsHMM.calibrate(
            states=STATES, categories=CATEGORIES, entries=tuple(entries.tolist()), target=TARGET, by=by, sweeps=SWEEPS
        )

        def private(made: ps.PrivateGibbsHMM = made) -> object:
            return made.release(data, rng=np.random.default_rng(1))

        def plain(made: ps.PrivateGibbsHMM = made) -> object:
            chain = made.model.sample(made.histograms(data), SWEEPS, made.released_sweeps, np.random.default_rng(1))
            return chain.states

        library, peer = paired(private, plain, runs=3)
        yield Row(
            name=f"HMM, 390,000 records, 10 states, 200 sweeps, {name}",
            library=f"{library:.2f} s",
            peer=f"{peer:.2f} s not private",
            ratio=library / peer,
            target="at most 1.2",
        )
