"""How long accounts take that are built on accounts: processor seconds of one epsilon, beside what it may take."""

import itertools
import time
from collections.abc import Callable, Iterator

import privsample as ps
from benchmarks.measure import Row

PLACE = ps.ReplaceOne(n=50)
LIMIT = 10.0


def _leaves() -> dict[str, ps.Accountant]:
    return {
        "Gaussian": ps.GaussianAccountant(sensitivity=1, noise_std=3, relation=PLACE),
        "Laplace": ps.LaplaceAccountant(sensitivity=1, scale=3, relation=PLACE),
        "zCDP": ps.ZCDPAccountant(rho=0.05, relation=PLACE),
        "posterior": ps.DirectPosterior(model=ps.BetaBernoulli(alpha=3, beta=5), n=50).accountant,
        "tempered": ps.TemperedAccountant(
            model=ps.BetaBernoulli(alpha=2, beta=3), n=50, temperature=3.0, truncation=0.1
        ),
    }


STEPS: dict[str, Callable[[ps.Accountant], ps.Accountant]] = {
    "group of 5": lambda base: ps.Group(base=base, size=5, relation=PLACE),
    "conditional": lambda base: ps.ConditionalAccountant(base=base, floor=0.2),
    "selection": lambda base: ps.SelectionAccountant(base=base, runs=ps.Poisson(mean=10)),
    "draws": lambda base: ps.BernoulliAccountant(base=base, margin=0.1, draws=3, dimension=1),
    "kernel": lambda base: ps.KernelAccountant(base=base, matrix=[[0.7, 0.3], [0.4, 0.6]]),
    "sample": lambda base: ps.SubsampledAccountant(base=base, scheme=ps.WithoutReplacement(n=500, m=50)).with_relation(
        PLACE
    ),
    "1000 times": lambda base: 1000 * base,
}


def _sweep() -> Iterator[tuple[str, Callable[[], ps.Accountant]]]:
    """Every step over every leaf, every two steps over a posterior, and sums; made anew, so that nothing is cached."""
    for leaf, step in itertools.product(_leaves(), STEPS):
        yield f"{step} over {leaf}", lambda leaf=leaf, step=step: STEPS[step](_leaves()[leaf])
    for outer, inner in itertools.product(STEPS, STEPS):
        yield (
            f"{outer} over {inner} over posterior",
            lambda outer=outer, inner=inner: STEPS[outer](STEPS[inner](_leaves()["posterior"])),
        )
    yield "all together", lambda: ps.Composed(entries=tuple((one, 3) for one in _leaves().values()))


def rows() -> Iterator[Row]:
    """The slowest accounts of the sweep, as a share of ten seconds."""
    found = []
    for name, make in _sweep():
        start = time.process_time()
        make().epsilon(1e-6)
        found.append((time.process_time() - start, name))
    for seconds, name in sorted(found, reverse=True)[:8]:
        yield Row(
            name=name,
            ours=f"{seconds:.2f} s of the processor",
            peer=f"{LIMIT:g} s at most",
            ratio=seconds / LIMIT,
            target="below 1",
        )
    yield Row(name="accounts", ours=str(len(found)), peer="", ratio=None, target="")
