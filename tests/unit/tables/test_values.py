"""Decoded values: their decimals, their types, the values at fit."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl

from flowratio.tables.formats import Kind
from flowratio.tables.values import decimals_of, few_values, nearest_of, rounded, typed


def test_decimals_are_those_of_the_longest_number() -> None:
    x = np.random.default_rng(0).normal(size=5000) * 1e4
    for k in range(7):
        values = np.round(x, k)
        assert decimals_of(values) == k
        assert np.array_equal(rounded(values + 0.2 * 10.0**-k, k), values)
    assert decimals_of(x) is None
    late = np.r_[np.zeros(4000), 0.125]
    assert decimals_of(late) == 3
    assert rounded(np.array([1.2345, 1e300]), 2).tolist() == [1.23, 1e300]


def test_few_values_repeat() -> None:
    assert few_values(np.array([40.0, 20.0, 40.0, 20.0, 35.0, 35.0])) == (20.0, 35.0, 40.0)
    assert few_values(np.arange(100.0)) == ()
    assert few_values(np.r_[np.tile(np.arange(20.0), 100), 20.0]) == ()
    assert nearest_of((20.0, 35.0, 40.0), np.array([-3.0, 27.0, 28.0, 39.0])).tolist() == [20.0, 20.0, 35.0, 40.0]


def test_values_have_the_type_of_their_kind() -> None:
    values = pl.Series([0.2, 1.9])
    assert typed(values, Kind.NUMBER, None, False) is values
    assert typed(values, Kind.NUMBER, 0, False).to_list() == [0.0, 2.0]
    assert typed(values, Kind.INTEGER, 0, False).to_list() == [0, 2]
    assert typed(values, Kind.BOOLEAN, None, False).to_list() == [False, True]
    assert typed(values, Kind.DATE, None, False).to_list() == [dt.date(1970, 1, 1), dt.date(1970, 1, 3)]
    assert typed(pl.Series([1.5]), Kind.DATE, None, True).to_list() == [dt.datetime(1970, 1, 2, 12)]
    text = pl.Series(["a"])
    assert typed(text, Kind.CATEGORY, None, False) is text
