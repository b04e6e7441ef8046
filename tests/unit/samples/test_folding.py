from __future__ import annotations

import numpy as np

from flowratio.samples.folding import folds, paired_folds, random_ranks
from flowratio.samples.two_samples import two_samples


def test_ranks_are_permutations_of_each_sample() -> None:
    rng = np.random.default_rng(0)
    samples = two_samples(rng.normal(size=(7, 2)), rng.normal(size=(11, 2)))
    ranks = random_ranks(samples, np.random.default_rng(1))
    twin = np.random.default_rng(1)
    np.testing.assert_array_equal(ranks, np.concatenate([twin.permutation(7), twin.permutation(11)]))


def test_a_group_shares_one_rank() -> None:
    rng = np.random.default_rng(0)
    samples = two_samples(rng.normal(size=(7, 2)), rng.normal(size=(11, 2)))
    alone = random_ranks(samples, np.random.default_rng(1))
    several = random_ranks(samples.mapped(*[lambda X: X] * 3), np.random.default_rng(1))
    np.testing.assert_array_equal(several, np.concatenate([np.tile(alone[:7], 3), np.tile(alone[7:], 3)]))


def test_fold_sizes_differ_by_one() -> None:
    assert np.bincount(folds(7, 3, np.random.default_rng(0))).tolist() == [3, 2, 2]


def test_equal_rows_of_both_samples_share_a_fold() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    order = rng.permutation(50)
    fold = paired_folds(np.concatenate([X, X[order]]), 50, 5, rng)
    np.testing.assert_array_equal(fold[:50][order], fold[50:])
    assert np.bincount(fold[:50]).tolist() == [10] * 5


def test_pairs_of_copies_leave_folds_of_equal_size() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (47 + 90, 1)).astype(float)
    fold = paired_folds(X, 47, 4, rng)
    for part in (fold[:47], fold[47:]):
        assert np.ptp(np.bincount(part, minlength=4)) <= 1
    for value in range(3):  # as many copies of a value in p as in q, up to the rest without a pair
        of_p, of_q = (
            np.bincount(part[(x == value)], minlength=4) for part, x in ((fold[:47], X[:47, 0]), (fold[47:], X[47:, 0]))
        )
        assert (of_q >= of_p).all() or of_p.sum() > of_q.sum()


def test_folds_of_samples_without_equal_rows_are_those_of_each_sample() -> None:
    X = np.arange(20.0)[:, None]
    fold, rng = paired_folds(X, 8, 3, np.random.default_rng(1)), np.random.default_rng(1)
    np.testing.assert_array_equal(fold, np.concatenate([folds(8, 3, rng), folds(12, 3, rng)]))
