"""Cells of a table, from pandas, polars, pyarrow, NumPy or text, read as numbers, truth values, dates or words.

A column is first brought to one of four types, with gaps as nulls: Float64, Boolean, Datetime (in microseconds, without
a zone, in UTC) or String, stripped of blanks. What a file keeps as text is then the same as what a typed frame holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from scipy.sparse import issparse

from flowratio.csv_layout import check_distinct, listed

ReadAs: TypeAlias = Literal["number", "integer", "boolean", "date", "category"]

_GAPS = [
    "",
    "na",
    "n/a",
    "#n/a",
    "<na>",
    "nan",
    "null",
    "(null)",
    "nil",
    "none",
    "nat",
    "?",
    "#div/0!",
    "#value!",
]  # any case
_DATE = (
    r"^(?<date>\d{4}(?:-\d{2}-|/\d{2}/)\d{2})"
    r"(?:[T ](?<hours>[01]\d|2[0-3]):(?<minutes>[0-5]\d)(?::(?<seconds>[0-5]\d(?:\.\d{1,9})?))?"
    r"(?:Z|(?<sign>[+-])(?<zone_hours>\d{2}):?(?<zone_minutes>[0-5]\d))?)?$"
)
_WHOLE = float(2**53)  # beyond, every float is whole
_DAY = 86_400.0  # seconds
_NOUNS = {"number": "number", "integer": "number", "boolean": "truth value", "date": "date", "category": "word"}


def to_frame(X: Any, name: str = "X") -> pl.DataFrame:
    """Return a frame of polars: of one of polars or pandas, a pyarrow table, or a matrix with columns x1, x2 and so on.

    Parameters
    ----------
    X
        The table, of n rows and d columns.
    name
        What errors call it.

    Examples
    --------
    >>> to_frame([[1, 2], [3, 4]]).columns
    ['x1', 'x2']
    """
    if isinstance(X, pl.DataFrame):
        return X
    pandas, pyarrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        check_distinct([str(column) for column in X.columns], f"`{name}`")
        return pl.DataFrame([_from_pandas(X.iloc[:, j], str(column)) for j, column in enumerate(X.columns)])
    if pyarrow is not None and isinstance(X, pyarrow.Table | pyarrow.RecordBatch):
        check_distinct(X.schema.names, f"`{name}`")
        made: Any = pl.from_arrow(X)
        return made
    if issparse(X):
        raise TypeError(f"`{name}` is a sparse matrix: tables must be dense. Use `{name}.toarray()`.")
    A = np.asarray(X) if isinstance(X, list | tuple) or hasattr(X, "__array__") else None
    if A is None:
        raise TypeError(
            f"`{name}` is a {type(X).__name__}: give a data frame of polars or pandas, a pyarrow table, or a 2-D array."
        )
    if A.ndim != 2 or A.dtype.kind not in "biufUMO":
        raise ValueError(
            f"`{name}` is a {A.ndim}-D array of type {A.dtype}: a table has one row per draw and one column per "
            f"variable, of numbers, text or dates. Reshape your data: one column is `{name}.reshape(-1, 1)`."
        )
    return pl.DataFrame([_from_array(column, f"x{j + 1}") for j, column in enumerate(A.T)])


def _from_pandas(column: Any, name: str) -> pl.Series:
    try:
        return pl.from_pandas(column).alias(name)
    except (ValueError, TypeError, NotImplementedError):  # a mixture of types, or one that pyarrow does not know
        return _as_words(column.astype(object).tolist(), name)


def _from_array(column: np.ndarray, name: str) -> pl.Series:
    return (
        _as_words(column.tolist(), name) if column.dtype.kind == "O" else pl.Series(name, np.ascontiguousarray(column))
    )


def _as_words(values: list[Any], name: str) -> pl.Series:
    return pl.Series(name, [None if value is None or value is not value else str(value) for value in values], pl.String)


def pooled(P: pl.DataFrame, Q: pl.DataFrame, names: tuple[str, str] = ("X_p", "X_q")) -> pl.DataFrame:
    """Return the rows of P, then those of Q, with the columns of P; a column that differs in type gets one of both.

    Numbers and truth values become numbers; numbers, or dates, and text become text, which is read as numbers or dates
    again if all of it can be.

    Parameters
    ----------
    P, Q
        Two tables with the same columns, in any order.
    names
        What errors call them.

    Examples
    --------
    >>> pooled(pl.DataFrame({"a": [1], "b": ["x"]}), pl.DataFrame({"b": ["y"], "a": ["2"]})).rows()
    [('1', 'x'), ('2', 'y')]
    """
    only = [[c for c in one.columns if c not in other.columns] for one, other in ((P, Q), (Q, P))]
    if only[0] or only[1]:
        found = [f"{listed(columns)} only in `{name}`" for columns, name in zip(only, names, strict=True) if columns]
        raise ValueError(
            f"The samples differ in their columns ({'; '.join(found)}): both must measure the same variables. Drop "
            "these columns with `exclude`, or rename them."
        )
    return pl.DataFrame([_joined(cells_of(P[name]), cells_of(Q[name])) for name in P.columns])


def _joined(a: pl.Series, b: pl.Series) -> pl.Series:
    if a.dtype != b.dtype:
        if a.null_count() == len(a):
            a = a.cast(b.dtype, strict=False)
        elif b.null_count() == len(b):
            b = b.cast(a.dtype, strict=False)
        elif {a.dtype, b.dtype} == {pl.Float64(), pl.Boolean()}:
            a, b = a.cast(pl.Float64), b.cast(pl.Float64)
        else:
            a, b = _words(a), _words(b)
    return pl.concat([a, b])


def cells_of(column: pl.Series) -> pl.Series:
    """Bring a column to one of the four types, with gaps as nulls.

    Examples
    --------
    >>> cells_of(pl.Series([" a ", "NA", "", None])).to_list()
    ['a', None, None, None]
    """
    dtype = column.dtype
    cells = pl.col(column.name)
    if dtype.is_numeric():
        return _found(column, cells.cast(pl.Float64).fill_nan(None))
    if dtype == pl.Boolean:
        return column
    if dtype == pl.Date or dtype == pl.Datetime:
        return _found(column, cells.dt.epoch("us").cast(pl.Datetime("us")))
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        text = cells.cast(pl.String).str.strip_chars()
        return _found(column, pl.when(~text.str.to_lowercase().is_in(_GAPS)).then(text))
    raise ValueError(
        f"Column {column.name!r} is of type {dtype}: numbers, truth values, text and dates can be encoded. Turn it "
        "into one of these, or drop it with `exclude`."
    )


def _found(column: pl.Series, expression: pl.Expr) -> pl.Series:
    """Return an expression of a column, worked out in one go, and what occurs twice in it once."""
    return column.to_frame().lazy().select(expression.alias(column.name)).collect().to_series()


def recognised(cells: pl.Series) -> ReadAs:
    """Return what all cells of a column can be read as.

    Examples
    --------
    >>> columns = (["3.5", "1e-3"], ["2", "-1"], ["True", "false"], ["2024-01-31", "2024/02/01"], ["31.1.24", "2"])
    >>> [recognised(pl.Series(column)) for column in columns]
    ['number', 'integer', 'boolean', 'date', 'category']
    """
    known = cells.drop_nulls()
    if known.dtype == pl.Boolean or known.dtype == pl.Datetime:
        return "boolean" if known.dtype == pl.Boolean else "date"
    if known.dtype == pl.String:
        if known.is_empty():
            return "category"
        if known.str.to_lowercase().is_in(["true", "false"]).all():
            return "boolean"
        if not _numbers(known).null_count():
            known = _numbers(known)
        else:
            return "category" if _days(known).null_count() else "date"
    values = known.to_numpy()
    return "integer" if ((values == np.round(values)) & (np.abs(values) < _WHOLE)).all() else "number"


def read(cells: pl.Series, read_as: ReadAs) -> pl.Series:
    """Return cells as floats (truth values as 0 and 1, dates as days since 1970), or as words; gaps are nulls.

    Examples
    --------
    >>> read(pl.Series(["1970-01-02", None, "1970-01-03T12:00"]), "date").to_list()
    [1.0, None, 2.5]
    """
    values = READERS[read_as](cells)
    wrong = values.is_null() & cells.is_not_null()
    if wrong.any():
        i, noun = int(wrong.arg_max() or 0), _NOUNS[read_as]
        raise ValueError(
            f"Column {cells.name!r} has {str(cells[i])!r} in row {i} (counted from 0), which is no {noun}: all of it "
            f"was a {noun} or a gap in the rows that were fitted. Mend this value, or leave it empty."
        )
    if read_as in ("number", "integer") and values.is_infinite().any():
        infinite = values.is_infinite().fill_null(False)
        raise ValueError(
            f"Column {cells.name!r} is infinite in {infinite.sum()} of {len(values)} rows, first in row "
            f"{infinite.arg_max()} (counted from 0): numbers must be finite. Mend these values, leave them empty, or "
            "drop the column with `exclude`."
        )
    return values


def _numbers(cells: pl.Series) -> pl.Series:
    if cells.dtype == pl.Datetime:
        return _none(cells)
    return _found(cells, pl.col(cells.name).cast(pl.Float64, strict=False).fill_nan(None))


def _truths(cells: pl.Series) -> pl.Series:
    if cells.dtype == pl.String:
        text = cells.str.to_lowercase()
        known = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
        return text.replace_strict(known, default=None, return_dtype=pl.Float64)
    values = _numbers(cells)
    return values.set(~values.is_in([0.0, 1.0]), None)


def _days(cells: pl.Series) -> pl.Series:
    if cells.dtype == pl.Datetime:
        return _in_days(cells.dt.epoch("us").cast(pl.Float64))
    if cells.dtype != pl.String:
        return _none(cells)
    found = pl.col(cells.name).str.extract_groups(_DATE)
    hours, minutes, seconds, zone_hours, zone_minutes = (
        found.struct.field(name).cast(pl.Float64).fill_null(0.0)
        for name in ("hours", "minutes", "seconds", "zone_hours", "zone_minutes")
    )
    date = found.struct.field("date").str.replace_all("/", "-", literal=True).str.to_date("%Y-%m-%d", strict=False)
    ahead = pl.when(found.struct.field("sign") == "+").then(1.0).otherwise(-1.0)
    seconds = 3600 * (hours - ahead * zone_hours) + 60 * (minutes - ahead * zone_minutes) + seconds
    return _in_days(_found(cells, date.cast(pl.Int32).cast(pl.Float64) * (1e6 * _DAY) + (1e6 * seconds).round()))


def _in_days(microseconds: pl.Series) -> pl.Series:
    # NumPy rounds the quotient correctly, to a third of a microsecond; a product with 1 / _DAY would not
    days = pl.Series(microseconds.name, microseconds.fill_null(0.0).to_numpy() / (1e6 * _DAY))
    return days.set(microseconds.is_null(), None)


def _words(cells: pl.Series) -> pl.Series:
    text = cells.cast(pl.String)
    return text.str.strip_suffix(".0") if cells.dtype == pl.Float64 else text


def _none(cells: pl.Series) -> pl.Series:
    return pl.Series(cells.name, [None], pl.Float64).extend_constant(None, max(0, len(cells) - 1)).head(len(cells))


READERS: dict[ReadAs, Callable[[pl.Series], pl.Series]] = {
    "number": _numbers,
    "integer": _numbers,
    "boolean": _truths,
    "date": _days,
    "category": _words,
}
