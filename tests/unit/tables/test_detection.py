"""Which tables must be encoded."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from flowratio.tables.detection import is_mixed


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.zeros((2, 2)), False),
        (np.zeros((2, 2), int), False),
        (np.array([[np.nan, 1.0]]), True),
        (np.array([["a", "b"]]), True),
        (np.array([[1, 2.5]], dtype=object), False),
        (np.array([[1, None]], dtype=object), True),
        (np.array([["2024-01-01"]], "datetime64[D]"), True),
        (np.ma.masked_array([[1.0, 2.0]], [[True, False]]), True),
        (np.zeros(3), False),
        ([[1.0], [1.0, 2.0]], False),  # refused elsewhere
        ("rows.npy", False),
        (pd.DataFrame({"a": [1, 2.5]}), False),
        (pd.DataFrame({"a": [1, None]}), True),
        (pd.DataFrame({"a": [True, False]}), True),
        (pd.DataFrame({"a": ["x", "y"]}), True),
        (pd.DataFrame({"a": pd.PeriodIndex(["2024-01"], freq="M")}), True),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), False),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0.0, np.nan])}), True),
        (pl.DataFrame({"a": pl.Series(["x", None], dtype=pl.Object)}), True),
        (pl.DataFrame({"a": [1, 2]}), False),
        (pl.DataFrame({"a": [1.0, float("nan")]}), True),
        (pl.DataFrame({"a": [1, None]}), True),
        (pl.DataFrame({"a": [dt.date(2024, 1, 1)]}), True),
        (pa.table({"a": [1, 2]}), True),
    ],
)
def test_mixed_tables(X: Any, expected: bool) -> None:
    assert is_mixed(X) is expected
