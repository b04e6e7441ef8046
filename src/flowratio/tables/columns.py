"""A column of a table: what it holds, how it is encoded as numbers, and how it is had back."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from flowratio._support.errors import ArgumentWarning
from flowratio.tables.cells import ReadAs, cells_of, parsed, read, recognised, slip
from flowratio.tables.formats import digits_of_codes, looks_like_thousands, pattern_of_dates
from flowratio.tables.restoring import as_text, as_type, decimals_of, few_values, name_of, nearest_of, sign_of, typed

_OTHER = "(other)"
_MOST_KNOWN = 1_000  # levels of a column that are remembered, so that others are known to be new
_FAR = 10.0  # ranges at fit beyond its ends, from where on a value is reported
_SELDOM = 2  # rows that have a level which says nothing: those of one person, say
_OFTEN = 0.05  # share of the rows from which on a level is worth a look
_FEWEST_COUNTED = 50  # rows whose numbers may be said to count them
_FOLLOWING = 0.9  # share of such numbers that are one more than another


@dataclass(frozen=True)
class Column:
    """A column of a table, as `TableEncoder.fit` found it.

    Parameters
    ----------
    name
        Its name.
    kind
        `"number"`, `"integer"` (whole numbers), `"boolean"`, `"category"`, `"date"`; `"constant"` for a column with
        one value, or none, besides gaps; or `"identifier"` for text of which most rows have a value of their own.
    read_as
        What cells are read as: the kind, but for constants, whose value has a kind too; and a format of text if it is
        not that of programs, as in `"number 1.234,5 €"` and `"date %d.%m.%Y"`.
    fill
        The value in place of a gap: the median (for dates in days since 1970), or the most frequent level. The value
        of a constant column; None if it is all gaps. "(other)" of an identifier.
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
        How its text has dates, in the words of `strftime`, numbers with a sign, codes with leading zeros, or words
        after a blank.
    values
        The distinct values of numbers or dates, if they are few.

    Examples
    --------
    >>> Column("job", "category", "category", "clerk", gaps=True, levels=("clerk", "baker", "judge"), n_levels=3).parts
    ['job = baker', 'job = judge', 'job is missing']
    """

    name: str
    kind: Literal["number", "integer", "boolean", "category", "date", "constant", "identifier"]
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
    values: tuple[float, ...] = ()

    @property
    def codes(self) -> list[str]:
        """What a category is encoded as: its levels, and "(other)" if some of them share it."""
        return [*self.levels, *[_OTHER] * (self.n_levels > len(self.levels))]

    @property
    def parts(self) -> list[str]:
        """Names of its columns in the matrix."""
        parts = [self.name] * (self.kind not in ("category", "constant", "identifier"))
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
        if self.kind == "identifier":
            return 0, 0
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
        elif self.kind in ("constant", "identifier"):
            values = pl.Series([self.fill], dtype=None if self.fill is not None else pl.String)
            values = values.extend_constant(self.fill, len(part)).head(len(part))
        else:
            values = pl.Series(part[:, 0])
        values = typed(values, self.read_as, self.decimals, self.has_time)
        return values.set(pl.Series(gap), None).alias(self.name)

    def _levels_of(self, part: np.ndarray) -> pl.Series:
        code = np.where(part.max(axis=1) > 0.5, 1 + part.argmax(axis=1), 0)
        return pl.Series(np.array(self.codes, dtype=object)[code], dtype=pl.String)

    def confined(self, part: np.ndarray) -> np.ndarray:
        """Return its columns of a matrix, (n, m), with numbers and dates that are in their range at fit.

        Where few values were there at fit, they are the nearest of these.
        """
        if self.kind not in ("number", "integer", "date"):
            return part
        x = np.clip(part[:, 0], self.lowest, self.highest)
        return np.column_stack([nearest_of(self.values, x) if self.values else x, part[:, 1:]])

    def parse(self, series: pl.Series) -> pl.Series:
        """Return cells as what they are read as, with gaps as nulls; what is no gap in a constant stays as it is."""
        cells = cells_of(series)
        if self.kind == "constant":
            values, wrong = parsed(cells, self.read_as)
            return cells.set(values.is_null() & ~wrong, None)
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
        return _learn_category(cells, values, gaps, max_levels, dtype, _blanks(series.filter(every.is_not_null())))
    x, known = values.to_numpy(), cells.filter(every.is_not_null())
    has_time = kind == "date" and bool((x != np.floor(x)).any())
    decimals = decimals_of(x) if kind in ("number", "integer") else None
    pattern = _pattern(known, read_as) if known.dtype == pl.String else ""
    if x.min() == x.max():
        kind, fill = "constant", values[0]
    else:
        fill = values.quantile(0.5, "lower")  # a value that is there
    if kind == "integer" and not gaps and not dtype.startswith("Float") and _counts_rows(x):
        warnings.warn(
            ArgumentWarning(
                "exclude",
                f"Column {name!r} has a value of its own in every row: if it is an identifier, leave it out with "
                "`exclude`.",
            ),
            stacklevel=4,
        )
    varies = kind not in ("constant", "boolean")
    return Column(
        *(name, kind, read_as, fill, gaps),
        has_time=has_time,
        lowest=-math.inf if kind == "constant" else float(x.min()),
        highest=math.inf if kind == "constant" else float(x.max()),
        decimals=decimals,
        dtype=dtype,
        pattern=pattern,
        values=few_values(x) if varies else (),
    )


def _blanks(known: pl.Series) -> str:
    """Return the blanks that stand before every word of a column of text, as after the commas of some files."""
    if known.dtype != pl.String:
        return ""
    blanks = known.str.extract(r"^(\s*)", 1).unique()
    return blanks[0] if len(blanks) == 1 else ""


def _learn_category(cells: pl.Series, words: pl.Series, gaps: bool, max_levels: int, dtype: str, blanks: str) -> Column:
    name = cells.name
    if words.n_unique() == 1:
        return Column(name, "constant", "category", words[0], gaps, dtype=dtype, pattern=blanks)
    counted = words.value_counts(name="n", sort=False).sort(["n", name], descending=[True, False])
    levels, n = counted[name].to_list(), counted["n"].to_list()
    is_identifier = n[0] < _OFTEN * len(cells) and 2 * sum(k for k in n if k <= _SELDOM) > len(words)
    _warn_of_levels(words, len(levels), len(levels) if is_identifier else max_levels)
    if is_identifier:
        return Column(name, "identifier", "category", _OTHER, gaps, n_levels=len(levels), dtype=dtype, pattern=blanks)
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
        pattern=blanks,
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
    words, n = slip(known), len(known)
    if words is None and n_levels > max_levels and n_levels > n / 2:
        words = (
            f"Column {known.name!r} has {n_levels} levels in {n} rows, as free text and identifiers have: only "
            f"{max_levels} of them are told apart. Drop it with `exclude`, or turn it into what matters of it."
        )
    if words is not None:
        warnings.warn(ArgumentWarning("exclude", words), stacklevel=6)


def _counts_rows(x: np.ndarray) -> bool:
    """Return whether whole numbers may count the rows of one sample or two, x of shape (n,).

    From row to row they rise, or fall, but for one step, where the other sample begins; or, in any order, nearly all of
    them follow one another, each of them there once, or once in each sample.
    """
    steps = np.sign(np.diff(x))
    if len(x) < _FEWEST_COUNTED or min(np.count_nonzero(steps <= 0), np.count_nonzero(steps >= 0)) <= 1:
        return len(x) >= _FEWEST_COUNTED
    values, n = np.unique(x, return_counts=True)
    return n.max() <= 2 and np.mean(np.diff(values) == 1) > _FOLLOWING
