"""Columns of a table that are copies of what is measured: an outcome or a treatment that was left in X."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from scipy.sparse import issparse
from scipy.stats import rankdata
from sklearn.utils import _safe_indexing

from flowratio._support.callers import warn_caller
from flowratio._support.errors import ArgumentError
from flowratio._support.types import TableLike, Vector
from flowratio._support.wording import listed
from flowratio.samples.containers import library_of, to_table
from flowratio.tables.cells import to_frame

_LARGEST_CORRELATION = 0.999  # of ranks: a column with noise of over 4 % of the standard deviation is below it
_FEWEST_ROWS = 20
_FEWEST_OTHERS = 5  # rows without the most frequent value: 20 rows have 15,504 choices of 5, so few agree by chance
_MOST_CATEGORIES = 0.25  # of the rows: with more categories nearly any two columns correspond one to one
_MOST_ROWS = 5_000  # rows that are compared


def copies_of(values: Any, X: TableLike) -> list[str]:
    """Return the columns of X, (n, d), that have the values, (n,), in the same or in the opposite order.

    Text columns count too, if each category belongs to one value and each value to one category.
    """
    table, y = to_table(X), np.asarray(values)
    if issparse(table):
        return []
    table = table if library_of(table) is not None else np.asarray(table)
    n = len(table)
    if y.shape != (n,) or len(table.shape) != 2 or n < _FEWEST_ROWS:
        return []
    rows = np.unique(np.linspace(0, n - 1, _MOST_ROWS).astype(int))
    frame, own = to_frame(_safe_indexing(table, rows)), _numbers(to_frame(y[rows, None]).to_series())
    return [] if _is_nearly_constant(own) else [one.name for one in frame if _is_copy(_numbers(one), own)]


def refuse_copies(values: Any, X: TableLike, name: str, advice: str) -> None:
    """Refuse a table with copies of the values, which the argument `name` has."""
    if columns := copies_of(values, X):
        raise ArgumentError("X", f"{_problem(columns, 'X', name)}. {advice}")


def warn_of_copies(values: Any, X: TableLike, argument: str, name: str) -> None:
    """Issue a warning if the table of an `argument` has copies of the values, which the argument `name` has."""
    if columns := copies_of(values, X):
        it, it_is = ("them", "they are") if columns[1:] else ("it", "it is")
        advice = f"Leave {it} out, unless {it_is} known before the value is measured"
        warn_caller(f"{_problem(columns, argument, name)}. {advice}.")


def _problem(columns: list[str], argument: str, name: str) -> str:
    verb = "s {} of `{}` are copies" if columns[1:] else " {} of `{}` is a copy"
    return f"Column{verb.format(listed(columns), argument)} of `{name}`, possibly in other units or words"


def _numbers(column: pl.Series) -> tuple[Vector, bool]:
    """Return the values of a column as numbers, (n,), and whether they are codes without an order."""
    if column.dtype.is_numeric() or column.dtype.is_temporal() or column.dtype == pl.Boolean:
        return column.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy(), False
    text = column.cast(pl.String)
    numbers = text.str.strip_chars().cast(pl.Float64, strict=False)
    if numbers.null_count() == text.null_count():
        return numbers.fill_null(np.nan).to_numpy(), False
    return text.rank("dense").cast(pl.Float64).fill_null(np.nan).to_numpy(), True


def _is_copy(column: tuple[Vector, bool], values: tuple[Vector, bool]) -> bool:
    both = np.isfinite(column[0]) & np.isfinite(values[0])
    x, y = column[0][both], values[0][both]
    if len(x) < len(both) / 2 or _is_nearly_constant((x, False)) or _is_nearly_constant((y, False)):
        return False
    if column[1] or values[1]:
        n_x, n_y, n_pairs = (len(np.unique(one, axis=0)) for one in (x, y, np.column_stack([x, y])))
        return n_x == n_y == n_pairs and n_x <= _MOST_CATEGORIES * len(x)
    return abs(np.corrcoef(rankdata(x), rankdata(y))[0, 1]) > _LARGEST_CORRELATION


def _is_nearly_constant(column: tuple[Vector, bool]) -> bool:
    """Return whether so few rows differ from the most frequent value that two columns can agree by chance."""
    x = column[0]
    n_others = len(x) - np.unique(x, return_counts=True)[1].max(initial=0)
    return len(x) < _FEWEST_ROWS or n_others < _FEWEST_OTHERS
