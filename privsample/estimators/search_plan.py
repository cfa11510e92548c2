"""Search plans, made before any data are used: privacy of each part, number of runs, and the account of the search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from sklearn.metrics import check_scoring

from privsample._checks import count_noun
from privsample.accounting.base import Accountant
from privsample.accounting.targets import Target
from privsample.distributions.repetitions import RepetitionDistribution, check_maximum, check_repetition_distribution
from privsample.estimators.candidates import Space, configure
from privsample.estimators.run_account import Folds, training_cost
from privsample.estimators.scoring import NoisyScore, Scorer, record_scorer
from privsample.estimators.search_frame import SearchFrame
from privsample.estimators.search_target import SearchSettings, calibrated_settings
from privsample.estimators.training_target import CalibratedTraining
from privsample.mechanisms.noise.additive import GaussianMechanism, LaplaceMechanism
from privsample.mechanisms.selection.ranking import without_warnings
from privsample.mechanisms.shown import one_line
from privsample.plots.shares import plot_shares
from privsample.relations import ReplaceOne

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NO_REPETITIONS = (
    "repetitions must be given without a target, got None: pass a distribution such as "
    "TruncatedNegativeBinomial.logarithmic(mean=10), or target=DP(epsilon=1, delta=1e-5) to have one chosen"
)


@final
@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class SearchPlan:
    """All decisions of a search that precede the data, made from public numbers alone.

    `PrivateSearchCV.plan_for` makes a plan, and a fitted search keeps the plan that it followed as `plan_`.

    Parameters
    ----------
    target : Target or None
        The guarantee of the whole search, None without one.
    account : Accountant
        The account of the whole search. It meets `target`.
    repetitions : RepetitionDistribution
        Distribution of the number of runs.
    score_noise : NoisyScore or None
        Noise on the score of a run; None for scores on public data.
    training_mu : float or None
        The mu of the Gaussian guarantee that each training is calibrated to; None if the trainings state their own
        accounts.
    shares : dict of str to float
        Shares of the budget, with sum 1, of "training", "scores" and "repetitions"; empty without a target. The budget
        is mu^2 of the single Gaussian release that meets the target. The repetitions have what the trainings and scores
        of one run and of `refit` leave of it.
    costs : dict of int to Accountant
        Account of one training, by the number of training records.
    trainings : int
        Largest number of trainings that use one record, in a run and with `refit`.
    runs : int or None
        Public number of runs, None if as many are made as count.
    estimator : estimator
        Unfitted estimator with its calibrated target, if it has one.
    training_account : Accountant, callable or "worst", optional
        Account of training that was given to the search.
    calibrated : CalibratedTraining or None
        Which steps of the estimator were calibrated; None if the trainings state their own accounts.
    space : tuple of dict
        Search space: names of parameters mapped to values or distributions.
    scorer : callable
        The scorer (model, X, y).
    folds : tuple of pairs of arrays, or None
        Training and test positions of each fold; None for scores on public data.
    mechanism : GaussianMechanism, LaplaceMechanism or None
        The release of the score of a run; None for scores on public data.
    features : int or None
        Number of features, if it is known.

    Examples
    --------
    >>> import privsample as ps
    >>> search = ps.PrivateSearchCV(
    ...     ps.PrivateSGDClassifier(bounds=(-1, 1)),
    ...     {"radius": [2.0, 5.0, 10.0]},
    ...     score_noise=ps.NoisyScore(),
    ...     target=ps.DP(1, 1e-5),
    ... )
    >>> plan = search.plan_for(n=2000, features=3)
    >>> round(float(plan.account.epsilon(1e-5)), 3)
    1.0
    >>> print(plan.summary())
    The whole search has epsilon 1 at delta 1e-05.
    Training, 50.2% of the budget: at most 4 trainings of one record, each with mu = 0.09493.
    Scores, 5.0% of the budget: gaussian noise, noise_std = 0.008328.
    Repetitions, 44.8% of the budget: 6.4 runs on average.
    """

    target: Target | None
    account: Accountant
    repetitions: RepetitionDistribution
    score_noise: NoisyScore | None
    training_mu: float | None
    shares: Mapping[str, float]
    costs: Mapping[int, Accountant]
    trainings: int
    runs: int | None
    estimator: Any
    training_account: Any
    calibrated: CalibratedTraining | None
    space: Space
    scorer: Scorer
    folds: Folds | None
    mechanism: GaussianMechanism | LaplaceMechanism | None
    features: int | None

    @property
    def parts(self) -> int:
        """Number of trainings in one run."""
        return 1 if self.folds is None else len(self.folds)

    def __repr__(self) -> str:
        """Return the plan in one line."""
        goal = "no target" if self.target is None else self.target.description
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        return one_line("SearchPlan", goal, shares, *self._details.values())

    def summary(self) -> str:
        """Return what the plan decides, in one sentence for each part.

        Returns
        -------
        str
            A line each for the guarantee, the trainings, the scores and the number of runs.
        """
        goal = (
            "The parts of this search were given, without a target."
            if self.target is None
            else (f"The whole search has {self.target.description}.")
        )
        lines = [goal]
        for name, text in self._details.items():
            share = f", {self.shares[name]:.1%} of the budget" if self.shares else ""
            lines.append(f"{name.capitalize()}{share}: {text}.")
        return "\n".join(lines)

    @property
    def _details(self) -> dict[str, str]:
        """What each part is, in a few words."""
        most = self.trainings
        training = f"at most {count_noun(most, 'training')} of one record" + (
            ", by their stated accounts" if self.training_mu is None else f", each with mu = {self.training_mu:.4g}"
        )
        noise = self.score_noise
        score = (
            "public data, without cost"
            if noise is None
            else f"{noise.distribution} noise, noise_std = {noise.noise_std:.4g}"
        )
        runs = f"{self.repetitions.mean:.4g} runs on average"
        return {"training": training, "scores": score, "repetitions": runs}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Plot the division of the budget among trainings, scores and repetitions.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on. None makes a new figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If the plan has no target, whose budget could be divided.
        """
        if self.target is None:
            raise ValueError("the plan must have a target to plot its division, got None: pass target to the search")
        title = f"division of the budget: {self.target.description}"
        return plot_shares(
            ax, shares=self.shares, details=self._details, title=title, label="share of the budget μ² (%)"
        )

    def noisy_score(self, score: float, rng: np.random.Generator) -> float:
        """Return the score itself if it was computed on public data, and otherwise the score with noise.

        Parameters
        ----------
        score : float
            Score of a run.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        float
            The score that ranks the run.
        """
        return score if self.mechanism is None else float(self.mechanism.release(score, rng=rng)["statistic"][0])

    def configure_or_none(self, candidate: Mapping[str, Any]) -> Any:
        """Return the estimator to train, or None (a failed run) if its parameters or its account are invalid.

        Parameters
        ----------
        candidate : dict
            Parameters of the candidate.

        Returns
        -------
        estimator or None
            The configured estimator.
        """
        with without_warnings():
            try:
                made = configure(self.estimator, candidate)
                return made if self._is_paid(made) else None
            except Exception:  # noqa: BLE001 - a failed run is a valid outcome, which ranks last
                return None

    def _is_paid(self, made: Any) -> bool:
        """Return whether the account of the plan covers the training of a candidate."""
        if self.training_account is not None:
            return True
        found = {size: training_cost(made, None, size, self.features) for size in self.costs}
        if self.calibrated is not None and self.training_mu is not None:
            return all(self.calibrated.covers(cost, self.training_mu, size) for size, cost in found.items())
        return all(found[size] == cost for size, cost in self.costs.items())


