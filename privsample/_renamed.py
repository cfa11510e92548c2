"""Former names of public classes and former fields in files, so that files of older versions can be read.

If a public class is renamed or its fields change, this module states how to read older files:

- `RENAMED[former name] = current name`;
- `UPGRADES[name in the file, version in the file] = function` from fields of that version to fields of the next.

The version that is written for a class is one more than the largest version with a step of its current or a former
name, and 1 without steps. Steps receive decoded fields: numbers, text, tuples and values.
Before a table is edited, add files of the current format to the tests: `python -m tests.data.make`.
"""

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

Step = Callable[[dict[str, Any]], dict[str, Any]]


def _fields(**present: str) -> Step:
    """An upgrade step that renames fields: `former=current`."""
    return lambda fields: {present.get(name, name): item for name, item in fields.items()}


def _movable_records(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace `records_may_move`, which nothing in the file proves for parts under ReplaceOne, by STATED."""
    from privsample import Assumption, ReplaceOne

    left = {name: item for name, item in fields.items() if name != "records_may_move"}
    if not fields.get("records_may_move") or not all(isinstance(part.relation, ReplaceOne) for part in fields["parts"]):
        return left
    return left | {"shared": True, "assumptions": frozenset(fields.get("assumptions", ())) | {Assumption.STATED}}


def _weight_of_prior(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace `prior_divisor` d in (0, 1] by `prior_weight` 1/d, rounded down.

    A smaller weight costs more, so that the account of an older file does not become smaller. One account is rounded up
    instead: of a group under a prior whose smallest count, divided by d, is 1. Below 1 no account of groups is exact.
    """
    if "prior_divisor" not in fields:
        return fields
    left = {name: item for name, item in fields.items() if name != "prior_divisor"}
    divisor = fields["prior_divisor"]
    if not divisor > 0:
        return left | {"prior_weight": divisor}  # refused by the class
    weight = min(1 / divisor, sys.float_info.max)
    if Fraction(weight) * Fraction(divisor) > 1:
        weight = math.nextafter(weight, 0.0)
    if left.get("group_size", 1) > 1 and not left["model"].supports_groups(weight):
        weight = math.nextafter(weight, math.inf)
    return left | {"prior_weight": weight}


def _order_of_records(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace `hidden_order`, of descent in one epoch, by `order`."""
    left = {name: item for name, item in fields.items() if name != "hidden_order"}
    return left | {"order": "shuffle_once" if fields.get("hidden_order", True) else "given"}


def _floats(fields: dict[str, Any]) -> dict[str, Any]:
    """Add `exact=False`: the version of the file drew floating-point numbers."""
    return fields | {"exact": False}


def _sampler(fields: dict[str, Any]) -> dict[str, Any]:
    """Replace `sampler` by `exact`: OpenDP drew in exact arithmetic, NumPy drew floating-point numbers."""
    left = {name: item for name, item in fields.items() if name != "sampler"}
    return left | {"exact": fields.get("sampler") == "opendp"}


def _until_accepted(fields: dict[str, Any]) -> dict[str, Any]:
    """Rejection made proposals until enough were accepted, before there was `constant_time`, and drew floats."""
    return {"constant_time": False, "exact": False} | fields


def _float_chain(fields: dict[str, Any]) -> dict[str, Any]:
    """Name the rounding of a Markov chain's steps FLOAT_CHAIN, which files of older versions called IDEAL_REALS."""
    stated = fields.get("assumptions", frozenset())
    ideal = [one for one in stated if one.name == "IDEAL_REALS"]
    return (
        fields | {"assumptions": stated - {*ideal} | {type(one)["FLOAT_CHAIN"] for one in ideal}} if ideal else fields
    )


def _timing(fields: dict[str, Any]) -> dict[str, Any]:
    """Add TIMING, which accounts of logistic draws of older versions assumed and did not state."""
    stated = fields.get("assumptions", frozenset())
    return fields | {"assumptions": stated | {type(one)["TIMING"] for one in stated}} if stated else fields


RENAMED: dict[str, str] = {
    "Differences": "RecordSensitivity",
    "Hierarchy": "MultilevelRelease",
    "NoiseAfter": "PostNoise",
    "TruncatedRuns": "TruncatedRepetitions",
}
UPGRADES: dict[tuple[str, int], Step] = {
    ("BetaQuery", 1): _weight_of_prior,
    ("BetaQuery", 2): _floats,
    ("BetaShifts", 1): _fields(whole="integer_valued"),
    ("BrownianMotion", 1): _floats,
    ("ClippedSum", 1): _floats,
    ("ConcentratedPosterior", 1): _weight_of_prior,
    ("ConcentratedPosterior", 2): _floats,
    ("ConditionalAccountant", 1): _fields(floor="event_probability", stops="geometric_stopping"),
    ("ConditionalSelection", 1): _fields(accept="threshold", floor="stop_probability"),
    ("ContractionAccountant", 1): _float_chain,
    ("Differences", 1): _fields(vectors="differences", attained="tight", length="l2"),
    ("DiffusedPosterior", 1): _floats,
    ("DirectPosterior", 1): _floats,
    ("Domain", 1): _fields(whole="integer_valued"),
    ("EmissionAccountant", 1): _fields(least="min_records"),
    ("ExponentialMechanism", 1): _floats,
    ("GammaRateShift", 1): _fields(reach="max_shift", each="shape_per_record"),
    ("GammaShapeShift", 1): _fields(reach="max_shift"),
    ("GaussianMechanism", 1): _floats,
    ("GaussianSum", 1): _floats,
    ("LaplaceMechanism", 1): _floats,
    ("LaplaceSum", 1): _floats,
    ("HiddenStateAccountant", 1): _float_chain,
    ("LangevinAccountant", 1): _float_chain,
    ("LinearRegression", 1): _fields(spread="feature_prior_scale"),
    ("LogisticAccountant", 1): _weight_of_prior,
    ("LogisticAccountant", 2): _timing,
    ("LogisticPosterior", 1): _weight_of_prior,
    ("LogisticPosterior", 2): _until_accepted,
    ("NoisyScore", 1): _fields(law="distribution"),
    ("NoisyProjectedSGD", 1): _order_of_records,
    ("NoisyStatistics", 1): _sampler,
    ("MarkovKernel", 1): _floats,
    ("NormalShift", 1): _fields(reach="record_range"),
    ("OrnsteinUhlenbeck", 1): _floats,
    ("Parallel", 1): _fields(moved="records_may_move"),
    ("Parallel", 2): _movable_records,
    ("PermuteAndFlip", 1): _floats,
    ("PosteriorAccountant", 1): _weight_of_prior,
    ("PrivateGibbsHMM", 1): _fields(kept="released_sweeps"),
    ("PrivateGibbsHMM", 2): _floats,
    ("PrivateGibbsNetwork", 1): _floats,
    ("ProfileAccountant", 1): _fields(laws="distributions"),
    ("RandomizedResponse", 1): _floats,
    ("RecordSensitivity", 2): _fields(whole="integer_valued"),
    ("RepeatedSelection", 1): _fields(runs="repetitions"),
    ("ReportNoisyMax", 1): _floats,
    ("SGDAccountant", 1): _order_of_records,
    ("SGDAccountant", 2): _float_chain,
    ("SelectionAccountant", 1): _fields(runs="repetitions"),
    ("SelectionWithCount", 1): _fields(runs="repetitions"),
    ("TemperedPosterior", 1): _floats,
    ("TruncatedRuns", 1): _fields(law="distribution"),
    ("UniformReset", 1): _floats,
}
