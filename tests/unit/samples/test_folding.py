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


def test_samples_with_the_same_rows_are_paired() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (50, 1)).astype(float)
    order = rng.permutation(50)
    fold = paired_folds(np.concatenate([X, X[order]]), 50, 5, rng)
    for k in range(5):  # each fold has the same rows of both samples
        np.testing.assert_array_equal(np.sort(X[fold[:50] == k, 0]), np.sort(X[order][fold[50:] == k, 0]))


def test_values_with_many_copies_are_not_paired() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.integers(0, 3, 47), [5, 6], rng.integers(0, 3, 90), [6, 5]]).astype(float)[:, None]
    fold = paired_folds(X, 49, 4, rng)
    for part in (fold[:49], fold[49:]):
        assert np.ptp(np.bincount(part, minlength=4)) <= 1
    assert (fold[47], fold[48]) == (fold[-1], fold[-2])  # one copy in each sample
    # held-out shares of a value vary by chance, in p and in q: pairs would make them alike
    differences = []
    for seed in range(200):
        fold = paired_folds(X, 49, 4, np.random.default_rng(seed))
        of_p, of_q = (np.mean(x[part == 0, 0] == 0) for x, part in ((X[:49], fold[:49]), (X[49:], fold[49:])))
        differences.append(of_p - of_q)
    assert np.std(differences) > 0.1  # shares of 12 and 23 rows: √(2/9 · 3/4 · (1/12 + 1/23)) = 0.14


def test_folds_of_samples_without_equal_rows_are_those_of_each_sample() -> None:
    X = np.arange(20.0)[:, None]
    fold, rng = paired_folds(X, 8, 3, np.random.default_rng(1)), np.random.default_rng(1)
    np.testing.assert_array_equal(fold, np.concatenate([folds(8, 3, rng), folds(12, 3, rng)]))
