"""Weights of rows: checks, merging of equal rows, and weighted means."""

from __future__ import annotations

import math

import numpy as np

from flowratio._support.row_counts import is_whole
from flowratio._support.types import Matrix, Vector, VectorLike

_FEWEST_DISTINCT = 20  # rows whose counts have a common factor by chance in one of 2²⁰ samples
MAX_REPEATED = 1_000_000  # largest number of rows that integer weights are turned into


def checked_weights(sample_weight: VectorLike | None, n: int, name: str) -> Vector:
    """Check weights of rows, and return them, of shape (n,). None stands for weights of 1."""
    if sample_weight is None:
        return np.ones(n)
    try:
        w = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not an array of numbers ({error}). Give one weight for each row.") from error
    if w.shape != (n,):
        rows = name.replace("sample_weight", "X")
        raise ValueError(f"`{name}` has shape {w.shape} but `{rows}` has {n} rows. Give one weight for each row.")
    if n_bad := np.count_nonzero(~np.isfinite(w)):
        raise ValueError(f"`{name}` is NaN or infinite on {n_bad} of {n} rows. Use finite weights.")
    if n_bad := np.count_nonzero(w < 0):
        least = f"with a minimum of {w.min():g}"
        raise ValueError(f"`{name}` is negative on {n_bad} of {n} rows, {least}. Use weights of 0 or more.")
    if not w.any():
        raise ValueError(f"`{name}` is zero on all {n} rows. Give at least one row a positive weight.")
    return w


def distinct_rows(X: Matrix, w: Vector, by: Matrix | None = None) -> tuple[Matrix, Vector]:
    """Merge equal rows (n, d), add their weights (n,), and return them in an order that depends on the rows alone.

    The order of rows and columns of the input does not matter, and a row of weight 2 equals two rows. `by` are the
    standardized rows, (n, d), if `X` is not standardized. They decide the order.
    """
    by = X if by is None else by
    direction = 1 + np.abs(w @ np.tanh(by)) / w.sum() + w @ np.tanh(by) ** 2 / w.sum()
    key = by @ direction
    order = np.argsort(key, kind="stable")
    # keys of equal rows may differ in the last bits, so columns decide the order of rows with nearly equal keys
    group = np.concatenate([[0], np.cumsum(np.diff(key[order]) > 1e-12 * np.abs(key).max())])
    if group[-1] == len(X) - 1:
        return X[order], w[order]
    order = order[np.lexsort((*by[order].T[::-1], group))]
    X, w, by = X[order], w[order], by[order]
    first = np.concatenate([[True], (by[1:] != by[:-1]).any(axis=1)])
    return X[first], np.add.reduceat(w, np.flatnonzero(first))


def weighted_moments(X: Matrix, share: Vector) -> tuple[Vector, Vector]:
    """Return mean and standard deviation of every column, (d,), for weights (n,) with sum 1. A constant has `inf`."""
    first = X[0].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        D = np.subtract(X, first, order="C")  # near 0, so that the squares below do not cancel
        mean = share @ D
        variance = share @ np.square(D, out=D) - mean**2
    if not np.isfinite(variance).all():
        raise ValueError(f"`X` has values of size {np.abs(X).max():.1e}, whose squares overflow. Change the units.")
    mean += first
    scale = np.sqrt(np.maximum(variance, 0))
    if (scale == 0).any() and np.ptp(X[:, scale == 0], axis=0).any():
        raise ValueError("`X` has a column that varies by less than 1e-150, whose squares vanish. Change the units.")
    constant = scale <= 4 * np.finfo(np.float64).eps * np.abs(mean)
    if constant.all():
        raise ValueError("Every column of `X` is constant, so there is no ratio. Use at least one column that varies.")
    scale[constant] = np.inf
    return mean, scale


def mean_and_error(values: np.ndarray, share: Vector) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the weighted mean of values, (n,) or (n, k), and its standard error, for weights (n,) with sum 1.

    .. math:: \bar f = \sum_i w_i f_i, \qquad
              \mathrm{se}^2 = \sum_i w_i^2 (f_i - \bar f)^2 \Big/ \Big(1 - \sum_i w_i^2\Big)
    """
    mean = share @ values
    rest = max(1 - float(share @ share), np.finfo(np.float64).eps)  # 0 if one row has all the weight
    return mean, np.sqrt((share**2) @ (values - mean) ** 2 / rest)


def coprime(X: Matrix, w: Vector) -> tuple[Matrix, Vector]:
    """Divide integer weights of distinct rows by their common factor: five copies of a sample equal the sample.

    Counts of a few values, such as those of a discrete column, have a common factor by chance. They stay.
    """
    if len(w) < _FEWEST_DISTINCT or not is_whole(w):
        return X, w
    return X, w / np.gcd.reduce(w.astype(np.int64))


def repeated(X: Matrix, w: Vector, most: int = MAX_REPEATED) -> tuple[Matrix, Vector]:
    """Repeat each row as often as its integer weight, up to `most` rows in total."""
    if not is_whole(w) or w.max() == 1 or w.sum() > most:
        return X, w
    return np.repeat(X, w.astype(np.int64), axis=0), np.ones(int(w.sum()))


def systematic(w: Vector, n: int, phase: float) -> Vector:
    """Return n positions, (n,): i comes n times its share of the weights (m,), rounded by the phase, from 0 to 1."""
    total = np.cumsum(w)
    return np.searchsorted(total[:-1], (np.arange(n) + phase) * (total[-1] / n), side="right")


def log_mean_exp(log_values: Vector, w: Vector | None = None) -> float:
    """Return the log of a weighted mean from the logs of the values, both of shape (n,). A factor of `w` cancels."""
    largest = float(log_values.max())
    values = np.exp(log_values - largest)
    return largest + math.log(values.mean() if w is None else w @ values / w.sum())
