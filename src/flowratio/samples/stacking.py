"""Two samples to one labeled matrix: y is 1 on rows of p (the numerator of r = p/q), 0 on rows of q."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.wording import check_distinct, listed, nearest, quoted
from flowratio.samples.containers import in_order, is_arrow_table, library_of, to_tables
from flowratio.tables.detection import is_mixed

_MIXED_TABLES = "Every ratio and application takes tables with text, dates and missing values directly"


_ADVICE = {"LazyFrame": "Call its method collect first", "dict": "Use a data frame, such as polars.DataFrame(…)"}


def stack(X_p: TableLike, X_q: TableLike, *, names: tuple[str, str] = ("X_p", "X_q")) -> tuple[Any, Vector]:
    """Stack a sample of p and a sample of q into one labeled table, for :math:`r(x) = p(x) / q(x)`.

    Returns the rows of p, then those of q, of shape (n_p + n_q, d), and their labels: 1 on rows of p, 0 on rows of q.
    If both samples are tables of the same library (pandas, polars or Arrow), so is the result. Otherwise numbers become
    an array, and rows with text or dates become a data frame of polars.

    Parameters
    ----------
    X_p, X_q
        Rows of p and of q, of shapes (n_p, d) and (n_q, d), or (n_p,) and (n_q,) for one column: arrays, lists, or
        tables with text, dates and missing values. Columns of tables are matched by name, and have the order of `X_p`.
        Numbers are float32 if both samples are, and otherwise float64.
    names
        Names of the two samples in errors.

    Examples
    --------
    >>> X, y = stack([[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]])
    >>> X.shape, y.tolist()
    ((4, 2), [1, 1, 0, 0])
    >>> stack([1.0, 2.0], [3.0, 4.0])[0].tolist()
    [[1.0], [2.0], [3.0], [4.0]]
    """
    X: Any
    P, Q = to_tables(X_p, X_q)
    library = library_of(P) if library_of(P) is library_of(Q) else None
    if (is_mixed(P) or is_mixed(Q)) and not (_is_of_numbers(P) and _is_of_numbers(Q)):
        X, y = _stacked_tables(P, Q, library, names)
    else:
        A_p, A_q = check_samples(P, Q, names=names)
        X, y = np.concatenate([A_p, A_q]), _labels(len(A_p), len(A_q))
        if library is not None:
            settings = (
                {"columns": P.columns} if library.__name__ == "pandas" else {"schema": P.columns, "orient": "row"}
            )
            X = library.DataFrame(X, **settings)
    return X.to_arrow() if is_arrow_table(X_p) and is_arrow_table(X_q) else X, y


def _stacked_tables(P: Any, Q: Any, library: ModuleType | None, names: tuple[str, str]) -> tuple[Any, Vector]:
    """Return the rows of two mixed tables as one, and their labels."""
    from flowratio.samples.two_samples import pooled_tables

    frame, y = pooled_tables(P, Q, names)  # it checks the columns and their formats
    if library is not None and library.__name__ == "pandas":  # its types stay, such as categories
        return library.concat([P, Q[list(P.columns)]], ignore_index=True), y
    if library_of(P) is None and library_of(Q) is None:
        arrays = [np.asarray(X) for X in (P, Q)]
        is_one_kind = arrays[0].dtype.kind == arrays[1].dtype.kind
        return np.concatenate(arrays if is_one_kind else [A.astype(object) for A in arrays]), y
    return frame, y


def _labels(n_p: int, n_q: int) -> Vector:
    return np.repeat(np.array([1, 0]), [n_p, n_q])


def check_samples(X_p: TableLike, X_q: TableLike, *, names: tuple[str, str] = ("X_p", "X_q")) -> tuple[Matrix, Matrix]:
    """Check that two samples of numbers, as in `stack`, have the same columns, and return them as float arrays."""
    X_p, X_q = to_tables(X_p, X_q)
    columns = _columns(X_p), _columns(X_q)
    if columns[0] is not None and columns[1] is not None:
        _check_columns(columns[0], columns[1], *names)
        X_q = in_order(X_q, columns[0])
    A_p, A_q = to_matrix(X_p, names[0]), to_matrix(X_q, names[1])
    if (d_p := A_p.shape[1]) != (d_q := A_q.shape[1]):
        problem = f"`{names[0]}` has {d_p} columns but `{names[1]}` has {d_q}."
        raise ValueError(f"{problem} Both samples must have the same columns.")
    labels = range(d_p) if columns[0] is None else columns[0]
    for A, name, own in zip((A_p, A_q), names, columns, strict=True):
        _check_rows(A, name, range(A.shape[1]) if own is None else labels)
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
    library = library_of(X)
    if library is not None:
        return _frame_to_matrix(X, name, library)
    if isinstance(X, np.ma.MaskedArray) and X.dtype.kind in "fiub":
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        A = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"`{name}` is not a matrix ({error}). All rows must have the same length.") from error
    if A.ndim == 0:
        is_path = isinstance(X, str | os.PathLike)
        advice = "Read the file first, for example with polars.read_csv" if is_path else _ADVICE.get(type(X).__name__)
        advice = advice or "Use an array, a data frame of pandas or polars, or an Arrow table"
        raise TypeError(f"`{name}` is a {'path' if is_path else type(X).__name__}, not rows and columns. {advice}.")
    if A.ndim != 2:
        hint = f"For images use `{name}.reshape(len({name}), -1)`."
        raise ValueError(f"`{name}` is {A.ndim}-D with {A.size} values. A sample must have rows and columns. {hint}")
    if A.dtype.kind not in "fiub":
        raise _not_numbers(name, [j for j in range(A.shape[1]) if not _holds_numbers(A[:, j])], str(A.dtype))
    return A.astype(np.float32 if A.dtype == np.float32 else np.float64, order="C", copy=False)


def _columns(X: Any) -> list[Any] | None:
    """Return the labels of the columns of a data frame, or None."""
    return None if library_of(X) is None else list(X.columns)


def _check_columns(names_p: list[Any], names_q: list[Any], X_p: str, X_q: str) -> None:
    if names_p == names_q:
        return
    only_p = [name for name in names_p if name not in names_q]
    only_q = [name for name in names_q if name not in names_p]
    if only_p or only_q:
        differences = [f"{listed(only)} only in `{X}`" for only, X in ((only_p, X_p), (only_q, X_q)) if only]
        advice = "Drop or rename them." + (nearest(only_p[0], map(str, only_q)) if only_p else "")
        raise ValueError(f"`{X_p}` and `{X_q}` have different columns ({', '.join(differences)}). {advice}")
    for names, X in ((names_p, X_p), (names_q, X_q)):
        check_distinct(names, f"`{X}`")


def _is_of_numbers(X: Any) -> bool:
    """Return whether all values are numbers, booleans or missing, by their types."""
    library = library_of(X)
    if library is None:
        return np.asarray(X).dtype.kind in "fiub"
    return not _other_types(X, library)


def _other_types(X: Any, library: ModuleType) -> dict[Any, Any]:
    """Return the types of the columns of a data frame that are neither numbers nor booleans."""

    def is_number(dtype: Any) -> bool:
        if library.__name__ == "pandas":
            return library.api.types.is_numeric_dtype(dtype) and dtype.kind != "c"
        return dtype.is_numeric() or dtype == library.Boolean

    return {column: dtype for column, dtype in zip(X.columns, X.dtypes, strict=True) if not is_number(dtype)}


def _frame_to_matrix(X: Any, name: str, library: ModuleType) -> Matrix:
    others = _other_types(X, library)
    if others:
        raise _not_numbers(name, list(others), " or ".join(sorted({str(dtype) for dtype in others.values()})))
    if library.__name__ == "pandas":
        is_float32 = all(dtype == np.float32 for dtype in X.dtypes)
        A = X.to_numpy(np.float32 if is_float32 else np.float64, na_value=np.nan)
    else:
        A = (X if all(t == library.Float32 for t in X.dtypes) else X.cast(library.Float64)).to_numpy()
    return np.ascontiguousarray(A)  # sums of columns round as those of an array of rows do


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
    is_infinite = np.isinf(A)
    if is_infinite.any():
        i, j = divmod(int(np.argmax(is_infinite)), A.shape[1])
        place = f"row {i} (counted from 0), column {quoted(columns[j])}"
        values = f"{np.count_nonzero(is_infinite)} infinite values"
        raise ValueError(f"`{name}` has {values}, the first in {place}. Drop these rows, or replace the values.")
