"""The one generator of folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flowratio._support.types import Matrix, Vector

if TYPE_CHECKING:
    from flowratio.samples.two_samples import TwoSamples


def folds(n: int, n_folds: int, rng: np.random.Generator) -> Vector:
    """Return a fold for every row, from 0 to `n_folds` - 1, of shape (n,). The sizes of two folds differ by 0 or 1."""
    return rng.permutation(n) % n_folds


def paired_folds(X: Matrix, n_p: int, n_folds: int, rng: np.random.Generator) -> Vector:
    """Return a fold for every row of two samples, those of p first, of shape (n,). Equal rows of p and q are paired.

    A row that occurs once in p and once in q gets the same fold in both. Rows with more copies, such as those of
    discrete columns, are not paired: all folds would then be alike, and held-out rows would equal the fitted ones. If
    both samples have the same rows, such as one file twice, all rows are paired.
    """
    _, value = np.unique(np.ascontiguousarray(X).view(f"V{X.itemsize * X.shape[1]}").ravel(), return_inverse=True)
    parts = value[:n_p], value[n_p:]
    counts = [np.bincount(part, minlength=int(value.max()) + 1) for part in parts]
    single = ((counts[0] == 1) & (counts[1] == 1)) | np.array_equal(counts[0], counts[1])
    if not single.any():
        return np.concatenate([folds(len(part), n_folds, rng) for part in parts])
    rows = [np.flatnonzero(single[part]) for part in parts]
    pairs = [of[np.argsort(part[of])] for of, part in zip(rows, parts, strict=True)]
    n_pairs = len(pairs[0])
    fold, of_pairs = [np.full(len(part), -1) for part in parts], folds(n_pairs, n_folds, rng)
    for of_sample, rows in zip(fold, pairs, strict=True):
        of_sample[rows] = of_pairs
        rest = of_sample < 0
        of_sample[rest] = (n_pairs + rng.permutation(int(rest.sum()))) % n_folds  # sizes still differ by 0 or 1
    return np.concatenate(fold)


def random_ranks(samples: TwoSamples, rng: np.random.Generator) -> Vector:
    """Return a random rank from 0 for every row, within its own sample, of shape (n,). A group shares one rank.

    Modulo the number of folds, the ranks are folds with the same share of p and of q. Neighbors in the order of
    `distinct_rows` are similar: every k-th row would be a copy of the others.
    """
    if samples.groups is None:
        return np.concatenate([rng.permutation(n) for n in (samples.n_p, samples.n_q)])
    groups = [np.unique(samples.groups[part], return_inverse=True) for part in samples.parts]
    return np.concatenate([rng.permutation(len(names))[group] for names, group in groups])
