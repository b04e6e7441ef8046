"""One rule for identifiers in files, data frames and arrays."""

from __future__ import annotations

import html
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from flowratio import ClassifierRatio, ImportanceWeighted, diagnose, divergence, mutual_information, two_sample_test
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
def test_estimates_name_identifiers_that_were_left_out(library: type) -> None:
    P, Q = samples(library, np.sort(IDS))
    reason = "Left out 'customer_id', because the values are distinct integers, like row numbers. To use it, convert"
    with pytest.warns(UserWarning, match=reason):
        kl = divergence(P, Q, ratio="logistic", n_folds=2, random_state=0)
    y = np.random.default_rng(1).normal(size=100)
    with pytest.warns(UserWarning, match=reason):
        information = mutual_information(P, y, ratio="qda", n_folds=2, random_state=0)
    for result, words in ((kl, reason), (information, f"In `X`: l{reason[1:]}")):
        assert result.left_out == ("customer_id",)
        assert result.to_dict()["left_out"] == ["customer_id"]
        assert words in result.reason
        assert words in str(result)
        assert words in html.unescape(result._repr_html_())
        json.dumps(result.to_dict())
    assert divergence(*(one[["x"]] for one in (P, Q)), ratio="logistic", n_folds=2, random_state=0).left_out == ()


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


FUNCTIONS = {
    "fit": lambda P, Q: ClassifierRatio().fit(np.concatenate([P, Q]), np.repeat([1, 0], [len(P), len(Q)])),
    "fit_samples": lambda P, Q: ClassifierRatio().fit_samples(P, Q),
    "divergence": lambda P, Q: divergence(P, Q, ratio="logistic", n_folds=2, random_state=0),
    "test": lambda P, Q: two_sample_test(P, Q, n_permutations=9, random_state=0),
    "diagnosis": lambda P, Q: diagnose("logistic", P, Q, n_repeats=1, random_state=0),
    "information": lambda P, Q: mutual_information(
        np.concatenate([P, Q]), np.sin(np.arange(300.0) ** 2), ratio="qda", n_folds=2, random_state=0
    ),
    "adaptation": lambda P, Q: ImportanceWeighted(
        make_pipeline(FunctionTransformer(lambda X: X[:, :1].astype(float)), LinearRegression()),
        ratio=ClassifierRatio(),
        n_folds=None,
    ).fit(Q, np.sin(np.arange(len(Q))), X_target=P),  # no copy of a counter in X
}


def arrays(kind: str, order: str) -> list[np.ndarray]:
    """Return arrays of two samples whose third column counts the rows of both."""
    rng = np.random.default_rng(0)
    number = np.arange(300) if order == "rows" else rng.permutation(300)
    x, words = rng.normal(size=300), rng.choice(["a", "b"], 300)
    if kind == "numbers":
        X = np.column_stack([x, x**2, number])
    else:
        X = np.empty((300, 3), object)
        X[:, 0], X[:, 1] = x, words
        X[:, 2] = number.tolist() if kind == "integers" else number.astype(float)
    return [X[:150], X[150:]]


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("kind", "order", "words"),
    [
        ("integers", "rows", "^Left out 'x3', because the values are distinct integers"),
        ("integers", "none", "^Column 'x3' has a different value in every row, like a row counter"),
        ("floats", "rows", r"^Column 'x3' has consecutive integers, .* They are used\."),
        ("floats", "none", r"^Column 'x3' has consecutive integers, .* They are used\."),
        ("numbers", "rows", r"^Column 'x3' has consecutive integers, .* They are used\."),
        ("numbers", "none", r"^Column 'x3' has consecutive integers, .* They are used\."),
    ],
    ids=lambda value: value if len(value) < 10 else "",
)
def test_every_function_names_a_counter_of_an_array_once(function: str, kind: str, order: str, words: str) -> None:
    with pytest.warns(UserWarning, match=words) as records:
        result = FUNCTIONS[function](*arrays(kind, order))
    assert len([record for record in records if "'x3'" in str(record.message)]) == 1
    if hasattr(result, "left_out"):
        assert result.left_out == (("x3",) if words.startswith("^Left out") else ())


def test_a_single_variable_may_be_an_index() -> None:
    y = np.random.default_rng(0).normal(size=150)
    index = np.arange(150)  # without a name: warnings are errors here
    result = mutual_information(index, y, ratio="qda", n_folds=2, random_state=0)
    with pytest.warns(UserWarning, match="`X` has 'row', which looks like an identifier.* It is used"):
        named = mutual_information(pd.DataFrame({"row": index}), y, ratio="qda", n_folds=2, random_state=0)
    assert (named.left_out, named.value) == (result.left_out, result.value) == ((), result.value)


def test_variables_of_identifiers_alone_are_refused() -> None:
    table = pd.DataFrame({"row": np.arange(150), "id": IDS[:150]})
    with (
        pytest.warns(UserWarning, match="Left out 'row', 'id'"),
        pytest.raises(
            ValueError, match=r"`X` has only identifiers, in 'row', 'id', so it was left out\. Give numbers, or"
        ),
    ):
        mutual_information(table, np.arange(150.0), ratio="qda")
