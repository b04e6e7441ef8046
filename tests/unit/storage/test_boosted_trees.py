"""Boosting as plain arrays against scikit-learn, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from flowratio.storage.boosted_trees import BoostedTrees, trees_of

boosting: Any = HistGradientBoostingClassifier


def sample(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(1)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n) > 0).astype(int) + (X[:, 3] > 1)
    X[rng.random((n, 4)) < 0.05] = np.nan
    X[:2, 0] = np.inf, -np.inf
    return X, y


@pytest.mark.parametrize("max_leaf_nodes", [2, 4, 8, 9, 16, 31, 33, 64, 65, None])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_are_those_of_scikit_learn(max_leaf_nodes: int | None, n_classes: int) -> None:
    X, y = sample(3000)
    X_new = np.concatenate([sample(9000, seed=1)[0], X])
    model = boosting(max_iter=10, max_leaf_nodes=max_leaf_nodes, min_samples_leaf=2)
    model.fit(X, np.minimum(y, n_classes - 1))
    trees = trees_of(model)
    assert np.array_equal(trees.decision_function(X_new), model.decision_function(X_new))
    assert np.array_equal(trees.predict_proba(X_new), model.predict_proba(X_new))
    assert np.array_equal(trees.predict(X_new), model.predict(X_new))


def test_thresholds_and_missing_values_of_columns_without_them_at_fit() -> None:
    X, y = sample(2000)
    X = np.nan_to_num(X, posinf=3.0, neginf=-3.0)
    model = boosting(max_iter=20, max_leaf_nodes=4).fit(X, y > 0)
    trees = trees_of(model)
    trees.decision_function(X)
    edges = [np.r_[edges, -np.inf, np.inf, np.nan] for edges in trees._edges]
    grid = np.random.default_rng(0)
    X_new = np.column_stack([grid.choice(values, 5000) for values in edges])  # rows exactly on the thresholds
    assert np.array_equal(trees.decision_function(X_new), model.decision_function(X_new))


def test_a_tree_of_one_leaf() -> None:
    X, y = sample(50)
    model = boosting(max_iter=3, min_samples_leaf=1000).fit(X, y > 0)
    assert np.array_equal(trees_of(model).decision_function(X), model.decision_function(X))


def test_it_can_be_cloned_and_fitted_again() -> None:
    X, y = sample(300)
    model = boosting(max_iter=5).fit(X, y)
    again: Any = clone(trees_of(model))
    assert not hasattr(again, "classes_")
    assert np.array_equal(again.fit(X, y).decision_function(X), model.decision_function(X))
    assert BoostedTrees().fit(X, y).classes_.tolist() == [0, 1, 2]


def test_another_number_of_columns_is_refused() -> None:
    X, y = sample(100)
    with pytest.raises(ValueError, match="expecting 4 features"):
        trees_of(boosting(max_iter=2).fit(X, y)).decision_function(X[:, :3])


@pytest.mark.parametrize("name", ["_predictors", "_baseline_prediction", "_preprocessor"])
def test_a_version_without_the_private_parts_is_a_clear_error(name: str) -> None:
    X, y = sample(100)
    model = boosting(max_iter=2).fit(X, y)
    del vars(model)[name]
    with pytest.raises(TypeError, match=r"`model\.step` is a Hist.* this version of flowratio cannot save\. Upgrade"):
        trees_of(model, "model.step")
