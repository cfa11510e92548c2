"""The interface of all accounts: `bounds` describes the privacy loss; the privacy and Rényi curves follow from it."""

import inspect
import itertools
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import (
    FloatArray,
    count_noun,
    deltas,
    flag,
    listed,
    one_of,
    positive_integer,
    probability,
    real_array,
    renyi_orders,
)
from privsample._serial import decode, encode
from privsample._value import Memo, cached, forget, frozen_value, recalled, remember, set_fields, stored
from privsample.accounting import adversary
from privsample.accounting.assumptions import Assumption
from privsample.accounting.engine import views
from privsample.accounting.engine.bounds import VIEWS, Kind, PrivacyBounds, View
from privsample.accounting.engine.compose import compose, compose_parallel
from privsample.accounting.engine.group import group
from privsample.accounting.engine.routes import Route, affordable, routes
from privsample.accounting.engine.tables import within_budget
from privsample.accounting.gaussian_dp import GaussianBounds
from privsample.accounting.loss.pair import Envelope, LossPair
from privsample.accounting.loss.rows import CurveRows
from privsample.accounting.risk import RiskBounds
from privsample.errors import NumericalFailure, RelationMismatch
from privsample.plots.curves import CurveView
from privsample.relations import AddRemove, ProfileEdge, Relation, ReplaceOne, related

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from privsample.accounting.certificates.certificate import Certificate

# numbers of values for which `within_budget` decides whether a curve is replaced by a table: a few values of the Rényi
# curve; of the privacy curve half a value, because one grid serves many epsilons
_RENYI_VALUES, _CURVE_VALUES = 4.0, 0.5
_TERMS, _RELATION = "terms", "relation"  # keys of what a composition keeps beside its fields


