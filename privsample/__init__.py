"""privsample: differentially private sampling mechanisms, each with an accountant that says what a draw costs.

Public names are resolved when first used: importing the package loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privsample.accounting.additive import GaussianAccountant, LaplaceAccountant
    from privsample.accounting.base import Accountant, Assumption
    from privsample.accounting.bernoulli import BernoulliAccountant
    from privsample.accounting.composition import Composed, Parallel
    from privsample.accounting.conditional import ConditionalAccountant
    from privsample.accounting.contraction import ContractionAccountant
    from privsample.accounting.diffusion import diffusion_account, intrinsic_sensitivity
    from privsample.accounting.gibbs import EmissionAccountant
    from privsample.accounting.glm import LogisticAccountant
    from privsample.accounting.group import Group
    from privsample.accounting.guarantees import (
        ApproximateAccountant,
        BoundedRangeAccountant,
        PureAccountant,
        ZCDPAccountant,
    )
    from privsample.accounting.kernels import KernelAccountant
    from privsample.accounting.laplace_sum import LaplaceSumAccountant
    from privsample.accounting.ledger import Ledger, Reservation
    from privsample.accounting.posterior import PosteriorAccountant
    from privsample.accounting.profiles import ProfileAccountant
    from privsample.accounting.randomized import RandomizedResponseAccountant
    from privsample.accounting.selection import SelectionAccountant
    from privsample.accounting.sgd import SGDAccountant
    from privsample.accounting.statement import privacy_statement
    from privsample.accounting.statistics import StatisticsAccountant
    from privsample.accounting.subsampling import SubsampledAccountant
    from privsample.accounting.targets import DP, RDP, ZCDP
    from privsample.accounting.tempered import TemperedAccountant
    from privsample.distributions.families import (
        BetaBernoulli,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        NormalKnownVariance,
    )
    from privsample.distributions.geometry import Differences
    from privsample.distributions.losses import LogisticLoss, SquaredLoss
    from privsample.distributions.maps import Affine, Ball, Box, LipschitzMap, Scaling, StatedMap
    from privsample.distributions.moments import NormalUnknownVariance
    from privsample.distributions.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise
    from privsample.distributions.profile_graph import ProfileGraph
    from privsample.distributions.regression import LinearRegression
    from privsample.distributions.runs import Binomial, Poisson, TruncatedNegativeBinomial
    from privsample.distributions.runs_listed import BetaBinomial, TruncatedRuns
    from privsample.distributions.schemes import PoissonSampling, WithoutReplacement, WithReplacement
    from privsample.estimators.logistic import PrivateLogisticRegression
    from privsample.estimators.scoring import NoisyScore
    from privsample.estimators.search import PrivateSearchCV
    from privsample.estimators.sgd import PrivateSGDClassifier, PrivateSGDRegressor
    from privsample.interop.dp_accounting import from_dp_event, to_dp_event
    from privsample.mechanisms.additive import GaussianMechanism, LaplaceMechanism
    from privsample.mechanisms.bernoulli import BernoulliSampling
    from privsample.mechanisms.contraction import NoisyContraction, NoisyStep
    from privsample.mechanisms.diffusion import BrownianMotion, Hierarchy, OrnsteinUhlenbeck
    from privsample.mechanisms.gibbs import PrivateGibbsHMM
    from privsample.mechanisms.glm import LogisticPosterior
    from privsample.mechanisms.inference import PosteriorDraws
    from privsample.mechanisms.kernels import MarkovKernel
    from privsample.mechanisms.notes import CuratorNotes
    from privsample.mechanisms.posterior import BetaQuery, ConcentratedPosterior, DiffusedPosterior, DirectPosterior
    from privsample.mechanisms.postprocessing import NoiseAfter
    from privsample.mechanisms.profiles import LocalResponse, OneBit, OneBitCluster, SmoothCategorical, SmoothOneBit
    from privsample.mechanisms.randomized import RandomizedResponse
    from privsample.mechanisms.release import Release, to_arviz
    from privsample.mechanisms.repetition import ConditionalSelection, RepeatedSelection
    from privsample.mechanisms.sgd import NoisyProjectedSGD, PublicRecords
    from privsample.mechanisms.statistics import NoisyStatistics, PrivateStatistics
    from privsample.mechanisms.subsampling import Subsampled
    from privsample.mechanisms.sums import ClippedSum, GaussianSum, LaplaceSum
    from privsample.mechanisms.tempered import TemperedPosterior
    from privsample.relations import AddRemove, ProfileEdge, ReplaceOne
    from privsample.simulations.audit import audit
    from privsample.simulations.compare import compare
    from privsample.simulations.pairs import neighbouring_pairs
    from privsample.simulations.verdict import Verdict

_HOMES = {
    "privsample.relations": ("AddRemove", "ProfileEdge", "ReplaceOne"),
    "privsample.distributions.families": (
        "BetaBernoulli",
        "DirichletCategorical",
        "GammaExponential",
        "GammaPoisson",
        "NormalKnownVariance",
    ),
    "privsample.distributions.geometry": ("Differences",),
    "privsample.distributions.moments": ("NormalUnknownVariance",),
    "privsample.distributions.regression": ("LinearRegression",),
    "privsample.distributions.noise": (
        "DiscreteGaussianNoise",
        "DiscreteLaplaceNoise",
        "GaussianNoise",
        "LaplaceNoise",
    ),
    "privsample.distributions.schemes": ("PoissonSampling", "WithReplacement", "WithoutReplacement"),
    "privsample.distributions.maps": ("Affine", "Ball", "Box", "LipschitzMap", "Scaling", "StatedMap"),
    "privsample.distributions.profile_graph": ("ProfileGraph",),
    "privsample.distributions.runs": ("Binomial", "Poisson", "TruncatedNegativeBinomial"),
    "privsample.distributions.runs_listed": ("BetaBinomial", "TruncatedRuns"),
    "privsample.accounting.base": ("Accountant", "Assumption"),
    "privsample.accounting.bernoulli": ("BernoulliAccountant",),
    "privsample.accounting.additive": ("GaussianAccountant", "LaplaceAccountant"),
    "privsample.accounting.guarantees": (
        "ApproximateAccountant",
        "BoundedRangeAccountant",
        "PureAccountant",
        "ZCDPAccountant",
    ),
    "privsample.accounting.composition": ("Composed", "Parallel"),
    "privsample.accounting.contraction": ("ContractionAccountant",),
    "privsample.accounting.diffusion": ("diffusion_account", "intrinsic_sensitivity"),
    "privsample.accounting.gibbs": ("EmissionAccountant",),
    "privsample.accounting.glm": ("LogisticAccountant",),
    "privsample.accounting.conditional": ("ConditionalAccountant",),
    "privsample.accounting.group": ("Group",),
    "privsample.accounting.kernels": ("KernelAccountant",),
    "privsample.accounting.laplace_sum": ("LaplaceSumAccountant",),
    "privsample.accounting.ledger": ("Ledger", "Reservation"),
    "privsample.accounting.posterior": ("PosteriorAccountant",),
    "privsample.accounting.profiles": ("ProfileAccountant",),
    "privsample.accounting.randomized": ("RandomizedResponseAccountant",),
    "privsample.accounting.selection": ("SelectionAccountant",),
    "privsample.accounting.statement": ("privacy_statement",),
    "privsample.accounting.statistics": ("StatisticsAccountant",),
    "privsample.accounting.subsampling": ("SubsampledAccountant",),
    "privsample.accounting.targets": ("DP", "RDP", "ZCDP"),
    "privsample.accounting.tempered": ("TemperedAccountant",),
    "privsample.estimators.logistic": ("PrivateLogisticRegression",),
    "privsample.interop.dp_accounting": ("from_dp_event", "to_dp_event"),
    "privsample.estimators.scoring": ("NoisyScore",),
    "privsample.estimators.search": ("PrivateSearchCV",),
    "privsample.estimators.sgd": ("PrivateSGDClassifier", "PrivateSGDRegressor"),
    "privsample.mechanisms.additive": ("GaussianMechanism", "LaplaceMechanism"),
    "privsample.mechanisms.contraction": ("NoisyContraction", "NoisyStep"),
    "privsample.mechanisms.diffusion": ("BrownianMotion", "Hierarchy", "OrnsteinUhlenbeck"),
    "privsample.mechanisms.bernoulli": ("BernoulliSampling",),
    "privsample.mechanisms.gibbs": ("PrivateGibbsHMM",),
    "privsample.mechanisms.glm": ("LogisticPosterior",),
    "privsample.mechanisms.kernels": ("MarkovKernel",),
    "privsample.mechanisms.notes": ("CuratorNotes",),
    "privsample.mechanisms.posterior": ("BetaQuery", "ConcentratedPosterior", "DiffusedPosterior", "DirectPosterior"),
    "privsample.mechanisms.postprocessing": ("NoiseAfter",),
    "privsample.mechanisms.profiles": (
        "LocalResponse",
        "OneBit",
        "OneBitCluster",
        "SmoothCategorical",
        "SmoothOneBit",
    ),
    "privsample.mechanisms.randomized": ("RandomizedResponse",),
    "privsample.mechanisms.release": ("Release", "to_arviz"),
    "privsample.mechanisms.inference": ("PosteriorDraws",),
    "privsample.mechanisms.statistics": ("NoisyStatistics", "PrivateStatistics"),
    "privsample.accounting.sgd": ("SGDAccountant",),
    "privsample.distributions.losses": ("LogisticLoss", "SquaredLoss"),
    "privsample.mechanisms.sgd": ("NoisyProjectedSGD", "PublicRecords"),
    "privsample.mechanisms.subsampling": ("Subsampled",),
    "privsample.mechanisms.sums": ("ClippedSum", "GaussianSum", "LaplaceSum"),
    "privsample.mechanisms.tempered": ("TemperedPosterior",),
    "privsample.mechanisms.repetition": ("ConditionalSelection", "RepeatedSelection"),
    "privsample.simulations.audit": ("audit",),
    "privsample.simulations.compare": ("compare",),
    "privsample.simulations.pairs": ("neighbouring_pairs",),
    "privsample.simulations.verdict": ("Verdict",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'privsample' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]
