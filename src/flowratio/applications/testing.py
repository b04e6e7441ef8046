"""Do two samples come from one law? A permutation test by how well a ratio tells rows it has not seen, or would."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import rankdata

from flowratio._support.progress import progress
from flowratio._support.validation import RandomState, is_count, seed_from
from flowratio.applications.crossfit import check_folds, folds
from flowratio.diagnostics.importance import Importance, importance
from flowratio.ratios.classifier.presets import PRESETS
from flowratio.ratios.registry import new_ratio, silent
from flowratio.samples.stacking import check_samples, column_names
from flowratio.samples.weighting import weighted_moments

LogRatio = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], LogRatio]
_N_REPEATS = 3  # permutations of a column, to see how it moves log r
_MOST_KEPT = 200  # scores beyond chance that drivers are told from
_RIDGE = 1e-3  # of a variance
_SMALLEST = 1e-9  # spread of what is not constant; all that is compared is of order 1


@dataclass(frozen=True, eq=False)
class TwoSampleTest:
    """What a permutation test found. It prints as a few lines.

    Parameters
    ----------
    p_value
        (b + 1) / (m + 1), if b of m permutations tell rows as well as the labels that were given: never 0.
    statistic
        How well the labels are told, in standard deviations over the permutations, above the mean.
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
            f"p = {self.p_value:.4g} of {len(self.null)} permutations: statistic {self.statistic:.4g}, "
            f"{self.null.mean():.4g} ± {self.null.std():.2g} under the null"
        ]
        first = zip(self.drivers.names, self.drivers.effect, self.drivers.share, strict=True)
        lines += [f"  {name}: {effect:.3g} nats, {share:.0%}" for name, effect, share in list(first)[:5]]
        return "\n".join(lines)

    __repr__ = __str__


