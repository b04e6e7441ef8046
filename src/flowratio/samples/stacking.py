"""Two samples to one labeled matrix: y is 1 on rows of p (the numerator of r = p/q), 0 on rows of q."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.wording import listed

_MIXED_TABLES = "Every ratio and application takes tables with text, dates and missing values directly"


def stack(X_p: TableLike, X_q: TableLike, *, names: tuple[str, str] = ("X_p", "X_q")) -> tuple[Any, Vector]:
    """Stack a sample of p and a sample of q into one labeled matrix, for :math:`r(x) = p(x) / q(x)`.

    Returns the rows of p, then those of q, of shape (n_p + n_q, d), and their labels: 1 on rows of p, 0 on rows of q.
    The rows are a data frame if both samples are data frames of one library, and an array otherwise.

    Parameters
    ----------
    X_p, X_q
        Rows of p and of q, of shapes (n_p, d) and (n_q, d): arrays, nested lists, or pandas or polars data frames. Two
        data frames must have the same column names in the same order. The result is float32 if both are float32.
    names
        Names of the two samples in errors.

    Examples
    --------
    >>> X, y = stack([[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]])
    >>> X.shape, y.tolist()
    ((4, 2), [1, 1, 0, 0])
    """
    A_p, A_q = check_samples(X_p, X_q, names=names)
    X, y = np.concatenate([A_p, A_q]), np.repeat(np.array([1, 0]), [len(A_p), len(A_q)])
    library, columns = _library(X_p), _columns(X_p)
    if library is None or library is not _library(X_q):
        return X, y
    settings = {"columns": columns} if library.__name__ == "pandas" else {"schema": columns, "orient": "row"}
    return library.DataFrame(X, **settings), y


def check_samples(X_p: TableLike, X_q: TableLike, *, names: tuple[str, str] = ("X_p", "X_q")) -> tuple[Matrix, Matrix]:
    """Check that two samples, as in `stack`, have the same columns, and return them as float arrays."""
    columns = [_columns(X) for X in (X_p, X_q)]
    if columns[0] is not None and columns[1] is not None:
        _check_columns(columns[0], columns[1], *names)
    A_p, A_q = to_matrix(X_p, names[0]), to_matrix(X_q, names[1])
    if (d_p := A_p.shape[1]) != (d_q := A_q.shape[1]):
        problem = f"`{names[0]}` has {d_p} columns but `{names[1]}` has {d_q}."
        raise ValueError(f"{problem} Both samples must have the same columns.")
    for A, name, labels in zip((A_p, A_q), names, columns, strict=True):
        _check_rows(A, name, range(A.shape[1]) if labels is None else labels)
    return A_p, A_q


def has_names(X: TableLike) -> bool:
    """Return whether the columns of a table have names."""
    return _columns(X) is not None or hasattr(X, "column_names")  # the latter in Arrow tables


def column_names(X: TableLike, n_features: int) -> list[str]:
    """Return the names of the columns of a data frame, or x1, x2, … for other rows."""
    return [str(name) for name in _columns(X) or [f"x{j + 1}" for j in range(n_features)]]


def to_matrix(X: TableLike, name: str) -> Matrix:
    """Convert a numeric sample to a matrix of float32 if all of it is float32, and of float64 otherwise."""
    if issparse(X):
        raise TypeError(f"`{name}` is a sparse matrix. Samples must be dense. Use `{name}.toarray()`.")
    library = _library(X)
    if library is not None:
        return _frame_to_matrix(X, name, library)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "fiub":
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        A = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"`{name}` is not a matrix ({error}). All rows must have the same length.") from error
    if A.ndim != 2:
        one = f"For one column use `{name}.reshape(-1, 1)` (an array) or `{name}.to_frame()` (a series)."
        hint = one if A.ndim == 1 else f"For images use `{name}.reshape(len({name}), -1)`."
        raise ValueError(f"`{name}` is {A.ndim}-D with {A.size} values. A sample must have rows and columns. {hint}")
    if A.dtype.kind not in "fiub":
        raise _not_numbers(name, [j for j in range(A.shape[1]) if not _holds_numbers(A[:, j])], str(A.dtype))
    return A.astype(np.float32 if A.dtype == np.float32 else np.float64, copy=False)


def _library(X: TableLike) -> ModuleType | None:
    """Return pandas or polars if `X` is a data frame of it, without importing either."""
    libraries = [sys.modules[name] for name in ("pandas", "polars") if name in sys.modules]
    return next((library for library in libraries if isinstance(X, library.DataFrame)), None)


def _columns(X: Any) -> list[Any] | None:
    """Return the labels of the columns of a data frame, or None."""
    return None if _library(X) is None else list(X.columns)


def _check_columns(names_p: list[Any], names_q: list[Any], X_p: str, X_q: str) -> None:
    if names_p == names_q:
        return
    only_p = [name for name in names_p if name not in names_q]
    only_q = [name for name in names_q if name not in names_p]
    if only_p or only_q:
        differences = [f"{listed(only)} only in `{X}`" for only, X in ((only_p, X_p), (only_q, X_q)) if only]
        raise ValueError(f"`{X_p}` and `{X_q}` have different columns ({', '.join(differences)}). Drop or rename them.")
    k, p, q = next((k, p, q) for k, (p, q) in enumerate(zip(names_p, names_q, strict=False)) if p != q)
    order = f"a different order (column {k} is {p!r} in `{X_p}` but {q!r} in `{X_q}`)"
    raise ValueError(f"`{X_p}` and `{X_q}` have the same columns in {order}. Use `{X_q}[list({X_p}.columns)]`.")


def _frame_to_matrix(X: Any, name: str, library: ModuleType) -> Matrix:
    is_pandas = library.__name__ == "pandas"

    def is_number(dtype: Any) -> bool:
        if is_pandas:
            return library.api.types.is_numeric_dtype(dtype) and dtype.kind != "c"
        return dtype.is_numeric() or dtype == library.Boolean

    others = {column: dtype for column, dtype in zip(X.columns, X.dtypes, strict=True) if not is_number(dtype)}
    if others:
        raise _not_numbers(name, list(others), " or ".join(sorted({str(dtype) for dtype in others.values()})))
    if is_pandas:
        is_float32 = all(dtype == np.float32 for dtype in X.dtypes)
        return X.to_numpy(np.float32 if is_float32 else np.float64, na_value=np.nan)
    return (X if all(t == library.Float32 for t in X.dtypes) else X.cast(library.Float64)).to_numpy()


def _holds_numbers(column: Vector) -> bool:
    if column.dtype.kind not in "OUS":
        return False
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _not_numbers(name: str, columns: Sequence[Any], dtype: str) -> ValueError:
    where = f"in columns {listed(columns)}" if columns else "although every value is a number"
    advice = "Use `.astype(float)`, encode the table with `TableEncoder`, or drop these columns."
    return ValueError(f"`{name}` has dtype {dtype} {where}. A numeric matrix is needed here. {advice} {_MIXED_TABLES}.")


def _check_rows(A: Matrix, name: str, columns: Sequence[object]) -> None:
    if len(A) < 2 or A.shape[1] == 0:
        raise ValueError(f"`{name}` has shape {A.shape}. A sample must have at least 2 rows and 1 column.")
    finite = np.isfinite(A)
    if not finite.all():
        i, j = divmod(int(np.argmin(finite)), A.shape[1])
        has_missing = bool(np.isnan(A).any())
        values = f"{A.size - np.count_nonzero(finite)} {'missing or ' * has_missing}infinite values"
        place, advice = f"row {i} (counted from 0), column {columns[j]!r}", f" {_MIXED_TABLES}." * has_missing
        raise ValueError(f"`{name}` has {values}, the first in {place}. Drop or fill these rows.{advice}")
