"""What every mechanism says of itself: examples with mutants, worst neighbours, words, sizes and free parameters."""

import dataclasses
import importlib
import inspect
import pkgutil
from numbers import Real

import numpy as np
import pytest

from privsample import DP, AddRemove, CuratorNotes, GaussianMechanism, RandomizedResponse, mechanisms
from privsample.errors import SchemaError
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.discovery import mechanism_classes
from privsample.mechanisms.examples import Example
from privsample.simulations.audit import catalogue as home
from privsample.simulations.audit.distance import check_neighbours, check_statistics, innermost_statistical
from tests.mechanisms.examples import (
    EXAMPLES,
    MECHANISMS,
    data_for,
    each_example,
    each_mechanism,
    worst_neighbours_of,
)

CLASSES = mechanism_classes()


def decides_alike(mechanism, free):
    """Whether calibration would choose a value of the kind that the example has: of several samplings only one."""
    fields = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    found, own = free.value(1.0, free.options | fields), fields[free.decides]
    return type(found) is type(own) or isinstance(found, Real) is isinstance(own, Real) is True


FREE = {
    f"{name}-by-{free.name}": (example.mechanism, free)
    for name, example in EXAMPLES.items()
    for free in type(example.mechanism).free_parameters
    if decides_alike(example.mechanism, free)
}
SIZES = {
    f"{name}-{field.name}": (example.mechanism, field.name)
    for name, example in EXAMPLES.items()
    for field in dataclasses.fields(example.mechanism)
    if field.init and field.type in (int, int | None)
}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_mechanism_has_examples(cls):
    assert cls.examples()
    assert {type(example.mechanism) for example in cls.examples()} == {cls}


def test_every_mechanism_of_the_library_is_public_or_a_mutant():
    for module in pkgutil.walk_packages(mechanisms.__path__, mechanisms.__name__ + "."):
        importlib.import_module(module.name)
    kinds, found = [Mechanism], set()
    while kinds:
        kind = kinds.pop()
        kinds += type.__subclasses__(kind)
        if kind.__module__.startswith(mechanisms.__name__) and not inspect.isabstract(kind):
            found.add(kind.__name__)
    mutants = {type(example.mutant).__name__ for example in EXAMPLES.values()}
    assert len(CLASSES) > 25
    assert found - {cls.__name__ for cls in CLASSES} <= mutants


@each_example
def test_a_mutant_differs_and_draws_numbers_of_the_same_shape(example):
    assert example.mutant != example.mechanism
    assert type(example.mechanism).examples() == type(example.mechanism).examples()
    assert example.claim == worst_neighbours_of(example.mechanism)[0].account
    first, second = worst_neighbours_of(example.mechanism)[0], example.mutant.worst_neighbours()[0]
    assert first.width == second.width or type(example.mutant) is not type(example.mechanism)
    for case in (first, second):
        assert case.draw(case.datasets[0](), 2, np.random.default_rng(1)).reshape(2, -1).shape == (2, case.width)


@each_mechanism
def test_worst_neighbours_are_neighbours_that_can_be_drawn_from(mechanism, rng):
    relation = mechanism.accountant.relation
    for case in worst_neighbours_of(mechanism):
        assert case.descriptions[0] != case.descriptions[1]
        assert all(word.strip() for word in case.descriptions)
        datasets = [build() for build in case.datasets]
        if np.ndim(datasets[0]) if isinstance(datasets[0], np.ndarray) else isinstance(datasets[0], tuple):
            check_records_or_statistics(mechanism, relation, datasets)
        for data in datasets:
            draws = case.draw(data, 3, rng).reshape(3, -1)
            assert draws.shape == (3, case.width)
            assert np.isfinite(draws).all()
            if case.loss is not None:
                assert case.loss(draws).shape == (3,)


def check_records_or_statistics(mechanism, relation, datasets):
    """Datasets of records differ in one; a statistic has a public shape, and is moved within its sensitivity."""
    innermost, bounds = innermost_statistical(mechanism), getattr(mechanism, "contribution", None)
    if innermost is None:
        check_neighbours(relation, *datasets, 1 if bounds is None else bounds.groups * bounds.records_per_group)
    else:
        check_statistics(innermost, *datasets, 1)


@each_mechanism
def test_words(mechanism):
    assert mechanism.title[0].isupper()
    assert mechanism.description.endswith(".")
    assert mechanism.quantity
    assert "\n" not in mechanism.title + mechanism.description + mechanism.quantity
    assert str(mechanism.accountant.relation.description)


@each_mechanism
def test_validation_reads_and_draws_nothing(mechanism, monkeypatch):
    def drawn(*_):
        raise AssertionError("validate must not draw")

    data = data_for(mechanism)
    monkeypatch.setattr(type(mechanism), "_draw", drawn)
    assert isinstance(mechanism.validate(data), CuratorNotes)