def two_sample_test(
    X_p: Any,
    X_q: Any,
    ratio: Any = None,
    *,
    n_permutations: int = 200,
    n_folds: int = 2,
    groups: Sequence[str] | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> TwoSampleTest:
    r"""Test whether p = q, given a sample of each.

    A statistic says how well p is told from q. It is taken again with the rows dealt out to the two samples by chance:
    under the null no such deal is special, so that the p-value is exact for every n.

    Without a `ratio`, the statistic is that of the scores of

    .. math:: \log r(x) = \sum_j \sum_{k \le 4} \theta_{jk} h_k(u_j) + \sum_{i < j} \vartheta_{ij} u_i u_j

    at θ = 0, where u are the columns as normal scores of their ranks, and h are Hermite polynomials. A score is a
    difference of means: to fit without a row and to judge on it changes a sum of their squares by what all deals have
    in common, or nearly so, and no row is set aside. There are four kinds: of locations, scales,
    shapes (skewness, tails, two modes) and correlations. Each gives its largest score, for a change in few columns, and
    its sum of squares, for a small one in many; locations also the sum in decorrelated columns, as Hotelling's. The
    statistic is the largest of these nine, each in units of its own spread over the permutations. What it does not
    see is what two columns do together beyond their correlation, or three: give a `ratio` for that.

    Parameters
    ----------
    X_p, X_q
        Rows drawn from p and from q, of shapes (n_p, d) and (n_q, d).
    ratio
        None, or any ratio, or its name. The statistic is then how far class probabilities of rows of p are above those
        of q, on average, by a ratio that was fitted without their fold. It decides what is noticed: `"logistic"` sees
        means, `"qda"` also variances and correlations, `"boosting"` whatever there is, of which it needs more. It is
        fitted (permutations + 1) × folds times.
    n_permutations
        The smallest p-value is 1 / (this + 1).
    n_folds
        Parts of the samples, where there is a ratio.
    groups
        What each of the d columns belongs to, such as the category whose levels some of them tell: `drivers` are then
        these. None if every column is for itself.
    random_state
        Seed of the folds, of the permutations and of the ratio.
    verbose
        Whether to show a progress bar.

    References
    ----------
    .. [1] Lopez-Paz, Oquab (2017). *Revisiting Classifier Two-Sample Tests.* ICLR.
    .. [2] Phipson, Smyth (2010). *Permutation P-values Should Never Be Zero.* SAGMB.
    .. [3] Chernoff, Savage (1958). *Asymptotic Normality and Efficiency of Certain Nonparametric Test Statistics.*
       Annals of Mathematical Statistics. (Normal scores see a shift as well as means do, or better, for every law.)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    >>> X_p[:, 1] *= 1.5
    >>> found = two_sample_test(X_p, X_q, n_permutations=99, random_state=0)
    >>> found.p_value, found.drivers.columns[0]
    (0.01, np.int64(1))
    """
    if not is_count(n_permutations):
        raise ValueError(f"`n_permutations` is {n_permutations!r}: give a whole number of 1 or more, such as 200.")
    A_p, A_q = check_samples(X_p, X_q)
    if groups is not None and len(groups) != A_p.shape[1]:
        raise ValueError(f"`groups` has {len(groups)} names, but there are {A_p.shape[1]} columns: give one for each.")
    k = check_folds(n_folds, min(len(A_p), len(A_q)))
    seed = seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 8])
    n_p, n_q = len(A_p), len(A_q)
    X = _standardized(np.concatenate([A_p, A_q]).astype(np.float64))
    if ratio is None:
        test: _Scores | _CrossFitted = _Scores(X, n_p)
    else:
        fold = np.concatenate([folds(n_p, k, rng), folds(n_q, k, rng)])
        test = _CrossFitted(X, n_p, fold, _fitting(ratio, seed))
    with silent(), progress(n_permutations, "permutations", verbose) as step:
        found = [test.statistics(np.arange(n_p + n_q))]
        for _ in range(n_permutations):
            found.append(test.statistics(rng.permutation(n_p + n_q)))
            step()
        log_ratio = test.log_ratio()
    largest = _in_own_spread(np.array(found)).max(axis=1)
    statistic, null = float(largest[0]), largest[1:]
    as_well = int(np.count_nonzero(null >= statistic - 1e-12 * abs(statistic)))  # ties count
    share = np.repeat([0.5 / n_p, 0.5 / n_q], [n_p, n_q])
    of_columns = column_names(X_p, X.shape[1]) if groups is None else list(groups)
    names = list(dict.fromkeys(of_columns))
    numbers = np.array([names.index(name) for name in of_columns])
    drivers = importance(log_ratio, test.X, share, names, _N_REPEATS, rng, numbers)
    return TwoSampleTest((1 + as_well) / (n_permutations + 1), statistic, null, drivers)


def _standardized(X: np.ndarray) -> np.ndarray:
    mean, scale = weighted_moments(X, np.full(len(X), 1 / len(X)))
    return (X - mean) / scale


def _in_own_spread(values: np.ndarray) -> np.ndarray:
    """Standardize statistics over deals, (m, k); those that are the same for all become 0."""
    return (values - values.mean(axis=0)) / _spread(values.std(axis=0))


