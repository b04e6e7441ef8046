"""Treated rows and controls: what is accepted as a treatment, and folds that follow the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from flowratio._support.errors import ArgumentError
from flowratio.applications.treatment import content_folds, treatment_groups

X = np.random.default_rng(0).normal(size=(20, 2))
T = np.arange(20) % 3 == 0


@pytest.mark.parametrize(
    "treatment",
    [T, T.astype(int), T.astype(float).tolist(), T.astype(object), pd.Series(T), pl.Series(T), pd.array(T * 1, "Int8")],
    ids=lambda treatment: type(treatment).__name__,
)
def test_zeros_and_ones_of_any_type_are_a_treatment(treatment: Any) -> None:
    groups = treatment_groups(X, treatment, None)
    np.testing.assert_array_equal(groups.samples.X, np.vstack([X[T], X[~T]]))
    np.testing.assert_array_equal(groups.in_input_order(groups.samples.X[:, 0], np.nan), X[:, 0])


@pytest.mark.parametrize(
    ("treatment", "message"),
    [
        (["yes", "no"] * 10, r"`treatment` has values such as 'yes'\. Use 1 or True"),
        (np.array(["1", "0"] * 10, object), r"`treatment` has values such as '1'"),
        (np.arange(20) % 3, "`treatment` is neither 0 nor 1 on 6 rows, the first is 2"),
        (np.where(T, np.nan, 1.0), "`treatment` is neither 0 nor 1 on 7 rows, the first is nan"),
        (np.zeros(20), "`treatment` is 1 on 0 rows of positive weight"),
        (np.ones(20), "`treatment` is 0 on 0 rows of positive weight"),
        (T[:5], r"`treatment` has shape \(5,\) but `X` has 20 rows"),
    ],
)
def test_refusals(treatment: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        treatment_groups(X, treatment, None)


def test_a_missing_value_is_named_with_its_group() -> None:
    bad = X.copy()
    bad[1, 1] = np.inf
    with pytest.raises(ValueError, match=r"`X\[treatment == 0\]` has 1 infinite values"):
        treatment_groups(bad, T, None)


def test_rows_come_in_any_container() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = pl.DataFrame({"a": X[:, 0], "city": ["Bonn", "Ulm"] * 10})
    expected = treatment_groups(frame, T, None).samples.X
    with duckdb.connect() as connection:
        connection.register("rows", frame.to_arrow())
        for table in (frame.to_arrow(), frame.to_pandas(), connection.sql("select * from rows")):
            np.testing.assert_array_equal(treatment_groups(table, T, None).samples.X, expected)
    np.testing.assert_array_equal(treatment_groups(X[:, 0], T, None).samples.X_p, X[T, :1])


def test_folds_follow_the_rows() -> None:
    order = np.random.default_rng(1).permutation(20)
    folds = []
    for rows in (np.arange(20), order):
        groups = treatment_groups(X[rows], T[rows], None)
        fold = content_folds(groups.samples, None, 4, np.random.default_rng(0))
        assert np.bincount(fold[: groups.samples.n_p]).tolist() == [2, 2, 2, 1] or fold.max() == 2
        folds.append(groups.in_input_order(fold, -1))
    np.testing.assert_array_equal(folds[0][order], folds[1])
