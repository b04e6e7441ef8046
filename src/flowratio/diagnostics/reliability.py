"""Whether the class probabilities σ(log r) of a ratio are right: the share of p in bins of equal mass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import chi2

from flowratio._support.types import Vector
from flowratio.diagnostics.scored_sample import ScoredSample

_MOST_BINS, _ROWS_IN_BIN = 10, 25
_Z = 1.959963984540054  # intervals of 95 %
_FARTHEST = 100.0  # standard deviations of log r by which log odds may move, for one
_LARGEST_ERROR = 1e6


@dataclass(frozen=True, eq=False)
class Reliability:
    """The reliability curve under even odds, k bins. r = p/q, p is y = 1. Every array has the shape (k,)."""

    predicted: Vector  # mean probability of p in each bin, increasing
    observed: Vector  # share of p in each bin, both samples counting one half
    low: Vector  # ends of Wilson's interval of 95 % around `observed`
    high: Vector
    mass: Vector  # share of all rows that is in each bin
    error: float  # expected calibration error, the mean over bins of abs(observed - predicted)
    noise: float  # expected value of `error` for the true ratio, by chance alone
    chi2: float  # sum over bins of squared standardized differences
    n_bins: int  # its degrees of freedom
    p_value: float
    slope: float  # b for which b log r + a fits the labels best: below 1 if overconfident, above 1 if underconfident
    slope_error: float


def reliability(p: ScoredSample, q: ScoredSample) -> Reliability:
    """Compare class probabilities with labels, bin by bin."""
    probability = expit(np.concatenate([p.log_r, q.log_r]))
    half = np.concatenate([p.share, q.share]) / 2
    is_p = np.repeat([True, False], [len(p.share), len(q.share)])
    k_of = _bins(probability, half, min(_MOST_BINS, max(1, int((p.n + q.n) / _ROWS_IN_BIN))))
    sums = partial(np.bincount, k_of)
    mass = sums(half)
    predicted, observed = (np.clip(sums(half * v) / mass, 0, 1) for v in (probability, is_p))
    # number of rows of one sample that know such a share equally well
    worth = 2 * mass / (observed / q.n + (1 - observed) / p.n)
    low, high = _wilson(observed, worth)
    difference = 2 * (sums(half * probability) - sums(half * is_p))
    spread = 2 * half * probability * (1 - probability)
    at_truth = sums(spread * ((1 - probability) / p.n + probability / q.n))
    at_rows = sums(4 * half**2 * (probability - is_p) ** 2)
    square = np.where(at_rows > 4 * at_truth, at_rows, at_truth)  # where r is very wrong, the rows estimate the error
    statistic, deviation = _chi_squared(difference, square, sums(spread), 1 / p.n + 1 / q.n)
    slope, slope_error = _slope(np.concatenate([p.log_r, q.log_r]), half, is_p)
    return Reliability(
        *(predicted, observed, low, high, mass),
        error=float(mass @ np.abs(observed - predicted)),
        noise=float(math.sqrt(2 / math.pi) * np.sum(deviation) / 2),
        chi2=statistic,
        n_bins=len(mass),
        p_value=float(chi2.sf(statistic, len(mass))),
        slope=slope,
        slope_error=slope_error,
    )


def _slope(log_r: Vector, half: Vector, is_p: Vector) -> tuple[float, float]:
    """Fit the labels by σ(a + b log r), and return b and its standard error. `half` are weights, (n,)."""
    center = float(half @ log_r)
    scale = math.sqrt(half @ (log_r - center) ** 2)
    if scale <= 1e-9 * max(1.0, abs(center)):  # a constant has no slope
        return 1.0, _LARGEST_ERROR
    U = np.stack([np.ones(len(log_r)), (log_r - center) / scale], axis=1)  # (n, 2)
    sign = np.where(is_p, 1.0, -1.0)

    def loss(beta: Vector) -> tuple[float, Vector]:
        margin = sign * (U @ beta)
        return -float(half @ log_expit(margin)), -((half * sign * expit(-margin)) @ U)

    bounds = [(-_FARTHEST, _FARTHEST)] * 2  # where no row is on the wrong side, the best slope is infinite
    fit: Any = minimize(loss, np.zeros(2), jac=True, bounds=bounds, method="L-BFGS-B")
    probability = expit(U @ fit.x)
    curvature = (U.T * (half * probability * (1 - probability))) @ U
    gradients = U * (half * (is_p - probability))[:, None]
    inverse = np.linalg.pinv(curvature)
    error = math.sqrt(max((inverse @ (gradients.T @ gradients) @ inverse)[1, 1], 0.0)) / scale
    return float(fit.x[1] / scale), min(error, _LARGEST_ERROR)


def _chi_squared(difference: Vector, square: Vector, mean: Vector, one_by_n: float) -> tuple[float, Vector]:
    r"""Return the squared length of the differences in units of their errors, and these errors, of shape (k,).

    With h = 1 on the rows of a bin and 0 elsewhere, mean_q[h r / (1 + r)] and mean_p[h / (1 + r)] have the same mean
    m_k for the true ratio. Their differences have the covariance :math:`\mathrm{diag}(s) - c\, m m^\top`, inverted by
    the formula of Sherman and Morrison. The arguments are the differences, s, m and c = 1/n_p + 1/n_q.
    """
    square = np.maximum(square, 1e-30)  # below it differences are rounding
    left = 1 - one_by_n * float(np.sum(mean**2 / square))  # 0 where r is constant, and its mean without error
    along = float(np.sum(difference * mean / square))
    statistic = float(np.sum(difference**2 / square)) + (one_by_n * along**2 / left if left > 1e-6 else 0.0)
    return statistic, np.sqrt(np.maximum(square - one_by_n * mean**2, 0))


def _bins(values: Vector, mass: Vector, n_bins: int) -> Vector:
    """Return the bin of each value, of shape (n,), counted from 0: bins of equal mass, equal values in one of them."""
    order = np.argsort(values, kind="stable")
    middle = np.cumsum(mass[order]) - mass[order] / 2
    k = np.minimum((n_bins * middle / mass.sum()).astype(int), n_bins - 1)
    starts = np.concatenate([[True], np.diff(values[order]) > 0])  # equal values go where the first of them is
    k = k[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    k_of = np.empty(len(values), int)
    k_of[order] = np.unique(k, return_inverse=True)[1]
    return k_of


def _wilson(share: Vector, n: Vector) -> tuple[Vector, Vector]:
    """Return the ends of Wilson's interval around shares of n rows, each of shape (k,)."""
    center = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return np.clip(center - half, 0, share), np.clip(center + half, share, 1)
