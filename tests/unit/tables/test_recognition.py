"""Formats that are guessed, formats that need a setting, and columns that look like a mistake."""

from __future__ import annotations

import polars as pl
import pytest

from flowratio._support.errors import ArgumentError
from flowratio.tables.cells import cells_of
from flowratio.tables.formats import CellFormat, Kind, TextFormat
from flowratio.tables.recognition import (
    GUESS,
    doubt_about_categories,
    doubt_about_numbers,
    equal_numbers,
    has_long_integers,
    mark_before_three,
    recognize,
)

NUMBER, INTEGER, DATE = CellFormat(Kind.NUMBER), CellFormat(Kind.INTEGER), CellFormat(Kind.DATE)
COMMA, DAY_FIRST = CellFormat(Kind.NUMBER, ","), CellFormat(Kind.DATE, date_format="%d.%m.%Y")
BOOLEAN, CATEGORY = CellFormat(Kind.BOOLEAN), CellFormat(Kind.CATEGORY)


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["3.5", " 4 ", "1e-3"], NUMBER),
        (["3", "-4", "1e3"], INTEGER),
        (["1,5", "2.5"], CATEGORY),  # two formats
        (["TRUE", "false"], BOOLEAN),
        (["yes", "no"], CATEGORY),
        (["2024-01-31", "2023/12/31"], DATE),
        (["2024-01-31 10:20:30.25", "2024-01-31T10:20Z"], DATE),
        (["31.1.2024", "01.02.2024"], DAY_FIRST),
        (["31/01/2024", "01/31/2024"], CATEGORY),
        (["2024-02-30", "2024-01-01"], CATEGORY),  # no such day
        (["1", "x"], CATEGORY),
        (["1,234", "2,5"], COMMA),
        (["1,234", "0,987"], COMMA),  # thousands do not begin with 0
        (["1,5e-3", "2"], COMMA),
        ([",5", "-,25"], COMMA),
        (["2", "2,0", "3,5"], COMMA),
        (["0,0", "-0,0", "1,5", "-2,0"], COMMA),  # minus zero is not another number
        (["1,1", "1,10", "2"], CATEGORY),  # answers 1 and 1, or 1 and 10
        (["1,234", "2,500"], CATEGORY),  # 1.234 or 1234
        (["1,234.5", "2"], CATEGORY),
        (["192.168.100.101", "172.168.100.102"], CATEGORY),  # addresses
        (["5%", "7.5 %"], CATEGORY),
        (["5 €", "7 €"], CATEGORY),
        (["(5)", "7"], CATEGORY),
        (["3,5", "-"], COMMA),
        (["31.1.2024", "unknown"], DAY_FIRST),
        (["-", "a"], CATEGORY),
    ],
)
def test_text_is_recognized(cells: list[str], form: CellFormat) -> None:
    assert recognize(cells_of(pl.Series(cells))) == form


@pytest.mark.parametrize(
    ("cells", "text_format", "form"),
    [
        (["1,234", "987"], TextFormat("."), CellFormat(Kind.INTEGER, ".", thousands=True)),
        (["1,234", "987"], TextFormat(","), COMMA),
        (["12,34,567", "1,000"], TextFormat("."), CellFormat(Kind.INTEGER, ".", thousands=True)),  # Indian
        (["1.234.567", "1.234"], TextFormat(","), CellFormat(Kind.INTEGER, ",", thousands=True)),
        (["1.234", "987"], TextFormat(","), CellFormat(Kind.INTEGER, ",", thousands=True)),
        (["1,1", "1,10", "2"], TextFormat(","), COMMA),
        (["1.5", "2"], TextFormat(","), CATEGORY),
        (["192.168.100.101", "172.168.100.102"], TextFormat(","), CATEGORY),
        (["01/02/2024"], TextFormat(date_format="%m/%d/%Y"), CellFormat(Kind.DATE, date_format="%m/%d/%Y")),
        (["20240131", "20240201"], TextFormat(date_format="%Y%m%d"), CellFormat(Kind.DATE, date_format="%Y%m%d")),
        (["2024-01-31"], TextFormat(date_format="%m/%d/%Y"), DATE),
        (["31.12.2023"], TextFormat(date_format="%m/%d/%Y"), DAY_FIRST),
        (["7", "8"], TextFormat(date_format="%m/%d/%Y"), INTEGER),
    ],
)
def test_settings_decide(cells: list[str], text_format: TextFormat, form: CellFormat) -> None:
    assert recognize(pl.Series(cells), text_format) == form


def test_a_mistake_after_many_cells_matters() -> None:
    assert recognize(pl.Series(["1,5"] * 500 + ["2,5"])) == COMMA
    assert recognize(pl.Series(["1,5"] * 500 + ["2.5"])) == CATEGORY
    assert recognize(pl.Series(["31.12.2023"] * 500 + ["31.11.2023"])) == CATEGORY


