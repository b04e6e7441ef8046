"""Whether tempered or capped weights are better: only what held-out rows confirm is worth advice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.weights import cap, self_normalize, temper

_POWERS = (0.5, 0.75)
_CAPS = (5.0, 10.0, 20.0, 50.0)  # times the mean
_N_PARTS = 10  # of the rows, each of which is left out in turn
_BETTER = 0.8  # factor of the root mean square difference that is worth a change of the weights


class Remedy(NamedTuple):
    """A change of the weights, and root mean square standardized differences of column means with and without it."""

    words: str
    before: float
    after: float


def confirmed_remedy(p: ScoredSample, q: ScoredSample, rng: np.random.Generator) -> Remedy | None:
    r"""Return the change of the weights r on rows of q that brings column means closest to those of p.

    The loss is the mean over columns of squared standardized differences: bias and variance of weighted means, and a
    part from rows of p that all weights share. A remedy counts if it lowers the root of the loss by a fifth, on all
    rows and on all rows without each of ten parts. None if there is none.
    """
    scale = np.sqrt((p.share @ (p.X - p.share @ p.X) ** 2 + q.share @ (q.X - q.share @ q.X) ** 2) / 2)
    used = scale > 0
    if not used.any():
        return None
    X_p, X_q = p.X[:, used] / scale[used], q.X[:, used] / scale[used]
    parts = [rng.permutation(len(X)) % min(_N_PARTS, len(X_p), len(X_q)) for X in (X_p, X_q)]
    means_p = _means(X_p, p.share, parts[0])
    log_w = q.log_weights()
    losses = {"": _losses(means_p, _means(X_q, self_normalize(log_w), parts[1]))}
    for gamma in _POWERS:
        words = f"Raise the weights to the power {gamma:g} (`--temper {gamma:g}`)"
        w = self_normalize(temper(q.log_r, gamma) + np.log(q.share))
        losses[words] = _losses(means_p, _means(X_q, w, parts[1]))
    for largest in _CAPS:
        words = f"Cap the weights at {largest:g} times their mean (`--cap {largest:g}`)"
        losses[words] = _losses(means_p, _means(X_q, self_normalize(cap(log_w, largest)), parts[1]))
    words = min(losses, key=lambda one: losses[one][0])
    before, after = np.sqrt(losses[""]), np.sqrt(losses[words])
    is_better = bool(words) and bool(np.all(after < _BETTER * before))
    return Remedy(words, float(before[0]), float(after[0])) if is_better else None


def _means(X: Matrix, w: Vector, part: Vector) -> Matrix:
    """Return weighted means of all rows, then of all rows without each part, (n_parts + 1, d)."""
    n_parts = int(part.max()) + 1
    sums = np.array([w[part == k] @ X[part == k] for k in range(n_parts)])
    weights = np.bincount(part, w, n_parts)
    rest = np.maximum(weights.sum() - weights, np.finfo(np.float64).tiny)
    return np.vstack([sums.sum(axis=0) / weights.sum(), (sums.sum(axis=0) - sums) / rest[:, None]])


def _losses(means_p: Matrix, means_q: Matrix) -> Vector:
    return np.mean((means_p - means_q) ** 2, axis=1)
