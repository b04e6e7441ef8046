"""Tables from pandas, polars, pyarrow, DuckDB or NumPy as frames of polars with cells of four types.

Cells are Float64, Boolean, Datetime (in microseconds, UTC, without a zone) or String without outer blanks. Missing
values are nulls. A file of text and a typed frame then hold the same.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import issparse

from flowratio._support.errors import ArgumentError
from flowratio._support.types import TableLike
from flowratio._support.wording import check_distinct, listed, nearest, quoted
from flowratio.tables.detection import is_relation
from flowratio.tables.formats import PER_SECOND, CellFormat, Kind, TextFormat, evaluated, words
from flowratio.tables.recognition import GUESS, has_long_integers, is_word_for_missing, mark_before_three, recognize

_MISSING = {  # in any case
    *("", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "(null)", "nil", "none"),
    *("#div/0!", "#value!", "#num!", "#ref!", "#name?", "#null!"),
}


def to_frame(X: TableLike, name: str = "X") -> pl.DataFrame:
    """Return a table as a frame of polars. The columns of a matrix are x1, x2, … `name` stands in errors."""
    table: Any = X
    if isinstance(table, pl.DataFrame):
        return table.with_columns(_as_text(one.to_list(), one.name) for one in table if one.dtype == pl.Object)
    pandas, pyarrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(table, pandas.DataFrame):
        check_distinct([str(column) for column in table.columns], f"`{name}`")
        return pl.DataFrame([_from_pandas(table.iloc[:, j], str(column)) for j, column in enumerate(table.columns)])
    if pyarrow is not None and isinstance(table, pyarrow.Table | pyarrow.RecordBatch):
        check_distinct(table.schema.names, f"`{name}`")
        frame: Any = pl.from_arrow(table)
        return frame
    if is_relation(table):
        check_distinct(table.columns, f"`{name}`")
        return pl.DataFrame(table)  # through Arrow
    if issparse(X):
        raise TypeError(f"`{name}` is a sparse matrix. Tables must be dense. Use `{name}.toarray()`.")
    if not (isinstance(X, list | tuple) or hasattr(X, "__array__")):
        rule = "Use a data frame of polars or pandas, a table of Arrow or DuckDB, or a 2-D array"
        raise TypeError(f"`{name}` is a {type(X).__name__}. {rule}.")
    A = np.asarray(X)
    if A.ndim != 2 or A.dtype.kind not in "biufUMmO":
        rule = "A table has rows and columns of numbers, text or dates"
        advice = f"For one column use `{name}.reshape(-1, 1)`"
        raise ValueError(f"`{name}` is a {A.ndim}-D array of type {A.dtype}. {rule}. {advice}.")
    return pl.DataFrame([_from_array(column, f"x{j + 1}") for j, column in enumerate(A.T)])


def _from_pandas(column: Any, name: str) -> pl.Series:
    if getattr(column.dtype, "kind", "O") == "c":
        rule = "Use numbers, booleans, text, dates or times, or drop the column."
        raise ArgumentError("exclude", f"Column {quoted(name)} has complex numbers. {rule}")
    try:
        match type(column.dtype).__name__:
            case "PeriodDtype":
                column = column.dt.to_timestamp()
            case "SparseDtype":
                column = column.sparse.to_dense()
        return pl.from_pandas(column).alias(name)
    except (ValueError, TypeError, NotImplementedError):  # a mixture of types, or one that pyarrow does not have
        return _as_text(column.astype(object).tolist(), name)


def _from_array(column: np.ndarray, name: str) -> pl.Series:
    if column.dtype.kind == "O":
        return _as_text(column.tolist(), name)
    if column.dtype.kind in "mM" and np.datetime_data(column.dtype)[0] not in ("ms", "us", "ns"):
        column = column.astype(f"{column.dtype.kind}8[us]")  # polars has no other units
    return pl.Series(name, np.ascontiguousarray(column))


def _as_text(values: list[Any], name: str) -> pl.Series:
    return pl.Series(name, [None if value is None or value is not value else str(value) for value in values], pl.String)


def pooled(P: pl.DataFrame, Q: pl.DataFrame, names: tuple[str, str] = ("X_p", "X_q")) -> pl.DataFrame:
    """Return the rows of P, then those of Q, with the columns of P. Columns of two types get a common type.

    Numbers and booleans become numbers. Text and another type become text, which can still be read as numbers or dates.
    """
    only = [[c for c in one.columns if c not in other.columns] for one, other in ((P, Q), (Q, P))]
    if only[0] or only[1]:
        places = [f"{listed(columns)} only in `{name}`" for columns, name in zip(only, names, strict=True) if columns]
        advice = "Both samples must have the same columns. Drop or rename these columns."
        advice += nearest(only[0][0], only[1]) if only[0] else ""
        raise ArgumentError("exclude", f"The samples have different columns: {', '.join(places)}. {advice}")
    return pl.DataFrame([_joined(P[name], Q[name]) for name in P.columns])


def _joined(a: pl.Series, b: pl.Series) -> pl.Series:
    is_usable = a.dtype.is_numeric() or a.dtype.is_temporal() or a.dtype in (pl.String, pl.Categorical, pl.Enum)
    if a.dtype != b.dtype or not is_usable:
        a, b = cells_of(a), cells_of(b)
    if a.dtype == b.dtype:
        return pl.concat([a, b])
    if a.null_count() == len(a) or b.null_count() == len(b):
        dtype = b.dtype if a.null_count() == len(a) else a.dtype
        return pl.concat([a.cast(dtype, strict=False), b.cast(dtype, strict=False)])
    if {a.dtype, b.dtype} == {pl.Float64(), pl.Boolean()}:
        return pl.concat([a.cast(pl.Float64), b.cast(pl.Float64)])
    return pl.concat([words(a), words(b)])


def cells_of(column: pl.Series) -> pl.Series:
    """Return a column in one of the four types, with missing values as nulls."""
    dtype, cells = column.dtype, pl.col(column.name)
    if dtype.is_numeric():
        return evaluated(column, cells.cast(pl.Float64).fill_nan(None))
    if dtype == pl.Boolean:
        return column
    if dtype == pl.Time or isinstance(dtype, pl.Duration):
        unit = dtype.time_unit if isinstance(dtype, pl.Duration) else "ns"
        return evaluated(column, cells.cast(pl.Int64).cast(pl.Float64) / PER_SECOND[unit])
    if dtype == pl.Date or dtype == pl.Datetime:
        return evaluated(column, cells.dt.epoch("us").cast(pl.Datetime("us")))
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        text = cells.cast(pl.String).str.strip_chars()
        return evaluated(column, pl.when(~text.str.to_lowercase().is_in(_MISSING)).then(text))
    rule = "Use numbers, booleans, text, dates or times"
    raise ArgumentError("exclude", f"Column {quoted(column.name)} has type {dtype}. {rule}, or drop the column.")


class CellError(ArgumentError):
    """A cell that cannot be read, with the message before and after its place, and its row, counted from 0."""

    def __init__(self, before: str, row: int, after: str) -> None:
        super().__init__("exclude", f"{before}row {row} (counted from 0){after}")
        self.before, self.row, self.after = before, row, after

    def at(self, place: str) -> ArgumentError:
        return ArgumentError(self.arguments, f"{self.before}{place}{self.after}")


def parsed(cells: pl.Series, form: CellFormat) -> tuple[pl.Series, pl.Series]:
    """Return cells as `read` does, and which cells cannot be read. Words for missing values are nulls."""
    values = form.read(cells)
    is_wrong = values.is_null() & cells.is_not_null()
    if is_wrong.any() and cells.dtype == pl.String:
        is_wrong = is_wrong & ~is_word_for_missing(cells).fill_null(False)
    return values, is_wrong


def read(cells: pl.Series, form: CellFormat) -> pl.Series:
    """Return cells as floats (booleans as 0 and 1, dates as days since 1970) or words. Missing values are nulls."""
    values, is_wrong = parsed(cells, form)
    if is_wrong.any():
        row = int(is_wrong.arg_max() or 0)
        rule = "All values at fit were in this format or missing. Fix this value or leave it empty."
        raise CellError(
            f"Column {quoted(cells.name)} has {quoted(str(cells[row]))} in ", row, f", which is not a {form}. {rule}"
        )
    if form.kind in (Kind.NUMBER, Kind.INTEGER) and values.is_infinite().any():
        row = int(values.is_infinite().fill_null(False).arg_max() or 0)
        rule = "Numbers must be finite. Fix this value, leave it empty, or drop the column."
        raise CellError(f"Column {quoted(cells.name)} is infinite in ", row, f". {rule}")
    return values


def check_formats(
    P: pl.DataFrame, Q: pl.DataFrame, names: tuple[str, str] = ("X_p", "X_q"), text_format: TextFormat = GUESS
) -> None:
    """Refuse columns of numbers or dates that two tables with the same columns write in different formats."""
    for name in P.columns:
        a, b = cells_of(P[name]).drop_nulls(), cells_of(Q[name]).drop_nulls()
        if pl.String not in (a.dtype, b.dtype) or a.is_empty() or b.is_empty():
            continue
        forms = recognize(a, text_format), recognize(b, text_format)
        notes = [f" ({form})" for form in forms]
        has_category = any(form.kind is Kind.CATEGORY for form in forms)
        if text_format.decimal is None and _can_be_thousands(words(a), words(b)):
            notes = ["", ". A comma or a dot can be a decimal mark or a thousands separator here"]
        elif has_category or notes[0] == notes[1] or recognize(_joined(a, b), text_format).kind is not Kind.CATEGORY:
            continue
        examples = _example(a, forms[1]), _example(b, forms[0])
        places = [
            f"{quoted(cell)} in `{table}`{note}" for cell, table, note in zip(examples, names, notes, strict=True)
        ]
        rule = "Both samples must use one format. Write it in the same way in both, or drop the column."
        raise ArgumentError("exclude", f"Column {quoted(name)} has {' and '.join(places)}. {rule}")


def _can_be_thousands(a: pl.Series, b: pl.Series) -> bool:
    """Return whether marks can be thousands separators in one column, and the other has other marks or none."""
    marks = {mark_before_three(a), mark_before_three(b)}
    is_ungrouped = has_long_integers(a) or has_long_integers(b)
    return marks == {".", ","} or (marks == {".", None} and is_ungrouped)


def _example(cells: pl.Series, other: CellFormat) -> str:
    """Return a cell that cannot be read in another format, or else one with a mark, or the first."""
    text = words(cells)
    is_odd = other.read(text).is_null() & ~is_word_for_missing(text)
    candidates = [text.filter(is_odd), text.filter(text.str.contains("[.,]|[0-9]{4}")), text]
    return next(texts[0] for texts in candidates if len(texts))
