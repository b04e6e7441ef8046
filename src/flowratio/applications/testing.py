"""Do two samples come from one law? A permutation test by how well a ratio tells rows it has not seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit

from flowratio.applications.crossfit import check_folds, folds
from flowratio.applications.importance import Importance, importance
from flowratio.progress import progress
from flowratio.ratios.names import new_ratio, silent
from flowratio.ratios.presets import PRESETS
from flowratio.samples import check_samples, column_names, weighted_moments
from flowratio.settings import RandomState, is_count, seed_from

LogRatio = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], LogRatio]
_N_REPEATS = 3  # permutations of a column, to see how it moves log r


@dataclass(frozen=True, eq=False)
class TwoSampleTest:
    """What a permutation test found. It prints as a few lines.

    Parameters
    ----------
    p_value
        (b + 1) / (m + 1), if b of m permutations tell rows as well as the labels that were given: never 0.
    statistic
        Cross-fitted score in nats, as of `RatioEstimator.score`: a lower bound of the Jensen–Shannon divergence.
    null
        The same under each permutation, of shape (m,).
    drivers
        How much each column moves log r, the most important one first.
    """

    p_value: float
    statistic: float
    null: np.ndarray
    drivers: Importance

    def __str__(self) -> str:
        lines = [
            f"p = {self.p_value:.4g} of {len(self.null)} permutations: statistic {self.statistic:.4g} nats, "
            f"{self.null.mean():.4g} ± {self.null.std():.2g} under the null"
        ]
        first = zip(self.drivers.names, self.drivers.effect, self.drivers.share, strict=True)
        lines += [f"  {name}: {effect:.3g} nats, {share:.0%}" for name, effect, share in list(first)[:5]]
        return "\n".join(lines)

    __repr__ = __str__


def two_sample_test(
    X_p: Any,
    X_q: Any,
    ratio: Any = "qda",
    *,
    n_permutations: int = 200,
    n_folds: int = 2,
    random_state: RandomState = None,
    verbose: bool = False,
) -> TwoSampleTest:
    """Test whether p = q, given a sample of each.

    A ratio is fitted to all folds but one, and judged on that one. All of it is done again with the rows dealt out to
    the two samples by chance: under the null no such deal is special, so that the p-value is exact for every n.

    Parameters
    ----------
    X_p, X_q
        Rows drawn from p and from q, of shapes (n_p, d) and (n_q, d).
    ratio
        Any ratio, or its name. It decides what is noticed: `"logistic"` sees means, `"qda"` also variances and
        correlations, `"boosting"` whatever there is, and takes longer. It is fitted (permutations + 1) × folds times.
    n_permutations
        The smallest p-value is 1 / (this + 1).
    n_folds
        Parts of the samples.
    random_state
        Seed of the folds, of the permutations and of the ratio.
    verbose
        Whether to show a progress bar.

    References
    ----------
    .. [1] Lopez-Paz, Oquab (2017). *Revisiting Classifier Two-Sample Tests.* ICLR.
    .. [2] Phipson, Smyth (2010). *Permutation P-values Should Never Be Zero.* SAGMB.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    >>> X_p[:, 1] += 1
    >>> found = two_sample_test(X_p, X_q, n_permutations=99, random_state=0)
    >>> found.p_value, found.drivers.columns[0]
    (0.01, np.int64(1))
    """
    if not is_count(n_permutations):
        raise ValueError(f"`n_permutations` is {n_permutations!r}: give a whole number of 1 or more, such as 200.")
    A_p, A_q = check_samples(X_p, X_q)
    k = check_folds(n_folds, min(len(A_p), len(A_q)))
    seed = seed_from(random_state)
    fit = _fitting(ratio, seed)
    X = _standardized(np.concatenate([A_p, A_q]).astype(np.float64))
    is_p = np.arange(len(X)) < len(A_p)
    rng = np.random.default_rng([seed, 0, 8])
    fold = np.concatenate([folds(len(A_p), k, rng), folds(len(A_q), k, rng)])
    with silent(), progress(n_permutations, "permutations", verbose) as step:
        statistic = _score(X, is_p, fold, fit)
        null = np.empty(n_permutations)
        for i in range(n_permutations):
            null[i] = _score(X[rng.permutation(len(X))], is_p, fold, fit)
            step()
        log_ratio = fit(X, is_p.astype(int))
    as_well = null >= statistic - 1e-12 * abs(statistic)  # ties count
    share = np.where(is_p, 0.5 / is_p.sum(), 0.5 / (~is_p).sum())
    drivers = importance(log_ratio, X, share, column_names(X_p, X.shape[1]), _N_REPEATS, rng)
    return TwoSampleTest((1 + int(as_well.sum())) / (n_permutations + 1), statistic, null, drivers)


def _standardized(X: np.ndarray) -> np.ndarray:
    mean, scale = weighted_moments(X, np.full(len(X), 1 / len(X)))
    return (X - mean) / scale


def _score(X: np.ndarray, is_p: np.ndarray, fold: np.ndarray, fit: Fit) -> float:
    """Return the cross-fitted score of rows (n, d)."""
    total_p = total_q = 0.0
    for k in range(int(fold.max()) + 1):
        rest, aside = fold != k, fold == k
        log_r = fit(X[rest], is_p[rest].astype(int))(X[aside])
        of_p = is_p[aside]
        total_p += float(log_expit(log_r[of_p]).sum())
        total_q += float(log_expit(-log_r[~of_p]).sum())
    return math.log(2) + total_p / (2 * int(is_p.sum())) + total_q / (2 * int((~is_p).sum()))


def _fitting(ratio: Any, seed: int) -> Fit:
    """Return what fits a ratio to rows and labels: a classifier itself, where that spares the checks of every fit."""
    new_ratio(ratio, seed)  # refused before anything is fitted
    if not (isinstance(ratio, str) and ratio in PRESETS):
        return lambda X, y: new_ratio(ratio, seed).fit(X, y).log_ratio

    def fit(X: np.ndarray, y: np.ndarray) -> LogRatio:
        classifier = PRESETS[ratio](X, y, seed).fit(X, y)
        log_odds = math.log(y.sum() / (1 - y).sum())
        return lambda X: classifier.decision_function(X) - log_odds

    return fit
