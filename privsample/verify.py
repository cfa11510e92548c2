"""Check a certificate of privacy with python-flint and the standard library: python verify.py FILE.

A certificate names pairs (P, Q) of output distributions and claims (epsilon, delta). Numbers are balls, intervals that
contain the exact value (Arb). The curve of a pair is D(e) = sup over events S of P(S) - exp(e) Q(S), for any real e; it
determines the pair, so a pair is here two functions: its curve and that of (Q, P). In a composition the curve is
replaced by its chords between the points exp(e) of a grid, the curve of a discrete pair that dominates the first
one; losses of discrete pairs are added by multiplying polynomials. Proofs: docs/notes/certificates.md.
"""

import hashlib
import json
import re
import sys
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import partial, reduce
from inspect import signature
from math import comb, inf, nextafter

try:
    from flint import arb, arb_poly, ctx, fmpq
except ImportError:
    raise SystemExit("privsample verify: error: python-flint is not installed: pip install python-flint") from None
FORMER, FORMAT = "privsample certificate 1", "privsample certificate 2"  # the former one has no digest
MOST_BYTES, MOST_NODES, MOST_ENTRIES = 1 << 23, 1 << 19, 1 << 16
UNCHECKED = 'not checked: the text "about", which names the account, the neighbours and the assumptions'
MOST_WORK, work = 1 << 25, [0]  # coefficients that one check may compute, and has; a ball counts as four
PRECISIONS = (128, 256, 512, 1024, 2048)  # bits; each is tried if a smaller one decides nothing
NUMBER = re.compile(r"\d{1,2000}(/0*[1-9]\d{0,2000}|(\.\d{1,400})?(e-?\d{1,3})?)", re.ASCII)


# --- numbers and curves


class Refused(Exception):
    """The certificate is damaged, or a claim is not proved by its pairs."""


def require(good, reason):
    """Raise Refused with the reason unless `good`."""
    if not good:
        raise Refused(reason)


def spend(units):
    """Count work. Raises Refused if one check needs too much, so that a small file does not take for ever."""
    work[0] += units * ctx.prec // PRECISIONS[0] or 1
    if work[0] > MOST_WORK:
        raise Refused(f"the certificate needs more than {MOST_WORK} steps of work; use a coarser grid")


def ball(number):
    """A ball around a rational number; a ball is returned as it is."""
    spend(4)
    return number if isinstance(number, arb) else arb(fmpq(number.numerator, number.denominator))


def added(numbers):
    """The exact sum of rational numbers. Raises Refused if its denominator is too large to compute."""
    total = Fraction(0)
    for number in numbers:
        total += number
        require(total.denominator.bit_length() <= 1 << 14, "the denominator of a sum has more than 16384 bits")
    return total


def fall(e, loss=Fraction(0)):
    """max(0, 1 - exp(e - loss)): the part of an outcome's mass that counts at e; exact 0 from e = loss on."""
    exact = isinstance(e, Fraction) and isinstance(loss, Fraction)
    return arb(0).max(-(ball(e - loss) if exact else ball(e) - ball(loss)).expm1())


def listed(masses, losses, rest):
    """Curve of outcomes with these P masses and losses, beside P mass `rest` of infinite loss."""
    return lambda e: sum((mass * fall(e, loss) for mass, loss in zip(masses, losses, strict=True)), rest)


def turned(curve):
    """Curve of (Q, P) from that of (P, Q): 1 - exp(e) + exp(e) D(-e)."""
    return lambda e: fall(e).max(ball(e).exp() * curve(-e) - ball(e).expm1())


def even(curve):
    """A pair that is its own reverse, from its curve at e >= 0."""
    return (lambda e: curve(e) if e >= 0 else turned(curve)(e) if e < 0 else arb.nan(),) * 2


def tails(e, p, q):
    """P(S) - exp(e) Q(S) of the event S in which the loss exceeds e, from both probabilities."""
    return fall(e).max(p - ball(e).exp() * q)


# --- pairs of distributions: each function returns the curves of both orders


def gaussian(mu_squared):
    """N(mu, 1) against N(0, 1)."""
    mu, root = ball(mu_squared).sqrt(), arb(2).sqrt()
    above = [lambda e, way=way: ((ball(e) / mu + way * mu / 2) / root).erfc() / 2 for way in (-1, 1)]
    return (lambda e: tails(e, above[0](e), above[1](e)),) * 2


