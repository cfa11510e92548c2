"""Certificates of single pairs, and what the checker proves of them."""

import json

from privsample import verify


def document(pair, epsilon="1", delta="1", times=1, step="1/64", tail="1e-12"):
    """A certificate with one pair and one claim."""
    return {
        "format": verify.FORMAT,
        "about": {},
        "claims": [{"epsilon": epsilon, "delta": delta}],
        "cases": [{"releases": [{"times": times, "pair": pair}], "step": step, "tail": tail}],
    }


def proved(pair, epsilon, **further):
    """The delta that the checker proves for one pair at an epsilon."""
    ((_, _, value),) = verify.verify(json.dumps(document(pair, epsilon, **further)))
    return value


def finite(p, q, error="0"):
    return {"kind": "finite", "p": p, "q": q, "error": error}


LAPLACE = json.dumps(document({"kind": "laplace", "shift": "1"}, "1", "0"))  # a pure guarantee of epsilon 1
