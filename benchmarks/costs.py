"""Processor time of one epsilon of nested accounts, compared with its limit."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row
from privsample._checks import FloatArray
from privsample.mechanisms.discovery import mechanism_classes

PLACE = ps.ReplaceOne(n=50)
LIMIT, SEEDS = 10.0, 40


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
    "conditional": lambda base: ps.ConditionalAccountant(base=base, event_probability=0.2),
    "selection": lambda base: ps.SelectionAccountant(base=base, repetitions=ps.Poisson(mean=10)),
    "draws": lambda base: ps.BernoulliAccountant(base=base, margin=0.1, draws=3, dimension=1),
    "kernel": lambda base: ps.KernelAccountant(base=base, matrix=[[0.7, 0.3], [0.4, 0.6]]),
    "sample": lambda base: ps.SubsampledAccountant(base=base, scheme=ps.WithoutReplacement(n=500, m=50)).with_relation(
        PLACE
    ),
    "1000 times": lambda base: 1000 * base,
}


def _sweep() -> Iterator[tuple[str, Callable[[], ps.Accountant]]]:
    """Every step over every leaf, every two steps over a posterior, and compositions; new objects without caches."""
    for leaf, step in itertools.product(_leaves(), STEPS):
        yield f"{step} over {leaf}", lambda leaf=leaf, step=step: STEPS[step](_leaves()[leaf])
    for outer, inner in itertools.product(STEPS, STEPS):
        yield (
            f"{outer} over {inner} over posterior",
            lambda outer=outer, inner=inner: STEPS[outer](STEPS[inner](_leaves()["posterior"])),
        )
    yield "all together", lambda: ps.Composed(entries=tuple((one, 3) for one in _leaves().values()))


def _examples() -> dict[ps.Relation, list[Callable[[], ps.Accountant]]]:
    """Factories of the accounts of all example mechanisms and of the leaves, by relation."""
    found: dict[ps.Relation, list[Callable[[], ps.Accountant]]] = {}
    for cls in mechanism_classes():
        for place, example in enumerate(cls.examples()):
            make = lambda cls=cls, place=place: cls.examples()[place].mechanism.accountant  # noqa: E731
            found.setdefault(example.mechanism.accountant.relation, []).append(make)
    for name in _leaves():
        found.setdefault(PLACE, []).append(lambda name=name: _leaves()[name])
    return found


def _random_account(rng: np.random.Generator) -> ps.Accountant:
    """A random composition of up to five examples, each with up to two steps, with multiplicities up to 1000."""
    pools = _examples()
    relations = sorted(pools, key=repr)
    relation = relations[rng.choice(len(relations), p=_shares([len(pools[one]) for one in relations]))]
    entries = []
    for _ in range(rng.integers(1, 6)):
        account = pools[relation][rng.integers(len(pools[relation]))]()
        for _ in range(rng.integers(0, 3)):
            account = _stepped(account, rng)
        entries.append((account, int(rng.choice([1, 2, 10, 1000]))))
    if isinstance(relation, ps.ProfileEdge):  # where only independent observations add
        entries = entries[:1]
    composed = ps.Composed(entries=tuple(entries)) if len(entries) > 1 else entries[0][0]
    return composed if rng.random() < 0.5 else _stepped(composed, rng)


def _shares(counts: list[int]) -> FloatArray:
    return np.array(counts) / sum(counts)


def _stepped(account: ps.Accountant, rng: np.random.Generator) -> ps.Accountant:
    """The account after one random step that preserves its relation; the account itself if the step is refused."""
    steps: list[Callable[[], ps.Accountant]] = [
        lambda: account.group(2),
        lambda: ps.Group(base=account, size=5, relation=account.relation),
        *(lambda name=name: STEPS[name](account) for name in ("conditional", "selection", "draws", "kernel")),
        lambda: ps.BernoulliAccountant(base=account, margin=0.2, draws=1, dimension=1),
        lambda: _sampled(account),
    ]
    try:
        made = steps[rng.integers(len(steps))]()
        return made if made.relation == account.relation else made.with_relation(account.relation)
    except (TypeError, ValueError):
        return account


def _sampled(account: ps.Accountant) -> ps.Accountant:
    """The account of a sample of one tenth, if the relation has a number of records."""
    match account.relation:
        case ps.ReplaceOne(n=n):
            scheme: ps.WithoutReplacement | ps.PoissonSampling = ps.WithoutReplacement(n=10 * n, m=n)
        case _:
            scheme = ps.PoissonSampling(rate=0.1)
    return ps.SubsampledAccountant(base=account, scheme=scheme)


def random_rows(seeds: Iterable[int]) -> Iterator[tuple[float, int, str]]:
    """Processor seconds of epsilon, delta, rdp and explain for the account of each seed, with its description."""
    for seed in seeds:
        account = _random_account(np.random.default_rng(seed))
        start = time.process_time()
        epsilon = account.epsilon(1e-6)
        delta, renyi = account.delta([0.1, 1.0, 3.0]), account.rdp([1.5, 2.0, 8.0])
        account.explain(1e-6)
        seconds = time.process_time() - start
        yield seconds, seed, f"{account!r:.300}: {epsilon}, {delta}, {renyi}"


def rows() -> Iterator[Row]:
    """The slowest accounts of the sweep, relative to ten seconds."""
    found = []
    for name, make in _sweep():
        start = time.process_time()
        make().epsilon(1e-6)
        found.append((time.process_time() - start, name))
    for seconds, seed, _ in random_rows(range(SEEDS)):
        found.append((seconds, f"random account, seed {seed}"))
    for seconds, name in sorted(found, reverse=True)[:8]:
        yield Row(
            name=name,
            library=f"{seconds:.2f} s of the processor",
            peer=f"{LIMIT:g} s at most",
            ratio=seconds / LIMIT,
            target="below 1",
        )
    yield Row(name="accounts", library=str(len(found)), peer="", ratio=None, target="")
