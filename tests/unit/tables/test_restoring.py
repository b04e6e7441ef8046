"""Decoded values in the types and formats of a table."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from flowratio.tables.cells import cells_of
from flowratio.tables.restoring import as_text, as_type, decimals_of, name_of, rounded, sign_of

MOMENT = dt.datetime(2024, 3, 31, 1, 30, 15)  # half an hour after the clocks of Berlin changed


@pytest.mark.parametrize(
    "column",
    [
        *[pl.Series([0, 127, None], dtype=dtype) for dtype in (pl.Int8, pl.UInt8, pl.Int32, pl.UInt32, pl.Int64)],
        pl.Series([0, 2**40, None], dtype=pl.UInt64),
        pl.Series([Decimal("0.25"), None, Decimal("-17.50")], dtype=pl.Decimal(12, 2)),
        pl.Series(["low", None, "very high"], dtype=pl.Enum(["low", "very high"])),
        pl.Series([0.5, None, -2.25], dtype=pl.Float32),
        pl.Series([dt.timedelta(days=-3, seconds=5), None], dtype=pl.Duration("ns")),
        pl.Series([dt.timedelta(milliseconds=7)], dtype=pl.Duration("ms")),
        pl.Series([dt.time(0, 0), dt.time(23, 59, 59, 999_999), None]),
        pl.Series(["a", None], dtype=pl.Categorical),
        *[pl.Series([MOMENT, None], dtype=pl.Datetime(unit)) for unit in ("ms", "us", "ns")],
        pl.Series([MOMENT]).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin"),
        pl.Series([MOMENT.date(), None]),
        pl.Series([True, None]),
    ],
)
def test_types_come_back(column: pl.Series) -> None:
    made = as_type(cells_of(column), name_of(column.dtype))
    assert made.dtype == column.dtype
    assert made.to_list() == column.to_list()


def test_values_stay_in_the_range_of_a_type() -> None:
    assert as_type(pl.Series([-1e30, 1e30]), "Int16").to_list() == [-(2**15), 2**15 - 1]
    largest = as_type(pl.Series([-1e30, 1e30]), "UInt64")  # floats are 2048 apart there
    assert (largest.dtype, largest[0]) == (pl.UInt64, 0)
    assert largest[1] >= 2**64 - 2048
    moments = pl.Series([dt.datetime(1, 1, 1), MOMENT, dt.datetime(9999, 1, 1)])
    made = as_type(moments, "Datetime ns")
    assert made.dtype == pl.Datetime("ns")
    assert made.dt.year().to_list() == [1677, 2024, 2262]
    assert as_type(pl.Series([-5.0, 1e9]), "Time").to_list() == [dt.time(0), dt.time(23, 59, 59, 999_999)]
    assert as_type(pl.Series([1e300]), "Duration us").to_list() == [1e300]  # no duration: it stays a number


def test_decimals_are_those_of_the_longest() -> None:
    x = np.random.default_rng(0).normal(size=5000) * 1e4
    for k in range(7):
        made = np.round(x, k)
        assert decimals_of(made) == k
        assert np.array_equal(rounded(made + 0.2 * 10.0**-k, k), made)
    assert decimals_of(x) is None
    late = np.r_[np.zeros(4000), 0.125]
    assert decimals_of(late) == 3


def test_text_of_programs_stays_a_number() -> None:
    values = pl.Series([1.5, 2.0])
    assert as_text(values, "number", 1, "") is values
    days = pl.Series([dt.date(2024, 1, 31), None])
    assert as_text(days, "date", None, "%Y-%m-%d") is days
    assert as_text(days, "date %m/%d/%Y", None, "%-m/%-d/%Y").to_list() == ["1/31/2024", None]


def test_codes_keep_their_zeros() -> None:
    assert as_text(pl.Series([501, 99501, -3, 123_456]), "integer", 0, "00000").to_list() == [
        *["00501", "99501", "00000", "99999"]
    ]


def test_where_a_sign_stands() -> None:
    assert [sign_of(cell) for cell in ("12%", "1 234,5 €", "-$5", "$-5", "€ 1.234,50")] == [
        *["0%", "0 €", "$0", "$0", "€ 0"]
    ]