def plan_search(search: Any, n: int, features: int | None = None) -> SearchPlan:
    """Return the plan of a PrivateSearchCV for n records. Raises ValueError or TypeError for bad parameters."""
    frame = SearchFrame.of(search, n, features)
    made = _given_settings(frame) if search.target is None else calibrated_settings(frame)
    runs = check_maximum(made.repetitions) if frame.constant_time else None
    if made.noise is None:
        mechanism, scorer = None, check_scoring(search.estimator, scoring=search.scoring)
    else:
        mechanism = made.noise.mechanism(frame.score_weight, ReplaceOne(n=n))
        scorer = record_scorer(search.scoring, search.estimator, made.noise.bounds)
    return SearchPlan(
        target=search.target,
        account=made.account,
        repetitions=made.repetitions,
        score_noise=made.noise,
        training_mu=made.training_mu,
        shares=made.shares,
        costs=made.costs,
        trainings=frame.trainings,
        runs=runs,
        estimator=made.estimator,
        training_account=search.training_account,
        calibrated=made.calibrated,
        space=frame.space,
        scorer=scorer,
        folds=frame.folds,
        mechanism=mechanism,
        features=features,
    )


def _given_settings(frame: SearchFrame) -> SearchSettings:
    """Return the settings that the parameters of a search without target give. Raises ValueError or TypeError."""
    search = frame.search
    if search.division is not None:
        raise ValueError(f"division must be None without target, got {search.division!r}: it divides a target's budget")
    if search.repetitions is None:
        raise TypeError(_NO_REPETITIONS)
    repetitions = check_repetition_distribution(search.repetitions)
    if frame.constant_time:
        check_maximum(repetitions)
    if frame.noise is not None:
        frame.noise.mechanism(frame.score_weight, ReplaceOne(n=frame.n))
    costs = frame.stated_costs()
    return SearchSettings(
        account=frame.account(costs, frame.noise, repetitions),
        repetitions=repetitions,
        noise=frame.noise,
        costs=costs,
        estimator=search.estimator,
    )
