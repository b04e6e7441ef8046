"""A mixed table (numbers, booleans, categories, dates, missing values) ↔ a matrix of floats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio._support.callers import warn_caller
from flowratio._support.errors import ArgumentError
from flowratio._support.row_counts import counts
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.validation import check_count
from flowratio._support.wording import listed
from flowratio.tables.cells import cells_of, to_frame
from flowratio.tables.columns import Column, RowWeights, learn_column
from flowratio.tables.formats import Kind, TextFormat


class IdentifierWarning(UserWarning):
    """Columns look like identifiers and are left out."""


class UnseenWarning(UserWarning):
    """Rows have categories, missing values or values far outside the range that the fitted table did not have."""


class CategoryCodes(NamedTuple):
    """The categories of a text column, as numbers."""

    codes: Vector  # position of the category of each row in `names`, (n,). -1 for a missing value or a new category
    names: tuple[str, ...]  # all categories, the most frequent first


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table with text, dates, booleans and missing values as a matrix of floats, and decode it.

    Numbers stay unchanged, booleans are 0 and 1, dates are days since 1970. Each frequent category has an indicator
    column of 0 and 1, but for the most frequent one. The other categories share the indicator "(other)". A column
    such as "shop (category)" has the code of the category. The most frequent one has the code 0. A category that is
    missing or did not occur at fit has the code -1. A missing value is replaced by the median or the most frequent
    category, and has an indicator too. Text is read as numbers, booleans or dates if all values of a column can be
    read in one format, see `TextFormat`, and otherwise as categories. Empty cells, "NA", "null", "?" and similar
    words are missing values.

    Codes have no order, so `transform` leaves them out: in a pipeline, rare categories are "(other)". `encode` returns
    them. To use all categories, pass the table to a ratio without a pipeline: it replaces codes by log-odds, see
    `CategoryOdds`. In a pipeline, use a larger `max_categories`.

    Parameters
    ----------
    max_categories
        Maximum number of categories of a column with their own indicator.
    text_format
        A `TextFormat` with the decimal mark and the date format of text. None to guess them.

    Attributes
    ----------
    columns_
        A `Column` for each column of the table.
    names_, groups_
        Distinct name of each of the m columns of the matrix of `encode`, such as "age", "age is missing" and
        "job = clerk", and the position of its source in `columns_`.
    codes_
        Positions of the k columns of the matrix of `encode` with codes of categories, one for each column with more
        than `max_categories` categories.
    rare_shares_
        By name of a text column, the share of the rows whose category has fewer than 5 rows in both samples together,
        so that its own log-odds cannot be estimated. Each sample counts one half. Only shares above 0.

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
    groups_: Vector  # (m,)
    codes_: tuple[int, ...]
    rare_shares_: dict[str, float]

    def __init__(self, max_categories: int = 20, text_format: TextFormat | None = None) -> None:
        self.max_categories = max_categories
        self.text_format = text_format

    def fit(self, X: TableLike, y: VectorLike | None = None, sample_weight: VectorLike | None = None) -> Self:
        """Learn the columns of a table with the rows of both samples.

        X is a data frame of polars or pandas, a pyarrow table, or a matrix with columns x1, x2 and so on. With labels
        y of two samples, of shape (n,), each sample counts one half in the frequencies of categories, so a category
        that is frequent in the smaller sample keeps its indicator. Other labels than two are ignored. Integer weights
        of rows, (n,), count. The scale of other weights does not matter. Rows of weight 0 are ignored.
        """
        check_count(n := self.max_categories, "max_categories")
        frame, text_format = to_frame(X), self.text_format or TextFormat()
        if frame.height < 2 or not frame.width:
            raise ValueError(f"`X` has shape {frame.shape}. A table must have at least 2 rows and 1 column.")
        is_p, w = _first_sample(y, frame.height), _checked_weights(sample_weight, frame.height)
        frame, rows = _weighted_rows(frame, is_p, w)
        self.n_features_in_ = frame.width
        self.columns_ = [learn_column(series, n, text_format, rows) for series in frame.iter_columns()]
        if text := self.identifier_text():
            warn_caller(text, IdentifierWarning)
        self.names_ = _distinct_names(self.columns_)
        self.groups_ = np.repeat(np.arange(len(self.columns_)), [len(column.parts) for column in self.columns_])
        places = [(k, column.code_part) for k, column in enumerate(self.columns_)]
        self.codes_ = tuple(self._part(k).start + part for k, part in places if part is not None)
        self.rare_shares_ = {column.name: column.rare_share for column in self.columns_ if column.rare_share > 0}
        return self

    def transform(self, X: TableLike) -> Matrix:
        """Encode n rows as a matrix without codes, (n, m - k). Columns are matched by name. Others are ignored."""
        return np.delete(self.encode(X)[0], self.codes_, axis=1)

    def unseen(self, X: TableLike) -> dict[str, int]:
        """Count the rows of each column with a category or missing value that the fitted table did not have.

        Rows more than ten ranges outside the range at fit have a key such as "age outside the range at fit".
        """
        return self.encode(X)[1]

    def encode(self, X: TableLike) -> tuple[Matrix, dict[str, int]]:
        """Return a matrix with codes, of shape (n, m), and the result of `unseen`."""
        frame = self._frame(X)
        matrix = np.zeros((frame.height, len(self.names_)))
        unseen: dict[str, int] = {}
        for k, column in enumerate(self.columns_):
            if column.name not in frame.columns:  # it was left out at fit
                continue
            n_new, n_far = column.encode(cells_of(frame[column.name]), matrix[:, self._part(k)])
            numbers = {column.name: n_new, f"{column.name} outside the range at fit": n_far}
            unseen |= {name: n for name, n in numbers.items() if n}
        return matrix, unseen

    def identifiers(self) -> list[str]:
        """Return the names of the columns that were left out because most rows have their own value there."""
        return [column.name for column in self.columns_ if column.kind is Kind.IDENTIFIER]

    def identifier_text(self) -> str:
        """Return the warning of columns that were left out as identifiers. Empty if there are none."""
        columns = [column for column in self.columns_ if column.kind is Kind.IDENTIFIER]
        integers = [column for column in columns if column.form.kind is Kind.INTEGER]
        texts = [column for column in columns if column.form.kind is not Kind.INTEGER]
        own = "most rows have their own value there, like identifiers and free text"
        of_integers = _left_out(
            integers,
            "the values are distinct integers, like row numbers",
            "convert {} to float in both samples (in a file, write 12.0, not 12)",
        )
        return " ".join(filter(None, [of_integers, _left_out(texts, own, "turn {} into numbers or a few categories")]))

    def used_columns(self) -> list[str]:
        """Return the names of the columns that the matrix comes from, without those that were left out."""
        return [column.name for column in self.columns_ if column.parts]

    def _frame(self, X: TableLike) -> pl.DataFrame:
        check_is_fitted(self)
        frame = to_frame(X)
        has_names = hasattr(X, "columns") or hasattr(X, "schema")  # of polars and pandas, and of pyarrow
        if not has_names and frame.width != self.n_features_in_:
            rule = f"but the table that was fitted has {self.n_features_in_}"
            raise ValueError(f"`X` has {frame.width} columns, {rule}.")
        absent = [name for name in self.used_columns() if name not in frame.columns]
        if absent:
            rule = f"All {len(self.used_columns())} columns that the fitted table uses are needed."
            raise ValueError(f"`X` has no column {listed(absent)}. {rule}")
        return frame

    def inverse_transform(self, X: TableLike) -> pl.DataFrame:
        """Decode a matrix of shape (n, m), or (n, m - k) without codes, as the nearest table, with typed columns.

        The category is that of the largest indicator above one half. Without one, or if it is "(other)", the category
        is that of the code, rounded, and the most frequent one if the column has no codes. A code below 0 is decoded as
        "(other)". A value is missing where its indicator is above one half. Numbers are rounded to the decimals at fit.
        """
        check_is_fitted(self)
        matrix = self._with_codes(np.asarray(X, np.float64))
        if matrix.ndim != 2 or matrix.shape[1] != len(self.names_) or not np.isfinite(matrix).all():
            problem = f"shape {matrix.shape} and {np.count_nonzero(~np.isfinite(matrix))} values that are not finite"
            raise ValueError(
                f"`X` has {problem}. Use a finite matrix with {len(self.names_) - len(self.codes_)} columns."
            )
        return pl.DataFrame([column.decode(matrix[:, self._part(k)]) for k, column in enumerate(self.columns_)])

    def category_codes(self, X: Matrix) -> dict[str, CategoryCodes]:
        """Return the categories of every text column that has categories, from a matrix of shape (n, m), by name."""
        check_is_fitted(self)
        texts = [(k, column) for k, column in enumerate(self.columns_) if column.kind is Kind.CATEGORY]
        return {c.name: CategoryCodes(c.codes_of(X[:, self._part(k)]), c.all_categories) for k, c in texts}

    def confined(self, X: Matrix) -> Matrix:
        """Return a matrix, (n, m), with numbers, dates and codes in their range at fit, or of few values."""
        parts = [column.confined(X[:, self._part(k)]) for k, column in enumerate(self.columns_)]
        return np.concatenate(parts, axis=1)

    def parse(self, X: TableLike) -> pl.DataFrame:
        """Return the columns of a table with their types. The result has the same encoding, and is encoded faster."""
        frame = self._frame(X)
        columns = [column for column in self.columns_ if column.name in frame.columns]
        return pl.DataFrame([column.parse(frame[column.name]) for column in columns])

    def nearest(self, X: TableLike) -> Matrix:
        """Return the nearest matrix that encodes a table, (n, m) to (n, m), or (n, m - k) to (n, m - k)."""
        matrix, _ = self.encode(self.inverse_transform(X))
        return matrix if np.shape(X)[1] == matrix.shape[1] else np.delete(matrix, self.codes_, axis=1)

    def missing_position(self, k: int) -> int | None:
        """Return the position in the matrix of the indicator of missing values of `columns_[k]`. None without one."""
        return self._part(k).stop - 1 if self.columns_[k].has_missing else None

    def _with_codes(self, X: Matrix) -> Matrix:
        """Insert codes of -1 into a matrix without codes, (n, m - k) to (n, m). Others stay unchanged."""
        if X.ndim != 2 or X.shape[1] != len(self.names_) - len(self.codes_):
            return X
        return np.insert(X, np.array(self.codes_, int) - np.arange(len(self.codes_)), -1.0, axis=1)

    def _part(self, k: int) -> slice:
        return slice(*np.searchsorted(self.groups_, [k, k + 1]).tolist())

    def get_feature_names_out(self, input_features: VectorLike | None = None) -> np.ndarray:
        """Return the names of the columns of `transform`: `names_` without codes. `input_features` is ignored."""
        check_is_fitted(self)
        return np.delete(np.array(self.names_, dtype=object), self.codes_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _left_out(columns: list[Column], reason: str, remedy: str) -> str:
    """Return why identifiers of one kind were left out and how to use them. Empty if there are none."""
    them = "it" if len(columns) == 1 else "them"
    names = listed([column.name for column in columns])
    return f"Left out {names}, because {reason}. To use {them}, {remedy.format(them)}." if columns else ""


def _first_sample(y: VectorLike | None, n: int) -> Vector | None:
    """Return which rows have the larger of two labels, of shape (n,). None if there are not two labels."""
    if y is None:
        return None
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ArgumentError("y", f"`y` has shape {labels.shape} for {n} rows. Use one label per row.")
    classes = np.unique(labels)
    return labels == classes[1] if len(classes) == 2 else None


def _checked_weights(sample_weight: VectorLike | None, n: int) -> Vector | None:
    if sample_weight is None:
        return None
    w = np.asarray(sample_weight, np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not w.any():
        rule = f"Use {n} finite weights of 0 or more, at least one of them above 0"
        raise ArgumentError("sample_weight", f"`sample_weight` has shape {w.shape} for {n} rows. {rule}.")
    return w


def _weighted_rows(frame: pl.DataFrame, is_p: Vector | None, w: Vector | None) -> tuple[pl.DataFrame, RowWeights]:
    """Return the rows of positive weight, and how they count."""
    if w is None:
        return frame, RowWeights.equal(frame.height, is_p)
    positive = w > 0
    w, is_p = w[positive], None if is_p is None else is_p[positive]
    frame = frame if positive.all() else frame.filter(pl.Series(positive))
    if is_p is None or is_p.all() or not is_p.any():
        return frame, RowWeights(counts(w))
    number = np.empty(len(w))
    number[is_p], number[~is_p] = counts(w[is_p]), counts(w[~is_p])
    return frame, RowWeights(number, is_p)


def _distinct_names(columns: list[Column]) -> list[str]:
    """Return the names of all columns of the matrix. A name that is in use gets a number."""
    sources = {column.name for column in columns}
    names: dict[str, None] = {}
    for column in columns:
        for part in column.parts:
            name, k = part, 1
            while name in names or (name in sources and name != column.name):
                k += 1
                name = f"{part} ({k})"
            names[name] = None
    return list(names)
