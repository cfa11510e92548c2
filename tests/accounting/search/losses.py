"""Privacy losses of single releases at eighty digits, and their compositions, without any formula of the library.

Parameters are taken as the exact binary numbers that they are. Privacy curves of compositions are the inverse Laplace
transform of M(s)^k / (s (s + 1)), where M(s) is the mean of e^(s L) for the loss L of one release, or sums over all
outcomes. `None` stands for a value that did not converge.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import comb, inf
from typing import Any

from flint import acb, arb, ctx

Real = Any
DIGITS = 80
_NODES = 6000  # nodes of one inversion, at most
_FINEST = 3000  # nodes of one moment, at most
_SAME = arb("1e-60")  # losses that are closer are equal, up to rounding
_TAIL = 1e-32  # size of what is left out of an integral, relative to it


def number(x: Real) -> Real:
    """The binary number x as an interval of no width."""
    return x if isinstance(x, arb) else arb(x)


def middle(x: Real) -> Real:
    """The centre of an interval."""
    return arb(x.mid())


class Loss(ABC):
    """The loss of one release, drawn from the first of two neighbours."""

    limit: float = inf  # the moments are finite for Re s below it

    @abstractmethod
    def moments(self, real: Real, step: Real, count: int) -> list[Real]:
        """M(real + i j step) for j = 0, ..., count - 1."""

    def moment(self, s: Real) -> Real:
        return self.moments(number(s), arb(0), 1)[0].real

    def renyi(self, order: float) -> Real:
        """The Rényi divergence; infinite from the limit on."""
        s = number(order) - 1
        return arb("inf") if s >= number(self.limit) else self.moment(s).log() / s

    def log_delta(self, epsilon: float) -> Real | None:
        return composed_log_delta([(self, 1)], epsilon)


class Closed(Loss):
    """A loss with a closed form of M."""

    @abstractmethod
    def log_moment(self, s: Real) -> Real:
        """log M(s), up to a multiple of 2 pi i."""

    def moments(self, real: Real, step: Real, count: int) -> list[Real]:
        return [acb(self.log_moment(acb(real, j * step))).exp() for j in range(count)]


@dataclass(frozen=True)
class Normal(Closed):
    """N(mu, 1) against N(0, 1)."""

    mu: Real

    def log_moment(self, s: Real) -> Real:
        return s * (s + 1) * self.mu**2 / 2

    def log_delta(self, epsilon: float) -> Real:
        z = number(epsilon) / self.mu - self.mu / 2
        return middle((upper_tail(z) - number(epsilon).exp() * upper_tail(z + self.mu)).log())


def upper_tail(z: Real) -> Real:
    """The probability that a standard normal variable exceeds z."""
    return (z / arb(2).sqrt()).erfc() / 2


@dataclass(frozen=True)
class Laplace(Closed):
    """Laplace(shift, 1) against Laplace(0, 1)."""

    shift: Real

    def log_moment(self, s: Real) -> Real:
        a = self.shift
        return (((s + 1) * (s * a).exp() + s * (-(s + 1) * a).exp()) / (2 * s + 1)).log()

    def log_delta(self, epsilon: float) -> Real:
        return repeated_laplace(self.shift, 1, epsilon)


def repeated_laplace(shift: Real, times: int, epsilon: float) -> Real | None:
    """log delta of several releases: the residues of the inverse transform at -1/2, and at 0.

    The numerator ((s + 1) e^(s a) + s e^(-(s + 1) a))^k is expanded; a term with the exponential e^(s A), A > 0, is
    the sum of the residues of (s + 1)^(j - 1) s^(k - j - 1) e^(s A) / (2 s + 1)^k. At 0 there is one if j = k.
    """
    from flint import arb_series

    a, e, total = shift, number(epsilon), arb(0)
    old, ctx.cap = ctx.cap, times + 1
    try:
        x = arb_series([-arb(1) / 2, 1])  # s = -1/2 + u, and (2 s + 1)^k = 2^k u^k
        for j in range(times + 1):
            reach = j * a - (times - j) * a - e
            if not reach > 0:
                continue
            factor = comb(times, j) * (-(times - j) * a).exp()
            series = (x * reach).exp() * power(x + 1, j - 1) * power(x, times - j - 1) / arb(2) ** times
            total += factor * series[times - 1]
            if j == times:
                total += factor
    finally:
        ctx.cap = old
    return middle(total.log()) if total > 0 else None


def power(series: Real, exponent: int) -> Real:
    """An integer power of a power series."""
    result = series * 0 + 1
    for _ in range(abs(exponent)):
        result = result * series
    return result if exponent >= 0 else 1 / result


@dataclass(frozen=True)
class Conjugate(Closed):
    """Two members of a family of Beta or Gamma distributions, by their parameters."""

    family: str
    p: tuple[Real, Real]
    q: tuple[Real, Real]

    @property
    def limit(self) -> float:  # type: ignore[override]
        return min((float(u / (v - u)) for u, v in zip(self.p, self.q, strict=True) if v > u), default=inf)

    def normalizer(self, a: Real, b: Real) -> Real:
        if self.family == "beta":
            return acb(a).lgamma() + acb(b).lgamma() - acb(a + b).lgamma()
        return acb(a).lgamma() - a * acb(b).log()

    def log_moment(self, s: Real) -> Real:
        blend = [(s + 1) * u - s * v for u, v in zip(self.p, self.q, strict=True)]
        return self.normalizer(*blend) - (s + 1) * self.normalizer(*self.p) + s * self.normalizer(*self.q)


@dataclass(frozen=True)
class SampledNormal(Loss):
    """N(0, 1) or, at the rate, N(mu, 1), against N(0, 1); if not `removed`, the other way round."""

    mu: Real
    rate: Real
    removed: bool

    def _weight(self, x: Real) -> Real:
        return 1 - self.rate + self.rate * (self.mu * x - self.mu**2 / 2).exp()

    def moments(self, real: Real, step: Real, count: int) -> list[Real]:
        """Trapezoidal sums over x, made finer until the first and the last agree."""
        exponent = real + 1 if self.removed else -real
        sign = 1 if self.removed else -1
        width, former = min(0.4, 0.25 / float(self.mu)), None
        low, high = self._ends(float(exponent))
        for _ in range(4):
            n = int((high - low) / width) + 1
            if n > _FINEST:
                break
            nodes = [arb(low) + arb(width) * j for j in range(n)]
            logs = [self._weight(x).log() for x in nodes]
            masses = [middle((-x * x / 2 + exponent * log).exp() * width) for x, log in zip(nodes, logs, strict=True)]
            turns = [acb(0, sign * step * log).exp().mid() for log in logs]
            values, now = [], [acb(mass) for mass in masses]
            for _ in range(count):
                values.append(sum(now, acb(0)) / (2 * arb.pi()).sqrt())
                now = [(z * turn).mid() for z, turn in zip(now, turns, strict=True)]
            if former and all(abs(values[j] - former[j]) < abs(values[0]) * 1e-36 for j in (0, count // 2, count - 1)):
                return values
            former, width = values, width / 2
        raise ArithmeticError("the moments do not converge")

    def _ends(self, exponent: float) -> tuple[float, float]:
        reach = 20.0
        return min(0.0, exponent * float(self.mu)) - reach, max(0.0, exponent * float(self.mu)) + reach

    def delta(self, epsilon: Real) -> Real:
        """From the two normal tails beyond the threshold, for all real epsilon."""
        q, e = self.rate, epsilon.exp()
        ratio = (e - 1 + q) / q if self.removed else (1 / e - 1 + q) / q
        if not ratio > 0:
            return 1 - e if self.removed else arb(0)
        z = ratio.log() / self.mu + self.mu / 2
        if self.removed:
            return (1 - q - e) * upper_tail(z) + q * upper_tail(z - self.mu)
        return upper_tail(-z) * (1 - e * (1 - q)) - e * q * upper_tail(self.mu - z)

    def log_delta(self, epsilon: float) -> Real | None:
        delta = self.delta(number(epsilon))
        return middle(delta.log()) if delta > 0 else arb("-inf")

    def with_another(self, other: "SampledNormal", epsilon: float) -> Real | None:
        """log delta of two releases: the mean of the other's delta at epsilon - L, by trapezoidal sums."""
        e, former, width = number(epsilon), None, 0.1 / max(1.0, float(self.mu))
        for _ in range(5):
            n = int((40 + float(self.mu)) / width)
            total = arb(0)
            for j in range(n):
                x = arb(-20) + arb(width) * j
                w = self._weight(x)
                density = (-x * x / 2).exp() * (w if self.removed else 1)
                total += middle(density * other.delta(e - (w.log() if self.removed else -w.log())))
            value = total * width / (2 * arb.pi()).sqrt()
            if former is not None and abs(value - former) < abs(value) * 1e-10:
                return middle(value.log())
            former, width = value, width / 2
        return None


