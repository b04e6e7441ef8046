"""Cells of a table, from pandas, polars, pyarrow, NumPy or text, read as numbers, truth values, dates or words.

A column is first brought to one of four types, with gaps as nulls: Float64, Boolean, Datetime (in microseconds, without
a zone, in UTC) or String, stripped of blanks. What a file keeps as text is then the same as what a typed frame holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from scipy.sparse import issparse

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import check_distinct, listed
from flowratio.tables.formats import (
    DATE_FORMATS,
    NUMBER_FORMATS,
    PER_SECOND,
    date_format,
    days,
    found,
    has_thousands_unparted,
    mark_before_three,
    number_format,
    numbers,
    one_number_twice,
    plain_numbers,
    share_of_dates,
    share_of_numbers,
)

# "number", "integer", "boolean", "date" or "category", and a format, as in "number 1.234,5 €" or "date %d.%m.%Y"
ReadAs: TypeAlias = str

# in any case
_GAPS = {
    *("", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "(null)", "nil", "none"),
    *("#div/0!", "#value!", "#num!", "#ref!", "#name?", "#null!"),
}
# gaps in a column whose other cells are numbers, dates or truth values; else they are levels
_SOFT_GAPS = {
    *("-", "--", "---", "–", "—", ".", "..", "...", "n.a.", "n.a", "n.d.", "missing", "unknown", "unk", "undefined"),
    *("unspecified", "not available", "not applicable", "not known", "no data", "no value"),
}
_WHOLE = float(2**53)  # beyond, every float is whole
_FEW = 0.1  # share of the cells of a column of numbers that are words, up to which they look like a mistake
_LETTERS = {ord("%"): None, ord("d"): "DD", ord("m"): "MM", ord("Y"): "YYYY"}
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
    if A.ndim != 2 or A.dtype.kind not in "biufUMmO":
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
    if column.dtype.kind == "O":
        return _as_words(column.tolist(), name)
    if column.dtype.kind in "mM" and np.datetime_data(column.dtype)[0] not in ("ms", "us", "ns"):
        column = column.astype(f"{column.dtype.kind}8[us]")  # polars has no other units
    return pl.Series(name, np.ascontiguousarray(column))


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
        raise ArgumentError(
            "exclude",
            f"The samples differ in their columns ({', '.join(found)}). Both must have the same columns. Drop "
            "these columns with `exclude`, or rename them.",
        )
    return pl.DataFrame([_joined(P[name], Q[name]) for name in P.columns])


def _joined(a: pl.Series, b: pl.Series) -> pl.Series:
    kept = a.dtype.is_numeric() or a.dtype.is_temporal() or a.dtype in (pl.String, pl.Categorical, pl.Enum)
    if a.dtype != b.dtype or not kept:
        a, b = cells_of(a), cells_of(b)
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


def check_formats(P: pl.DataFrame, Q: pl.DataFrame, names: tuple[str, str] = ("X_p", "X_q")) -> None:
    """Refuse columns that are no words in either table, but written in two ways, so that they are not to be compared.

    They would be categories of which no level is in both tables, or thousands in one of them and decimals in the other.

    Parameters
    ----------
    P, Q
        Two tables with the same columns.
    names
        What errors call them.

    Examples
    --------
    >>> P, Q = pl.DataFrame({"a": ["1,5", "2"]}), pl.DataFrame({"a": ["1.5", "3"]})
    >>> check_formats(P, Q)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    flowratio._support.errors.ArgumentError: Column 'a' has '1,5' in `X_p` (a number as in 1234,5) and '1.5' in ...
    """
    for name in P.columns:
        a, b = cells_of(P[name]).drop_nulls(), cells_of(Q[name]).drop_nulls()
        if pl.String not in (a.dtype, b.dtype) or a.is_empty() or b.is_empty():
            continue
        alone = recognised(a), recognised(b)
        if "category" in alone:
            continue
        if _may_be_thousands(_words(a), _words(b)):
            said = ["", ", where a comma or a dot may stand before decimals or between thousands"]
        elif _way(alone[0]) != _way(alone[1]) and recognised(_joined(a, b)) == "category":
            said = [f" (a {_way(read_as)})" for read_as in alone]
        else:
            continue
        examples = _example(a, alone[1]), _example(b, alone[0])
        told = [f"{cell!r} in `{table}`{way}" for cell, table, way in zip(examples, names, said, strict=True)]
        raise ArgumentError(
            "exclude",
            f"Column {name!r} has {' and '.join(told)}: both samples must be written in one way. Write this column "
            "alike in both, or drop it with `exclude`.",
        )


def _may_be_thousands(a: pl.Series, b: pl.Series) -> bool:
    """Return whether marks may part thousands in one column of numbers, and in the other there are others, or none."""
    marks = {mark_before_three(a), mark_before_three(b)}
    return marks == {".", ","} or (marks == {".", None} and (has_thousands_unparted(a) or has_thousands_unparted(b)))


def _way(read_as: ReadAs) -> str:
    """Say how cells are written."""
    kind, _, form = read_as.partition(" ")
    if kind == "date":
        return f"date as {(form or '%Y-%m-%d').translate(_LETTERS)}"
    return _NOUNS[kind] if kind == "boolean" else f"{_NOUNS[kind]} as in {form or '1234.5'}"


def _example(known: pl.Series, other: ReadAs) -> str:
    """Return a cell that cannot be read as those of another column, or else one with a mark, or the first."""
    words = _words(known)
    for strange in (READERS[other](words).is_null() & ~is_soft_gap(words), words.str.contains("[.,]|[0-9]{4}")):
        if strange.any():
            return words.filter(strange)[0]
    return words[0]


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
        return found(column, cells.cast(pl.Float64).fill_nan(None))
    if dtype == pl.Boolean:
        return column
    if isinstance(dtype, pl.Duration):
        return found(column, cells.cast(pl.Int64).cast(pl.Float64) / PER_SECOND[dtype.time_unit])
    if dtype == pl.Time:
        return found(column, cells.cast(pl.Int64).cast(pl.Float64) / 1e9)
    if dtype == pl.Date or dtype == pl.Datetime:
        return found(column, cells.dt.epoch("us").cast(pl.Datetime("us")))
    if dtype in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        text = cells.cast(pl.String).str.strip_chars()
        return found(column, pl.when(~text.str.to_lowercase().is_in(_GAPS)).then(text))
    raise ArgumentError(
        "exclude",
        f"Column {column.name!r} is of type {dtype}: numbers, truth values, text, dates and times can be encoded. Turn "
        "it into one of these, or drop it with `exclude`.",
    )


def recognised(cells: pl.Series) -> ReadAs:
    """Return what all cells of a column can be read as, and in which format if it is not the one of programs.

    Words for gaps, such as "-" and "unknown", do not matter if there is anything else.

    Examples
    --------
    >>> columns = (["3.5", "1e-3"], ["2", "-1"], ["True", "false"], ["2024-01-31", "2024/02/01"], ["31.1.24", "2"])
    >>> [recognised(pl.Series(column)) for column in columns]
    ['number', 'integer', 'boolean', 'date', 'category']
    >>> [recognised(pl.Series(column)) for column in (["3,5", "-"], ["31.1.2024", "unknown"], ["-", "a"])]
    ['number 1234,5', 'date %d.%m.%Y', 'category']
    """
    known = cells.drop_nulls()
    if known.dtype == pl.Boolean or known.dtype == pl.Datetime:
        return "boolean" if known.dtype == pl.Boolean else "date"
    if known.dtype != pl.String:
        return _number_or_integer(known)
    read_as = _recognised_text(known)
    if read_as == "category":
        others = known.filter(~is_soft_gap(known))
        return read_as if len(others) == len(known) else _recognised_text(others)
    return read_as


def _recognised_text(known: pl.Series) -> ReadAs:
    if known.is_empty():
        return "category"
    if known.str.to_lowercase().is_in(["true", "false"]).all():
        return "boolean"
    values = plain_numbers(known)
    if not values.null_count():
        return _number_or_integer(values)
    if not days(known).null_count():
        return "date"
    form = number_format(known)
    if form is not None:
        return f"{_number_or_integer(numbers(known, form))} {form}"
    form = date_format(known)
    return "category" if form is None else f"date {form}"


def _number_or_integer(values: pl.Series) -> ReadAs:
    x = values.to_numpy()
    return "integer" if ((x == np.round(x)) & (np.abs(x) < _WHOLE)).all() else "number"


def is_soft_gap(cells: pl.Series) -> pl.Series:
    """Return whether cells of text are words for a gap that could be levels as well."""
    return cells.str.to_lowercase().is_in(_SOFT_GAPS)


class CellError(ArgumentError):
    """A cell that cannot be read.

    Parameters
    ----------
    before, after
        What is said, before and after the words for where the cell is.
    row
        Where it is, counted from 0.

    Examples
    --------
    >>> error = CellError("Column 'age' has 'old' in ", 5, ", which is no number.")
    >>> str(error)
    "Column 'age' has 'old' in row 5 (counted from 0), which is no number."
    >>> str(error.at("line 7 of rows.csv"))
    "Column 'age' has 'old' in line 7 of rows.csv, which is no number."
    """

    def __init__(self, before: str, row: int, after: str) -> None:
        super().__init__("exclude", f"{before}row {row} (counted from 0){after}")
        self.before, self.row, self.after = before, row, after

    def at(self, place: str) -> ValueError:
        """Return the same with the words for a place in a file."""
        return ArgumentError("exclude", f"{self.before}{place}{self.after}")


def parsed(cells: pl.Series, read_as: ReadAs) -> tuple[pl.Series, pl.Series]:
    """Return cells as `read` does, and whether they are not what they are read as; words for a gap are gaps."""
    values = READERS[read_as](cells)
    wrong = values.is_null() & cells.is_not_null()
    if wrong.any() and cells.dtype == pl.String:
        wrong = wrong & ~is_soft_gap(cells).fill_null(False)
    return values, wrong


def read(cells: pl.Series, read_as: ReadAs) -> pl.Series:
    """Return cells as floats (truth values as 0 and 1, dates as days since 1970), or as words; gaps are nulls.

    Examples
    --------
    >>> read(pl.Series(["1970-01-02", None, "1970-01-03T12:00", "unknown"]), "date").to_list()
    [1.0, None, 2.5, None]
    """
    values, wrong = parsed(cells, read_as)
    kind, _, form = read_as.partition(" ")
    if wrong.any():
        i, noun = int(wrong.arg_max() or 0), _NOUNS[kind]
        form = f" as in {form}" if kind != "date" else f" as {form.translate(_LETTERS)}"
        raise CellError(
            f"Column {cells.name!r} has {str(cells[i])!r} in ",
            i,
            f", which is no {noun}{form if ' ' in read_as else ''}: all of it was a {noun} or a gap in the rows that "
            "were fitted. Mend this value, or leave it empty.",
        )
    if kind in ("number", "integer") and values.is_infinite().any():
        raise CellError(
            f"Column {cells.name!r} is infinite in ",
            int(values.is_infinite().fill_null(False).arg_max() or 0),
            ": numbers must be finite. Mend this value, leave it empty, or drop the column with `exclude`.",
        )
    return values


def _truths(cells: pl.Series) -> pl.Series:
    if cells.dtype == pl.String:
        text = cells.str.to_lowercase()
        known = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
        return text.replace_strict(known, default=None, return_dtype=pl.Float64)
    values = plain_numbers(cells)
    return values.set(~values.is_in([0.0, 1.0]), None)


def _words(cells: pl.Series) -> pl.Series:
    text = cells.cast(pl.String)
    return text.str.strip_suffix(".0") if cells.dtype == pl.Float64 else text


READERS: dict[ReadAs, Callable[[pl.Series], pl.Series]] = {
    "number": plain_numbers,
    "integer": plain_numbers,
    "boolean": _truths,
    "date": days,
    "category": _words,
    **{f"{kind} {form}": partial(numbers, form=form) for kind in ("number", "integer") for form in NUMBER_FORMATS},
    **{f"date {form}": partial(days, form=form) for form in DATE_FORMATS},
}


def slip(known: pl.Series) -> str | None:
    """Say why text is taken for categories though nearly all of it looks like numbers or dates; None if it does not.

    Examples
    --------
    >>> slip(pl.Series("age", ["31"] * 29 + ["old"]))[:80]
    "Column 'age' is taken for categories, as 1 of its 30 values are no numbers of on"
    """
    name, n = known.name, len(known)
    read_as, wrong = _nearest(known)
    if 0 < wrong <= _FEW * n:
        noun = "dates" if read_as.startswith("date") else "numbers"
        example = str(known.filter(READERS[read_as](known).is_null())[0])
        return (
            f"Column {name!r} is taken for categories, as {wrong} of its {n} values are no {noun} of one format, such "
            f"as {example!r}. If it is one of {noun}, mend these values, or leave them empty."
        )
    twice = one_number_twice(known) if read_as == "number 1234,5" and not wrong else None
    if twice is not None:
        return (
            f"Column {name!r} is taken for categories, as {twice[0]!r} and {twice[1]!r} would be one number. If the "
            "comma stands before decimals, give all numbers as many of them."
        )
    return None


def _nearest(known: pl.Series) -> tuple[ReadAs, int]:
    """Return as what most cells can be read, and how many cannot."""
    some = known.sample(min(len(known), 200), seed=0).to_list()
    shares = {f"number {form}": share_of_numbers(some, form) for form in NUMBER_FORMATS}
    shares |= {"date": share_of_dates(some, None)}
    shares |= {f"date {form}": share_of_dates(some, form) for form in DATE_FORMATS}
    read_as = max(shares, key=lambda read_as: shares[read_as])
    if shares[read_as] < 1 - 2 * _FEW:
        return "category", len(known)
    return read_as, READERS[read_as](known).null_count()
