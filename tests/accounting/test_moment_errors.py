"""Error bounds of the log moments that contours are inverted from, at 50 digits."""

import mpmath as mp
import numpy as np
import pytest

import privsample as ps
from privsample.accounting.posterior.beta import BetaPair
from privsample.accounting.posterior.gamma import GammaRatePair, GammaShapePair


def rising(base, step, t):
    return mp.loggamma(base + (t + 1) * step) - mp.loggamma(base) - (t + 1) * whole(base, step)


def falling(base, step, t):
    return mp.loggamma(base - t * step) - mp.loggamma(base) + t * whole(base, step)


def whole(base, step):
    return mp.loggamma(base + step) - mp.loggamma(base)


def moment(pair, t):
    step = mp.mpf(pair.step)
    if isinstance(pair, BetaPair):
        return rising(mp.mpf(pair.a), step, t) + falling(mp.mpf(pair.b), step, t)
    if isinstance(pair, GammaShapePair):
        return (rising if pair.rising else falling)(mp.mpf(pair.shape), step, t)
    ratio = step / mp.mpf(pair.rate)
    moved, share = (ratio * (t + 1), -(t + 1)) if pair.rising else (-ratio * t, t)
    return pair.shape * ((moved - mp.log(1 + moved)) + share * (ratio - mp.log(1 + ratio)))


def drawn(kind, rng):
    a, b = (10 ** rng.uniform(-1, 5, 2)).tolist()
    step = float(10 ** rng.uniform(-3, 1.5))
    if kind is BetaPair:
        return BetaPair(a=a, b=b, step=step)
    known = {"shape": a, "step": step, "rising": bool(rng.integers(2))}
    return GammaShapePair(**known) if kind is GammaShapePair else GammaRatePair(rate=b, **known)


@pytest.mark.parametrize("kind", [BetaPair, GammaShapePair, GammaRatePair])
def test_log_moments_are_within_their_stated_error(kind, rng):
    with mp.workdps(50):
        for _ in range(200):
            pair = drawn(kind, rng)
            c = min(pair.order_limit - 1, 1e4) * 10 ** rng.uniform(-4, -0.001)
            t = np.array([c + 1j * 10 ** rng.uniform(-3, 4)])
            found, bound = pair.log_mgf_with_error(t)
            off = mp.mpc(found[0]) - moment(pair, mp.mpc(t[0]))
            turns = mp.nint(off.imag / (2 * mp.pi))  # any branch of the logarithm
            assert abs(off - 2j * mp.pi * turns) <= bound[0]


def test_two_draws_of_a_beta_posterior_are_not_below_the_truth():
    """E_P of the single curve at epsilon minus the loss of the other draw; this was 5e-13 too low."""
    a, b, weight, epsilon = (mp.mpf(x) for x in (13.886, 24.757, 0.05, 0.05))
    account = ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=13.886, beta=24.757), n=1, data_weight=0.05, draws=2)

    def delta(a, b):
        shift = mp.log(mp.beta(a, b + weight)) - mp.log(mp.beta(a + weight, b))

        def integrand(logit):
            x, e = 1 / (1 + mp.exp(-logit)), epsilon - weight * logit - shift
            least = 1 / (1 + mp.exp(-(e - shift) / weight))
            p, q = (mp.betainc(*shapes, least, 1, regularized=True) for shapes in ((a + weight, b), (a, b + weight)))
            return x ** (a + weight) * (1 - x) ** b / mp.beta(a + weight, b) * (p - mp.exp(e) * q)

        centre, spread = mp.log((a + weight) / b), mp.sqrt(1 / (a + weight) + 1 / b)
        return mp.quad(integrand, [centre + spread * k for k in range(-14, 15, 2)], method="gauss-legendre")

    with mp.workdps(30):
        true = max(delta(a, b), delta(b, a))
        assert true <= account.delta(0.05) <= true * (1 + 1e-11)
