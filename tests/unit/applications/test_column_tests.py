"""Tests of columns under permutations: exact levels, all categories, missing values, and what changed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from flowratio import two_sample_test
from flowratio.applications.column_tests import ColumnTests, SourceColumns


def shops(n: int, first: int, seed: int) -> pl.DataFrame:
    """Return n rows with 400 shops and an amount that does not depend on them."""
    rng = np.random.default_rng(seed)
    names = [f"shop {k}" for k in rng.integers(first, first + 400, n)]
    return pl.DataFrame({"shop": names, "amount": rng.normal(size=n)})


def mixed(n: int, rng: np.random.Generator) -> pl.DataFrame:
    missing = rng.random(n) < 0.2
    return pl.DataFrame(
        {
            "age": rng.normal(size=n),
            "member": (rng.random(n) < 0.3).astype(int),
            "job": [f"job {k}" for k in rng.geometric(0.1, n)],
            "city": [f"city {k}" for k in rng.integers(0, 45, n)],
            "score": [None if gap else float(x) for gap, x in zip(missing, rng.standard_t(3, n), strict=True)],
        }
    )


@pytest.mark.parametrize("n", [3_000, 10_000])
def test_all_categories_count(n: int) -> None:
    # half of the 400 shops of each file are not in the other file
    differs = two_sample_test(shops(n, 0, 0), shops(n, 200, 1), n_permutations=120, random_state=0)
    assert differs.p_value == 1 / 121
    assert (differs.drivers.names[0], differs.drivers.change[0]) == ("shop", "categories")
    assert differs.drivers.p_value[0] == 1 / 121
    assert ("fewer than 5 rows" in differs.note) == (n == 3_000)  # of a shop, 7.5 or 25 rows of a file are expected
    same = two_sample_test(shops(n, 0, 0), shops(n, 0, 1), n_permutations=39, random_state=0)
    assert same.p_value > 0.05


@pytest.mark.parametrize("ratio", ["logistic", "boosting"])
def test_a_ratio_uses_all_categories(ratio: str) -> None:
    result = two_sample_test(shops(600, 0, 0), shops(600, 200, 1), ratio, n_permutations=19, random_state=0)
    assert result.p_value == 0.05
    assert result.importance is not None
    assert result.importance.names[0] == result.drivers.names[0] == "shop"


def test_thousands_of_categories() -> None:
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(10, 5_010)
    other = shares * np.exp(0.5 * rng.normal(size=5_000))
    P, Q = (
        pl.DataFrame(
            {"shop": [f"s{k}" for k in rng.choice(5_000, 10_000, p=p / p.sum())], "x": rng.normal(size=10_000)}
        )
        for p in (other, shares)
    )
    result = two_sample_test(P, Q, n_permutations=19, random_state=0)
    assert result.p_value == 0.05
    assert result.drivers.clear == ["shop"]


def test_rare_categories_are_stated() -> None:
    result = two_sample_test(shops(400, 0, 0), shops(400, 0, 1), n_permutations=9, random_state=0)
    # 2 rows of each shop in both files are expected: most rows have a shop with fewer than 5 rows
    share = re.findall(r"\((\d+) % of the rows\)", result.note)[0]
    assert 80 < int(share) < 98
    assert result.note == f"Categories with fewer than 5 rows are hard to compare: shop ({share} % of the rows)."
    assert result.reason.endswith(f"9 permutations. {result.note}")
    assert str(result).endswith(result.note)


def test_a_change_of_missing_text_is_named() -> None:
    rng = np.random.default_rng(0)
    P, Q = (
        pl.DataFrame({"job": [None if rng.random() < share else str(rng.choice(["a", "b", "c"])) for _ in range(800)]})
        for share in (0.3, 0.05)
    )
    result = two_sample_test(P, Q, n_permutations=99, random_state=0)
    assert result.drivers.change == ["share of missing values"]


def is_level(p_values: list[float]) -> bool:
    """Return whether rejections at 5 % and 25 % are as frequent as they must be, but for 1 chance in 500."""
    n, counts = len(p_values), {level: np.count_nonzero(np.array(p_values) <= level + 1e-9) for level in (0.05, 0.25)}
    return all(binom.ppf(0.0005, n, level) <= k <= binom.ppf(0.9995, n, level) for level, k in counts.items())


def test_the_level_of_mixed_tables_is_exact() -> None:
    p_values = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        P, Q = mixed(40, rng), mixed(70, rng)  # unequal, so that labels must not decide which categories are frequent
        p_values.append(two_sample_test(P, Q, n_permutations=19, random_state=seed).p_value)
    assert is_level(p_values)


def test_the_level_of_all_columns_together_is_exact() -> None:
    p_values = []
    sources = SourceColumns(["a", "b", "c"], np.arange(3), np.array([0, 1, 1]), np.array([False, False, True]), {}, {})
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(4, (50, 3)).round(1)
        X[:, 2] = rng.random(50) < 0.3
        codes = rng.geometric(0.1, 50)
        tests = ColumnTests(X, 20, replace(sources, codes={2: codes}, n_categories={2: codes.max() + 1}))
        for order in [np.arange(50), *(rng.permutation(50) for _ in range(19))]:
            tests.add(order)
        p_values.append(tests.changes().p_value.min())
    assert is_level(p_values)


def test_unchanged_columns_are_rarely_named_next_to_a_changed_one() -> None:
    n_wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X_p, X_q = rng.normal(size=(100, 6)), rng.normal(size=(150, 6))
        X_p[:, 1], X_q[:, 1] = 0.8 * X_p[:, 0] + 0.6 * X_p[:, 1], 0.8 * X_q[:, 0] + 0.6 * X_q[:, 1]
        X_p[:, 0] = 2 * X_p[:, 0] + 1  # its correlation with x2 stays the same
        result = two_sample_test(X_p, X_q, n_permutations=39, random_state=seed)
        assert result.drivers.names[0] == "x1"
        n_wrong += result.drivers.clear != ["x1"]
    assert n_wrong <= binom.ppf(0.999, 40, 0.05)


def test_missing_values_that_became_frequent() -> None:
    rng = np.random.default_rng(0)
    P, Q = mixed(300, rng), mixed(300, rng)
    P = P.with_columns(score=pl.when(pl.Series(rng.random(300) < 0.4)).then(None).otherwise(pl.col("score")))
    result = two_sample_test(P, Q, n_permutations=39, random_state=0)
    assert result.drivers.clear == ["score"]
    assert result.drivers.change[0] == "share of missing values"
    # 0.52 and 0.2 missing: the deviation of log r of a 0/1 column
    truth = np.sqrt(0.36 * 0.64) * np.log(0.52 * 0.8 / (0.48 * 0.2))
    assert abs(result.drivers.effect[0] - truth) < 2 * result.drivers.standard_error[0]


@pytest.mark.parametrize("constant", ["same", 1.0])
def test_constant_columns_are_left_out(constant: Any) -> None:
    rng = np.random.default_rng(0)
    P, Q = (mixed(100, rng).with_columns(constant=pl.lit(constant)) for _ in range(2))
    result = two_sample_test(P.with_columns(age=pl.col("age") + 2), Q, n_permutations=19, random_state=0)
    assert result.drivers.names[0] == "age"
    assert sorted(result.drivers.names) == ["age", "city", "job", "member", "score"]


def test_the_clearest_of_columns_with_the_smallest_p_value_is_first() -> None:
    rng = np.random.default_rng(0)
    rare_p, rare_q = (rng.permutation(400) < n for n in (24, 1))
    X_p = np.column_stack([rare_p, rng.normal(0.5, 1, 400)])
    X_q = np.column_stack([rare_q, rng.normal(0, 1, 400)])
    drivers = two_sample_test(X_p, X_q, n_permutations=50, random_state=0).drivers
    assert drivers.p_value.tolist() == [1 / 51, 1 / 51]
    assert drivers.names == ["x2", "x1"]  # differences of 7 and of 4.7 standard errors
    assert drivers.effect[0] < drivers.effect[1]
