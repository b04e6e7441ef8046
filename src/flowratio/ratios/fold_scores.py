"""Log-ratios of held-out rows by cross-fitting: the basis of every estimate with a standard error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowratio._support.progress import progress
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import check_n_folds
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, new_ratio, silent
from flowratio.samples.folding import paired_folds
from flowratio.samples.two_samples import TwoSamples

FEWEST_ROWS = 4  # of each sample: two folds of two rows


@dataclass(frozen=True, eq=False)
class FoldScores:
    """Log-ratios of the rows of one sample."""

    log_r: Vector  # (n,): of each row by the model that was fitted without its fold
    each: Matrix  # (n_folds, n): of each row by every model
    w: Vector  # (n,)
    fold: np.ndarray  # (n,)
    # (n,): log r as a weight of the row. It differs if no other row of its sample has the category of the row: the
    # ratio takes the category for one of the other sample, but weights are for rows of a known sample. No score uses it
    as_weight: Vector | None = None

    @classmethod
    def of(cls, each: Matrix, w: Vector, fold: np.ndarray, as_weight: Vector | None = None) -> FoldScores:
        """Select the held-out scores from those of all models."""
        return cls(each[fold, np.arange(len(fold))], each, w, fold, as_weight)

    @property
    def log_weights(self) -> Vector:
        """Log r of each row as a weight, (n,)."""
        return self.log_r if self.as_weight is None else self.as_weight

    def mean(self, values: Vector) -> float:
        """Return the weighted mean of values, of shape (n,)."""
        return float(self.w @ values / self.w.sum())

    def mean_without(self, k: int, values: Vector) -> float:
        """Return the weighted mean of the values, of shape (n,), of all rows outside a fold."""
        w = self.w * (self.fold != k)
        return float(w @ values / w.sum())

    def inverse(self) -> FoldScores:
        """Return the log-ratios of 1/r."""
        return FoldScores(-self.log_r, -self.each, self.w, self.fold, -self.log_weights)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Log-ratios of the rows of p and of q by models that were not fitted to them."""

    p: FoldScores
    q: FoldScores
    model: Any = None  # that of the last fold, which scores other rows. None if no fold could be fitted

    def swapped(self) -> CrossFitted:
        """Return the same of q/p, without a model."""
        return CrossFitted(self.q.inverse(), self.p.inverse())


def cross_fit(
    ratio: Any,
    samples: TwoSamples,
    fold: np.ndarray,
    seed: int,
    verbose: bool = False,
    more: tuple[Matrix, np.ndarray] | None = None,
    fitted: np.ndarray | None = None,
) -> CrossFitted:
    """Fit a ratio to all folds (n,) except one, in turn, and score that one. It is held out in both samples at once.

    `more` rows of q, (m, d), in their folds, (m,), are scored, but no model is fitted to them. `fitted` is a mask (n,)
    of the rows that models may be fitted to, None for all rows.
    """
    n_p, n_folds = samples.n_p, int(fold.max()) + 1
    X, w, all_folds = samples.X, samples.w, fold
    if more is not None:
        X, all_folds = np.concatenate([X, more[0]]), np.concatenate([fold, more[1]])
        w = np.concatenate([w, np.ones(len(more[0]))])
    each, as_weight, model = np.zeros((n_folds, len(X))), np.zeros(len(X)), None
    with silent(), progress(n_folds, "folds", verbose) as step:
        for k in range(n_folds):
            part = samples.part(fold != k if fitted is None else (fold != k) & fitted)
            if (part.X[0] != part.X).any():  # otherwise nothing distinguishes p from q: r = 1
                model = fit_prepared(new_ratio(ratio, seed + k), part)
                each[k] = log_ratio_prepared(model, X)
                rows = np.flatnonzero(all_folds == k)
                as_weight[rows] = each[k, rows]
                alone, X_alone = _alone_in_sample(part, X[rows], rows < n_p)
                if len(alone):
                    as_weight[rows[alone]] = log_ratio_prepared(model, X_alone)
            step()
    parts = slice(n_p), slice(n_p, None)
    p, q = (FoldScores.of(each[:, rows], w[rows], all_folds[rows], as_weight[rows]) for rows in parts)
    return CrossFitted(p, q, model)


def _alone_in_sample(fitted: TwoSamples, X: Matrix, is_p: np.ndarray) -> tuple[np.ndarray, Matrix]:
    """Return the positions of held-out rows with a category that no fitted row of their sample has, and these rows.

    The codes of these categories become -1, as those of new categories. `is_p` marks rows of p, of shape (n,).
    """
    X, is_alone = X.copy() if fitted.codes else X, np.zeros(len(X), bool)
    for position in fitted.codes:
        for own, rows in ((fitted.X_p, is_p), (fitted.X_q, ~is_p)):
            is_new = rows & (X[:, position] >= 0) & ~np.isin(X[:, position], own[:, position])
            X[is_new, position] = -1.0
            is_alone |= is_new
    return np.flatnonzero(is_alone), X[is_alone]


def ratio_to_fit(ratio: Any, samples: TwoSamples, seed: int, verbose: bool = False) -> Any:
    """Return the ratio to cross-fit. The choice of an `AutoRatio` is made once, on all rows: it is one of few."""
    auto = new_ratio(ratio, seed)
    if not hasattr(auto, "selection"):
        return auto
    auto.set_params(verbose=auto.verbose or verbose)
    with silent():
        return fit_prepared(auto, samples).selection()


def folds_of(samples: TwoSamples, n_folds: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a fold for each row, of shape (n,): first those of p, then those of q.

    Equal rows of p and q are paired: both are held out together. Otherwise a copy of a held-out row of p, which the
    model was fitted to as a row of q, would turn the ratio around.
    """
    k = check_folds(n_folds, min(samples.n_p, samples.n_q))
    return paired_folds(samples.X, samples.n_p, k, rng)


def check_folds(n_folds: Any, n_least: int) -> int:
    """Return the number of folds: no more than half of the rows of the smaller sample."""
    check_n_folds(n_folds)
    if n_least < FEWEST_ROWS:
        raise ValueError(f"The smaller sample has {n_least} rows. Give at least {FEWEST_ROWS} rows of each sample.")
    return min(int(n_folds), n_least // 2)
