"""Values of a decoded column: rounded as at fit, near to values at fit, in the type of their kind."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from flowratio.tables.formats import MICROSECONDS_PER_DAY, Kind

_MAX_DECIMALS = 8  # beyond, a number is as long as a float
_N_FIRST = 1_000
_EXACT = 2.0**53  # beyond, floats have no decimals
_YEARS = -719_162.0, 2_932_896.999  # days from 1970 to the first of year 1 and to the last of year 9999
_MAX_VALUES = 20  # distinct values of a column of numbers that are remembered


def rounded(x: np.ndarray, decimals: int) -> np.ndarray:
    """Return rounded numbers. Numbers too large for decimals stay unchanged."""
    has_decimals = np.abs(x) < _EXACT / 10.0**decimals
    return np.where(has_decimals, np.round(np.where(has_decimals, x, 0.0), decimals), x)


def decimals_of(x: np.ndarray) -> int | None:
    """Return the maximum number of decimals. None if it is above 8."""
    for k in range(_MAX_DECIMALS + 1):
        if np.array_equal(rounded(x[:_N_FIRST], k), x[:_N_FIRST]) and np.array_equal(rounded(x, k), x):
            return k
    return None


def few_values(x: np.ndarray, n: float | None = None) -> tuple[float, ...]:
    """Return the distinct values in ascending order, if there are at most 20 and they repeat. Otherwise ().

    `n` is the number of rows that the values stand for, None for one row each.
    """
    if len(np.unique(x[:_N_FIRST])) > _MAX_VALUES:
        return ()
    values = np.unique(x)
    return tuple(values.tolist()) if len(values) <= min(_MAX_VALUES, (len(x) if n is None else n) // 2) else ()


def nearest_of(values: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """Return the nearest of some ascending values to each number, of shape (n,)."""
    candidates = np.array(values)
    return candidates[np.searchsorted((candidates[1:] + candidates[:-1]) / 2, x)]


def typed(values: pl.Series, kind: Kind, decimals: int | None, has_time: bool) -> pl.Series:
    """Return floats as rounded numbers, integers, booleans or dates. Words stay unchanged."""
    if values.dtype == pl.String:
        return values
    if kind is Kind.NUMBER:
        return values if decimals is None else pl.Series(rounded(values.to_numpy(), decimals))
    if kind is Kind.BOOLEAN:
        return values > 0.5
    if kind is Kind.INTEGER:
        return values.round().cast(pl.Int64, strict=False)
    values = values.clip(*_YEARS)
    if has_time:
        return (values * MICROSECONDS_PER_DAY).round().cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
    return values.clip(None, math.floor(_YEARS[1])).round().cast(pl.Int32, strict=False).cast(pl.Date)
