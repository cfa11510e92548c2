"""Data of Figures 2-8 of Papernot and Steinke 2022: published bounds and accounts of the library.

K is the number of runs. One run is 0.1-zCDP. The accounts are for Gaussian noise with this guarantee,
whose privacy curve is known exactly.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray
from privsample._value import frozen_value
from privsample.accounting.base import Accountant
from privsample.accounting.curves.conversion import epsilon_from_renyi
from privsample.accounting.guarantees import ZCDPAccountant
from privsample.accounting.noise.additive import GaussianAccountant
from privsample.accounting.selection.conditional import ConditionalAccountant
from privsample.accounting.selection.repetition import SelectionAccountant
from privsample.distributions.repetitions import Poisson, RepetitionDistribution, TruncatedNegativeBinomial

RHO, DELTA, MEAN = 0.1, 1e-6, 10
EXAMPLE_ORDERS, SECOND_EXAMPLE_ORDERS = np.linspace(2.0, 30.0, 57), np.linspace(2.0, 30.0, 29)
ACCEPTED = 0.05  # lower bound on the probability of acceptance, about that of the paper's example up to order 10
_SHARE = 0.1  # a of the three-point example
BASE = GaussianAccountant(sensitivity=(2 * RHO) ** 0.5, noise_std=1.0)
ORDERS, SECOND_ORDERS = (
    np.sort(np.append(1.0 + np.geomspace(low, 30.0, count), 10.0)) for low, count in ((0.05, 60), (0.08, 41))
)
MEANS = np.sort(np.concatenate([np.geomspace(1.5, 60.0, 20), [MEAN], np.geomspace(90.0, 1000.0, 7)]))
SECOND_MEANS = np.union1d(MEANS[::2], [MEAN, MEANS[-1]])
BUDGETS = np.linspace(2.5, 8.0, 12)  # the epsilons of Figure 7
HALF = "η = ½"
Family = Callable[[float], RepetitionDistribution]
FAMILIES: dict[str, Family] = {
    "η = −½": lambda mean: TruncatedNegativeBinomial.from_mean(mean=mean, eta=-0.5),
    "logarithmic (η = 0)": lambda mean: TruncatedNegativeBinomial.logarithmic(mean=mean),
    HALF: lambda mean: TruncatedNegativeBinomial.from_mean(mean=mean, eta=0.5),
    "geometric (η = 1)": lambda mean: TruncatedNegativeBinomial.geometric(mean=mean),
    "Poisson": lambda mean: Poisson(mean=mean),
}


@frozen_value
class Curve:
    """One line of a figure: its label, its points, and the origin of the bound.

    `bound` is "library" for an account of this library, "published" for a bound of the paper, or the key of another
    line style. `more` has further columns of the table, of the same length.
    """

    label: str
    bound: str
    x: FloatArray
    y: FloatArray
    more: Mapping[str, FloatArray] | None = None


@frozen_value
class Cost:
    """Privacy cost of a family of distributions: `epsilon` at DELTA, shape (distributions,); `bound` as in `Curve`."""

    label: str
    bound: str
    distributions: tuple[RepetitionDistribution, ...]
    epsilon: FloatArray

    @property
    def means(self) -> FloatArray:
        """Mean number of runs of each distribution, shape (distributions,)."""
        return np.array([distribution.mean for distribution in self.distributions])


def published_bound(distribution: RepetitionDistribution) -> Callable[[FloatArray], FloatArray]:
    """Return the published Rényi curve: Corollary 4, or Theorem 6 with the curve that zCDP implies."""
    match distribution:
        case TruncatedNegativeBinomial(eta=eta, gamma=gamma):
            count, length = np.log(distribution.mean), -np.log(gamma)
            if length < RHO:
                raise ValueError("Corollary 4 needs rho <= log(1/gamma)")
            constant = 2 * (1 + eta) * np.sqrt(RHO * length) - eta * RHO
            turn = np.sqrt(count / RHO)
            return lambda a: np.maximum(a - 1, turn) * RHO + count / np.maximum(a - 1, turn) + constant
        case Poisson(mean=mean):
            zcdp = ZCDPAccountant(rho=RHO)
            return lambda a: RHO * a + mean * zcdp.delta(np.log1p(1 / (a - 1))) + np.log(mean) / (a - 1)
        case _:
            raise TypeError(f"the paper has no bound for {type(distribution).__name__}")


def monotone_bound(bound: Callable[[FloatArray], FloatArray], orders: FloatArray) -> FloatArray:
    """Return the smallest bound at each order or a higher one; a Rényi divergence does not decrease in the order."""
    fine = np.concatenate([orders, orders[-1] * np.geomspace(1.01, 3, 20)])
    return np.minimum.accumulate(bound(fine)[::-1])[::-1][: len(orders)]


def composed_runs(runs: float, orders: FloatArray) -> FloatArray:
    """Return the Rényi curve of a fixed number of composed runs."""
    return runs * RHO * orders


def library_account(distribution: RepetitionDistribution) -> Accountant:
    """The account of the best run."""
    return SelectionAccountant(base=BASE, repetitions=distribution)


def figure_2(orders: FloatArray) -> list[Curve]:
    """Rényi curves of the logarithmic distribution by its mean."""
    curves = [Curve(label="one run", bound="base", x=orders, y=composed_runs(1, orders))]
    for mean in (2, 10, 100, 1000):
        distribution = TruncatedNegativeBinomial.logarithmic(mean=mean)
        label = f"E K = {mean}"
        curves += [
            Curve(label=label, bound="published", x=orders, y=monotone_bound(published_bound(distribution), orders)),
            Curve(label=label, bound="library", x=orders, y=library_account(distribution).rdp(orders)),
        ]
    return [*curves, Curve(label="10 runs composed", bound="naive", x=orders, y=composed_runs(10, orders))]


def figure_3(orders: FloatArray) -> list[Curve]:
    """Return Rényi curves by distribution of the number of runs, with ten runs on average."""
    curves = []
    for label, family in FAMILIES.items():
        distribution = family(MEAN)
        curves += [
            Curve(label=label, bound="published", x=orders, y=monotone_bound(published_bound(distribution), orders)),
            Curve(label=label, bound="library", x=orders, y=library_account(distribution).rdp(orders)),
        ]
    return [*curves, Curve(label="10 runs composed", bound="naive", x=orders, y=composed_runs(MEAN, orders))]


@cache
def library_epsilon(distribution: RepetitionDistribution) -> float:
    """The epsilon of the library's account at DELTA; cached, because several figures use it."""
    return float(library_account(distribution).epsilon(DELTA))


