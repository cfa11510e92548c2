"""Certificates of single pairs, and what the checker proves of them."""

import json

from privsample import verify


def document(pair, epsilon="1", delta="1", times=1, step="1/64", tail="1e-12"):
    """A certificate with one pair and one claim, in the format that has no digest."""
    return {
        "format": verify.FORMER,
        "about": {},
        "claims": [{"epsilon": epsilon, "delta": delta}],
        "cases": [{"releases": [{"times": times, "pair": pair}], "step": step, "tail": tail}],
    }


def without_digest(text):
    """The document of a certificate in the format that has no digest, so that the proof alone can refuse changes."""
    found = json.loads(text)
    del found["digest"]
    return found | {"format": verify.FORMER}


def proved(pair, epsilon, **further):
    """The delta that the checker proves for one pair at an epsilon."""
    ((_, _, value),) = verify.verify(json.dumps(document(pair, epsilon, **further)))
    return value


def finite(p, q, error="0"):
    return {"kind": "finite", "p": p, "q": q, "error": error}


LAPLACE = json.dumps(document({"kind": "laplace", "shift": "1"}, "1", "0"))  # a pure guarantee of epsilon 1
