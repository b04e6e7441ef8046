from __future__ import annotations

import numpy as np

from flowratio.samples.folding import folds, random_ranks
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
