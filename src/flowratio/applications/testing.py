"""Do two samples come from one distribution? A permutation test, with the columns that drive a difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import beta, rankdata

from flowratio._support.progress import progress
from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.validation import RandomState, check_choice, check_count, check_fraction, seed_from
from flowratio.applications.crossfit import check_folds, folds_of
from flowratio.applications.result import Result
from flowratio.diagnostics.importance import Importance, importance
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.diagnostics.verdict import TestVerdict
from flowratio.ratios.classifier.classifier import ClassifierRatio
from flowratio.ratios.classifier.presets import PRESETS
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, new_ratio, silent
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import weighted_moments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LogRatio = Callable[[Matrix], Vector]
Fit = Callable[[Matrix, Vector], LogRatio]
_N_REPEATS = 3  # permutations of a column, to see how it moves log r
_MOST_SCORES = 200  # scores beyond chance that give the drivers
_RIDGE = 1e-3  # of a variance
_SMALLEST = 1e-9  # spread of what is not constant; all quantities that are compared are of order 1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TwoSampleTest(Result):
    """Result of a permutation test. It prints as one line.

    `value` is the statistic: how well the labels are predicted, in standard deviations over the permutations, above the
    mean. `standard_error` is its spread under the null hypothesis. `interval()` is about the p-value, which is
    (b + 1) / (m + 1) if b of m permutations have a statistic at least as large: never 0.
    """

    p_value: float
    null: Vector  # (m,): the statistic under each permutation
    drivers: Importance  # how much each column moves log r, the most important one first

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return an interval of the p-value that infinitely many permutations would give (Clopper and Pearson)."""
        check_fraction(level, "level")
        m = len(self.null)
        b = round(self.p_value * (m + 1)) - 1
        low, high = beta.ppf((1 - level) / 2, b, m - b + 1), beta.ppf((1 + level) / 2, b + 1, m - b)
        return float(low) if b else 0.0, float(high) if b < m else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, the verdict and the drivers, ready for JSON."""
        columns = zip(self.drivers.names, self.drivers.effect.tolist(), self.drivers.share.tolist(), strict=True)
        drivers = [{"column": name, "effect": effect, "share": share} for name, effect, share in columns]
        return {"p_value": self.p_value, **super().to_dict(), "n_permutations": len(self.null), "drivers": drivers}

    def _draw(self, axes: Axes) -> None:
        axes.hist(self.null, bins=20, color="0.8", edgecolor="0.4", label="shuffled labels")
        axes.axvline(self.value, color="black", linewidth=2, label=f"statistic, p = {self.p_value:.2g}")
        axes.set(xlabel="statistic (standard deviations)", ylabel="permutations")
        axes.legend(frameon=False, fontsize="small")

    def __str__(self) -> str:
        changes = f" Largest changes: {', '.join(self.drivers.names[:5])}."
        return f"{str(self.verdict).capitalize()} ({self.reason}).{changes * (self.verdict is TestVerdict.DIFFER)}"


def two_sample_test(
    X_p: TableLike,
    X_q: TableLike,
    ratio: Any = None,
    *,
    statistic: Literal["scores", "ratio"] = "scores",
    n_permutations: int = 200,
    n_folds: int = 2,
    groups: Sequence[str] | None = None,
    random_state: RandomState = None,
    verbose: bool = False,
) -> TwoSampleTest:
    r"""Test whether p = q, from a sample of each.

    A statistic measures how well p is distinguished from q. The measurement is repeated with shuffled labels. Under the
    null hypothesis no order of the labels is special, so the p-value is exact for every n.

    `statistic="scores"`, the default, fits no ratio. It uses the scores of

    .. math:: \log r(x) = \sum_j \sum_{k \le 4} \theta_{jk} h_k(u_j) + \sum_{i < j} \vartheta_{ij} u_i u_j

    at θ = 0, where u are the normal scores of the columns, and h are Hermite polynomials: for locations, scales, shapes
    (skewness, tails, two modes) and correlations. Each kind gives its largest score and its sum of squares, locations
    also Hotelling's sum. The statistic is the largest of these nine, each in units of its spread over the permutations.
    It does not see how two columns depend on each other beyond their correlation. Use a `ratio` for that.

    Parameters
    ----------
    X_p, X_q
        Rows drawn from p and from q, of shapes (n_p, d) and (n_q, d): arrays, or tables with text, dates and missing
        values. For tables the drivers are the columns of the table.
    ratio
        A ratio, or its name, for `statistic="ratio"`, which a `ratio` implies. None for `AutoRatio()`, which chooses
        again for each permutation: expect hours.
    statistic
        `"scores"`, or `"ratio"`: the mean class probability of held-out rows of p minus that of q. `"logistic"` sees
        means, `"qda"` also variances and correlations, `"boosting"` all changes that are large enough.
    n_permutations, n_folds
        The smallest p-value is 1 / (n_permutations + 1). A ratio is fitted (n_permutations + 1) × n_folds times.
    groups
        The group of each of the d columns: `drivers` are then the groups. None if each column stands alone.
    random_state, verbose
        Seed of the folds, of the permutations and of the ratio, and whether to show a progress bar.

    References
    ----------
    .. [1] Lopez-Paz, Oquab (2017). *Revisiting Classifier Two-Sample Tests.* ICLR.
    .. [2] Phipson, Smyth (2010). *Permutation P-values Should Never Be Zero.* SAGMB.
    .. [3] Chernoff, Savage (1958). *Asymptotic Normality and Efficiency of Certain Nonparametric Test Statistics.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    >>> X_p[:, 1] *= 1.5
    >>> print(two_sample_test(X_p, X_q, n_permutations=99, random_state=0))
    The files differ (p = 0.01, 99 permutations). Largest changes: x2, x1, x3.
    """
    check_count(n_permutations, "n_permutations")
    check_choice(statistic, "statistic", ["scores", "ratio"])
    samples = two_samples(X_p, X_q)
    names, numbers = _grouped(samples, groups)
    check_folds(n_folds, min(samples.n_p, samples.n_q))
    seed = seed_from(random_state)
    rng = np.random.default_rng([seed, 0, 8])
    n, n_p, X = len(samples.X), samples.n_p, samples.X.astype(np.float64)
    mean, scale = weighted_moments(X, np.full(n, 1 / n))
    X = (X - mean) / scale
    if ratio is None and statistic == "scores":
        test = _Scores(X, n_p)
    else:
        test = _CrossFitted(X, n_p, folds_of(samples, n_folds, rng), _fitting(ratio, seed))
    with silent(), progress(n_permutations, "permutations", verbose) as step:
        rows = [test.statistics(np.arange(n))]
        for _ in range(n_permutations):
            rows.append(test.statistics(rng.permutation(n)))
            step()
        log_ratio = test.log_ratio()
    values = np.array(rows)  # (m + 1, k): each in units of its spread, and 0 if it is the same for all permutations
    largest = ((values - values.mean(axis=0)) / _spread(values.std(axis=0))).max(axis=1)
    value, null = float(largest[0]), largest[1:]
    n_as_large = int(np.count_nonzero(null >= value - 1e-12 * abs(value)))  # ties count
    p_value = (1 + n_as_large) / (n_permutations + 1)
    share = np.repeat([0.5 / n_p, 0.5 / samples.n_q], [n_p, samples.n_q])
    return TwoSampleTest(
        value=value,
        standard_error=float(null.std()),
        p_value=p_value,
        null=null,
        drivers=importance(log_ratio, test.X, share, names, _N_REPEATS, rng, numbers),
        verdict=TestVerdict.DIFFER if p_value <= THRESHOLDS.alpha else TestVerdict.NO_DIFFERENCE,
        reason=f"p = {p_value:.2g}, {n_permutations} permutations",
    )


def _grouped(samples: TwoSamples, groups: Sequence[str] | None) -> tuple[list[str], np.ndarray]:
    """Return the names of the groups, and the group of each column of the matrix, of shape (m,)."""
    of_matrix = np.arange(samples.X.shape[1])
    columns = list(samples.names or [f"x{j + 1}" for j in of_matrix])
    if samples.encoder is not None:
        columns, of_matrix = [column.name for column in samples.encoder.columns_], samples.encoder.groups_
    if groups is None:
        return columns, of_matrix
    if len(groups) != len(columns):
        raise ValueError(f"`groups` has {len(groups)} names, but there are {len(columns)} columns. Give one for each.")
    names = list(dict.fromkeys(groups))
    return names, np.array([names.index(group) for group in groups])[of_matrix]


class _Scores:
    """Scores of columns, of their curves and of their products, under permutations of the rows (n, d) of both."""

    def __init__(self, X: Matrix, n_p: int) -> None:
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

    def scores(self, order: np.ndarray) -> tuple[Vector, Vector]:
        """Return z-scores of curves, (4, d), and of products above the diagonal, (d, d); p has the first rows."""
        rows = order[: self.n_p]
        is_p = np.zeros(len(self.X))
        is_p[rows] = 1.0
        U = self.X[rows]
        products = (U.T @ U - self.n_p * self.mean_product) / self.spread_product
        return (is_p @ self.curves).reshape(4, -1) / self.unit, np.triu(products, 1) / self.unit

    def statistics(self, order: np.ndarray) -> Vector:
        """Return, for a permutation, roots of the largest squares and of their sums, of shape (9,): nearly Gaussian."""
        curves, products = self.scores(order)
        squares = [np.square(z) for z in (curves[0], curves[1], curves[2:], products)]
        sums = [curves[0] @ self.precision @ curves[0], *(z.sum() for z in squares)]
        return np.array([*(math.sqrt(z.max()) for z in squares), *np.cbrt(sums)])

    def log_ratio(self) -> LogRatio:
        """Return log r as a function of normal scores, (n, d) to (n,), by two Gaussians of scores beyond chance."""
        curves, products = self.scores(np.arange(len(self.X)))
        z = np.concatenate([curves.ravel(), products[np.triu_indices(len(products), 1)]])
        chance = min(2 * math.log(len(z)), float(np.square(z).max()) / 2)
        largest = np.argsort(-np.square(z), kind="stable")[:_MOST_SCORES]
        largest = largest[np.square(z[largest]) >= chance]
        is_p = np.arange(len(self.X)) < self.n_p
        F = _features(self.X, largest)
        means = F[is_p].mean(axis=0), F[~is_p].mean(axis=0)
        within = F - np.where(is_p[:, None], *means)
        covariance = within.T @ within / len(F)
        covariance += np.diag(_RIDGE * covariance.diagonal() + _SMALLEST)
        theta = np.linalg.solve(covariance, means[0] - means[1])
        return lambda U: _features(U, largest) @ theta


def _features(U: Matrix, positions: np.ndarray) -> Matrix:
    """Return some of the curves and products of normal scores, (n, d) to (n, m): the curves are the first 4 d."""
    d = U.shape[1]
    first, second = np.triu_indices(d, 1)
    of_curves, of_products = positions[positions < 4 * d], positions[positions >= 4 * d] - 4 * d
    return np.hstack([np.hstack(_curves(U))[:, of_curves], U[:, first[of_products]] * U[:, second[of_products]]])


def _curves(U: Matrix) -> list[Matrix]:
    """Return Hermite polynomials of normal scores, each of shape (n, d)."""
    squares = np.square(U)
    return [U, squares - 1, (squares - 3) * U, (squares - 6) * squares + 3]


def _spread(values: Vector) -> Vector:
    return np.where(values > _SMALLEST, values, np.inf)


class _CrossFitted:
    """Log-ratios of held-out rows, under permutations of the rows (n, d) of both. `fold` is of the positions, (n,)."""

    def __init__(self, X: Matrix, n_p: int, fold: np.ndarray, fit: Fit) -> None:
        self.X, self.fold, self.fit = X, fold, fit
        self.is_p = np.arange(len(X)) < n_p

    def statistics(self, order: np.ndarray) -> Vector:
        """Return, for a permutation, the mean class probability of p minus that of q, of shape (1,)."""
        X, probability = self.X[order], np.empty(len(order))
        for k in range(int(self.fold.max()) + 1):
            rest, held_out = self.fold != k, self.fold == k
            probability[held_out] = expit(self.fit(X[rest], self.is_p[rest].astype(int))(X[held_out]))
        return np.array([probability[self.is_p].mean() - probability[~self.is_p].mean()])

    def log_ratio(self) -> LogRatio:
        """Return the log-ratio that is fitted to all rows in their order."""
        return self.fit(self.X, self.is_p.astype(int))


def _fitting(ratio: Any, seed: int) -> Fit:
    """Return a function that fits a ratio to rows, first those of p, and labels: a preset without another scaling."""
    ratio = new_ratio(ratio, seed)  # refused before anything is fitted
    name = ratio.classifier if isinstance(ratio, ClassifierRatio) and ratio.calibration is None else None
    if isinstance(name, str) and name in PRESETS:
        return partial(_fitted_preset, name, seed_from(ratio.random_state) % 2**32)

    def fit(X: Matrix, y: Vector) -> LogRatio:
        samples = TwoSamples(X, int(y.sum()), np.ones(len(X)), _log_odds(y))
        return partial(log_ratio_prepared, fit_prepared(new_ratio(ratio, seed), samples))

    return fit


def _fitted_preset(name: str, seed: int, X: Matrix, y: Vector) -> LogRatio:
    classifier = PRESETS[name](X, y, seed).fit(X, y)
    return lambda X: classifier.decision_function(X) - _log_odds(y)


def _log_odds(y: Vector) -> float:
    return math.log(y.sum() / (1 - y).sum())
