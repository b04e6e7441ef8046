"""Cells of any type, read as what they mean."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from flowratio.cells import cells_of, pooled, read, recognised, to_frame


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["3.5", " 4 ", "1e-3"], "number"),
        (["3", "-4", "1e3"], "integer"),
        (["1,000", "2"], "integer 1,234.5"),
        (["1,5", "2.5"], "category"),  # two formats
        (["TRUE", "false"], "boolean"),
        (["yes", "no"], "category"),
        (["2024-01-31", "2023/12/31"], "date"),
        (["2024-01-31 10:20:30.25", "2024-01-31T10:20Z"], "date"),
        (["31/01/2024", "01/02/2024"], "date %d/%m/%Y"),
        (["31/01/2024", "01/31/2024"], "category"),
        (["2024-02-30", "2024-01-01"], "category"),  # no such day
        (["1", "x"], "category"),
    ],
)
def test_text_is_recognised(values: list[str], kind: str) -> None:
    assert recognised(cells_of(pl.Series(values))) == kind


def test_objects_of_pandas_are_text() -> None:
    frame = pd.DataFrame({"a": [1, "x", None, 2.5]})
    assert to_frame(frame).rows() == [("1",), ("x",), (None,), ("2.5",)]


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


def test_zones_are_brought_to_one() -> None:
    there = pl.Series([dt.datetime(2024, 1, 1, 12)]).dt.replace_time_zone("Europe/Berlin")
    assert (
        read(cells_of(there), "date").to_list()
        == read(cells_of(pl.Series(["2024-01-01 12:00+01:00"])), "date").to_list()
    )


def test_truth_values_can_come_as_numbers() -> None:
    for column in ([1, 0, None], ["1", "0", "NA"], ["True", "FALSE", ""]):
        assert read(cells_of(pl.Series(column)), "boolean").to_list() == [1.0, 0.0, None]
    with pytest.raises(ValueError, match=r"'2.0' in row 0 .* no truth value"):
        read(cells_of(pl.Series("a", [2])), "boolean")
