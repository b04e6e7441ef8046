"""A column of a table: what it holds, how it is encoded as numbers, and how it is decoded."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from flowratio._support.callers import warn_caller
from flowratio._support.errors import ArgumentWarning
from flowratio._support.row_counts import is_whole
from flowratio._support.types import Matrix, Vector
from flowratio._support.wording import in_percent, quoted
from flowratio.tables.cells import cells_of, parsed, read
from flowratio.tables.formats import MICROSECONDS_PER_DAY, CellFormat, Kind, TextFormat
from flowratio.tables.identifiers import are_identifiers, counts_rows
from flowratio.tables.recognition import GUESS, doubt_about_categories, doubt_about_numbers, recognize
from flowratio.tables.values import decimals_of, few_values, nearest_of, typed

_OTHER = "(other)"
_FAR = 10.0  # ranges at fit beyond its ends, from where on a value is reported
_OWN = 0.75  # share of the rows with a value of their own from which on a column holds identifiers
FEWEST_OF_CATEGORY = 5  # of a category in both samples together, to estimate its own log-odds
_FREQUENT = 0.05  # share of the rows from which on a category is informative


@dataclass(frozen=True)
class Column:
    """A column of a table, as `TableEncoder.fit` learns it. Dates are days since 1970."""

    name: str
    kind: Kind
    form: CellFormat  # how its cells are read
    # replaces a missing value: the median or the most frequent category. The value of a constant, None if it has none
    fill: float | str | None
    has_missing: bool = False  # at fit, so that the matrix has an indicator
    categories: tuple[str, ...] = ()  # with their own indicator, the most frequent first
    rare: tuple[str, ...] = ()  # other categories, which share "(other)" and have a code, the most frequent first
    n_categories: int = 0  # of all categories at fit
    has_time: bool = False  # whether dates have a time of day
    lowest: float = -math.inf
    highest: float = math.inf
    decimals: int | None = None  # None if there are more than 8
    values: tuple[float, ...] = ()  # distinct numbers or dates, if there are at most 20
    rare_share: float = 0.0  # of the rows, each sample counting one half: their category has fewer than 5 rows

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))  # saved models hold its value

    @property
    def all_categories(self) -> tuple[str, ...]:
        """All categories, the most frequent first. The position of a category is its code."""
        return self.categories + self.rare

    @property
    def parts(self) -> list[str]:
        parts = [self.name] * (self.kind.is_numeric or self.kind is Kind.BOOLEAN)
        if self.kind is Kind.CATEGORY:  # the most frequent category is where all indicators are 0
            parts = [f"{self.name} = {category}" for category in self.categories[1:]]
        if self.rare:
            parts += [f"{self.name} = {_OTHER}", f"{self.name} (category)"]
        return parts + [f"{self.name} is missing"] * self.has_missing

    @property
    def code_part(self) -> int | None:
        """Position of the code column among its columns of the matrix. None if all categories have an indicator."""
        return len(self.categories) if self.rare else None

    def encode(self, cells: pl.Series, out: Matrix) -> tuple[int, int]:
        """Write its columns of zeros, (n, m). Return the number of rows with new values, and of rows far outside."""
        if self.kind is Kind.CONSTANT:
            return self._encode_constant(cells, out), 0
        values = read(cells, self.form)
        is_missing = values.is_null().to_numpy()
        if self.has_missing:
            out[is_missing, -1] = 1.0
        if self.kind is Kind.IDENTIFIER:
            return 0, 0
        n_missing = 0 if self.has_missing else int(is_missing.sum())
        if self.kind is not Kind.CATEGORY:
            x = out[:, 0] = values.fill_null(self.fill).to_numpy()
            far = _FAR * (self.highest - self.lowest)
            return n_missing, int(np.count_nonzero((x < self.lowest - far) | (x > self.highest + far)))
        code = self._codes(values)
        n_frequent, has_others = len(self.categories), bool(self.rare)
        if has_others:
            out[:, n_frequent] = code
        is_new = (code < 0) & ~is_missing
        indicator = np.where(is_new & has_others, n_frequent, np.minimum(code, n_frequent))
        rows = np.flatnonzero(indicator > 0)
        out[rows, indicator[rows] - 1] = 1.0
        return n_missing + int(np.count_nonzero(is_new)), 0

    def _encode_constant(self, cells: pl.Series, out: Matrix) -> int:
        values, is_wrong = parsed(cells, self.form)
        is_missing = (values.is_null() & ~is_wrong).to_numpy()
        if self.has_missing:
            out[is_missing, -1] = 1.0
        if self.fill is None:
            return int(np.count_nonzero(~is_missing))
        is_other = ~(values == self.fill).fill_null(False).to_numpy()
        return int(np.count_nonzero(is_other & ~is_missing if self.has_missing else is_other))

    def _codes(self, words: pl.Series) -> Vector:
        """Return the code of the category of every row, (n,). It is -1 for a missing value or a new category."""
        names = self.all_categories
        codes = words.replace_strict(names, range(len(names)), default=-1, return_dtype=pl.Int64)
        return codes.fill_null(-1).to_numpy()

    def codes_of(self, part: Matrix) -> Vector:
        """Return the code of every row from its columns of the matrix, (n, m) to (n,). -1 is missing or unknown."""
        n_frequent = len(self.categories)
        indicators = np.column_stack([np.full(len(part), 0.5), part[:, : n_frequent - 1 + bool(self.rare)]])
        code = indicators.argmax(axis=1)  # 0 if no indicator is above one half
        if self.rare:  # rows without the indicator of a frequent category have a code
            rare = np.clip(np.round(part[:, n_frequent]), -1, self.n_categories - 1).astype(np.int64)
            is_frequent = (code > 0) & (code < n_frequent)
            code = np.where(is_frequent | ((code == 0) & (rare < 0)), code, rare)
        return np.where(part[:, -1] > 0.5, -1, code) if self.has_missing else code

    def decode(self, part: Matrix) -> pl.Series:
        """Return typed cells from its columns of the matrix, of shape (n, m)."""
        if self.kind is Kind.CATEGORY:
            words = np.array([*self.all_categories, _OTHER], dtype=object)  # the code -1 is the last
            values = pl.Series(words[self.codes_of(part)], dtype=pl.String)
        elif self.kind in (Kind.CONSTANT, Kind.IDENTIFIER):
            dtype = pl.Float64 if isinstance(self.fill, float) else pl.String
            values = pl.Series([self.fill] * len(part), dtype=dtype)
        else:
            values = pl.Series(part[:, 0])
        is_missing = part[:, -1] > 0.5 if self.has_missing else np.zeros(len(part), bool)
        values = typed(values, self.form.kind, self.decimals, self.has_time)
        return values.set(pl.Series(is_missing), None).alias(self.name)

    def confined(self, part: Matrix) -> Matrix:
        """Return its columns, (n, m), with numbers, dates and codes as at fit: in their range, or of few values."""
        if (k := self.code_part) is not None:
            return np.column_stack([part[:, :k], np.clip(part[:, k], 0, self.n_categories - 1), part[:, k + 1 :]])
        if not self.kind.is_numeric:
            return part
        x = np.clip(part[:, 0], self.lowest, self.highest)
        return np.column_stack([nearest_of(self.values, x) if self.values else x, part[:, 1:]])

    def parse(self, series: pl.Series) -> pl.Series:
        """Return typed cells, with missing values as nulls. Other values of a constant stay unchanged."""
        cells = cells_of(series)
        if self.kind is Kind.CONSTANT:
            values, is_wrong = parsed(cells, self.form)
            return cells.set(values.is_null() & ~is_wrong, None)
        if self.form.kind is Kind.CATEGORY or cells.dtype != pl.String:
            return cells
        values = read(cells, self.form)
        if self.kind is Kind.DATE:
            return (values * MICROSECONDS_PER_DAY).round().cast(pl.Int64).cast(pl.Datetime("us"))
        return values if self.kind is not Kind.BOOLEAN else values > 0.5


class RowWeights(NamedTuple):
    """How the rows of a table count."""

    w: Vector  # positive weights that count rows, (n,)
    is_p: Vector | None = None  # rows of the first of two samples, (n,). Each sample then counts one half

    @classmethod
    def equal(cls, n: int, is_p: Vector | None = None) -> RowWeights:
        return cls(np.ones(n), is_p)

    @property
    def total(self) -> float:
        return float(self.w.sum())

    @property
    def totals(self) -> tuple[float, float]:
        """The weights of both samples. Without two samples, the first has no rows."""
        w_p = 0.0 if self.is_p is None else float(self.w[self.is_p].sum())
        return w_p, self.total - w_p

    @property
    def largest_rank(self) -> float:
        """The rank of a category that all rows have, see `_frequencies`."""
        w_p, w_q = self.totals
        return self.total if self.is_p is None else 2 * w_p * w_q


def learn_column(
    series: pl.Series, max_categories: int, text_format: TextFormat = GUESS, rows: RowWeights | None = None
) -> Column:
    """Learn what a column holds. All rows count as one row if `rows` is None."""
    rows = RowWeights.equal(len(series)) if rows is None else rows
    cells = cells_of(series)
    form = recognize(cells, text_format)
    values = read(cells, form)
    is_there = values.is_not_null()
    values, has_missing = values.drop_nulls(), bool(0 < is_there.sum() < len(cells))
    if values.is_empty():
        return Column(series.name, Kind.CONSTANT, form, None)
    column = Column(series.name, form.kind, form, values[0], has_missing)
    if form.kind is Kind.CATEGORY:
        return _learn_category(column, cells, max_categories, text_format, rows)
    x, w = values.to_numpy(), rows.w[is_there.to_numpy()]
    has_time = form.kind is Kind.DATE and bool((x != np.floor(x)).any())
    decimals = decimals_of(x) if form.kind in (Kind.NUMBER, Kind.INTEGER) else None
    column = replace(column, has_time=has_time, decimals=decimals)
    is_whole_text = cells.dtype != pl.String or not cells.str.contains(".", literal=True).any()
    can_count = form.kind is Kind.INTEGER and not has_missing and not series.dtype.is_float() and is_whole_text
    if can_count and are_identifiers(series.name, x):
        return replace(column, kind=Kind.IDENTIFIER, fill=_median(x, w))
    doubt = None
    if cells.dtype == pl.String and form.kind in (Kind.NUMBER, Kind.INTEGER):
        doubt = doubt_about_numbers(cells.filter(is_there), text_format)
    if can_count and counts_rows(x):
        advice = "If it is an identifier, drop the column."
        text = f"Column {quoted(series.name)} has a different value in every row, like a row counter. {advice}"
        doubt = ArgumentWarning("exclude", text)
    if doubt is not None:
        warn_caller(doubt)
    if x.min() == x.max():
        return replace(column, kind=Kind.CONSTANT)
    few = few_values(x, float(w.sum())) if form.kind is not Kind.BOOLEAN else ()
    return replace(column, fill=_median(x, w), lowest=float(x.min()), highest=float(x.max()), values=few)


def _learn_category(
    column: Column, cells: pl.Series, max_categories: int, text_format: TextFormat, rows: RowWeights
) -> Column:
    words = cells.drop_nulls()
    if words.n_unique() == 1:
        return replace(column, kind=Kind.CONSTANT)
    counts = _frequencies(cells, rows)
    categories, n_rows = counts["category"].to_list(), counts["n"].to_numpy()
    n_words = float(n_rows.sum())
    is_informative = n_rows.max() >= _FREQUENT * rows.total
    is_identifier = not is_informative and n_rows[_is_own(counts, rows)].sum() > _OWN * n_words
    rare_share = float(counts["rank"].to_numpy()[n_rows < FEWEST_OF_CATEGORY].sum() / rows.largest_rank)
    doubt = doubt_about_categories(words, text_format)
    if doubt is None and not is_identifier and len(categories) > max(max_categories, n_words / 2):
        problem = f"has {len(categories)} categories in {n_words:.0f} rows, like free text"
        effect = f"{in_percent(rare_share)} of the rows have a category with fewer than {FEWEST_OF_CATEGORY} rows"
        advice = "All categories are used, but the effect of such a category is unknown. To ignore it, drop the column."
        doubt = ArgumentWarning("exclude", f"Column {quoted(column.name)} {problem}. {effect}. {advice}")
    if doubt is not None:
        warn_caller(doubt)
    if is_identifier:
        return replace(column, kind=Kind.IDENTIFIER, fill=_OTHER, n_categories=len(categories))
    frequent, rare = tuple(categories[:max_categories]), tuple(categories[max_categories:])
    return replace(
        column,
        fill=categories[0],
        categories=frequent,
        rare=rare,
        n_categories=len(categories),
        rare_share=rare_share,
    )


def _median(x: Vector, w: Vector) -> float:
    """Return the lower median of weighted values, (n,). It is one of them."""
    order = np.argsort(x, kind="stable")
    total = np.cumsum(w[order])
    return float(x[order[np.searchsorted(total, total[-1] / 2)]])


def _frequencies(cells: pl.Series, rows: RowWeights) -> pl.DataFrame:
    """Return the categories, the most frequent first, with their weight, their weight in p, and their rank.

    They have rows and rows in p too. The rank is n_p / N_p + n_q / N_q, times N_p N_q. Without labels it is the weight.
    """
    n_p, n_q = rows.totals
    of_p = np.zeros(len(cells), bool) if rows.is_p is None else rows.is_p
    frame = pl.DataFrame({"category": cells, "is_p": of_p, "w": rows.w, "w_p": rows.w * of_p}).drop_nulls()
    counts = frame.group_by("category").agg(
        n=pl.col("w").sum(), n_p=pl.col("w_p").sum(), rows=pl.len(), rows_p=pl.col("is_p").sum()
    )
    rank = pl.col("n_p") * n_q + (pl.col("n") - pl.col("n_p")) * (n_p or 1.0)
    if not is_whole(rows.w):  # sums of fractions round differently from run to run
        rank = (rank / rows.largest_rank).round(12) * rows.largest_rank
    return counts.with_columns(rank=rank).sort(["rank", "category"], descending=[True, False])


def _is_own(counts: pl.DataFrame, rows: RowWeights) -> Vector:
    """Return which categories occur at most once in each sample. Without labels, at most twice in all rows.

    Only integer weights say how often a row occurs.
    """
    n, n_p = ("n", "n_p") if is_whole(rows.w) else ("rows", "rows_p")
    if rows.is_p is None:
        return (counts[n] <= 2).to_numpy()
    return ((counts[n_p] <= 1) & (counts[n].cast(pl.Float64) - counts[n_p] <= 1)).to_numpy()
