from __future__ import annotations

import numpy as np
import pytest

from flowratio.samples.weighting import checked_weights, distinct_rows, log_mean_exp, mean_and_error


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (["a", "b"], r"`sample_weight_p` is not an array of numbers .*Give one weight for each row"),
        ([1.0], r"`sample_weight_p` has shape \(1,\) but `X_p` has 2 rows\. Give one weight for each row"),
        ([np.nan, 1.0], r"`sample_weight_p` is NaN or infinite on 1 of 2 rows\. Use finite weights"),
        ([-2.0, 1.0], r"`sample_weight_p` is negative on 1 of 2 rows, with a minimum of -2\. Use weights of 0 or more"),
        ([0.0, 0.0], r"`sample_weight_p` is zero on all 2 rows\. Give at least one row a positive weight"),
    ],
)
def test_bad_weights(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_weights(weights, 2, "sample_weight_p")


def test_mean_and_error_of_equal_weights_are_the_usual_ones() -> None:
    values = np.random.default_rng(0).normal(size=(40, 3))
    mean, error = mean_and_error(values, np.full(40, 1 / 40))
    np.testing.assert_allclose(mean, values.mean(axis=0), atol=1e-15)
    np.testing.assert_allclose(error, values.std(axis=0, ddof=1) / np.sqrt(40), rtol=1e-12)


def test_error_of_a_weighted_mean_is_its_spread_over_samples() -> None:
    rng = np.random.default_rng(0)
    results = []
    for _ in range(2000):
        x = rng.normal(size=200)
        w = np.exp(0.5 * x)
        results.append(mean_and_error(x, w / w.sum()))
    means, errors = np.array(results).T
    assert means.mean() == pytest.approx(0.5, abs=0.01)  # the mean of N(1/2, 1), less a bias of order 1/n
    # a standard deviation of 2000 values is known to 1.6 %; the errors are biased by O(1/n)
    assert errors.mean() == pytest.approx(means.std(), rel=0.06)


def test_one_row_with_all_the_weight_gives_finite_numbers() -> None:
    mean, error = mean_and_error(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    assert (mean, error) == (1.0, 0.0)


# Distinct rows


def whole_rows(n=60, d=3, seed=0):
    """Rows of which many are equal, and weights."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (n, d)) / 7, rng.integers(1, 4, n).astype(float)


def test_distinct_rows_are_those_of_numpy_with_their_weights():
    X, w = whole_rows()
    merged, total = distinct_rows(X, w)
    expected, index = np.unique(X, axis=0, return_inverse=True)
    order = np.lexsort(merged.T[::-1])
    np.testing.assert_array_equal(merged[order], expected)
    np.testing.assert_allclose(total[order], np.bincount(index.ravel(), w))


@pytest.mark.parametrize("n_values", [3, 10**6])
def test_order_of_distinct_rows_is_their_own(n_values):
    rng = np.random.default_rng(1)
    X, w = rng.integers(0, n_values, (80, 4)) / 7, rng.integers(1, 4, 80).astype(float)
    merged, total = distinct_rows(X, w)
    for _ in range(5):
        order = rng.permutation(80)
        again, total_again = distinct_rows(X[order], w[order])
        np.testing.assert_array_equal(again, merged)
        np.testing.assert_allclose(total_again, total, rtol=1e-15)


def test_order_of_distinct_rows_does_not_hang_on_that_of_the_columns():
    rng = np.random.default_rng(2)
    X, w = rng.normal(size=(80, 4)), np.ones(80)
    columns = rng.permutation(4)
    np.testing.assert_array_equal(distinct_rows(X[:, columns], w)[0], distinct_rows(X, w)[0][:, columns])


def test_repeated_rows_are_rows_of_that_weight():
    X, w = whole_rows(seed=3)
    merged, total = distinct_rows(X, w)
    repeated, count = distinct_rows(np.repeat(X, w.astype(int), axis=0), np.ones(int(w.sum())))
    np.testing.assert_array_equal(repeated, merged)
    np.testing.assert_array_equal(count, total)


def test_rows_that_differ_in_the_last_bit_stay_apart():
    X = np.array([[1.0, 2.0], [np.nextafter(1.0, 2.0), 2.0], [1.0, 2.0], [-5.0, 0.0]])
    merged, total = distinct_rows(X, np.ones(4))
    assert sorted(map(tuple, merged)) == sorted({tuple(row) for row in X})
    assert sorted(total) == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.ones((1, 3)), np.full((4, 1), -7.0)])
def test_rows_that_are_all_equal_are_one(X):
    merged, total = distinct_rows(X, np.full(len(X), 2.0))
    np.testing.assert_array_equal(merged, X[:1])
    np.testing.assert_array_equal(total, [2.0 * len(X)])


def test_log_mean_exp_does_not_overflow() -> None:
    assert log_mean_exp(np.array([800.0, 800.0])) == 800.0
