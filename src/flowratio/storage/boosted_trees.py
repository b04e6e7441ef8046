"""Gradient boosting as plain arrays: the same predictions to the last bit, without private parts of scikit-learn.

Each leaf of a tree has a bit. A column of a row rules out leaves, by a table from its bin to the bits that remain. The
lowest bit that remains in all columns is the leaf of the row: Lucchese et al. (2015). *QuickScorer: a fast algorithm to
rank documents with additive ensembles of regression trees.*
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from typing import Any, cast

import numpy as np
import sklearn
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.extmath import softmax
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import Self

from flowratio._support.chunks import chunks
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike

_NODES = {  # fields of a node of scikit-learn, and their types here
    "feature": ("feature_idx", np.int64),
    "threshold": ("num_threshold", np.float64),
    "missing_left": ("missing_go_to_left", np.bool_),
    "left": ("left", np.int64),
    "right": ("right", np.int64),
    "value": ("value", np.float64),
    "is_leaf": ("is_leaf", np.bool_),
}
_MAX_TABLE, _MAX_BITS = 8, 64  # leaves of a tree whose bits index a table, and of a tree whose bits fit in an integer


class BoostedTrees(ClassifierMixin, BaseEstimator):
    """A fitted `HistGradientBoostingClassifier` as plain arrays, as `load` returns it. `classifier` has settings."""

    classes_: np.ndarray
    n_features_in_: int
    baseline_: Vector  # prediction without trees, (k,)
    sizes_: Matrix  # number of nodes of each tree, (steps, k)
    nodes_: dict[str, Vector]  # fields of all nodes, one tree after another, by name
    _trees: list[Any]

    def __init__(self, classifier: HistGradientBoostingClassifier | None = None) -> None:
        self.classifier = classifier

    def fit(self, X: TableLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Fit the classifier, and store its trees."""
        model: Any = HistGradientBoostingClassifier() if self.classifier is None else clone(self.classifier)
        vars(self).pop("_trees", None)
        vars(self).update({**vars(trees_of(model.fit(X, y, sample_weight))), "classifier": self.classifier})
        return self

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the log-odds of the second class, of shape (n,), or one score a class, of shape (n, k)."""
        check_is_fitted(self)
        rows: Any = validate_data(self, cast(Any, X), dtype=np.float64, ensure_all_finite=False, reset=False)
        if "_trees" not in vars(self):
            self._build()
        scores = np.empty((len(rows), len(self.baseline_)))
        for part in chunks(*rows.shape):
            self._add_trees(rows[part], scores[part])
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: TableLike) -> Matrix:
        """Return the probabilities of the classes, of shape (n, k)."""
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return softmax(scores)
        p = expit(scores)
        return np.column_stack([1 - p, p])

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the most probable class of each row, of shape (n,)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _add_trees(self, X: Matrix, scores: Matrix) -> None:
        scores[:] = self.baseline_
        bins = []
        for column, edges in zip(X.T, self._edges, strict=True):
            bins.append(np.searchsorted(edges, column))  # number of thresholds below
            bins[-1][np.isnan(column)] = len(edges) + 1
        for k, tree in enumerate(self._trees):
            scores[:, k % scores.shape[1]] += tree.values(X, bins)

    def check(self) -> None:
        """Refuse nodes that do not form trees."""
        sizes, d = self.sizes_, vars(self).get("n_features_in_")
        if type(d) is not int or not 0 < d < 1 << 24 or not isinstance(self.nodes_, dict):
            raise ValueError("boosting without a number of columns, or without nodes")
        _check_nodes(sizes, self.nodes_, d)
        if np.shape(self.baseline_) != (sizes.shape[1],) or self.baseline_.dtype != np.float64:
            raise ValueError("boosting without a prediction before its first tree")

    def _build(self) -> None:
        inner = ~self.nodes_["is_leaf"]
        column, threshold = self.nodes_["feature"][inner], self.nodes_["threshold"][inner]
        self._edges = [np.unique(threshold[column == j]) for j in range(self.n_features_in_)]
        bounds = pairwise(np.cumsum([0, *self.sizes_.ravel()]))
        trees = [{name: values[start:stop] for name, values in self.nodes_.items()} for start, stop in bounds]
        is_deep = [tree["is_leaf"].sum() > _MAX_BITS for tree in trees]
        self._trees = [_DeepTree(t) if deep else _Tree(t, self._edges) for t, deep in zip(trees, is_deep, strict=True)]


class _Tree:
    """A tree of up to 64 leaves as tables from bins to the leaves that remain."""

    def __init__(self, nodes: dict[str, Vector], edges: list[Vector]) -> None:
        leaves = _leaves(nodes)
        self.leaf_values = nodes["value"][leaves]
        self.type = np.dtype(f"uint{next(bits for bits in (8, 16, 32, 64) if len(leaves) <= bits)}").type
        bits = dict(zip(leaves, (1 << k for k in range(len(leaves))), strict=True))
        everything = (1 << len(leaves)) - 1
        self.tables: dict[int, Vector] = {}
        for node in reversed(range(len(nodes["left"]))):  # a child comes after its parent
            if nodes["is_leaf"][node]:
                continue
            left, right = bits[int(nodes["left"][node])], bits[int(nodes["right"][node])]
            bits[node] = left | right
            j = int(nodes["feature"][node])
            table = self.tables.setdefault(j, np.full(len(edges[j]) + 2, everything, self.type))
            goes_right = np.arange(len(table)) > np.searchsorted(edges[j], nodes["threshold"][node])
            goes_right[-1] = not nodes["missing_left"][node]
            table[goes_right] &= self.type(everything ^ left)
        if len(leaves) <= _MAX_TABLE:
            self.leaf_values = self.leaf_values[_lowest_bit(np.arange(1 << len(leaves)))]

    def values(self, X: Matrix, bins: list[Vector]) -> Vector | float:
        """Return the value of the leaf of each row, of shape (n,)."""
        if not self.tables:
            return self.leaf_values[-1]
        remaining = reduce(np.bitwise_and, (table.take(bins[j]) for j, table in self.tables.items()))
        has_table = self.type is np.uint8
        return self.leaf_values.take(remaining if has_table else _lowest_bit(remaining))


class _DeepTree:
    """A tree of more leaves, which is walked level by level."""

    def __init__(self, nodes: dict[str, Vector]) -> None:
        self.nodes = nodes

    def values(self, X: Matrix, bins: list[Vector]) -> Vector:
        nodes, rows, node = self.nodes, np.arange(len(X)), np.zeros(len(X), np.int64)
        while not (is_leaf := nodes["is_leaf"][node]).all():
            x = X[rows, nodes["feature"][node]]
            goes_left = np.where(np.isnan(x), nodes["missing_left"][node], x <= nodes["threshold"][node])
            node = np.where(is_leaf, node, np.where(goes_left, nodes["left"][node], nodes["right"][node]))
        return nodes["value"][node]


def trees_of(model: HistGradientBoostingClassifier, at: str = "model") -> BoostedTrees:
    """Return the trees of a fitted classifier, called `at` in errors. Only this reads private parts of scikit-learn."""
    settings: Any = clone(model)
    trees = BoostedTrees(settings)
    try:
        parts: Any = vars(model)
        steps = [[predictor.nodes for predictor in step] for step in parts["_predictors"]]
        nodes = np.concatenate([tree for step in steps for tree in step])
        is_numeric = parts["_preprocessor"] is None and not nodes["is_categorical"].any()
        trees.nodes_ = {name: nodes[field].astype(dtype) for name, (field, dtype) in _NODES.items()}
        trees.baseline_ = np.array(parts["_baseline_prediction"], np.float64).ravel()
    except (AttributeError, KeyError, ValueError, TypeError) as error:
        name = f"a HistGradientBoostingClassifier of scikit-learn {sklearn.__version__}"
        raise TypeError(f"`{at}` is {name}, which this version of flowratio cannot save. Upgrade it.") from error
    if not is_numeric:
        raise TypeError(f"`{at}` is boosting with categories, which cannot be saved. Encode categories as numbers.")
    trees.sizes_ = np.array([[len(tree) for tree in step] for step in steps])
    names = ("classes_", "n_features_in_", "feature_names_in_")
    vars(trees).update({name: parts[name] for name in names if name in parts})
    trees.nodes_["feature"][trees.nodes_["is_leaf"]] = 0
    return trees


def _check_nodes(sizes: Any, nodes: dict[str, Any], d: int) -> None:
    """Refuse nodes that lead out of their tree, or back, or to a column that is not there."""
    if not isinstance(sizes, np.ndarray) or sizes.ndim != 2 or sizes.dtype.kind != "i" or nodes.keys() != _NODES.keys():
        raise ValueError("trees with other parts than those that are saved")
    total = sum(sizes.ravel().tolist())  # a sum of Python's does not overflow
    if sizes.size == 0 or (sizes < 1).any() or np.shape(nodes["value"]) != (total,):
        raise ValueError("trees without nodes, or with another number of nodes than their sizes")
    for name, (_, dtype) in _NODES.items():
        if not isinstance(nodes[name], np.ndarray) or (nodes[name].dtype, nodes[name].shape) != (dtype, (total,)):
            raise ValueError(f"trees whose {name!r} is not an array of {total} values of type {np.dtype(dtype)}")
    own = np.concatenate([np.arange(size) for size in sizes.flat])
    size = np.repeat(sizes.ravel(), sizes.ravel())
    column, left, right = (nodes[name] for name in ("feature", "left", "right"))
    leads_on = (left > own) & (left < size) & (right > own) & (right < size) & (left != right)
    if not (leads_on & (column >= 0) & (column < d) | nodes["is_leaf"]).all():
        raise ValueError("trees whose nodes lead nowhere")


def _leaves(nodes: dict[str, Vector]) -> list[int]:
    """Return the positions of the leaves of a tree, from left to right."""
    leaves, waiting = [], [0]
    for _ in nodes["left"]:
        node = waiting.pop()
        if nodes["is_leaf"][node]:
            leaves.append(node)
        else:
            waiting += [int(nodes["right"][node]), int(nodes["left"][node])]
        if not waiting:
            return leaves
    raise ValueError("trees whose nodes lead nowhere")


def _lowest_bit(masks: Vector) -> Vector:
    lowest = masks & (~masks + masks.dtype.type(1))
    return np.frexp(lowest.astype(np.float64))[1] - 1
