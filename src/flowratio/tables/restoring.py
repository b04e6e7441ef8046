"""Decoded values as the column that was fitted has them: its type, its decimals, its way to write dates and numbers."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from flowratio.tables.formats import PER_SECOND, written_numbers

_MOST_DECIMALS = 8  # beyond, a number is as long as a float
_LOOKED_AT = 1_000
_EXACT = 2.0**53  # beyond, floats have no decimals
_WHOLE = {
    str(dtype): dtype for dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
}
_OTHERS = {str(dtype): dtype for dtype in (pl.Float32, pl.Float64, pl.Boolean, pl.Date, pl.Categorical)}
_YEARS = -719_162.0, 2_932_896.999  # days from 1970 to the first of year 1 and to the last of year 9999
_MOST_VALUES = 20  # of a column of numbers that are kept as such
_NANOSECONDS = datetime(1677, 9, 22), datetime(2262, 4, 11)  # moments that can be told in them


def rounded(x: np.ndarray, decimals: int) -> np.ndarray:
    """Round numbers to some decimals; those that have none stay as they are, however large.

    Examples
    --------
    >>> rounded(np.array([1.2345, 1e300]), 2).tolist()
    [1.23, 1e+300]
    """
    has_decimals = np.abs(x) < _EXACT / 10.0**decimals
    return np.where(has_decimals, np.round(np.where(has_decimals, x, 0.0), decimals), x)


def decimals_of(x: np.ndarray) -> int | None:
    """Return how many decimals numbers have at most; None if they are too many to be told.

    Examples
    --------
    >>> decimals_of(np.array([1.0, 2.0])), decimals_of(np.array([0.1, 2.25])), decimals_of(np.array([1 / 3]))
    (0, 2, None)
    """
    for k in range(_MOST_DECIMALS + 1):
        if np.array_equal(rounded(x[:_LOOKED_AT], k), x[:_LOOKED_AT]) and np.array_equal(rounded(x, k), x):
            return k
    return None


def few_values(x: np.ndarray) -> tuple[float, ...]:
    """Return the distinct values of numbers, from the smallest on, if they are few and come back; none else.

    Examples
    --------
    >>> few_values(np.array([40.0, 20.0, 40.0, 20.0, 35.0, 35.0])), few_values(np.arange(100.0))
    ((20.0, 35.0, 40.0), ())
    """
    if len(np.unique(x[:_LOOKED_AT])) > _MOST_VALUES:
        return ()
    values = np.unique(x)
    return tuple(values.tolist()) if len(values) <= min(_MOST_VALUES, len(x) // 2) else ()


def nearest_of(values: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """Return the nearest of some values, which rise, to each number, of shape (n,).

    Examples
    --------
    >>> nearest_of((20.0, 35.0, 40.0), np.array([-3.0, 27.0, 28.0, 39.0])).tolist()
    [20.0, 20.0, 35.0, 40.0]
    """
    known = np.array(values)
    return known[np.searchsorted((known[1:] + known[:-1]) / 2, x)]


def typed(values: pl.Series, read_as: str, decimals: int | None, has_time: bool) -> pl.Series:
    """Return floats as what they are read as: rounded numbers, truth values or dates; words stay as they are.

    Examples
    --------
    >>> typed(pl.Series([0.2, 1.9]), "integer", 0, False).to_list(), typed(pl.Series([0.7]), "boolean", None, False)[0]
    ([0, 2], True)
    """
    kind = read_as.partition(" ")[0]
    if values.dtype == pl.String:
        return values
    if kind == "number":
        return values if decimals is None else pl.Series(rounded(values.to_numpy(), decimals))
    if kind == "boolean":
        return values > 0.5
    if kind == "integer":
        return values.round().cast(pl.Int64, strict=False)
    values = values.clip(*_YEARS)  # no file has others
    if has_time:
        return (values * 86_400e6).round().cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
    return values.clip(None, math.floor(_YEARS[1])).round().cast(pl.Int32, strict=False).cast(pl.Date)


def name_of(dtype: pl.DataType) -> str:
    """Return the name under which `as_type` knows a type; "String" for those that it does not know.

    Examples
    --------
    >>> name_of(pl.Datetime("us", "Europe/Berlin")), name_of(pl.UInt8()), name_of(pl.Object())
    ('Datetime us Europe/Berlin', 'UInt8', 'String')
    >>> name_of(pl.Decimal(10, 2)), name_of(pl.Enum(["low", "high"]))
    ('Decimal 10 2', 'Enum ["low", "high"]')
    """
    if isinstance(dtype, pl.Decimal):
        return f"Decimal {dtype.precision} {dtype.scale}"
    if isinstance(dtype, pl.Enum):
        return f"Enum {json.dumps(dtype.categories.to_list())}"
    if isinstance(dtype, pl.Datetime | pl.Duration):
        zone = getattr(dtype, "time_zone", None)
        return f"{type(dtype).__name__} {dtype.time_unit}{f' {zone}' if zone else ''}"
    name = str(dtype)
    return name if name in _WHOLE or name in _OTHERS or name == "Time" else "String"


def as_type(values: pl.Series, name: str) -> pl.Series:
    """Return numbers, dates, truth values or words in the type of a name; they stay what they are if they do not fit.

    Whole numbers and moments are kept within the range of the type, and times within the day.

    Examples
    --------
    >>> as_type(pl.Series([-3.0, 7.4, 300.0, None]), "UInt8").to_list()
    [0, 7, 255, None]
    >>> as_type(pl.Series([1.5]), "Duration ms").to_list()
    [datetime.timedelta(seconds=1, microseconds=500000)]
    """
    made: Any
    unit: Any
    kind, _, rest = name.partition(" ")
    unit, _, zone = rest.partition(" ")
    if kind in _WHOLE:
        bounds = np.iinfo(kind.lower())
        highest = float(bounds.max) if bounds.max < _EXACT else np.nextafter(float(bounds.max), 0.0)
        made = values.cast(pl.Float64).round().clip(float(bounds.min), highest).cast(_WHOLE[kind], strict=False)
    elif kind == "Decimal":
        made = values.cast(pl.Float64).cast(pl.Decimal(int(unit), int(zone)), strict=False)
    elif kind == "Enum":
        made = values.cast(pl.Enum(json.loads(rest)), strict=False)
    elif kind == "Time":
        made = (values.cast(pl.Float64).clip(0.0, 86_400.0 - 1e-6) * 1e9).round().cast(pl.Int64).cast(pl.Time)
    elif kind == "Duration":
        ticks = (values.cast(pl.Float64) * PER_SECOND[unit]).round()
        made = ticks.cast(pl.Int64, strict=False).cast(pl.Duration(unit))
    elif kind == "Datetime":
        made = values.cast(pl.Datetime("us"))
        made = (made.clip(*_NANOSECONDS) if unit == "ns" else made).dt.cast_time_unit(unit)
        made = made.dt.replace_time_zone("UTC").dt.convert_time_zone(zone) if zone else made
    else:
        made = values.cast(_OTHERS[kind], strict=False) if kind in _OTHERS else values
    return made if made.null_count() == values.null_count() else values


def as_text(values: pl.Series, read_as: str, decimals: int | None, pattern: str) -> pl.Series:
    """Return numbers and dates written as a file of text has them; those that any program writes so stay as they are.

    Parameters
    ----------
    values
        Numbers, dates, truth values or words.
    read_as
        What cells are read as, with their format.
    decimals
        How many decimals numbers have.
    pattern
        How dates are written, in the words of `strftime`; of numbers with a sign, one of them; of codes with leading
        zeros, as many zeros as they have digits; of words, the blanks before each.

    Examples
    --------
    >>> as_text(pl.Series([1234.5, None]), "number 1.234,5 €", 2, "7 €").to_list()
    ['1.234,50 €', None]
    >>> as_text(pl.Series([501, -3, None]), "integer", 0, "00000").to_list()
    ['00501', '00000', None]
    """
    kind, _, form = read_as.partition(" ")
    if kind == "date" and pattern not in ("", "%Y-%m-%d"):
        return values.cast(pl.Datetime("us")).dt.strftime(pattern)
    if kind == "integer" and not form and pattern:
        digits = len(pattern)
        return values.cast(pl.Int64).clip(0, 10**digits - 1).cast(pl.String).str.zfill(digits)
    if kind == "category" and pattern:
        return pattern + values.cast(pl.String)
    if kind not in ("number", "integer") or not form:
        return values
    text = written_numbers(values.cast(pl.Float64).fill_null(0.0).to_numpy(), form, decimals, pattern)
    return pl.Series(text, dtype=pl.String).set(values.is_null(), None)


def sign_of(cell: str) -> str:
    """Return a cell with its digits left out but for one, which tells where its sign stands.

    Examples
    --------
    >>> sign_of("€ 1.234,50"), sign_of("-12.5 %")
    ('€ 0', '0 %')
    """
    return re.sub(r"[+−-]?\d(?:.*\d)?\.?", "0", cell).lstrip("+−-")
