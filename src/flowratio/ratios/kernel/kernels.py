r"""The Gaussian kernel of standardized rows, its width and its centers.

.. math:: k(x, c) = \exp\big(-\|x - c\|^2 / (2 \sigma^2)\big)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flowratio._support.errors import ArgumentError
from flowratio._support.validation import is_number

_MEDIAN_ROWS = 1_000  # rows whose distances give the median


def squared_distances(X: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return squared Euclidean distances, (n, d) and (m, d) to (n, m)."""
    D = X @ C.T
    D *= -2
    D += np.einsum("ij,ij->i", X, X)[:, None]
    D += np.einsum("ij,ij->i", C, C)
    return np.maximum(D, 0, out=D)


def median_distance(X: np.ndarray, w: np.ndarray) -> float:
    """Return the weighted median of the distances between distinct rows (n, d), at least a hundredth of their mean."""
    step = -(-len(X) // _MEDIAN_ROWS)  # of many rows, in the order of `distinct_rows`, evenly spaced ones count
    X, w = X[::step], w[::step]
    i, j = np.triu_indices(len(X), 1)
    distance = np.sqrt(squared_distances(X, X)[i, j])
    order = np.argsort(distance)
    total = np.cumsum((w[i] * w[j])[order])
    median = distance[order][np.searchsorted(total, total[-1] / 2)]
    return float(max(median, distance.mean() / 100))


def choose_centers(X: np.ndarray, w: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n of the rows, or all if there are fewer: (m, d), drawn without replacement, in proportion to w."""
    if len(X) <= n:
        return X
    keys = rng.exponential(size=len(X)) / w  # the n smallest are a weighted draw without replacement
    return X[np.sort(np.argpartition(keys, n)[:n])]


def check_range(name: str, value: Any, low: float, high: float, none: str) -> None:
    """Refuse a setting that is neither None nor a number from `low` to `high`. `none` says what None stands for."""
    if value is not None and not (is_number(value) and low <= value <= high):
        limits = f"of {low:g} or more" if high > 1e300 else f"from {low:g} to {high:g}"
        raise ArgumentError(name, f"`{name}` is {value!r}. Use a number {limits}, or None {none}.")
