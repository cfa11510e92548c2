"""Random posterior accounts, their Rényi divergences from the definition at 130 digits, and how far rdp lies above.

The truth starts from the stored doubles: everything formed from them is formed anew, in high precision, and the worst
neighbours are found among the data sets that can be. `python -m tests.accounting.rounding 2000` prints what it finds.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from privsample import (
    Accountant,
    BetaBernoulli,
    DirichletCategorical,
    GammaExponential,
    GammaPoisson,
    NormalKnownVariance,
    PosteriorAccountant,
)
from tests.accounting.golden import reference

FAMILIES = (BetaBernoulli, DirichletCategorical, GammaPoisson, GammaExponential, NormalKnownVariance)
Truth = Any


@dataclass(frozen=True, kw_only=True)
class Found:
    """One account at one order: the divergence reported, the true one, and how near to the limit the order is."""

    account: Accountant
    order: float
    reported: float
    truth: Truth
    share: float
    tight: bool

    @property
    def excess(self) -> float:
        """How far the report lies above the truth, relative to it."""
        if mp.isinf(self.truth):
            return 0.0 if np.isposinf(self.reported) else -np.inf
        return float(mp.mpf(self.reported) / self.truth - 1) if np.isfinite(self.reported) else np.inf


def search(family: type, count: int, seed: int) -> Iterator[Found]:
    """`count` random accounts of the family, each at one order; a third of the orders next to the limit."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    for i in range(count):
        single = _random_account(family, rng)
        group, draws = int(rng.integers(1, 6)), int(rng.choice([1, 1, 1, 2, 7]))
        account = PosteriorAccountant(
            model=single.model,
            n=single.n,
            data_weight=single.data_weight,
            prior_weight=single.prior_weight,
            draws=draws,
        ).group(group)
        size = min(group, single.n)
        with reference.at(130):
            span = _limit(single, size) - 1
            near = i % 3 == 0 and not mp.isinf(span)
            share = 1 - 10.0 ** -rng.uniform(3, 15) if near else rng.uniform(0.0, 0.999)
            order = float(1 + (10.0 ** rng.uniform(-4, 4) if mp.isinf(span) else span * mp.mpf(share)))
            if not order > 1.0:
                continue
            share = 0.0 if mp.isinf(span) else float((mp.mpf(order) - 1) / span)
            yield Found(
                account=account,
                order=order,
                reported=float(account.rdp(order)),
                truth=draws * true_divergence(single, size, order),
                share=share,
                tight=isinstance(account, PosteriorAccountant),
            )


def _random_account(family: type, rng: np.random.Generator) -> PosteriorAccountant:
    wide = 2.5 if rng.random() < 0.3 else 1.0

    def power(low: float, high: float) -> float:
        return float(10.0 ** (wide * rng.uniform(low, high)))

    weight, prior_weight = power(-3, 0), power(0, 2)
    if rng.random() < 0.2:
        weight = prior_weight = 1.0
    model: Any
    if family is BetaBernoulli:
        model = BetaBernoulli(alpha=power(-3, 3), beta=power(-3, 3), fractional=bool(rng.random() < 0.5))
    elif family is DirichletCategorical:
        model = DirichletCategorical(alpha=tuple(power(-3, 2) for _ in range(rng.integers(2, 5))))
    elif family is GammaPoisson:
        model = GammaPoisson(shape=power(-3, 3), rate=power(-2, 2), upper=int(rng.integers(1, 10)))
    elif family is GammaExponential:
        model = GammaExponential(shape=power(-3, 3), rate=power(-3, 3), upper=power(-1, 1))
    else:
        low = rng.normal()
        model = NormalKnownVariance(
            mean=rng.normal(), variance=power(-3, 3), noise_variance=power(-2, 2), bounds=(low, low + power(-1, 1))
        )
    n = int(rng.integers(1, 30)) if wide == 1.0 else int(power(0, 4))
    return PosteriorAccountant(model=model, n=n, data_weight=weight, prior_weight=prior_weight)


