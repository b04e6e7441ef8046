r"""The Gaussian kernel of standardized rows, and what decides its width.

.. math:: k(x, c) = \exp\big(-\|x - c\|^2 / (2 \sigma^2)\big)
"""

from __future__ import annotations

import numpy as np

_MEDIAN_ROWS = 1_000  # rows whose distances give the median


def squared_distances(X: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return squared Euclidean distances, (n, d) and (m, d) to (n, m).

    Examples
    --------
    >>> squared_distances(np.array([[0.0], [3.0]]), np.array([[1.0]])).tolist()
    [[1.0], [4.0]]
    """
    D = X @ C.T
    D *= -2
    D += np.einsum("ij,ij->i", X, X)[:, None]
    D += np.einsum("ij,ij->i", C, C)
    return np.maximum(D, 0, out=D)


def median_distance(X: np.ndarray, w: np.ndarray) -> float:
    """Return the weighted median of the distances between distinct rows, at least a hundredth of their mean.

    Parameters
    ----------
    X
        Rows, of shape (n, d), in the order of `distinct_rows`: of many, evenly spaced ones count.
    w
        Weights, of shape (n,).
    """
    step = -(-len(X) // _MEDIAN_ROWS)
    X, w = X[::step], w[::step]
    i, j = np.triu_indices(len(X), 1)
    distance = np.sqrt(squared_distances(X, X)[i, j])
    order = np.argsort(distance)
    total = np.cumsum((w[i] * w[j])[order])
    median = distance[order][np.searchsorted(total, total[-1] / 2)]
    return float(max(median, distance.mean() / 100))


def choose_centres(X: np.ndarray, w: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most n of the rows, (m, d), drawn without replacement, each as often as its weight says."""
    if len(X) <= n:
        return X
    keys = rng.exponential(size=len(X)) / w  # the n smallest are a weighted draw without replacement
    return X[np.sort(np.argpartition(keys, n)[:n])]
