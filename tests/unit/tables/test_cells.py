"""Tables of any library as cells of four types."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from flowratio.tables.cells import CellError, cells_of, check_formats, pooled, read, to_frame
from flowratio.tables.detection import is_mixed
from flowratio.tables.formats import CellFormat, Kind, TextFormat


def test_cells_have_four_types() -> None:
    assert cells_of(pl.Series([" a ", "NA", "", None])).to_list() == ["a", None, None, None]
    assert cells_of(pl.Series([1, None])).to_list() == [1.0, None]
    assert cells_of(pl.Series([dt.date(2024, 1, 1)])).to_list() == [dt.datetime(2024, 1, 1)]
    assert to_frame([[1, 2], [3, 4]]).columns == ["x1", "x2"]


def test_objects_of_pandas_are_text() -> None:
    frame = pd.DataFrame({"a": [1, "x", None, 2.5]})
    assert to_frame(frame).rows() == [("1",), ("x",), (None,), ("2.5",)]


def test_relations_of_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        query = "select range as n, date '2024-01-31' as day, if(range = 1, null, 'é') as word from range(3)"
        relation = connection.sql(query)
        assert is_mixed(relation)
        assert to_frame(relation).rows() == [(n, dt.date(2024, 1, 31), None if n == 1 else "é") for n in range(3)]
        assert cells_of(to_frame(connection.sql(f"select sum(n) as total from ({query})"))["total"]).to_list() == [3.0]
        with pytest.raises(ValueError, match="`X` has more than one column 'n'"):
            to_frame(connection.sql("select 1 as n, 2 as n"))


@pytest.mark.parametrize("values", [["x", None, 2.5], [None, "x", 2.5]])
def test_objects_of_polars_are_text(values: list[Any]) -> None:
    frame = pl.DataFrame({"a": pl.Series(values, dtype=pl.Object), "b": [1, 2, 3]})
    words = [None if value is None else str(value) for value in values]
    assert to_frame(frame).rows() == [*zip(words, [1, 2, 3], strict=True)]


def test_periods_and_sparse_columns_of_pandas() -> None:
    months, numbers = pd.PeriodIndex(["2024-02", None], freq="M"), pd.arrays.SparseArray([0.0, 1.5])
    frame = to_frame(pd.DataFrame({"month": months, "number": numbers, "word": pd.arrays.SparseArray(["x", "y"])}))
    assert frame.rows() == [(dt.datetime(2024, 2, 1), 0.0, "x"), (None, 1.5, "y")]
    far = pd.DataFrame({"year": pd.PeriodIndex(["9999"], freq="Y")})
    assert str(to_frame(far)["year"][0]).startswith("9999")


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(TypeError, match="sparse"):
        to_frame(csr_matrix(np.eye(2)))
    with pytest.raises(ValueError, match="1-D array"):
        to_frame(np.zeros(3))
    with pytest.raises(ValueError, match="complex"):
        to_frame(np.zeros((2, 2), complex))


def test_types_that_differ_get_one_of_both() -> None:
    day = dt.date(2024, 1, 1)
    pairs = [
        ([True, False], [2.0, None], [1.0, 0.0, 2.0, None]),
        ([1, 2], ["x", " 3 "], ["1", "2", "x", "3"]),
        ([1.5, 2.0], ["", "3"], ["1.5", "2", None, "3"]),
        ([None, None], [day, day], [None, None, dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1)]),
        (["a", "b"], [None, None], ["a", "b", None, None]),
    ]
    for a, b, expected in pairs:
        assert pooled(pl.DataFrame({"a": a}), pl.DataFrame({"a": b}))["a"].to_list() == expected


@pytest.mark.parametrize(
    ("p", "q", "words"),
    [
        (["2", "1,5"], ["3", "1.5"], ["'1,5' in `P` (number such as 1234,5)", "'1.5' in `Q` (number such as 1234.5)"]),
        ([1.5, 2.5], ["1,5", "2"], ["'1.5' in `P`", "'1,5' in `Q`"]),
        (["31.1.2024"], ["2024-01-31"], ["date such as 31.01.2024", "date such as 2024-01-31"]),
        ([dt.date(2024, 1, 31)], ["31.1.2024"], ["'2024-01-31", "'31.1.2024'"]),
        (["1.234", "987"], ["1234", "987"], ["'1.234' in `P`", "'1234' in `Q`", "thousands"]),
        (["1.234", "5.678"], [1234, 5678], ["'1.234' in `P`", "'1234' in `Q`", "thousands"]),
        (["1,234", "9,876"], ["1.234", "9.876"], ["'1,234' in `P`", "'1.234' in `Q`", "thousands"]),
        (["true", "false"], ["0", "1"], ["(boolean)", "(number such as"]),
        (["1700000000", "5"], ["2024-01-31"], ["(number such as", "(date such as"]),
    ],
)
def test_samples_in_two_formats_are_refused(p: list[Any], q: list[Any], words: list[str]) -> None:
    P, Q = pl.DataFrame({"a": p}), pl.DataFrame({"a": q})
    with pytest.raises(ValueError, match=r"^Column 'a' has .* same way in both, or drop the column\.$") as error:
        check_formats(P, Q, ("P", "Q"))
    assert [word for word in words if word not in str(error.value)] == []
    with pytest.raises(ValueError, match="Column 'a'"):
        check_formats(Q, P)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (["1,5", "2"], ["3", "4"]),  # whole numbers have no decimal comma
        (["1,234", "9,876"], ["0,5", "0,25"]),  # what is open in one sample the other settles
        (["2024-01-31", "unknown"], [dt.date(2024, 1, 1)]),
        (["true", "-"], [True, False]),
        ([None, None], ["1,5", "2,5"]),
        (["", ""], [1.5, 2.5]),
        (["a", "b"], ["1", "2"]),
        (["1,5", "x"], ["1.5", "2"]),
        (["1,1", "1,2"], ["1,10", "2,3"]),  # answers 1 and 10
        (["1.234", "0.5"], ["1234", "7"]),
        ([1, 2], [True, False]),
    ],
)
def test_samples_that_can_be_compared_are_not(p: list[Any], q: list[Any]) -> None:
    P, Q = pl.DataFrame({"a": p}), pl.DataFrame({"a": q})
    check_formats(P, Q)
    check_formats(Q, P)


def test_types_of_words_stay_what_they_are() -> None:
    for dtype in (pl.Categorical(), pl.Enum(["a", "b"])):
        P, Q = (pl.DataFrame({"w": pl.Series(words, dtype=dtype)}) for words in (["a", "b"], ["b", None]))
        assert pooled(P, Q).schema == {"w": dtype}
        assert pooled(P, Q)["w"].to_list() == ["a", "b", "b", None]


def test_zones_are_brought_to_one() -> None:
    there = pl.Series([dt.datetime(2024, 1, 1, 12)]).dt.replace_time_zone("Europe/Berlin")
    assert (
        read(cells_of(there), CellFormat(Kind.DATE)).to_list()
        == read(cells_of(pl.Series(["2024-01-01 12:00+01:00"])), CellFormat(Kind.DATE)).to_list()
    )


def test_booleans_can_come_as_numbers() -> None:
    for column in ([1, 0, None], ["1", "0", "NA"], ["True", "FALSE", ""]):
        assert read(cells_of(pl.Series(column)), CellFormat(Kind.BOOLEAN)).to_list() == [1.0, 0.0, None]
    with pytest.raises(ValueError, match=r"'2.0' in row 0 .* not a boolean"):
        read(cells_of(pl.Series("a", [2])), CellFormat(Kind.BOOLEAN))


def test_settings_decide_between_formats_of_two_samples() -> None:
    P, Q = pl.DataFrame({"a": ["1.234", "987"]}), pl.DataFrame({"a": ["1234", "987"]})
    check_formats(P, Q, text_format=TextFormat(decimal=","))
    P, Q = pl.DataFrame({"d": ["31/12/2023"]}), pl.DataFrame({"d": ["2023-12-31"]})
    with pytest.raises(ValueError, match=r"\(date such as 31/01/2024\) and .* \(date such as 2024-01-31\)"):
        check_formats(P, Q, text_format=TextFormat(date_format="%d/%m/%Y"))


def test_words_for_missing_values_are_read_as_null() -> None:
    cells = pl.Series(["1970-01-02", None, "1970-01-03T12:00", "unknown"])
    assert read(cells, CellFormat(Kind.DATE)).to_list() == [1.0, None, 2.5, None]


def test_errors_of_cells_have_a_place() -> None:
    with pytest.raises(CellError, match=r"'a' has 'old' in row 1 \(counted from 0\), which is not a number") as error:
        read(pl.Series("a", ["1", "old"]), CellFormat(Kind.NUMBER))
    assert error.value.row == 1
    assert "in line 3 of p.csv, which is not" in str(error.value.at("line 3 of p.csv"))
