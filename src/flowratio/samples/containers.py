"""Rows in any container: values of one column become a table, and an Arrow table becomes a data frame of polars.

No library of data frames is imported for this, except polars for Arrow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from flowratio._support.callers import warn_caller
from flowratio._support.types import TableLike
from flowratio._support.wording import listed
from flowratio.tables.detection import is_mixed, is_relation
from flowratio.tables.identifiers import counting_columns, identifier_columns, untyped_numbers

_ONLY = "x1"  # name of the column of values without a name, as in arrays of several columns


def library_of(X: Any, kind: str = "DataFrame") -> ModuleType | None:
    """Return pandas or polars if `X` is a data frame, or a `kind` such as "Series", of it."""
    libraries = [sys.modules[name] for name in ("pandas", "polars") if name in sys.modules]
    return next((library for library in libraries if isinstance(X, getattr(library, kind))), None)


def is_vector(X: Any) -> bool:
    """Return whether `X` has the values of one column, of shape (n,): an array, a list, a series or an Arrow array."""
    if library_of(X, "Series") is not None or _is_arrow(X, "Array", "ChunkedArray"):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and np.ndim(X[0]) == 0
    return getattr(X, "ndim", None) == 1


def is_arrow_table(X: Any) -> bool:
    """Return whether `X` is a table of Arrow, or a relation of DuckDB, which becomes one."""
    return _is_arrow(X, "Table", "RecordBatch") or is_relation(X)


def to_table(X: TableLike, column: str | None = None) -> Any:
    """Return rows as an array or a data frame of shape (n, d).

    Values of one column, of shape (n,), become a table with one column. It is called `column`, or else as the series
    is. An Arrow table becomes a data frame of polars. Other rows stay unchanged.
    """
    if is_arrow_table(X):
        from flowratio.tables.cells import to_frame

        return to_frame(X)
    if not is_vector(X):
        return X
    values: Any = X
    library = library_of(values, "Series")
    if _is_arrow(values, "Array", "ChunkedArray"):
        import polars as library

        values = library.Series(library.from_arrow(values))
    if library is None:
        return _array_table(values, column)
    name = column or values.name
    if library.__name__ == "polars":
        frame = values.alias(name or _ONLY).to_frame()
    else:
        frame = values.reset_index(drop=True).to_frame(_ONLY if name is None else name)
    return frame.to_numpy() if name in (None, "") and not is_mixed(frame) else frame


def needs_encoding(*tables: TableLike) -> bool:
    """Return whether tables with the rows of both samples must be encoded: mixed tables, and those with identifiers.

    Identifiers of data frames are left out by the encoder, and so are integers of an array with text in the order of
    its rows. Columns of other arrays have neither names nor types, so nothing is left out. A column of numbers that
    counts the rows is named in a warning.
    """
    mixed = any(map(is_mixed, tables))
    if not mixed and all(library_of(table) is not None for table in tables):
        return bool(identifier_columns(*tables))
    arrays = [table for table in tables if isinstance(table, np.ndarray) and table.ndim == 2 and len(table)]
    if len(arrays) == len(tables) and len({A.shape[1] for A in arrays}) == 1:
        _warn_of_counters([f"x{j + 1}" for j in counting_columns(*map(untyped_numbers, arrays))])
    return mixed


def _warn_of_counters(columns: list[str]) -> None:
    if columns:
        subject = "Columns {} have" if columns[1:] else "Column {} has"
        problem = f"{subject.format(listed(columns))} consecutive integers, a different one in every row"
        warn_caller(f"{problem}, like identifiers. They are used. To ignore identifiers, drop them.")


def to_tables(X_p: TableLike, X_q: TableLike) -> tuple[Any, Any]:
    """Return two samples as `to_table` does. Values of one column, of shape (n,), get one name in both samples."""
    tables = [to_table(X) for X in (X_p, X_q)]
    if not (is_vector(X_p) or is_vector(X_q)):
        return tables[0], tables[1]
    labels = [list(table.columns) for table in tables if library_of(table) is not None]
    column = next((names[0] for names in labels if len(names) == 1), None)
    table_p, table_q = tables
    return (
        to_table(X_p, column) if is_vector(X_p) else table_p,
        to_table(X_q, column) if is_vector(X_q) else table_q,
    )


def in_order(X: TableLike, columns: Sequence[Any]) -> Any:
    """Return a data frame with its columns in another order. Anything without these columns stays unchanged."""
    if library_of(X) is None:
        return X
    frame: Any = X
    names = list(frame.columns)
    if names == list(columns) or len(set(names)) < len(names) or set(names) != set(columns):
        return X
    return frame[list(columns)]


def _is_arrow(X: Any, *kinds: str) -> bool:
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(X, tuple(getattr(pyarrow, kind) for kind in kinds))


def _array_table(values: Any, column: str | None) -> Any:
    """Return an array or a list, of shape (n,), as an array of shape (n, 1), or as a frame if its column has a name."""
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    array = array.reshape(-1, 1)
    if column is None or (not isinstance(column, str) and not is_mixed(array)):
        return array
    from flowratio.tables.cells import to_frame

    return to_frame(array).rename({_ONLY: str(column)})
