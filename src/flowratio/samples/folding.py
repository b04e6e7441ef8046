"""The one generator of folds."""

from __future__ import annotations

import numpy as np

from flowratio._support.types import Vector


def folds(n: int, n_folds: int, rng: np.random.Generator) -> Vector:
    """Return a fold for every row, from 0 to `n_folds` - 1, of shape (n,). Fold sizes differ by 1 at most.

    Examples
    --------
    >>> np.bincount(folds(7, 3, np.random.default_rng(0))).tolist()
    [3, 2, 2]
    """
    return rng.permutation(n) % n_folds
