"""Rows that belong together by position: pandas objects with the same labels in another order are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from flowratio import (
    ClassifierRatio,
    ImportanceWeighted,
    TargetScorer,
    average_effect,
    effect_weights,
    mutual_information,
    target_mean,
)
from flowratio._support.errors import ArgumentError
from flowratio.samples.pairing import check_pairs

N = 40
RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(size=N)}, index=[f"row {k}" for k in range(N)])
NUMBERS = pd.Series(RNG.normal(size=N), X.index)
LABELS = pd.Series(np.arange(N) % 2, X.index)
RATIO = ClassifierRatio("logistic").fit(X, LABELS)


def reversed_rows(values: Any) -> Any:
    return values.iloc[::-1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (X, reversed_rows(NUMBERS)),
        (pd.Series([1.0, 2.0], [3, 4]), pd.DataFrame({"y": [2.0, 1.0]}, [4, 3])),
        (pd.Series([1.0, 2.0]), pd.Series([2.0, 1.0], [1, 0])),
        (pd.Series(range(4), list("aabb")), pd.Series(range(4), list("abab"))),
        (pd.Series([1, 2], pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])), pd.Series([1, 2], [("b", 2), ("a", 1)])),
    ],
)
def test_the_same_labels_in_another_order_are_refused(first: Any, second: Any) -> None:
    text = r"^`X` and `y` have the same index in another order, so their rows would be paired wrongly\."
    with pytest.raises(ArgumentError, match=text) as error:
        check_pairs({"X": first, "y": second})
    assert error.value.arguments == ("X", "y")
    assert ("`y.loc[X.index]`" in str(error.value)) == second.index.is_unique
    assert "reset_index(drop=True)" in str(error.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (X, NUMBERS),
        (X, NUMBERS.to_numpy()),
        (X, None),
        (X, reversed_rows(NUMBERS).tolist()),
        (pl.DataFrame({"a": [1, 2]}), pd.Series([1, 2], [1, 0])),
        (X, NUMBERS.reset_index(drop=True)),  # other labels: their positions are all there is
        (pd.Series([1, 2]), pd.Series([1, 2], [1, 2])),
        (pd.Series([1, 2, 3], list("aab")), pd.Series([1, 2], list("ba"))),  # refused elsewhere, by their lengths
    ],
)
def test_other_rows_are_paired_by_position(first: Any, second: Any) -> None:
    check_pairs({"X": first, "y": second})


WRONG, WRONG_LABELS = reversed_rows(NUMBERS), reversed_rows(LABELS)
CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: mutual_information(X, WRONG), "`X` and `Y`"),
    (lambda: mutual_information(X["a"], X["b"], WRONG), "`X` and `Z`"),
    (lambda: average_effect(X, LABELS, WRONG, ratio="logistic"), "`X` and `outcome`"),
    (lambda: average_effect(X, WRONG_LABELS, NUMBERS, ratio="logistic"), "`X` and `treatment`"),
    (lambda: effect_weights(X, WRONG_LABELS, ratio="logistic"), "`X` and `treatment`"),
    (lambda: target_mean(X, X, WRONG, ratio="logistic"), "`X_q` and `values_q`"),
    (lambda: target_mean(X, X, NUMBERS, ratio="logistic", sample_weight_p=WRONG), "`X_p` and `sample_weight_p`"),
    (lambda: ImportanceWeighted(LinearRegression(), "logistic").fit(X, WRONG, X_target=X), "`X` and `y`"),
    (lambda: ClassifierRatio("logistic").fit(X, WRONG_LABELS), "`X` and `y`"),
    (lambda: ClassifierRatio("logistic").fit_samples(X, X, None, WRONG), "`X_q` and `sample_weight_q`"),
    (lambda: RATIO.score(X, WRONG_LABELS), "`X` and `y`"),
    (lambda: TargetScorer("r2", RATIO)(LinearRegression().fit(X, NUMBERS), X, WRONG), "`X` and `y`"),
]


@pytest.mark.parametrize(("call", "names"), CALLS)
def test_every_function_that_pairs_rows_checks_them(call: Callable[[], Any], names: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{names} have the same index in another order"):
        call()