def costs(means: FloatArray) -> tuple[Cost, ...]:
    """The cost of every family of distributions at these means, by the paper and by the library."""
    found = []
    for label, family in FAMILIES.items():
        distributions = tuple(family(mean) for mean in means.tolist())
        log_delta = float(np.log(DELTA))
        paper = [epsilon_from_renyi(published_bound(one), np.inf, log_delta) for one in distributions]
        found.append(Cost(label=label, bound="published", distributions=distributions, epsilon=np.array(paper)))
        epsilon = np.array([library_epsilon(distribution) for distribution in distributions])
        found.append(Cost(label=label, bound="library", distributions=distributions, epsilon=epsilon))
    return tuple(found)


def figure_4(known: Sequence[Cost]) -> list[Curve]:
    """Expected number of runs against epsilon; all runs composed are any runs with zCDP, as in the paper's bounds."""
    curves = [Curve(label=cost.label, bound=cost.bound, x=cost.epsilon, y=cost.means) for cost in known]
    runs = np.arange(1.0, 31.0)
    all_runs = [ZCDPAccountant(rho=RHO * k).epsilon(DELTA) for k in runs]
    return [*curves, Curve(label="all runs composed", bound="naive", x=np.array(all_runs), y=runs)]


def figure_5(known: Sequence[Cost]) -> list[Curve]:
    """Expected quantile of the released output against epsilon."""
    return [_use(cost, [distribution.expected_quantile for distribution in cost.distributions]) for cost in known]


def figure_6(known: Sequence[Cost]) -> list[Curve]:
    """Probability of a good output against epsilon, where one run in a hundred is good."""
    return [_use(cost, [distribution.success(0.01) for distribution in cost.distributions]) for cost in known]


