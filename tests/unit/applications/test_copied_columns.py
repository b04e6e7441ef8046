"""Copies of the outcome among the columns: exact, monotone and one to one, and no false alarm."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from flowratio import ClassifierRatio, ImportanceWeighted, TargetScorer, average_effect, effect_weights, target_mean
from flowratio._support.errors import ArgumentError
from flowratio.applications.copied_columns import copies_of

RNG = np.random.default_rng(0)
N = 400
Y = RNG.normal(size=N)
T = RNG.random(N) < 0.4
GRADE = RNG.integers(0, 4, N)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Y, Y),
        (3 - 2 * Y, Y),
        (np.exp(Y), Y),
        (Y + 0.02 * RNG.normal(size=N), Y),
        ([f"{value:.9f}" for value in Y], Y),
        (T, T),
        (~T, T * 1.0),
        (np.where(T, "yes", "no"), T),
        (np.array(["poor", "good", "fair", "best"])[GRADE], GRADE),
        (GRADE, np.array(["poor", "good", "fair", "best"])[GRADE]),
    ],
)
def test_a_copy_is_found_in_any_form_and_container(column: Any, values: Any) -> None:
    frame = pl.DataFrame({"other": RNG.normal(size=N), "y": column})
    assert copies_of(values, frame) == copies_of(values, frame.to_pandas()) == ["y"]
    assert copies_of(values, frame.drop("y")) == []


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Y + 0.2 * RNG.normal(size=N), Y),  # correlation 0.98: a strong predictor
        (np.round(Y), Y),
        ([f"name {k}" for k in range(N)], Y),  # each row has its own name
        (np.arange(N) == 0, np.arange(N) == 0),  # one row may agree by chance
        (np.zeros(N), Y),
        (np.where(GRADE > 1, "good", "poor"), GRADE),  # two values for a category
        (np.full(N, np.nan), Y),
    ],
)
def test_predictors_are_no_copies(column: Any, values: Any) -> None:
    assert copies_of(values, pl.DataFrame({"x": column})) == []


def test_few_rows_prove_nothing_and_large_tables_are_searched() -> None:
    assert copies_of(Y[:19], Y[:19, None]) == []
    y = np.random.default_rng(1).normal(size=20_000)
    assert copies_of(y, np.column_stack([y[::-1], y])) == ["x2"]


def test_an_outcome_in_the_table_is_refused_with_its_name() -> None:
    X = pd.DataFrame({"age": RNG.normal(size=N), "spend": Y})
    with pytest.raises(ArgumentError, match=r"^Column 'spend' of `X` is a copy of `outcome`.* effect .* 0.*Drop"):
        average_effect(X, T, Y, ratio="logistic")
    average_effect(X, T, Y + 2 * X["age"], ratio="logistic", outcome_model="linear", random_state=0)


def test_a_treatment_in_the_table_is_refused_with_its_name() -> None:
    X = pl.DataFrame({"age": Y, "group": np.where(T, "a", "b")})
    for estimate in (lambda: average_effect(X, T, RNG.normal(size=N)), lambda: effect_weights(X, T)):
        with pytest.raises(ArgumentError, match=r"^Column 'group' of `X` is a copy of `treatment`"):
            estimate()


def test_a_measured_value_in_the_table_is_a_warning() -> None:
    X_target, X = RNG.normal(0.3, 1, (N, 2)), np.column_stack([RNG.normal(size=N), Y])
    ratio = ClassifierRatio("logistic").fit_samples(X_target, X)
    with pytest.warns(UserWarning, match=r"^Column 'x2' of `X_q` is a copy of `values_q`"):
        target_mean(X_target, X, Y, ratio="logistic", outcome_model="linear", random_state=0)
    with pytest.warns(UserWarning, match=r"^Column 'x2' of `X` is a copy of `y`"):
        ImportanceWeighted(LinearRegression(), "logistic").fit(X, Y, X_target=X_target)
    with pytest.warns(UserWarning, match=r"^Column 'x2' of `X` is a copy of `y`"):
        model = ImportanceWeighted(LinearRegression(), ratio).fit(X, Y)
    with pytest.warns(UserWarning, match=r"^Column 'x2' of `X` is a copy of `y`"):
        TargetScorer("r2", ratio)(model, X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TargetScorer("r2", ratio)(model, X, Y + RNG.normal(size=N))
