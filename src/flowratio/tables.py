"""A mixed table (numbers, truth values, categories, dates, gaps) ↔ a float matrix."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio.cells import READERS, ReadAs, cells_of, parsed, read, recognised, to_frame
from flowratio.formats import (
    DATE_FORMATS,
    NUMBER_FORMATS,
    digits_of_codes,
    looks_like_thousands,
    one_number_twice,
    pattern_of_dates,
    share_of_dates,
    share_of_numbers,
)
from flowratio.restoring import as_text, as_type, decimals_of, name_of, rounded, sign_of
from flowratio.settings import is_count

_OTHER = "(other)"
_MOST_KNOWN = 1_000  # levels of a column that are remembered, so that others are known to be new
_FAR = 10.0  # ranges at fit beyond its ends, from where on a value is reported
_YEARS = -719_162.0, 2_932_896.999  # days from 1970 to the first of year 1 and to the last of year 9999
_FEW = 0.1  # share of the cells of a column of numbers that are words, up to which they look like a mistake


@dataclass(frozen=True)
class Column:
    """A column of a table, as `TableEncoder.fit` found it.

    Parameters
    ----------
    name
        Its name.
    kind
        `"number"`, `"integer"` (whole numbers), `"boolean"`, `"category"`, `"date"`, or `"constant"` for a column
        with one value, or none, besides gaps.
    read_as
        What cells are read as: the kind, but for constants, whose value has a kind too; and a format of text if it is
        not that of programs, as in `"number 1.234,5 €"` and `"date %d.%m.%Y"`.
    fill
        The value in place of a gap: the median (for dates in days since 1970), or the most frequent level. The value
        of a constant column; None if it is all gaps.
    gaps
        Whether there were gaps at fit, so that a column of the matrix tells them.
    levels
        Levels of a category that are told apart, the most frequent first.
    rare
        Other levels at fit, which share the level "(other)". Empty where they were too many to be remembered.
    n_levels
        How many levels of a category there were.
    has_time
        Whether dates have a time of day.
    lowest, highest
        Range of its numbers, or dates, at fit.
    rare_counts
        How often the levels of `rare` were there.
    decimals
        How many decimals its numbers have; None if they are not told.
    dtype
        The type of the column that was fitted, such as `"Int32"` and `"Datetime us Europe/Berlin"`.
    pattern
        How its text has dates, in the words of `strftime`, numbers with a sign, or codes with leading zeros.

    Examples
    --------
    >>> Column("job", "category", "category", "clerk", gaps=True, levels=("clerk", "baker", "judge"), n_levels=3).parts
    ['job = baker', 'job = judge', 'job is missing']
    """

    name: str
    kind: Literal["number", "integer", "boolean", "category", "date", "constant"]
    read_as: ReadAs
    fill: float | str | None
    gaps: bool = False
    levels: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    n_levels: int = 0
    has_time: bool = False
    lowest: float = -math.inf
    highest: float = math.inf
    rare_counts: tuple[int, ...] = ()
    decimals: int | None = None
    dtype: str = "String"
    pattern: str = ""

    @property
    def codes(self) -> list[str]:
        """What a category is encoded as: its levels, and "(other)" if some of them share it."""
        return [*self.levels, *[_OTHER] * (self.n_levels > len(self.levels))]

    @property
    def parts(self) -> list[str]:
        """Names of its columns in the matrix."""
        parts = [self.name] * (self.kind not in ("category", "constant"))
        if self.kind == "category":  # the most frequent level is where the others are not
            parts = [f"{self.name} = {code}" for code in self.codes[1:]]
        return parts + [f"{self.name} is missing"] * self.gaps

    def encode(self, cells: pl.Series, out: np.ndarray) -> tuple[int, int]:
        """Write its columns of the matrix, zero before, of shape (n, m).

        Returns how many rows hold a level or a gap that is new, and how many a value far outside the range at fit.
        """
        if self.kind == "constant":
            return self._encode_constant(cells, out), 0
        values = read(cells, self.read_as)
        gap = values.is_null().to_numpy()
        if self.gaps:
            out[gap, -1] = 1.0
        n_gaps = 0 if self.gaps else int(gap.sum())
        if self.kind != "category":
            x = out[:, 0] = values.fill_null(self.fill).to_numpy()
            far = _FAR * (self.highest - self.lowest)
            return n_gaps, int(np.count_nonzero((x < self.lowest - far) | (x > self.highest + far)))
        code, is_new = self._codes(values)
        told = np.flatnonzero((code > 0) & ~gap)
        out[told, code[told] - 1] = 1.0
        return n_gaps + int(np.count_nonzero(is_new & ~gap)), 0

    def _encode_constant(self, cells: pl.Series, out: np.ndarray) -> int:
        values, wrong = parsed(cells, self.read_as)
        gap = (values.is_null() & ~wrong).to_numpy()
        if self.gaps:
            out[gap, -1] = 1.0
        if self.fill is None:
            return int(np.count_nonzero(~gap))
        is_other = ~(values == self.fill).fill_null(False).to_numpy()
        return int(np.count_nonzero(is_other & ~gap if self.gaps else is_other))

    def _codes(self, words: pl.Series) -> tuple[np.ndarray, np.ndarray]:
        """Return the code of every row, and whether its level is new, both of shape (n,); of a gap, that of `fill`."""
        last = len(self.codes) - 1
        code = {level: k for k, level in enumerate(self.levels)} | dict.fromkeys(self.rare, last)
        remembered = len(code) == self.n_levels
        found = words.fill_null(self.fill).replace_strict(
            list(code), list(code.values()), default=-1 if remembered else last, return_dtype=pl.Int64
        )
        positions = found.to_numpy()
        is_new = positions < 0
        return np.where(is_new, last if len(self.codes) > len(self.levels) else 0, positions), is_new

    def decode(self, part: np.ndarray) -> pl.Series:
        """Return cells of its columns of the matrix, of shape (n, m)."""
        gap = part[:, -1] > 0.5 if self.gaps else np.zeros(len(part), bool)
        if self.kind == "category":
            values = self._levels_of(part[:, : part.shape[1] - self.gaps])
        elif self.kind == "constant":
            values = pl.Series([self.fill], dtype=None if self.fill is not None else pl.String)
            values = values.extend_constant(self.fill, len(part)).head(len(part))
        else:
            values = pl.Series(part[:, 0])
        return self._typed(values).set(pl.Series(gap), None).alias(self.name)

    def _levels_of(self, part: np.ndarray) -> pl.Series:
        code = np.where(part.max(axis=1) > 0.5, 1 + part.argmax(axis=1), 0)
        return pl.Series(np.array(self.codes, dtype=object)[code], dtype=pl.String)

    def _typed(self, values: pl.Series) -> pl.Series:
        kind = self.read_as.partition(" ")[0]
        if values.dtype == pl.String:
            return values
        if kind == "number":
            return values if self.decimals is None else pl.Series(rounded(values.to_numpy(), self.decimals))
        if kind == "boolean":
            return values > 0.5
        if kind == "integer":
            return values.round().cast(pl.Int64, strict=False)
        values = values.clip(*_YEARS)  # no file has others
        if self.has_time:
            return (values * 86_400e6).round().cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
        return values.clip(None, math.floor(_YEARS[1])).round().cast(pl.Int32, strict=False).cast(pl.Date)

    def parse(self, series: pl.Series) -> pl.Series:
        """Return cells as what they are read as, with gaps as nulls; what is no gap in a constant stays as it is."""
        cells = cells_of(series)
        if self.kind == "constant":
            values, wrong = parsed(cells, self.read_as)
            # of truth values there is no third
            return cells.set(values.is_null() & ~wrong if self.read_as != "boolean" else values.is_null(), None)
        kind = self.read_as.partition(" ")[0]
        if kind == "category" or cells.dtype != pl.String:
            return cells
        values = read(cells, self.read_as)
        if kind == "date":
            return (values * 86_400e6).round().cast(pl.Int64).cast(pl.Datetime("us"))
        return values if kind != "boolean" else values > 0.5

    def restore(self, values: pl.Series, rng: np.random.Generator) -> pl.Series:
        """Return decoded cells as the column that was fitted has them; levels that share "(other)" are drawn."""
        if self.rare_counts and _OTHER not in self.levels:
            share = np.array(self.rare_counts) / sum(self.rare_counts)
            drawn = pl.Series(rng.choice(np.array(self.rare, object), len(values), p=share), dtype=pl.String)
            values = values.zip_with((values != _OTHER).fill_null(True), drawn)
        if self.dtype == "String":
            return as_text(values, self.read_as, self.decimals, self.pattern).alias(self.name)
        return as_type(values, self.dtype).alias(self.name)


def learn_column(series: pl.Series, max_levels: int) -> Column:
    """Learn a column of a table: what it holds, and how it is encoded.

    Parameters
    ----------
    series
        The column, of n rows.
    max_levels
        Levels of a category that are told apart.

    Examples
    --------
    >>> column = learn_column(pl.Series("age", ["31", "", "54", "29"]), 20)
    >>> column.kind, column.fill, column.parts
    ('integer', 31.0, ['age', 'age is missing'])
    """
    name, dtype, cells = series.name, name_of(series.dtype), cells_of(series)
    read_as = recognised(cells)
    every = read(cells, read_as)
    values = every.drop_nulls()
    gaps = 0 < len(values) < len(cells)
    if values.is_empty():
        return Column(name, "constant", read_as, None, dtype=dtype)
    kind: Any = read_as.partition(" ")[0]
    if kind == "category":
        return _learn_category(cells, values, gaps, max_levels, dtype)
    x, known = values.to_numpy(), cells.filter(every.is_not_null())
    has_time = kind == "date" and bool((x != np.floor(x)).any())
    decimals = decimals_of(x) if kind in ("number", "integer") else None
    pattern = _pattern(known, read_as) if known.dtype == pl.String else ""
    if x.min() == x.max():
        kind, fill = "constant", values[0]
    else:
        fill = values.quantile(0.5, "lower")  # a value that is there
    lowest, highest = (-math.inf, math.inf) if kind == "constant" else (float(x.min()), float(x.max()))
    return Column(name, kind, read_as, fill, gaps, (), (), 0, has_time, lowest, highest, (), decimals, dtype, pattern)


def _learn_category(cells: pl.Series, words: pl.Series, gaps: bool, max_levels: int, dtype: str) -> Column:
    name = cells.name
    if words.n_unique() == 1:
        return Column(name, "constant", "category", words[0], gaps, dtype=dtype)
    counted = words.value_counts(name="n", sort=False).sort(["n", name], descending=[True, False])
    levels, n = counted[name].to_list(), counted["n"].to_list()
    _warn_of_levels(words, len(levels), max_levels)
    some = slice(max_levels, None if len(levels) <= _MOST_KNOWN else max_levels)
    return Column(
        name,
        "category",
        "category",
        levels[0],
        gaps,
        tuple(levels[:max_levels]),
        tuple(levels[some]),
        len(levels),
        rare_counts=tuple(n[some]),
        dtype=dtype,
    )


def _pattern(known: pl.Series, read_as: ReadAs) -> str:
    """Return how text has dates, numbers with a sign, or codes; warn of dots that may stand between thousands."""
    kind, _, form = read_as.partition(" ")
    if kind == "date":
        return pattern_of_dates(known, form or None)
    if kind in ("number", "integer") and (form or "1234.5").startswith("1234.5") and looks_like_thousands(known):
        some = known.filter(known.str.contains(".", literal=True))[0]
        warnings.warn(
            f"Column {known.name!r} has {some!r} and others like it, and whole numbers without a dot: the dot is taken "
            "for a decimal point. If it stands between thousands, take it out.",
            UserWarning,
            stacklevel=5,
        )
    return sign_of(known[0]) if form else "0" * digits_of_codes(known) if kind == "integer" else ""


def _warn_of_levels(known: pl.Series, n_levels: int, max_levels: int) -> None:
    """Warn of categories that look like numbers or dates with a slip, or like free text."""
    name, n = known.name, len(known)
    words, (read_as, wrong) = None, _nearest(known)
    if 0 < wrong <= _FEW * n:
        noun = "dates" if read_as.startswith("date") else "numbers"
        example = str(known.filter(READERS[read_as](known).is_null())[0])
        words = (
            f"Column {name!r} is taken for categories, as {wrong} of its {n} values are no {noun} of one format, such "
            f"as {example!r}. If it is one of {noun}, mend these values, or leave them empty."
        )
    twice = one_number_twice(known) if read_as == "number 1234,5" and not wrong else None
    if twice is not None:
        words = (
            f"Column {name!r} is taken for categories, as {twice[0]!r} and {twice[1]!r} would be one number. If the "
            "comma stands before decimals, give all numbers as many of them."
        )
    if words is None and n_levels > max_levels and n_levels > n / 2:
        words = (
            f"Column {name!r} has {n_levels} levels in {n} rows, as free text and identifiers have: only {max_levels} "
            "of them are told apart. Drop it with `exclude`, or turn it into what matters of it."
        )
    if words is not None:
        warnings.warn(words, UserWarning, stacklevel=6)


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


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table of numbers, truth values, categories, dates and gaps as a matrix of floats, and decode it.

    Numbers stay as they are; truth values are 0 and 1; dates are days since 1970; of a category every frequent level
    has a column that is 1 on its rows and 0 elsewhere, and the others share one, "(other)"; the most frequent level has
    none, as it is where all others are 0, and one more would say nothing. Where a column has gaps,
    another one tells them, and the median stands in their place. Nothing is drawn: no noise, the same rows give the
    same matrix, and rows that differ in what is told apart differ in it, so that it changes no ratio.

    Text is read as numbers, as true and false, or as dates if all of a column can be, in one format, such as 1234.5,
    1.234,50, 12 % and € 7, or 2024-01-31, 31.1.2024 and 1/31/2024, with a time of day or not; else it is categories.
    Empty cells, "NA", "NaN", "null", "None", "?" and the like are gaps; "-", "unknown" and the like are gaps where all
    other cells are numbers, dates or truth values.

    Parameters
    ----------
    max_levels
        Levels of a category that are told apart, the most frequent ones.

    Attributes
    ----------
    columns_
        What was found, a `Column` for each column of the table.
    names_
        Names of the m columns of the matrix, such as "age", "age is missing" and "job = clerk"; no two are the same.
    groups_
        Positions in `columns_` of the columns that they are of, of shape (m,).

    Notes
    -----
    *New levels*, when another table is encoded, count as "(other)", or as the most frequent level where there is no
    such column. Gaps in a column that had none are filled. `unseen` counts both; of columns with more than 1000 levels
    no level is counted as new. A number or a date that cannot be read is an error; one that is ten times the range at
    fit or more away from it stays as it is, and is counted.

    Examples
    --------
    >>> table = pl.DataFrame({"age": ["31", "NA", "54"], "job": ["clerk", "baker", "judge"], "year": ["2024"] * 3})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.names_
    ['age', 'age is missing', 'job = clerk', 'job = judge']
    >>> encoder.transform(table).tolist()
    [[31.0, 0.0, 1.0, 0.0], [31.0, 1.0, 0.0, 0.0], [54.0, 0.0, 0.0, 1.0]]
    >>> encoder.inverse_transform(encoder.transform(table)).rows()
    [(31, 'clerk', 2024), (None, 'baker', 2024), (54, 'judge', 2024)]
    """

    columns_: list[Column]
    names_: list[str]
    groups_: np.ndarray

    def __init__(self, max_levels: int = 20) -> None:
        self.max_levels = max_levels

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns of a table, that of both samples together.

        Parameters
        ----------
        X
            A data frame of polars or pandas, a pyarrow table, or a matrix with columns x1, x2, …
        y
            Ignored.
        """
        if not is_count(self.max_levels):
            raise ValueError(f"`max_levels` is {self.max_levels!r}: give a whole number of 1 or more.")
        frame = to_frame(X)
        if frame.height < 2 or not frame.width:
            raise ValueError(f"`X` has shape {frame.shape}: a table must have at least 2 rows and 1 column.")
        self.n_features_in_ = frame.width
        self.columns_ = [learn_column(series, self.max_levels) for series in frame.iter_columns()]
        self.names_ = _distinct_names(self.columns_)
        self.groups_ = np.repeat(np.arange(len(self.columns_)), [len(column.parts) for column in self.columns_])
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Encode a table, of n rows, as a matrix of shape (n, m). Columns are found by name, others are ignored."""
        return self.encode(X)[0]

    def unseen(self, X: Any) -> dict[str, int]:
        """Count the rows, by column, with a level or a gap that was not there at fit; columns of none are left out.

        Rows with a value far outside the range at fit are counted as those of "age outside the range at fit".
        """
        return self.encode(X)[1]

    def encode(self, X: Any) -> tuple[np.ndarray, dict[str, int]]:
        """Return what `transform` and `unseen` do, in one pass."""
        frame = self._frame(X)
        matrix = np.zeros((frame.height, len(self.names_)))
        unseen: dict[str, int] = {}
        for k, column in enumerate(self.columns_):
            n_new, n_far = column.encode(cells_of(frame[column.name]), matrix[:, self._part(k)])
            found = {column.name: n_new, f"{column.name} outside the range at fit": n_far}
            unseen |= {name: n for name, n in found.items() if n}
        return matrix, unseen

    def _frame(self, X: Any) -> pl.DataFrame:
        """Return a table as a frame of polars, once all columns are known to be there."""
        check_is_fitted(self)
        frame = to_frame(X)
        missing = [column.name for column in self.columns_ if column.name not in frame.columns]
        if missing:
            raise ValueError(
                f"`X` has no column {', '.join(map(repr, missing[:8]))}{' and others' * (len(missing) > 8)}: all "
                f"{len(self.columns_)} columns of the table that was fitted must be there."
            )
        return frame

    def inverse_transform(self, X: Any) -> pl.DataFrame:
        """Decode a matrix of shape (n, m): the nearest table.

        A level is the one of the largest indicator that is above one half, and the most frequent one if none is; a gap
        is where its indicator is above one half, and whole numbers and days are rounded. What was not told apart is
        "(other)".
        """
        check_is_fitted(self)
        matrix = np.asarray(X, np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.names_) or not np.isfinite(matrix).all():
            raise ValueError(
                f"`X` has shape {matrix.shape}, {np.count_nonzero(~np.isfinite(matrix))} values of it not finite: give "
                f"a finite matrix of {len(self.names_)} columns, as `transform` returns it."
            )
        return pl.DataFrame([column.decode(matrix[:, self._part(k)]) for k, column in enumerate(self.columns_)])

    def restore(self, table: pl.DataFrame, random_state: int = 0) -> pl.DataFrame:
        """Return a table that `inverse_transform` gave as the one that was fitted has its columns.

        They get its types, or its way to write numbers and dates in text; in place of "(other)" come the levels that
        share it, drawn as often as they were there, if there were no more than 1000 levels.
        """
        check_is_fitted(self)
        rng = np.random.default_rng(random_state)
        return pl.DataFrame([column.restore(table[column.name], rng) for column in self.columns_])

    def parse(self, X: Any) -> pl.DataFrame:
        """Return the columns of a table as what they are read as: numbers, truth values, dates, words and nulls.

        It is encoded like the table itself, but in less time.
        """
        frame = self._frame(X)
        return pl.DataFrame([column.parse(frame[column.name]) for column in self.columns_])

    def nearest(self, X: Any) -> np.ndarray:
        """Return the nearest rows of a matrix that are those of a table, (n, m) to (n, m)."""
        return self.transform(self.inverse_transform(X))

    def _part(self, k: int) -> slice:
        return slice(*np.searchsorted(self.groups_, [k, k + 1]).tolist())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return `names_` as scikit-learn wants them; `input_features` is ignored."""
        check_is_fitted(self)
        return np.array(self.names_, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _distinct_names(columns: list[Column]) -> list[str]:
    """Return the names of all columns of the matrix; one that is taken gets a number, unless a column is called so."""
    given = {column.name for column in columns}
    names: dict[str, None] = {}
    for column in columns:
        for part in column.parts:
            name, k = part, 1
            while name in names or (name in given and name != column.name):
                k += 1
                name = f"{part} ({k})"
            names[name] = None
    return list(names)
