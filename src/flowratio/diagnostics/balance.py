"""Whether weighted rows of q look like rows of p, column by column, and to a classifier of all columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.diagnostics.compared_columns import ComparedColumns
from flowratio.diagnostics.scored_sample import ScoredSample, Separation, errors_off, separation
from flowratio.samples.folding import paired_folds
from flowratio.samples.weighting import mean_and_error
from flowratio.weights import self_normalize

_N_FOLDS = 5
_MOST_ROWS = 10_000  # of each sample, that a classifier is fitted to
_MOST_PRODUCTS = 4e9  # rows times squared columns, which is what a covariance costs
_MOST_SQUARED = 250  # columns; of more the squares are left out
_FARTHEST = 5.0  # standard deviations: a classifier sees no value farther out
_RIDGE = 1e-3  # on the diagonal of a covariance of columns with variance 1
_LARGEST_RATIO = 1e6
_FEW_ROWS = 10  # of a category, from which on the error of its share is nearly Gaussian


@dataclass(frozen=True, eq=False)
class Balance:
    r"""Standardized differences between p and q, before and after rows of q are weighted by r = p/q. p is y = 1.

    .. math:: \mathrm{SMD}_j = \frac{\mathrm{mean}_p\, x_j - \mathrm{mean}_q\, x_j}
                                    {\sqrt{(\mathrm{var}_p\, x_j + \mathrm{var}_q\, x_j) / 2}}

    Differences up to 0.1 are called small (Austin 2009, Statistics in Medicine). A column that is constant in both
    samples has a difference of 0, or of a million where the two constants differ. Every array has the shape (d,).
    """

    names: list[str]  # of the d columns: numbers, and every category of every text column
    before: Vector
    after: Vector
    standard_error: Vector  # of `after`
    deviation_before: Vector  # standard deviations in q divided by those in p, from 1e-6 to 1e6
    deviation_after: Vector
    sources: Vector | None = None  # position of the source column in the table

    def worst(self, n: int | None = None) -> Vector:
        """Return the positions of the n columns that differ most, before or after weighting, the worst first."""
        size = np.maximum(np.abs(self.before), np.abs(self.after))
        return np.argsort(-size, kind="stable")[:n]


class _Moments(NamedTuple):
    """Moments of the columns of a sample, each of shape (d,)."""

    mean: Vector
    deviation: Vector
    error: Vector  # standard error of the mean
    unit: Vector  # of a category: standard error of its share, divided by the standard deviation. 0 of other columns


def table_balance(
    p: ScoredSample,
    q: ScoredSample,
    columns: ComparedColumns,
    rows: tuple[Vector, Vector],
    inflation: float = 1.0,
    target: ScoredSample | None = None,
) -> Balance:
    """Compare numbers, and all categories of text columns. `rows` are the positions of the rows of p and q, (n,).

    `target` are the rows of p with other weights, which weighted rows of q are compared with.
    """
    target, origin = p if target is None else target, p.X[0, columns.plain]
    samples = zip((p, q, target, q.tilted()), (rows[0], rows[1], rows[0], rows[1]), strict=True)
    of_p, of_q, of_target, weighted = (_table_moments(*one, columns, origin) for one in samples)
    return _compared(columns, of_p, of_q, of_target, weighted, inflation)


def _table_moments(sample: ScoredSample, rows: Vector, columns: ComparedColumns, origin: Vector) -> _Moments:
    """Return the moments of all compared columns of a sample, whose rows are at these positions."""
    parts = [_moments(sample.X[:, columns.plain] - origin, sample.share)]
    parts += [_shares(column.codes[rows], sample.share, len(column.names)) for column in columns.categories]
    return _Moments(*map(np.concatenate, zip(*parts, strict=True)))


def _compared(
    columns: ComparedColumns, p: _Moments, q: _Moments, target: _Moments, weighted: _Moments, inflation: float
) -> Balance:
    scale = np.hypot(p.deviation, q.deviation) / np.sqrt(2)
    smallest = 1e-12 * np.maximum(np.abs(p.mean), np.abs(q.mean))
    scale = np.where(scale > 0, scale, np.maximum(smallest, np.finfo(np.float64).tiny))
    error_p, error_q = _error(target, weighted), _error(weighted, target)
    return Balance(
        columns.names,
        before=np.clip((p.mean - q.mean) / scale, -_LARGEST_RATIO, _LARGEST_RATIO),
        after=np.clip((target.mean - weighted.mean) / scale, -_LARGEST_RATIO, _LARGEST_RATIO),
        standard_error=np.hypot(error_p, inflation * error_q) / scale,
        deviation_before=_quotient(q.deviation, p.deviation),
        deviation_after=_quotient(weighted.deviation, target.deviation),
        sources=columns.sources,
    )


def _error(own: _Moments, other: _Moments) -> Vector:
    """Return standard errors of means, (d,). Of a category with few rows: at least that of its share in the other.

    A category without rows in a small sample would have an error of 0.
    """
    is_rare = own.mean < _FEW_ROWS * own.unit**2
    return np.where(is_rare, np.maximum(own.error, own.unit * other.deviation), own.error)


def _moments(X: Matrix, share: Vector) -> _Moments:
    mean, error = mean_and_error(X, share)
    std = np.sqrt(share @ (X - mean) ** 2)
    std = np.where(std > 1e-12 * np.abs(mean), std, 0.0)  # a constant, up to rounding
    return _Moments(mean, std, error, np.zeros(len(mean)))


def _shares(codes: Vector, share: Vector, n_categories: int) -> _Moments:
    """Return the moments of the indicators of all categories, from codes (n,), without a matrix of indicators."""
    mean, square = (np.bincount(codes + 1, weights, n_categories + 1)[1:] for weights in (share, share**2))
    mean = np.minimum(mean, 1.0)
    total = float(share @ share)
    error = (square * (1 - mean) ** 2 + (total - square) * mean**2) / max(1 - total, np.finfo(np.float64).eps)
    unit = math.sqrt(total / max(1 - total, np.finfo(np.float64).eps))
    return _Moments(mean, np.sqrt(mean * (1 - mean)), np.sqrt(np.maximum(error, 0.0)), np.full(len(mean), unit))


def _quotient(a: Vector, b: Vector) -> Vector:
    """Return a / b of nonnegative values, and 1 where both are 0, bounded on both sides."""
    smallest = np.finfo(np.float64).tiny
    return np.clip(np.maximum(a, smallest) / np.maximum(b, smallest), 1 / _LARGEST_RATIO, _LARGEST_RATIO)


def leftover(p: ScoredSample, q: ScoredSample, rng: np.random.Generator, inflation: float = 1.0) -> Separation:
    r"""Test whether a classifier still distinguishes rows of p from rows of q that are weighted by r.

    The classifier is Fisher's linear discriminant of the columns and their squares, in its ridge form,

    .. math:: f(x) = (\mu_p - \mu_{rq})^\top \big(\tfrac12 \Sigma_p + \tfrac12 \Sigma_{rq} + \lambda I\big)^{-1} \phi(x)

    It is fitted on four of five folds and scores the fifth. For the true ratio it is right in half of the pairs. `rng`
    draws the folds, and 10 000 rows of each sample where there are more.
    """
    d = p.X.shape[1]
    n_features = d if d > _MOST_SQUARED else 2 * d
    n_rows = min(_MOST_ROWS, max(1_000, int(_MOST_PRODUCTS / n_features**2)))
    p, q = (_some(sample, n_rows, rng) for sample in (p, q))
    center = (p.share @ p.X + q.share @ q.X) / 2
    scale = np.sqrt((p.share @ (p.X - center) ** 2 + q.share @ (q.X - center) ** 2) / 2)
    scale[scale == 0] = np.inf
    F_p, F_q = (_features((sample.X - center) / scale, n_features) for sample in (p, q))
    log_w = q.log_weights()
    n_folds = min(_N_FOLDS, len(F_p), len(F_q))
    fold = paired_folds(np.concatenate([p.X, q.X]), len(p.X), n_folds, rng)
    fold_p, fold_q = fold[: len(p.X)], fold[len(p.X) :]
    score_p, score_q = np.empty(len(F_p)), np.empty(len(F_q))
    for fold in range(n_folds):
        on_p, on_q = fold_p != fold, fold_q != fold
        w_p = p.share[on_p] / p.share[on_p].sum()
        direction, middle = _discriminant(F_p[on_p], w_p, F_q[on_q], self_normalize(log_w[on_q]))
        score_p[~on_p], score_q[~on_q] = F_p[~on_p] @ direction - middle, F_q[~on_q] @ direction - middle
    auc, error, _ = separation(score_p, p.share, score_q, self_normalize(log_w), inflation)
    error *= math.sqrt(2)  # of the true ratio only chance is left: each pair of folds, fitted and scored, counts twice
    return Separation(auc, error, errors_off(auc - 0.5, error))


def _some(sample: ScoredSample, n: int, rng: np.random.Generator) -> ScoredSample:
    """Return n of the rows, without replacement, or all if there are no more."""
    if len(sample.X) <= n:
        return sample
    rows = np.sort(rng.permutation(len(sample.X))[:n])
    return ScoredSample(sample.X[rows], sample.log_r[rows], sample.share[rows] / sample.share[rows].sum())


def _features(Z: Matrix, n_features: int) -> Matrix:
    Z = np.clip(Z, -_FARTHEST, _FARTHEST)
    return Z if n_features == Z.shape[1] else np.hstack([Z, (Z**2 - 1) / np.sqrt(2)])


def _discriminant(A: Matrix, w_a: Vector, B: Matrix, w_b: Vector) -> tuple[Vector, float]:
    """Return the direction from B to A, of shape (k,), and where their middle is along it."""
    mean_a, mean_b = w_a @ A, w_b @ B
    within = np.diag(np.full(A.shape[1], _RIDGE))
    for F, w, mean in ((A, w_a, mean_a), (B, w_b, mean_b)):
        D = (F - mean) * np.sqrt(w / 2)[:, None]
        within += D.T @ D
    direction = np.linalg.solve(within, mean_a - mean_b)
    return direction, float(direction @ (mean_a + mean_b) / 2)