@dataclass(frozen=True)
class Finite(Loss):
    """Two distributions on the same outcomes, p against q; outcomes without q are a failure."""

    p: tuple[Real, ...]
    q: tuple[Real, ...]

    @cached_property
    def _logs(self) -> list[tuple[Real, Real]]:
        return [(u, (u / v).log()) for u, v in zip(self.p, self.q, strict=True) if u > 0 and v > 0]

    @cached_property
    def failure(self) -> Real:
        return sum((u for u, v in zip(self.p, self.q, strict=True) if u > 0 and not v > 0), arb(0))

    def moments(self, real: Real, step: Real, count: int) -> list[Real]:
        if self.failure > 0:
            raise ArithmeticError("the moments are infinite")
        parts = [(u * (real * loss).exp(), loss) for u, loss in self._logs]
        return [sum((u * acb(0, j * step * loss).exp() for u, loss in parts), acb(0)) for j in range(count)]

    def renyi(self, order: float) -> Real:
        return arb("inf") if self.failure > 0 else super().renyi(order)

    def log_delta(self, epsilon: float) -> Real:
        return self.repeated(1).log_delta(epsilon)

    def repeated(self, times: int) -> "Outcomes":
        """All outcomes of several releases, by the number of each single outcome."""
        parts = [((), arb(1))]
        for u, loss in self._logs:
            raised = [arb(1)]
            for _ in range(times):
                raised.append(middle(raised[-1] * u))
            parts = [
                ((*counts, (j, loss)), mass * raised[j])
                for counts, mass in parts
                for j in range(times + 1 - sum(c for c, _ in counts))
            ]
        found = []
        for counts, mass in parts:
            if sum(c for c, _ in counts) == times:
                left, ways = times, 1
                for count, _ in counts:
                    ways *= comb(left, count)
                    left -= count
                found.append((middle(mass * ways), middle(sum((c * loss for c, loss in counts), arb(0)))))
        return Outcomes(found, middle(1 - (1 - self.failure) ** times))


