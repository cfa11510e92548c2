"""Writes curves.json: privacy curves of the conjugate pairs by high-precision quadrature. Takes a few minutes.

Run from the root of the repository: python -m tests.accounting.golden.make
"""

import json
from pathlib import Path

import mpmath as mp

from tests.accounting.golden import reference

DIGITS = 60
DEPTHS = (-600.0, -30.0, -2.0, 0.0, 0.5, 4.0, 12.0, 37.0, 600.0)  # of epsilon, in standard deviations of the loss
LEAST = -750.0  # log delta below which a float is zero

BETA = [
    (6.0, 12.0, 1.0),
    (6.0, 12.0 + 1e12, 1.0),
    (6.0 + 1e12, 12.0, 1.0),
    (1e-6, 1.0, 1.0),
    (1.0, 1e-6, 1.0),
    (1e-6, 1e-6, 0.25),
    (1e9, 1e9, 1.0),
    (1e9, 1e12, 1.0),
    (1957.0, 1.7e9, 1.0),
    (0.5, 0.5, 2.0**-30),
    (20.0, 30.0, 2.0**-30),
    (100.0, 1e12, 2.0**-10),
    (1e12, 100.0, 2.0**-10),
    (3.0, 1e3, 2.0**-30),
    (2.0**-10, 1e9, 2.0**-20),
    (0.0625, 3.0, 0.0625),
    (1e6, 1e6, 2.0**-10),
]
SHAPE = [
    (2.65625, 603.0),
    (1.0, 1.0),
    (1e-6, 1.0),
    (0.04, 2.0**-10),
    (1e9, 1.0),
    (1e9, 1e3),
    (11.25, 2.0**-10),
    (1e6, 2.0**-30),
    (17.0, 2.0**-30),
    (1e12, 1.0),
]
RATE = [
    (3.0, 1.0, 1.0),
    (1e12, 1.0, 1.0),
    (1e-6, 1.0, 1.0),
    (1e12, 1e9, 1.0),
    (1e6, 1e-6, 2.0**-10),
    (25.0, 1000.0, 1.0),
    (0.0859375, 10.5, 1.0),
    (100.0, 1.0, 1e3),
]


def loss_spread(p: tuple[float, float], q: tuple[float, float], *, beta: bool) -> float:
    """The standard deviation of the loss under P, to a few digits: it only places the points."""
    (a, b), (c, d) = p, q
    if beta:
        return float(abs(a - c) * mp.sqrt(mp.psi(1, a) + mp.psi(1, b)))
    return float(abs(a - c) * mp.sqrt(mp.psi(1, a)) if a != c else abs(d - b) * mp.sqrt(a) / b)


def main() -> None:
    cases = [("beta", {"a": a, "b": b, "step": s}, (mp.mpf(a) + s, b), (a, mp.mpf(b) + s)) for a, b, s in BETA]
    for rising in (True, False):
        for shape, step in SHAPE:
            ends = ((mp.mpf(shape) + step, 1.0), (shape, 1.0))
            fields = {"shape": shape, "step": step, "rising": rising}
            cases.append(("gamma shape", fields, *(ends if rising else ends[::-1])))
        for shape, rate, step in RATE:
            ends = ((shape, mp.mpf(rate) + step), (shape, rate))
            fields = {"shape": shape, "rate": rate, "step": step, "rising": rising}
            cases.append(("gamma rate", fields, *(ends if rising else ends[::-1])))
    curves = []
    with reference.at(DIGITS):
        for family, fields, p, q in cases:
            curve = reference.log_delta_beta if family == "beta" else reference.log_delta_gamma
            spread = loss_spread(p, q, beta=family == "beta")
            points = []
            for depth in DEPTHS:
                epsilon = depth * spread
                try:
                    log_delta = curve(epsilon, p, q)
                except (AssertionError, ValueError, ZeroDivisionError) as error:
                    print("left out:", family, fields, epsilon, repr(error))
                    continue
                if log_delta > LEAST:
                    points.append([epsilon, mp.nstr(log_delta, 30)])
            curves.append({"family": family, "pair": fields, "points": points})
            print(family, fields, len(points), flush=True)
    path = Path(__file__).with_name("curves.json")
    path.write_text("[\n" + ",\n".join(json.dumps(curve) for curve in curves) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