@pytest.mark.parametrize(
    "cells",
    [
        *(["1,234", "987"], ["1,234", "2,500"], ["1.234.567", "1"], ["1.234,5", "2"], ["1,234.5"], ["12,34,567"]),
        *(["1 234,5", "1"], ["1'234.5"]),
    ],
)
def test_thousands_need_the_decimal_mark(cells: list[str]) -> None:
    column = pl.Series("a", cells)
    with pytest.raises(
        ArgumentError, match=r"'a' has numbers such as .1.*not guessed\. Set `decimal` to '\.' or ','"
    ) as error:
        doubt_about_categories(column, GUESS)
    assert error.value.argument == "decimal"


@pytest.mark.parametrize(
    ("cells", "formats"),
    [
        (["01/02/2023", "05/03/2023"], "'%d/%m/%Y' or '%m/%d/%Y'"),
        (["31/12/2023", "1/2/2023 10:30"], "'%d/%m/%Y'"),
        (["12/31/2023"], "'%m/%d/%Y'"),
        (["12-31-2023"], "'%m-%d-%Y'"),
        (["31-12-2023"], "'%d-%m-%Y'"),
        (["12.31.2023", "1.1.2024"], "'%m.%d.%Y'"),
    ],
)
def test_other_dates_need_a_format(cells: list[str], formats: str) -> None:
    with pytest.raises(
        ArgumentError, match=f"'a' has dates such as .* Set `date_format` to {formats}, or drop"
    ) as error:
        doubt_about_categories(pl.Series("a", cells), GUESS)
    assert error.value.argument == "date_format"


def test_settings_that_a_column_contradicts_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"'a' has numbers such as '1\.5'\. They do not fit `decimal` ','"):
        doubt_about_categories(pl.Series("a", ["1.5", "2"]), TextFormat(","))
    with pytest.raises(ArgumentError, match=r"'31/12/2023'\. They do not fit `date_format` '%m/%d/%Y'\. Set"):
        doubt_about_categories(pl.Series("a", ["31/12/2023"]), TextFormat(date_format="%m/%d/%Y"))


def test_signs_are_a_warning() -> None:
    for cells in (["5%", "7.5 %"], ["€ 1.250,50", "3 €"], ["-$5", "$7"], ["(5)", "7"], ["−1.5", "2"]):
        doubt = doubt_about_categories(pl.Series("a", cells), GUESS)
        assert doubt is not None
        assert "its values have signs, such as" in str(doubt)
    for cells in (
        ["192.168.100.101", "1.2.3.4"],
        ["10.15.700", "10.16.100"],
        ["089 123 456", "030 12"],
        ["a", "b"],
        ["1,5", "2.5"],
        ["a%", "b"],
    ):
        assert doubt_about_categories(pl.Series("a", cells), GUESS) is None


def test_equal_numbers_are_a_warning() -> None:
    assert equal_numbers(pl.Series(["1,1", "2", "1,10"])) == ("1,1", "1,10")
    assert equal_numbers(pl.Series(["2", "2,0", "3,5"])) is None
    assert equal_numbers(pl.Series(["0,0", "-0,0", "1,5", "-2,0"])) is None
    doubt = doubt_about_categories(pl.Series("a", ["1,1", "2", "1,10"]), GUESS)
    assert doubt is not None
    assert "'1,1' and '1,10' would be the same number" in str(doubt)


def test_marks_before_three_digits() -> None:
    columns = (["1.234", "7"], ["-1,234"], ["1.234", "1.5"], ["1", "2"], ["0.125"])
    assert [mark_before_three(pl.Series(cells)) for cells in columns] == [".", ",", None, None, None]
    assert has_long_integers(pl.Series(["1234", "5"]))
    assert not has_long_integers(pl.Series(["1234", "5.5"]))


def test_dots_that_can_be_thousands_separators_are_a_warning() -> None:
    dotted = [f"{k}.{100 + k}" for k in range(1, 30)]
    doubt = doubt_about_numbers(pl.Series("a", [*dotted, "987"]), GUESS)
    assert doubt is not None
    assert "'1.101' and integers without a dot" in str(doubt)
    assert "set `decimal` to ','" in str(doubt)
    assert doubt_about_numbers(pl.Series([*dotted, "987"]), TextFormat(".")) is None
    for other in ("987.5", "0.125", "1234", "12.34"):
        assert doubt_about_numbers(pl.Series([*dotted, other, "7"]), GUESS) is None
    assert doubt_about_numbers(pl.Series(dotted), GUESS) is None
    assert doubt_about_numbers(pl.Series(["1.101", "987"]), GUESS) is None
