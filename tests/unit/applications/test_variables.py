"""Variables of mutual information: what is grouped to make their matrices."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from flowratio.applications.variables import variables_of

NUMBERS = np.random.default_rng(0).normal(size=(60, 3))


def test_shares_of_rows_whose_category_is_grouped() -> None:
    """A category or a column may have the name of the group."""
    words = ["(other)"] * 30 + [f"s{k}" for k in range(22) for _ in range(5)]  # 23 categories, so that 3 are grouped
    few = ["(other)", "a", "a (other)", "a"] * 35
    frame = pl.DataFrame({"shop": words, "shop = (other)": few})
    variables = variables_of({"X": frame, "Y": NUMBERS[0, 0] + np.arange(140)})
    assert variables.grouped == pytest.approx({"shop": 15 / 140})
    assert variables.parts[0].shape == (140, 20 + 2)


def test_rows_with_missing_values_count_once() -> None:
    x, y = NUMBERS[:, :2].copy(), pl.DataFrame({"job": ["clerk", "judge", None] * 20})
    x[:3] = np.nan
    assert variables_of({"X": x, "Y": NUMBERS[:, 2]}).n_missing == 3
    assert variables_of({"X": x, "Y": y}).n_missing == 3 - 1 + 20  # row 2 misses values of both
    assert variables_of({"X": NUMBERS, "Y": NUMBERS[:, 2]}).n_missing == 0


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.column_stack([NUMBERS[:, 0], np.ones(60)]), "Column 2 of `X` is constant, so it has no information."),
        (pd.DataFrame({"a": NUMBERS[:, 0], "b": 1, "c": 2}), "Column 'b' of `X` is constant, .* So is 1 more."),
        (pl.DataFrame({"a": ["x", "y"] * 30, "b": ["z"] * 60}), "Column 'b' of `X` is constant"),
        (pl.DataFrame({"a": ["z"] * 60, "b": ["z"] * 60}), "Column 'a' of `X` is constant"),
        (np.zeros(60), "Column 1 of `X` is constant"),
    ],
)
def test_a_constant_column_is_named_in_a_warning(X: object, text: str) -> None:
    with pytest.warns(UserWarning, match=text):
        variables_of({"X": X, "Y": NUMBERS[:, 1]})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_an_identifier_is_left_out_or_named_in_a_warning_if_it_is_the_only_column(library: type) -> None:
    table = library({"customer_id": np.arange(60) + 1000, "age": NUMBERS[:, 0]})
    with pytest.warns(UserWarning, match="`Y` has 'customer_id', which looks like an identifier.* It is used"):
        alone = variables_of({"X": NUMBERS, "Y": table[["customer_id"]]})
    assert (alone.left_out.names, alone.parts[1][:2, 0].tolist()) == ((), [1000, 1001])
    with pytest.warns(UserWarning, match="Left out 'customer_id'"):
        variables = variables_of({"X": NUMBERS, "Y": table})
    assert (variables.left_out.names, variables.labels[1]) == (("customer_id",), ["'age'"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert variables_of({"X": NUMBERS, "Y": table[["age"]]}).left_out.names == ()


def test_columns_that_determine_each_other() -> None:
    a, b, c = (pd.Series(column, name=name) for column, name in zip(NUMBERS.T, "abc", strict=True))
    x = pd.concat([a, b], axis=1)

    def copies(y: object) -> str:
        return variables_of({"X": x, "Y": y}).copies()

    assert copies(b).startswith("`X` and `Y` hold the same column 'b'. The information of a continuous column")
    assert copies(b.to_numpy()).startswith("`X` and `Y` hold the same column. ")
    for y in (pd.Series(np.exp(b), name="e"), pd.Series(5 - 2 * b, name="e")):
        assert copies(y).startswith("Column 'b' of `X` and column 'e' of `Y` sort the rows alike. If one of them")
    assert copies(c) == copies(b.round()) == copies(b + 1e-2 * c) == ""
    assert variables_of({"X": b.round(), "Y": b.round()}).copies() == ""  # discrete: its entropy is finite
    assert variables_of({"X": b[:5], "Y": 2 * b[:5]}).copies() == ""  # 5 rows can have one order by chance
