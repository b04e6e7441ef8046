"""Columns that separate two samples: which are named, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio.samples.separating import _categories_apart, separating_columns
from flowratio.samples.two_samples import two_samples

N = 200
NOISE = np.random.default_rng(0).normal(size=(2, N))


def names_of(of_p: Any, of_q: Any, is_far: Any = None) -> list[tuple[str, str]]:
    tables = [
        pl.DataFrame({"noise": noise, "one": pl.Series(one)}) for noise, one in zip(NOISE, (of_p, of_q), strict=True)
    ]
    return [(column.name, column.effect) for column in separating_columns(two_samples(*tables), is_far)]


SEPARATES = [("one", "separates the samples")]


def test_noise_does_not_separate() -> None:
    assert names_of(NOISE[1], NOISE[0]) == []
    assert names_of(["a", "b"] * 100, ["b", "a"] * 100) == []
    assert names_of([None, 1.0] * 100, [None, 2.0] * 100) == []


@pytest.mark.parametrize(
    ("of_p", "of_q"),
    [
        ([2023.0] * N, [2024.0] * N),
        (NOISE[0], NOISE[1] + 20),
        (NOISE[0] + 20, NOISE[1]),
        (2.0 * (np.arange(N) % 10), 2.0 * (np.arange(N) % 10) + 1),  # even and odd numbers, in one range
        (["a", "b"] * 100, ["c", "d"] * 100),
        ([f"shop {k % 40}" for k in range(N)], [f"store {k % 40}" for k in range(N)]),  # more than have an indicator
        ([True] * N, [False] * N),
        (["2024-01-31"] * N, ["2023-01-31"] * N),
        ([0.0] * N, [0.0] * 4 + [1.0] * (N - 4)),  # 2 % of q are like p
    ],
)
def test_separating(of_p: Any, of_q: Any) -> None:
    assert names_of(of_p, of_q) == SEPARATES


@pytest.mark.filterwarnings("ignore:Column 'one' has")
@pytest.mark.parametrize(("n_shops", "n_p", "n_q"), [(120_000, 70_000, 70_000), (500, 20_000, 4_000)])
def test_many_categories_of_equal_samples_do_not_separate(n_shops: int, n_p: int, n_q: int) -> None:
    """Few of 120,000 shops have rows of both samples, because they have one row in all."""
    rng = np.random.default_rng(n_shops)
    P, Q = (pl.DataFrame({"one": [f"s{k}" for k in rng.integers(0, n_shops, n)]}) for n in (n_p, n_q))
    assert separating_columns(two_samples(P, Q)) == []
    R = Q.select(pl.col("one") + " b")
    assert [column.effect for column in separating_columns(two_samples(P, R))] == ["separates the samples"]


def test_chance_of_categories_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 60, 300).astype(float)  # 5 rows in each category
    apart = [_categories_apart(rng.permutation(codes), 120) for _ in range(400)]
    # the mean of 400 shuffles. Labels of all rows are drawn without replacement, which changes it by 1/300
    assert np.mean(apart) == pytest.approx(0, abs=4 * np.std(apart) / 20 + 1 / 300)
    assert _categories_apart(np.arange(300.0), 120) == 0.0
    assert _categories_apart(np.repeat([0.0, 1.0], [120, 180]), 120) == pytest.approx(1)


def test_a_tenth_in_common_does_not_separate() -> None:
    assert names_of([0.0] * N, [0.0] * 20 + [1.0] * (N - 20)) == []


@pytest.mark.parametrize("present", [[5.0] * N, NOISE[0], ["a", "b"] * 100])
def test_missing_in_one_sample(present: Any) -> None:
    in_p, in_q = (f"is missing in all rows of {sample} and in no other row" for sample in "pq")
    assert names_of([None] * N, present) == [("one", in_p)]
    assert names_of(present, [None] * N) == [("one", in_q)]
    most = [None] * (N - 4) + list(present)[:4]
    assert names_of(most, present) == [("one", "is missing in most rows of p and in no other row")]


def test_values_of_far_rows_that_do_not_occur_in_q() -> None:
    is_far = np.arange(N) < 40
    assert names_of(np.where(is_far, np.nan, NOISE[0]), NOISE[1]) == []
    only_in_p = {
        "is missing in rows of p only": (pl.Series(np.where(is_far, np.nan, NOISE[0]), nan_to_null=True), NOISE[1]),
        "has values in p that do not occur in q": (NOISE[0] + 20 * is_far, NOISE[1]),
        "has categories in p that do not occur in q": (np.where(is_far, "new", "a"), ["a", "b"] * 100),
    }
    for effect, (of_p, of_q) in only_in_p.items():
        assert names_of(of_p, of_q, is_far) == [("one", effect)]
        assert names_of(of_p, of_q, ~is_far) == []  # not where these rows are


def test_columns_of_an_array_and_those_that_separate_best_come_first() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(N, 3)), rng.normal([4.5, 0, 30], 1, size=(N, 3))
    assert [column.name for column in separating_columns(two_samples(X_p, X_q))] == ["x3", "x1"]


def test_many_rows_are_sampled() -> None:
    x = np.arange(0.0, 80_000.0, 2.0)
    assert [c.name for c in separating_columns(two_samples(x, x + 80_000))] == ["x1"]
