"""Several numbers with discrete Gaussian noise that all move by one, as one table: their losses lie on one lattice."""

import numpy as np

from privsample.accounting.loss.pair import DiscretePair, LossPair
from privsample.accounting.loss.product import ProductPair
from privsample.accounting.noise.discrete import DiscreteGaussianPair
from privsample.accounting.stated.finite import finite_pair
from privsample.distributions.noise import DiscreteGaussianNoise

_LOG_OUTSIDE = -100.0  # log of the mass outside the listed outcomes of one number
_MOST_PRODUCTS = 1e9  # of one convolution
_ULP = float(np.finfo(np.float64).eps)


def discrete_gaussian_sum(noise_std: float, times: int) -> LossPair:
    """The pair of `times` numbers that move by one: the loss of a sum s is (2s - times)/(2 noise_std^2).

    The masses of the sum are convolutions of positive terms, rounded up; the mass outside the listed outcomes is added
    at infinity. A ProductPair where the table would be too long. Kind: upper bound, by a relative 1e-10.
    """
    one, noise = DiscreteGaussianPair(shift=1, noise_std=noise_std), DiscreteGaussianNoise(noise_std=noise_std)
    if times == 1:
        return one
    far = float(np.ceil(noise.quantile_bound(_LOG_OUTSIDE)))
    if (2 * far * times) ** 2 > _MOST_PRODUCTS:
        return ProductPair(members=((one, times),))
    k = np.arange(-far, far + 2.0)
    mass = np.ones(1)
    for _ in range(times):
        mass = np.convolve(mass, np.exp(noise.log_mass(k - 1.0)))
    sums = times * k[0] + np.arange(len(mass))
    there = mass > 1e-290
    log_p = np.log(mass[there]) + 8 * _ULP * times * len(k)
    loss = (2 * sums[there] - times) / noise_std / noise_std / 2
    outside = np.log(4.0 * times) + _LOG_OUTSIDE
    table = DiscretePair(
        log_p=np.append(log_p, outside),
        log_q=np.append(log_p - loss, -np.inf),
        loss=np.append(loss, np.inf),
        factors=((one, times),),
    )
    return finite_pair(table)
