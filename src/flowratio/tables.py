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

from flowratio.cells import READERS, ReadAs, cells_of, read, recognised, to_frame
from flowratio.settings import is_count

_OTHER = "(other)"
_MOST_KNOWN = 1_000  # levels of a column that are remembered, so that others are known to be new
_FAR = 10.0  # ranges at fit beyond its ends, from where on a value is reported
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
        What cells are read as: the kind, but for constants, whose value has a kind too.
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
        gap = cells.is_null().to_numpy()
        if self.gaps:
            out[gap, -1] = 1.0
        n_gaps = 0 if self.gaps else int(gap.sum())
        if self.kind == "constant":
            values = READERS[self.read_as](cells)
            same = (values == self.fill).fill_null(False).to_numpy() if self.fill is not None else gap
            return n_gaps * (self.fill is not None) + int(np.count_nonzero(~same & ~gap)), 0
        values = read(cells, self.read_as)
        if self.kind != "category":
            x = out[:, 0] = values.fill_null(self.fill).to_numpy()
            far = _FAR * (self.highest - self.lowest)
            return n_gaps, int(np.count_nonzero((x < self.lowest - far) | (x > self.highest + far)))
        code, is_new = self._codes(values)
        told = np.flatnonzero((code > 0) & ~gap)
        out[told, code[told] - 1] = 1.0
        return n_gaps + int(np.count_nonzero(is_new & ~gap)), 0

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
        if values.dtype == pl.String or self.read_as == "number":
            return values
        if self.read_as == "boolean":
            return values > 0.5
        if self.read_as == "integer":
            return values.round().cast(pl.Int64, strict=False)
        if self.has_time:
            return (values * 86_400e6).round().cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
        return values.round().cast(pl.Int32, strict=False).cast(pl.Date)


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
    cells = cells_of(series)
    known = cells.drop_nulls()
    read_as, gaps = recognised(cells), 0 < len(known) < len(cells)
    if known.is_empty():
        return Column(series.name, "constant", read_as, None)
    values = read(known, read_as)
    if values.n_unique() == 1:
        return Column(series.name, "constant", read_as, values[0], gaps)
    if read_as != "category":
        has_time = read_as == "date" and bool((values != values.floor()).any())
        middle: Any = values.quantile(0.5, "lower")  # a value that is there
        lowest, highest = (float(value) for value in (values.to_numpy().min(), values.to_numpy().max()))
        return Column(series.name, read_as, read_as, middle, gaps, (), (), 0, has_time, lowest, highest)
    counted = values.value_counts(name="n", sort=False).sort(["n", series.name], descending=[True, False])
    levels = counted[series.name].to_list()
    _warn_of_levels(known, len(levels), max_levels)
    rare = levels[max_levels:] if len(levels) <= _MOST_KNOWN else []
    return Column(
        series.name, "category", read_as, levels[0], gaps, tuple(levels[:max_levels]), tuple(rare), len(levels)
    )


def _warn_of_levels(known: pl.Series, n_levels: int, max_levels: int) -> None:
    """Warn of categories that look like numbers or dates with a slip, or like free text."""
    name, n = known.name, len(known)
    words = None
    kinds: list[tuple[ReadAs, str]] = [("number", "numbers"), ("date", "dates")]
    for read_as, noun in kinds:
        wrong = READERS[read_as](known).is_null()
        if int(wrong.sum()) <= _FEW * n:
            words = (
                f"Column {name!r} is taken for categories, as {wrong.sum()} of its {n} values are no {noun}, such as "
                f"{str(known.filter(wrong)[0])!r}. If it is one of {noun}, mend these values, or leave them empty."
            )
    if words is None and n_levels > max_levels and n_levels > n / 2:
        words = (
            f"Column {name!r} has {n_levels} levels in {n} rows, as free text and identifiers have: only {max_levels} "
            "of them are told apart. Drop it with `exclude`, or turn it into what matters of it."
        )
    if words is not None:
        warnings.warn(words, UserWarning, stacklevel=5)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table of numbers, truth values, categories, dates and gaps as a matrix of floats, and decode it.

    Numbers stay as they are; truth values are 0 and 1; dates are days since 1970; of a category every frequent level
    has a column that is 1 on its rows and 0 elsewhere, and the others share one, "(other)"; the most frequent level has
    none, as it is where all others are 0, and one more would say nothing. Where a column has gaps,
    another one tells them, and the median stands in their place. Nothing is drawn: no noise, the same rows give the
    same matrix, and rows that differ in what is told apart differ in it, so that it changes no ratio.

    Text is read as numbers, as true and false, or as dates (`2024-01-31`, `2024/01/31`, with a time of day or not) if
    all of a column can be; else it is categories. Empty cells, "NA", "NaN", "null", "None", "?" and the like are gaps.

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
        check_is_fitted(self)
        frame = to_frame(X)
        missing = [column.name for column in self.columns_ if column.name not in frame.columns]
        if missing:
            raise ValueError(
                f"`X` has no column {', '.join(map(repr, missing[:8]))}{' and others' * (len(missing) > 8)}: all "
                f"{len(self.columns_)} columns of the table that was fitted must be there."
            )
        matrix = np.zeros((frame.height, len(self.names_)))
        unseen: dict[str, int] = {}
        for k, column in enumerate(self.columns_):
            n_new, n_far = column.encode(cells_of(frame[column.name]), matrix[:, self._part(k)])
            found = {column.name: n_new, f"{column.name} outside the range at fit": n_far}
            unseen |= {name: n for name, n in found.items() if n}
        return matrix, unseen

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
