"""One rule for identifiers in files, data frames and arrays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import cross_validate

from flowratio import ClassifierRatio, diagnose, two_sample_test
from flowratio.tables.identifiers import are_identifiers

IDS = np.random.default_rng(3).permutation(10**6)[:200]
LIBRARIES = [pd.DataFrame, pl.DataFrame]


@pytest.mark.parametrize(
    ("name", "x", "is_identifier"),
    [
        ("customer_id", IDS, True),  # in any order
        ("customerId", IDS, True),
        ("order number", IDS, True),
        ("userid", IDS, True),
        ("id_customer", IDS, True),
        ("price_index", IDS, False),
        ("sales_num", IDS, False),
        ("income_rank", np.argsort(IDS), False),  # consecutive in another order than that of the rows
        ("income", IDS, False),
        ("humid", IDS, False),
        ("week_of_survey", np.arange(99), False),
        ("row", np.arange(99), True),
        ("n", np.arange(100), True),
        ("n", np.arange(100)[::-1] + 7, True),
        ("n", np.arange(0, 300, 3), False),
        ("customer_id", IDS % 150, False),  # not distinct
        ("id", np.arange(20), False),
        ("n", np.sort(np.random.default_rng(0).permutation(1000)[:700]), True),  # a part of the rows of a table
    ],
)
def test_rule(name: str, x: np.ndarray, is_identifier: bool) -> None:
    assert are_identifiers(name, x) == is_identifier


def samples(library: type, ids: np.ndarray, name: str = "customer_id") -> list:
    x = np.random.default_rng(0).normal(size=200)
    return [library({name: ids[rows], "x": x[rows]}) for rows in (slice(100), slice(100, None))]


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_of_numbers_leave_identifiers_out(library: type) -> None:
    P, Q = samples(library, np.sort(IDS))  # the identifiers separate the samples
    advice = r"^Left out 'customer_id', because .* distinct integers, .* convert it to float in both samples"
    with pytest.warns(UserWarning, match=advice) as records:
        ratio = ClassifierRatio().fit_samples(P, Q)
    assert [record.filename for record in records] == [__file__]
    assert ratio.encoder_ is not None
    assert ratio.encoder_.used_columns() == ["x"]
    with pytest.warns(UserWarning, match="Left out 'customer_id'"):
        test = two_sample_test(P, Q, n_permutations=19, random_state=0)
    assert str(test).endswith("Left out as identifiers: 'customer_id'.")
    with pytest.warns(UserWarning, match="Left out 'customer_id'"):
        diagnosis = diagnose("logistic", P, Q, n_repeats=1, random_state=0)
    assert diagnosis.notes[-1] == "Left out as identifiers: 'customer_id'."


@pytest.mark.parametrize("library", LIBRARIES)
def test_labeled_tables_of_numbers_leave_identifiers_out(library: type) -> None:
    table = library({"n": np.arange(200), "x": np.random.default_rng(0).normal(size=200)})
    with pytest.warns(UserWarning, match="Left out 'n'"):
        ratio = ClassifierRatio().fit(table, np.arange(200) % 2)
    assert ratio.log_ratio(table).shape == (200,)


def test_a_part_of_the_rows_has_the_same_identifiers() -> None:
    table = pd.DataFrame({"n": np.arange(1000), "x": np.random.default_rng(0).normal(size=1000)})
    with pytest.warns(UserWarning, match="Left out 'n'"):
        scores = cross_validate(ClassifierRatio(), table, np.arange(1000) < 500, cv=3)
    assert np.max(scores["test_score"]) < 0.1  # the number of a row separates the samples: 0.69


@pytest.mark.parametrize("library", LIBRARIES)
def test_floats_are_used(library: type) -> None:
    P, Q = samples(library, IDS.astype(float))
    assert ClassifierRatio().fit_samples(P, Q).encoder_ is None  # warnings are errors here


def test_text_with_a_decimal_point_is_used() -> None:
    texts = np.array([f"{value}.0" for value in IDS])
    ratio = ClassifierRatio().fit_samples(*samples(pl.DataFrame, texts))
    assert ratio.encoder_ is not None
    assert ratio.encoder_.used_columns() == ["customer_id", "x"]


def test_arrays_keep_all_columns_and_name_a_counter() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.permutation(200), rng.integers(0, 2, 200)])
    with pytest.warns(UserWarning, match=r"^Column 'x2' has consecutive integers, .* They are used\.") as records:
        ratio = ClassifierRatio().fit_samples(X[:100], X[100:])
    assert [record.filename for record in records] == [__file__]
    assert ratio.n_features_in_ == 3
    assert ratio.encoder_ is None
    X[:, 1] /= 2
    ClassifierRatio().fit_samples(X[:100], X[100:])  # warnings are errors here
