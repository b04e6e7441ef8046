"""Numbers and dates as people write them, against what Python writes and reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from flowratio.tables.cells import READERS, recognised
from flowratio.tables.formats import (
    DATE_FORMATS,
    NUMBER_FORMATS,
    date_format,
    days,
    looks_like_thousands,
    number_format,
    numbers,
    one_number_twice,
    pattern_of_dates,
    written_numbers,
)

VALUES = np.array([0.25, -1.5, 12.75, 999.0, 1234.5, -56017.25, 1234567.75, 0.0])


def swapped(thousands: str, decimal: str) -> Callable[[float], str]:
    """Return a function that writes a number with two decimals."""
    return lambda value: f"{value:,.2f}".translate(str.maketrans({",": thousands, ".": decimal}))


@pytest.mark.parametrize(
    ("thousands", "decimal", "form"),
    [
        ("", ",", "1234,5"),
        (",", ".", "1,234.5"),
        (".", ",", "1.234,5"),
        (" ", ",", "1 234,5"),
        ("\u00a0", ",", "1 234,5"),
        ("\u202f", ".", "1 234.5"),
        ("\u2009", ",", "1 234,5"),
        ("'", ".", "1'234.5"),
        ("’", ",", "1'234,5"),
    ],
)
@pytest.mark.parametrize("sign", ["{}", "{}%", "{} %", "€{}", "{} €", "$ {}", "£{}"])
def test_every_format_is_found_and_read(thousands: str, decimal: str, form: str, sign: str) -> None:
    cells = pl.Series([sign.format(text) for text in map(swapped(thousands, decimal), VALUES)])
    symbol = sign.replace("{}", "").strip()
    assert number_format(cells) == f"{form} {symbol}".strip()
    assert numbers(cells, f"{form} {symbol}".strip()).to_list() == VALUES.tolist()


def test_what_is_in_another_format_is_none() -> None:
    cells = pl.Series(["1.234", "1,5", "12,34.5", "1,,234", "", "a", "1 234", "--5", "5%", "1,234"])
    assert numbers(cells, "1234,5").to_list() == [None, 1.5, *[None] * 7, 1.234]
    assert numbers(cells, "1,234.5").to_list() == [1.234, *[None] * 8, 1234.0]
    assert numbers(pl.Series(["5", "5%", "%5%", "5%3", "% 5", "-5%", "%-5", "-%5"]), "1234.5 %").to_list() == [
        *[None, 5.0, None, None, 5.0, -5.0, -5.0, -5.0]
    ]


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["1,234", "2,500"], "1,234.5"),  # three digits throughout: thousands
        (["1,234", "987"], "1,234.5"),
        (["1,234", "2,5"], "1234,5"),
        (["1,234", "0,987"], "1234,5"),  # no thousands begin with 0
        (["12,34,567", "1,000"], "1,234.5"),  # of India
        (["1.234.567", "1.234"], "1.234,5"),
        (["−1.5", "2.5"], "1234.5"),  # a minus, not a hyphen
        (["1,5e-3", "2"], "1234,5"),
        ([",5", "-,25"], "1234,5"),
        (["1.000 €", "5 €"], "1234.5 €"),  # a dot is a decimal point, with a warning
        (["$3.459", "$3.599", "$4"], "1234.5 $"),  # fuel
        (["1.234.567 €", "5 €"], "1.234,5 €"),
        (["1,1", "1,10", "2"], None),  # answers 1 and 1, or 1 and 10
        (["1,1", "1,10", "1 234,5"], "1 234,5"),  # a space between thousands tells numbers
        (["2", "2,0", "3,5"], "1234,5"),
        (["1,50 €", "1,5 €"], "1234,5 €"),
        (["192.168.100.101", "172.168.100.102"], None),  # addresses
        (["1.234.567.890", "1,5"], "1.234,5"),
        (["(1,234.50)", "7"], "1,234.5"),
        (["(5)", "7"], "1234.5"),
        (["(-5)", "7"], None),
        (["(5", "7"], None),
        (["1.000 €", "5.25 €"], "1234.5 €"),
        (["5 €", "7 €"], "1234.5 €"),
        (["1,5", "2.5"], None),
        (["5%", "0.05"], None),
        (["5 €", "5 $"], None),
        (["192.168.0.1", "10.0.0.1"], None),
        (["089 123 456", "1 234"], None),
        (["a", "b"], None),
    ],
)
def test_rules_of_formats(cells: list[str], form: str | None) -> None:
    assert number_format(pl.Series(cells)) == form


def test_numbers_in_parentheses_are_negative() -> None:
    assert numbers(pl.Series(["(1,234.50)", "1,234.50", "(7)"]), "1,234.5").to_list() == [-1234.5, 1234.5, -7.0]
    assert numbers(pl.Series(["(1.234,5)", "(0,5)"]), "1.234,5").to_list() == [-1234.5, -0.5]
    assert numbers(pl.Series(["($5)", "$(5)", "($ 5.5)", "$5"]), "1234.5 $").to_list() == [-5.0, -5.0, -5.5, 5.0]
    assert numbers(pl.Series(["(5 %)", "(5) %", "(5%"]), "1234.5 %").to_list() == [-5.0, -5.0, None]


def test_a_slip_after_many_cells_is_met() -> None:
    assert number_format(pl.Series(["1,5"] * 500 + ["2,5"])) == "1234,5"
    assert number_format(pl.Series(["1,5"] * 500 + ["2.5"])) is None
    assert date_format(pl.Series(["31.12.2023"] * 500 + ["31.11.2023"])) is None


def test_dots_that_may_stand_between_thousands() -> None:
    dotted = [f"{k}.{100 + k}" for k in range(1, 30)]
    assert looks_like_thousands(pl.Series([*dotted, "987"]))
    for other in ("987.5", "0.125", "1234", "12.34"):
        assert not looks_like_thousands(pl.Series([*dotted, other, "7"]))
    assert not looks_like_thousands(pl.Series(dotted))
    assert looks_like_thousands(pl.Series(["$3.459", "$3.599", "$4"]))  # of money, a few are enough
    assert looks_like_thousands(pl.Series(["1.000 €", "-5 €"]))
    for other in ("3.45 €", "1000 €"):
        assert not looks_like_thousands(pl.Series(["1.000 €", "5 €", other]))


@pytest.mark.parametrize("form", NUMBER_FORMATS)
@pytest.mark.parametrize("decimals", [2, None])
def test_written_numbers_are_read_again(form: str, decimals: int | None) -> None:
    for example in (f"0 {form[-1]}", f"{form[-1]}0"):
        text = written_numbers(VALUES, form, decimals, example)
        assert numbers(pl.Series(text), form).to_list() == VALUES.tolist()
    assert f"number {form}" in READERS


MOMENTS = [
    dt.datetime(2023, 12, 31, 23, 59, 59),
    dt.datetime(1969, 7, 20),
    dt.datetime(2024, 2, 29, 12),
    dt.datetime(2024, 1, 2, 0, 30),
    dt.datetime(2024, 3, 4, 13, 5),
]


def in_days(moment: dt.datetime) -> float:
    return (moment - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)


@pytest.mark.parametrize("form", [None, *DATE_FORMATS])
@pytest.mark.parametrize("time", ["", " %H:%M:%S", "T%H:%M:%S", ", %H:%M:%S", " %I:%M:%S %p", " %H:%M:%SZ"])
def test_every_date_is_found_and_read(form: str | None, time: str) -> None:
    moments = MOMENTS if time else [moment.replace(hour=0, minute=0, second=0) for moment in MOMENTS]
    cells = pl.Series([moment.strftime((form or "%Y-%m-%d") + time) for moment in moments])
    assert recognised(cells) == ("date" if form is None else f"date {form}")
    assert days(cells, form).to_list() == [in_days(moment) for moment in moments]
    pattern = pattern_of_dates(cells, form)
    assert pl.Series(moments).dt.strftime(pattern).to_list() == cells.to_list()


def test_rules_of_dates() -> None:
    assert date_format(pl.Series(["01/02/2023", "05/03/2023"])) == "%d/%m/%Y"  # either way: the day first
    assert date_format(pl.Series(["01/01/2023", "01/02/2023"])) == "%d/%m/%Y"
    assert date_format(pl.Series(["01/01/2023", "02/01/2023", "03/1/2023"])) == "%m/%d/%Y"  # first days of months
    assert date_format(pl.Series(["1.2.2023", "31.12.2023"])) == "%d.%m.%Y"
    for bad in (["12.31.2023", "1.1.2023"], ["31.12.23"], ["1/2.2023"], ["31.12.2023 25:00"], ["1/2/2023 13:00 PM"]):
        assert date_format(pl.Series(bad)) is None


def test_how_dates_are_written_is_told_by_all_of_them() -> None:
    assert pattern_of_dates(pl.Series(["31.12.2023"] * 3000 + ["1.1.2024"]), "%d.%m.%Y") == "%-d.%-m.%Y"
    assert pattern_of_dates(pl.Series(["2023-12-31"] * 3000 + ["2024-01-01 12:30"]), None) == "%Y-%m-%d %H:%M"


def test_zones_and_parts_of_seconds() -> None:
    cells = pl.Series(["31.12.2023 23:30:00.25+01:00", "31.12.2023 22:30:00.25Z"])
    assert days(cells, "%d.%m.%Y").to_list() == [in_days(dt.datetime(2023, 12, 31, 22, 30, 0, 250_000))] * 2
    assert pattern_of_dates(cells, "%d.%m.%Y") == "%d.%m.%Y %H:%M:%S%.3f+00:00"


def test_minus_zero_is_no_other_number() -> None:
    temperatures = pl.Series(["0,0", "-0,0", "1,5", "-2,0"])
    assert one_number_twice(temperatures) is None
    assert number_format(temperatures) == "1234,5"
