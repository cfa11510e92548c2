"""The checker of certificates: damaged files, pairs that are none, and bounded work."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privsample import verify
from tests.certified import LAPLACE, document, finite, proved
from tests.properties import examples


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a complete certificate"),
        (LAPLACE[:-3], "not a complete certificate"),
        ("[" * 100_000, "not a complete certificate"),
        ('{"a":' * 100_000, "not a complete certificate"),
        ("null", "must be an object with the fields"),
        ("[]", "must be an object with the fields"),
        (LAPLACE.replace('"claims"', '"claim"'), "must be an object with the fields"),
        (LAPLACE.replace('"about": {}', '"about": {}, "about": {}'), "a field is given twice"),
        (LAPLACE.replace('"times": 1', '"times": 1, "times": 2'), "a field is given twice"),
        (LAPLACE.replace(verify.FORMER, "privsample certificate 3"), "must be an object with the fields"),
        (json.dumps(json.loads(LAPLACE) | {"format": "privsample certificate 3", "digest": ""}), "the format must be"),
        (LAPLACE.replace(verify.FORMER, verify.FORMAT), "claims, cases, digest, and no others"),
        (json.dumps(json.loads(LAPLACE) | {"format": verify.FORMAT, "digest": ""}), "its digest is another one"),
        (json.dumps(json.loads(LAPLACE) | {"digest": ""}), "and no others"),
        (LAPLACE.replace('"about": {}', '"about": NaN'), "a JSON number must be whole"),
        (LAPLACE.replace('"about": {}', '"about": 1.5'), "a JSON number must be whole"),
        (LAPLACE.replace('"about": {}', '"about": ' + "9" * 5000), "not a complete certificate"),
        (LAPLACE.replace('"delta": "0"', '"delta": 0'), "delta must be text"),
        (LAPLACE.replace('"delta": "0"', '"delta": "nan"'), "delta must be text"),
        (LAPLACE.replace('"delta": "0"', '"delta": "inf"'), "delta must be text"),
        (LAPLACE.replace('"delta": "0"', '"delta": "-1/2"'), "delta must be text"),
        (LAPLACE.replace('"delta": "0"', '"delta": "2"'), "delta must be text"),
        (LAPLACE.replace('"delta": "0"', '"delta": "1/0"'), "delta must be text"),
        (LAPLACE.replace('"delta": "0"', '"delta": "1/00"'), "delta must be text"),
        (LAPLACE.replace('"delta": "0"', '"delta": "1e-99999999999"'), "delta must be text"),
        (LAPLACE.replace('"shift": "1"', '"shift": "1e999999999"'), "shift must be text"),
        (LAPLACE.replace('"shift": "1"', '"shift": "0"'), "shift must be text"),
        (LAPLACE.replace('"shift": "1"', '"shift": "١"'), "shift must be text"),
        (LAPLACE.replace('"shift": "1"', '"shift": "' + "1" * 3000 + '"'), "shift must be text"),
        (LAPLACE.replace('"shift": "1"', '"shift": ["1"]'), "shift must be text"),
        (LAPLACE.replace('"times": 1', '"times": 0'), "times must be whole"),
        (LAPLACE.replace('"times": 1', '"times": true'), "times must be whole"),
        (LAPLACE.replace('"times": 1', '"times": "1"'), "times must be whole"),
        (LAPLACE.replace('"times": 1', f'"times": {10**13}'), "times must be whole"),
        (LAPLACE.replace('"laplace"', '"cauchy"'), "must have a kind among"),
        (LAPLACE.replace('"laplace"', "{}"), "must have a kind among"),
        (LAPLACE.replace('"shift": "1"', '"scale": "1"'), "the laplace pair must be an object with the fields"),
        (LAPLACE.replace('"shift": "1"', '"shift": "1", "more": 1'), "and no others"),
        (LAPLACE.replace('"step": "1/64"', '"step": "0"'), "step must be text"),
        (json.dumps(json.loads(LAPLACE) | {"cases": []}), "cases must be a list of 1 or more"),
        (json.dumps(json.loads(LAPLACE) | {"claims": {}}), "claims must be a list of 1 or more"),
        (json.dumps(json.loads(LAPLACE) | {"claims": [0] * 70_000}), "70000 entries"),
    ],
)
def test_damaged_files_get_one_clear_error(text, words):
    with pytest.raises(verify.Refused) as refusal:
        verify.verify(text)
    assert words in str(refusal.value)
    assert len(str(refusal.value)) < 400
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (finite(["1/2"], ["1"]), "masses must add up to 1"),
        (finite(["0"], ["1"]), "masses must add up to 1"),
        (finite(["0"], ["1"], "1"), "error must be text < 1e-6"),
        (finite(["1/2", "1/2"], ["1"]), "equal lengths"),
        ({"kind": "mixture", "weights": ["1/2", "2/3"], "pairs": [finite(["1"], ["1"])] * 2}, "more than 1"),
        ({"kind": "mixture", "weights": ["1/2"], "pairs": [finite(["1"], ["1"])] * 2}, "equal lengths"),
        ({"kind": "gamma_rate", "shape": "1", "ratio": "1"}, "ratio must be text > 1"),
        ({"kind": "discrete_laplace", "places": 10**6, "scale": "1"}, "1000000 outcomes"),
        ({"kind": "discrete_gaussian", "places": 1, "variance": "1e30"}, "outcomes"),
        (
            {"kind": "reverse", "pair": {"kind": "group", "size": 2, "pair": finite(["1"], ["1"])}},
            "must not be part",
        ),
        ({"kind": "poisson_sample", "rate": "0", "pair": finite(["1"], ["1"])}, "rate must be text"),
    ],
)
def test_pairs_that_are_no_pairs_are_refused(pair, words):
    with pytest.raises(verify.Refused, match=words):
        proved(pair, "1")


def test_work_is_bounded_and_close_claims_are_undecided():
    with pytest.raises(verify.Refused, match=r"does not prove|undecided|nodes"):
        proved({"kind": "gaussian", "mu_squared": "1"}, "1", delta="1e-9", times=1)
    wide = document({"kind": "poisson_sample", "rate": "1/2", "pair": {"kind": "gaussian", "mu_squared": "1"}})
    wide["cases"][0] |= {"step": "1e-9"}
    wide["cases"][0]["releases"][0]["times"] = 2
    with pytest.raises(verify.Refused, match="undecided"):
        verify.verify(json.dumps(wide))
    group = {"kind": "group", "size": 2, "pair": {"kind": "laplace", "shift": "1"}}
    with pytest.raises(verify.Refused, match="stand alone"):
        proved(group, "1", times=2)
    deep = {"kind": "laplace", "shift": "1"}
    for _ in range(300):
        deep = {"kind": "reverse", "pair": deep}
    with pytest.raises(verify.Refused):
        proved(deep | {"kind": "mixture"}, "1")


def nested_maximum(depth):
    pair = {"kind": "laplace", "shift": "1"}
    for _ in range(depth):
        pair = {"kind": "maximum", "pairs": [pair]}
    return pair


@pytest.mark.parametrize(
    ("pair", "times"),
    [(nested_maximum(60), 1), ({"kind": "bounded_range", "epsilon": "1", "times": 64}, 2), (nested_maximum(0), 10**12)],
    ids=["nested", "draws", "releases"],
)
def test_small_files_that_need_much_work_are_refused(pair, times, monkeypatch):
    monkeypatch.setattr(verify, "MOST_WORK", 10_000)
    with pytest.raises(verify.Refused, match="needs more than 10000 steps of work"):
        proved(pair, "1", times=times)
    proved({"kind": "laplace", "shift": "1"}, "1")  # each check counts anew


def test_sums_whose_denominators_grow_without_bound_are_refused():
    weights = [f"1/{10**1990 + 2 * k + 1}" for k in range(20)]
    pair = {"kind": "mixture", "weights": weights, "pairs": [{"kind": "laplace", "shift": "1"}] * 20}
    with pytest.raises(verify.Refused, match="denominator of a sum"):
        proved(pair, "1")


def refused_or_proved(text):
    """What the checker proves, or nothing if it refuses in one line."""
    try:
        return verify.verify(text)
    except verify.Refused as refusal:
        return [] if "\n" not in str(refusal) else None  # None fails in the test


@examples(200)
@given(at=st.integers(0, len(LAPLACE) - 1), end=st.integers(0, 40), put=st.text(max_size=6))
def test_any_altered_text_is_refused_or_proves_its_own_claim(at, end, put):
    text = LAPLACE[:at] + put + LAPLACE[at + end :]
    found = refused_or_proved(text)
    assert found is not None
    if not found:
        return
    made = json.loads(text)
    shift = Fraction(made["cases"][0]["releases"][0]["pair"]["shift"])
    for epsilon, delta, _ in found:  # the true curve of one Laplace pair, or a weaker claim
        assert made["cases"][0]["releases"][0]["times"] == 1
        assert float(delta) >= max(0.0, -math.expm1((float(epsilon) - float(shift)) / 2)) - 1e-15


@examples(100)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda x: (
            st.lists(x) | st.dictionaries(st.sampled_from(["format", "about", "claims", "cases", "kind", "pair"]), x)
        ),
        max_leaves=20,
    )
)
def test_any_json_is_refused_in_one_sentence(value):
    with pytest.raises(verify.Refused):
        verify.verify(json.dumps(value))
    with pytest.raises(verify.Refused):
        proved(value, "1")


def test_precision_is_restored_after_a_check():
    before = verify.ctx.prec
    verify.verify(LAPLACE)
    assert verify.ctx.prec == before
    assert np.isfinite(float(proved({"kind": "gaussian", "mu_squared": "1"}, "1").mid()))
