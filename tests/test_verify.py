"""The checker of certificates: bad files, stronger claims, and its curves against independent values."""

import ast
import copy
import io
import itertools
import json
import math
import subprocess
import sys
import tokenize
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import privsample as ps
from privsample import verify
from tests.certified import LAPLACE, document, proved, without_digest
from tests.properties import examples

mpmath = pytest.importorskip("mpmath")
CHECKER = Path(verify.__file__)


# --- the file itself


def test_the_checker_is_short_and_imports_nothing_of_privsample():
    source = CHECKER.read_text(encoding="utf-8")
    assert len(lines_of_code(source)) < 300
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {name.partition(".")[0] for node in found for name in _modules(node)}
    assert names <= {"flint"} | set(sys.stdlib_module_names)
    words = [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == 1]
    assert "numpy" not in words


def lines_of_code(source):
    """The numbers of all lines but blank ones, comments and docstrings."""
    lines = {k for k, line in enumerate(source.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def _modules(node):
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module]


def test_the_file_runs_alone(tmp_path):
    certificate = tmp_path / "claim.json"
    certificate.write_text(LAPLACE, encoding="utf-8")
    alone = tmp_path / "check.py"
    alone.write_bytes(CHECKER.read_bytes())
    done = subprocess.run([sys.executable, str(alone), str(certificate)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"proved: epsilon = 1, delta = 0 (the pairs have at most 0)\n{verify.UNCHECKED}\n"
    certificate.write_text(json.dumps(document({"kind": "laplace", "shift": "1"}, "0.9", "0")), encoding="utf-8")
    done = subprocess.run([sys.executable, str(alone), str(certificate)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    done = subprocess.run([sys.executable, str(alone), "none.json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "verify: error: none.json: No such file or directory\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["one.json", "two.json"]])
def test_words_other_than_one_file_get_the_usage(words, capsys):
    assert verify.main(words) == 2
    assert capsys.readouterr() == ("", "usage: python verify.py FILE\n")


def test_an_error_names_the_file(tmp_path, capsys):
    path = tmp_path / "release.json"
    path.write_text('{"draws": 0.5}', encoding="utf-8")
    assert verify.main([str(path)]) == 1
    expected = f"verify: error: {path}: a JSON number must be whole, from 1 to 10^12, got '0.5'\n"
    assert capsys.readouterr().err == expected


# --- curves against 50-digit values that use other formulas


def hockey_stick(p, q, x, ends):
    """The integral of max(p - x q, 0) over an interval that is split at `ends`, by 30-digit quadrature."""
    with mpmath.workdps(30):
        return mpmath.quad(lambda t: max(p(t) - x * q(t), 0), ends)


def normal(mean):
    return lambda t: mpmath.npdf(t, mean, 1)


@pytest.mark.parametrize("epsilon", ["1/4", "3"])
@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("kind", ["gaussian", "poisson", "beta", "gamma_shape", "gamma_rate"])
def test_continuous_pairs_by_quadrature(kind, way, epsilon):
    e = Fraction(epsilon)
    with mpmath.workdps(30):
        x = mpmath.exp(mpmath.mpf(e.numerator) / e.denominator)
    pair, p, q, ends = densities(kind)
    p, q = (p, q) if way == 0 else (q, p)
    with verify.ctx.workprec(128):
        got = verify.read_pair(pair, "a pair")()[way](e)
        with mpmath.workdps(30):
            root = _crossings(p, q, x, ends)
        want = hockey_stick(p, q, x, [ends[0], *root, ends[-1]])
        assert abs(float(got.mid()) - float(want)) <= 1e-12 + 1e-10 * float(want)
        assert float(got.rad()) < 1e-25


def _crossings(p, q, x, ends):
    """Places where p - x q changes its sign, refined by bisection, for the quadrature."""
    grid = [ends[0] + (ends[-1] - ends[0]) * mpmath.mpf(k) / 400 for k in range(1, 400)]
    found = []
    for ends_ in itertools.pairwise(grid):
        low, high = ends_
        if (p(low) - x * q(low)) * (p(high) - x * q(high)) < 0:
            found.append(_root(lambda t: p(t) - x * q(t), low, high))
    return found


def _root(function, low, high):
    """A sign change by bisection."""
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if function(low) * function(middle) > 0 else (low, middle)
    return low


def densities(kind):
    """A certified pair with the densities of P and Q and an interval that holds all of their mass."""
    gaussian = {"kind": "gaussian", "mu_squared": "9/4"}
    if kind == "gaussian":
        return gaussian, normal(1.5), normal(0), [-13, 14]
    if kind == "poisson":
        mixed = {"kind": "poisson_sample", "rate": "1/5", "pair": gaussian}
        return mixed, lambda t: normal(0)(t) * 4 / 5 + normal(1.5)(t) / 5, normal(0), [-13, 14]
    if kind == "beta":
        return (
            {"kind": "beta", "a": "3", "b": "5/2", "step": "3/2"},
            lambda t: t**3.5 * (1 - t) ** 1.5 / mpmath.beta(4.5, 2.5),
            lambda t: t**2 * (1 - t) ** 3 / mpmath.beta(3, 4),
            [mpmath.mpf("1e-30"), 1 - mpmath.mpf("1e-28")],
        )
    if kind == "gamma_shape":
        return (
            {"kind": "gamma_shape", "shape": "5/2", "step": "2"},
            lambda t: t**3.5 * mpmath.exp(-t) / mpmath.gamma(4.5),
            lambda t: t**1.5 * mpmath.exp(-t) / mpmath.gamma(2.5),
            [mpmath.mpf("1e-30"), 80],
        )
    return (
        {"kind": "gamma_rate", "shape": "5/2", "ratio": "3"},
        lambda t: t**1.5 * mpmath.exp(-t) / mpmath.gamma(2.5),
        lambda t: 3**2.5 * t**1.5 * mpmath.exp(-3 * t) / mpmath.gamma(2.5),
        [mpmath.mpf("1e-30"), 80],
    )


def discrete_masses(kind, scale, shift, far=200):
    """Masses of integer noise and of the noise moved by `shift`, with 40 digits."""
    with mpmath.workdps(40):
        height = (
            (lambda k: mpmath.exp(-abs(k) / scale))
            if kind == "laplace"
            else (lambda k: mpmath.exp(-k * k / (2 * scale)))
        )
        total = mpmath.fsum(height(mpmath.mpf(k)) for k in range(-4 * far, 4 * far + 1))
        outcomes = range(-far, far + shift + 1)
        return [(height(mpmath.mpf(k - shift)) / total, height(mpmath.mpf(k)) / total) for k in outcomes]


@pytest.mark.parametrize("epsilon", ["0", "1/3", "2"])
@pytest.mark.parametrize(
    ("pair", "kind", "scale", "shift"),
    [
        ({"kind": "discrete_laplace", "places": 3, "scale": "5/2"}, "laplace", mpmath.mpf("2.5"), 3),
        ({"kind": "discrete_gaussian", "places": 2, "variance": "9/4"}, "gaussian", mpmath.mpf("2.25"), 2),
        ({"kind": "discrete_gaussian", "places": 1, "variance": "1/9"}, "gaussian", mpmath.mpf(1) / 9, 1),
    ],
)
def test_integer_noise_by_enumeration(pair, kind, scale, shift, epsilon):
    e = Fraction(epsilon)
    with mpmath.workdps(40):
        x = mpmath.exp(mpmath.mpf(e.numerator) / e.denominator)
        want = mpmath.fsum(max(p - x * q, 0) for p, q in discrete_masses(kind, scale, shift))
    got = proved(pair, epsilon)
    assert abs(float(got.mid()) - float(want)) <= 1e-14
    assert float(got.upper()) >= float(want) - 1e-16


@pytest.mark.parametrize("epsilon", ["0", "1.3", pytest.param("0.4", marks=pytest.mark.long)])
def test_finite_pairs_and_their_compositions_by_enumeration(epsilon):
    p, q = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)], [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    pair = {"kind": "finite", "p": list(map(str, p)), "q": list(map(str, q)), "error": "0"}
    x = Fraction(math.exp(float(Fraction(epsilon))))
    for times in (1, 2, 4):
        rows = [(Fraction(1), Fraction(1))]
        for _ in range(times):
            rows = [(a * u, b * v) for a, b in rows for u, v in zip(p, q, strict=True)]
        want = max(float(sum(max(a - x * b, 0) for a, b in rows)), float(sum(max(b - x * a, 0) for a, b in rows)))
        got = float(proved(pair, epsilon, times=times, step="1/4096", tail="0").upper())
        assert want - 1e-15 <= got <= want + (1e-15 if times == 1 else 2e-4)


@examples(25)
@given(data=st.data())
def test_compositions_are_never_below_enumeration(data):
    """Two finite pairs, a coarse or fine grid, tails that are cut: the checker's delta is at least the truth."""
    masses = st.lists(st.integers(1, 20), min_size=3, max_size=3)
    tables = [[Fraction(k, sum(row)) for k in row] for row in data.draw(st.lists(masses, min_size=4, max_size=4))]
    step, tail = data.draw(st.sampled_from(["1/2", "1/16", "1/300"])), data.draw(st.sampled_from(["0", "1e-3", "0.05"]))
    epsilon, counts = data.draw(st.sampled_from(["0", "1/3", "1.5"])), data.draw(st.tuples(*[st.integers(1, 2)] * 2))
    releases, rows = [], [(Fraction(1), Fraction(1))]
    for times, p, q in zip(counts, tables[::2], tables[1::2], strict=True):
        pair = {"kind": "finite", "p": list(map(str, p)), "q": list(map(str, q)), "error": "0"}
        releases.append({"times": times, "pair": pair})
        for _ in range(times):
            rows = [(a * u, b * v) for a, b in rows for u, v in zip(p, q, strict=True)]
    x = Fraction(math.exp(float(Fraction(epsilon)))) * (1 + Fraction(1, 2**50))
    want = max(sum(max(a - x * b, 0) for a, b in rows), sum(max(b - x * a, 0) for a, b in rows))
    made = document(releases[0]["pair"], epsilon, "1", step=step, tail=tail)
    made["cases"][0]["releases"] = releases
    ((_, _, value),) = verify.verify(json.dumps(made))
    assert value.upper() >= verify.ball(want)


# --- claims that are stronger than the truth

SUBSAMPLED = ps.SubsampledAccountant(
    base=ps.GaussianAccountant(sensitivity=1, noise_std=1), scheme=ps.PoissonSampling(rate=0.05)
)
ACCOUNTS = {
    "gaussian": 3 * ps.GaussianAccountant(sensitivity=1, noise_std=4),
    "laplace": ps.LaplaceAccountant(sensitivity=1, scale=2),
    "laplaces": 10 * ps.LaplaceAccountant(sensitivity=1, scale=2),
    "subsampled": 20 * SUBSAMPLED,
    "posterior": ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=5, beta=5), n=100, data_weight=0.5),
    "counts": ps.PosteriorAccountant(model=ps.GammaPoisson(shape=5, rate=2, upper=3), n=20, data_weight=0.5),
}


def mutants():
    """Claims and pairs altered by a percent: names with a function that alters the document of a certificate."""

    def smaller(field, factor):
        def change(made):
            claim = made["claims"][0]
            claim[field] = str(Fraction(claim[field]) * Fraction(factor).limit_denominator(1000))

        return change

    for name in ACCOUNTS:
        for field, factor in (("epsilon", 0.99), ("epsilon", 0.5), ("delta", 0.9), ("delta", 0)):
            yield name, f"{field} x {factor}", smaller(field, factor)


MUTANTS = list(mutants())


@pytest.fixture(scope="module")
def certificates():
    return {name: without_digest(account.certificate(delta=1e-3).text) for name, account in ACCOUNTS.items()}


def test_there_are_enough_mutants():
    assert len(MUTANTS) >= 20


@pytest.mark.parametrize(("name", "words", "change"), MUTANTS, ids=[f"{name} {words}" for name, words, _ in MUTANTS])
def test_stronger_claims_than_the_truth_are_refused(name, words, change, certificates):
    made = copy.deepcopy(certificates[name])
    verify.verify(json.dumps(made))  # the claim itself is proved
    change(made)
    with pytest.raises(verify.Refused, match=r"does not prove|undecided"):
        verify.verify(json.dumps(made))


@pytest.mark.parametrize(
    "change",
    [
        lambda case: case["releases"][0].update(times=case["releases"][0]["times"] + 1),
        lambda case: case["releases"].append({"times": 1, "pair": {"kind": "laplace", "shift": "1/10"}}),
        lambda case: case["releases"][0]["pair"].update(shift="0.51"),
        lambda case: case.update(step="1/2"),
        lambda case: case.update(tail="1e-2"),
    ],
)
def test_altered_cases_are_refused(change, certificates):
    made = copy.deepcopy(certificates["laplaces"])
    change(made["cases"][0])
    with pytest.raises(verify.Refused, match="does not prove"):
        verify.verify(json.dumps(made))


# --- what is printed is not stronger than what is proved


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [
        ("50", "1e-400", "epsilon = 50, delta = 1e-400 (the pairs have at most 4.94066e-324)"),
        ("1.00000000001", "1", "epsilon = 1.000000001, delta = 1 (the pairs have at most 0.126937)"),
        ("1/3", "0.4000000000001", "epsilon = 0.3333333334, delta = 0.4000000001 (the pairs have at most 0.283812)"),
        ("1e-400", "1", "epsilon = 1e-400, delta = 1 (the pairs have at most 0.382925)"),
    ],
)
def test_printed_numbers_are_rounded_up(epsilon, delta, words, tmp_path):
    made = document({"kind": "gaussian", "mu_squared": "1"}, epsilon, delta)
    (tmp_path / "claim.json").write_text(json.dumps(made), encoding="utf-8")
    assert verify.check(tmp_path / "claim.json") == [f"proved: {words}", verify.UNCHECKED]


def test_a_delta_of_zero_is_printed_only_if_it_is_zero(tmp_path):
    path = tmp_path / "claim.json"
    path.write_text(json.dumps(document({"kind": "beta", "a": "1e9", "b": "1e9", "step": "1"})), encoding="utf-8")
    assert verify.check(path)[0].endswith("at most 4.94066e-324)")  # about exp(-10^8)
    path.write_text(LAPLACE, encoding="utf-8")
    assert verify.check(path)[0].endswith("at most 0)")


# --- the ends of what the format allows


@pytest.mark.parametrize(
    ("pair", "want"),
    [
        ({"kind": "randomized_response", "epsilon": "1", "delta": "1", "others": 1}, 1),
        ({"kind": "finite", "p": ["1", "0"], "q": ["0", "1"], "error": "0"}, 1),
        ({"kind": "finite", "p": ["1"], "q": ["1"], "error": "0"}, 0),
        ({"kind": "randomized_response", "epsilon": "0", "delta": "0", "others": 1}, 0),
    ],
)
def test_compositions_whose_losses_are_all_infinite_or_zero(pair, want):
    assert proved(pair, "1/2", times=3) == want


def test_the_masses_of_integer_noise_add_up_to_one_with_infinite_losses():
    """At exp(e) near 0 the curve of a pair is 1, so that its chords are those of a pair."""
    with verify.ctx.workprec(128):
        for curve in verify.discrete_gaussian(2, Fraction(9, 4)):
            value = curve(Fraction(-(10**9)))
            assert value.contains(1)
            assert float(value.rad()) < 1e-35


@examples(25)
@given(data=st.data())
def test_nested_pairs_equal_exact_sums_in_both_orders(data):
    """Trees of mixtures, Poisson samples and reversals: P and Q are listed as fractions, and summed."""
    pair, p, q = data.draw(nested_pairs())
    epsilon = data.draw(st.sampled_from(["-2", "-1/3", "0", "1/3", "2"]))
    with mpmath.workdps(40), verify.ctx.workprec(160):
        x = mpmath.exp(mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator)
        for way, rows in enumerate(([*zip(p, q, strict=True)], [*zip(q, p, strict=True)])):
            found = verify.read_pair(pair, "a pair")()[way](Fraction(epsilon))
            want = mpmath.fsum(max(_real(u) - x * _real(v), 0) for u, v in rows)
            if found.is_finite():  # a sample at exp(e) = 1 - rate may stay undecided
                assert abs(mpmath.mpf(found.mid().str(45, radius=False)) - want) < 1e-35


def _real(number):
    return mpmath.mpf(number.numerator) / number.denominator


@st.composite
def nested_pairs(draw, depth=3):
    """A pair, and the masses of P and Q on a finite set."""
    kind = draw(st.sampled_from(["finite", "reverse", "poisson_sample", "mixture"])) if depth else "finite"
    if kind == "finite":
        rows = [draw(st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)) for _ in range(2)]
        p, q = ([Fraction(k, sum(row)) for k in row] for row in rows)
        return {"kind": kind, "p": list(map(str, p)), "q": list(map(str, q)), "error": "0"}, p, q
    pair, p, q = draw(nested_pairs(depth=depth - 1))
    share = Fraction(draw(st.integers(1, 10)), 10)
    if kind == "reverse":
        return {"kind": kind, "pair": pair}, q, p
    if kind == "poisson_sample":
        mixed = [share * u + (1 - share) * v for u, v in zip(p, q, strict=True)]
        return {"kind": kind, "rate": str(share), "pair": pair}, mixed, q
    other, p2, q2 = draw(nested_pairs(depth=0))
    weights = [share / 2, share / 3]
    rows = [[a * u for a, row in zip(weights, both, strict=True) for u in row] for both in ((p, p2), (q, q2))]
    rest = [1 - sum(weights)]
    return {"kind": kind, "weights": list(map(str, weights)), "pairs": [pair, other]}, rows[0] + rest, rows[1] + rest
