"""privsample: differentially private sampling mechanisms, each with an accountant that says what a draw costs.

Public names are resolved when first used: importing the package loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privsample.accounting.assumptions import Assumption
    from privsample.accounting.base import Accountant, Composed, Group, Parallel
    from privsample.accounting.guarantees import (
        ApproximateAccountant,
        BoundedRangeAccountant,
        PureAccountant,
        ZCDPAccountant,
    )
    from privsample.accounting.ledger import Ledger, Reservation
    from privsample.accounting.noise.additive import GaussianAccountant, LaplaceAccountant
    from privsample.accounting.noise.statistics import StatisticsAccountant
    from privsample.accounting.posterior.conjugate import PosteriorAccountant
    from privsample.accounting.posterior.gibbs import EmissionAccountant
    from privsample.accounting.posterior.glm import LogisticAccountant
    from privsample.accounting.posterior.tempered import TemperedAccountant
    from privsample.accounting.postprocessing.bernoulli import BernoulliAccountant
    from privsample.accounting.postprocessing.contraction import ContractionAccountant
    from privsample.accounting.postprocessing.diffusion import diffusion_account, intrinsic_sensitivity
    from privsample.accounting.postprocessing.kernels import KernelAccountant
    from privsample.accounting.postprocessing.laplace_sum import LaplaceSumAccountant
    from privsample.accounting.profiles import ProfileAccountant
    from privsample.accounting.randomized import RandomizedResponseAccountant
    from privsample.accounting.selection.conditional import ConditionalAccountant
    from privsample.accounting.selection.repetition import SelectionAccountant
    from privsample.accounting.sgd import SGDAccountant
    from privsample.accounting.statement import privacy_statement
    from privsample.accounting.subsampling.subsampled import SubsampledAccountant
    from privsample.accounting.targets import DP, RDP, ZCDP
    from privsample.distributions.geometry import Differences
    from privsample.distributions.models.families import (
        BetaBernoulli,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        NormalKnownVariance,
    )
    from privsample.distributions.models.moments import NormalUnknownVariance
    from privsample.distributions.models.regression import LinearRegression
    from privsample.distributions.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise
    from privsample.distributions.profile_graph import ProfileGraph
    from privsample.distributions.runs import Binomial, Poisson, TruncatedNegativeBinomial
    from privsample.distributions.runs_listed import BetaBinomial, TruncatedRuns
    from privsample.distributions.schemes import PoissonSampling, WithoutReplacement, WithReplacement
    from privsample.distributions.steps.losses import LogisticLoss, SquaredLoss
    from privsample.distributions.steps.maps import Affine, Ball, Box, LipschitzMap, Scaling, StatedMap
    from privsample.estimators.logistic import PrivateLogisticRegression
    from privsample.estimators.scoring import NoisyScore
    from privsample.estimators.search import PrivateSearchCV
    from privsample.estimators.sgd import PrivateSGDClassifier, PrivateSGDRegressor
    from privsample.interop.dp_accounting import from_dp_event, to_dp_event
    from privsample.mechanisms.examples import Example
    from privsample.mechanisms.neighbours import Neighbours
    from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
    from privsample.mechanisms.noise.statistics import NoisyStatistics, PrivateStatistics
    from privsample.mechanisms.noise.sums import ClippedSum, GaussianSum, LaplaceSum
    from privsample.mechanisms.notes import CuratorNotes
    from privsample.mechanisms.posterior.conjugate import (
        BetaQuery,
        ConcentratedPosterior,
        DiffusedPosterior,
        DirectPosterior,
    )
    from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
    from privsample.mechanisms.posterior.glm import LogisticPosterior
    from privsample.mechanisms.posterior.inference import PosteriorDraws
    from privsample.mechanisms.posterior.tempered import TemperedPosterior
    from privsample.mechanisms.postprocessing.bernoulli import BernoulliSampling
    from privsample.mechanisms.postprocessing.contraction import NoisyContraction, NoisyStep
    from privsample.mechanisms.postprocessing.convolution import NoiseAfter
    from privsample.mechanisms.postprocessing.diffusion import BrownianMotion, Hierarchy, OrnsteinUhlenbeck
    from privsample.mechanisms.postprocessing.kernels import MarkovKernel
    from privsample.mechanisms.profiles.responses import (
        LocalResponse,
        OneBit,
        OneBitCluster,
        SmoothCategorical,
        SmoothOneBit,
    )
    from privsample.mechanisms.randomized import RandomizedResponse
    from privsample.mechanisms.release import Release, to_arviz
    from privsample.mechanisms.selection.repetition import ConditionalSelection, RepeatedSelection
    from privsample.mechanisms.sgd import NoisyProjectedSGD, PublicRecords
    from privsample.mechanisms.subsampling import Subsampled
    from privsample.relations import AddRemove, ProfileEdge, ReplaceOne
    from privsample.simulations.audit.audit import audit
    from privsample.simulations.audit.pairs import neighbouring_pairs
    from privsample.simulations.audit.verdict import Verdict
    from privsample.simulations.experiments.compare import compare

_HOMES = {
    "privsample.relations": ("AddRemove", "ProfileEdge", "ReplaceOne"),
    "privsample.distributions.models.families": (
        "BetaBernoulli",
        "DirichletCategorical",
        "GammaExponential",
        "GammaPoisson",
        "NormalKnownVariance",
    ),
    "privsample.distributions.geometry": ("Differences",),
    "privsample.distributions.models.moments": ("NormalUnknownVariance",),
    "privsample.distributions.models.regression": ("LinearRegression",),
    "privsample.distributions.noise": (
        "DiscreteGaussianNoise",
        "DiscreteLaplaceNoise",
        "GaussianNoise",
        "LaplaceNoise",
    ),
    "privsample.distributions.schemes": ("PoissonSampling", "WithReplacement", "WithoutReplacement"),
    "privsample.distributions.steps.maps": ("Affine", "Ball", "Box", "LipschitzMap", "Scaling", "StatedMap"),
    "privsample.distributions.profile_graph": ("ProfileGraph",),
    "privsample.distributions.runs": ("Binomial", "Poisson", "TruncatedNegativeBinomial"),
    "privsample.distributions.runs_listed": ("BetaBinomial", "TruncatedRuns"),
    "privsample.accounting.assumptions": ("Assumption",),
    "privsample.accounting.base": ("Accountant", "Composed", "Group", "Parallel"),
    "privsample.accounting.postprocessing.bernoulli": ("BernoulliAccountant",),
    "privsample.accounting.noise.additive": ("GaussianAccountant", "LaplaceAccountant"),
    "privsample.accounting.guarantees": (
        "ApproximateAccountant",
        "BoundedRangeAccountant",
        "PureAccountant",
        "ZCDPAccountant",
    ),
    "privsample.accounting.postprocessing.contraction": ("ContractionAccountant",),
    "privsample.accounting.postprocessing.diffusion": ("diffusion_account", "intrinsic_sensitivity"),
    "privsample.accounting.posterior.gibbs": ("EmissionAccountant",),
    "privsample.accounting.posterior.glm": ("LogisticAccountant",),
    "privsample.accounting.selection.conditional": ("ConditionalAccountant",),
    "privsample.accounting.postprocessing.kernels": ("KernelAccountant",),
    "privsample.accounting.postprocessing.laplace_sum": ("LaplaceSumAccountant",),
    "privsample.accounting.ledger": ("Ledger", "Reservation"),
    "privsample.accounting.posterior.conjugate": ("PosteriorAccountant",),
    "privsample.accounting.profiles": ("ProfileAccountant",),
    "privsample.accounting.randomized": ("RandomizedResponseAccountant",),
    "privsample.accounting.selection.repetition": ("SelectionAccountant",),
    "privsample.accounting.statement": ("privacy_statement",),
    "privsample.accounting.noise.statistics": ("StatisticsAccountant",),
    "privsample.accounting.subsampling.subsampled": ("SubsampledAccountant",),
    "privsample.accounting.targets": ("DP", "RDP", "ZCDP"),
    "privsample.accounting.posterior.tempered": ("TemperedAccountant",),
    "privsample.estimators.logistic": ("PrivateLogisticRegression",),
    "privsample.interop.dp_accounting": ("from_dp_event", "to_dp_event"),
    "privsample.estimators.scoring": ("NoisyScore",),
    "privsample.estimators.search": ("PrivateSearchCV",),
    "privsample.estimators.sgd": ("PrivateSGDClassifier", "PrivateSGDRegressor"),
    "privsample.mechanisms.examples": ("Example",),
    "privsample.mechanisms.neighbours": ("Neighbours",),
    "privsample.mechanisms.noise.additive": ("GaussianMechanism", "LaplaceMechanism"),
    "privsample.mechanisms.postprocessing.contraction": ("NoisyContraction", "NoisyStep"),
    "privsample.mechanisms.postprocessing.diffusion": ("BrownianMotion", "Hierarchy", "OrnsteinUhlenbeck"),
    "privsample.mechanisms.postprocessing.bernoulli": ("BernoulliSampling",),
    "privsample.mechanisms.posterior.gibbs": ("PrivateGibbsHMM",),
    "privsample.mechanisms.posterior.glm": ("LogisticPosterior",),
    "privsample.mechanisms.postprocessing.kernels": ("MarkovKernel",),
    "privsample.mechanisms.notes": ("CuratorNotes",),
    "privsample.mechanisms.posterior.conjugate": (
        "BetaQuery",
        "ConcentratedPosterior",
        "DiffusedPosterior",
        "DirectPosterior",
    ),
    "privsample.mechanisms.postprocessing.convolution": ("NoiseAfter",),
    "privsample.mechanisms.profiles.responses": (
        "LocalResponse",
        "OneBit",
        "OneBitCluster",
        "SmoothCategorical",
        "SmoothOneBit",
    ),
    "privsample.mechanisms.randomized": ("RandomizedResponse",),
    "privsample.mechanisms.release": ("Release", "to_arviz"),
    "privsample.mechanisms.posterior.inference": ("PosteriorDraws",),
    "privsample.mechanisms.noise.statistics": ("NoisyStatistics", "PrivateStatistics"),
    "privsample.accounting.sgd": ("SGDAccountant",),
    "privsample.distributions.steps.losses": ("LogisticLoss", "SquaredLoss"),
    "privsample.mechanisms.sgd": ("NoisyProjectedSGD", "PublicRecords"),
    "privsample.mechanisms.subsampling": ("Subsampled",),
    "privsample.mechanisms.noise.sums": ("ClippedSum", "GaussianSum", "LaplaceSum"),
    "privsample.mechanisms.posterior.tempered": ("TemperedPosterior",),
    "privsample.mechanisms.selection.repetition": ("ConditionalSelection", "RepeatedSelection"),
    "privsample.simulations.audit.audit": ("audit",),
    "privsample.simulations.experiments.compare": ("compare",),
    "privsample.simulations.audit.pairs": ("neighbouring_pairs",),
    "privsample.simulations.audit.verdict": ("Verdict",),
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