@dataclass(frozen=True)
class Outcomes:
    """Probabilities and losses of all outcomes, and the failure probability."""

    masses: list[tuple[Real, Real]]
    failure: Real

    def log_delta(self, epsilon: float) -> Real:
        e = number(epsilon)
        total = self.failure + sum((m * -((e - loss).expm1()) for m, loss in self.masses if loss - e > _SAME), arb(0))
        return middle(total.log()) if total > 0 else arb("-inf")


Parts = Sequence[tuple[Loss, int]]


def composed_renyi(parts: Parts, order: float) -> Real:
    """The Rényi divergence of a composition."""
    return sum((loss.renyi(order) * times for loss, times in parts), arb(0))


def composed_log_delta(parts: Parts, epsilon: float) -> Real | None:
    """log delta of a composition along a vertical line through the saddle point; None without convergence."""
    e = number(epsilon)
    limit = min(loss.limit for loss, _ in parts)

    def height(c: float) -> float:
        s = number(c)
        value = -s * e - (s * (s + 1)).log()
        for loss, times in parts:
            value += loss.moment(s).log() * times
        return float(value)

    try:
        c = _saddle(height, limit)
        curvature = (height(c * 1.01) + height(c * 0.99) - 2 * height(c)) / (0.01 * c) ** 2
        spread = 1 / max(curvature, 1e-300) ** 0.5
        room = min(c, limit - c)
        return _inverted(parts, e, c, min(spread / 3, 2 * 3.14159 * room / 85))
    except (ArithmeticError, OverflowError, ValueError):  # no convergence, or a NaN
        return None


