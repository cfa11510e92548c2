"""Post-processing steps: ten thousand random cases of each bound against the exact value, and the mean excess."""

import itertools
from collections.abc import Iterator

import numpy as np

import privsample as ps
from benchmarks.measure import Row, seconds
from privsample._value import frozen_value
from privsample.accounting.loss.pair import DiscretePair, LossPair, worst_log_delta, worst_renyi
from privsample.accounting.postprocessing.laplace_sum import LaplaceSumPair
from privsample.accounting.postprocessing.mixing import MixingConstants
from privsample.distributions.parametric.laplace_sum import LaplaceSum

CASES, NEGLIGIBLE = 10_000, 1e-14


@frozen_value
class Listed(ps.Accountant):
    """A mechanism on a finite set, given by the dominating pairs of all its neighbours."""

    listed: tuple[LossPair, ...]
    relation: ps.AddRemove = ps.AddRemove()
    assumptions: frozenset[ps.Assumption] = frozenset()

    @property
    def source(self):
        return "enumeration"

    @property
    def pairs(self):
        return self.listed


def rows() -> Iterator[Row]:
    """Violations and mean excess, and times for the constants of a kernel with 1000 states."""
    yield from _kernels(np.random.default_rng(1))
    yield from _chains(np.random.default_rng(2))
    yield from _laplace(np.random.default_rng(3))
    yield from _times(np.random.default_rng(4))


def _row(name: str, bound: np.ndarray, exact: np.ndarray) -> Row:
    kept = exact > NEGLIGIBLE
    below = int((bound < exact * (1 - 1e-11) - 1e-16).sum())
    slack = bound[kept] / exact[kept] - 1
    words = f"{below} below, slack mean {slack.mean():.3g} median {np.median(slack):.3g}"
    return Row(name=f"{name}, {len(bound)} cases", library=words, peer="", ratio=None, target="0 below")


def _laws(distributions: np.ndarray) -> tuple[DiscretePair, ...]:
    with np.errstate(divide="ignore"):
        logs = np.log(distributions / distributions.sum(axis=1, keepdims=True))
    return tuple(DiscretePair(log_p=p, log_q=q) for p, q in itertools.permutations(logs, 2))


def _kernels(rng: np.random.Generator) -> Iterator[Row]:
    delta, renyi, loss = np.empty((CASES, 2)), np.empty((CASES, 2)), np.empty((CASES, 2))
    for case in range(CASES):
        states, outcomes = rng.integers(2, 7, 2)
        kernel = rng.dirichlet(np.full(outcomes, rng.choice([0.2, 1.0, 10.0])), states)
        distributions = rng.dirichlet(np.full(states, rng.choice([0.5, 3.0])), int(rng.integers(2, 4)))
        account = ps.KernelAccountant(base=Listed(listed=_laws(distributions)), matrix=kernel)
        truth, epsilon, order = (
            _laws(distributions @ kernel),
            float(rng.exponential(0.4)),
            np.array([1 + rng.exponential(5.0)]),
        )
        found = [curve(epsilon) for curve in account._all_curves().values()]
        delta[case] = np.exp(min(found)), np.exp(worst_log_delta(truth, np.array(epsilon)))
        renyi[case] = account.rdp(order)[0], worst_renyi(truth, order)[0]
        loss[case] = account.pure_epsilon, max(pair.max_divergence for pair in truth)
    yield _row("kernel, delta", *delta.T)
    yield _row("kernel, Rényi", *renyi.T)
    yield _row("kernel, pure", *loss.T)


def _chains(rng: np.random.Generator) -> Iterator[Row]:
    linear, fourth, fifth = np.empty((CASES, 2)), np.empty((CASES, 2)), np.empty((CASES, 2))
    for case in range(CASES):
        steps = int(rng.integers(1, 30))
        noises, constants = rng.uniform(0.1, 3.0, steps + 1), rng.uniform(0.05, 1.6, steps)
        account = ps.ContractionAccountant(sensitivity=1.0, noise_stds=tuple(noises), constants=tuple(constants))
        shift, variance = 1.0, noises[0] ** 2
        for noise, constant in zip(noises[1:], constants, strict=True):
            shift, variance = shift * constant, variance * constant**2 + noise**2
        linear[case] = account.zcdp, shift**2 / variance / 2
        constant, eta, rho = rng.uniform(0.05, 1.0, 3)
        made = ps.ContractionAccountant(
            sensitivity=1.0, noise_stds=(0.0, *(1.0,) * steps), constants=(constant,) * steps
        )
        fourth[case] = constant ** (steps + 1) / (2 * steps), made.zcdp
        eta = min(eta, 2 / (1 + rho))
        factor = max(abs(1 - eta * rho), abs(1 - eta))
        made = ps.ContractionAccountant(
            sensitivity=2 * eta, noise_stds=(eta,) * (steps + 1), constants=(factor,) * steps
        )
        fifth[case] = 2 / steps * (1 - 2 * eta * rho / (1 + rho)) ** ((steps + 1) / 2), made.zcdp
    yield _row("chain, library over linear maps", *linear.T)
    yield _row("chain, Theorem 4 over library", *fourth.T)
    yield _row("chain, Theorem 5 over library", *fifth.T)


def _laplace(rng: np.random.Generator) -> Iterator[Row]:
    count = CASES // 50  # the exact divergence is an integral
    found = np.empty((count, 2))
    for case in range(count):
        shift, a, b = 10 ** rng.uniform(-1, 1, 3)
        order = np.array([1 + rng.exponential(5.0)])
        account = ps.LaplaceSumAccountant(sensitivity=shift, scale=a, further_scale=b)
        found[case] = account.split_shift_rdp(order)[0], account.rdp(order)[0]
    yield _row("Laplace after Laplace, shared shift over exact", *found.T)
    found = np.empty((CASES, 2))
    x, half = np.linspace(-60, 60, 24_001), 2.5e-3
    for case in range(CASES // 10):  # the curve against a sum over bins
        a, shift = 1.0, float(rng.uniform(0.1, 5.0))
        noise = LaplaceSum(scale=a, further_scale=float(rng.uniform(0.3, 1.0)))
        epsilons = rng.uniform(0.0, shift * 0.9, 10)
        pair = LaplaceSumPair(shift=shift, noise=noise)
        p, q = np.exp(noise.log_density(x - shift)), np.exp(noise.log_density(x))
        sums = np.maximum(p - np.exp(epsilons)[:, None] * q, 0.0).sum(axis=1) * 2 * half
        found[10 * case : 10 * case + 10] = np.stack(
            [np.exp(pair.log_delta(epsilons)), sums * (1 - 1e-4) - 1e-6], axis=1
        )
    yield _row("Laplace after Laplace, curve over a sum of bins (to 1e-4)", *found.T)


def _times(rng: np.random.Generator) -> Iterator[Row]:
    matrix = rng.dirichlet(np.full(1000, 0.5), 1000)

    def constants() -> None:
        found = MixingConstants(matrix=matrix)
        assert found.dobrushin * found.doeblin * found.ultra_mixing * float(found.hockey_stick(0.5)) > 0

    taken = min(seconds(constants) for _ in range(3))
    yield Row(name="constants of 1000 states", library=f"{taken:.2f} s", peer="", ratio=None, target="under 2 s")
