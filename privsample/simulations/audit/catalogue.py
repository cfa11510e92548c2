"""An example of every mechanism, with a twin that leaks more than the example's account says and must be caught."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from privsample._value import value
from privsample.accounting.base import Accountant
from privsample.distributions.models.beta_bernoulli import BetaBernoulli
from privsample.distributions.models.dirichlet_categorical import DirichletCategorical
from privsample.distributions.models.gamma_exponential import GammaExponential
from privsample.distributions.models.gamma_poisson import GammaPoisson
from privsample.distributions.models.normal_known_variance import NormalKnownVariance
from privsample.distributions.noise import NAMES as NOISES
from privsample.distributions.profile_graph import ProfileGraph
from privsample.distributions.runs import TruncatedNegativeBinomial
from privsample.distributions.schemes import PoissonSampling, WithoutReplacement, WithReplacement
from privsample.distributions.steps.losses import LogisticLoss
from privsample.distributions.steps.maps import Scaling
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.noise.statistics import NoisyStatistics
from privsample.mechanisms.noise.sums import ClippedSum, GaussianSum, LaplaceSum
from privsample.mechanisms.posterior.conjugate import (
    BetaQuery,
    ConcentratedPosterior,
    DiffusedPosterior,
    DirectPosterior,
)
from privsample.mechanisms.posterior.gibbs import PrivateGibbsHMM
from privsample.mechanisms.posterior.glm import LogisticPosterior
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
from privsample.mechanisms.selection.repetition import ConditionalSelection, RepeatedSelection
from privsample.mechanisms.sgd import NoisyProjectedSGD
from privsample.mechanisms.subsampling import Subsampled
from privsample.relations import ReplaceOne
from privsample.simulations.audit.audit import audit
from privsample.simulations.audit.neighbours import neighbours
from privsample.simulations.audit.twins import TellingSelection
from privsample.simulations.audit.verdict import Verdict


@value
class Example:
    """A mechanism, and a twin that shares its claim but breaks it; `fault` says how.

    samples: draws from each dataset with which the twin is caught at level 1e-6, as good as always.
    """

    mechanism: Mechanism
    twin: Mechanism
    fault: str
    samples: int

    @property
    def claim(self) -> Accountant:
        """The account of one draw of the mechanism, which both are held to."""
        account = neighbours(self.mechanism)[0].account
        assert account is not None
        return account

    def audit(self, *, twin: bool = False, samples: int | None = None, **options: Any) -> Verdict:
        """Audit the mechanism, or its twin, with the options of `audit`."""
        subject = self.twin if twin else self.mechanism
        return audit(subject, claim=self.claim, samples=self.samples if samples is None else samples, **options)


def _broken(
    fault: str, samples: int, make: Callable[..., Mechanism], wrong: Mapping[str, Any], **right: Any
) -> Example:
    """The mechanism that `make` makes of `right`, and its twin with other values for what is `wrong`."""
    return Example(mechanism=make(**right), twin=make(**{**right, **wrong}), fault=fault, samples=samples)


_BETA = BetaBernoulli(alpha=2, beta=3)
_ROLES = ProfileGraph(
    profiles={"nurse": (0.7, 0.2, 0.1), "doctor": (0.2, 0.5, 0.3), "visitor": (0.1, 0.3, 0.6)},
    edges=[("nurse", "doctor"), ("doctor", "visitor")],
)
_BITS = ProfileGraph(profiles={"a": 0.8, "b": 0.4}, edges=[("a", "b")])
_CHAIN = ProfileGraph(profiles={"a": 0.9, "b": 0.6, "c": 0.2}, edges=[("a", "b"), ("b", "c")])
_ANSWER = RandomizedResponse(log_odds=1.0, relation=ReplaceOne(n=1))
_STIR = np.array([[0.7, 0.3], [0.2, 0.8]])
_STEPS = (NoisyStep(map=Scaling(factor=0.8), noise_std=1.0),)
_HEAVY = "every record counts more than it is said to"
_QUIET = "the noise is smaller than it is said to be"
_BOLD = "solved at a larger epsilon"


@cache
def catalogue() -> Mapping[str, Example]:
    """All examples, by the name for the command line."""
    return {**_sums(), **_posteriors(), **_models(), **_choices(), **_profiles(), **_afterwards()}


def _sums() -> dict[str, Example]:
    sampled = ClippedSum(norm=1, noise_std=1, width=2)
    few = GaussianSum(bounds=(-1, 2), noise_std=3, relation=ReplaceOne(n=3))
    copies = LaplaceSum(bounds=(0, 1), scale=1, relation=ReplaceOne(n=3))
    forgets = "it forgets to subsample"
    return {
        "gaussian": _broken(_QUIET, 20_000, GaussianMechanism, {"noise_std": 1.6}, sensitivity=2, noise_std=2),
        "laplace": _broken(_QUIET, 20_000, LaplaceMechanism, {"scale": 1.6}, sensitivity=2, scale=2, shape=(2,)),
        "gaussian-sum": _broken(_QUIET, 20_000, GaussianSum, {"noise_std": 1.6}, bounds=(-1, 2), noise_std=2),
        "laplace-sum": _broken(
            _QUIET, 20_000, LaplaceSum, {"scale": 2.4}, bounds=(-1, 2), scale=3, relation=ReplaceOne(n=9)
        ),
        "clipped-sum": _broken(
            "rows are scaled down to a norm a quarter too large",
            20_000,
            ClippedSum,
            {"norm": 2.5},
            norm=2,
            noise_std=2,
            width=3,
        ),
        "poisson-sample": _broken(
            forgets,
            2_000,
            Subsampled,
            {"scheme": PoissonSampling(rate=1)},
            base=sampled,
            scheme=PoissonSampling(rate=0.3),
        ),
        "sample-without-replacement": _broken(
            forgets,
            2_000,
            Subsampled,
            {"scheme": WithoutReplacement(n=3, m=3)},
            base=few,
            scheme=WithoutReplacement(n=9, m=3),
        ),
        "sample-with-replacement": _broken(
            forgets,
            2_000,
            Subsampled,
            {"scheme": WithoutReplacement(n=3, m=3)},
            base=copies,
            scheme=WithReplacement(n=9, m=3),
        ),
    }


def _posteriors() -> dict[str, Example]:
    def noisy(noise: str, scale: float) -> Example:
        return _broken(
            _QUIET, 30_000, NoisyStatistics, {"scale": 0.75 * scale}, model=_BETA, n=20, noise=noise, scale=scale
        )

    poisson, exponential = GammaPoisson.example(), GammaExponential.example()
    normal = NormalKnownVariance.example()
    diffused: dict[str, Any] = {"make": DiffusedPosterior, "n": 1, "data_weight": 0.5}
    concentrated: dict[str, Any] = {"make": ConcentratedPosterior, "n": 20, "prior_divisor": 0.5}
    return {
        "direct-posterior": Example(
            mechanism=DirectPosterior(model=BetaBernoulli(alpha=6, beta=12), n=50),
            twin=DirectPosterior(model=BetaBernoulli(alpha=4, beta=8), n=50),
            fault="a prior of two thirds the strength",
            samples=45_000,
        ),
        "beta-posterior": _broken(
            "every record counts 10 % too much",
            150_000,
            **diffused,
            model=BetaBernoulli(alpha=0.6, beta=0.6),
            wrong={"data_weight": 0.55},
        ),
        "dirichlet-posterior": _broken(
            _HEAVY, 30_000, **diffused, model=DirichletCategorical(alpha=(1, 2, 3)), wrong={"data_weight": 0.7}
        ),
        "poisson-posterior": _broken(_HEAVY, 30_000, **diffused, model=poisson, wrong={"data_weight": 0.7}),
        "exponential-posterior": _broken(
            _HEAVY, 30_000, **concentrated, model=exponential, wrong={"prior_divisor": 1.0}
        ),
        "normal-posterior": _broken(_HEAVY, 30_000, **diffused, model=normal, wrong={"data_weight": 0.7}),
        "concentrated-posterior": _broken(
            "the prior counts less than it is said to",
            30_000,
            **concentrated,
            model=BetaBernoulli(alpha=0.5, beta=0.5),
            wrong={"prior_divisor": 1.0},
        ),
        "beta-query": _broken(
            _HEAVY, 30_000, BetaQuery, {"data_weight": 0.7}, alpha=2, beta=3, bounds=(5, 30), n=1, data_weight=0.5
        ),
        "tempered-posterior": _broken(
            "a third too cold",
            30_000,
            TemperedPosterior,
            {"temperature": 1.0},
            model=_BETA,
            n=2,
            temperature=2.0,
            truncation=0.1,
        ),
        **{f"{noise.replace(' ', '-')}-statistics": noisy(noise, 2.0) for noise in NOISES},
    }


def _models() -> dict[str, Example]:
    loss = LogisticLoss(features=2, norm=1.0, radius=1.0, penalty=1.0, intercept=False)
    return {
        "logistic-posterior": _broken(
            "a prior twice as wide", 20_000, LogisticPosterior, {"prior_std": 2}, n=1, features=1, norm=1, prior_std=1
        ),
        "gibbs-histograms": _broken(
            _QUIET,
            1_500,
            PrivateGibbsHMM,
            {"scale": 0.5},
            states=1,
            categories=(2,),
            entries=(1,),
            scale=5.0,
            sweeps=1,
            kept=1,
        ),
        "gibbs-updates": _broken(
            "the updates are too cold",
            800,
            PrivateGibbsHMM,
            {"temperature": 1.0},
            states=1,
            categories=(2,),
            entries=(1,),
            temperature=8.0,
            truncation=0.2,
            sweeps=1,
            kept=1,
        ),
        "gradient-descent": _broken(
            _QUIET,
            3_000,
            NoisyProjectedSGD,
            {"noise_std": 0.75},
            loss=loss,
            n=3,
            rate=0.5,
            noise_std=1.5,
            hidden_order=False,
        ),
    }


def _choices() -> dict[str, Example]:
    runs = TruncatedNegativeBinomial.geometric(mean=4)
    answer = RandomizedResponse(log_odds=1.5, relation=ReplaceOne(n=1))
    return {
        "repeated-selection": Example(
            mechanism=RepeatedSelection(base=answer, runs=runs),
            twin=TellingSelection(base=answer, runs=runs),
            fault="it reveals the number of runs",
            samples=9_000,
        ),
        "conditional-selection": _broken(
            "the noise of a run is smaller than it is said to be",
            5_000,
            ConditionalSelection,
            {"base": GaussianMechanism(sensitivity=1, noise_std=1)},
            base=GaussianMechanism(sensitivity=1, noise_std=4),
            accept=0.0,
            floor=0.5,
        ),
    }


def _profiles() -> dict[str, Example]:
    return {
        "randomized-response": _broken(
            "the truth too often", 30_000, RandomizedResponse, {"log_odds": 0.6}, log_odds=0.5, relation=ReplaceOne(n=1)
        ),
        "one-bit": _broken(_BOLD, 30_000, OneBit, {"epsilon": 0.6}, graph=_BITS, epsilon=0.3),
        "one-bit-cluster": _broken(_BOLD, 30_000, OneBitCluster, {"epsilon": 0.45}, graph=_CHAIN, epsilon=0.3),
        "smooth-one-bit": _broken(_BOLD, 30_000, SmoothOneBit, {"epsilon": 0.45}, graph=_CHAIN, epsilon=0.3),
        "smooth-categorical": _broken(
            "solved at 1.1 epsilon", 100_000, SmoothCategorical, {"epsilon": 0.44}, graph=_ROLES, epsilon=0.4
        ),
        "local-response": _broken(_BOLD, 30_000, LocalResponse, {"epsilon": 1.3}, graph=_ROLES, epsilon=1.0),
    }


def _afterwards() -> dict[str, Example]:
    gaussian, laplace = GaussianMechanism(sensitivity=1, noise_std=1), LaplaceMechanism(sensitivity=1, scale=0.5)
    motion = BrownianMotion(sensitivity=1, time=0.5)
    coins = DirectPosterior(model=BetaBernoulli(alpha=1, beta=1), n=1)
    return {
        "markov-kernel": _broken(
            "it moves half as often as it is said to",
            30_000,
            MarkovKernel,
            {"matrix": (_STIR + np.eye(2)) / 2},
            base=_ANSWER,
            matrix=_STIR,
        ),
        "gaussian-after": _broken(_QUIET, 30_000, NoiseAfter, {"noise": 0.5}, base=gaussian, noise=1.0),
        "laplace-after": _broken(_QUIET, 30_000, NoiseAfter, {"noise": 0.3}, base=laplace, noise=1.0),
        "contraction": _broken(
            "its first noise is smaller than it is said to be",
            30_000,
            NoisyContraction,
            {"base": GaussianMechanism(sensitivity=1, noise_std=0.5)},
            base=gaussian,
            steps=_STEPS,
        ),
        "brownian-motion": _broken(
            "stopped too early", 30_000, BrownianMotion, {"time": 0.35}, sensitivity=1, time=0.5, shape=(2,)
        ),
        "ornstein-uhlenbeck": _broken(
            "stopped too early", 30_000, OrnsteinUhlenbeck, {"time": 0.35}, sensitivity=1, theta=1, rho=1, time=0.5
        ),
        "hierarchy": _broken(
            "its first tier comes too early",
            30_000,
            Hierarchy,
            {"base": motion.at(0.35)},
            base=motion,
            times=(1.0, 2.0),
        ),
        "bernoulli-sampling": _broken(
            "the coins' chances are not moved inside",
            1_500,
            BernoulliSampling,
            {"margin": 0.0},
            base=coins,
            margin=0.45,
            draws=4,
        ),
    }
