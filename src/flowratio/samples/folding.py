"""The one generator of folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flowratio._support.types import Vector

if TYPE_CHECKING:
    from flowratio.samples.two_samples import TwoSamples


def folds(n: int, n_folds: int, rng: np.random.Generator) -> Vector:
    """Return a fold for every row, from 0 to `n_folds` - 1, of shape (n,). Fold sizes differ by 1 at most."""
    return rng.permutation(n) % n_folds


def random_ranks(samples: TwoSamples, rng: np.random.Generator) -> Vector:
    """Return a random rank from 0 for every row, within its own sample, of shape (n,). A group shares one rank.

    Modulo the number of folds, the ranks are folds with the same share of p and of q. Neighbors in the order of
    `distinct_rows` are similar: every k-th row would be a copy of the others.
    """
    if samples.groups is None:
        return np.concatenate([rng.permutation(n) for n in (samples.n_p, samples.n_q)])
    groups = [np.unique(samples.groups[part], return_inverse=True) for part in samples.parts]
    return np.concatenate([rng.permutation(len(names))[group] for names, group in groups])
