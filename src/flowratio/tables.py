"""A mixed table (numbers, truth values, categories, dates, gaps) ↔ a float matrix, and the ratio of two such tables."""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio.cells import READERS, ReadAs, cells_of, pooled, read, recognised, to_frame
from flowratio.ratios.auto import AutoRatio
from flowratio.ratios.base import InverseRatio, OverlapWarning, RatioEstimator
from flowratio.ratios.names import fitted, new_ratio
from flowratio.samples import checked_weights
from flowratio.settings import RandomState, is_count, seed_from, unchanged_on_failure

_OTHER = "(other)"
_MOST_KNOWN = 1_000  # levels of a column that are remembered, so that others are known to be new
_FAR = 10.0  # ranges at fit beyond its ends, from where on a value is reported
_FEW = 0.1  # share of the cells of a column of numbers that are words, up to which they look like a mistake


class UnseenWarning(UserWarning):
    """Rows that are scored have levels or gaps that no row had when the table was fitted, or values far beyond all."""


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


class TableRatio(RatioEstimator):
    """Estimate r = p/q (p is y = 1) of two tables with numbers, categories, dates and gaps.

    A `TableEncoder` learns the columns from both samples together, and a ratio is fitted to the matrix that it makes.

    Parameters
    ----------
    ratio
        The ratio of the matrix: a name (`"logistic"`, `"boosting"`, `"mlp"`, …), a ratio, or any object with
        `fit(X, y)` and `log_ratio(X)`. It is cloned. None for `AutoRatio()`.
    max_levels
        Levels of a category that are told apart, the most frequent ones.
    random_state
        Seed: fills in that of `ratio` if it has none.
    verbose
        Whether to show a progress bar.

    Attributes
    ----------
    encoder_
        The fitted `TableEncoder`.
    ratio_
        The fitted ratio of the matrix.

    Examples
    --------
    >>> P = pl.DataFrame({"job": ["clerk"] * 30 + ["baker"] * 10})
    >>> Q = pl.DataFrame({"job": ["clerk"] * 20 + ["baker"] * 20})
    >>> ratio = TableRatio("logistic").fit_samples(P, Q)
    >>> ratio.ratio(pl.DataFrame({"job": ["clerk", "baker"]})).round(1).tolist()  # 30/20 and 10/20
    [1.5, 0.5]
    """

    encoder_: TableEncoder
    ratio_: Any

    def __init__(
        self,
        ratio: Any = None,
        *,
        max_levels: int = 20,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.ratio = ratio
        self.max_levels = max_levels
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; with `deep` also those of `ratio`, as `ratio__…`."""
        params = super().get_params(deep)
        ratio = params["ratio"] = vars(self)["ratio"]
        if deep and hasattr(ratio, "get_params") and not isinstance(ratio, type):
            params |= {f"ratio__{name}": value for name, value in ratio.get_params().items()}
        return params

    @property
    def _rows(self) -> Literal["given"]:
        return "given"  # the ratio inside orders and counts them

    @property
    def _sign(self) -> int:
        return getattr(vars(self).get("ratio_"), "_sign", 1)

    def fit_samples(
        self,
        X_p: Any,
        X_q: Any,
        sample_weight_p: Any = None,
        sample_weight_q: Any = None,
        *,
        encoder: TableEncoder | None = None,
    ) -> Self:
        """Fit to two tables, r = p/q.

        Parameters
        ----------
        X_p, X_q
            Rows drawn from p (the numerator) and from q: data frames of polars or pandas, pyarrow tables, or matrices.
            Columns are matched by name; both must have the same.
        sample_weight_p, sample_weight_q
            How often each row counts, of shapes (n_p,) and (n_q,); 1 if None.
        encoder
            A fitted encoder, such as one that has seen more rows than these; None to fit one to both samples.
        """
        P, Q = to_frame(X_p, "X_p"), to_frame(X_q, "X_q")
        for frame, name in ((P, "X_p"), (Q, "X_q")):
            if frame.height < 2 or not frame.width:
                raise ValueError(f"`{name}` has shape {frame.shape}: a sample must have at least 2 rows and 1 column.")
        w = None
        if sample_weight_p is not None or sample_weight_q is not None:
            w_p = checked_weights(sample_weight_p, P.height, "sample_weight_p")
            w = np.concatenate([w_p, checked_weights(sample_weight_q, Q.height, "sample_weight_q")])
        X, y = pooled(P, Q), np.repeat([1, 0], [P.height, Q.height])
        with unchanged_on_failure(self):
            self._fit_encoded(TableEncoder(self.max_levels).fit(X) if encoder is None else encoder, X, y, w)
        return self

    def _fit_checked(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._fit_encoded(TableEncoder(self.max_levels).fit(X), X, y, sample_weight)

    def _fit_encoded(self, encoder: TableEncoder, X: Any, y: Any, sample_weight: Any) -> None:
        seed_from(self.random_state)
        self.encoder_ = encoder
        if not self.encoder_.names_:
            raise ValueError("Every column of `X` is constant: there is no ratio. Give at least one that varies.")
        super()._fit_checked(self.encoder_.transform(X), y, sample_weight)

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        given = vars(self)["ratio"]
        made = new_ratio(AutoRatio() if given is None else given, seed_from(self.random_state), self.verbose)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverlapWarning)  # it is told once, of this ratio
            self.ratio_ = fitted(made, X, y, w)

    def _centre_and_scale(self, X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])  # the ratio inside standardizes

    def _standardized(self, X: np.ndarray) -> np.ndarray:
        return X

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.ratio_.log_ratio(X), np.float64)

    def log_ratio(self, X: Any) -> np.ndarray:
        """Return log r in nats of the n rows of a table, of shape (n,); an `UnseenWarning` counts what is new in it."""
        check_is_fitted(self)
        matrix, unseen = self.encoder_.encode(X)
        if unseen:
            found = ", ".join(f"{name!r} ({n} row{'s' * (n != 1)})" for name, n in list(unseen.items())[:8])
            warnings.warn(
                f"`X` holds what was not there at fit, in {found}{' and others' * (len(unseen) > 8)}: new levels and "
                "gaps count as '(other)', or as the most frequent value. What they do to the ratio is not known.",
                UnseenWarning,
                stacklevel=2,
            )
        return super().log_ratio(matrix)

    def inverse(self) -> RatioEstimator:
        """Return 1/r = q/p, without another fit. It shares what was fitted with this one."""
        check_is_fitted(self)
        if not isinstance(self.ratio_, RatioEstimator):
            raise TypeError(f"`ratio` is {self.ratio_!r}, which cannot be turned over: give a ratio of flowratio.")
        made, given = copy(self), vars(self)["ratio"]
        made.ratio_ = self.ratio_.inverse()
        if isinstance(made.ratio_, InverseRatio):
            seed: Any = self.random_state
            made.ratio = InverseRatio(new_ratio(AutoRatio() if given is None else given, seed))
        else:
            made.ratio = given.estimator
        made.effective_draws_, made._inverse_draws = self._inverse_draws, self.effective_draws_
        return made

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags
