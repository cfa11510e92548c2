"""Check a certificate of privacy with python-flint and the standard library: python verify.py FILE.

A certificate names pairs (P, Q) of output distributions and claims (epsilon, delta). Every number below is a ball, an
interval that contains the exact value (Arb). The curve of a pair is D(e) = sup over events S of P(S) - exp(e) Q(S), for
any real e; it determines the pair, so a pair is here two functions: its curve and that of (Q, P). In a composition the
curve is replaced by its chords between the points exp(e) of a grid. They belong to a discrete pair that dominates the
first one, and the losses of discrete pairs are added by multiplying polynomials. Proofs: docs/notes/certificates.md.
"""

# fmt: off (one blank line between functions: the checker is meant to be read in one sitting)
import json
import re
import sys
from fractions import Fraction
from functools import partial, reduce
from math import comb

try:
    from flint import arb, arb_poly, ctx, fmpq
except ImportError:
    raise SystemExit("privsample verify: error: python-flint is not installed: pip install python-flint") from None

FORMAT, MOST_BYTES, MOST_NODES, MOST_ENTRIES = "privsample certificate 1", 1 << 23, 1 << 17, 1 << 16
PRECISIONS = (128, 256, 512, 1024, 2048)  # bits; each is tried if a smaller one decides nothing
NUMBER = re.compile(r"\d{1,2000}(/0*[1-9]\d{0,2000}|(\.\d{1,400})?(e-?\d{1,3})?)", re.ASCII)

class Refused(Exception):
    """The certificate is damaged, or a claim is not proved by its pairs."""

class Undecided(Exception):
    """Two numbers cannot be compared with this precision."""

def ball(number):
    """A ball around a rational number; a ball is returned as it is."""
    return number if isinstance(number, arb) else arb(fmpq(number.numerator, number.denominator))

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

    def both(e):
        if not (e >= 0 or e < 0):
            raise Undecided
        return curve(e) if e >= 0 else turned(curve)(e)

    return both, both

def tails(e, p, q):
    """P(S) - exp(e) Q(S) of the event S in which the loss exceeds e, from both probabilities."""
    return fall(e).max(p - ball(e).exp() * q)

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
    if max(abs(sum(masses) - 1) for masses in (p, q)) > error:
        raise Refused("the masses of a finite pair must add up to 1, up to its error")
    near, zero = arb(1, ball(error).upper()), arb(0)
    rows = [(ball(one) * near, ball(other) * near) for one, other in zip(p, q, strict=True)]

    def curve(way, e):
        return sum((zero.max(row[way] - ball(e).exp() * row[1 - way]) for row in rows), zero)

    return partial(curve, 0), partial(curve, 1)

