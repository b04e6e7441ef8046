"""Scores of columns whose distribution is known: normal scores by rank, smooth scores, and standardized columns."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri
from scipy.stats import rankdata

from flowratio._support.types import Matrix

_FIRST, _SHARE = 4, 40  # rows of the outermost groups of a smooth margin, and 1/40 of the rows in the largest groups
_SHARE_DISTINCT = 0.5  # of the values of a column that counts as continuous
_FEWEST_ROWS = 100  # for a smooth margin


def normal_scores(X: Matrix) -> np.ndarray:
    """Return the normal scores of columns by rank, (n, d). Equal values share their mean rank."""
    return ndtri((rankdata(X, axis=0) - 0.5) / len(X))


def is_continuous(X: Matrix) -> np.ndarray:
    """Return whether each column has mostly distinct values, (d,)."""
    return np.array([len(np.unique(column)) > _SHARE_DISTINCT * len(X) for column in X.T], bool)


def smooth_scores(X: Matrix) -> np.ndarray:
    """Return columns that are Gaussianized by smooth curves, (n, d).

    Normal scores by rank lose distances between neighbors. Smooth curves keep them. Discrete columns get normal scores.
    """
    Z = normal_scores(X)
    if len(X) < _FEWEST_ROWS:
        return Z
    for j in np.flatnonzero(is_continuous(X)):
        Z[:, j] = _smooth_curve(np.arcsinh(robust_units(X[:, j : j + 1])[:, 0]), Z[:, j])
    return Z


def _smooth_curve(x: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return a smooth increasing function of x (n,) near its normal scores (n,), with straight tails.

    It passes through the means of groups of neighbors. Means have less noise than single rows. So the curves of two
    columns with strong dependence differ by less than the conditional width.
    """
    order, sizes = np.argsort(x, kind="stable"), _group_sizes(len(x))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    means = [np.add.reduceat(values[order], starts) / sizes for values in (x, scores)]
    # means of equal values may differ by rounding, in either direction
    distinct = means[0] > np.concatenate([[-np.inf], np.maximum.accumulate(means[0])[:-1]])
    knots, levels = (values[distinct] for values in means)
    if len(knots) < 3:
        return scores
    slopes = np.diff(levels)[[0, -1]] / np.diff(knots)[[0, -1]]
    inner = PchipInterpolator(knots, levels)(np.clip(x, knots[0], knots[-1]))
    return inner + slopes[0] * np.minimum(x - knots[0], 0) + slopes[1] * np.maximum(x - knots[-1], 0)


def _group_sizes(n: int) -> np.ndarray:
    """Return sizes of groups of sorted rows: 4, 8, 16, … from both ends, and equal ones between."""
    largest = max(n // _SHARE, _FIRST)
    tail = [_FIRST * 2**k for k in range(64) if _FIRST * 2**k < largest]
    inner = n - 2 * sum(tail)
    k = max(round(inner / largest), 1)
    return np.array([*tail, *np.diff(np.linspace(0, inner, k + 1).astype(int)), *tail[::-1]])


def robust_units(X: Matrix) -> np.ndarray:
    """Return columns minus their median, divided by their interquartile range, (n, d)."""
    center = np.median(X, axis=0)
    scale = np.subtract(*np.quantile(X, [0.75, 0.25], axis=0))
    return (X - center) / np.where(scale > 0, scale, 1.0)
