r"""Whether a ratio has the wrong form: what a flexible classifier still finds after the ratio is accounted for.

.. math:: \frac{p}{1 + r} = \frac{r\,q}{1 + r} = \frac{p\,q}{p + q}

If the estimate is right, rows of p with weights 1/(1 + r) and rows of q with weights r/(1 + r) come from one
distribution. A classifier between these two weighted samples estimates log(r / r̂). All weights are at most 1, so large
ratios cannot spoil the check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.preprocessing import PolynomialFeatures

from flowratio._support.types import Matrix, Vector
from flowratio.diagnostics.scored_sample import errors_off
from flowratio.ratios.classifier.presets import PRESETS, TunedLogisticRegression
from flowratio.samples.folding import folds
from flowratio.samples.weighting import mean_and_error

_FARTHEST = 5.0  # standard deviations: the polynomial sees no value farther out
_MOST_SQUARED = 250  # columns: with more columns the polynomial is linear
_ROWS_PER_PRODUCT = 20.0  # rows in the overlap for each coefficient of a polynomial with all products
_MOST_PRODUCTS = 250  # coefficients of such a polynomial
_FEWEST_FOR_TREES = 40.0  # effective rows of the smaller weighted sample: trees need 20 rows in a leaf
_BINS = 64  # of the columns, for trees
_LEAST_WEIGHT = 1e-6  # of the largest: lighter rows cannot change a fit


@dataclass(frozen=True, eq=False)
class Residual:
    """What is left to learn about r = p/q (p is y = 1) after an estimate, by cross-fitting."""

    log_correction: Vector  # (n,): estimate of log(r / r̂) of each row by classifiers that were not fitted to it
    gain: float  # held-out score of r̂ times the correction minus that of r̂, in nats. 0 or less if the form is right
    standard_error: float  # of `gain`
    z: float  # how many standard errors `gain` is above 0
    error_p: float  # mean square of `log_correction` over rows of p, in nats²
    n_p: float  # effective sample size of rows of p weighted by 1/(1 + r̂)
    n_q: float  # the same for rows of q weighted by r̂/(1 + r̂)

    @property
    def n_overlap(self) -> float:
        """The smaller of the two effective sample sizes: with few rows the check cannot find anything."""
        return min(self.n_p, self.n_q)


def residual(
    X: Matrix,
    log_r: Vector,
    is_p: Vector,
    w: Vector,
    seed: int,
    *,
    n_folds: int = 5,
    fold: Vector | None = None,
    each: Matrix | None = None,
    max_rows: int = 20_000,
) -> Residual:
    """Estimate log(r / r̂) by cross-fitting, and how much it improves the score of `RatioEstimator.score`.

    Two classifiers estimate it: a quadratic polynomial and boosting. Each fold is corrected by a combination of the two
    whose weights, from 0 to 1, are learned on the other folds. For the true ratio the combination is close to 0.

    Parameters
    ----------
    X, log_r, is_p, w
        Rows of both samples, (n, d), held-out log-ratios, whether a row belongs to p, and weights of rows, each (n,).
    seed, n_folds
        Seed of the folds and of boosting, and the number of folds.
    fold, each
        For log-ratios of a cross-fit: the fold of each row, from 0, (n,), and log r of all rows by the model of each
        fold, (n_folds, n). Without `each`, log-ratios of other folds contain the rows of a fold, and the gain of
        a cross-fit with many columns is too large.
    max_rows
        Maximum number of rows of each sample that a classifier is fitted to. All rows are corrected.
    """
    rng, is_p = np.random.default_rng([seed, 19]), np.asarray(is_p, bool)
    share = w / np.where(is_p, w[is_p].sum(), w[~is_p].sum())  # each sample adds up to 1
    bounded = share * expit(np.where(is_p, -log_r, log_r))
    n_p, n_q = (_effective(bounded[part]) for part in (is_p, ~is_p))
    log_correction = np.zeros(len(X))
    if fold is None:
        fold, n_folds = np.empty(len(X), int), min(n_folds, int(is_p.sum()), int((~is_p).sum()))
        for part in (is_p, ~is_p):
            fold[part] = folds(int(part.sum()), n_folds, rng)
    if min(n_p, n_q) >= 2 * (fold.max() + 1):
        some, binned, corrections = _thinned(is_p, max_rows, rng), _binned(X), np.zeros((len(X), 2))
        sums = [share[some & part].sum() for part in (is_p, ~is_p)]
        fitted_share = share / np.where(is_p, *sums)  # the rows that are left add up to 1 in each sample too
        for k in range(int(fold.max()) + 1):
            rows, out = np.flatnonzero(some & (fold != k)), np.flatnonzero(fold == k)
            part = np.concatenate([rows, out])
            scores = (log_r if each is None else each[k])[part]
            fitted = np.arange(len(part)) < len(rows)
            corrections[out] = _corrections(
                X[part], binned[part], scores, is_p[part], fitted_share[part], fitted, seed + k
            )
        log_correction = _combined(corrections, log_r, is_p, share, fold)
    sign = np.where(is_p, 1.0, -1.0)
    gains = log_expit(sign * (log_r + log_correction)) - log_expit(sign * log_r)
    means, errors = zip(*(mean_and_error(gains[part], share[part]) for part in (is_p, ~is_p)), strict=True)
    gain, error = float(sum(means)) / 2, float(np.hypot(*errors)) / 2
    error_p = float(share[is_p] @ log_correction[is_p] ** 2)
    return Residual(log_correction, gain, error, errors_off(gain, error), error_p, n_p, n_q)


def _effective(weights: Vector) -> float:
    """Return the effective sample size of weights (Kish), 0 if all of them vanish."""
    largest = weights.max()
    relative = weights / largest if largest > 0 else weights
    return float(relative.sum() ** 2 / (relative @ relative)) if largest > 0 else 0.0


def _thinned(is_p: Vector, max_rows: int, rng: np.random.Generator) -> Vector:
    """Return a mask (n,) of all rows, or of `max_rows` random ones of a sample with more."""
    mask = np.ones(len(is_p), bool)
    for part in (is_p, ~is_p):
        rows = np.flatnonzero(part)
        mask[rng.permutation(rows)[max_rows:]] = False
    return mask


def _corrections(
    X: Matrix, binned: Matrix, log_r: Vector, is_p: Vector, share: Vector, fitted: Vector, seed: int
) -> Matrix:
    """Fit both classifiers to some rows, the mask `fitted` (n,), and return the corrections of the others, (m, 2)."""
    weights = share * expit(np.where(is_p, -log_r, log_r))
    n_p, n_q = (_effective(weights[fitted & part]) for part in (is_p, ~is_p))
    out, each = ~fitted, np.zeros((int((~fitted).sum()), 2))
    if min(n_p, n_q) < 2:
        return each
    weights *= (n_p + n_q) / weights[fitted].sum()
    rows = fitted & (weights > _LEAST_WEIGHT * weights[fitted].max())
    y, w, features = is_p[rows].astype(int), weights[rows], _features(X, log_r, is_p, min(n_p, n_q))
    if len(np.unique(y)) == 2 and features.shape[1]:
        each[:, 0] = TunedLogisticRegression().fit(features[rows], y, w).decision_function(features[out])
        if min(n_p, n_q) >= _FEWEST_FOR_TREES:
            inputs = np.column_stack([binned, _binned(log_r[:, None])])
            trees: Any = PRESETS["boosting"](inputs[rows], y, seed)
            each[:, 1] = trees.fit(inputs[rows], y, sample_weight=w).decision_function(inputs[out])
    return each


def _binned(X: Matrix) -> Matrix:
    """Return the quantile bin of each value, (n, d): with weights, scikit-learn takes long to find bins of its own."""
    binned = np.full(X.shape, np.nan)
    for j, x in enumerate(X.T):
        finite = np.isfinite(x)
        if finite.any():
            edges = np.unique(np.quantile(x[finite], np.linspace(0, 1, _BINS + 1)[1:-1]))
            binned[finite, j] = np.searchsorted(edges, x[finite], side="right")
    return binned


def _features(X: Matrix, log_r: Vector, is_p: Vector, n_overlap: float) -> Matrix:
    """Return standardized columns, log r, and their squares or all products, as many as the rows allow, (n, m)."""
    Z = np.column_stack([X, np.clip(log_r, -50.0, 50.0)]).astype(np.float64)
    half = np.where(is_p, 0.5 / is_p.sum(), 0.5 / (~is_p).sum())
    Z = np.where(np.isfinite(Z), Z, np.nan)
    missing = np.isnan(Z)
    center = half @ np.where(missing, 0.0, Z) / np.maximum(half @ ~missing, 1e-12)
    D = np.where(missing, 0.0, Z - center)
    largest = np.abs(D).max(axis=0)
    D /= np.where(largest > 0, largest, 1.0)  # no square overflows
    scale = np.sqrt(half @ D**2)
    Z = np.clip(D[:, scale > 1e-9] / scale[scale > 1e-9], -_FARTHEST, _FARTHEST)
    d = Z.shape[1]
    if 0 < d * (d + 3) // 2 <= min(_MOST_PRODUCTS, n_overlap / _ROWS_PER_PRODUCT):
        Z = PolynomialFeatures(2, include_bias=False).fit_transform(Z)
    elif d <= _MOST_SQUARED:
        Z = np.hstack([Z, (Z**2 - 1) / np.sqrt(2)])
    return Z


def _combined(each: Matrix, log_r: Vector, is_p: Vector, share: Vector, fold: Vector) -> Vector:
    """Return the combined correction of each fold, with the weights that suit the other folds best, (n,)."""
    sign = np.where(is_p, 1.0, -1.0)
    log_correction = np.zeros(len(each))

    def loss(weights: Vector, rows: Vector) -> tuple[float, Vector]:
        margin = sign[rows] * (log_r[rows] + each[rows] @ weights)
        slope = share[rows] * sign[rows] * expit(-margin)
        return -float(share[rows] @ log_expit(margin)), -(slope @ each[rows])

    for k in range(int(fold.max()) + 1):
        rows = np.flatnonzero(fold != k)
        start, bounds = np.full(each.shape[1], 0.25), [(0.0, 1.0)] * each.shape[1]
        fit: Any = minimize(loss, start, args=(rows,), jac=True, bounds=bounds, method="L-BFGS-B")
        log_correction[fold == k] = each[fold == k] @ fit.x
    return log_correction