def _priors(account: PosteriorAccountant) -> list[Truth]:
    model: Any = account.model
    shares = (model.alpha, model.beta) if isinstance(model, BetaBernoulli) else model.alpha
    return [mp.mpf(share) * mp.mpf(account.prior_weight) for share in shares]


def _limit(account: PosteriorAccountant, size: int) -> Truth:
    model: Any = account.model
    moved, w = size * mp.mpf(account.data_weight), mp.mpf(account.prior_weight)
    match model:
        case BetaBernoulli() | DirichletCategorical():
            return 1 + min(_priors(account)) / moved
        case GammaPoisson():
            return 1 + w * mp.mpf(model.shape) / (moved * mp.mpf(model.upper))
        case GammaExponential():
            return 1 + w * mp.mpf(model.rate) / (moved * mp.mpf(model.upper))
        case _:
            return mp.inf


def true_divergence(account: PosteriorAccountant, size: int, order: float) -> Truth:
    """The largest divergence among posteriors that are `size` records of the account's n apart."""
    model: Any = account.model
    r, w, n = mp.mpf(account.data_weight), mp.mpf(account.prior_weight), account.n
    match model:
        case BetaBernoulli() | DirichletCategorical():
            return max(reference.renyi_dirichlet(order, p, q) for p, q in _replaced(_priors(account), n, size, r))
        case GammaPoisson():
            low, step, rate = w * mp.mpf(model.shape), size * r * mp.mpf(model.upper), w * mp.mpf(model.rate) + r * n
            pair = (low, rate), (low + step, rate)
            return max(reference.renyi_gamma(order, p, q) for p, q in (pair, pair[::-1]))
        case GammaExponential():
            low, step, shape = w * mp.mpf(model.rate), size * r * mp.mpf(model.upper), w * mp.mpf(model.shape) + r * n
            pair = (shape, low), (shape, low + step)
            return max(reference.renyi_gamma(order, p, q) for p, q in (pair, pair[::-1]))
        case NormalKnownVariance(bounds=(low, high)):
            each = r / mp.mpf(model.noise_variance)
            precision = w / mp.mpf(model.variance) + n * each
            return reference.renyi_normal(order, size * each * (mp.mpf(high) - mp.mpf(low)) / precision, 1 / precision)
    raise TypeError(f"unknown model {model!r}")


def _replaced(priors: list[Truth], n: int, size: int, r: Truth) -> Iterator[tuple[list[Truth], list[Truth]]]:
    """Posteriors with `size` records in one of the two smallest categories, or in the other; the rest in one place."""
    order = sorted(range(len(priors)), key=lambda k: priors[k])
    common = order[:2] if len(priors) == 2 else order[-1:]
    for place in common:
        for one, other in (order[:2], order[1::-1]):
            p, q = list(priors), list(priors)
            for distribution in (p, q):
                distribution[place] += r * (n - size)
            p[one] += r * size
            q[other] += r * size
            yield p, q


def _report(count: int, seed: int) -> None:
    for family in FAMILIES:
        found = list(search(family, count, seed))
        below = [one for one in found if one.excess < 0]
        away = [one.excess for one in found if one.share < 0.999 and one.tight]
        close = [one for one in found if one.share >= 0.999 and one.tight]
        endless = sum(np.isposinf(one.excess) for one in close)
        finite = [one.excess for one in close if np.isfinite(one.excess)]
        lost = min([0.0, *(one.excess for one in found)])
        print(
            f"{family.__name__:<22} {len(found)} settings, {len(below)} below the truth "
            f"(at most by {-lost + 0.0:.2g}); above by at most {max(away, default=0.0):.2g} away from "
            f"the limit, {max(finite, default=0.0):.2g} near it, +inf at {endless} of {len(close)} there",
            flush=True,
        )


if __name__ == "__main__":
    _report(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
