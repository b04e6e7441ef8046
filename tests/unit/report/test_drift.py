from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from flowratio.applications.plain_changes import _rank_correlation
from flowratio.report.drift import drift_test
from flowratio.report.model import fit_tables


def test_rank_correlation_of_rows_with_both_values() -> None:
    a, b = np.array([1.0, 2, 3, 4, math.nan]), np.array([1.0, 4, 9, 16, 0])
    assert _rank_correlation(a, b) == pytest.approx(1)
    assert math.isnan(_rank_correlation(a, np.array([1.0, math.nan, math.nan, math.nan, 2])))  # one row has both
    assert math.isnan(_rank_correlation(a, np.ones(5)))


@pytest.mark.filterwarnings("ignore:Left out 'customer_id'")
def test_identifiers_do_not_decide_whether_files_differ() -> None:
    rng = np.random.default_rng(0)
    P, Q = (
        pl.DataFrame({"customer_id": np.arange(start, start + 300), "x": rng.normal(size=300)}) for start in (0, 300)
    )
    evidence = fit_tables(P, Q, "logistic", flow=False).evidence
    mixed = [table.with_columns(job=pl.lit("a")) for table in (P, Q)]  # tables of numbers alone are used as they are
    for test in (evidence["test"], drift_test(*mixed)):
        assert test is not None
        assert test["p_value"] > 0.05
        assert not any(one["column"] == "customer_id" for one in test["drivers"])