SLOW = ("bernoulli-sampling", "smooth", "weighted-categorical", "gibbs-scan", "tempered")


@pytest.mark.parametrize(  # what takes long at a small delta in the long lane: test_targets_as_reported.py has others
    "name", [pytest.param(name, marks=pytest.mark.long if name.startswith(SLOW) else ()) for name in FREE]
)
def test_calibration_meets_what_an_example_costs(name):
    mechanism, free = FREE[name]
    target = DP(epsilon=1.05 * float(mechanism.accountant.epsilon(1e-6)), delta=1e-6)
    fields = [field.name for field in dataclasses.fields(mechanism) if field.init and field.repr]
    given = {name: getattr(mechanism, name) for name in fields if name != free.decides or free.from_field}
    made = type(mechanism).calibrate(target=target, by=free.name, **given)
    assert target.met_by(made.accountant)
    kept = {name: value for name, value in given.items() if name != free.decides}
    assert {name: getattr(made, name) for name in kept} == kept


@pytest.mark.parametrize("name", [name for name, one in MECHANISMS.items() if not type(one).free_parameters])
def test_a_mechanism_without_free_parameters_is_checked(name):
    mechanism = MECHANISMS[name]
    target = DP(epsilon=1.05 * float(mechanism.accountant.epsilon(1e-3)), delta=1e-3)
    given = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism) if field.init}
    assert type(mechanism).calibrate(target=target, **given) == mechanism


@pytest.mark.parametrize("name", SIZES)
def test_what_is_released_can_be_held(name):
    """A field that makes an output larger, or their number, has a limit that says what to lower."""
    mechanism, field = SIZES[name]

    def numbers(one):
        draws = one.release(data_for(mechanism), rng=np.random.default_rng(3)).draws
        return sum(array.size for array in draws.values())

    try:
        larger = dataclasses.replace(mechanism, **{field: 1 + (getattr(mechanism, field) or 0)})
        grows = numbers(larger) > numbers(mechanism)
    except SchemaError:  # it takes other data
        grows = larger.worst_neighbours()[0].width > worst_neighbours_of(mechanism)[0].width
    except ValueError:  # no such number is allowed
        grows = False
    if field == "draws" or grows:
        with pytest.raises(ValueError, match=rf"would have to be held in memory at once.* lower .*{field}"):
            dataclasses.replace(mechanism, **{field: 2**40})


def test_an_example_is_checked():
    good = GaussianMechanism(sensitivity=1, noise_std=1)
    right = {"name": "noise", "mechanism": good, "mutant": good, "bug": "none"}
    assert Example(**right).samples == 30_000
    for wrong, error in (
        ({"mechanism": GaussianMechanism}, TypeError),
        ({"mutant": None}, TypeError),
        ({"name": 3}, TypeError),
        ({"bug": ""}, ValueError),
        ({"name": "two words"}, ValueError),
        ({"samples": 0}, ValueError),
    ):
        with pytest.raises(error, match=f"{next(iter(wrong))} must"):
            Example(**right | wrong)


def test_names_of_examples_differ_and_belong_to_their_class(monkeypatch):
    one = RandomizedResponse(log_odds=1, relation=AddRemove(), slots=2)
    examples = (Example.with_wrong_fields("laplace", one, log_odds=2.0, bug="the truth too often"),)
    monkeypatch.setattr(RandomizedResponse, "examples", classmethod(lambda cls: examples))
    home._examples_of.cache_clear()
    with pytest.raises(ValueError, match="'laplace' of RandomizedResponse has the name of one of LaplaceMechanism"):
        home.catalogue()
    monkeypatch.setattr(GaussianMechanism, "examples", classmethod(lambda cls: examples))
    home._examples_of.cache_clear()
    with pytest.raises(TypeError, match=r"GaussianMechanism\.examples\(\) must return"):
        home.catalogue()
    monkeypatch.undo()
    home._examples_of.cache_clear()
    assert list(home.catalogue()) == list(EXAMPLES)


def test_a_mechanism_that_says_nothing_of_itself():
    class Silent(Mechanism):
        __slots__ = ()
        accountant = GaussianMechanism(sensitivity=1, noise_std=1).accountant

        def _statistic(self, data):
            return data

        def _draw(self, statistic, rng):
            return {}

    assert Silent.examples() == ()
    assert Silent().title == "Silent"
    for ask in (
        lambda: Silent().worst_neighbours(),
        lambda: Silent().extreme_records(),
        lambda: Silent().worst_neighbours_through(Silent(), (), 1),
    ):
        with pytest.raises(TypeError, match=r"Silent defines no"):
            ask()