def figure_7(known: Sequence[Cost], accuracies: FloatArray, resamples: int = 200) -> list[Curve]:
    """Mean accuracy of the released run at BUDGETS; runs are drawn from a pool of accuracies.

    If no run is made, the accuracy is 0.1.

    Standard errors are bootstrap estimates over the runs of the pool. All runs use one split of the data, so its
    variation is not included. `behind` is the difference from the best distribution under the same bound; its
    standard error is from the same resamples.
    """
    rng = np.random.default_rng(len(accuracies))
    pools = np.sort(np.stack([accuracies, *rng.choice(accuracies, (resamples, len(accuracies)))]), axis=1)
    better = np.linspace(1.0, 0.0, pools.shape[1] + 1)
    worth: dict[str, dict[str, FloatArray]] = {}
    for cost in known:
        with np.errstate(divide="ignore"):
            beaten = np.array(
                [np.exp(distribution.log_rank_probability(better)) for distribution in cost.distributions]
            )
        none = np.array([np.exp(distribution.log_zero_probability) for distribution in cost.distributions])
        found = -np.diff(beaten, axis=1) @ pools.T + 0.1 * none[:, None]  # (distributions, pools), the true pool first
        worth.setdefault(cost.bound, {})[cost.label] = at_budgets(cost.epsilon, found, BUDGETS)
    curves = []
    for bound, by_label in worth.items():
        means = np.array([found[:, 0] for found in by_label.values()])
        first = np.where(np.isnan(means), -np.inf, means).argmax(axis=0)
        best = np.array(list(by_label.values()))[first, np.arange(len(BUDGETS))]
        for label, found in by_label.items():
            behind = best - found
            more = {
                "standard_error": found[:, 1:].std(axis=1),
                "behind": behind[:, 0],
                "standard_error_behind": behind[:, 1:].std(axis=1),
            }
            curves.append(Curve(label=label, bound=bound, x=BUDGETS, y=found[:, 0], more=more))
    return curves


def at_budgets(epsilon: FloatArray, worth: FloatArray, budgets: FloatArray) -> FloatArray:
    """Interpolate the values of a family, shape (distributions, ...), at these epsilons by monotone cubics.

    NaN below the smallest cost of the family; above the largest cost, the value of the most expensive distribution.
    """
    from scipy.interpolate import PchipInterpolator

    inside = PchipInterpolator(epsilon, worth, axis=0, extrapolate=False)(np.minimum(budgets, epsilon[-1]))
    return np.asarray(inside, dtype=np.float64)


def _use(cost: Cost, worth: ArrayLike) -> Curve:
    """Return the curve of these values, shape (distributions,), against epsilon."""
    more = {"expected_runs": cost.means}
    return Curve(label=cost.label, bound=cost.bound, x=cost.epsilon, y=np.asarray(worth), more=more)


ANY_PAIR, THREE_POINTS = "Corollary 16, second inequality", "exact value, three points"
FIXED_FLOOR, GAUSSIAN_ACCOUNT = "Corollary 16 for this mechanism", "account of the library for this mechanism"


def corollary_16(orders: FloatArray, floor: ArrayLike) -> FloatArray:
    """The second inequality for divergences of RHO times the order; floor: probability of the accepted set."""
    s = orders - 1
    return np.asarray(RHO * orders + (s - 1) / s * RHO * s - 2 / s * np.log(floor))


def figure_8(orders: FloatArray) -> list[Curve]:
    """Published bound and three-point example, with a different pair at each order; then both bounds for BASE."""
    made = [three_points(float(order), _SHARE) for order in orders]
    floor = np.array([q[:2].sum() for q, _ in made])
    exact = [_divergence(q[:2] / q[:2].sum(), r[:2] / r[:2].sum(), a) for (q, r), a in zip(made, orders, strict=True)]
    account = ConditionalAccountant(base=BASE, event_probability=ACCEPTED)
    return [
        Curve(label=ANY_PAIR, bound="published", x=orders, y=corollary_16(orders, floor)),
        Curve(label=THREE_POINTS, bound="floor", x=orders, y=np.array(exact)),
        Curve(label=FIXED_FLOOR, bound="published", x=orders, y=corollary_16(orders, ACCEPTED)),
        Curve(label=GAUSSIAN_ACCOUNT, bound="library", x=orders, y=account.rdp(orders)),
        Curve(label="one draw", bound="base", x=orders, y=RHO * orders),
    ]


def three_points(order: float, a: float) -> tuple[FloatArray, FloatArray]:
    """The paper's distributions (D.2) (a e^-s, a e^-s, rest) and (a e^-(s+t), a, rest) whose divergences are both RHO
    order.
    """
    from scipy.optimize import brentq

    def distributions(s: float, t: float) -> tuple[FloatArray, FloatArray]:
        one, two = a * np.exp(-s), a * np.exp(-s - t)
        return np.array([one, one, 1 - 2 * one]), np.array([two, a, 1 - a - two])

    def excess(s: float, t: float, *, back: bool) -> float:
        q, r = distributions(s, t)
        return (_divergence(r, q, order) if back else _divergence(q, r, order)) - RHO * order

    def fitting(t: float) -> float:
        return float(brentq(lambda s: excess(s, t, back=True), 0.0, 40.0))

    t = brentq(lambda t: excess(fitting(t), t, back=False), 1e-6, 40.0)
    return distributions(fitting(t), t)


def _divergence(p: FloatArray, q: FloatArray, order: float) -> float:
    return float(np.logaddexp.reduce(order * np.log(p) + (1 - order) * np.log(q)) / (order - 1))
