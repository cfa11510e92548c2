"""Random accounts of each family, with extreme parameters, and losses of neighbours that attain or approach them.

A case may state less than the worst neighbours: every stated loss is one of two neighbours, so that an account below
any of them is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from math import comb
from typing import Any

import numpy as np
from flint import arb

import privsample as ps
from tests.accounting.search import losses as true
from tests.accounting.search.losses import Finite, Laplace, Normal, Real, SampledNormal, number

Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """An account; compositions that it must cover, as losses and multiplicities; and their curves."""

    account: Any
    truths: list[list[tuple[true.Loss, int]]]
    log_delta: Callable[[float], list[Real | None]] | None = None
    epsilons: list[float] = field(default_factory=list)

    def true_log_deltas(self, epsilon: float) -> list[Real]:
        curve = self.log_delta or (lambda e: [true.composed_log_delta(parts, e) for parts in self.truths])
        return [value for value in curve(epsilon) if value is not None and not value.is_nan()]


def power(rng: Rng, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return float(10.0 ** rng.uniform(low, high))


def times(rng: Rng, most: float = 4.0) -> int:
    return int(power(rng, 0, most)) if rng.random() < 0.7 else 1


def group(rng: Rng) -> int:
    return int(rng.choice([1, 1, 2, 3, 4, 5]))


def normal(mu: Real, account: Any) -> Case:
    loss = Normal(mu)
    return Case(account, [[(loss, 1)]], lambda e: [loss.log_delta(e)])


def gaussian(rng: Rng) -> Case:
    k, size, sensitivity, noise = times(rng), group(rng), power(rng, -4, 3), power(rng, -3, 4)
    account = (k * ps.GaussianAccountant(sensitivity=sensitivity, noise_std=noise)).group(size)
    return normal(size * number(sensitivity) / number(noise) * arb(k).sqrt(), account)


def several_gaussians(rng: Rng) -> Case:
    square, account = arb(0), None
    for _ in range(rng.integers(2, 5)):
        k, sensitivity, noise = times(rng, 2), power(rng, -2, 1), power(rng, -1, 3)
        added = k * ps.GaussianAccountant(sensitivity=sensitivity, noise_std=noise)
        account = added if account is None else account + added
        square += k * (number(sensitivity) / number(noise)) ** 2
    return normal(square.sqrt(), account)


def zcdp(rng: Rng) -> Case:
    k, size, rho = times(rng), group(rng), power(rng, -8, 2)
    account = (k * ps.ZCDPAccountant(rho=rho)).group(size)
    return normal(size * (2 * k * number(rho)).sqrt(), account)


def contraction(rng: Rng) -> Case:
    """Linear maps attain what the sensitivity and the constants allow: the last state is normal."""
    length = int(rng.integers(1, 6))
    noises = tuple(power(rng, -2, 2) for _ in range(length))
    constants = tuple(float(rng.choice([0.0, rng.uniform(0, 2), 1.0])) for _ in range(length - 1))
    sensitivity, k, size = power(rng, -3, 1), times(rng, 2), group(rng)
    base = ps.ContractionAccountant(sensitivity=sensitivity, noise_stds=noises, constants=constants)
    shift, variance = number(sensitivity), number(noises[0]) ** 2
    for noise, constant in zip(noises[1:], constants, strict=True):
        shift, variance = shift * number(constant), variance * number(constant) ** 2 + number(noise) ** 2
    if not shift > 0:
        return gaussian(rng)
    return normal(size * shift / variance.sqrt() * arb(k).sqrt(), (k * base).group(size))


def hidden_states(rng: Rng) -> Case:
    length, shift, variance = int(rng.integers(1, 7)), arb(0), arb(0)
    steps = [(power(rng, -3, 1), power(rng, -2, 1), float(rng.uniform(0, 1.5))) for _ in range(length)]
    for move, noise, constant in steps:
        shift = shift * number(constant) + number(move)
        variance = variance * number(constant) ** 2 + number(noise) ** 2
    moves, noises, constants = (tuple(step[i] for step in steps) for i in range(3))
    account = ps.HiddenStateAccountant(moves=moves, noise_stds=noises, constants=constants)
    k = times(rng, 2)
    return normal(shift / variance.sqrt() * arb(k).sqrt(), k * account)


def laplace(rng: Rng) -> Case:
    k, size = int(rng.choice([1, 1, 2, 3, 8])), group(rng)
    sensitivity, scale = power(rng, -4, 2), power(rng, -2, 5)
    account = (k * ps.LaplaceAccountant(sensitivity=sensitivity, scale=scale)).group(size)
    shift = size * number(sensitivity) / number(scale)
    return Case(account, [[(Laplace(shift), k)]], lambda e: [true.repeated_laplace(shift, k, e)])


def finite(account: Any, single: list[Finite], k: int, *, reverse: bool = True) -> Case:
    single = single + [Finite(loss.q, loss.p) for loss in single] if reverse else single
    made = [loss.repeated(k) for loss in single]
    return Case(account, [[(loss, k)] for loss in single], lambda e: [outcomes.log_delta(e) for outcomes in made])


def response(epsilon: Real, categories: int = 2) -> Finite:
    odds = epsilon.exp()
    total = odds + categories - 1
    p, q = [odds / total, 1 / total], [1 / total, odds / total]
    rest = [(categories - 2) / total] if categories > 2 else []
    return Finite(tuple(p + rest), tuple(q + rest))


def pure(rng: Rng) -> Case:
    """Randomized response attains a pure guarantee, also of groups."""
    k, size, epsilon = times(rng, 2.5), group(rng), power(rng, -9, 2)
    account = k * ps.PureAccountant(stated_epsilon=epsilon).group(size)
    return finite(account, [response(size * number(epsilon))], k)


def approximate(rng: Rng) -> Case:
    k, size, epsilon, delta = times(rng, 2), group(rng), power(rng, -4, 1), power(rng, -15, -0.5)
    account = k * ps.ApproximateAccountant(stated_epsilon=epsilon, stated_delta=delta).group(size)
    grown, joint = number(epsilon), number(delta)
    if size > 1:
        grown, joint = size * grown, joint * (size * grown).expm1() / grown.expm1()
    kept, both = 1 - joint, response(grown)
    p = (*(kept * u for u in both.p), joint, arb(0))
    q = (*(kept * u for u in both.q), arb(0), joint)
    return finite(account, [Finite(p, q)], k)


def randomized_response(rng: Rng) -> Case:
    categories, odds = int(rng.integers(2, 7)), power(rng, -6, 1.5)
    k = times(rng, 2) if categories == 2 else int(rng.integers(1, 12))
    base = ps.RandomizedResponseAccountant(log_odds=odds, categories=categories, relation=ps.ReplaceOne(n=9))
    return finite(k * base, [response(number(odds), categories)], k)


def table(rng: Rng) -> Case:
    """Two stated distributions whose floats sum to 1 without rounding."""
    size = int(rng.integers(2, 4))
    rows = [np.ceil(10.0 ** rng.uniform(1, 13, size)) for _ in range(2)]
    for row in rows:
        row[0] = 2.0**46 - row[1:].sum()
    p, q = ((row / 2.0**46).tolist() for row in rows)
    k = int(rng.integers(1, 12)) if size > 2 else times(rng, 2)
    loss = Finite(*(tuple(number(x) for x in row) for row in (p, q)))
    return finite(k * ps.PairAccountant(p=p, q=q), [loss], k)


def kernel(rng: Rng) -> Case:
    categories, odds = int(rng.integers(2, 4)), power(rng, -3, 1)
    base = ps.RandomizedResponseAccountant(log_odds=odds, categories=categories, relation=ps.ReplaceOne(n=3))
    matrix = np.array([[rng.uniform(0, 1)] for _ in range(categories)])
    matrix = np.hstack([matrix, 1 - matrix])
    both, k = number(odds).exp() + categories - 1, int(rng.integers(1, 6))
    answer = [[(number(odds).exp() if i == j else arb(1)) / both for j in range(categories)] for i in range(categories)]
    seen = [[sum((row[j] * number(matrix[j, y]) for j in range(categories)), arb(0)) for y in (0, 1)] for row in answer]
    pairs = [Finite(tuple(seen[i]), tuple(seen[j])) for i, j in product(range(categories), repeat=2) if i < j]
    return finite(k * ps.KernelAccountant(base=base, matrix=matrix), pairs, k)


def bounded_range(rng: Rng) -> Case:
    """A choice of two by the exponential mechanism: losses t and t - eta, at some t."""
    eta, k = power(rng, -4, 1.3), times(rng, 1.5)
    pairs = []
    for share in rng.uniform(0.02, 0.98, 3):
        t = number(float(share)) * number(eta)
        q = -(t - number(eta)).expm1() / (t.exp() - (t - number(eta)).exp())
        pairs.append(Finite((q * t.exp(), 1 - q * t.exp()), (q, 1 - q)))
    return finite(k * ps.BoundedRangeAccountant(loss_range=eta), pairs, k)


def conjugate(rng: Rng) -> Case:
    """Posteriors of records that agree but for a group, which lies at either end of the range."""
    weight, w, n = float(rng.choice([1.0, power(rng, -3, 0)])), float(rng.choice([1.0, power(rng, 0, 2)])), 0
    n, size, k = int(power(rng, 0, 3)), group(rng), times(rng, 2)
    moved = min(size, n)
    a, b, r = power(rng, -2, 2), power(rng, -2, 2), number(weight)
    pa, pb, rest, step = number(w) * number(a), number(w) * number(b), r * (n - moved), r * moved
    kind = rng.choice(["beta", "dirichlet", "poisson", "exponential", "normal"])
    if kind == "normal":
        low, high, variance, noise = -power(rng, -1, 1), power(rng, -1, 1), power(rng, -2, 2), power(rng, -2, 2)
        model = ps.NormalKnownVariance(mean=0.5, variance=variance, noise_variance=noise, bounds=(low, high))
        precision = number(w) / number(variance) + n * r / number(noise)
        mu = step * (number(high) - number(low)) / number(noise) / precision.sqrt()
        account = k * ps.PosteriorAccountant(model=model, n=n, data_weight=weight, prior_weight=w).group(size)
        return normal(mu * arb(k).sqrt(), account)
    if kind in ("beta", "dirichlet"):
        model = ps.BetaBernoulli(alpha=a, beta=b) if kind == "beta" else ps.DirichletCategorical(alpha=(a, b))
        ends = [((pa + step, pb), (pa, pb + step)), ((pa, pb + step), (pa + step, pb))]
        common = (rest, arb(0)) if rng.random() < 0.5 else (arb(0), rest)
        pairs = [tuple((u + common[0], v + common[1]) for u, v in pair) for pair in ends]
        losses = [true.Conjugate("beta", *pair) for pair in pairs]
    else:
        upper = int(rng.integers(1, 6)) if kind == "poisson" else power(rng, -1, 1)
        if kind == "poisson":
            model, rate = ps.GammaPoisson(shape=a, rate=b, upper=upper), pb + r * n
            pair = (pa, rate), (pa + step * number(upper), rate)
        else:
            model, shape = ps.GammaExponential(shape=a, rate=b, upper=upper), pa + r * n
            pair = (shape, pb), (shape, pb + step * number(upper))
        losses = [true.Conjugate("gamma", *pair), true.Conjugate("gamma", *pair[::-1])]
    account = k * ps.PosteriorAccountant(model=model, n=n, data_weight=weight, prior_weight=w).group(size)
    return Case(account, [[(loss, k)] for loss in losses])


def discrete_noise(rng: Rng) -> Case:
    """A whole sum with discrete noise: all outcomes that a float can tell apart from none."""
    shift, size = int(rng.integers(1, 4)), group(rng)
    moved = shift * size
    if rng.random() < 0.5:
        scale = power(rng, -0.5, 1.0)
        noise, reach = ps.DiscreteLaplaceNoise(scale=scale), int(150 * max(scale, 1)) + moved
        weight = lambda x: (-abs(x) / number(scale)).exp()  # noqa: E731
    else:
        std = power(rng, -0.3, 0.8)
        noise, reach = ps.DiscreteGaussianNoise(noise_std=std), int(25 * max(std, 1)) + moved
        weight = lambda x: (-(arb(x) ** 2) / (2 * number(std) ** 2)).exp()  # noqa: E731
    total = sum((weight(x) for x in range(-4 * reach, 4 * reach + 1)), arb(0))
    outcomes = range(-reach, reach + moved + 1)
    loss = Finite(tuple(weight(x - moved) / total for x in outcomes), tuple(weight(x) / total for x in outcomes))
    differences = ps.RecordSensitivity(differences=[[shift]], integer_valued=True)
    account = ps.StatisticsAccountant(differences=differences, n=5, noise=noise).group(size)
    return finite(account, [loss], 1, reverse=False)


def noisy_statistics(rng: Rng) -> Case:
    """A vector of Gaussian noise, or of Laplace noise with equal shifts."""
    size, k = group(rng), int(rng.integers(1, 4))
    if rng.random() < 0.5:
        vector, noise = rng.integers(0, 9, int(rng.integers(1, 5))) * power(rng, -3, 1), power(rng, -1, 3)
        vector[0] += 0.1
        differences = ps.RecordSensitivity(differences=[vector.tolist()])
        length = sum((number(float(x)) ** 2 for x in vector), arb(0)).sqrt()
        account = ps.StatisticsAccountant(differences=differences, n=5, noise=ps.GaussianNoise(noise_std=noise))
        return normal(size * length / number(noise) * arb(k).sqrt(), (k * account).group(size))
    move, width, scale = power(rng, -2, 1), int(rng.integers(1, 4)), power(rng, 0, 3)
    differences = ps.RecordSensitivity(differences=[[move] * width])
    account = ps.StatisticsAccountant(differences=differences, n=5, noise=ps.LaplaceNoise(scale=scale), draws=k)
    shift = size * number(move) / number(scale)
    parts = [(Laplace(shift), k * width)]
    return Case(account.group(size), [parts], lambda e: [true.repeated_laplace(shift, k * width, e)])


def shuffled(rng: Rng) -> Case:
    """The number of ones among shuffled answers, for each number of ones among the other persons."""
    n, odds = int(rng.integers(1, 9)), power(rng, -4, 1)
    base = ps.RandomizedResponseAccountant(log_odds=odds, categories=2, relation=ps.ReplaceOne(n=1))
    likely = 1 / (1 + (-number(odds)).exp())

    def ones(true_ones: int) -> tuple[Real, ...]:
        found = [arb(1)] + [arb(0)] * n
        for person in range(n):
            chance = likely if person < true_ones else 1 - likely
            found = [found[j] * (1 - chance) + (found[j - 1] * chance if j else 0) for j in range(n + 1)]
        return tuple(found)

    pairs = [Finite(ones(j), ones(j + 1)) for j in range(n)]
    k = 1 if n > 3 else int(rng.integers(1, 4))
    return finite(k * ps.ShuffledAccountant(base=base, n=n), pairs, k)


def sampled_response(rng: Rng) -> Case:
    """Randomized response on a Poisson sample that holds the record or not: all other records are away."""
    rate, odds, k = power(rng, -6, -0.01), power(rng, -3, 1.3), times(rng, 2)
    account = k * ps.SubsampledAccountant(
        base=ps.PureAccountant(stated_epsilon=odds), scheme=ps.PoissonSampling(rate=rate)
    )
    both, q = response(number(odds)), number(rate)
    mixed = tuple((1 - q) * v + q * u for u, v in zip(both.p, both.q, strict=True))
    return finite(account, [Finite(mixed, both.q)], k)


def allocated_response(rng: Rng) -> Case:
    """Each record takes part in one step of several, and the outputs of all steps are seen."""
    steps, odds = int(rng.integers(2, 8)), power(rng, -3, 1)
    base = ps.RandomizedResponseAccountant(log_odds=odds, categories=2, relation=ps.AddRemove())
    account = ps.SubsampledAccountant(base=base, scheme=ps.RandomAllocation(steps=steps, times=1))
    grown = number(odds).exp()
    q = tuple(comb(steps, k) * grown ** (steps - k) / (1 + grown) ** steps for k in range(steps + 1))
    p = tuple(v * (k * grown + (steps - k) / grown) / steps for k, v in enumerate(q))
    return finite(account, [Finite(p, q)], 1)


def selected_response(rng: Rng) -> Case:
    """The best of a random number of answers; the output with the higher score is likely for one neighbour."""
    odds = power(rng, -2, 0.7)
    if rng.random() < 0.5:
        mean = power(rng, -1, 1.5)
        repetitions, generating = ps.Poisson(mean=mean), lambda x: (number(mean) * (x - 1)).exp()
    else:
        gamma = power(rng, -2, -0.05)
        repetitions = ps.TruncatedNegativeBinomial(eta=1.0, gamma=gamma)
        generating = lambda x: number(gamma) * x / (1 - (1 - number(gamma)) * x)  # noqa: E731
    account = ps.SelectionAccountant(base=ps.PureAccountant(stated_epsilon=odds), repetitions=repetitions)
    both = response(number(odds))

    def best(low: Real) -> tuple[Real, ...]:
        none = generating(arb(0))
        return none, generating(low) - none, 1 - generating(low)

    k = int(rng.integers(1, 4))
    return finite(k * account, [Finite(best(both.p[0]), best(both.q[0]))], k)


def sampled_gaussian(rng: Rng) -> tuple[Real, Real, Any]:
    rate, noise = power(rng, -9, -0.05), power(rng, -1, 1.5)
    base = ps.GaussianAccountant(sensitivity=1, noise_std=noise)
    return 1 / number(noise), number(rate), ps.SubsampledAccountant(base=base, scheme=ps.PoissonSampling(rate=rate))


def few_sampled_gaussians(rng: Rng) -> Case:
    """One or two steps: a closed form, and its mean over the first step."""
    mu, rate, account = sampled_gaussian(rng)
    both, k = [SampledNormal(mu, rate, removed) for removed in (True, False)], int(rng.integers(1, 3))
    e = power(rng, -6, 0.7)
    return Case(
        k * account,
        [],
        lambda e: [loss.log_delta(e) if k == 1 else loss.with_another(loss, e) for loss in both],
        epsilons=[e],
    )


def many_sampled_gaussians(rng: Rng) -> Case:
    """Up to a million steps, mixed with noise that is not sampled."""
    rate, noise = power(rng, -4, -0.05), power(rng, -0.5, 1.5)
    base = ps.GaussianAccountant(sensitivity=1, noise_std=noise)
    account = ps.SubsampledAccountant(base=base, scheme=ps.PoissonSampling(rate=rate))
    k = int(power(rng, 1.7, 6))
    mixed, further = [], rng.choice(["none", "gaussian", "laplace", "pure"])
    total = k * account
    if further == "gaussian":
        std = power(rng, -0.3, 2)
        total, mixed = total + ps.GaussianAccountant(sensitivity=1, noise_std=std), [(Normal(1 / number(std)), 1)]
    elif further == "laplace":
        scale = power(rng, -0.3, 2)
        total, mixed = total + ps.LaplaceAccountant(sensitivity=1, scale=scale), [(Laplace(1 / number(scale)), 1)]
    elif further == "pure":
        e = power(rng, -3, 0.5)
        total, mixed = total + ps.PureAccountant(stated_epsilon=e), [(response(number(e)), 1)]
    mu = 1 / number(noise)
    truths = [[(SampledNormal(mu, number(rate), removed), k), *mixed] for removed in (True, False)]
    return Case(total, truths)


def thresholded_steps(rng: Rng) -> Case:
    """Of each of many steps one sees only whether it exceeds a threshold: less than the account must cover."""
    mu, rate, account = sampled_gaussian(rng)
    k = int(power(rng, 0, 3))
    places = rng.uniform(-1, 6, 2) + float(mu)
    pairs = []
    for place in places:
        tails = [true.upper_tail(number(float(place)) - shift) for shift in (arb(0), mu)]
        high = (1 - rate) * tails[0] + rate * tails[1]
        pairs.append(Finite((high, 1 - high), (tails[0], 1 - tails[0])))
    return finite(k * account, pairs, k)


FAMILIES = {
    f.__name__: f
    for f in (
        gaussian, several_gaussians, zcdp, contraction, hidden_states, laplace, pure, approximate, randomized_response,
        table, kernel, bounded_range, conjugate, discrete_noise, noisy_statistics, shuffled, sampled_response,
        allocated_response, selected_response, few_sampled_gaussians, many_sampled_gaussians, thresholded_steps,
    )
}  # fmt: skip