def discrete_laplace(places, scale):
    """Masses proportional to exp(-|k| / scale), moved by a number of `places`."""
    ratio, losses = ball(-1 / scale).exp(), range(-limited(places, MOST_ENTRIES, "outcomes"), places + 1, 2)
    ends = [1 if abs(loss) == places else 1 - ratio for loss in losses]
    masses = [end * ratio ** ((places - loss) // 2) / (1 + ratio) for end, loss in zip(ends, losses, strict=True)]
    return (listed(masses, [loss / scale for loss in losses], arb(0)),) * 2

def discrete_gaussian(places, variance):
    """Masses proportional to exp(-k^2 / (2 variance)), moved by a number of `places`."""
    reach = limited(2 + int((2 * variance * ctx.prec) ** 0.5), MOST_ENTRIES, "outcomes")
    heights = {k: ball(Fraction(-k * k) / (2 * variance)).exp() for k in range(-reach, reach + 1)}
    ratio = ball(Fraction(-reach) / variance).exp()
    beyond = 2 * heights[reach] * ratio / (1 - ratio)  # the other masses are at most this, by a geometric series
    total = sum(heights.values(), beyond * arb(0.5, 0.5))
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
        found = fall(e)
        for i in range(limited(times, 256, "draws")):  # the largest curve is at one of these places of the interval
            t = arb(0).max(ball(epsilon).min((ball(e) + (i + 1) * ball(epsilon)) / (times + 1)))
            p = [-part.expm1() / fall(-epsilon) for part in (t - ball(epsilon), -t)]
            p[1] *= (t - ball(epsilon)).exp()
            draws = [comb(times, j) * p[0] ** (times - j) * p[1] ** j for j in range(times + 1)]
            found = found.max(listed(draws, [times * t - j * ball(epsilon) for j in range(times + 1)], arb(0))(e))
        return found

    return even(curve if times > 1 else lambda e: fall(e / 2, epsilon / 2) ** 2 / fall(-epsilon))

def poisson_sample(rate, pair):
    """(P, Q) turned into ((1 - rate) Q + rate P, Q): a record is sampled with probability `rate`."""
    base = pair()[0]

    def curve(e):
        inside = 1 + ball(e).expm1() / ball(rate)
        if not (inside > 0 or inside < 0):
            raise Undecided
        return fall(e).max(ball(rate) * base(inside.log())) if inside > 0 else fall(e)

    return curve, turned(curve)

def replaced_record(rates, weights, pair):
    """A replaced record is sampled with probability rates[i], where i is revealed; `pair` is its own reverse."""
    base, parts = pair()[0], [(ball(rate), ball(weight)) for rate, weight in zip(rates, weights, strict=True)]
    return even(lambda e: fall(e).max(sum((w * r * base((ball(e).expm1() / r).log1p()) for r, w in parts), arb(0))))

def mixture(weights, pairs):
    """Pairs whose index is revealed, each with its weight; the remaining probability has zero loss."""
    parts, rest = list(zip(map(ball, weights), [pair() for pair in pairs], strict=True)), ball(1 - sum(weights))

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
    """The general bound for groups of `size` units; not the curve of a pair, so it is not composed."""
    return tuple(even(lambda e, base=base: grown(e, size) * base(e / size))[0] for base in pair())

def grown(e, size):
    """(exp(e) - 1) / (exp(e / size) - 1), the number of terms of a geometric series; `size` at e = 0."""
    return ball(e).expm1() / ball(e / size).expm1() if e > 0 else ball(Fraction(size))

def discretize(curve, step, tail):
    """The discrete pair of a curve's chords: (offset, P masses at the losses step (offset + j), P mass of infinity)."""
    rough = ball(tail) + arb(2) ** (-ctx.prec // 2)
    low = -reach(lambda j: curve(-step * j) - fall(-step * j) <= rough)
    high = reach(lambda j: curve(step * j) - curve(2 * step * j) <= ball(tail))
    e = [step * j for j in range(low, high + 1)]
    x, values = [arb(0), *(ball(at).exp() for at in e)], [arb(1), *map(curve, e)]
    slopes = [(values[j + 1] - values[j]) / (x[j + 1] - x[j]) for j in range(len(e))] + [arb(0)]
    masses = [x[j + 1] * (slopes[j + 1] - slopes[j]) for j in range(len(e))]
    return trim(low, masses, values[-1], ball(tail))

def reach(near):
    """A j >= 1 with near(j)."""
    j = 1
    while not near(j):
        j += 1 + j // 8
        if j > MOST_NODES:
            raise Undecided
    return j

def trim(offset, masses, infinite, tail):
    """Move at most `tail` at each end to larger losses: from the top to infinity, from the bottom to the next node."""
    first, last, top, bottom = 0, len(masses), arb(0), masses[0]
    while last - first > 1 and top + masses[last - 1] <= tail:
        last, top = last - 1, top + masses[last - 1]
    while last - first > 1 and bottom <= tail:
        first, bottom = first + 1, bottom + masses[first + 1]
    limited(last - first, MOST_NODES, "nodes")
    return offset + first, [bottom, *masses[first + 1 : last]], infinite + top

def product(one, other, tail):
    """The discrete pair of two independent releases, whose losses add up."""
    masses = (arb_poly(one[1]) * arb_poly(other[1])).coeffs()
    return trim(one[0] + other[0], masses, 1 - (1 - one[2]) * (1 - other[2]), tail)

def case_curve(releases, step, tail, way):
    """A curve that dominates all releases of a case together, in one order (0 or 1) of each pair."""
    if all(pair.func is gaussian for _, pair in releases):
        return gaussian(sum(times * pair.keywords["mu_squared"] for times, pair in releases))[way]
    if sum(times for times, _ in releases) == 1:
        return releases[0][1]()[way]
    total = (0, [arb(1)], arb(0))
    for times, pair in releases:
        power = discretize(pair()[way], step, tail)
        for bit in reversed(bin(times)[2:]):  # repeated squaring
            total = product(total, power, ball(tail)) if bit == "1" else total
            power = product(power, power, ball(tail))
    offset, masses, infinite = total
    return listed(masses, [step * (offset + j) for j in range(len(masses))], infinite)

def limited(size, most, what):
    """The size. Raises Refused if it is above `most`."""
    if size > most:
        raise Refused(f"the certificate needs {size} {what}, and at most {most} are allowed")
    return size

def rational(accepted, what):
    """A reader of exact numbers, written as text such as "3/4" or "1e-6"."""

    def read(found, where):
        number = Fraction(found) if isinstance(found, str) and NUMBER.fullmatch(found) else -1
        if not accepted(number):
            raise Refused(f'{where} must be an exact number {what} as text, such as "3/4" or "1e-6", got {found!r:.60}')
        return number

    return read

def whole(found, where):
    """A whole number from 1 to 10^12."""
    if type(found) is not int or not 1 <= found <= 10**12:
        raise Refused(f"{where} must be a whole number from 1 to 10^12, got {found!r:.60}")
    return found

def several(reader):
    """A reader of lists that are not empty."""

    def read(found, where):
        if not (isinstance(found, list) and found):
            raise Refused(f"{where} must be a list that is not empty")
        return [reader(each, where) for each in found[: limited(len(found), MOST_ENTRIES, "entries")]]

    return read

def fields(*names):
    """A reader of objects that have exactly these fields."""

    def read(found, where):
        if not (isinstance(found, dict) and set(found) == set(names)):
            raise Refused(f"{where} must be an object with the fields {', '.join(names)}, and no others")
        return {name: READERS[name](found[name], name) for name in names}

    return read

def read_pair(found, where):
    """A function that computes both curves of a pair."""
    name = found.get("kind") if isinstance(found, dict) else None
    if not (isinstance(name, str) and name in KINDS):
        raise Refused(f"{where} must have a kind among {', '.join(KINDS)}, got {name!r:.60}")
    code = KINDS[name].__code__
    values = fields("kind", *code.co_varnames[: code.co_argcount])(found, f"the {name} pair")
    if len({len(value) for value in values.values() if isinstance(value, list)}) > 1:
        raise Refused(f"the lists of the {name} pair must have equal lengths")
    if sum(values.get("weights", ())) > 1:
        raise Refused(f"the weights of the {name} pair must not add up to more than 1")
    return partial(KINDS[name], **{key: value for key, value in values.items() if key != "kind"})

KINDS = {
    kind.__name__: kind
    for kind in (gaussian, laplace, randomized_response, finite, discrete_laplace, discrete_gaussian, beta, gamma_shape)
    + (gamma_rate, bounded_range, poisson_sample, replaced_record, mixture, maximum, reverse, group)
}
POSITIVE, SHARE = rational(lambda x: x > 0, "> 0"), rational(lambda x: 0 < x <= 1, "in (0, 1]")
READERS = {
    **dict.fromkeys(("mu_squared", "shift", "scale", "variance", "a", "b", "step", "shape"), POSITIVE),
    **dict.fromkeys(("delta", "error", "tail"), rational(lambda x: 0 <= x <= 1, "in [0, 1]")),
    **dict.fromkeys(("p", "q"), several(rational(lambda x: x >= 0, ">= 0"))),
    **dict.fromkeys(("rates", "weights"), several(SHARE)),
    **dict.fromkeys(("size", "places", "times", "others"), whole),
    **dict.fromkeys(("format", "about", "kind"), lambda found, _: found),
    "rate": SHARE, "epsilon": rational(lambda x: x >= 0, ">= 0"), "ratio": rational(lambda x: x > 1, "> 1"),
    "pair": read_pair, "pairs": several(read_pair), "releases": several(fields("times", "pair")),
    "claims": several(fields("epsilon", "delta")), "cases": several(fields("releases", "step", "tail")),
}  # fmt: skip

def unique(pairs):
    """An object of JSON whose keys are distinct."""
    if len(dict(pairs)) < len(pairs):
        raise Refused("the certificate gives a field twice")
    return dict(pairs)

def no_float(text):
    """Refuse numbers that are not whole."""
    raise Refused(f"numbers must be exact and written as text, got {text:.60}")

def read(text):
    """The parts of a certificate. Raises Refused."""
    try:
        document = json.loads(text, object_pairs_hook=unique, parse_float=no_float, parse_constant=no_float)
        found = fields("format", "about", "claims", "cases")(document, "the certificate")
    except (ValueError, RecursionError) as error:
        raise Refused(f"the file is not a complete certificate: {error!s:.100}") from None
    if found["format"] != FORMAT:
        raise Refused(f"the format must be {FORMAT!r}, got {found['format']!r:.60}")
    return found

def verify(text):
    """Prove all claims for all cases, in both orders. Returns (epsilon, delta, proved delta). Raises Refused."""
    found = read(text)
    claims, proved = found["claims"], [arb(0)] * len(found["claims"])
    for number, case in enumerate(found["cases"], 1):
        values = prove(case, claims, f"case {number}")
        proved = [one.max(other) for one, other in zip(proved, values, strict=True)]
    return [(claim["epsilon"], claim["delta"], value) for claim, value in zip(claims, proved, strict=True)]

def prove(case, claims, name):
    """The delta of a case at the epsilon of each claim, which is at most the claimed delta. Raises Refused."""
    releases = [tuple(release.values()) for release in case["releases"]]
    if sum(times for times, _ in releases) > 1 and any(pair.func is group for _, pair in releases):
        raise Refused(f"{name}: the bound for groups cannot be composed")
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            try:
                curves = [case_curve(releases, case["step"], case["tail"], way) for way in (0, 1)]
                found = [curves[0](claim["epsilon"]).max(curves[1](claim["epsilon"])) for claim in claims]
            except Undecided:
                continue
            rows = [(value, ball(claim["delta"]), claim) for value, claim in zip(found, claims, strict=True)]
            for claim in [claim for value, claimed, claim in rows if value > claimed]:
                shown = f"epsilon = {float(claim['epsilon']):.8g}, delta = {float(claim['delta']):.6g}"
                raise Refused(f"{name} does not prove the claim {shown}: its pairs have a larger delta")
            if all(value <= claimed for value, claimed, _ in rows):
                return found
    raise Refused(f"{name} is undecided with {PRECISIONS[-1]} bits; a claim is too close to the value of its pairs")

def main(words):
    """Check a file. Returns the exit code: 0 all claims are proved, 1 refused, 2 the file cannot be read."""
    try:
        with open(*words[:1], "rb") as file:  # noqa: PTH123
            content = file.read(MOST_BYTES + 1)
        limited(len(content), MOST_BYTES, "bytes")
        for epsilon, delta, value in verify(content.decode()):
            print(f"proved: epsilon = {float(epsilon):.10g}, delta = {float(delta):.6g} (from the pairs {float(value):.6g})")
    except (Refused, UnicodeDecodeError) as error:
        print(f"privsample verify: error: {words[0]}: {error}", file=sys.stderr)
        return 1
    except (OSError, TypeError) as error:
        print(f"privsample verify: error: {error}; usage: python verify.py FILE", file=sys.stderr)
        return 2
    return 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
