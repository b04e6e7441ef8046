"""Two samples in, one labelled matrix out: y is 1 on rows of p (the numerator of r = p/q), 0 on rows of q."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse

_MOST_REPEATED = 1_000_000  # rows to which whole weights are turned


def stack(X_p: Any, X_q: Any, *, names: tuple[str, str] = ("X_p", "X_q")) -> tuple[Any, np.ndarray]:
    r"""Stack a sample of p and a sample of q into one labelled matrix.

    The labels carry the direction of the ratio :math:`r(x) = p(x) / q(x)`: 1 on rows of p, the numerator, and 0 on rows
    of q, the denominator.

    Parameters
    ----------
    X_p
        Rows drawn from p, of shape (n_p, d): an array, nested lists, or a pandas or polars data frame.
    X_q
        Rows drawn from q, of shape (n_q, d). If both samples are data frames, their columns must have the same names
        in the same order.
    names
        What errors call the two samples.

    Returns
    -------
    X
        The rows of p, then those of q, of shape (n_p + n_q, d): a data frame with the same columns if both samples are
        data frames of one kind, an array otherwise. Values are float32 if both samples are, and float64 otherwise.
    y
        Labels, of shape (n_p + n_q,).

    Examples
    --------
    >>> X, y = stack([[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]])
    >>> X.shape, y.tolist()
    ((4, 2), [1, 1, 0, 0])
    """
    A_p, A_q = check_samples(X_p, X_q, names=names)
    X = np.concatenate([A_p, A_q])
    y = np.repeat(np.array([1, 0]), [len(A_p), len(A_q)])
    library = _library(X_p)
    if library is None or library is not _library(X_q):
        return X, y
    if library.__name__ == "pandas":
        return library.DataFrame(X, columns=X_p.columns), y
    return library.DataFrame(X, schema=X_p.columns, orient="row"), y


def check_samples(X_p: Any, X_q: Any, *, names: tuple[str, str] = ("X_p", "X_q")) -> tuple[np.ndarray, np.ndarray]:
    """Check that two samples measure the same variables, and return them as float arrays.

    Parameters
    ----------
    X_p
        Rows drawn from p, of shape (n_p, d), in any form that `stack` takes.
    X_q
        Rows drawn from q, of shape (n_q, d).
    names
        What errors call the two samples.

    Examples
    --------
    >>> check_samples([[1, 2], [3, 4]], [[1, 2, 3], [4, 5, 6]])
    Traceback (most recent call last):
    ...
    ValueError: `X_p` has 2 columns but `X_q` has 3: both samples must measure the same variables.
    """
    if _library(X_p) and _library(X_q):
        _check_columns(list(X_p.columns), list(X_q.columns), *names)
    A_p, A_q = to_matrix(X_p, names[0]), to_matrix(X_q, names[1])
    if A_p.shape[1] != A_q.shape[1]:
        raise ValueError(
            f"`{names[0]}` has {A_p.shape[1]} columns but `{names[1]}` has {A_q.shape[1]}: "
            "both samples must measure the same variables."
        )
    _check_rows(A_p, names[0], X_p)
    _check_rows(A_q, names[1], X_q)
    return A_p, A_q


def column_names(X: Any, n_features: int) -> list[str]:
    """Return the names of the columns of a data frame, or x1, x2, … for other rows.

    Examples
    --------
    >>> column_names(np.zeros((5, 2)), 2)
    ['x1', 'x2']
    """
    if _library(X) is not None:
        return [str(name) for name in X.columns]
    return [f"x{j + 1}" for j in range(n_features)]


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


def _library(X: Any) -> ModuleType | None:
    """Return pandas or polars if `X` is a data frame of it, without importing either."""
    for name in ("pandas", "polars"):
        library = sys.modules.get(name)
        if library is not None and isinstance(X, library.DataFrame):
            return library
    return None


def _check_columns(names_p: list[Any], names_q: list[Any], X_p: str, X_q: str) -> None:
    if names_p == names_q:
        return
    only_p = [name for name in names_p if name not in names_q]
    only_q = [name for name in names_q if name not in names_p]
    if only_p or only_q:
        found = [f"{_listed(only)} only in `{of}`" for only, of in ((only_p, X_p), (only_q, X_q)) if only]
        raise ValueError(
            f"The samples differ in their columns ({'; '.join(found)}): both must measure the same variables. "
            "Drop or rename these columns."
        )
    first = next(k for k, pair in enumerate(zip(names_p, names_q, strict=False)) if pair[0] != pair[1])
    raise ValueError(
        f"`{X_p}` and `{X_q}` have the same columns in another order (column {first} is {names_p[first]!r} in `{X_p}` "
        f"but {names_q[first]!r} in `{X_q}`): the order must be the same. Use `{X_q}[list({X_p}.columns)]`."
    )


def _listed(names: Sequence[Any]) -> str:
    """Name columns, at most eight of them."""
    return ", ".join([repr(name) for name in names[:8]] + [f"and {len(names) - 8} more"] * (len(names) > 8))


def to_matrix(X: Any, name: str) -> np.ndarray:
    """Convert a sample to a matrix of float32, where all of it is float32, or of float64."""
    if issparse(X):
        raise TypeError(f"`{name}` is a sparse matrix: samples must be dense. Use `{name}.toarray()`.")
    library = _library(X)
    if library is not None:
        return _frame_to_matrix(X, name, library)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "fiub":
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        A = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"`{name}` is not a matrix ({error}): give one row per draw, all of one length.") from error
    _check_shape(A, name)
    if A.dtype.kind not in "fiub":
        raise _not_numbers(name, [j for j in range(A.shape[1]) if not _holds_numbers(A[:, j])], str(A.dtype))
    return A.astype(np.float32 if A.dtype == np.float32 else np.float64, copy=False)


def _frame_to_matrix(X: Any, name: str, library: ModuleType) -> np.ndarray:
    columns = list(zip(X.columns, X.dtypes, strict=True))
    if library.__name__ == "pandas":
        is_numeric = library.api.types.is_numeric_dtype
        others = {column: dtype for column, dtype in columns if not is_numeric(dtype) or dtype.kind == "c"}
    else:
        others = {column: dtype for column, dtype in columns if not dtype.is_numeric() and dtype != library.Boolean}
    if others:
        raise _not_numbers(name, list(others), " or ".join(sorted({str(dtype) for dtype in others.values()})))
    if library.__name__ == "pandas":
        return X.to_numpy(np.float32 if all(t == np.float32 for _, t in columns) else np.float64, na_value=np.nan)
    return (X if all(t == library.Float32 for _, t in columns) else X.cast(library.Float64)).to_numpy()


def _holds_numbers(column: np.ndarray) -> bool:
    if column.dtype.kind not in "OUS":
        return False
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _not_numbers(name: str, columns: Sequence[Any], dtype: str) -> ValueError:
    where = f"in columns {_listed(columns)}" if columns else "although every value reads as a number"
    return ValueError(
        f"`{name}` has dtype {dtype} {where}: samples must be numbers. Encode text and dates (`TableEncoder` "
        "does; `TableRatio` takes them), drop these columns, or use `.astype(float)`."
    )


def _check_shape(A: np.ndarray, name: str) -> None:
    if A.ndim == 1:
        raise ValueError(
            f"`{name}` is 1-D with {len(A)} values: a sample has one row per draw and one column per variable. "
            f"For one variable use `{name}.reshape(-1, 1)` (an array) or `{name}.to_frame()` (a series)."
        )
    if A.ndim != 2:
        raise ValueError(
            f"`{name}` is {A.ndim}-D: a sample has one row per draw and one column per variable. "
            f"For images use `{name}.reshape(len({name}), -1)`."
        )


def _check_rows(A: np.ndarray, name: str, X: Any) -> None:
    if len(A) < 2 or A.shape[1] == 0:
        raise ValueError(f"`{name}` has shape {A.shape}: a sample must have at least 2 rows and 1 column.")
    finite = np.isfinite(A)
    if not finite.all():
        i, j = np.unravel_index(np.argmin(finite), A.shape)
        column = j if _library(X) is None else repr(X.columns[j])
        raise ValueError(
            f"`{name}` has {A.size - np.count_nonzero(finite)} missing or infinite values, the first in row {i} "
            f"(counted from 0), column {column}: every value must be finite. Drop or fill such rows first."
        )
