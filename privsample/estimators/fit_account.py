"""The account of fitting an estimator or a pipeline, known before it is fitted."""

from inspect import Parameter, signature
from typing import Any

from sklearn.base import OneToOneFeatureMixin
from sklearn.pipeline import Pipeline

from privsample._checks import positive_integer
from privsample.accounting.base import Accountant, Composed, Parallel
from privsample.accounting.guarantees import PureAccountant
from privsample.estimators.pipelines import check_steps, is_stateless, output_width, refusal
from privsample.relations import AddRemove, ReplaceOne

NO_ACCOUNT = (
    "{} has no account: expected, before it is fitted, a method accountant_for(n) or an attribute accountant, the "
    "account of fitting it to n records; define one, or pass training_account, an account that covers every candidate"
)
_FEATURES = (
    "features must be given, got None: the account of {} depends on their number; call accountant_for(n, features)"
)
_WIDTH = (
    "the number of columns that reach {} is unknown: a step before it cannot transform rows of {} zeros; pass "
    "training_account, or put a step there that accepts arrays of numbers"
)


def pipeline_account(pipeline: Any, n: int, features: int | None = None) -> Accountant:
    """Return the account of one fit of a scikit-learn pipeline, computed without data.

    A step that transforms each record by itself by public numbers costs nothing, such as `BoundsScaler`, `Normalizer`,
    `PolynomialFeatures` or an encoder with declared categories. A step with an account is charged, such as
    `PrivateStandardScaler`. Any other step that learns from the records is refused, such as `StandardScaler` or `PCA`.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Unfitted pipeline whose last step has an account: a method `accountant_for` or an attribute `accountant`. A
        FunctionTransformer is trusted to transform each record by itself, which is tried on random rows if `features`
        is given, and a FrozenEstimator to have been fitted to public data.
    n : int
        Number of records, >= 1.
    features : int, optional
        Number of features before the first step, >= 1; needed if the account of a step depends on it.

    Returns
    -------
    Accountant
        The composition of the accounts of all steps that have one, under ReplaceOne(n), or under AddRemove if all
        accounts are. A single account is returned as it is.

    Raises
    ------
    ValueError
        If a step learns from the records without an account, or the accounts do not fit together.
    TypeError
        If the last step has no account, or `pipeline` is no pipeline.

    Notes
    -----
    Each step is a function of the released steps before it and of the records transformed by them, one by one: adaptive
    composition. A fitted pipeline does not know this account; `PrivateSearchCV` adds it to its own. An estimator sees
    only the transformed records, and cannot know what a step before it has learned: call this function before `fit`.
    Kind: that of the accounts.

    Examples
    --------
    >>> import privsample as ps
    >>> from sklearn.pipeline import make_pipeline
    >>> scaler = ps.PrivateStandardScaler(epsilon=0.5, delta=1e-6, bounds=(0, 10))
    >>> model = make_pipeline(scaler, ps.PrivateSGDClassifier(epsilon=1.0, delta=1e-6, norm=3))
    >>> account = ps.pipeline_account(model, n=1000, features=2)
    >>> bool(1.0 < account.epsilon(2e-6) < 1.5)
    True
    """
    if not isinstance(pipeline, Pipeline):
        raise TypeError(f"pipeline must be a Pipeline of scikit-learn, got {type(pipeline).__name__}")
    given = features if features is None else positive_integer(features=features)
    return _pipeline_account(pipeline, positive_integer(n=n), given)


def stated_account(estimator: Any, n: int, features: int | None) -> Any:
    """Return the own account of an estimator or of a pipeline; None if it has none."""
    if isinstance(estimator, Pipeline):
        return _pipeline_account(estimator, n, features)
    method = getattr(estimator, "accountant_for", None)
    if not callable(method):
        return getattr(estimator, "accountant", None)
    parameter = signature(method).parameters.get("features")
    if parameter is None:
        return method(n)
    if features is None and parameter.default is Parameter.empty:
        raise ValueError(_FEATURES.format(type(estimator).__name__))
    return method(n, features=features)


def to_full_dataset(account: Accountant, n: int) -> Accountant:
    """Convert the account of a release from fixed positions among n records to ReplaceOne(n). Raises TypeError."""
    relation = account.relation
    match relation:
        case AddRemove(unit=unit):
            return account.to(ReplaceOne(n=n, unit=unit))
        case ReplaceOne(n=own, unit=unit) if own < n:
            rest = PureAccountant(stated_epsilon=0.0, relation=ReplaceOne(n=n - own, unit=unit))
            try:
                moved = account.with_relation(ReplaceOne(n=n, unit=unit))
            except TypeError:  # the account's relation cannot be replaced
                return Parallel(parts=(account, rest))
            # A general bound would state what follows here from the fixed positions.
            return moved if moved.assumptions == account.assumptions else Parallel(parts=(account, rest))
        case ReplaceOne():
            return account
    raise TypeError(
        f"the account of a candidate must be under AddRemove or ReplaceOne for cross-validation, got {relation}"
    )


def _pipeline_account(pipeline: Pipeline, n: int, features: int | None) -> Accountant:
    """Return the composition of the accounts of the steps. Raises ValueError or TypeError."""
    check_steps(pipeline)
    found, width, last = [], features, pipeline.steps[-1][1]
    for name, step in pipeline.steps:
        if step is not last and is_stateless(step):
            width = output_width(name, step, width)
            continue
        if features is not None and width is None:
            raise ValueError(_WIDTH.format(f"step {name!r}", features))
        account = stated_account(step, n, width)
        if not isinstance(account, Accountant):
            raise TypeError(NO_ACCOUNT.format(type(step).__name__)) if step is last else ValueError(refusal(name, step))
        found.append(account)
        if not isinstance(step, OneToOneFeatureMixin):
            width = None
    if len({type(account.relation) for account in found}) > 1:
        found = [to_full_dataset(account, n) for account in found]
    return found[0] if len(found) == 1 else Composed(entries=tuple((account, 1) for account in found))
