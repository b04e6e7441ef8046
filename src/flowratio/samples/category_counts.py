"""Categories whose shares differ between two samples by more than chance, from their counts."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from flowratio._support.types import Vector


def is_absent_in_other(codes: Vector, n_p: int, w: Vector) -> Vector:
    """Return which rows have a category that clearly does not occur in the other sample, (n,), those of p first.

    `codes` are the categories of one column, below 0 for a missing value. Rows of weight 0 do not count.
    """
    is_there = (codes >= 0) & (w > 0)
    in_p = np.arange(len(codes)) < n_p
    size = int(codes.max(initial=-1)) + 1
    counts = [np.bincount(codes[is_there & part], minlength=size) for part in (in_p, ~in_p)]
    clear = differs_clearly(counts[0], counts[1])
    only_p, only_q = (np.append(clear & (other == 0), False) for other in counts[::-1])  # at -1: a missing value
    return np.where(in_p, only_p[codes], only_q[codes])


def differs_clearly(n_p: Vector, n_q: Vector, alpha: float = 0.05) -> Vector:
    r"""Return which of K categories have another share in p than in q, beyond chance, from their counts, (K,) each.

    If the shares are equal, the rows of p among the n rows of a category are binomial. The test is exact for rare
    categories [1]_. The significance threshold is divided by the number of categories (Bonferroni).

    References
    ----------
    .. [1] Przyborowski, Wilenski (1940). *Homogeneity of Results in Testing Samples from Poisson Series.* Biometrika.
    """
    n = n_p + n_q
    share = n_p.sum() / max(n.sum(), 1)
    tail = np.minimum(binom.cdf(n_p, n, share), binom.sf(n_p - 1, n, share))
    return (n > 0) & (2 * tail <= alpha / max(np.count_nonzero(n), 1))
