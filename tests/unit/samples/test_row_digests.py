from __future__ import annotations

import numpy as np

from flowratio.samples.row_digests import remembered_digests, row_digests, share_of_known_rows


def test_equal_rows_have_equal_digests_and_others_do_not() -> None:
    X = np.random.default_rng(0).integers(0, 3, (50_000, 12)).astype(float)  # few values, so that bits are few
    distinct, position = np.unique(X, axis=0, return_inverse=True)
    digests = row_digests(X)
    assert len(np.unique(digests)) == len(distinct)  # 50,000 digests of 64 bits collide with a chance of 1e-10
    np.testing.assert_array_equal(digests, row_digests(distinct)[position.ravel()])
    np.testing.assert_array_equal(row_digests(np.array([[-0.0, np.nan]])), row_digests(np.array([[0.0, np.nan]])))


def test_training_rows_are_recognized_in_any_order_and_among_others() -> None:
    rng = np.random.default_rng(0)
    X, other = rng.normal(size=(2, 3000, 3))
    digests = remembered_digests(X)
    assert len(digests) == 1000
    assert share_of_known_rows(digests, np.concatenate([other, X[::-1]])) == 1
    assert share_of_known_rows(digests, other) == 0
    half = share_of_known_rows(digests, X[:1500])
    assert abs(half - 0.5) < 0.01


def test_rows_of_few_values_are_not_remembered() -> None:
    assert len(remembered_digests(np.arange(5000.0)[:, None] % 7)) == 0
    assert share_of_known_rows(np.zeros(0, np.int64), np.ones((3, 1))) == 0
    # 5,000 values: 1,000 remembered rows are mostly distinct, and among 10,000 other rows nearly all of them occur
    rng = np.random.default_rng(0)
    X, other = (rng.integers(0, 5000, (10_000, 1)).astype(float) for _ in range(2))
    assert share_of_known_rows(remembered_digests(X), other) == 0
