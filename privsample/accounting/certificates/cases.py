"""The worst cases of an account, and grids on which the checker proves claims for them.

Nothing here has to be trusted: the checker proves every claim for the pairs that a certificate names, whatever the
grid. Proofs: docs/notes/certificates.md.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, log, log2, sqrt
from typing import Any

import numpy as np

from privsample.accounting.engine.bounds import PrivacyBounds
from privsample.accounting.loss.bounded_range import BoundedRangeEnvelope
from privsample.accounting.loss.exact import CertifiedCase, CertifiedRenyi, Claims, exact, reversed_pair
from privsample.accounting.loss.pair import LossPair
from privsample.errors import NotCertified

Claim = tuple[str, str]  # epsilon and delta, exact rationals as text

_FINENESS = (2, 8, 32, 96)  # steps per standard deviation of one release, tried in this order
_LEAST_LOG_DELTA = -1e4
_TAIL = 2.0**-12  # part of the least claimed delta that all cut tails together may add


def proved_cases(bounds: PrivacyBounds, claims: tuple[Claim, ...]) -> list[dict[str, Any]]:
    """The cases of an account with grids on which the checker proves the claims. Raises NotCertified."""
    numbers = tuple((float(Fraction(epsilon)), _log(Fraction(delta))) for epsilon, delta in claims)
    if bounds.parts and not bounds.pairs:
        return [case for part in bounds.parts for case in proved_cases(part, claims)]
    if not bounds.pairs:
        return [_without_pairs(bounds, numbers, claims)]
    found = []
    for pair in bounds.pairs:
        try:
            found += [proved_case(case, claims) for case in _distinct(pair.certified_cases(numbers))]
        except NotCertified as reason:
            found.append(_by_renyi(pair, numbers, claims, reason))
    return found


def _by_renyi(pair: LossPair, numbers: Claims, claims: tuple[Claim, ...], reason: NotCertified) -> dict[str, Any]:
    """The case of a pair's Rényi bound. Raises the reason for which the pair itself failed if this fails too."""
    try:
        return proved_case(_renyi_case(pair.certified_renyi(), numbers), claims)
    except NotCertified:
        raise reason from None


def _log(delta: Fraction) -> float:
    """log delta, and a number below the log delta of every claim for delta = 0."""
    return log(delta) if delta else _LEAST_LOG_DELTA


def _without_pairs(bounds: PrivacyBounds, numbers: Claims, claims: tuple[Claim, ...]) -> dict[str, Any]:
    """The case of the zCDP guarantee of an account that has no pairs. Raises NotCertified."""
    reason = NotCertified(
        "the account has a Rényi curve and no dominating pair of distributions, so that a certificate has no pair to "
        "name, and its zCDP guarantee, if any, does not prove the claim; docs/guides/certificates.md lists the "
        "accounts that can be certified"
    )
    if not (0.0 < bounds.zcdp < np.inf and bounds.infinity_mass == 0.0):
        raise reason
    try:
        return proved_case(_renyi_case((Fraction(bounds.zcdp), ()), numbers), claims)
    except NotCertified:
        raise reason from None


def _distinct(cases: tuple[CertifiedCase, ...]) -> list[CertifiedCase]:
    """The cases without repetitions; a case and the one with all pairs reversed are proved together."""
    kept: dict[str, CertifiedCase] = {}
    for case in cases:
        ways = sorted((_text(case), _text(tuple((times, reversed_pair(pair)) for times, pair in case))))
        kept.setdefault(ways[0], case)
    return list(kept.values())


def _renyi_case(bound: CertifiedRenyi, claims: Claims) -> CertifiedCase:
    """The conversion of a Rényi bound at the order that is best for the first claim."""
    rho, ranges = float(bound[0]), Counter(map(float, bound[1]))
    orders = 1.0 + np.geomspace(1e-3, 1e6, 20_000)
    divergence = rho * orders + sum(
        count * BoundedRangeEnvelope(loss_range=length).renyi(orders) for length, count in ranges.items()
    )
    log_delta = (orders - 1.0) * (divergence - claims[0][0] + np.log1p(-1.0 / orders)) - np.log(orders)
    order, texts = exact(float(orders[np.argmin(log_delta)])), list(map(exact, bound[1]))
    return ((1, {"kind": "renyi", "order": order, "rho": exact(bound[0]), "ranges": texts}),)