def _saddle(height: Any, limit: float) -> float:
    """The minimum of a convex function on (0, limit), by golden sections in the logit or the logarithm."""
    from math import exp

    def place(t: float) -> float:
        return exp(t) if limit == inf else limit / (1 + exp(-t))

    low, high = -25.0, 25.0 if limit == inf else 40.0
    grid = [low + (high - low) * j / 32 for j in range(33)]
    values = []
    for t in grid:
        try:
            values.append(height(place(t)))
        except (ArithmeticError, OverflowError, ValueError):
            values.append(inf)
    best = values.index(min(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 32)]
    for _ in range(14):
        left, right = high - 0.618 * (high - low), low + 0.618 * (high - low)
        low, high = (low, right) if height(place(left)) < height(place(right)) else (left, high)
    return place((low + high) / 2)


def _inverted(parts: Parts, e: Real, c: float, step: float) -> Real | None:
    """The trapezoidal sum with this step; where it dies out too slowly, blocks of half a turn are summed by Shanks."""
    turn = 3.141592653589793 / max(abs(float(e)), 1e-300)
    block = max(int(turn / step) + 1, 1)
    h = turn / block if block < _NODES / 12 else step
    real, count, total, sums = arb(c), 128, arb(0), []
    while True:
        terms = _terms(parts, e, real, arb(h), count)
        top = abs(terms[0])
        if abs(terms[-1]) < top * _TAIL and abs(terms[-2]) < top * _TAIL:
            total = terms[0].real / 2 + sum((t.real for t in terms[1:]), arb(0))
            break
        if count >= _NODES or (block < _NODES / 12 and count >= 40 * block):
            if block >= _NODES / 12:
                return None
            sums = [
                terms[0].real / 2 + sum((t.real for t in terms[1 : j * block + 1]), arb(0)) - terms[j * block].real / 2
                for j in range(1, (count - 1) // block + 1)
            ]
            limits = _shanks([middle(s) for s in sums])
            if not abs(limits[0] - limits[1]) < abs(limits[0]) * 1e-14:
                return None
            total = limits[0]
            break
        count *= 2
    value = total * h / arb.pi()
    return middle(value.log()) if value > 0 else None


def _terms(parts: Parts, e: Real, real: Real, h: Real, count: int) -> list[Real]:
    lists = [[value**times for value in loss.moments(real, h, count)] for loss, times in parts]
    found = []
    for j, values in enumerate(zip(*lists, strict=True)):
        s = acb(real, j * h)
        term = (-s * e).exp() / (s * (s + 1))
        for value in values:
            term *= value
        found.append(term)
    return found


def _shanks(sums: list[Real]) -> tuple[Real, Real]:
    """The limit of partial sums of an alternating series by Wynn's epsilon algorithm, and the limit of one fewer."""

    def limit(values: list[Real]) -> Real:
        before, now = [arb(0)] * (len(values) + 1), list(values)
        best = now[-1]
        for k in range(1, len(values)):
            after = []
            for j, (one, other) in enumerate(pairwise(now)):
                gap = middle(other - one)
                if gap == 0:
                    return best
                after.append(middle(before[j + 1] + 1 / gap))
            before, now = now, after
            if k % 2 == 0 and now:
                best = now[-1]
        return best

    return limit(sums), limit(sums[:-1])
