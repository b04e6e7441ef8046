"""Another score of a ratio than `RatioEstimator.score`: the objective of KLIEP."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowratio._support.types import TableLike, VectorLike
from flowratio.ratios.base import RatioEstimator
from flowratio.samples.weighting import log_mean_exp


def kl_score(ratio: Any, X: TableLike, y: VectorLike, sample_weight: VectorLike | None = None) -> float:
    r"""Return the objective of KLIEP on held-out rows, in nats: for large n at most the divergence KL(p ‖ q).

    .. math:: \mathrm{mean}_p \log r - \log \mathrm{mean}_q\, r

    A factor of r cancels. The second term depends mostly on the largest ratios on rows of q. Use it for large n and
    moderate divergences.

    Parameters
    ----------
    ratio
        A fitted ratio, or a pipeline that ends with one.
    X, y, sample_weight
        Labeled held-out rows and their weights, of shapes (n, d), (n,) and (n,).
    """
    last = ratio.steps[-1][1] if hasattr(ratio, "steps") else ratio
    if not isinstance(last, RatioEstimator):
        raise TypeError(f"`ratio` is {ratio!r}. Use a ratio of flowratio, or a pipeline that ends with one.")
    X = X if last is ratio else ratio[:-1].transform(X)
    log_r, is_p, w = last.labeled_scores(X, y, sample_weight)
    return float(np.average(log_r[is_p], weights=w[is_p]) - log_mean_exp(log_r[~is_p], w[~is_p]))
