"""Whether a table must be encoded: text, dates, booleans or missing values. polars is not imported for this."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from flowratio._support.types import TableLike


def is_mixed(X: TableLike) -> bool:
    """Return whether a table has text, dates, booleans or missing values, so that it must be encoded."""
    pandas, polars, pyarrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    table: Any = X
    if pandas is not None and isinstance(table, pandas.DataFrame):
        plain = all(getattr(dtype, "kind", "O") in "fiu" for dtype in table.dtypes)
        return not plain or bool(table.isna().to_numpy().any())
    if polars is not None and isinstance(table, polars.DataFrame):
        if not all(dtype.is_numeric() and not dtype.is_decimal() for dtype in table.dtypes):
            return True
        return any(column.has_nulls() or (column.dtype.is_float() and column.is_nan().any()) for column in table)
    if is_relation(table) or (pyarrow is not None and isinstance(table, pyarrow.Table | pyarrow.RecordBatch)):
        return True  # polars reads it
    return (isinstance(table, list | tuple) or hasattr(table, "__array__")) and _is_mixed_array(table)


def is_relation(X: Any) -> bool:
    """Return whether a table is a relation of DuckDB, which is not imported for this."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(X, duckdb.DuckDBPyRelation)


def _is_mixed_array(X: TableLike) -> bool:
    try:
        A = np.asarray(X)
    except ValueError:  # rows of different lengths, which is refused elsewhere
        return False
    if isinstance(X, np.ma.MaskedArray) and X.mask.any():
        return True
    kind = A.dtype.kind
    if A.ndim != 2 or kind not in "OUSMmf":
        return False
    if kind in "Mm" or (kind in "OUS" and any(isinstance(value, str | bytes) for value in A.flat)):
        return True
    try:
        values = A if kind == "f" else A.astype(np.float64)
    except (TypeError, ValueError):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()  # most arrays have a finite sum, which takes less time than a look at each value
    return bool(np.isnan(total) and np.isnan(values).any())
