"""Mutual information without a ratio of your own: numbers that were wrong and called reliable, and known truths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, gammaln, ndtr

from flowratio import Verdict
from flowratio.applications.dependence import dependence
from flowratio.applications.information import MutualInformation, mutual_information
from flowratio.samples.folding import folds


def gaussian(n: int, nats: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, rho = rng.normal(size=(n, 1)), math.sqrt(-math.expm1(-2 * nats))
    return x, rho * x + math.sqrt(1 - rho**2) * rng.normal(size=(n, 1))


def student(n: int, df: float, nats: float) -> tuple[np.ndarray, np.ndarray]:
    def f(v: float) -> float:
        return float(gammaln(v / 2) - v / 2 * digamma(v / 2))

    constant = f(df) + f(df + 2) - 2 * f(df + 1)
    scale = np.sqrt(df / np.random.default_rng(1).chisquare(df, size=(n, 1)))
    x, y = gaussian(n, nats - constant)
    return scale * x, scale * y


def estimated(x: Any, y: Any, n_folds: int = 2) -> MutualInformation:
    return mutual_information(x, y, n_folds=n_folds, random_state=0)


def covers(result: MutualInformation, truth: float) -> bool:
    low, high = result.interval(0.99)
    return low <= truth <= high


def test_student_pairs_with_strong_dependence() -> None:
    x, y = student(1500, 1.0, 6.0)
    result = estimated(x, y)
    assert covers(result, 6.0)
    assert result.value == pytest.approx(6.0, abs=0.15)  # 0.1.0 gave 5.36


def test_uniform_margins_with_strong_dependence() -> None:
    x, y = gaussian(1500, 6.0)
    result = estimated(ndtr(x), ndtr(y))
    assert covers(result, 6.0)
    # log r has the standard deviation 1, so 1500 rows know 6 nats to 0.026 at best; 0.1.0 gave 5.4 with 10,000 rows
    assert result.value == pytest.approx(6.0, abs=0.3)


def test_noise_with_hard_edges() -> None:
    rng = np.random.default_rng(0)
    width = 0.05  # I = ε - log 2ε = 2.353 nats. A Gaussian copula sees about 1.8
    x = rng.random(1000)
    result = estimated(x, x + rng.uniform(-width, width, 1000))
    truth = width - math.log(2 * width)
    assert covers(result, truth)
    assert result.value == pytest.approx(truth, abs=0.2)


def test_a_ring_that_no_copula_sees() -> None:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 1000)
    x, y = (wave(angle) + rng.normal(0, 0.2, 1000) for wave in (np.cos, np.sin))
    result = estimated(x, y, 5)
    truth = _information_of_a_ring()
    assert covers(result, truth)
    assert result.value > truth / 2  # learners of 800 rows see more than half


def _information_of_a_ring() -> float:
    """Return the information of a ring of radius 1 and width 0.2 by sums over a grid."""
    grid, angle = np.linspace(-2.2, 2.2, 221), 2 * np.pi * np.arange(120) / 120
    u = grid[:, None] - np.cos(angle), grid[:, None] - np.sin(angle)
    p = np.exp(-((u[0] / 0.2) ** 2) / 2) @ np.exp(-((u[1] / 0.2) ** 2) / 2).T
    p /= p.sum()
    return float(np.sum(p * np.log(p / (p.sum(axis=1, keepdims=True) * p.sum(axis=0)))))


def test_interactions_that_learners_disagree_about_give_a_lower_bound() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 6))
    y = np.sign(x[:, 0] * x[:, 1])  # I = log 2, of which trees see little
    result = estimated(x, y)
    assert covers(result, math.log(2))
    assert result.verdict != "reliable"


def test_independent_variables() -> None:
    rng = np.random.default_rng(0)
    result = estimated(rng.standard_cauchy((500, 2)), rng.exponential(size=500))
    assert (result.verdict, result.interval()[0]) == ("reliable", 0.0)
    assert "show no information" in result.reason
    assert result.value < 0.01


def test_monotone_maps_change_nothing_where_ranks_are_enough() -> None:
    x, y = gaussian(200, 0.5)
    plain, bent = estimated(x, y, 2), estimated(np.exp(x), y**3, 2)
    assert (plain.raw, plain.standard_error) == (bent.raw, bent.standard_error)


def test_tables_of_counts_have_no_bias() -> None:
    table = np.array([[4.0, 1, 1], [1, 2, 3], [2, 2, 0]]) / 16
    truth = float(
        np.nansum(table * np.log(np.where(table > 0, table, 1) / np.outer(table.sum(axis=1), table.sum(axis=0))))
    )
    rng, errors, spreads = np.random.default_rng(0), [], []
    for seed in range(40):
        x, y = np.unravel_index(rng.choice(9, 300, p=table.ravel()), (3, 3))
        result = mutual_information(x.astype(float), y.astype(float), random_state=seed)
        assert (result.verdict, "misses nothing" in result.reason) == ("reliable", True)
        errors.append(result.value - truth)
        spreads.append(result.standard_error)
    # the bias of counts alone is 3 cells / 2 n or more, 0.005 to 0.007; the mean of 40 has a standard error of 0.004
    assert abs(np.mean(errors)) < 3 * np.std(errors) / math.sqrt(40)
    assert np.std(errors) == pytest.approx(np.mean(spreads), rel=0.35)  # 40 draws know a spread to 11 %


def test_margins_of_mixed_columns_keep_their_distances() -> None:
    x, y = (np.hstack(part) for part in zip(gaussian(800, 1.0, 1), gaussian(800, 1.0, 2), strict=True))
    map_x = np.array(
        [[1.0, 1.0], [0.0, 0.04]]
    )  # two columns with a correlation of 0.999: their difference is the second
    result = estimated(x @ map_x, y)
    assert result.value == pytest.approx(2.0, abs=0.15)  # 3 standard errors of 0.044.


def test_few_rows_and_constant_columns() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=12), np.ones(12)])
    with pytest.warns(UserWarning, match="Column 2 of `X` is constant"):
        result = estimated(x, rng.normal(size=12), 2)
    assert math.isfinite(result.value)
    assert math.isfinite(result.standard_error)


def test_nothing_depends_on_the_clock() -> None:
    x, y = gaussian(60, 0.5)
    fold = folds(60, 2, np.random.default_rng(0))
    one, other = (dependence(x, y, fold, 0, verbose=False) for _ in range(2))
    np.testing.assert_array_equal(one.rows, other.rows)
    assert (one.in_sample, one.growth, one.disagreement) == (other.in_sample, other.growth, other.disagreement)


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_variables_that_determine_each_other_have_a_lower_bound(noise: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    information = mutual_information(x, x + noise * rng.normal(size=100), n_folds=3, random_state=0)
    assert information.verdict is Verdict.CARE
    assert math.isfinite(information.value)
    assert 1 < information.interval()[0] <= information.value < math.log(100**2)  # what 100 rows can show
    assert information.interval()[1] == math.inf
