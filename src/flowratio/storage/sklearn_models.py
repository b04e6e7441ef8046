"""Fitted estimators of scikit-learn, those of a list, ↔ plain values, so that no code is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from flowratio.storage.boosted_trees import BoostedTrees, trees_of

_OF_TREES = {"classifier", "classes_", "n_features_in_", "feature_names_in_", "baseline_", "sizes_", "nodes_"}
_CLASSES = (
    *(GaussianNB, HistGradientBoostingClassifier, IsotonicRegression, KNeighborsClassifier, LinearDiscriminantAnalysis),
    *(LogisticRegression, Pipeline, PolynomialFeatures, QuadraticDiscriminantAnalysis, StandardScaler),
)
LEARNERS: dict[str, type[BaseEstimator]] = {cls.__name__: cls for cls in _CLASSES}


def packed(model: BaseEstimator, at: str) -> dict[str, Any]:
    """Return settings and fitted state by name, as values that can be saved. Errors call the model `at`."""
    values = dict(vars(model))
    if isinstance(model, Pipeline) and model.memory is not None:
        raise TypeError(f"`{at}` is a Pipeline with a cache, which holds code. Set its `memory` to None.")
    if isinstance(model, IsotonicRegression):
        values.pop("f_", None)
    if isinstance(model, KNeighborsClassifier) and "_y" in values:
        if not isinstance(values["_fit_X"], np.ndarray) or values["outputs_2d_"]:
            raise TypeError(f"`{at}` is a KNeighborsClassifier of sparse rows or many labels. Fit it to dense rows.")
        labels = values["classes_"][values["_y"]]
        return {**model.get_params(deep=False), "rows": values["_fit_X"], "labels": labels}
    if isinstance(model, BoostedTrees):
        return {name: value for name, value in values.items() if name not in ("_trees", "_edges")}
    return values


def without_private_parts(value: Any, at: str) -> Any:
    """Return a fitted `HistGradientBoostingClassifier` as `BoostedTrees`, and other values unchanged."""
    is_boosting = type(value) is HistGradientBoostingClassifier and hasattr(value, "classes_")
    return trees_of(value, at) if is_boosting else value


def rebuild(model: BaseEstimator) -> None:
    """Complete a model that has the attributes that `packed` returned. ValueError if that is impossible."""
    values = vars(model)
    if isinstance(model, Pipeline) and model.memory is not None:
        raise ValueError("a pipeline with a cache, which can contain code")
    if isinstance(model, IsotonicRegression) and "X_thresholds_" in values:
        model._build_f(model.X_thresholds_, model.y_thresholds_)
    if isinstance(model, KNeighborsClassifier):
        rows, labels = values.pop("rows", None), values.pop("labels", None)
        if not values.keys() <= vars(KNeighborsClassifier()).keys() or (rows is None) != (labels is None):
            raise ValueError("attributes other than settings, rows and labels")
        if rows is not None:
            model.fit(rows, labels)  # its tree is a function of the rows
    if isinstance(model, HistGradientBoostingClassifier) and values.keys() != model.get_params(deep=False).keys():
        raise ValueError("attributes other than settings")
    if isinstance(model, BoostedTrees):
        if values.keys() - _OF_TREES or len(values) < len(_OF_TREES) - 1:
            raise ValueError("other attributes than those of trees")
        model.check()