def laplace(shift):
    """Laplace distributions of scale 1 whose centres differ by `shift`."""
    return (lambda e: fall(e).max(fall(e / 2, shift / 2)),) * 2


def randomized_response(epsilon, delta, others):
    """The truth with odds exp(epsilon) to 1 against each of the other answers; with probability delta, the input."""
    lie = (1 - ball(delta)) / (ball(epsilon).exp() + others)
    masses = [lie * ball(epsilon).exp(), lie, lie * (others - 1)]
    return (listed(masses, [epsilon, -epsilon, Fraction(0)], ball(delta)),) * 2


def finite(p, q, error):
    """Masses on a finite set, each known up to the relative `error`."""
    require(max(abs(added(masses) - 1) for masses in (p, q)) <= error, "masses must add up to 1, up to their error")
    rows = [[ball(mass) * arb(1, ball(error).upper()) for mass in row] for row in zip(p, q, strict=True)]

    def curve(way, e):
        return sum((arb(0).max(row[way] - ball(e).exp() * row[1 - way]) for row in rows), arb(0))

    return partial(curve, 0), partial(curve, 1)


def discrete_laplace(places, scale):
    """Masses proportional to exp(-|k| / scale), moved by a number of `places`."""
    ratio, losses = ball(-1 / scale).exp(), range(-limited(places, MOST_ENTRIES, "outcomes"), places + 1, 2)
    masses = [(1 - ratio * (abs(k) < places)) * ratio ** ((places - k) // 2) / (1 + ratio) for k in losses]
    return (listed(masses, [loss / scale for loss in losses], arb(0)),) * 2


def discrete_gaussian(places, variance):
    """Masses proportional to exp(-k^2 / (2 variance)), moved by a number of `places`."""
    reach = limited(2 + int((2 * variance * ctx.prec) ** 0.5), MOST_ENTRIES, "outcomes")
    heights = {k: ball(Fraction(-k * k) / (2 * variance)).exp() for k in range(-reach, reach + 1)}
    bound = 2 * heights[reach] / ball(Fraction(reach) / variance).expm1()  # of the rest, by a geometric series
    beyond = bound * arb(0.5, 0.5)  # from 0 to the bound
    total = sum(heights.values(), beyond)
    losses = [Fraction((2 * k + places) * places) / (2 * variance) for k in heights]
    return (listed([height / total for height in heights.values()], losses, beyond / total),) * 2


def beta(a, b, step):
    """Beta(a + step, b) against Beta(a, b + step): the loss exceeds e beyond some odds of the variable."""

    def curve(a, b, e):
        growth = ball(a + step).lgamma() - ball(a).lgamma() + ball(b).lgamma() - ball(b + step).lgamma()
        rest = 1 / (1 + ((ball(e) + growth) / ball(step)).exp())
        above = [rest.beta_lower(ball(u), ball(v), regularized=1) for u, v in ((b, a + step), (b + step, a))]
        return tails(e, *above)

    return partial(curve, a, b), partial(curve, b, a)


def gamma_shape(shape, step):
    """Gamma distributions of equal rates with shapes `shape` + `step` and `shape`."""

    def curve(e):
        at = ((ball(e) + ball(shape + step).lgamma() - ball(shape).lgamma()) / ball(step)).exp()
        return tails(e, *[at.gamma_upper(ball(own), regularized=1) for own in (shape + step, shape)])

    return curve, turned(curve)


def gamma_rate(shape, ratio):
    """Gamma distributions of equal shapes with rates 1 and `ratio` > 1."""

    def curve(e):
        at = arb(0).max((ball(e) + ball(shape) * ball(ratio).log()) / ball(ratio - 1))
        return tails(e, *[(at * ball(rate)).gamma_upper(ball(shape), regularized=1) for rate in (1, ratio)])

    return curve, turned(curve)


def bounded_range(epsilon, times):
    """The largest curve of `times` draws from any pair whose loss lies in an interval of length epsilon."""

    def curve(e):
        found, r, places = fall(e), ball(epsilon), range(limited(times, 256, "draws") + 1)
        for i in places[1:]:  # the largest curve is at one of these places of the interval
            t = arb(0).max(r.min((ball(e) + i * r) / (times + 1)))
            p = (t - r).expm1() / (-r).expm1()
            draws = [comb(times, j) * p ** (times - j) * (1 - p) ** j for j in places]
            found = found.max(listed(draws, [times * t - j * r for j in places], arb(0))(e))
        return found

    return even(curve if times > 1 else lambda e: fall(e / 2, epsilon / 2) ** 2 / fall(-epsilon))


def poisson_sample(rate, pair):
    """(P, Q) turned into ((1 - rate) Q + rate P, Q): a record is sampled with probability `rate`."""
    base = pair()[0]

    def curve(e):
        inside = 1 + ball(e).expm1() / ball(rate)
        return fall(e) if inside < 0 else fall(e).max(ball(rate) * base(inside.log()))

    return curve, turned(curve)


def replaced_record(rates, weights, pair):
    """A replaced record is sampled with probability rates[i], where i is revealed; `pair` in its worse order."""
    base, parts = maximum([pair])[0], [(ball(rate), ball(weight)) for rate, weight in zip(rates, weights, strict=True)]
    return even(lambda e: fall(e).max(sum((w * r * base((ball(e).expm1() / r).log1p()) for r, w in parts), arb(0))))


def mixture(weights, pairs):
    """Pairs whose index is revealed, each with its weight; the remaining probability has zero loss."""
    parts, rest = list(zip(map(ball, weights), [pair() for pair in pairs], strict=True)), ball(1 - added(weights))

    def curve(way, e):
        return sum((weight * both[way](e) for weight, both in parts), rest * fall(e))

    return partial(curve, 0), partial(curve, 1)


def maximum(pairs):
    """One pair that dominates all of the pairs and their reverses."""
    curves = [curve for pair in pairs for curve in pair()]
    return (lambda e: reduce(lambda largest, curve: largest.max(curve(e)), curves, fall(e)),) * 2


def reverse(pair):
    """The reversed pair."""
    return pair()[::-1]


def group(size, pair):
    """The general bound for groups of `size` units; not the curve of a pair, so it stands alone."""
    base = maximum([pair])[0]
    return even(lambda e: (ball(e).expm1() / ball(e / size).expm1() if e > 0 else size) * base(e / size))


def renyi(order, rho, ranges):
    """The conversion at one order of rho-zCDP, and of draws with losses in intervals of these lengths; not a pair."""
    a, halves, s = ball(order), [ball(length) / 2 for length in ranges], lambda x: (x.sinh() / x).log()
    r = sum((s(a * x) - s(a * x - x) + (s(a * x) - s(x)) / (a - 1) for x in halves), a * ball(rho))
    return even(lambda e: arb(1).min(((a - 1) * (r - ball(e) + (1 - 1 / a).log())).exp() / a))


# --- compositions


def discretize(curve, step, tail):
    """The discrete pair of a curve's chords: (offset, P masses at the losses step (offset + j), P mass of infinity)."""
    low = -reach(lambda j: curve(-step * j) - fall(-step * j) <= ball(tail) + arb(2) ** (-ctx.prec // 2))
    high = reach(lambda j: curve(step * j) - curve(2 * step * j) <= ball(tail))
    e = [step * j for j in range(low, high + 1)]
    x, values = [arb(0), *(ball(at).exp() for at in e)], [arb(1), *map(curve, e)]
    slopes = [(values[j + 1] - values[j]) / (x[j + 1] - x[j]) for j in range(len(e))] + [arb(0)]
    masses = [x[j + 1] * (slopes[j + 1] - slopes[j]) for j in range(len(e))]
    return trim(low, masses, values[-1], ball(tail))


def reach(near):
    """A j >= 1 with near(j)."""
    j = 1
    while j <= MOST_NODES and not near(j):
        j += 1 + j // 8
    if j > MOST_NODES:
        raise ArithmeticError
    return j


def trim(offset, masses, infinite, tail):
    """Move at most `tail` at each end to larger losses: from the top to infinity, from the bottom to the next node."""
    first, last, top, bottom = 0, len(masses), arb(0), masses[0]
    while last - first > 1 and top + masses[last - 1] <= tail:
        last, top = last - 1, top + masses[last - 1]
    while last - first > 1 and bottom <= tail:
        first, bottom = first + 1, bottom + masses[first + 1]
    kept = masses[first + 1 : first + limited(last - first, MOST_NODES, "nodes")]
    return offset + first, [bottom, *kept], infinite + top


def product(a, b, tail):
    """The discrete pair of two independent releases, whose losses add up."""
    spend(len(a[1]) + len(b[1]))
    masses = (arb_poly(a[1]) * arb_poly(b[1])).coeffs() or [arb(0)]  # no coefficients if all losses are infinite
    return trim(a[0] + b[0], masses, 1 - (1 - a[2]) * (1 - b[2]), tail)


def case_curve(releases, step, tail, way):
    """A curve that dominates all releases of a case together, in one order (0 or 1) of each pair."""
    releases = [(release["times"], release["pair"]) for release in releases]
    if all(pair.func is gaussian for _, pair in releases):
        return gaussian(sum(times * pair.keywords["mu_squared"] for times, pair in releases))[way]
    if sum(times for times, _ in releases) == 1:
        return releases[0][1]()[way]
    require(all(p.func not in (group, renyi) for _, p in releases), "the bounds group and renyi stand alone")
    total = (0, [arb(1)], arb(0))
    for times, pair in releases:
        one, many = discretize(pair()[way], step, tail), (0, [arb(1)], arb(0))
        for bit in f"{times:b}":  # repeated squaring
            many = product(many, many, ball(tail))
            many = product(many, one, ball(tail)) if bit == "1" else many
        total = product(total, many, ball(tail))
    return listed(total[1], [step * (total[0] + j) for j in range(len(total[1]))], total[2])


# --- reading a certificate, and proving its claims


def limited(size, most, what):
    """The size. Raises Refused if it is above `most`."""
    require(size <= most, f"the certificate needs {size} {what}, and at most {most} are allowed")
    return size


def number(kind, accepted, what):
    """A reader of whole numbers, or of exact numbers written as text such as "3/4" or "1e-6"."""

    def read(found, where):
        value = Fraction(found) if isinstance(found, str) and NUMBER.fullmatch(found) else found
        require(type(value) is kind and accepted(value), f"{where} must be {what}, got {found!r:.60}")
        return value

    return read


def several(reader, least=1):
    """A reader of lists that are long enough."""

    def read(found, where):
        require(isinstance(found, list) and len(found) >= least, f"{where} must be a list of {least} or more")
        return [reader(each, where) for each in found[: limited(len(found), MOST_ENTRIES, "entries")]]

    return read


def fields(*names):
    """A reader of objects that have exactly these fields."""

    def read(found, where):
        reason = f"{where} must be an object with the fields {', '.join(names)}, and no others"
        require(isinstance(found, dict) and set(found) == set(names), reason)
        return {name: READERS[name](found[name], name) for name in names}

    return read


def read_pair(found, where):
    """A function that computes both curves of a pair."""
    name = found.get("kind") if isinstance(found, dict) else None
    reason = f"{where} must have a kind among {', '.join(KINDS)}, got {name!r:.60}"
    require(isinstance(name, str) and name in KINDS, reason)
    values = fields("kind", *signature(KINDS[name]).parameters)(found, f"the {name} pair")
    lengths = {len(value) for value in values.values() if isinstance(value, list)}
    require(len(lengths) <= 1, f"the lists of the {name} pair must have equal lengths")
    require(added(values.get("weights", ())) <= 1, f"the weights of the {name} pair must not add up to more than 1")
    inner = [each.func for each in (values.get("pair"), *values.get("pairs", ())) if each]
    require(not {group, renyi} & {*inner}, "the bounds group and renyi must not be part of another pair")
    return partial(KINDS[name], **{key: value for key, value in values.items() if key != "kind"})


NOISE = gaussian, laplace, discrete_gaussian, discrete_laplace
OTHERS = randomized_response, finite, beta, gamma_shape, gamma_rate, bounded_range
BUILT = poisson_sample, replaced_record, mixture, maximum, reverse, group, renyi  # from other pairs or bounds
KINDS = {kind.__name__: kind for kind in NOISE + OTHERS + BUILT}
exact, whole = partial(number, Fraction), number(int, lambda x: 0 < x <= 10**12, "whole, from 1 to 10^12")
positive, share = exact(lambda x: x > 0, "text > 0"), exact(lambda x: 0 < x <= 1, 'text in (0, 1], such as "3/4"')
unit, inexact = exact(lambda x: 0 <= x <= 1, 'text in [0, 1], such as "1e-6"'), partial(whole, where="a JSON number")
READERS = {
    **dict.fromkeys(("mu_squared", "shift", "scale", "variance", "a", "b", "step", "shape"), positive),
    **dict.fromkeys(("p", "q"), several(unit)),
    "ranges": several(positive, 0),
    "delta": unit,
    "tail": unit,
    **dict.fromkeys(("size", "places", "times", "others"), whole),
    "pair": read_pair,
    "pairs": several(read_pair),
    **dict.fromkeys(("rates", "weights"), several(share)),
    **dict.fromkeys(("format", "about", "digest", "kind"), lambda x, _: x),
    "rate": share,
    **dict.fromkeys(("ratio", "order"), exact(lambda x: x > 1, "text > 1")),
    **dict.fromkeys(("epsilon", "rho"), exact(lambda x: 0 <= x <= 10**9, "text from 0 to 10^9")),
    "claims": several(fields("epsilon", "delta")),
    "releases": several(fields("times", "pair")),
    "cases": several(fields("releases", "step", "tail")),
    "error": exact(lambda x: 0 <= x < 1e-6, "text < 1e-6"),
}


def unique(given):
    """An object of JSON whose fields are distinct."""
    return require(len(dict(given)) == len(given), "a field is given twice") or dict(given)


def digest(document):
    """SHA-256 of a certificate without its digest, with sorted fields; it finds accidental changes, not forgery."""
    text = json.dumps({name: document[name] for name in document if name != "digest"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read(text):
    """The parts of a certificate. Raises Refused."""
    try:
        document = json.loads(text, object_pairs_hook=unique, parse_float=inexact, parse_constant=inexact)
        former = isinstance(document, dict) and document.get("format") == FORMER
        names = ("format", "about", "claims", "cases") if former else ("format", "about", "claims", "cases", "digest")
        found = fields(*names)(document, "the certificate")
    except (ValueError, RecursionError) as error:
        raise Refused(f"the file is not a complete certificate: {error!s:.100}") from None
    require(found["format"] in (FORMER, FORMAT), f"the format must be {FORMAT!r}, got {found['format']!r:.60}")
    require(former or found["digest"] == digest(document), "the certificate was altered: its digest is another one")
    return found


def verify(text):
    """Prove all claims for all cases, in both orders. Returns (epsilon, delta, proved delta). Raises Refused."""
    work[0], found = 0, read(text)
    claims, proved = found["claims"], [arb(0)] * len(found["claims"])
    for number, case in enumerate(found["cases"], 1):
        values = prove(case, claims, f"case {number}")
        proved = [one.max(other) for one, other in zip(proved, values, strict=True)]
    return [(claim["epsilon"], claim["delta"], value) for claim, value in zip(claims, proved, strict=True)]


def prove(case, claims, name):
    """The delta of a case at the epsilon of each claim, which is at most the claimed delta. Raises Refused."""
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            try:
                curves = [case_curve(**case, way=way) for way in (0, 1)]
                found = [curves[0](claim["epsilon"]).max(curves[1](claim["epsilon"])) for claim in claims]
            except (ArithmeticError, RecursionError, MemoryError):
                continue
            for value, claim in zip(found, claims, strict=True):
                reason = f"{name} does not prove the delta claimed at epsilon = {float(claim['epsilon']):.10g}"
                require(not value > ball(claim["delta"]), f"{reason}: its pairs have {float(value):.6g}")
            if all(value <= ball(claim["delta"]) for value, claim in zip(found, claims, strict=True)):
                return found
    raise Refused(f"{name} is undecided with {PRECISIONS[-1]} bits; a claim is too close to what its pairs have")


def up(number, digits):
    """A decimal of so many digits that is at least the rational number."""
    found = Context(prec=digits, rounding=ROUND_CEILING).divide(number.numerator, number.denominator)
    return f"{found:g}"


def above(value):
    """A rational number that is at least the value of a ball."""
    return Fraction(0 if value <= 0 else nextafter(float(value.upper()), inf))


def check(path):
    """One sentence for each claim of a file, all of them proved, and what is not. Raises Refused and OSError."""
    with open(path, "rb") as file:  # noqa: PTH123
        content = file.read(MOST_BYTES + 1)
    limited(len(content), MOST_BYTES, "bytes")
    rows = [(up(e, 10), up(d, 10), up(above(v), 6)) for e, d, v in verify(content.decode(errors="replace"))]
    return [*("proved: epsilon = {}, delta = {} (the pairs have at most {})".format(*row) for row in rows), UNCHECKED]


def main(words):
    """Check a file and print the result. Returns the exit code: 0 proved, 1 refused, 2 not readable."""
    if len(words) != 1 or words[0] in {"-h", "--help"}:
        print("usage: python verify.py FILE", file=sys.stderr)
        return 2
    try:
        print("\n".join(check(words[0])))
    except (Refused, OSError) as error:
        print(f"verify: error: {words[0]}: {getattr(error, 'strerror', error)}", file=sys.stderr)
        return 1 if isinstance(error, Refused) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