class _FieldsSignature:
    """Signature of an account class for `help` and the reference: that of `__init__`, with all fields and defaults.

    Without it, documentation tools show the signature of `Accountant.__new__`, which accepts any field.
    """

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if "__init__" not in vars(owner):  # an abstract class without fields
            return inspect.Signature()
        signature = inspect.signature(vars(owner)["__init__"])
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Accountant(RiskBounds, GaussianBounds, Memo, ABC):
    """Abstract base class of all accountants: the privacy cost of a release, as a function of public parameters.

    An account is an immutable value. It is fixed before any data are seen, and its one abstract method describes the
    privacy loss between neighbouring datasets under `relation`. The privacy curve (`delta`, `epsilon`), the Rényi curve
    (`rdp`), compositions, groups and subsamples are computed from it. Every curve is a valid guarantee by itself and
    is never below the true value. All privacy losses and divergences are in nats.

    `a + b` and `k * a` compose releases from the same records, and `a | b` combines releases from disjoint parts.

    Notes
    -----
    A subclass is a frozen dataclass with the fields `relation` and `assumptions`. It defines `source` and `_bounds()`;
    three further methods can be overridden:

    - `group(size)`: the guarantee for groups, where the mechanism has a better one than the general bound.
    - `with_relation(relation)`: the same curves under another relation, for accounts that contain other accounts.
    - `for_sizes(low, high)`: an account that holds for every number of records in a range, so that the mechanism can
      run on Poisson samples of a public number of records.

    Examples
    --------
    >>> import privsample as ps
    >>> account = 3 * ps.GaussianAccountant(sensitivity=1, noise_std=4) + ps.LaplaceAccountant(sensitivity=1, scale=10)
    >>> isinstance(account, ps.Accountant)
    True
    >>> round(float(account.epsilon(1e-6)), 3), f"{float(account.delta(1.0)):.1e}"
    (1.972, '3.0e-03')
    """

    __slots__ = ()
    relation: Relation
    assumptions: frozenset[Assumption]

    __signature__ = _FieldsSignature()

    def __new__(cls, *positional: Any, **fields: Any) -> Self:
        """Check the arguments that all accounts have in common, before the checks of the class. Raises TypeError."""
        if positional:
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, got {count_noun(len(positional), 'positional argument')}"
            )
        stated = fields.get("assumptions", frozenset())
        if not (isinstance(stated, frozenset) and all(isinstance(one, Assumption) for one in stated)):
            raise TypeError(f"assumptions must be a frozenset of Assumption's members, got {stated!r}")
        return super().__new__(cls)

    @property
    @abstractmethod
    def source(self) -> str:
        """Author, year and theorem of the guarantee."""

    @abstractmethod
    def _bounds(self) -> PrivacyBounds:
        """Describe the privacy loss between neighbours, from the fields alone.

        Return `PrivacyBounds.from_pairs` for dominating pairs, or `PrivacyBounds.from_renyi` for a Rényi curve.
        """

    @cached
    def bounds(self) -> PrivacyBounds:
        """All bounds on the privacy loss that the account knows; every curve and composition is computed from them."""
        found = self._bounds()
        if not isinstance(found, PrivacyBounds):
            raise TypeError(f"{type(self).__name__}._bounds must return PrivacyBounds, got {type(found).__name__}")
        return found

    @property
    def pairs(self) -> tuple[LossPair, ...]:
        """Ordered pairs that together dominate every pair of neighbours; empty if only a Rényi curve is known."""
        found = ((pair.members if isinstance(pair, Envelope) else (pair,)) for pair in self.bounds.pairs)
        return tuple(itertools.chain.from_iterable(found))

    @property
    def infinity_mass(self) -> float:
        """Probability mass of infinite privacy loss: delta does not fall below it, however large epsilon is.

        `pure_epsilon`, `conditional_rdp` and `conditional_zcdp` hold conditional on a finite loss. Alone they are no
        guarantee: with this mass as their delta they are (Bun and Steinke 2016, Definition 8.1, for zCDP).
        """
        return self.bounds.infinity_mass

    @property
    def order_limit(self) -> float:
        """The order below which the Rényi curve is finite; it is +inf at and above this order."""
        return 1.0 if self.infinity_mass > 0 else self.bounds.order_limit

    @property
    def pure_epsilon(self) -> float:
        """Supremum of the privacy loss, in nats, conditional on a finite loss: epsilon at delta = `infinity_mass`.

        It is +inf if the privacy loss is unbounded.
        """
        return self.bounds.pure_epsilon

    @property
    def zcdp(self) -> float:
        """The least known rho with rdp(a) <= rho a at every order a, or +inf (Bun and Steinke 2016).

        It is +inf if there is an infinity mass; `conditional_zcdp` is the rho of approximate zCDP.
        """
        return np.inf if self.infinity_mass > 0 else self.bounds.zcdp

    @property
    def conditional_zcdp(self) -> float:
        """The least known rho with conditional_rdp(a) <= rho a at every order a, or +inf.

        The release is delta-approximate rho-zCDP with delta = `infinity_mass` (Bun and Steinke 2016, Definition 8.1).
        """
        return self.bounds.zcdp

    def kind(self, view: View) -> Kind:
        """Whether a curve is exact or an upper bound.

        A curve is exact if it is attained by the worst pair of neighbours, up to upward rounding.

        Parameters
        ----------
        view : {"rdp", "delta", "epsilon"}
            The method that returns the curve.

        Returns
        -------
        {"exact", "upper bound"}
            The kind of the guarantee.

        Raises
        ------
        ValueError
            If `view` is not one of the three names.
        """
        if not one_of(view, VIEWS):
            raise ValueError(f"view must be 'rdp', 'delta' or 'epsilon', got {view!r}")
        return self.bounds.kind(view)

    def rdp(self, orders: ArrayLike) -> FloatArray:
        """Rényi curve: the largest Rényi divergence between neighbours, over both directions of the relation.

        Parameters
        ----------
        orders : array of float, any shape
            Orders, finite and > 1.

        Returns
        -------
        float or array of float
            Divergences in nats, rounded up, of the shape of `orders`; +inf at and above `order_limit`, and everywhere
            if there is an infinity mass (see `conditional_rdp`).

        Raises
        ------
        ValueError
            If an order is NaN, infinite or <= 1.
        """
        return views.rdp(within_budget(self.bounds, renyi=_RENYI_VALUES), renyi_orders(orders))[()]

    def conditional_rdp(self, orders: ArrayLike) -> FloatArray:
        """Rényi curve conditional on a finite privacy loss; alone it is no guarantee if there is an infinity mass.

        An event of probability 1 - `infinity_mass` exists under each of two neighbours, such that the Rényi divergence
        between the outputs given these events is at most this curve. Targets and ledgers take both numbers, as in
        `RDP(order=8, epsilon=1, delta=1e-12)`.

        Parameters
        ----------
        orders : array of float, any shape
            Orders, finite and > 1.

        Returns
        -------
        float or array of float
            Divergences in nats, rounded up, of the shape of `orders`; `rdp(orders)` if there is no infinity mass, and
            +inf where no such curve is known.

        Raises
        ------
        ValueError
            If an order is NaN, infinite or <= 1.

        Notes
        -----
        Bun and Steinke 2016, Definition 8.1; docs/notes/ledger.md, section 3. Kind: that of `rdp`.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.ApproximateAccountant(stated_epsilon=1, stated_delta=1e-9)
        >>> float(account.rdp(2)), round(float(account.conditional_rdp(2)), 4), account.infinity_mass
        (inf, 0.7353, 1e-09)
        """
        return views.conditional_rdp(within_budget(self.bounds, renyi=_RENYI_VALUES), renyi_orders(orders))[()]

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Logarithm of `delta(epsilon)`, which keeps the precision of values below the range of floats.

        Parameters
        ----------
        epsilon : array of float, any shape
            Privacy losses in nats, any real numbers or infinite.

        Returns
        -------
        float or array of float
            log delta, rounded up, of the shape of `epsilon`, in [-inf, 0].

        Raises
        ------
        ValueError
            If `epsilon` has NaN.
        """
        e = np.clip(
            real_array(epsilon=epsilon), -1e300, 1e300
        )  # replaces infinite arguments; the curves are constant beyond these limits
        return views.log_delta(within_budget(affordable(self.bounds), curve=_CURVE_VALUES), e)[()]

    def delta(self, epsilon: ArrayLike) -> FloatArray:
        """Privacy curve delta(epsilon), also called privacy profile: the least valid delta, rounded up.

        Parameters
        ----------
        epsilon : array of float, any shape
            Privacy losses in nats, any real numbers or infinite.

        Returns
        -------
        float or array of float
            delta in [0, 1], of the shape of `epsilon`.

        Raises
        ------
        ValueError
            If `epsilon` has NaN.
        """
        log_delta = self.log_delta(epsilon)
        with np.errstate(invalid="ignore"):
            error = 4 * np.finfo(float).eps * (1.0 - log_delta)  # relative rounding error of exp
            rounded = np.minimum(np.nextafter(np.exp(log_delta) * (1.0 + error), 1.0), 1.0)
        return np.where(np.isneginf(log_delta), 0.0, rounded)[()]

    def epsilon(self, delta: ArrayLike) -> FloatArray:
        """The least valid epsilon >= 0 at delta, over all known derivations, rounded up.

        Parameters
        ----------
        delta : array of float, any shape
            Probabilities in [0, 1).

        Returns
        -------
        float or array of float
            epsilon in nats, of the shape of `delta`; +inf if there is no guarantee at this delta.

        Raises
        ------
        ValueError
            If a delta is NaN or outside [0, 1).
        """
        d = deltas(delta)
        return np.array([self._least_epsilon(float(x)) for x in d.ravel()]).reshape(d.shape)[()]

    def _least_epsilon(self, delta: float) -> float:
        """The least epsilon at delta over all known derivations; computed once for each delta."""
        known = self._known_epsilons
        if delta not in known:
            found = [route.epsilon for route in routes(self.bounds, delta)]
            if np.isnan(found).any():
                raise NumericalFailure("a computed epsilon is NaN, so no guarantee is stated")
            known[delta] = max(min(found), 0.0) + 0.0
        return known[delta]

    @cached
    def _known_epsilons(self) -> dict[float, float]:
        """Computed values of epsilon by delta."""
        return {}

    def loss_tail(self, losses: ArrayLike) -> FloatArray:
        """Upper bound on the probability that the privacy loss exceeds each of `losses`, for any two neighbours.

        The privacy loss is the logarithm of the factor by which an output changes the odds of one neighbour against
        the other. The output is drawn from the first neighbour.

        Parameters
        ----------
        losses : array of float, any shape
            Privacy losses in nats, finite.

        Returns
        -------
        float or array of float
            Probabilities in [0, 1], rounded up, of the shape of `losses`; 0 from `pure_epsilon` on if there is no
            infinity mass.

        Raises
        ------
        ValueError
            If a loss is NaN or infinite.

        Notes
        -----
        Geumlek 2020, Definition 3; docs/notes/odds.md, step 1. Kind: upper bound, attained by two distributions on two
        outputs whose privacy curve is at most this one.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.GaussianAccountant(sensitivity=1, noise_std=4)
        >>> [f"{tail:.1e}" for tail in account.loss_tail([0.5, 1.0, 2.0])]
        ['7.4e-02', '1.4e-04', '4.5e-15']
        """
        return adversary.loss_tail(self, losses)

    def posterior_odds(self, prior_odds: ArrayLike = 1.0, *, tail_probability: float = 0.0) -> FloatArray:
        """Largest odds of a hypothesis about one record for an adversary who has seen the release.

        Before the release, the adversary gives the hypothesis the odds `prior_odds`, and knows or controls all other
        records. The posterior odds exceed the bound with at most `tail_probability` over the draw of the release,
        whether the hypothesis is true or false. Under `ReplaceOne` the hypothesis is any property of the record, and
        under `AddRemove` that the record is present, or absent; for its properties use `account.to(ReplaceOne(n=...))`.
        Under `ProfileEdge` it names one of two profiles that an edge joins.

        Parameters
        ----------
        prior_odds : array of float, any shape, default 1.0
            Prior odds of the hypothesis against its negation, finite and > 0.
        tail_probability : float, default 0.0
            Probability in [0, 1) with which the posterior odds may exceed the bound.

        Returns
        -------
        float or array of float
            Upper bounds on the posterior odds, rounded up, of the shape of `prior_odds`, at least `prior_odds`; +inf if
            there is no guarantee at this tail probability.

        Raises
        ------
        ValueError
            If an argument is outside its range.

        Notes
        -----
        Geumlek 2020, equations (3.2) to (3.5); docs/notes/odds.md, steps 2 and 3. A pure guarantee bounds the factor
        by e^epsilon at tail probability 0; (epsilon, delta) by e^epsilon / (1 - delta / tail_probability); a Rényi
        curve by e^(rdp(a)) tail_probability^(-1/(a - 1)). The bound is the least over the whole privacy curve.

        The record must be independent of the other records given what the adversary knows. The bound does not hold for
        a property that many records share, which a release is meant to reveal.

        Kind: upper bound; exact at tail probability 0 if the pure guarantee is.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.LaplaceAccountant(sensitivity=1, scale=2)
        >>> round(float(account.posterior_odds(1.0)), 4)
        1.6487
        >>> account = ps.GaussianAccountant(sensitivity=1, noise_std=4)
        >>> account.posterior_odds([0.01, 1.0], tail_probability=1e-3).round(3).tolist()
        [0.024, 2.389]
        """
        return adversary.posterior_odds(self, prior_odds, tail_probability)

    def posterior_probability(self, prior: ArrayLike = 0.5, *, tail_probability: float = 0.0) -> FloatArray:
        """Largest probability of a hypothesis about one record for an adversary who has seen the release.

        It is `posterior_odds` stated as a probability, for the same hypotheses and under the same conditions.

        Parameters
        ----------
        prior : array of float, any shape, default 0.5
            Prior probability of the hypothesis, in (0, 1).
        tail_probability : float, default 0.0
            Probability in [0, 1) with which the posterior probability may exceed the bound.

        Returns
        -------
        float or array of float
            Upper bounds in (0, 1], rounded up, of the shape of `prior`; 1 if there is no guarantee.

        Raises
        ------
        ValueError
            If an argument is outside its range.

        Notes
        -----
        Geumlek 2020, equations (3.2) to (3.5); docs/notes/odds.md, step 3. Kind: upper bound.

        Examples
        --------
        >>> import privsample as ps
        >>> account = ps.LaplaceAccountant(sensitivity=1, scale=1)
        >>> account.posterior_probability([0.01, 0.5]).round(4).tolist()
        [0.0267, 0.7311]
        """
        return adversary.posterior_probability(self, prior, tail_probability)

    def explain(self, delta: float) -> tuple[Route, ...]:
        """List every known derivation of epsilon at delta, in increasing order of epsilon.

        Parameters
        ----------
        delta : float
            Probability in [0, 1).

        Returns
        -------
        tuple of Route
            The name and epsilon (nats) of each derivation.
        """
        found = routes(self.bounds, probability(delta=delta), every=True)
        return tuple(sorted(found, key=lambda route: route.epsilon))

    def certificate(self, *, epsilon: ArrayLike | None = None, delta: ArrayLike | None = None) -> "Certificate":
        """Write a certificate: the pairs of output distributions that prove (epsilon, delta), for a stranger to check.

        Parameters
        ----------
        epsilon : float or array of float, optional
            Claimed epsilons in nats, finite and >= 0. None claims the account's epsilon at `delta`, rounded up to four
            digits.
        delta : float or array of float, optional
            Claimed deltas in [0, 1]. None claims the account's delta at `epsilon`, rounded up to four digits.

        Returns
        -------
        Certificate
            The certificate, whose claims the checker has proved.

        Raises
        ------
        ValueError
            If a number is outside its range, or if both are None.
        NotCertified
            If the pairs do not prove a claim, or if a part of the account has no notation in certificates.

        Notes
        -----
        docs/notes/certificates.md. The checker is the file privsample/verify.py, which needs python-flint only.

        Examples
        --------
        >>> import privsample as ps
        >>> certificate = ps.LaplaceAccountant(sensitivity=1, scale=2).certificate(epsilon=0.5, delta=0.0)
        >>> certificate.verify()
        ((0.5, 0.0),)
        """
        from privsample.accounting.certificates.certificate import certify

        return certify(self, epsilon, delta)

    def group(self, size: int) -> "Accountant":
        """The guarantee for groups of `size` units.

        Parameters
        ----------
        size : int
            Number of units in which neighbours differ, as a multiple of those of this account, >= 1.

        Returns
        -------
        Accountant
            The account for groups; by default the general bound, which many mechanisms improve.

        Notes
        -----
        Source: Mironov 2017, Proposition 11; Balle, Barthe and Gaboardi 2018, section 2 (group profile).
        """
        return Group(base=self, size=size)

    def with_relation(self, relation: Relation) -> "Accountant":
        """The same curves under another relation. `relation` is not validated; use `to` for supported conversions.

        Parameters
        ----------
        relation : Relation
            The new relation.

        Returns
        -------
        Accountant
            The account under `relation`.
        """
        return replace(self, relation=relation)  # type: ignore[type-var]

    def for_sizes(self, low: int, high: int) -> "Accountant":
        """An account of the same mechanism that holds for every number of records in a range.

        Parameters
        ----------
        low, high : int
            Least and largest number of records, 0 <= low <= high.

        Returns
        -------
        Accountant
            An account whose guarantee holds for each of these numbers of records.

        Raises
        ------
        TypeError
            If the guarantee of the mechanism is not known for other numbers of records.
        """
        del low, high
        raise TypeError(
            f"the guarantee of {type(self).__name__} is not known for other numbers of records; use "
            "WithoutReplacement(n=..., m=...), whose samples have a fixed size"
        )

    def _curves_for_sizes(self, sizes: "tuple[tuple[int, int], ...]") -> "CurveRows | None":
        """The privacy curves of the accounts `for_sizes` of many ranges, evaluated together; None, the default, if not.

        Parameters
        ----------
        sizes : tuple of (int, int)
            Least and largest number of records of each range, in increasing order.

        Returns
        -------
        CurveRows or None
            One curve for each range, valid in both orders of the neighbours.
        """
        del sizes
        return None

    def to(self, relation: Relation) -> "Accountant":
        """Convert the guarantee to another relation.

        ReplaceOne(n) is derived from AddRemove as a group of two: a replacement is a removal and an addition.

        Parameters
        ----------
        relation : Relation
            The target relation, with the same unit and number of members.

        Returns
        -------
        Accountant
            The account under `relation`.

        Raises
        ------
        RelationMismatch
            If no conversion is known.
        """
        if related(relation) == self.relation:
            return self
        mine = self.relation
        if isinstance(mine, AddRemove) and isinstance(relation, ReplaceOne) and same_units(mine, relation):
            return self.group(2).with_relation(relation)
        raise RelationMismatch(
            f"no conversion is known from {mine} to {relation}; only AddRemove converts to ReplaceOne, with the same "
            "unit and number of members"
        )

    def assuming(self, *more: Assumption) -> Self:
        """The same account with additional assumptions.

        Parameters
        ----------
        *more : Assumption
            The additional assumptions.

        Returns
        -------
        Accountant
            The account with the union of the assumptions.
        """
        if self.assumptions.issuperset(more):
            return self
        return replace(self, assumptions=self.assumptions | frozenset(more))  # type: ignore[type-var]

    def __add__(self, other: object) -> "Composed":
        return Composed.of_two(self, other) if isinstance(other, Accountant) else NotImplemented

    def __radd__(self, other: object) -> "Composed":
        return Composed(entries=((self, 1),)) if other == 0 else NotImplemented  # sum() starts at 0

    def __mul__(self, times: int) -> "Composed":
        return Composed(entries=((self, times),))

    __rmul__ = __mul__

    def __or__(self, other: object) -> "Parallel":
        return Parallel(parts=(self, other)) if isinstance(other, Accountant) else NotImplemented

    def plot(
        self, view: CurveView = "delta", *, ax: "Axes | None" = None, label: str | None = None, **style: Any
    ) -> "Axes":
        """Plot a curve of the account; accounts plotted on the same axes overlay, with a legend.

        The trade-off curve is a certified lower bound on the type II error of any test that tells neighbours apart,
        over its type I error. It follows from the privacy curve for the worse direction of the relation, so it holds in
        both directions.

        Parameters
        ----------
        view : {"delta", "tradeoff", "renyi"}, default "delta"
            The privacy curve (epsilon in nats, delta on a logarithmic axis), the trade-off curve, or the Rényi
            divergence in nats over the order.
        ax : matplotlib.axes.Axes, optional
            The axes to plot on. None makes a new figure.
        label : str, optional
            Text of the legend. None uses the account's short description.
        **style
            Properties of the line, as `matplotlib.axes.Axes.plot` takes them, such as `color` and `linestyle`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If Matplotlib is not installed.
        ValueError
            If `view` is unknown, or the account has no finite value that the view could show.
        """
        from privsample.accounting.display import plot_account

        return plot_account(self, view, ax, label, style)

    def _repr_html_(self) -> str:
        from privsample.accounting.display import account_html

        return account_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Convert the account to lists, numbers and strings, from which `from_dict` restores an equal account.

        Returns
        -------
        dict
            A document that the `json` module can write.
        """
        return encode(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> "Accountant":
        """Restore the account that `to_dict` converted.

        Parameters
        ----------
        document : dict
            The document.

        Returns
        -------
        Accountant
            An equal account.

        Raises
        ------
        ValueError
            If the document does not describe an account.
        """
        try:
            made = decode(document)
        except (AttributeError, TypeError, RecursionError, OverflowError) as error:
            raise ValueError(f"the document does not describe an accountant: {error}") from None
        if not isinstance(made, Accountant):
            raise ValueError(f"the document describes a {type(made).__name__}, not an accountant")
        return made


class SizeFreeAccountant(Accountant):
    """Abstract base class of accountants whose guarantee does not depend on the number of records.

    Notes
    -----
    Inherit from it, instead of `Accountant`, to let the mechanism run on Poisson samples of a public number of records.

    Examples
    --------
    >>> import privsample as ps
    >>> isinstance(ps.LaplaceAccountant(sensitivity=1, scale=2), ps.SizeFreeAccountant)
    True
    """

    __slots__ = ()

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The account itself, which holds for every number of records."""
        del low, high
        return self


@frozen_value
class Composed(Accountant):
    """Sequential composition of releases from the same records. `a + b` and `k * a` construct it.

    Rényi curves are added, and products of dominating pairs are composed exactly where closed forms or small tables
    allow it and otherwise numerically with certified rounding. The privacy curve needs mechanisms that are fixed in
    advance. The Rényi curve also holds for mechanisms that are chosen adaptively, as long as their Rényi curves are
    fixed in advance. If the costs are chosen adaptively, use a `Ledger`.

    Parameters
    ----------
    entries : tuple of (Accountant, int)
        Accounts under one relation, each with its number of releases, >= 1. Equal accounts are merged.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the members are added.

    Raises
    ------
    TypeError
        If an entry is not a pair of an account and an int.
    ValueError
        If there is no entry, or if observations under ProfileEdge are not assumed independent.
    RelationMismatch
        If the relations differ.

    Notes
    -----
    Source: Mironov 2017, Proposition 1; Dong, Roth and Su 2022, Corollary 3.3 (Gaussian pairs); docs/notes/grid.md
    and docs/notes/contour.md (numerical composition).

    Kind: exact for the Rényi curve and for Gaussian pairs; an upper bound with certified error where composition is
    numerical.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.Composed(entries=((ps.GaussianAccountant(sensitivity=1, noise_std=4), 3),))
    >>> account == 3 * ps.GaussianAccountant(sensitivity=1, noise_std=4)
    True
    >>> round(float(account.epsilon(1e-6)), 3)
    1.925
    """

    entries: tuple[tuple[Accountant, int], ...]
    assumptions: frozenset[Assumption] = frozenset()

    @staticmethod
    def of_two(first: Accountant, second: Accountant) -> "Composed":
        """The composition of two accounts, whose entries are listed at their first use.

        A sum of n accounts makes n compositions, of which usually only the last is evaluated. It takes time linear in n
        because the others never list their entries.

        Parameters
        ----------
        first, second : Accountant
            Accounts under one relation.

        Returns
        -------
        Composed
            Equal to `Composed(entries=((first, 1), (second, 1)))`.
        """
        relation, other = first.relation, second.relation
        if relation is not other and relation != other:
            return Composed(entries=((first, 1), (second, 1)))  # raises
        check_composable(tuple(part for part in (first, second) if _terms(part) is None))
        made: Composed = object.__new__(Composed)
        set_fields(made, assumptions=first.assumptions | second.assumptions)
        remember(made, {_TERMS: (first, second), _RELATION: relation})
        return made

    def __getattr__(self, name: str) -> Any:
        """`entries` of a composition by `of_two`, at the first use; every other missing name is an error."""
        if name != "entries" or (terms := _terms(self)) is None:
            return object.__getattribute__(self, name)  # raises, unless another thread has just listed the entries
        counts: dict[Accountant, int] = {}
        waiting: list[Accountant] = [*reversed(terms)]  # a stack, because sums are nested as deep as they are long
        while waiting:
            account = waiting.pop()
            if (inner := _terms(account)) is not None:
                waiting += reversed(inner)
                continue
            for member, times in account.entries if isinstance(account, Composed) else ((account, 1),):
                counts[member] = counts.get(member, 0) + times
        object.__setattr__(self, "entries", tuple(counts.items()))
        forget(self, _TERMS)
        return self.entries

    def __post_init__(self) -> None:
        counts: dict[Accountant, int] = {}
        for entry in listed(entries=self.entries):
            if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], Accountant)):
                raise TypeError(f"entries must hold pairs (account, times), got {type(entry).__name__}")
            account, times = entry
            times = positive_integer(times=times)
            inner = account.entries if isinstance(account, Composed) else ((account, 1),)
            for member, own in inner:
                counts[member] = counts.get(member, 0) + own * times
        if not counts:
            raise ValueError("entries must contain at least one account")
        own_assumptions = [a.assumptions for a, _ in self.entries if isinstance(a, Composed)]
        same_relation(tuple(counts))
        if sum(counts.values()) > 1:
            check_composable(tuple(counts), self.assumptions)
        union = self.assumptions.union(all_assumptions(tuple(counts)), *own_assumptions)
        set_fields(self, entries=tuple(counts.items()), assumptions=union)

    def __repr__(self) -> str:
        from privsample.accounting.display import composed_repr

        return composed_repr(getattr(self, "entries", ()), " + ")

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The relation of all members."""
        return stored(self, _RELATION, lambda: self.entries[0][0].relation)

    @property
    def source(self) -> str:
        """The composition theorem, and the sources of the members."""
        members = dict.fromkeys(account.source for account, _ in self.entries)
        return "; ".join(["Mironov 2017, Proposition 1 (composition)", *members])

    def _bounds(self) -> PrivacyBounds:
        """The composition of the members' bounds."""
        return compose([(account.bounds, times) for account, times in self.entries])

    def group(self, size: int) -> "Composed":
        """The composition of the members' guarantees for groups."""
        return replace(self, entries=tuple((account.group(size), times) for account, times in self.entries))

    def with_relation(self, relation: Relation) -> "Composed":
        """The composition of the members under another relation."""
        return replace(self, entries=tuple((account.with_relation(relation), n) for account, n in self.entries))

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The composition of the members' accounts for these numbers of records."""
        members = tuple((member.for_sizes(low, high), times) for member, times in self.entries)
        if members == self.entries:
            return self
        common = ReplaceOne(n=high)  # composition needs one relation; the caller uses the curves only
        return replace(self, entries=tuple((Group(base=own, size=1, relation=common), times) for own, times in members))


@frozen_value
class Parallel(Accountant):
    """Parallel composition: releases from disjoint parts of the records. `a | b` constructs it.

    Every curve is the maximum over the parts. Under AddRemove, each record lies in one part, which may depend on the
    contents of the record. Under ReplaceOne, the parts must be fixed by public positions (assumption FIXED_PARTS); if a
    replaced record can move between parts, use AddRemove accounts and `.to(ReplaceOne(n=...))`, which takes the maximum
    over pairs of parts and groups of two records in one part. Under ProfileEdge, the profiles of the parts must be
    chosen independently (assumption INDEPENDENT_PROFILES).

    Parameters
    ----------
    parts : tuple of Accountant
        Accounts of the parts, under one relation; under ReplaceOne their numbers of records may differ and are added.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the parts are added.
    shared : bool, default False
        True if the parts are accounts under one ReplaceOne of the same records, in the roles that their public
        positions give them, and not of disjoint records: their numbers are then not added.
    replaced : ReplaceOne, optional
        The relation of the result, for parts under AddRemove: the maximum over pairs of parts and over groups of two
        records in one part; `.to(replaced)` constructs it.

    Raises
    ------
    TypeError
        If a part is not an account.
    ValueError
        If there is no part, or if `shared` or `replaced` is given for parts under another relation.
    RelationMismatch
        If the relations or units differ, or if a part is an account of a group.

    Notes
    -----
    Source: McSherry 2009, Theorem 4; Geumlek 2020, Observation 9 (profiles); docs/notes/composition.md.

    Kind: that of the parts.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.LaplaceAccountant(sensitivity=1, scale=2) | ps.LaplaceAccountant(sensitivity=1, scale=4)
    >>> account == ps.Parallel(parts=(account.parts[0], account.parts[1])), account.pure_epsilon
    (True, 0.5)
    """

    parts: tuple[Accountant, ...]
    assumptions: frozenset[Assumption] = frozenset()
    shared: bool = False
    replaced: ReplaceOne | None = None

    def __post_init__(self) -> None:
        set_fields(self, shared=flag(shared=self.shared), parts=listed(parts=self.parts))
        for part in self.parts:
            checked_account(parts=part)
        flat = [p.parts if isinstance(p, Parallel) and not (p.shared or p.replaced) else (p,) for p in self.parts]
        parts = tuple(part for group in flat for part in group)
        if not parts:
            raise ValueError("parts must contain at least one account")
        if any(getattr(part.relation, "members", 1) > 1 for part in parts):
            raise RelationMismatch(
                "parts must not be accounts of groups, whose members may lie in several parts: combine the accounts of "
                "one record, and apply .group to the result"
            )
        more: frozenset[Assumption] = frozenset()
        if all(isinstance(part.relation, ReplaceOne) for part in parts):
            more = frozenset({Assumption.FIXED_PARTS})
            units = {str(getattr(part.relation, "unit", "")) for part in parts}
            if len(units) != 1:
                raise RelationMismatch(f"parts must protect one unit, got {sorted(units)}")
            if self.shared:
                same_relation(parts)
        elif isinstance(same_relation(parts), ProfileEdge):
            more = frozenset({Assumption.INDEPENDENT_PROFILES})
        if self.shared and not isinstance(parts[0].relation, ReplaceOne):
            raise ValueError(f"shared is for parts under ReplaceOne, got {parts[0].relation}")
        if self.replaced is not None:
            self._check_replaced(parts[0].relation)
        set_fields(self, parts=parts, assumptions=self.assumptions.union(all_assumptions(parts), more))

    def _check_replaced(self, mine: Relation) -> None:
        """Raise TypeError or ValueError if the maximum over pairs of parts does not hold under `replaced`."""
        if not isinstance(self.replaced, ReplaceOne):
            raise TypeError(f"replaced must be a ReplaceOne or None, got {type(self.replaced).__name__}")
        if not (isinstance(mine, AddRemove) and same_units(mine, self.replaced)):
            raise ValueError(f"replaced is for parts under AddRemove of the same unit, got {self.replaced} for {mine}")

    def __repr__(self) -> str:
        from privsample.accounting.display import composed_repr

        text = composed_repr([(part, 1) for part in getattr(self, "parts", ())], " | ")
        return text if getattr(self, "replaced", None) is None else f"({text}).to({self.replaced!r})"

    @property
    def _distinct_parts(self) -> tuple[Accountant, ...]:
        """The distinct parts."""
        return tuple(dict.fromkeys(self.parts))

    @property
    def relation(self) -> Relation:  # type: ignore[override]
        """The relation of the parts, or `replaced`; numbers of disjoint records under ReplaceOne are added."""
        first = self.parts[0].relation
        if self.replaced is not None:
            return self.replaced
        if isinstance(first, ReplaceOne) and not self.shared:
            sizes = [part.relation.n for part in self.parts if isinstance(part.relation, ReplaceOne)]
            return ReplaceOne(n=sum(sizes), unit=first.unit)
        return first

    @property
    def source(self) -> str:
        """The theorem on parallel composition, and the sources of the parts."""
        members = dict.fromkeys(part.source for part in self.parts)
        return "; ".join(["McSherry 2009, Theorem 4 (parallel composition)", *members])

    def _bounds(self) -> PrivacyBounds:
        """The maximum of the bounds of the distinct parts, or of all places from which and to which a record moves."""
        parts, replaced = self._distinct_parts, self.replaced
        if replaced is None:
            return compose_parallel([part.bounds for part in parts])
        twice = [(part, part) for part in parts if self.parts.count(part) > 1]
        within = [part.to(replaced) for part in parts]
        between = [(one + other).with_relation(replaced) for one, other in [*itertools.combinations(parts, 2), *twice]]
        return compose_parallel([case.bounds for case in (*within, *between)])

    def with_relation(self, relation: Relation) -> Accountant:
        """The same curves under another relation."""
        return Group(base=self, size=1, relation=relation)

    def to(self, relation: Relation) -> Accountant:
        """Convert to another relation.

        ReplaceOne(n) from AddRemove: a replaced record leaves one part and enters another or the same one, so the bound
        is the maximum over all pairs of parts and over groups of two in one part (docs/notes/composition.md).
        """
        mine = self.relation
        if not (isinstance(mine, AddRemove) and isinstance(relation, ReplaceOne) and same_units(mine, relation)):
            return Accountant.to(self, relation)
        return replace(self, replaced=relation)

    def group(self, size: int) -> Accountant:
        """The general bound for groups, because the members of a group may lie in different parts."""
        return Accountant.group(self, size)


@frozen_value
class Group(Accountant):
    """General bound for groups, from the curves of any account. `account.group(size)` uses it if none is tighter.

    Parameters
    ----------
    base : Accountant
        The account of one unit.
    size : int
        Number of units in which neighbours differ, as a multiple of those of `base`, >= 1. A size above
        the public number of records is replaced by that number.
    relation : Relation, default base.relation.group(size)
        Relation of the result. If it does not follow that any two of its neighbours are at most `size` neighbours of
        the base's relation apart, the account has the assumption STATED.
    assumptions : frozenset of Assumption, default frozenset()
        Assumptions of the guarantee. Those of the base are added.

    Notes
    -----
    Source: Mironov 2017, Proposition 11; Balle, Barthe and Gaboardi 2018, section 2; Kairouz, Oh and Viswanath 2015,
    Theorem 2; docs/notes/composition.md.

    Kind: upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> account = ps.Group(base=ps.GaussianAccountant(sensitivity=1, noise_std=4), size=2)
    >>> account.relation
    AddRemove(unit='record', members=2)
    >>> bool(account.epsilon(1e-6) > ps.GaussianAccountant(sensitivity=2, noise_std=4).epsilon(1e-6))
    True
    """

    base: Accountant
    size: int
    relation: Relation | None = None  # type: ignore[assignment]
    assumptions: frozenset[Assumption] = frozenset()

    def __post_init__(self) -> None:
        size = positive_integer(size=self.size)
        checked_account(base=self.base)
        if self.relation is None:
            set_fields(self, relation=self.base.relation.group(size))
        elif not isinstance(self.relation, Relation):
            raise TypeError(f"relation must be a Relation or None, got {type(self.relation).__name__}")
        known = self.relation is not None and _joined(self.base.relation, size, self.relation)
        more = frozenset() if known else frozenset({Assumption.STATED})
        if isinstance(self.base.relation, ReplaceOne):
            size = min(size, self.base.relation.n)
        set_fields(self, size=size, assumptions=self.assumptions | self.base.assumptions | more)

    @property
    def source(self) -> str:
        """The theorem on group privacy, followed by the source of the base."""
        return f"Mironov 2017, Proposition 11 (group privacy); {self.base.source}"

    def _bounds(self) -> PrivacyBounds:
        """The general bound for groups of the base."""
        return group(self.base.bounds, self.size)

    def for_sizes(self, low: int, high: int) -> Accountant:
        """The same bound, applied to the base's account for these numbers of records."""
        return replace(self, base=self.base.for_sizes(low, high))


def _joined(base: Relation, size: int, relation: Relation) -> bool:
    """Return whether any two neighbours under `relation` are known to be at most `size` neighbours of `base` apart."""
    if relation == base.group(size):
        return True
    match base, relation:
        case AddRemove(), AddRemove():
            return base.unit == relation.unit and relation.members <= size * base.members
        case ReplaceOne(), ReplaceOne():
            equal = (base.n, base.unit) == (relation.n, relation.unit)
            return equal and relation.members <= size * base.members
        case AddRemove(), ReplaceOne():  # a replaced record is one that is removed and one that is added
            return base.unit == relation.unit and 2 * relation.members <= size * base.members
    return False


def checked_account(**named: Any) -> Accountant:
    """Check that the argument is an account and return it. Raises TypeError."""
    ((name, item),) = named.items()
    if not isinstance(item, Accountant):
        raise TypeError(f"{name} must be an accountant (mechanism.accountant), got {type(item).__name__}")
    return item


def _terms(account: Accountant) -> tuple[Accountant, Accountant] | None:
    """The two accounts of a composition by `Composed.of_two` that has not listed its entries yet; otherwise None."""
    if not isinstance(account, Composed):
        return None
    terms: tuple[Accountant, Accountant] | None = recalled(account, _TERMS)
    return terms


def same_relation(members: "tuple[Accountant, ...]") -> Relation:
    """The relation that all members share. Raises RelationMismatch."""
    relations = {member.relation for member in members}
    if len(relations) != 1:
        names = ", ".join(sorted(map(str, relations)))
        raise RelationMismatch(f"only guarantees under one relation can be combined, got {names}; see .to(...)")
    return relations.pop()


def same_units(one: AddRemove, other: ReplaceOne) -> bool:
    """Return whether both relations protect the same unit and number of members."""
    return (one.unit, one.members) == (other.unit, other.members)


def all_assumptions(members: "tuple[Accountant, ...]") -> frozenset[Assumption]:
    """The union of the members' assumptions."""
    return frozenset().union(*(member.assumptions for member in members))


def check_composable(members: "tuple[Accountant, ...]", stated: frozenset[Assumption] = frozenset()) -> None:
    """Check that accounts under ProfileEdge are composed only if their observations are assumed independent.

    Raises ValueError. Source: Geumlek 2020, Observations 8 and 13.
    """
    needed = Assumption.INDEPENDENT_OBSERVATIONS
    for member in members:
        # a composition has the union of its members' assumptions, so each member is checked by itself
        inner = [account for account, _ in getattr(member, "entries", ())]
        inner += [*getattr(member, "parts", ()), *filter(None, [getattr(member, "base", None)])]
        check_composable(tuple(inner), stated)
        if isinstance(member.relation, ProfileEdge) and needed not in member.assumptions | stated:
            raise ValueError(
                "accounts under ProfileEdge compose only for independent observations of one profile, and not for "
                "repeated releases of one observation. If the observations are independent, use "
                "account.independent_observations(k), or add accounts made by "
                ".assuming(Assumption.INDEPENDENT_OBSERVATIONS); for independent choices of profiles use a | b"
            )
