"""Every mechanism on the command line, found by its description: names, options and prices."""

import inspect
import json
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import privsample as ps
from privsample import DP, AddRemove, GaussianSum, ReplaceOne
from privsample._serial import decode, encode
from privsample.cli import _parser, build, data
from privsample.cli.choice import mechanism_class, mechanisms, option
from privsample.cli.options import join_negative_values
from privsample.distributions.models.base import Model
from privsample.distributions.profile_graph import ProfileGraph
from privsample.mechanisms.arguments import (
    Argument,
    CommandLine,
    arguments,
    command_name,
    field_of_kind,
    parameter_help,
    summary,
)
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.sgd import PublicRecords
from privsample.relations import Relation
from privsample.simulations.audit.catalogue import catalogue

EXAMPLES = {name: example.mechanism for name, example in catalogue().items()}
LIMIT = ["--epsilon", "1", "--delta", "1e-6"]


def text(value):
    """A value as the command line writes it."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | float() | str():
            return str(value).replace(" ", "-")
        case ProfileGraph() | PublicRecords():
            name = f"{abs(hash(value))}.json"
            Path(name).write_text(json.dumps(encode(value)))
            return name
        case np.ndarray():
            return ";".join(",".join(map(repr, row.tolist())) for row in np.atleast_2d(value))
        case tuple() if value and isinstance(value[0], str):
            return ",".join(value)
        case tuple() if value and not isinstance(value[0], (int, float)):
            return "".join(f"({text(one)}) " for one in value).strip()
        case tuple():
            return ",".join(map(repr, value))
    return " ".join([command_name(type(value)), *(f"{name}={wrapped(found)}" for name, found in options(value))])


def wrapped(value):
    found = text(value)
    return f"({found})" if " " in found else found


def options(value):
    """The options of a value with what each is, those that are as by default left out."""
    defaults = {item.name: item.default for item in fields(value)}
    for argument in arguments(type(value)):
        if argument.name in ("relation", "n", "unit") and isinstance(getattr(value, "relation", None), Relation):
            relation = value.relation
            found = {"unit": relation.unit} | ({"n": relation.n} if isinstance(relation, ReplaceOne) else {})
            found |= {"relation": "add-remove" if isinstance(relation, AddRemove) else "replace-one"}
            if argument.name in found:
                yield argument.name, found[argument.name]
        elif len(argument.fields) > 1:
            yield argument.name, tuple(getattr(value, name) for name in argument.fields)
        elif argument.fields:
            own = getattr(value, argument.fields[0])
            if own is not None and np.size(own) and repr(own) != repr(defaults[argument.fields[0]]):
                yield argument.name.replace("_", "-"), own


def command_words(mechanism):
    """The options that make this mechanism."""
    words = ["--mechanism", command_name(type(mechanism))]
    for name, found in options(mechanism):
        shown = option(name, type(mechanism))
        if isinstance(found, bool):
            words.append(shown if found else "--no-" + shown.removeprefix("--"))
        elif name == "model" and isinstance(found, Model):
            words += ["--model", text(found)]
        else:
            words += [shown, text(found)]
    return words


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_written_as_a_command(name):
    mechanism = EXAMPLES[name]
    args = _parser().parse_args(join_negative_values(["account", *command_words(mechanism)]))
    given = build.fields(args)
    made = build.any_mechanism(args, given) if not mechanism.free_parameters else args.kind(**given)
    assert made == mechanism


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_written_inside_another_value(name, run):
    mechanism = EXAMPLES[name]
    from privsample.cli.syntax import value

    assert value(Mechanism, text(mechanism)) == mechanism


def test_the_examples_cover_every_mechanism_of_the_library():
    own = {cls for cls in mechanisms().values() if cls.__module__.startswith("privsample.")}
    assert own == {type(mechanism) for mechanism in EXAMPLES.values()}
    assert own == {
        found
        for found in (getattr(ps, name) for name in ps.__all__)
        if isinstance(found, type) and issubclass(found, Mechanism) and not inspect.isabstract(found)
    }


@pytest.mark.parametrize("name", mechanisms())
def test_every_option_of_every_mechanism_has_a_help_and_can_be_shown(run, name):
    ran = run("mechanisms", name, "--json")
    (found,) = ran.json["mechanisms"]
    assert all(one["help"] and one["value"] for one in found["options"] if one["option"] != "--model")
    assert summary(mechanism_class(name))[:20] in run("mechanisms", name).out
    for command in ("account", "release", "audit"):
        shown = run(command, "--mechanism", name, "--help").out
        assert all(one["option"] in shown for one in found["options"])


def test_the_list_names_every_mechanism(run):
    ran = run("mechanisms")
    assert (ran.code, ran.err) == (0, "")
    assert all(name in ran.out for name in mechanisms())
    assert [one["name"] for one in run("mechanisms", "--json").json["mechanisms"]] == list(mechanisms())


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    "name", ["gaussian", "poisson-sample", "smooth-categorical", "logistic-posterior", "multilevel-release"]
)
def test_prices(run, name, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    mechanism = EXAMPLES[name]
    ran = run("account", *command_words(mechanism))
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= width
    document = run("account", *command_words(mechanism), "--json").json
    assert decode(document["mechanism"]) == mechanism
    assert document["epsilon"][1]["epsilon"] == mechanism.accountant.epsilon(1e-6)


@pytest.mark.parametrize(
    "words",
    [
        "gaussian --sensitivity 2 --n 50",
        "laplace --sensitivity 1 --shape 2,3",
        "gaussian-sum --bounds -1,3 --draws 2",
        "clipped-sum --norm 1 --width 3",
        "subsampled --base 'gaussian-sum noise-std=3 bounds=0,1'",
        "randomized-response --n 30 --categories 3",
        "logistic --n 200 --features 2 --norm 1 --prior-std 5",
        "logistic --n 200 --features 2 --norm 1 --prior-std 5 --by prior-weight --data-weight 0.9",
        "repeated-selection --base 'gaussian sensitivity=1 noise-std=16' --eta 0.5",
        "noisy-projected-sgd --loss 'squared-loss features=1 norm=1 radius=1 target=1' --n 40 --rate 0.1",
        "post-noise --base 'gaussian sensitivity=1 noise-std=1'",
        "noisy --model 'normal-unknown-variance mean=0 observations=1 shape=2 scale=1 bounds=-2,2' --n 60",
    ],
)
def test_a_limit_decides_the_free_parameter(run, words):
    ran = run("account", "--mechanism", *shlex.split(words), *LIMIT, "--json")
    assert ran.code == 0, ran.err
    made = decode(ran.json["mechanism"])
    assert DP(epsilon=1, delta=1e-6).met_by(made.accountant)
    assert not DP(epsilon=0.5, delta=1e-6).met_by(made.accountant)


def test_names_and_help_follow_from_the_class():
    class NUTSStatistics:
        """Draw. And more.

        Parameters
        ----------
        noise_std : float
            The noise's standard deviation, above 0. In nats.
        low, high : float
            The bounds.

        Returns
        -------
        other : int
            Nothing.
        """

    assert command_name(NUTSStatistics) == "nuts-statistics"
    assert summary(NUTSStatistics) == "Draw"
    assert parameter_help(NUTSStatistics) == {
        "noise_std": "The noise's standard deviation, above 0",
        "low": "The bounds",
        "high": "The bounds",
    }
    assert command_name(ps.GaussianMechanism) == "gaussian"
    assert command_name(ps.PoissonSampling) == "poisson-sampling"
    assert field_of_kind(ps.DirectPosterior, Model) == "model"
    assert field_of_kind(GaussianSum, Model) is None
    assert all(isinstance(cls.command, CommandLine) for cls in mechanisms().values())
    assert all(isinstance(free, FreeParameter) for cls in mechanisms().values() for free in cls.free_parameters)
    literal = Argument(name="x", kind=Literal["a", "b"])
    assert data._OPTIONS
    assert literal.required


@pytest.mark.parametrize("words", ["1,nan,3", "NaN,2", "-nan,1.5"])
def test_nan_is_no_candidate(run, words):
    ran = run("account", "--mechanism", "exponential", f"--candidates={words}", "--rate", "1")
    assert ran.code != 0
    assert f"expected numbers, or names, with commas between them, got '{words}' with NaN" in " ".join(ran.err.split())
    assert run("account", "--mechanism", "exponential", "--candidates=nan,flour,rice", "--rate", "1").code == 0
