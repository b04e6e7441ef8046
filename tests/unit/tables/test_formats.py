"""Numbers and dates in one format, compared with what Python writes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio._support.errors import ArgumentError
from flowratio.tables.formats import CellFormat, DecimalMark, Kind, TextFormat, days, numbers
from flowratio.tables.recognition import recognize

VALUES = np.array([0.25, -1.5, 12.75, 999.0, 1234.5, -56017.25, 1234567.75, 0.0])


def swapped(thousands: str, decimal: str) -> Callable[[float], str]:
    """Return a function that writes a number with two decimals."""
    return lambda value: f"{value:,.2f}".translate(str.maketrans({",": thousands, ".": decimal}))


@pytest.mark.parametrize(
    ("thousands", "decimal"),
    [
        ("", "."),
        ("", ","),
        (",", "."),
        (".", ","),
        (" ", ","),
        ("\u00a0", ","),
        ("\u202f", "."),
        ("\u2009", ","),
        ("'", "."),
        ("’", ","),
    ],
)
def test_every_number_is_read(thousands: str, decimal: DecimalMark) -> None:
    cells = pl.Series([swapped(thousands, decimal)(value) for value in VALUES])
    assert numbers(cells, decimal, thousands=True).to_list() == VALUES.tolist()
    assert recognize(cells, TextFormat(decimal)) == CellFormat(Kind.NUMBER, decimal, thousands != "")
    if not thousands:
        assert recognize(cells) == CellFormat(Kind.NUMBER, decimal)


def test_numbers_in_another_format_are_null() -> None:
    cells = pl.Series(["1.234", "1,5", "12,34.5", "1,,234", "", "a", "1 234", "--5", "5%", "1,234", "(5)", "−5"])
    assert numbers(cells, ",").to_list() == [None, 1.5, *[None] * 7, 1.234, None, None]
    assert numbers(cells, ".", thousands=True).to_list() == [
        1.234,
        *[None] * 5,
        1234.0,
        *[None] * 2,
        1234.0,
        None,
        None,
    ]
    assert numbers(pl.Series(["1.234,5", "1.23", "1.234"]), ",", thousands=True).to_list() == [1234.5, None, 1234.0]
    assert numbers(pl.Series([",5", "-,25", "1,5e-3", "+2"]), ",").to_list() == [0.5, -0.25, 0.0015, 2.0]


MOMENTS = [
    dt.datetime(2023, 12, 31, 23, 59, 59),
    dt.datetime(1969, 7, 20),
    dt.datetime(2024, 2, 29, 12),
    dt.datetime(2024, 1, 2, 0, 30),
    dt.datetime(2024, 3, 4, 13, 5),
]
TIMES = ["", " %H:%M:%S", "T%H:%M:%S", ", %H:%M:%S", " %I:%M:%S %p", " %H:%M:%SZ"]


def in_days(moment: dt.datetime) -> float:
    return (moment - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)


@pytest.mark.parametrize("form", [None, "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d %b %Y"])
@pytest.mark.parametrize("time", TIMES)
def test_every_date_is_read(form: str | None, time: str) -> None:
    moments = MOMENTS if time else [moment.replace(hour=0, minute=0, second=0) for moment in MOMENTS]
    cells = pl.Series([moment.strftime((form or "%Y-%m-%d") + time) for moment in moments])
    expected = [in_days(moment) for moment in moments]
    assert days(cells, form).to_list() == expected
    assert recognize(cells, TextFormat(date_format=form)) == CellFormat(Kind.DATE, date_format=form)
    if form in (None, "%d.%m.%Y"):
        assert recognize(cells) == CellFormat(Kind.DATE, date_format=form)


def test_a_format_with_a_time_is_read() -> None:
    form = "%m/%d/%Y %I:%M %p"
    cells = pl.Series(["1/2/1970 6:00 PM", "01/02/1970 12:00 AM", "12/31/23 5:30 PM", "1/2/1970", "x", None])
    assert days(cells, form).to_list() == [1.75, 1.0, None, None, None, None]  # a year has four digits
    assert days(pl.Series(["3.1.24", "3.1.2024"]), "%d.%m.%y").to_list() == [in_days(dt.datetime(2024, 1, 3)), None]
    assert days(pl.Series(["1/2/1970 6:00+06:00"]), "%m/%d/%Y %H:%M%z").to_list() == [1.0]


def test_what_is_no_date_is_null() -> None:
    for cell in ("12.31.2023", "31.12.23", "1/2.2023", "31.12.2023 25:00", "31.02.2023", "1.2.2023 13:00 PM", "a"):
        assert days(pl.Series([cell]), "%d.%m.%Y").to_list() == [None]
    assert days(pl.Series([1.5]), "%d.%m.%Y").to_list() == days(pl.Series([True])).to_list() == [None]
    assert numbers(pl.Series([dt.datetime(2024, 1, 1)])).to_list() == [None]


def test_zones_and_parts_of_seconds() -> None:
    cells = pl.Series(["31.12.2023 23:30:00.25+01:00", "31.12.2023 22:30:00.25Z"])
    assert days(cells, "%d.%m.%Y").to_list() == [in_days(dt.datetime(2023, 12, 31, 22, 30, 0, 250_000))] * 2


def test_settings_are_checked() -> None:
    bad: Any
    for bad in (";", "", 1):
        with pytest.raises(ArgumentError, match=r"`decimal` is .*\. Use '\.' or ','\.") as error:
            TextFormat(decimal=bad)
        assert error.value.argument == "decimal"
    for bad in ("", "%d.%m", "day", "%Q", 3):
        with pytest.raises(ArgumentError, match=r"`date_format` is .* with day, month and year") as error:
            TextFormat(date_format=bad)
        assert error.value.argument == "date_format"


def test_a_format_is_described_by_an_example() -> None:
    number = CellFormat(Kind.NUMBER, ",", thousands=True)
    assert str(number) == "number such as 1.234,5"
    assert str(CellFormat(Kind.DATE, date_format="%m/%d/%Y")) == "date such as 01/31/2024"
    kind: Any = "integer"  # as a saved model has it
    assert CellFormat(kind).kind is Kind.INTEGER
    assert f"{Kind.DATE}" == str(Kind.DATE) == "date"
