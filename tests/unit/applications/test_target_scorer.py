"""Scores of source rows that are weighted to estimate the score on the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, get_scorer, make_scorer, max_error, mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, cross_validate

from flowratio import ClassifierRatio
from flowratio.applications.adaptation import ImportanceWeighted
from flowratio.applications.target_scorer import TargetScorer

N, N_TARGET = 120, 90


class KnownRatio(BaseEstimator):
    """log r(x) of N(slope, 1) over N(0, 1) in x₁, whatever it is fitted to; it keeps what it was fitted to."""

    def __init__(self, slope: float = 1.0) -> None:
        self.slope = slope

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KnownRatio:
        self.X_, self.y_, self.w_ = np.asarray(X), np.asarray(y), sample_weight
        return self

    def log_ratio(self, X: Any) -> np.ndarray:
        return self.slope * np.asarray(X, np.float64)[:, 0] - self.slope**2 / 2


def draw(n: int = N, n_target: int = N_TARGET, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y of two classes, and X_target."""
    rng = np.random.default_rng(seed)
    X, X_target = rng.normal(size=(n, 2)), rng.normal(0.8, 1, size=(n_target, 2))
    return X, (X[:, 0] ** 2 + 0.5 * rng.normal(size=n) > 0.7).astype(int), X_target


def test_the_scorer_weights_held_out_rows() -> None:
    X, y, _ = draw()
    ratio = KnownRatio(2.0).fit(X, y)
    model = LogisticRegression().fit(X, y)
    w = np.exp(2 * X[:, 0])
    right = model.predict(X) == y
    assert TargetScorer("accuracy", ratio)(model, X, y) == pytest.approx((w @ right) / w.sum())
    loss = TargetScorer(make_scorer(mean_squared_error, greater_is_better=False), ratio)(model, X, y)
    assert loss == pytest.approx(-(w @ ~right) / w.sum())
    u = np.random.default_rng(1).uniform(size=N)
    assert TargetScorer("accuracy", ratio)(model, X, y, u) == pytest.approx(((u * w) @ right) / (u @ w))
    assert "accuracy_score" in repr(TargetScorer("accuracy", ratio))


def test_the_scorer_in_searches_with_weights_of_the_user() -> None:
    X, y, _ = draw()
    ratio = KnownRatio(2.0).fit(X, y)
    u = np.random.default_rng(1).uniform(size=N)
    for scoring in (TargetScorer("accuracy", ratio), {"a": TargetScorer("accuracy", ratio), "b": "accuracy"}):
        search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, scoring=scoring, refit=False, cv=KFold(2))
        search.fit(X, y, sample_weight=u)
        name = "mean_test_a" if isinstance(scoring, dict) else "mean_test_score"
        half = N // 2
        expected = []
        for train, test in ((slice(half, N), slice(half)), (slice(half), slice(half, N))):
            right = LogisticRegression().fit(X[train], y[train], u[train]).predict(X[test]) == y[test]
            w = u[test] * np.exp(2 * X[test, 0])
            expected.append((w @ right) / w.sum())
        assert search.cv_results_[name][1] == pytest.approx(np.mean(expected))
    with config_context(enable_metadata_routing=True):
        result = cross_validate(LogisticRegression(), X, y, scoring=TargetScorer("accuracy", ratio))
    assert (result["test_score"] > 0).all()


def test_the_scorer_with_routed_weights_is_that_without_routing() -> None:
    X, y, _ = draw()
    ratio = KnownRatio(2.0).fit(X, y)
    u = np.random.default_rng(1).uniform(size=N) ** 4
    plain = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, scoring=TargetScorer("accuracy", ratio), cv=KFold(2))
    expected = plain.fit(X, y, sample_weight=u).cv_results_["mean_test_score"]
    with config_context(enable_metadata_routing=True):
        estimator = LogisticRegression().set_fit_request(sample_weight=True)
        asks = TargetScorer("accuracy", ratio).set_score_request(sample_weight=True)
        inside: Any = get_scorer("accuracy")
        also = TargetScorer(inside.set_score_request(sample_weight=True), ratio)
        for scoring in (asks, also):
            search = GridSearchCV(estimator, {"C": [0.01, 1.0]}, scoring=scoring, cv=KFold(2))
            np.testing.assert_allclose(search.fit(X, y, sample_weight=u).cv_results_["mean_test_score"], expected)
        search = GridSearchCV(estimator, {"C": [1.0]}, scoring=TargetScorer("accuracy", ratio), cv=KFold(2))
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):  # not dropped in silence
            search.fit(X, y, sample_weight=u)


def test_what_cannot_score_is_refused() -> None:
    X, y, _ = draw()
    ratio = KnownRatio().fit(X, y)
    with pytest.raises(ValueError, match="takes no `sample_weight`"):
        TargetScorer(make_scorer(max_error), ratio)
    with pytest.raises(TypeError, match="a result of `make_scorer`"):
        TargetScorer(accuracy_score, ratio)
    with pytest.raises(ValueError, match="which is not fitted"):
        TargetScorer("accuracy", ClassifierRatio())
    with pytest.raises(ValueError, match="which is not fitted"):
        TargetScorer("accuracy", LinearRegression().fit(X, y))


def test_a_swapped_ratio_is_named_in_the_fit_and_in_the_score() -> None:
    X, y, X_target = draw(600, 600)
    swapped = ClassifierRatio("logistic").fit_samples(X, X_target)
    with pytest.warns(UserWarning, match=r"looks inverted.*fit_samples\(X_target, X\)"):
        ImportanceWeighted(LogisticRegression(), swapped).fit(X, y)
    model = LogisticRegression().fit(X, y)
    with pytest.warns(UserWarning, match="looks inverted"):
        TargetScorer("accuracy", swapped)(model, X, y)
    ImportanceWeighted(LogisticRegression(), swapped.inverse()).fit(X, y)  # warnings are errors
    TargetScorer("accuracy", swapped.inverse())(model, X, y)
