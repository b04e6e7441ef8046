"""The kernel's distances, median and centers, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from flowratio.ratios.kernel.kernels import choose_centers, median_distance, squared_distances


def rows(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def test_squared_distances_are_those_of_every_pair() -> None:
    X, C = rows(20), rows(7, seed=1)
    copies = X.copy(), C.copy()
    np.testing.assert_allclose(squared_distances(X, C), cdist(X, C, "sqeuclidean"), atol=1e-13)
    np.testing.assert_array_equal(X, copies[0])
    np.testing.assert_array_equal(C, copies[1])


def test_squared_distances_are_never_negative() -> None:
    X = 1e3 + rows(50)  # the three terms are 1e6, and what is left of them may be below 0
    D = squared_distances(X, X)
    assert (D >= 0).all()
    # three terms of 3e6, each rounded to 1e-16 of it
    np.testing.assert_allclose(D, cdist(X, X, "sqeuclidean"), atol=1e-8)


def test_median_is_that_of_every_pair() -> None:
    X = rows(41)  # 820 pairs: the lower of the two in the middle
    assert median_distance(X, np.ones(41)) == pytest.approx(np.sort(pdist(X))[409], rel=1e-9)


def test_weights_of_the_median_count_pairs() -> None:
    X, w = rows(15), np.random.default_rng(1).integers(1, 4, 15)
    i, j = np.triu_indices(15, 1)
    # pairs of different rows only: a row is no pair with its own repetition
    pairs = np.sort(np.repeat(cdist(X, X)[i, j], w[i] * w[j]))
    assert median_distance(X, w.astype(float)) == pytest.approx(pairs[(len(pairs) - 1) // 2], rel=1e-9)


def test_median_of_rows_that_nearly_agree_is_not_zero() -> None:
    X = np.concatenate([1e-9 * rows(30), [[5.0, 5.0, 5.0]]])
    assert median_distance(X, np.ones(31)) == pytest.approx(pdist(X).mean() / 100, rel=1e-6)


def test_median_of_many_rows_is_that_of_evenly_spaced_ones() -> None:
    X = rows(3500)
    assert median_distance(X, np.ones(3500)) == median_distance(X[::4], np.ones(875))
    assert median_distance(X, np.ones(3500)) == pytest.approx(np.median(pdist(X[:1000])), rel=0.03)


def test_few_rows_are_all_centers() -> None:
    X = rows(10)
    np.testing.assert_array_equal(choose_centers(X, np.ones(10), 10, np.random.default_rng(0)), X)


def test_centers_are_different_rows_in_their_order() -> None:
    X = np.arange(100.0)[:, None]
    centers = choose_centers(X, np.ones(100), 30, np.random.default_rng(0))
    assert centers.shape == (30, 1)
    assert (np.diff(centers[:, 0]) > 0).all()
    np.testing.assert_array_equal(centers, choose_centers(X, np.ones(100), 30, np.random.default_rng(0)))


def test_centers_are_drawn_by_weight() -> None:
    X, w, rng = np.arange(3.0)[:, None], np.array([1.0, 2.0, 5.0]), np.random.default_rng(0)
    draws = np.array([choose_centers(X, w, 1, rng)[0, 0] for _ in range(4000)])
    shares = np.bincount(draws.astype(int)) / 4000
    np.testing.assert_allclose(shares, w / 8, atol=4 * np.sqrt(0.25 / 4000))  # four standard errors
