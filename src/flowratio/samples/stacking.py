"""Two samples in, one labelled matrix out: y is 1 on rows of p (the numerator of r = p/q), 0 on rows of q."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse


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
