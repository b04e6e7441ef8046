"""A mixed table (numbers, truth values, categories, dates, gaps) ↔ a float matrix."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio._support.validation import is_count
from flowratio._support.wording import listed
from flowratio.tables.cells import cells_of, to_frame
from flowratio.tables.columns import Column, learn_column


class UnseenWarning(UserWarning):
    """Rows have categories, missing values or far values that did not occur at fit."""


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
        left_out = [column.name for column in self.columns_ if column.kind == "identifier"]
        if left_out:
            warnings.warn(
                f"Left out, as most rows have a value of their own there, like identifiers and free text: "
                f"{listed(left_out)}. To use such a column, turn it into numbers or a few categories.",
                UserWarning,
                stacklevel=2,
            )
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

    def confined(self, X: np.ndarray) -> np.ndarray:
        """Return a matrix, (n, m), with numbers and dates in their range at fit, or the nearest of few values there."""
        parts = [column.confined(X[:, self._part(k)]) for k, column in enumerate(self.columns_)]
        return np.concatenate(parts, axis=1)

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
