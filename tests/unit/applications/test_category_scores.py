"""Statistics of counts of categories, compared with textbook formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr
from scipy.stats import chi2, chi2_contingency, norm

from flowratio.applications.category_scores import CategoryScores


def test_statistics_of_a_table_of_counts() -> None:
    rng = np.random.default_rng(0)
    codes, order = rng.geometric(0.3, 200) - 1, rng.permutation(200)
    scores = CategoryScores(codes, 80)
    a, b = scores.count(order)
    np.testing.assert_array_equal(a, np.bincount(codes[order[:80]], minlength=len(a)))
    np.testing.assert_array_equal(a + b, np.bincount(codes))
    table = np.stack([a, b])[:, a + b > 0]
    tests: list[Any] = [chi2_contingency(table, False, kind) for kind in ("pearson", "log-likelihood")]
    expected = np.outer([0.4, 0.6], table.sum(axis=0))
    squares = np.square(table[0] - expected[0]).sum()
    statistics = scores.statistics(order)
    np.testing.assert_allclose(statistics[:3] ** 3, [tests[0].statistic, tests[1].statistic, squares])
    largest = 2 * rel_entr(table, expected).sum(axis=0).max()
    # the largest of K squared Gaussians is below `largest` with a probability of about exp(−K P(χ² > largest))
    n_above = np.count_nonzero(a + b >= 5) * chi2.sf(largest, 1)
    assert statistics[3] == pytest.approx(norm.ppf(np.exp(-n_above)))


def test_codes_without_rows_and_rows_without_a_difference() -> None:
    scores = CategoryScores(np.array([0, 3, 0, 3]), 2)
    statistics = scores.statistics(np.arange(4))
    np.testing.assert_allclose(statistics[:3], 0, atol=1e-12)
    assert statistics[3] == pytest.approx(norm.ppf(np.exp(-1)))  # the smallest value: one category, P(χ² > 0) = 1
    # two rows of one category in p and two of another in q: χ² is n
    assert scores.statistics(np.array([0, 2, 1, 3]))[0] == pytest.approx(np.cbrt(4))
