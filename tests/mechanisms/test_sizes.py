"""Sizes beyond reason are refused where a mechanism is made: nothing is drawn, nothing spent, no memory asked for."""

import dataclasses

import numpy as np
import pytest

from privsample import (
    BernoulliAccountant,
    BetaBernoulli,
    BrownianMotion,
    DirichletCategorical,
    EmissionAccountant,
    GaussianMechanism,
    LaplaceAccountant,
    LogisticLoss,
    NoisyProjectedSGD,
    NoisyStatistics,
    PosteriorAccountant,
    PrivateGibbsHMM,
    PrivateStatistics,
    PublicRecords,
    RandomizedResponse,
    ReplaceOne,
    SGDAccountant,
)
from privsample._checks import LARGEST_INTEGER, check_memory, positive_integer
from privsample.mechanisms.base import Mechanism
from tests.counting import counted
from tests.mechanisms.examples import EXAMPLES

MODEL = BetaBernoulli(alpha=2, beta=3)
LOSS = LogisticLoss(features=3, norm=1.0, radius=1.0, penalty=0.1)
BASE = GaussianMechanism(sensitivity=1.0, noise_std=1.0, shape=(3,))
PUBLIC = PublicRecords(rows=[[1.0, 2.0, 3.0]], targets=[1.0])
CHAIN = {"states": 2, "categories": (3, 2), "entries": (4, 6), "temperature": 3.0}
LIMITED_BY_OTHERS = {
    "missing",
    "slots",
    "released_sweeps",
    "public_tail",
}  # symbols, records, sweeps, and public records


def sizes_of_examples():
    """Every field of an example that is a whole number, with the other fields: (class, fields, name)."""
    for example in EXAMPLES.values():
        mechanism = example.mechanism
        fields = [field for field in dataclasses.fields(mechanism) if field.init and field.repr]
        given = {field.name: getattr(mechanism, field.name) for field in fields}
        for field in fields:
            if field.type in (int, int | None) and field.name not in LIMITED_BY_OTHERS:
                yield type(mechanism), {name: one for name, one in given.items() if name != field.name}, field.name


SIZES = [
    *sizes_of_examples(),
    (NoisyProjectedSGD, {"loss": LOSS, "n": 9, "rate": 0.1, "noise_std": 1.0, "public": PUBLIC}, "public_tail"),
    (PrivateGibbsHMM, CHAIN | {"sweeps": LARGEST_INTEGER}, "released_sweeps"),
    (
        EmissionAccountant,
        {"n": 9, "min_records": 4, "prior": 1.0, "temperature": 2.0, "truncation": 1e-40},
        "categories",
    ),
    (EmissionAccountant, {"min_records": 4, "categories": 3, "prior": 1.0, "temperature": 2.0, "truncation": 0.1}, "n"),
    (PosteriorAccountant, {"model": MODEL, "n": 9}, "draws"),
]
HELD = {"draws", "width", "dimension", "features", "states", "released_sweeps", "categories", "public_tail"}


@pytest.mark.parametrize(("cls", "fields", "name"), SIZES, ids=[f"{case[0].__name__}-{case[2]}" for case in SIZES])
def test_every_size_has_an_end(cls, fields, name):
    def refuse():
        for size in (2**53 + 1, 2**63, 10**30, 10**5000):
            with pytest.raises(ValueError, match=rf"{name} must be at most 2\*\*53"):
                cls(**fields, **{name: size})
        if name in HELD and (issubclass(cls, Mechanism) or name == "categories") and cls is not RandomizedResponse:
            with pytest.raises(ValueError, match=rf"would have to be held in memory at once.* lower .*{name}"):
                cls(**fields, **{name: 2**40})

    refuse()
    with counted() as cost:
        refuse()
    assert cost.calls.total() < 5000
    assert cost.numbers < 20_000


@pytest.mark.parametrize("count", [0, -(10**30)])
def test_sizes_begin_at_one(count):
    with pytest.raises(ValueError, match="at least 1"):
        positive_integer(n=count)
    assert positive_integer(n=np.int64(2**53)) == 2**53


def test_what_can_be_held_is_made():
    check_memory(400_000_000, lower="draws")
    with pytest.raises(ValueError, match=r"400,000,001 numbers would have to be held .* lower draws"):
        check_memory(400_000_001, lower="draws")
    made = NoisyStatistics(model=DirichletCategorical(alpha=(1, 1)), n=9, scale=1.0, draws=200_000_000)
    assert made.accountant.draws == 200_000_000
    with pytest.raises(ValueError, match="lower draws"):
        NoisyStatistics(model=DirichletCategorical(alpha=(1, 1)), n=9, scale=1.0, draws=200_000_001)


@pytest.mark.parametrize(
    ("build", "lower"),
    [
        (lambda: GaussianMechanism(sensitivity=1.0, noise_std=1.0, shape=(10**6, 10**6)), "shape"),
        (lambda: BrownianMotion(sensitivity=1.0, time=1.0, shape=(10**6, 10**6)), "shape"),
        (lambda: PrivateGibbsHMM(**CHAIN | {"categories": (3, 2**50)}), "categories"),
        (lambda: PrivateGibbsHMM(**CHAIN | {"states": 10**4, "released_sweeps": 100}), "states"),
        (lambda: PrivateGibbsHMM(**CHAIN | {"entries": (1,) * 200, "categories": (10**7, 2)}), "categories"),
        (lambda: RandomizedResponse(log_odds=1.0, relation=ReplaceOne(n=2**40)), "n$"),
        (lambda: (2**53 * LaplaceAccountant(sensitivity=1.0, scale=1.0)).epsilon(1e-3), "releases"),
        (lambda: BernoulliAccountant(base=BASE.accountant, margin=0.1, draws=2**30, dimension=2**30), "dimension"),
        (lambda: SGDAccountant(loss=LOSS, n=2**50, rate=0.1, noise_std=1.0).shifts, "n, or raise batch"),
    ],
)
def test_arrays_that_cannot_be_held(build, lower):
    with pytest.raises(ValueError, match=f"held in memory at once.*lower .*{lower}"):
        build()


def test_inference_draws_no_more_than_can_be_held():
    statistics = PrivateStatistics(release=NoisyStatistics(model=MODEL, n=9, scale=1.0).release(np.ones(9)))
    with pytest.raises(ValueError, match="lower draws"):
        statistics.draw(2**40)


def test_records_of_a_chain_add_up_to_a_number_that_a_float_holds():
    with pytest.raises(ValueError, match=r"the sum of entries must be at most 2\*\*53"):
        PrivateGibbsHMM(**CHAIN | {"entries": (2**53, 1)})


@pytest.mark.parametrize("name", ["categories", "entries"])
@pytest.mark.parametrize("wrong", [None, 3, "32", 2.5])
def test_what_is_no_list_is_said_to_be_none(name, wrong):
    with pytest.raises(TypeError, match=f"{name} must be a list"):
        PrivateGibbsHMM(**CHAIN | {name: wrong})
