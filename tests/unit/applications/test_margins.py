"""Smooth margins keep distances between neighbors, which ranks lose."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from flowratio.applications.margins import is_continuous, normal_scores, robust_units, smooth_scores


def pair(n: int, width: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return np.column_stack([x, x + width * rng.normal(size=n)])


def test_normal_scores_do_not_depend_on_units_and_share_ranks() -> None:
    X = pair(200, 0.5)
    np.testing.assert_array_equal(normal_scores(np.exp(X)), normal_scores(X))
    np.testing.assert_allclose(
        normal_scores(np.array([[1.0], [1.0], [2.0], [2.0]]))[:, 0], [-0.6744898] * 2 + [0.6744898] * 2
    )


def test_smooth_margins_keep_a_conditional_width_that_ranks_lose() -> None:
    width = math.exp(-8.0)  # a third of the distance of neighbors: 2.5 / n at the center
    X = ndtr(pair(2000, width))
    by_rank, smooth = (np.diff(scores, axis=1)[:, 0] for scores in (normal_scores(X), smooth_scores(X)))
    inner = np.abs(normal_scores(X)[:, 0]) < 1.5
    true = np.diff(pair(2000, width), axis=1)[:, 0]
    # the curves of x and y have knots at the same rows, up to the width: slopes agree to a few percent
    assert np.corrcoef(smooth[inner], true[inner])[0, 1] > 0.5
    assert np.corrcoef(by_rank[inner], true[inner])[0, 1] < np.corrcoef(smooth[inner], true[inner])[0, 1]
    assert abs(smooth.std() - 1) > 0.5  # differences are small, like the true ones
    assert smooth[inner].std() < 3 * true.std()


def test_smooth_margins_are_nearly_gaussian() -> None:
    Z = smooth_scores(np.exp(2 * pair(5000, 1.0)))
    np.testing.assert_allclose([Z.mean(axis=0), Z.std(axis=0) - 1, (Z**3).mean(axis=0)], 0, atol=0.1)


def test_discrete_columns_get_normal_scores() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 500), rng.normal(size=500)])
    assert is_continuous(X).tolist() == [False, True]
    np.testing.assert_array_equal(smooth_scores(X)[:, 0], normal_scores(X)[:, 0])
    np.testing.assert_array_equal(smooth_scores(X[:50]), normal_scores(X[:50]))  # too few rows for a curve


def test_robust_units() -> None:
    Z = robust_units(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [1000.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_allclose(Z, [[-1, 0], [-0.5, 0], [0, 0], [499, 0], [0.5, 0]])


def test_smooth_margins_of_columns_with_many_equal_values_keep_their_order() -> None:
    """Means of groups of equal values differ by rounding."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        x = rng.exponential(size=(3000, 1))
        x[rng.random(3000) < 0.3] = rng.random()
        scores = smooth_scores(x)[np.argsort(x[:, 0], kind="stable"), 0]
        assert np.diff(scores).min() > -1e-9