def _text(case: CertifiedCase) -> str:
    """The case as text, equal for equal cases."""
    return json.dumps(case, sort_keys=True)


def document(claims: tuple[Claim, ...], cases: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """A certificate as text."""
    from privsample import verify

    listed = [{"epsilon": epsilon, "delta": delta} for epsilon, delta in claims]
    found = {"format": verify.FORMAT, "about": about, "claims": listed, "cases": cases}
    return json.dumps(found | {"digest": verify.digest(found)}, indent=1, ensure_ascii=False)


def proved_case(case: CertifiedCase, claims: tuple[Claim, ...]) -> dict[str, Any]:
    """The case with the coarsest tried grid on which the checker proves all claims. Raises NotCertified."""
    from privsample import verify

    reason = ""
    for step, tail in _grids(case, claims):
        releases = [{"times": times, "pair": pair} for times, pair in case]
        tried = {"releases": releases, "step": str(step), "tail": str(tail)}
        try:
            verify.verify(document(claims, [tried], {}))
        except verify.Refused as refusal:
            reason = str(refusal)
        else:
            return tried
    raise NotCertified(f"the claim is not proved by the account's pairs: {reason}; claim a larger epsilon or delta")


def _grids(case: CertifiedCase, claims: tuple[Claim, ...]) -> Iterator[tuple[Fraction, Fraction]]:
    """Steps and tails to try, from coarse to fine; one grid for a case that needs none."""
    from privsample import verify

    times, deltas = sum(count for count, _ in case), [Fraction(delta) for _, delta in claims]
    pure = min(deltas) == 0
    bits = 0 if pure else ceil(-log2(float(min(deltas))) + log2(times / _TAIL))
    tail = Fraction(0) if pure else Fraction(1, 2**bits)
    if times == 1 or all(pair["kind"] == "gaussian" for _, pair in case):
        yield Fraction(1), tail
        return
    scales = [2.5 * _value_at_zero(verify.read_pair(pair, "a pair")) for _, pair in case]
    typical = sqrt(sum(count * scale**2 for (count, _), scale in zip(case, scales, strict=True)) / times)
    lattice = _lattice(case)
    if pure and lattice is None:
        raise NotCertified(
            "delta = 0 is proved for a composition only if all losses lie on one grid, as those of equal pairs do; "
            "claim a delta above 0"
        )
    for fineness, _ in itertools.groupby(max(_FINENESS[0], each) for each in _FINENESS):
        step = Fraction(max(typical, 1e-9) / fineness).limit_denominator(10**12)
        yield (step if lattice is None else lattice / ceil(lattice / step)), tail


def _value_at_zero(pair: Any) -> float:
    """The pair's curve at epsilon = 0, the total variation distance, at which a scale of the loss is read."""
    return max(float(curve(Fraction(0))) for curve in pair())


def _lattice(case: CertifiedCase) -> Fraction | None:
    """A step whose multiples contain the largest losses of all pairs; None if no such step is known."""
    steps = {_largest_loss(pair) for _, pair in case}
    if None in steps:
        return None
    common = [step for step in steps if step is not None]
    least = min(common)
    return least if all((step / least).denominator == 1 for step in common) else None


def _largest_loss(pair: dict[str, Any]) -> Fraction | None:
    """A number of which the largest loss of a pair is a multiple; None if the loss is unbounded or not rational."""
    match pair:
        case {"kind": "laplace", "shift": text} | {"kind": "bounded_range", "epsilon": text}:
            return Fraction(text)
        case {"kind": "randomized_response", "epsilon": text} if Fraction(text) > 0:
            return Fraction(text)
        case {"kind": "discrete_laplace", "scale": text}:
            return 1 / Fraction(text)
    return None
