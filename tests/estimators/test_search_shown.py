"""The repr and the notebook card of a search: one line, a card with the released values, and scikit-learn's diagram."""

import json

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr

import privsample as ps
from tests.estimators.learners import Constant, X, Y, private, search

WIDTH = 120


class Named(Constant):
    """A model with a parameter that is a text."""

    def __init__(self, quality=0.5, epsilon=0.1, penalty="l2"):
        super().__init__(quality=quality, epsilon=epsilon)
        self.penalty = penalty


def one(space=None, **options):
    """A search of one candidate, which makes at least one run."""
    return search({"quality": [0.25]} if space is None else space, **options)


def test_a_fitted_search_shows_its_result_and_its_cost_in_one_line():
    found = one().fit(X, Y)
    assert repr(found) == "PrivateSearchCV(Constant; epsilon = 0.1824 at delta = 1e-06; best score 0.25, quality=0.25)"
    assert 0.1823 < found.accountant_.epsilon(1e-6) <= 0.1824


def test_a_search_before_fit_says_so_and_shows_no_record_of_its_validation():
    made = search({"quality": list(range(1000))})
    assert repr(made).startswith("PrivateSearchCV(Constant, not fitted; 4 runs on average; {'quality': [0, 1")
    assert len(repr(made)) < WIDTH
    assert "array" not in repr(made)


def test_the_line_stays_short_and_free_of_line_breaks():
    found = one({"penalty": ["x\n" * 300], "quality": [0.125]}, estimator=Named()).fit(X, Y)
    assert len(repr(found)) < WIDTH
    assert "\n" not in repr(found)
    assert "epsilon = " in repr(found)


def test_a_search_without_a_model_says_so():
    found = one({"quality": [-1.0]}).fit(X, Y)
    assert "no model found" in repr(found)
    assert "nan" not in repr(found)
    assert "no model found" in found._repr_html_()


def test_no_epsilon_is_computed_where_that_takes_long():
    found = private().fit(X, Y, rng=np.random.default_rng(1))  # composed runs, whose curve is computed on a grid
    assert repr(found).startswith(f"PrivateSearchCV(Constant; best score {found.best_score_:.4g}, quality=0.")
    assert "epsilon" not in repr(found)
    assert "<svg" not in found._repr_html_()


def test_a_broken_search_shows_its_name():
    made = ps.PrivateSearchCV(Constant(), {}, "ten")
    assert repr(made) == "PrivateSearchCV(...)"


def test_the_card_of_a_fitted_search():
    found = one().fit(X, Y)
    card = found._repr_html_()
    for text in ("quality=0.25", "best score", "epsilon at delta = 1e-06", "4 runs on average", "neighbours", "<svg"):
        assert text in card
    assert found._repr_mimebundle_() == {"text/plain": repr(found), "text/html": card}
    json.dumps(found._repr_mimebundle_())


def test_the_card_escapes_what_candidates_hold():
    found = one({"penalty": ["<script>alert(1)</script>"]}, estimator=Named()).fit(X, Y)
    assert "<script" not in found._repr_html_()
    assert "&lt;script&gt;" in found._repr_html_()


def test_the_diagram_of_scikit_learn_is_kept():
    found = one().fit(X, Y)
    assert "sk-top-container" in estimator_html_repr(found)
    for unfitted in (one(), clone(found)):
        assert "sk-top-container" in unfitted._repr_html_()
        assert "sk-top-container" in unfitted._repr_mimebundle_()["text/html"]
    pipeline = make_pipeline(FunctionTransformer(), found)
    assert "PrivateSearchCV" in pipeline._repr_html_()
    with config_context(display="text"):
        assert not hasattr(found, "_repr_html_")
        assert found._repr_mimebundle_() == {"text/plain": repr(found)}


@pytest.mark.parametrize("delta", [1e-7, 0.0])
def test_epsilon_is_shown_at_the_delta_of_the_estimator(delta):
    class WithDelta(Constant):
        """A model that is private at a delta of its own."""

    WithDelta.delta = delta
    found = one(estimator=WithDelta()).fit(X, Y)
    assert f"at delta = {delta:g}" in repr(found)
    assert "epsilon = " in found.statement()
