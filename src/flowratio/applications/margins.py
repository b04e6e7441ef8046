"""Scores of columns whose distribution is known: normal scores by rank, smooth scores, and standardized columns."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from flowratio._support.types import Matrix
from flowratio.scaling.curves import fit_curve

_N_KNOTS = 24  # of a smooth margin: far fewer than rows, so that it cannot follow single rows
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
        center, scale = np.median(X[:, j]), np.subtract(*np.quantile(X[:, j], [0.75, 0.25]))
        if scale > 0:
            Z[:, j] = fit_curve((X[:, j] - center) / scale, _N_KNOTS).forward((X[:, j] - center) / scale)[0]
    return Z


def robust_units(X: Matrix) -> np.ndarray:
    """Return columns minus their median, divided by their interquartile range, (n, d)."""
    center = np.median(X, axis=0)
    scale = np.subtract(*np.quantile(X, [0.75, 0.25], axis=0))
    return (X - center) / np.where(scale > 0, scale, 1.0)
