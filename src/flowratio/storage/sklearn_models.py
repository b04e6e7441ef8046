"""Fitted estimators of scikit-learn ↔ plain values, so that no code is saved: those of a list, and no others.

The fitted state of most of them is numbers. The others are taken apart, and put together again by scikit-learn of the
version that loads them. What runs outside Python does not check its input, and is checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelEncoder, PolynomialFeatures, StandardScaler

LEARNERS: dict[str, type[BaseEstimator]] = {
    cls.__name__: cls
    for cls in (
        GaussianNB,
        HistGradientBoostingClassifier,
        IsotonicRegression,
        KNeighborsClassifier,
        LinearDiscriminantAnalysis,
        LogisticRegression,
        Pipeline,
        PolynomialFeatures,
        QuadraticDiscriminantAnalysis,
        StandardScaler,
    )
}
# what there is of fitted boosting beside its trees
_OF_BOOSTING = ("classes_", "n_features_in_", "feature_names_in_", "_baseline_prediction")
_OF_BOOSTING += ("do_early_stopping_", "train_score_", "validation_score_")


def packed(model: BaseEstimator, at: str) -> dict[str, Any]:
    """Return settings and fitted state by name, all of them values that can be saved.

    Parameters
    ----------
    model
        An estimator of a class in `LEARNERS`, fitted or not.
    at
        Where it stands in what is saved, for the words of an error.
    """
    values = dict(vars(model))
    if isinstance(model, Pipeline) and model.memory is not None:
        raise TypeError(f"`{at}` is a Pipeline with a cache, which holds code. Set its `memory` to None.")
    if isinstance(model, IsotonicRegression):
        values.pop("f_", None)
    if isinstance(model, KNeighborsClassifier) and "_y" in values:
        return _packed_neighbours(model, at)
    if isinstance(model, HistGradientBoostingClassifier) and "_predictors" in values:
        return _packed_boosting(model, at)
    return values


def rebuild(model: BaseEstimator) -> None:
    """Make what was taken apart of a model whose attributes are those that `packed` gave; ValueError if they cannot be.

    Parameters
    ----------
    model
        An estimator of a class in `LEARNERS`, which has its settings.
    """
    values = vars(model)
    if isinstance(model, Pipeline) and model.memory is not None:
        raise ValueError("a pipeline with a cache, from which code could come")
    if isinstance(model, IsotonicRegression) and "X_thresholds_" in values:
        model._build_f(model.X_thresholds_, model.y_thresholds_)
    if isinstance(model, KNeighborsClassifier):
        rows, labels = values.pop("rows", None), values.pop("labels", None)
        if not values.keys() <= vars(KNeighborsClassifier()).keys() or (rows is None) != (labels is None):
            raise ValueError("attributes other than settings, rows and labels")
        if rows is not None:
            model.fit(rows, labels)  # its tree is a function of the rows
    if isinstance(model, HistGradientBoostingClassifier):
        _rebuild_boosting(model)


def _packed_neighbours(model: Any, at: str) -> dict[str, Any]:
    if not isinstance(model._fit_X, np.ndarray) or model.outputs_2d_:
        raise TypeError(f"`{at}` is a KNeighborsClassifier of sparse rows or many labels. Fit it to dense rows.")
    return {**model.get_params(deep=False), "rows": model._fit_X, "labels": model.classes_[model._y]}


def _packed_boosting(model: Any, at: str) -> dict[str, Any]:
    if model._preprocessor is not None:
        raise TypeError(f"`{at}` is boosting with categories, which cannot be saved. Encode categories as numbers.")
    kept = {name: value for name, value in vars(model).items() if name in _OF_BOOSTING}
    trees = [[predictor.nodes for predictor in predictors] for predictors in model._predictors]
    nodes = np.concatenate([tree for trees_of_step in trees for tree in trees_of_step])
    sizes = np.array([[len(tree) for tree in trees_of_step] for trees_of_step in trees])
    fields = {name: np.ascontiguousarray(nodes[name]) for name in PREDICTOR_RECORD_DTYPE.fields or ()}
    return {**model.get_params(deep=False), **kept, "trees": {"sizes": sizes, **fields}}


def _rebuild_boosting(model: Any) -> None:
    """Put the trees back, and around them what `decision_function` looks at."""
    values = vars(model)
    trees = values.pop("trees", None)
    if not values.keys() <= {*model.get_params(deep=False), *_OF_BOOSTING}:
        raise ValueError("attributes that boosting has not")
    if trees is None:
        return
    d = values.get("n_features_in_")
    if type(d) is not int or not 0 < d < 1 << 24 or not isinstance(trees, dict):
        raise ValueError("boosting without a number of columns, or without trees")
    sizes, nodes = _nodes(dict(trees), d)
    no_bitsets = np.empty((0, 8), np.uint32)
    predictors = [TreePredictor(tree, no_bitsets, no_bitsets) for tree in np.split(nodes, np.cumsum(sizes)[:-1])]
    per_step = sizes.shape[1]
    model._predictors = [predictors[i : i + per_step] for i in range(0, len(predictors), per_step)]
    model.n_trees_per_iteration_, model._n_features = per_step, d
    model.is_categorical_ = model._preprocessor = model._is_categorical_remapped = model._scorer = None
    model._label_encoder = LabelEncoder()
    model._label_encoder.classes_ = model.classes_
    model._bin_mapper = _BinMapper()  # each fit makes its own: of this one only the categories are looked at
    model._bin_mapper.is_categorical_ = np.zeros(d, np.uint8)
    model._bin_mapper.bin_thresholds_ = [np.empty(0) for _ in range(d)]
    model._loss = model._get_loss(sample_weight=None)


def _nodes(trees: dict[str, Any], d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of the trees, (steps, trees a step), and their nodes one after another.

    A node that leads out of its tree, or back, or to a column that is not there, is an error: the code that walks along
    the nodes does not look.
    """
    sizes = trees.pop("sizes", None)
    fields = dict(PREDICTOR_RECORD_DTYPE.fields or {})
    if not isinstance(sizes, np.ndarray) or sizes.ndim != 2 or sizes.dtype.kind != "i" or trees.keys() != fields.keys():
        raise ValueError("trees with other parts than those of this version of scikit-learn")
    total = sum(sizes.ravel().tolist())  # a sum of Python's does not overflow
    if sizes.size == 0 or (sizes < 1).any() or np.shape(trees["value"]) != (total,):
        raise ValueError("trees without nodes, or of another number of nodes than it says")
    nodes = np.empty(total, PREDICTOR_RECORD_DTYPE)
    for name, (dtype, *_) in fields.items():
        if not isinstance(trees[name], np.ndarray) or (trees[name].dtype, trees[name].shape) != (dtype, (total,)):
            raise ValueError(f"trees whose {name!r} is no array of {total} values of type {dtype}")
        nodes[name] = trees[name]
    own = np.concatenate([np.arange(size) for size in sizes.flat])
    size = np.repeat(sizes.ravel(), sizes.ravel())
    column, left, right = (trees[name] for name in ("feature_idx", "left", "right"))
    leads_on = (left > own) & (left < size) & (right > own) & (right < size)
    sound = leads_on & (column >= 0) & (column < d) & (trees["is_categorical"] == 0)
    if not (sound | (trees["is_leaf"] == 1)).all():
        raise ValueError("trees whose nodes lead nowhere")
    return sizes, nodes
