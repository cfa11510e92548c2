"""Every public function and class, with valid arguments, and each of them in turn replaced by one of a wrong type."""

import enum
import functools
import inspect
import linecache
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline

import privsample as ps
from privsample.simulations.audit.catalogue import catalogue
from tests import families

WRONG = {
    "None": None,
    "a tuple": (1, 1e-6),
    "an empty tuple": (),
    "text": "0.5",
    "a float": 2.5,
    "NaN": float("nan"),
    "an array": np.array([[0.25, 0.5], [1.0, 2.0]]),
    "an object": object(),
}
PACKAGE = str(Path(ps.__file__).parent)


class Call(NamedTuple):
    """A function with arguments that it takes, by name."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


def _shift(x: Any, time: float, rng: Any) -> Any:
    return x


def _bound(time: float, distance: float) -> float:
    return 0.1


def _walk(item: Any, found: dict[type, Any]) -> None:
    """Keeps the first instance of each public dataclass within a value."""
    if isinstance(item, (tuple, list, frozenset)):
        for member in item:
            _walk(member, found)
    elif isinstance(item, dict):
        for member in item.values():
            _walk(member, found)
    elif is_dataclass(item) and not isinstance(item, type):
        found.setdefault(type(item), item)
        for field in fields(item):
            _walk(getattr(item, field.name, None), found)
        if isinstance(item, ps.Mechanism):
            _walk(item.accountant, found)


@functools.cache
def instances() -> dict[type, Any]:
    """One value of every public class of values: those of the examples, and those that no example holds."""
    gaussian, model = ps.GaussianAccountant(sensitivity=1.0, noise_std=2.0), ps.BetaBernoulli(alpha=2, beta=3)
    release = ps.NoisyStatistics(model=model, n=4, scale=1.0).release([0, 1, 1, 0])
    uniform = np.array([0.5, 0.5])
    masses = ps.LossDistribution(losses=np.array([-1.0, 1.0]), masses=np.array([0.3, 0.7]))
    rows = ps.PublicRecords(rows=np.zeros((2, 2)), targets=np.zeros(2))
    further = (
        *(
            ps.DP(epsilon=1, delta=1e-6),
            ps.RDP(order=2, epsilon=1),
            ps.ZCDP(rho=1),
            ps.Risk(baseline=0.1, success=0.5),
            ps.GDP(mu=1),
            ps.AddRemove(),
            release,
            release.mechanism.tally([0, 1, 1, 0], part="all"),
        ),
        *(ps.ApproximateAccountant(stated_epsilon=1, stated_delta=1e-6), ps.PureAccountant(stated_epsilon=1)),
        gaussian.certificate(delta=1e-6),
        *(ps.BoundedRangeAccountant(loss_range=1), ps.ZCDPAccountant(rho=1), gaussian + gaussian, gaussian | gaussian),
        *(
            ps.Group(base=ps.ZCDPAccountant(rho=1), size=2),
            ps.CurveAccountant(points=np.array([[0.0, 0.5], [1.0, 0.1]])),
        ),
        ps.HiddenStateAccountant(moves=(1, 0), noise_stds=(1, 1), constants=(1, 0.5)),
        *(ps.PairAccountant(p=uniform, q=np.array([0.3, 0.7])), ps.LossDistributionAccountant(first=masses)),
        ps.TradeoffAccountant(knots=np.array([[0.0, 1.0], [0.5, 0.2], [1.0, 0.0]])),
        ps.NormalUnknownVariance(mean=0, observations=1, shape=2, scale=1, bounds=(0, 1)),
        ps.LinearRegression(feature_bounds=((0, 1),), target_bounds=(0, 1), shape=2, scale=1),
        *(ps.QuantileUtility(), ps.CountUtility()),
        *(ps.Beta(a=1, b=2), ps.Gamma(shape=1, rate=2), ps.Normal(location=0, scale=1), ps.Dirichlet(alpha=(1, 2))),
        *(ps.Binomial(maximum=3, rate=0.5), ps.Poisson(mean=2), ps.BetaBinomial(maximum=3, alpha=1, beta=2)),
        *(ps.TruncatedRepetitions(distribution=ps.Poisson(mean=2), maximum=4), ps.FixedRepetitions(number=3)),
        ps.FamilyTruncation(sampler=families.draw_truncated, statistic_bounds=lambda low, high: ([low], [high])),
        *(
            ps.BetaShift(a=1, b=2),
            ps.BetaShifts(a=1, b=2, integer_valued=True),
            ps.GammaShapeShift(shape=1, max_shift=2),
        ),
        *(
            ps.GammaRateShift(shape=1, rate=2, max_shift=1),
            ps.NormalShift(variance=1, noise_variance=1, record_range=1),
        ),
        *(ps.Affine(matrix=np.eye(2)), ps.Ball(radius=1), ps.Box(low=0, high=1), ps.Scaling(factor=0.5)),
        *(ps.StatedMap(function=np.tanh, stated=0.5), ps.RecordSensitivity(differences=np.eye(2)), rows),
        *(
            ps.Domain(low=0, high=1, missing=0.5),
            ps.NoisyScore(noise_std=1.0),
            ps.SquaredLoss(features=2, norm=1, radius=1, target=1),
        ),
        *(ps.DiscreteGaussianNoise(noise_std=1), ps.DiscreteLaplaceNoise(scale=1), ps.GaussianNoise(noise_std=1)),
        *(ps.LaplaceNoise(scale=1), ps.WithReplacement(n=4, m=2), ps.WithoutReplacement(n=4, m=2)),
        *(
            ps.PoissonSampling(rate=0.5),
            ps.StratifiedSampling(sizes=(3, 2), samples=(1, 1)),
            ps.TableSampling(n=2, samples=((0,), (1,)), probabilities=(0.5, 0.5)),
            ps.SampleCoupling(first={"a": 1.0}, second={"b": 1.0}, between={("a", "b"): 1.0}),
            ps.SamplingPart(rate=0.5, group=1, sizes=(1, 2)),
            *(ps.ColumnFormat(names=("a", "b")), ps.RowFormat(width=2), ps.LabelledFormat(features=2)),
            ps.TabulatedRepetitions(probabilities=(0.5, 0.5)),
            ps.PrivateStatistics(release=release),
            ps.CuratorNotes(title="t", facts={"a": 1}),
        ),
        *(ps.StatedDiffusion(transition=_shift, sensitivity_bound=_bound), ps.BrownianDiffusion()),
        *(ps.PointStart(point=(0.0, 1.0)), ps.StatedStart(function=_bound), ps.UniformInBall(radius=1)),
        *(families.poisson(), *families.poisson().neighbouring_posteriors, families.poisson().prior),
        *(families.gamma_normalizer(), ps.StatedKernel(function=_bound, doeblin=0.5)),
        ps.DrawsWithNotes(draws={"x": np.zeros(1)}),
        ps.PosteriorDraws(draws={"x": np.zeros((4, 1))}, account=gaussian, method="exact"),
        ps.DiscretePair(log_p=np.log(uniform), log_q=np.log(uniform)),
        *(ps.CurveBound(name="c", log_delta=min), ps.RenyiBound(name="r", renyi=np.asarray)),
        ps.PrivacyBounds.from_renyi(np.asarray),
        ps.bernoulli_amplification(1.0, order=2, margin=0.3),
        *(ps.Argument(name="x"), ps.CommandLine(), ps.FreeParameter(name="x", advice="a")),
        ps.LangevinBias(strong_convexity=1, smoothness=2, step_size=0.1, steps=3, dimension=2, start_distance=1),
        *(ps.ProbitLikelihood(clip=1), ps.SoftmaxLikelihood(classes=3), ps.OrdinalLikelihood(cutpoints=(-1.0, 1.0))),
        ps.ConfidenceSet(release=release, parameters={"theta": (0, 1)}, seed=(1, 2)),
        _synthetic(),
        ps.combine([1.0, 2.0], [0.1, 0.1]),
        *(ps.HuberLikelihood(threshold=1), ps.NormalLikelihood(noise_std=1, clip=1)),
        *(ps.PoissonLikelihood(max_count=5, clip=2), ps.LogisticModel(features=2)),
        ps.OneRunPlan(claim=gaussian, guesses=2, included=(True, False, True)),
        ps.OneRunVerdict(claim=gaussian, canaries=3, guesses=2, right=1),
    )
    found: dict[type, Any] = {}
    _walk((list(catalogue().values()), _mechanisms()[0].worst_neighbours(), further), found)
    return {cls: item for cls, item in found.items() if getattr(ps, cls.__name__, None) is cls}


def _mechanisms() -> list[ps.Mechanism]:
    return [example.mechanism for example in catalogue().values()]


def _fields(item: Any) -> dict[str, Any]:
    """The fields with which a value is made anew; what it computes of others is left out."""
    computed = (
        {name for name, one in item.command.arguments.items() if one is None} if isinstance(item, ps.Mechanism) else {}
    )
    return {f.name: getattr(item, f.name) for f in fields(item) if f.init and f.name not in computed}


def constructors() -> Iterator[Call]:
    """Every public class of values."""
    for cls, item in instances().items():
        yield Call(cls.__name__, cls, _fields(item))


def calibrations() -> Iterator[Call]:
    """`calibrate` of every mechanism of the examples, with a target that is none."""
    for cls, item in instances().items():
        if isinstance(item, ps.Mechanism):
            given = _fields(item)
            for free in item.free_parameters[:1]:
                given.pop(free.decides, None)
            yield Call(f"{cls.__name__}.calibrate", functools.partial(cls.calibrate, **given), {"target": None})
    model = ps.BetaBernoulli(alpha=2, beta=3)
    given = {"target": ps.DP(epsilon=9.0, delta=0.1), "model": model, "n": 4, "noise": "laplace", "draws": 1}
    yield Call("NoisyStatistics.calibrate", ps.NoisyStatistics.calibrate, given)
    given = {"target": ps.DP(epsilon=9.0, delta=0.1), "by": "data_weight", "model": model, "n": 4, "draws": 1}
    yield Call("DiffusedPosterior.calibrate", ps.DiffusedPosterior.calibrate, given)


def methods() -> Iterator[Call]:
    """The methods of accounts, mechanisms, releases and models whose parameters have values that are known by name."""
    gaussian = ps.GaussianAccountant(sensitivity=1.0, noise_std=2.0)
    known = {
        "orders": 2.0, "epsilon": 1.0, "delta": 0.1, "size": 2, "low": 2, "high": 4, "view": "rdp", "group": 1,
        "relation": ps.ReplaceOne(n=4), "rng": np.random.default_rng(0), "document": gaussian.to_dict(), "times": 2,
        "draws": 2, "n": 4, "points": np.array([0.2]), "x": np.array([0.2]), "shape": (2,), "count": 2,
        "losses": 1.0, "prior_odds": 1.0, "prior": 0.5, "tail_probability": 0.1,
        "false_positive_rate": 0.1, "baseline": 0.1,
    }  # fmt: skip
    seen = set()
    for cls, item in instances().items():
        if not isinstance(item, (ps.Accountant, ps.Mechanism, ps.Relation, ps.Release)):
            continue
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_") or name == "with_relation":  # which takes its argument on trust
                continue
            bound = getattr(item, name)
            parameters = inspect.signature(bound).parameters
            given = {one: known[one] for one in parameters if one in known}
            needed = {one for one, what in parameters.items() if what.default is inspect.Parameter.empty}
            if given and needed <= set(given) and method not in seen:
                seen.add(method)
                yield Call(f"{cls.__name__}.{name}", bound, given)


def functions(folder: Path) -> Iterator[Call]:
    """Every public function, the ledger, the estimators, and what `interop` has for users."""
    from privsample.interop import arviz, dp_accounting, pymc
    from privsample.mechanisms.noise.private_statistics import PrivateStatistics

    gaussian, model = ps.GaussianAccountant(sensitivity=1.0, noise_std=2.0), ps.BetaBernoulli(alpha=2, beta=3)
    mechanism = ps.GaussianMechanism(sensitivity=1, noise_std=2)
    release = ps.NoisyStatistics(model=model, n=4, scale=1.0).release([0, 1, 1, 0])
    rng, target, half = np.random.default_rng(0), ps.DP(epsilon=1, delta=1e-6), np.zeros((40, 2))
    compared = {"model": model, "n": 4, "target": target, "draws": 1, "simulations": 1, "rng": rng}
    yield Call("compare", ps.compare, compared)
    sums = {name: ps.GaussianSum(bounds=(0, 1), noise_std=2, relation=ps.ReplaceOne(n=4)) for name in ("one", "other")}
    errors = {"mechanisms": sums, "target": target, "simulations": 1, "rng": rng}
    yield Call("compare_mechanisms", ps.compare_mechanisms, errors)
    yield Call("privacy_statement", ps.privacy_statement, {"account": gaussian, "delta": 1e-6})
    yield Call("diffusion_account", ps.diffusion_account, {"intrinsic": 1.0, "relation": ps.AddRemove()})
    amplified = {"epsilon": 1.0, "order": 5.0, "margin": 0.1, "dimension": 1, "draws": 1, "starts": 1}
    yield Call("bernoulli_amplification", ps.bernoulli_amplification, amplified)
    kappa = {"kappa": lambda t: 1.0, "time": 1.0, "tail": lambda t: 1.0 / t, "accuracy": 1e-2}
    yield Call("intrinsic_sensitivity", ps.intrinsic_sensitivity, kappa)
    pairs = {"records": [0, 1], "relation": ps.ReplaceOne(n=2), "size": 2, "group": 1, "most": 4}
    yield Call("neighbouring_pairs", ps.neighbouring_pairs, pairs)
    tally = release.mechanism.tally([0, 1, 1, 0], part="all")
    yield Call("merge_tallies", ps.merge_tallies, {"tallies": [tally], "parts": ["all"]})
    yield Call("read_column", ps.read_column, {"data": [0.0, 1.0]})
    tried = {"subject": mechanism, "datasets": (0.0, 1.0), "claim": gaussian, "samples": 300, "rng": rng}
    yield Call("audit", ps.audit, tried | {"view": "outputs"})
    yield Call("audit of bits", ps.audit, tried | {"view": "bits"})
    one_run = {"train": lambda records, rng: 0.0, "canaries": [1.0, 2.0, 3.0], "guesses": 2, "claim": gaussian}
    one_run |= {
        "substitutes": None,
        "score": lambda result, canary: canary,
        "level": 0.9,
        "rng": rng,
        "progress": False,
    }
    yield Call("audit_one_run", ps.audit_one_run, one_run)
    counts = {"claim": gaussian, "canaries": 30, "guesses": 20, "level": 0.05}
    yield Call("critical_guesses", ps.critical_guesses, counts)
    yield Call("OneRunPlan.draw", ps.OneRunPlan.draw, counts | {"rng": rng})
    yield Call("orthogonal_canaries", ps.orthogonal_canaries, {"count": 3, "norm": 1.0, "targets": (0, 1)})
    registered = {
        "target": _Colour,
        "package": "wrong-types",
        "name": "Colour",
        "version": 1,
        "aliases": (),
        "upgrade": None,
    }
    yield Call("register", ps.register, registered)
    yield Call("register_pymc", ps.register_pymc, {"model_class": ps.BetaBernoulli, "spec": object()})
    short = {"draws": 2, "tune": 2, "chains": 1, "rng": rng, "progress": False}
    yield Call("infer", ps.infer, {"release": release, "prior": None, "records": None, "size_prior": None} | short)
    stated = {"prior": {"theta": ps.Beta(a=1, b=1)}, "records": lambda theta: ps.Beta(a=1, b=1 + theta)}
    yield Call("infer with records", ps.infer, {"release": release} | stated | short)
    yield Call("register_chain", ps.register_chain, {"model_class": ps.BetaBernoulli, "factory": object()})
    yield Call("to_arviz", ps.to_arviz, {"release": release})
    yield Call("arviz.to_arviz", arviz.to_arviz, {})
    yield Call("arviz.summary", arviz.summary, {"tree": None})
    yield Call("arviz.plot_posterior", arviz.plot_posterior, {"tree": None})
    yield Call("arviz.read_netcdf", arviz.read_netcdf, {"path": folder / "none.nc"})
    yield Call("to_dp_event", ps.to_dp_event, {"account": gaussian})
    event = dp_accounting.to_dp_event(ps.GaussianAccountant(sensitivity=1.0, noise_std=2.0))
    yield Call("from_dp_event", ps.from_dp_event, {"event": event, "relation": ps.AddRemove(), "sensitivity": 1.0})
    made = ps.to_pld(gaussian, discretization=0.1, tail_mass=1e-6)
    yield Call("to_pld", ps.to_pld, {"account": gaussian, "discretization": 0.1, "tail_mass": 1e-6})
    yield Call("from_pld", ps.from_pld, {"pld": made, "relation": ps.AddRemove(), "ordered": True})
    observed = {"name": "x", "release": ps.PrivateStatistics(release=release), "theta": 0.5}

    def modelled(put, **given):
        import pymc

        with pymc.Model():
            return put(**given)

    yield Call("noisy_observation", functools.partial(modelled, pymc.noisy_observation), observed)
    counted = {"name": "x", "observed": 3.0, "noise": ps.DiscreteLaplaceNoise(scale=1.0), "n": 9, "p": 0.5}
    yield Call("noisy_count", functools.partial(modelled, pymc.noisy_count), counted)
    yield Call("noisy_count without a model", pymc.noisy_count, counted)
    drawn = PrivateStatistics(release=release)
    for name in ("draw", "posterior", "noise_aware"):
        method = getattr(drawn, name, None)
        if method is not None:
            parameters = inspect.signature(method).parameters
            yield Call(
                f"PrivateStatistics.{name}",
                method,
                {one: rng for one in parameters if one == "rng"} | {one: 2 for one in parameters if one == "draws"},
            )
    yield from _confidence_sets(release, rng)
    yield from _synthetic_data()
    path, fixed = folder / "a", {"budget": target, "relation": ps.AddRemove(), "dataset": "d"}
    yield Call("Ledger", ps.Ledger, {"path": path, "approximate_share": 0.5, "weights": None, "timeout": 1.0} | fixed)
    ledger = ps.Ledger(folder / "b", approximate_share=0.5, **fixed)
    yield Call("Ledger.spend", ledger.spend, {"account": gaussian, "times": 1, "label": "x"})
    yield Call("Ledger.fits", ledger.fits, {"account": gaussian, "times": 1})
    yield Call(
        "Ledger.release", ledger.release, {"mechanism": mechanism, "data": 0.0, "label": "x", "validated": False}
    )
    yield Call("Ledger.reserve", ledger.reserve, {"plan": [(gaussian, 2)], "delta": 1e-9, "label": "x"})
    yield Call("Ledger.share", ledger.share, {"k": 2})
    yield Call("Ledger.reservation", ledger.reservation, {"number": 1})
    yield Call("Ledger.export", ledger.export, {"path": folder / "out"})
    plan = ledger.reserve([ps.GaussianMechanism(sensitivity=1, noise_std=1e3)])
    yield Call("Reservation.take", plan.take, {"position": 0})
    yield Call("Reservation.release", plan.release, {"position": 0, "data": 0.0, "validated": False})
    yield Call(
        "Reservation", lambda ledger, number: ps.Reservation(ledger, number).items, {"ledger": ledger, "number": 1}
    )
    regressions = (ps.PrivateLogisticRegression, ps.PrivateLinearRegression, ps.PrivatePoissonRegression)
    for estimator in (ps.PrivateSGDClassifier, ps.PrivateSGDRegressor, *regressions):
        named = {"epsilon": 50.0, "delta": 1e-3, "bounds": (-1, 1)}
        if estimator in regressions:
            named |= {"steps": 5}
        if estimator is ps.PrivatePoissonRegression:
            named |= {"max_count": 2}
        if estimator is ps.PrivateLinearRegression:
            named |= {"target_bounds": (0, 1)}
        others = {k: v.default for k, v in inspect.signature(estimator).parameters.items() if k not in named}
        labels = np.array([0, 1] * 20)

        def fitted(make=estimator, labels=labels, **given):
            return make(**given).fit(half, labels, rng=np.random.default_rng(1))

        def priced(make=estimator, named=named, **given):
            return make(**named).accountant_for(**given)

        yield Call(estimator.__name__, fitted, named | others)
        yield Call(f"{estimator.__name__}.accountant_for", priced, {"n": 40, "features": 2})
    scaled = {"epsilon": 5.0, "delta": 1e-3, "unit": "row", "handle_invalid": "error", "bounds": (-1, 1)}
    yield Call("PrivateStandardScaler", lambda **given: ps.PrivateStandardScaler(**given).fit(half), scaled)
    yield Call(
        "BoundsScaler",
        lambda **given: ps.BoundsScaler(**given).fit_transform(half),
        {"bounds": (-1, 1), "handle_invalid": "error"},
    )
    steps = make_pipeline(ps.BoundsScaler((-1, 1)), ps.PrivateSGDClassifier(norm=1.0))
    yield Call("pipeline_account", ps.pipeline_account, {"pipeline": steps, "n": 40, "features": 2})
    searched = {"repetitions": ps.TruncatedNegativeBinomial.logarithmic(mean=2), "validation": (half, [0, 1] * 20)}
    searched |= {"estimator": ps.PrivateSGDClassifier(bounds=(-1, 1)), "param_distributions": {"radius": [1.0, 2.0]}}
    others = {k: v.default for k, v in inspect.signature(ps.PrivateSearchCV).parameters.items() if k not in searched}
    yield Call("PrivateSearchCV", lambda **given: ps.PrivateSearchCV(**given).accountant_for(40, 2), searched | others)


def _synthetic() -> ps.SyntheticData:
    tables = ps.NoisyMarginals(columns={"a": 2, "b": 2}, noise_std=1.0).release(np.zeros((90, 2)))
    return ps.synthesize(tables, m=2, size=3)


def _synthetic_data() -> Iterator[Call]:
    """The functions that draw synthetic data and combine their analyses, and what both return."""
    tables = ps.NoisyMarginals(columns={"a": 2, "b": 2}, noise_std=1.0).release(np.zeros((90, 2)))
    yield Call("synthesize", ps.synthesize, {"release": tables, "m": 2, "size": 3, "prior_std": 2.0})
    yield Call("combine", ps.combine, {"estimates": [1.0, 2.0], "variances": [0.1, 0.1]})
    yield Call("CombinedEstimate.interval", ps.combine([1.0, 2.0], [0.1, 0.1]).interval, {"probability": 0.9})
    yield Call("SyntheticData.statement", _synthetic().statement, {"delta": 1e-6})
    yield Call("SyntheticData.__getitem__", _synthetic().__getitem__, {"place": 1})


def _confidence_sets(release: ps.Release, rng: np.random.Generator) -> Iterator[Call]:
    """The function that makes confidence sets, and what one of them answers."""
    ranges = {"release": release, "parameters": {"theta": (0, 1)}, "records": None, "level": 0.9, "simulations": 99}
    yield Call("confidence_set", ps.confidence_set, ranges | {"rng": rng})
    found = ps.confidence_set(release, parameters={"theta": (0, 1)}, simulations=99)
    yield Call("ConfidenceSet.contains", found.contains, {"theta": 0.5})
    yield Call("ConfidenceSet.p_value", found.p_value, {"theta": 0.5})
    yield Call("ConfidenceSet.interval", found.interval, {"name": "theta", "side": "both"})
    yield Call("ConfidenceSet.statement", found.statement, {"delta": 1e-6})
    yield Call("ConfidenceSet.plot", found.plot, {"ax": None})


class _Colour(enum.Enum):
    RED = 1


def is_deliberate(error: BaseException) -> bool:
    """Whether a statement of privsample raised this error, other than an AttributeError, which a wrong type caused."""
    frame, number = list(traceback.walk_tb(error.__traceback__))[-1]
    file = frame.f_code.co_filename
    own = file.startswith(PACKAGE) and linecache.getline(file, number).strip().startswith("raise")
    return (own and not isinstance(error, AttributeError)) or isinstance(error, (OSError, ImportError))


def raw_errors(call: Call) -> list[str]:
    """What happens with a wrong type in place of each argument, where no statement of privsample refuses it."""
    found = []
    for name in call.arguments:
        for words, wrong in WRONG.items():
            if words == "an array" and call.name.startswith("Private") and "." not in call.name:
                continue  # scikit-learn compares such parameters itself
            try:
                made = call.function(**call.arguments | {name: wrong})
                if isinstance(made, ps.Mechanism):
                    made.accountant.bounds  # noqa: B018 - computed here at the latest
                elif isinstance(made, ps.Accountant):
                    made.bounds  # noqa: B018
            except Exception as error:  # noqa: BLE001 - any error is looked at
                if not is_deliberate(error):
                    found.append(f"{call.name}({name}={words}): {type(error).__name__}: {error}")
    return found
