r"""How much one column differs between two samples: the standard deviation of its own log r, in nats."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtri, xlogy
from scipy.stats import binom, rankdata

from flowratio._support.types import Matrix, Vector
from flowratio.samples.weighting import weighted_moments

_STEPS = 64  # bins per unit of a normal score: no curve changes within a bin
_GROUPS = (5, 20)  # of a step function, with about the same number of rows
_FAR = 8.0  # standard deviations of x, from where on single rows decide a quadratic
_RIDGE = 0.1  # rows: keeps slopes finite if a column separates the samples
_MAX_NEWTON = 30
_HALF = 0.5  # rows added to each count: log-odds have no bias of first order (Haldane, Anscombe)
_MAX_ROWS = 20_000  # of a sample, for the dependence of two columns
_MAX_VALUES = 20  # of a column that is not treated as continuous there
_SMALLEST = 1e-9
_MIN_ROWS = 10  # of a category whose errors are nearly Gaussian


class Variance(NamedTuple):
    """Variance of log r, where both samples count one half, without what chance adds, and its standard error."""

    value: float  # may be negative, by chance
    standard_error: float


class _Fit(NamedTuple):
    variance: Variance
    criterion: float  # of Schwarz: the smallest is the best


def effect_of(variances: list[Variance]) -> tuple[float, float]:
    """Return a standard deviation and its standard error, from variances that add up.

    The error is the distance to the root of the variance plus its error. So it is also right near 0.
    """
    total = max(sum(variance.value for variance in variances), 0.0)
    error = math.sqrt(sum(variance.standard_error**2 for variance in variances))
    return math.sqrt(total), math.sqrt(total + error) - math.sqrt(total)


def variance_of_number(x: Vector, u: Vector, is_missing: Vector, n_p: int) -> Variance:
    r"""Return the variance of log r of a column of numbers.

    log r is quadratic in x (right for two Gaussians), or a polynomial of degree 4 in the normal scores u, or a step
    function of 20 groups: whichever has the smallest criterion of Schwarz. All have the shape (n,), the first n_p rows
    are those of p. Missing values have their own log r.
    """
    position = np.rint(_STEPS * u).astype(np.int64)
    position -= position.min()
    position[is_missing] = position.max() + 1
    values, position = np.unique(position, return_inverse=True)
    a, b = (np.bincount(part, minlength=len(values)).astype(np.float64) for part in (position[:n_p], position[n_p:]))
    means = [np.bincount(position, column) / (a + b) for column in (x, u)]
    has_missing = bool(is_missing.any())
    n_curves = len(values) - has_missing
    if n_curves <= 1:
        return variance_of_categories(a, b)
    has_tails = n_curves > 3 and bool(np.abs(x[~is_missing]).max() > _FAR)
    fits = [] if has_tails else [_curve(means[0], 2, a, b, has_missing)]
    if n_curves > 3:  # a quadratic goes through 3 points
        fits += [_curve(means[1], degree, a, b, has_missing, 1) for degree in (2, 4)]
        fits += [_steps(n_groups, a, b, has_missing) for n_groups in _GROUPS]
    return min(fits, key=lambda fit: fit.criterion).variance


def _curve(x: Vector, degree: int, a: Vector, b: Vector, has_missing: bool, n_extra: int = 0) -> _Fit:
    """Fit a polynomial to the counts a and b of both samples at positions x, all of shape (m,). The last is missing.

    `n_extra` parameters count in the criterion: a map of x that was learned from the data.
    """
    there = slice(None, len(x) - has_missing)
    degree = min(degree, len(x[there]) - 1)
    share = a / (2 * a.sum()) + b / (2 * b.sum())
    mean, scale = weighted_moments(x[there, None], share[there] / share[there].sum())
    F = np.zeros((len(x), degree + has_missing))
    F[there, :degree] = ((x[there, None] - mean) / scale) ** np.arange(1, degree + 1)
    if has_missing:
        F[-1, -1] = 1.0
    fit = logistic_variance(F, a, b)
    return fit._replace(criterion=fit.criterion + n_extra * math.log(a.sum() + b.sum()))


def logistic_variance(F: Matrix, a: Vector, b: Vector) -> _Fit:
    """Fit log r = θ · F + constant by logistic regression. F is (m, k), with a rows of p and b rows of q, (m,)."""
    n_p, n_q = a.sum(), b.sum()
    share = a / (2 * n_p) + b / (2 * n_q)
    mean, scale = weighted_moments(F, share)
    F = np.column_stack([(F - mean) / scale, np.ones(len(F))])
    ridge = np.append(np.full(F.shape[1] - 1, _RIDGE), 0.0)
    theta = np.append(np.zeros(F.shape[1] - 1), math.log(n_p / n_q))
    loss, probability, information = _logistic_loss(theta, F, a, b, ridge)
    for _ in range(_MAX_NEWTON):
        step = np.linalg.solve(information, F.T @ (a - (a + b) * probability) - ridge * theta)
        before = loss
        while True:
            loss, probability, information = _logistic_loss(theta + step, F, a, b, ridge)
            if loss <= before + 1e-9 or np.abs(step).max() < 1e-9:
                break
            step /= 2
        theta = theta + step
        if before - loss < 1e-6:
            break
    log_r = F @ theta
    g = np.square(log_r - share @ log_r)
    moments = F.T @ (share[:, None] * F)
    center = share @ F
    covariance = moments - np.outer(center, center)  # of the constant: 0
    inverse = np.linalg.inv(information)
    spread = covariance @ inverse
    slope = 2 * theta @ spread  # derivative of the variance by the scores of the rows, (k + 1,)
    of_p, of_q = g / (2 * n_p) + (1 - probability) * (F @ slope), g / (2 * n_q) - probability * (F @ slope)
    by_rows = _variance_of_sum(of_p, a) + _variance_of_sum(of_q, b)
    by_model = float(slope @ information @ slope)
    noise = 2 * float(np.sum(spread * spread.T))
    variance = Variance(float(share @ g) - float(np.trace(spread)), math.sqrt(max(by_rows, by_model) + noise))
    return _Fit(variance, 2 * loss + (F.shape[1] - 1) * math.log(n_p + n_q))


def _logistic_loss(theta: Vector, F: Matrix, a: Vector, b: Vector, ridge: Vector) -> tuple[float, Vector, Matrix]:
    logit = F @ theta
    probability = expit(logit)
    loss = float(a @ np.logaddexp(0, -logit) + b @ np.logaddexp(0, logit) + ridge @ theta**2 / 2)
    weight = (a + b) * probability * (1 - probability)
    return loss, probability, F.T @ (weight[:, None] * F) + np.diag(ridge)


def _variance_of_sum(values: Vector, counts: Vector) -> float:
    """Return the variance of a sum over rows that have their values at counted positions, (m,)."""
    n = counts.sum()
    return float(counts @ np.square(values - counts @ values / n))


def _steps(n_groups: int, a: Vector, b: Vector, has_missing: bool) -> _Fit:
    """Fit a step function to the counts of both samples, in order, (m,)."""
    total = (a + b)[: len(a) - has_missing]
    group = np.floor(n_groups * (np.cumsum(total) - total / 2) / total.sum()).astype(np.int64)
    group = np.unique(group, return_inverse=True)[1]
    if has_missing:
        group = np.append(group, group.max() + 1)
    a, b = np.bincount(group, a), np.bincount(group, b)
    n = a + b
    loss = -float(np.sum(xlogy(a, a / n) + xlogy(b, b / n)))
    return _Fit(variance_of_categories(a, b), 2 * loss + (len(a) - 1) * math.log(n.sum()))


def variance_of_categories(a: Vector, b: Vector) -> Variance:
    r"""Return the variance of log r of categories with a rows of p and b rows of q, of shape (K,).

    .. math:: \sum_k \pi_k \big(\ell_k^2 - E \epsilon_k^2\big), \qquad
        \ell_k = \log\frac{a_k + 1/2}{b_k + 1/2} + \mathrm{const}

    where π are the shares and ε the errors of ℓ. Log-odds of rare categories cannot be far from 0.
    """
    present = a + b > 0
    a, b = a[present], b[present]
    n_p, n_q = a.sum(), b.sum()
    share = a / (2 * n_p) + b / (2 * n_q)
    log_r = np.log((a + _HALF) / (b + _HALF))
    log_r -= share @ log_r
    g, spread = np.square(log_r), _error_variance(a, b, n_p / (n_p + n_q))
    by_rows = _variance_of_sum(g / (2 * n_p) + 2 * share * log_r / (a + _HALF), a)
    by_rows += _variance_of_sum(g / (2 * n_q) - 2 * share * log_r / (b + _HALF), b)
    by_model = 4 * float(share**2 @ (g * spread))
    noise = 2 * float(np.sum(np.square(share * spread)))
    return Variance(float(share @ (g - (1 - share) * spread)), math.sqrt(max(by_rows, by_model) + noise))


def _error_variance(a: Vector, b: Vector, of_p: float) -> Vector:
    """Return the mean squared error of log-odds from counts, (K,): by chance alone for fewer than 10 rows."""
    variance = 1 / (a + _HALF) + 1 / (b + _HALF)
    center = math.log(of_p / (1 - of_p))
    for n in range(1, _MIN_ROWS):
        k = np.arange(n + 1)
        square = np.square(np.log((k + _HALF) / (n - k + _HALF)) - center)
        variance[a + b == n] = binom.pmf(k, n, of_p) @ square
    return variance


def variance_of_pair(x: Vector, y: Vector, n_p: int) -> Variance:
    """Return the variance of the log-ratio of how two columns depend on each other, by two Gaussian copulas.

    Both have the shape (n,). Normal scores within each sample have the same margins, so only the dependence is left.
    """
    scores, counts = [], []
    for k, part in enumerate((slice(None, n_p), slice(n_p, None))):
        pair = np.column_stack([x[part], y[part]])[:: -(-len(x[part]) // _MAX_ROWS)]
        U = ndtri((rankdata(pair, axis=0) - 0.5) / len(pair))
        scores.append(U / np.maximum(U.std(axis=0), _SMALLEST))
        counts.append(np.full(len(pair), k == 0, np.float64))
    U, a = np.concatenate(scores), np.concatenate(counts)
    F = U[:, :1] * U[:, 1:]
    if min(len(np.unique(column)) for column in (x, y)) > _MAX_VALUES:  # squares of few values show their shares
        F = np.column_stack([F, np.square(U).sum(axis=1)])
    return logistic_variance(F, a, 1 - a).variance
