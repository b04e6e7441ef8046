"""Text that holds numbers or dates, read in one format: 1234.5, 1234,5, 2024-01-31, 31.12.2023 or a format of yours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import polars as pl

from flowratio._support.errors import ArgumentError
from flowratio._support.wording import Words

DecimalMark = Literal[".", ","]
DAY_FIRST = "%d.%m.%Y"
MICROSECONDS_PER_DAY = 86_400e6
PER_SECOND = {"ms": 1e3, "us": 1e6, "ns": 1e9}
_SPACES = " \u00a0\u2009\u202f"  # plain, no-break, thin, narrow no-break
_THOUSANDS = {".": f"[,'’{_SPACES}]", ",": f"[.'’{_SPACES}]"}  # separators that a decimal mark leaves
_ISO = r"[0-9]{4}(?:-[0-9]{2}-|/[0-9]{2}/)[0-9]{2}"
_TIME = (
    r"(?:(?:T|,? )(?<hours>[01]?[0-9]|2[0-3]):(?<minutes>[0-5][0-9])(?::(?<seconds>[0-5][0-9](?:\.[0-9]{1,9})?))?"
    r"(?: ?(?<half>[AaPp])[Mm])?(?:Z|(?<sign>[+-])(?<zone_hours>[0-9]{2}):?(?<zone_minutes>[0-5][0-9]))?)?"
)
_HAS_TIME = re.compile("%[HIMSTRXcsp]")
_LONGEST_DATE = len("2024-01-31")


class Kind(Words):
    """What a column holds."""

    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CATEGORY = "category"
    DATE = "date"
    CONSTANT = "constant"
    IDENTIFIER = "identifier"

    @property
    def is_numeric(self) -> bool:
        return self in (Kind.NUMBER, Kind.INTEGER, Kind.DATE)


@dataclass(frozen=True)
class TextFormat:
    """How text columns write numbers and dates. None stands for formats that can be guessed.

    Parameters
    ----------
    decimal
        Decimal mark. Thousands separators are then allowed, such as `1,234.5` for `"."` and `1.234,5` for `","`.
        None recognizes numbers such as `1234.5`, `1e-3` and `1234,5`.
    date_format
        A pattern of `strftime` with day, month and year, such as `"%m/%d/%Y"`. A time of day may follow the date.
        Dates such as `2024-01-31`, `2024/01/31` and `31.12.2023` are recognized without it.
    """

    decimal: DecimalMark | None = None
    date_format: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise ArgumentError("decimal", f"`decimal` is {self.decimal!r}. Use '.' or ','.")
        if self.date_format is not None and not _is_date_pattern(self.date_format):
            rule = "Use a pattern of strftime with day, month and year, such as '%m/%d/%Y'"
            raise ArgumentError("date_format", f"`date_format` is {self.date_format!r}. {rule}.")


def _is_date_pattern(pattern: str) -> bool:
    day = datetime(2003, 2, 1)
    try:
        return datetime.strptime(day.strftime(pattern), pattern).date() == day.date()
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True)
class CellFormat:
    """How the cells of a column are read."""

    kind: Kind  # number, integer, boolean, date or category
    decimal: DecimalMark = "."
    thousands: bool = False  # whether numbers may have thousands separators
    date_format: str | None = None  # None for 2024-01-31 and 2024/01/31

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))  # saved models hold its value

    def read(self, cells: pl.Series) -> pl.Series:
        """Return cells as floats (booleans as 0 and 1, dates as days since 1970) or words. Other cells are null."""
        if self.kind is Kind.BOOLEAN:
            return _booleans(cells)
        if self.kind is Kind.DATE:
            return days(cells, self.date_format)
        return words(cells) if self.kind is Kind.CATEGORY else numbers(cells, self.decimal, self.thousands)

    def __str__(self) -> str:
        if self.kind is Kind.DATE:
            return f"date such as {datetime(2024, 1, 31).strftime(self.date_format or '%Y-%m-%d')}"
        if self.kind in (Kind.BOOLEAN, Kind.CATEGORY):
            return self.kind.value
        example = f"{1234.5:,}" if self.thousands else "1234.5"
        return f"number such as {example.translate(str.maketrans(',.', '.,')) if self.decimal == ',' else example}"


def evaluated(column: pl.Series, expression: pl.Expr) -> pl.Series:
    """Return an expression of a column. The lazy engine computes repeated parts once."""
    return column.to_frame().lazy().select(expression.alias(column.name)).collect().to_series()


def words(cells: pl.Series) -> pl.Series:
    """Return cells as text, whole numbers without a decimal point."""
    text = cells.cast(pl.String)
    return text.str.strip_suffix(".0") if cells.dtype == pl.Float64 else text


def _booleans(cells: pl.Series) -> pl.Series:
    if cells.dtype == pl.String:
        values = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
        return cells.str.to_lowercase().replace_strict(values, default=None, return_dtype=pl.Float64)
    values = numbers(cells)
    return values.set(~values.is_in([0.0, 1.0]), None)


def numbers(cells: pl.Series, decimal: DecimalMark = ".", thousands: bool = False) -> pl.Series:
    """Return cells as floats. Cells in another format are null."""
    if cells.dtype == pl.Datetime:
        return pl.Series(cells.name, [None] * len(cells), pl.Float64)
    text = plain = pl.col(cells.name)
    if cells.dtype != pl.String or (decimal == "." and not thousands):
        return evaluated(cells, plain.cast(pl.Float64, strict=False).fill_nan(None))
    if thousands:
        plain = plain.str.replace_all(_THOUSANDS[decimal], "")
    if decimal == ",":
        plain = plain.str.replace(",", ".", literal=True)
    value = plain.cast(pl.Float64, strict=False)
    return evaluated(cells, pl.when(text.str.contains(_number_pattern(decimal, thousands))).then(value))


def _number_pattern(decimal: DecimalMark, thousands: bool) -> str:
    mark = re.escape(decimal)
    groups = rf"[1-9][0-9]{{0,2}}(?:{_THOUSANDS[decimal]}[0-9]{{3}})+|" if thousands else ""
    if thousands and decimal == ".":  # Indian: 12,34,567
        groups += "[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}|"
    return rf"^[+-]?(?:(?:{groups}[0-9]+)(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?$"


def days(cells: pl.Series, date_format: str | None = None) -> pl.Series:
    """Return dates as days since 1970, text in a format or as 2024-01-31 or 2024/01/31. Other cells are null."""
    if cells.dtype == pl.Datetime:
        return _in_days(cells.dt.epoch("us").cast(pl.Float64))
    if cells.dtype != pl.String:
        return pl.Series(cells.name, [None] * len(cells), pl.Float64)
    text = pl.col(cells.name)
    if date_format is not None and _HAS_TIME.search(date_format):
        moment = text.str.to_datetime(date_format, time_unit="us", strict=False)
        year_has_four_digits = moment.dt.year() >= 1000
        return _in_days(evaluated(cells, pl.when(year_has_four_digits).then(moment.dt.epoch("us").cast(pl.Float64))))
    if not (cells.str.len_bytes() > _LONGEST_DATE).any():  # no time of day: patterns without groups are faster
        date = pl.when(text.str.contains(_date_pattern(date_format, ""))).then(text)
        return evaluated(cells, _day(date, date_format))
    parts = text.str.extract_groups(_date_pattern(date_format, _TIME))
    date, sign, half = (parts.struct.field(name) for name in ("date", "sign", "half"))
    hours, minutes, seconds, zone_hours, zone_minutes = (
        parts.struct.field(name).cast(pl.Float64).fill_null(0.0)
        for name in ("hours", "minutes", "seconds", "zone_hours", "zone_minutes")
    )
    # 12 AM is hour 0, 12 PM is hour 12, and 13 PM does not exist
    of_half = pl.when(hours.is_between(1, 12)).then(hours % 12 + 12.0 * half.is_in(["p", "P"]))
    hours = pl.when(half.is_null()).then(hours).otherwise(of_half)
    ahead = pl.when(sign == "+").then(1.0).otherwise(-1.0)
    seconds = 3600 * (hours - ahead * zone_hours) + 60 * (minutes - ahead * zone_minutes) + seconds
    return _in_days(evaluated(cells, _day(date, date_format) * MICROSECONDS_PER_DAY + (1e6 * seconds).round()))


def _day(text: pl.Expr, date_format: str | None) -> pl.Expr:
    if date_format is None:
        text = text.str.replace_all("/", "-", literal=True)
    return text.str.to_date(date_format or "%Y-%m-%d", strict=False).cast(pl.Int32).cast(pl.Float64)


def _date_pattern(date_format: str | None, time: str) -> str:
    if date_format is None:
        return rf"^(?<date>{_ISO}){time}$"
    date = re.sub("%[dmy]", "[0-9]{1,2}", re.escape(date_format).replace("%Y", "[0-9]{4}"))
    return rf"^(?<date>{re.sub('%[a-zA-Z]', '[[:alnum:]]+', date)}){time}$"


def _in_days(microseconds: pl.Series) -> pl.Series:
    # NumPy rounds the quotient correctly, to a third of a microsecond. A product with the inverse would not
    quotient = pl.Series(microseconds.name, microseconds.fill_null(0.0).to_numpy() / MICROSECONDS_PER_DAY)
    return quotient.set(microseconds.is_null(), None)