class _Scores:
    """Scores of columns, of their curves and of their products, for rows that are dealt out to two samples.

    Parameters
    ----------
    X
        Rows of both samples, of shape (n, d).
    n_p
        How many of them are dealt out to p.
    """

    def __init__(self, X: np.ndarray, n_p: int) -> None:
        n = len(X)
        self.X = U = ndtri((rankdata(X, axis=0) - 0.5) / n)
        self.n_p = n_p
        self.unit = math.sqrt(n_p * (n - n_p) / (n - 1))  # standard deviation of a sum over the rows of p
        curves = _curves(U)
        spreads = np.concatenate([_spread(curve.std(axis=0)) for curve in curves])
        self.curves = np.hstack([curve - curve.mean(axis=0) for curve in curves]) / spreads  # (n, 4 d)
        self.mean_product = U.T @ U / n  # (d, d)
        squares = np.square(U)
        self.spread_product = _spread(np.sqrt(np.maximum(squares.T @ squares / n - self.mean_product**2, 0.0)))
        linear = self.curves[:, : U.shape[1]]
        self.precision = np.linalg.pinv(linear.T @ linear / n, rcond=_SMALLEST, hermitian=True)

    def scores(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z-scores of curves, (4, d), and of products above the diagonal, (d, d); p has the first rows."""
        rows = order[: self.n_p]
        is_p = np.zeros(len(self.X))
        is_p[rows] = 1.0
        U = self.X[rows]
        products = (U.T @ U - self.n_p * self.mean_product) / self.spread_product
        return (is_p @ self.curves).reshape(4, -1) / self.unit, np.triu(products, 1) / self.unit

    def statistics(self, order: np.ndarray) -> np.ndarray:
        """Return, for a deal of rows, roots of the largest squares and of their sums, of shape (9,).

        The roots make them nearly normal: none has so long a tail that it is the largest of all by chance.
        """
        curves, products = self.scores(order)
        squares = [np.square(z) for z in (curves[0], curves[1], curves[2:], products)]
        sums = [curves[0] @ self.precision @ curves[0], *(z.sum() for z in squares)]
        return np.array([*(math.sqrt(z.max()) for z in squares), *np.cbrt(sums)])

    def log_ratio(self) -> LogRatio:
        """Return what gives log r of normal scores, (n, d) to (n,): that of two normal laws of what is beyond chance.

        Scores of chance are left out. The others are weighed together, so that columns that say the same, such as the
        levels of a category, share what they say.
        """
        curves, products = self.scores(np.arange(len(self.X)))
        z = np.concatenate([curves.ravel(), products[np.triu_indices(len(products), 1)]])
        chance = min(2 * math.log(len(z)), float(np.square(z).max()) / 2)
        kept = np.argsort(-np.square(z), kind="stable")[:_MOST_KEPT]
        kept = kept[np.square(z[kept]) >= chance]
        is_p = np.arange(len(self.X)) < self.n_p
        F = _features(self.X, kept)
        means = F[is_p].mean(axis=0), F[~is_p].mean(axis=0)
        within = F - np.where(is_p[:, None], *means)
        covariance = within.T @ within / len(F)
        covariance += np.diag(_RIDGE * covariance.diagonal() + _SMALLEST)
        theta = np.linalg.solve(covariance, means[0] - means[1])
        return lambda U: _features(U, kept) @ theta


def _features(U: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return some of the curves and products of normal scores, (n, d) to (n, m): the curves are the first 4 d."""
    d = U.shape[1]
    first, second = np.triu_indices(d, 1)
    of_curves, of_products = kept[kept < 4 * d], kept[kept >= 4 * d] - 4 * d
    return np.hstack([np.hstack(_curves(U))[:, of_curves], U[:, first[of_products]] * U[:, second[of_products]]])


def _curves(U: np.ndarray) -> list[np.ndarray]:
    """Return Hermite polynomials of normal scores, each of shape (n, d)."""
    squares = np.square(U)
    return [U, squares - 1, (squares - 3) * U, (squares - 6) * squares + 3]


def _spread(values: np.ndarray) -> np.ndarray:
    return np.where(values > _SMALLEST, values, np.inf)


class _CrossFitted:
    """Log-ratios of rows not seen, for rows that are dealt out to two samples.

    Parameters
    ----------
    X
        Rows of both samples, of shape (n, d).
    n_p
        How many of them are dealt out to p.
    fold
        Of the rows in the order of the deal, from 0 on, of shape (n,).
    fit
        What fits a ratio.
    """

    def __init__(self, X: np.ndarray, n_p: int, fold: np.ndarray, fit: Fit) -> None:
        self.X, self.fold, self.fit = X, fold, fit
        self.is_p = np.arange(len(X)) < n_p

    def statistics(self, order: np.ndarray) -> np.ndarray:
        """Return, for a deal of rows, how far class probabilities of p are above those of q, of shape (1,)."""
        X, probability = self.X[order], np.empty(len(order))
        for k in range(int(self.fold.max()) + 1):
            rest, aside = self.fold != k, self.fold == k
            probability[aside] = expit(self.fit(X[rest], self.is_p[rest].astype(int))(X[aside]))
        return np.array([probability[self.is_p].mean() - probability[~self.is_p].mean()])

    def log_ratio(self) -> LogRatio:
        """Return the log-ratio that is fitted to all rows as they were given."""
        return self.fit(self.X, self.is_p.astype(int))


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
