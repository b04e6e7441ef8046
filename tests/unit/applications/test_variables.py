"""Variables of mutual information: what is grouped to make their matrices."""

from __future__ import annotations

import polars as pl
import pytest

from flowratio.applications.variables import variables_of


def test_shares_of_rows_whose_category_is_grouped() -> None:
    """A category or a column may have the name of the group."""
    words = ["(other)"] * 30 + [f"s{k}" for k in range(22) for _ in range(5)]  # 23 categories, so that 3 are grouped
    few = ["(other)", "a", "a (other)", "a"] * 35
    frame = pl.DataFrame({"shop": words, "shop = (other)": few})
    variables = variables_of({"X": frame, "Y": [float(k) for k in range(140)]})
    assert variables.grouped == pytest.approx({"shop": 15 / 140})
    assert variables.parts[0].shape == (140, 20 + 2)
