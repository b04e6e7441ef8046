"""Rows in any container: which values are one column, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from flowratio.samples.containers import in_order, is_arrow_table, is_vector, to_table, to_tables

ONE = [[1.0], [2.0]]


@pytest.mark.parametrize(
    "X",
    [
        [1.0, 2.0],
        (1, 2),
        ["a", "b"],
        [None, 1.0],
        np.array([1.0, 2.0]),
        pd.Series([1, 2]),
        pl.Series([1, 2]),
        pa.array([1]),
    ],
)
def test_vectors(X: Any) -> None:
    assert is_vector(X)
    assert to_table(X).shape == (len(X), 1)


@pytest.mark.parametrize(
    "X", [[], ONE, np.array(ONE), np.float64(3), None, pd.DataFrame(ONE), np.ones((2, 2, 2)), "text"]
)
def test_other_rows_stay_unchanged(X: Any) -> None:
    assert not is_vector(X)
    assert to_table(X) is X


def test_arrow_tables_become_frames() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    assert is_arrow_table(table)
    assert not is_arrow_table(table["a"])
    assert to_table(table).equals(pl.DataFrame({"a": [1, 2], "b": ["x", None]}))
    assert to_table(table.to_batches()[0]).columns == ["a", "b"]


def test_names() -> None:
    assert list(to_table(pd.Series([1.0, 2.0], index=[7, 8], name="age"))) == ["age"]
    assert to_table(pl.Series("age", [1.0])).columns == ["age"]
    assert to_table(pl.Series("age", [1.0]), "pay").columns == ["pay"]
    assert isinstance(to_table(pd.Series([1.0, 2.0])), np.ndarray)  # numbers without a name
    assert to_table(pl.Series(["a", None])).columns == ["x1"]  # text without a name
    assert to_table(pd.Series([1.0, 2.0], name=0)).columns.tolist() == [0]


def test_masked_values_stay_masked() -> None:
    assert to_table(np.ma.MaskedArray([1.0, 2.0], [False, True])).mask.tolist() == [[False], [True]]


def test_two_vectors_have_one_name() -> None:
    p, q = to_tables(pd.Series([1.0, 2.0], name="pay 2023"), pl.Series("pay 2024", [3.0, 4.0]))
    assert list(p.columns) == list(q.columns) == ["pay 2023"]
    p, q = to_tables(["a", "b"], pl.Series("job", ["c", "d"]))
    assert list(p.columns) == list(q.columns) == ["job"]
    p, q = to_tables([1.0, 2.0], pl.DataFrame({"pay": [1.0, 2.0]}))
    assert list(p.columns) == list(q.columns) == ["pay"]
    p, q = to_tables([1.0, 2.0], pd.Series([1.0, 2.0], name=0))  # a name that is no text
    assert isinstance(p, np.ndarray)
    assert q.columns.tolist() == [0]


@pytest.mark.parametrize("library", [pd, pl])
def test_order_of_columns(library: Any) -> None:
    frame = library.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert list(in_order(frame, ["b", "a"]).columns) == ["b", "a"]
    assert in_order(frame, ["a", "b"]) is frame
    assert in_order(frame, ["a", "c"]) is frame  # refused elsewhere, with their names
    assert in_order(ONE, ["a"]) is ONE
