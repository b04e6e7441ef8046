"""Bounds on scores of target rows: the textbook quantile for equal weights, brute force for others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from flowratio.applications.conformal import conformal_quantile


@pytest.mark.parametrize("coverage", [0.5, 0.55, 0.7, 0.9, 0.95])
@pytest.mark.parametrize("n", [1, 9, 10, 19, 99, 100, 999])
def test_equal_weights_give_the_textbook_quantile(n: int, coverage: float) -> None:
    scores = np.random.default_rng(n).normal(size=n)
    k = math.ceil(round((n + 1) * coverage, 9))  # 0.55 · 100 is 55.00000000000001 in floats
    expected = np.sort(scores)[k - 1] if k <= n else math.inf
    np.testing.assert_array_equal(conformal_quantile(scores, np.zeros(n), np.zeros(3), coverage), expected)


def brute_force(scores: np.ndarray, log_c: np.ndarray, log_t: float, coverage: float) -> float:
    w = np.exp(np.append(log_c, log_t))
    w /= w.sum()
    values = np.append(scores, np.inf)
    return min(s for s in values if w[values <= s].sum() >= coverage)


@pytest.mark.parametrize("seed", range(20))
def test_weighted_quantiles_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 40)
    scores, log_c, log_t = rng.integers(0, 12, size=n) / 2, rng.normal(size=n), rng.normal(0, 2, size=15)  # ties too
    coverage = rng.uniform(0.05, 0.99)
    expected = [brute_force(scores, log_c, t, coverage) for t in log_t]
    np.testing.assert_array_equal(conformal_quantile(scores, log_c, log_t, coverage), expected)
    shifted = conformal_quantile(scores, log_c + 1000, log_t + 1000, coverage)  # a constant cancels
    np.testing.assert_array_equal(shifted, expected)


def test_rows_that_weigh_all_or_nothing() -> None:
    bound = conformal_quantile([1.0, 2.0], [-900.0, 0.0], [-1e4, 1e4], 0.9)
    assert bound.tolist() == [2.0, math.inf]
    # rows of weight zero are not there
    rng = np.random.default_rng(0)
    scores, log_c, log_t = rng.normal(size=50), rng.normal(size=50), np.append(rng.normal(size=9), -np.inf)
    zero = np.arange(50) % 3 == 0
    result = conformal_quantile(scores, np.where(zero, -np.inf, log_c), log_t, 0.8)
    np.testing.assert_array_equal(result, conformal_quantile(scores[~zero], log_c[~zero], log_t, 0.8))
    assert conformal_quantile([1.0, 2.0], [-np.inf, -np.inf], [0.0]).tolist() == [math.inf]


def test_quantiles_refuse_bad_input() -> None:
    scores, log_r = np.arange(4.0), np.zeros(4)
    cases: list[tuple[str, Any]] = [
        ("`scores` has 4 values and `log_r_calibration` has 3", (scores, log_r[:3], log_r)),
        ("at least one row", ([], [], log_r)),
        ("`coverage` is 1", (scores, log_r, log_r, 1)),
        ("`coverage` is 90", (scores, log_r, log_r, 90)),
        ("`scores` is NaN or infinite in 1 of 4 rows", (np.array([0, 1, 2, np.nan]), log_r, log_r)),
        ("`scores` is NaN or infinite in 1 of 4 rows", (np.array([0, 1, 2, np.inf]), log_r, log_r)),
        ("`scores` is not an array of numbers", (["a"] * 4, log_r, log_r)),
        ("`log_r_test` is NaN or infinite in 1 of 1 rows", (scores, log_r, [np.inf])),
        ("`log_r_test` has shape", (scores, log_r, log_r[:, None])),
    ]
    for match, arguments in cases:
        with pytest.raises(ValueError, match=match):
            conformal_quantile(*arguments)


def test_weights_in_the_place_of_log_ratios_are_named() -> None:
    rng = np.random.default_rng(0)
    scores, log_c, log_t = rng.normal(size=500), rng.normal(-0.5, 1, 500), rng.normal(0.5, 1, 300)  # of a shift by 1
    with pytest.warns(UserWarning, match=r"^`log_r_calibration` looks like weights: no value is negative.* mean is"):
        conformal_quantile(scores, np.exp(log_c), np.exp(log_t))
    for constant in (0.0, 1.0, 5.0):  # warnings are errors
        conformal_quantile(scores, log_c + constant, log_t + constant)
    conformal_quantile(scores, np.ones(500), np.ones(300))  # equal weights: a constant cancels


def test_a_swapped_ratio_is_named() -> None:
    rng = np.random.default_rng(0)
    scores, log_c, log_t = rng.normal(size=500), rng.normal(-0.5, 1, 500), rng.normal(0.5, 1, 300)
    with pytest.warns(UserWarning, match=r"^`ratio` looks inverted: the mean of `log_r_test`"):
        conformal_quantile(scores, -log_c, -log_t)
