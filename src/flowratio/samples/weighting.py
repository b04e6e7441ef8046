"""Weights of rows: what they count, how they are merged, and means under them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_MOST_REPEATED = 1_000_000  # rows to which whole weights are turned


def checked_weights(given: Any, n: int, name: str) -> np.ndarray:
    """Check weights of rows, and return them, of shape (n,); 1 for all if none are given.

    Examples
    --------
    >>> checked_weights([1.0, -2.0], 2, "sample_weight_p")
    Traceback (most recent call last):
    ...
    ValueError: `sample_weight_p` is negative on 1 of 2 rows, -2 at the least: weights count rows, and must be 0 or
    more.
    """
    if given is None:
        return np.ones(n)
    try:
        w = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not an array of numbers ({error}): give one weight a row.") from error
    if w.shape != (n,):
        rows = name.replace("sample_weight", "X")
        raise ValueError(f"`{name}` has shape {w.shape} but `{rows}` has {n} rows: give one weight a row.")
    if not np.isfinite(w).all():
        raise ValueError(f"`{name}` is NaN or infinite on {np.count_nonzero(~np.isfinite(w))} of {n} rows.")
    if (w < 0).any():
        raise ValueError(
            f"`{name}` is negative on {np.count_nonzero(w < 0)} of {n} rows, {w.min():g} at the least: weights count "
            "rows, and must be 0 or more."
        )
    if not w.any():
        raise ValueError(f"`{name}` is zero on all {n} rows: give some of them a positive weight.")
    return w


def distinct_rows(X: np.ndarray, w: np.ndarray, by: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Merge rows that are equal, adding their weights, and put them in an order that is theirs alone.

    Whatever follows, folds and batches too, is then a function of the weighted sample: neither the order of the rows,
    nor that of the columns, nor whether a row of weight 2 came as two rows changes it. Rows are ordered by their
    projection on a direction that each column decides for itself.

    Parameters
    ----------
    X
        Rows, of shape (n, d).
    w
        Positive weights, of shape (n,).
    by
        The same rows, standardized, of shape (n, d), where `X` is not: they decide the order.

    Returns
    -------
    X
        Distinct rows, of shape (m, d).
    w
        Their weights, of shape (m,).

    Examples
    --------
    >>> X, w = distinct_rows(np.array([[2.0], [1.0], [2.0]]), np.array([1.0, 1.0, 3.0]))
    >>> X.ravel().tolist(), w.tolist()
    ([1.0, 2.0], [1.0, 4.0])
    """
    by = X if by is None else by
    direction = 1 + np.abs(w @ np.tanh(by)) / w.sum() + w @ np.tanh(by) ** 2 / w.sum()
    key = by @ direction
    order = np.argsort(key, kind="stable")
    # equal rows may differ in the last bits of the key: what is that close is told apart by the columns
    group = np.concatenate([[0], np.cumsum(np.diff(key[order]) > 1e-12 * np.abs(key).max())])
    if group[-1] == len(X) - 1:
        return X[order], w[order]
    order = order[np.lexsort((*by[order].T[::-1], group))]
    X, w, by = X[order], w[order], by[order]
    first = np.concatenate([[True], (by[1:] != by[:-1]).any(axis=1)])
    return X[first], np.add.reduceat(w, np.flatnonzero(first))


def weighted_moments(X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of every column, of shape (d,).

    The deviation of a column that is constant up to rounding is `inf`.

    Parameters
    ----------
    X
        Rows, of shape (n, d).
    share
        Weights that add up to 1, of shape (n,).
    """
    first = X[0].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        D = X - first  # no row is so far from another that the squares below cancel
        mean = share @ D
        variance = share @ np.square(D, out=D) - mean**2
    if not np.isfinite(variance).all():
        raise ValueError(f"`X` holds values of size {np.abs(X).max():.1e}, whose squares overflow. Change the units.")
    mean += first
    scale = np.sqrt(np.maximum(variance, 0))
    if (scale == 0).any() and np.ptp(X[:, scale == 0], axis=0).any():
        raise ValueError("`X` has a column that varies by less than 1e-150, whose squares vanish. Change the units.")
    constant = scale <= 4 * np.finfo(np.float64).eps * np.abs(mean)
    if constant.all():
        raise ValueError("Every column of `X` is constant: there is no ratio. Give at least one that varies.")
    scale[constant] = np.inf
    return mean, scale


def mean_and_error(values: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the weighted mean and its standard error, of shape (k,), or () for values of shape (n,).

    .. math:: \bar f = \sum_i w_i f_i, \qquad
              \mathrm{se}^2 = \sum_i w_i^2 (f_i - \bar f)^2 \Big/ \Big(1 - \sum_i w_i^2\Big)

    For equal weights the error is the usual one, s / √n.

    Parameters
    ----------
    values
        Of shape (n,) or (n, k).
    share
        Weights that add up to 1, of shape (n,).

    Examples
    --------
    >>> mean, error = mean_and_error(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    >>> float(mean), float(error)
    (2.0, 1.0)
    """
    mean = share @ values
    left = max(1 - float(share @ share), np.finfo(np.float64).eps)  # 0 where one row has all the weight
    return mean, np.sqrt((share**2) @ (values - mean) ** 2 / left)


def is_whole(w: np.ndarray) -> bool:
    """Return whether all weights are whole numbers."""
    return bool(w.max() < 2**53 and np.array_equal(w, np.round(w)))  # beyond, every float is whole


def counts(w: np.ndarray) -> np.ndarray:
    """Return weights that count rows: whole ones do; others are scaled to the number of rows they are worth."""
    if is_whole(w):
        return w
    w = w / w.max()
    return w * (w.sum() / (w @ w))


def without_factor(X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divide whole weights of distinct rows by what they have in common: a sample in five copies is that sample."""
    if len(w) == 1 or not is_whole(w):  # one row in copies is more than one row
        return X, w
    return X, w / np.gcd.reduce(w.astype(np.int64))


def repeated(X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Repeat rows as often as whole weights say, if these are not too many."""
    if not is_whole(w) or w.max() == 1 or w.sum() > _MOST_REPEATED:
        return X, w
    return np.repeat(X, w.astype(np.int64), axis=0), np.ones(int(w.sum()))


def systematic(w: np.ndarray, n: int, phase: float) -> np.ndarray:
    """Return n positions, of shape (n,): each as often as n times its share of the weight, rounded up or down.

    Parameters
    ----------
    w
        Positive weights, of shape (m,).
    n
        Number of positions.
    phase
        Where to begin, from 0 to 1: it decides what is rounded up.
    """
    total = np.cumsum(w)
    return np.searchsorted(total[:-1], (np.arange(n) + phase) * (total[-1] / n), side="right")


def log_mean_exp(log_values: np.ndarray, w: np.ndarray | None = None) -> float:
    """Return the log of a weighted mean from the logs of the values, both of shape (n,). A factor of `w` cancels.

    Examples
    --------
    >>> log_mean_exp(np.array([800.0, 800.0]))
    800.0
    """
    largest = float(log_values.max())
    values = np.exp(log_values - largest)
    return largest + math.log(values.mean() if w is None else w @ values / w.sum())
