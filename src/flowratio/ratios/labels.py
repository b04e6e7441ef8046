"""Labels and weights of rows: what `fit` accepts."""

from __future__ import annotations

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from flowratio._support.types import Vector, VectorLike
from flowratio._support.wording import listed


def refuse_second_sample(y: VectorLike) -> None:
    """Refuse `fit(X_p, X_q)`: a matrix, or a column of other values than labels, instead of labels."""
    shape = getattr(y, "shape", None)
    shape = np.asarray(y).shape if shape is None else shape
    if len(shape) < 2 or (shape[1] == 1 and np.isin(np.asarray(y), (0, 1)).all()):
        return
    problem = f"`y` has {shape[1]} column{'s' * (shape[1] != 1)} of values, so it looks like a second sample"
    raise ValueError(f"{problem}. Use `fit_samples(X_p, X_q)` for two samples, or give one label for each row.")


def labels_of_rows(y: VectorLike, n: int) -> Vector:
    """Return one label for each of n rows, of shape (n,)."""
    if y is None:
        raise ValueError("`y` is None. Give one label for each row, or use `fit_samples(X_p, X_q)`.")
    labels = np.asarray(column_or_1d(np.asarray(y), warn=True))
    if len(labels) != n:
        raise ValueError(f"`y` has {len(labels)} labels but `X` has {n} rows. Give one label for each row.")
    return labels


def two_classes(y: Vector) -> Vector:
    """Return the two labels, 0 and 1 or False and True. Others are refused."""
    check_classification_targets(y)
    classes = np.unique(y)
    advice = "Use 1 or True on rows of p (the numerator) and 0 or False on rows of q, or call `fit_samples(X_p, X_q)`."
    if len(classes) > 2:
        problem = "Only binary classification is supported. The type of the target is multiclass"
        raise ValueError(f"{problem}: `y` has {len(classes)} labels. {advice}")
    if len(classes) == 1:
        problem = f"`y` has one class only, {classes.tolist()[0]!r}. A ratio needs rows of p (1) and of q (0)"
        raise ValueError(f"{problem}. Use `fit_samples(X_p, X_q)`, or `X, y = stack(X_p, X_q)`.")
    if classes.dtype.kind not in "biuf" or classes.tolist() != [0, 1]:
        raise ValueError(f"`y` has the labels {listed(classes.tolist())}. {advice}")
    return classes


def row_weights(sample_weight: VectorLike | None, X: np.ndarray) -> Vector:
    """Return the weight of each row of `X`, of shape (n,). All weights are 1 if None."""
    if sample_weight is None:
        return np.ones(len(X))
    w = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (w < 0).any():
        problem = f"`sample_weight` is negative on {np.count_nonzero(w < 0)} rows, {w.min():g} at the least"
        raise ValueError(f"{problem}. Weights count rows, so they must be 0 or more.")
    return w
