"""Private releases as observed variables of PyMC models: distributions of noisy statistics.

Each distribution is that of a hidden statistic of records plus the noise of a release. `observed` is the release.
"""

from privsample.interop.pymc_sampling import libraries

libraries("privsample.pymc")  # an ImportError that says what to install

from privsample.interop.pymc_distributions.base import likelihood  # noqa: E402
from privsample.interop.pymc_distributions.counts import NoisyCount, NoisyPoisson  # noqa: E402
from privsample.interop.pymc_distributions.moments import NoisyMoments  # noqa: E402
from privsample.interop.pymc_distributions.multinomial import NoisyMultinomial  # noqa: E402
from privsample.interop.pymc_distributions.regression import NoisyRegressionMoments  # noqa: E402
from privsample.interop.pymc_distributions.sums import NoisySum  # noqa: E402

__all__ = [
    "NoisyCount",
    "NoisyMoments",
    "NoisyMultinomial",
    "NoisyPoisson",
    "NoisyRegressionMoments",
    "NoisySum",
    "likelihood",
]
