r"""A classifier by densities: normal laws whose covariances are as different, and as correlated, as the rows can tell.

.. math:: \log \hat p(x) = a - \tfrac12 \|L^{-1} (x - \bar x)\|^2, \qquad L L^\top \approx \mathrm{cov}_p
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import BaseEstimator
from typing_extensions import Self

_SMALLEST = 1e-8  # variance within a sample, in units of that of both


@dataclass(frozen=True)
class NormalLaw:
    """A log-density, a constant aside that all laws of d columns share.

    Parameters
    ----------
    mean
        Of shape (d,).
    root
        Whose product with its transpose is the precision, of shape (d, d).
    constant
        Log-density at the mean.
    """

    mean: np.ndarray
    root: np.ndarray
    constant: float

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Return the log-density of rows, (n, d) to (n,)."""
        return self.constant - 0.5 * np.square((X - self.mean) @ self.root).sum(axis=1)


@dataclass(frozen=True)
class _Moments:
    """Of one sample: size and mean (d,), variances (d,) and correlations (d, d), and the squared errors of these."""

    n: float
    mean: np.ndarray
    variances: np.ndarray
    variance_noise: np.ndarray
    correlations: np.ndarray
    correlation_noise: np.ndarray


class GaussianDiscriminant(BaseEstimator):
    r"""Tell two samples apart as if each were normal: discriminant analysis, with weights, and shrunk by what is noise.

    The variances of both samples are drawn to their mean by the share of their squared difference that is sampling
    noise [1]_,

    .. math:: \lambda = \sum_j \mathrm{var}(\hat v^p_j - \hat v^q_j) \Big/ \sum_j (\hat v^p_j - \hat v^q_j)^2

    and so are their correlations; these are then drawn to 0 by the same rule. Two samples of one covariance have a
    log-ratio that is nearly linear, and independent columns one that is nearly a sum over columns.

    Parameters
    ----------
    shared
        Whether both samples have one covariance for certain.

    Attributes
    ----------
    laws_
        Of the samples with y = 1 and with y = 0.
    log_odds_
        Of the sample.

    References
    ----------
    .. [1] Schäfer, Strimmer (2005). *A shrinkage approach to large-scale covariance matrix estimation.* SAGMB.
    """

    laws_: list[NormalLaw]
    log_odds_: float

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,) that count rows."""
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        p, q = (_moments(X[y == label], w[y == label]) for label in (1, 0))
        alike = 1.0, 1.0
        if not self.shared:
            alike = (
                _noise_share(p.variance_noise + q.variance_noise, p.variances - q.variances),
                _noise_share(p.correlation_noise + q.correlation_noise, p.correlations - q.correlations),
            )
        self.laws_ = [_law(p, q, *alike), _law(q, p, *alike)]
        self.log_odds_ = math.log(p.n / q.n)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the logit of rows, (n, d) to (n,)."""
        of_p, of_q = (law.log_prob(X) for law in self.laws_)
        return of_p - of_q + self.log_odds_


def _moments(X: np.ndarray, w: np.ndarray) -> _Moments:
    n = float(w.sum())
    dof = max(n - 1, 1.0)
    mean = w @ X / n
    D = X - mean
    squares = np.square(D)
    covariance = (D.T * w) @ D / dof
    noise = np.maximum((squares.T * w) @ squares / n - covariance**2, 0.0) / dof
    variances = np.diag(covariance) + _SMALLEST
    scale = np.outer(variances, variances)
    correlations = covariance / np.sqrt(scale)
    np.fill_diagonal(correlations, 0.0)  # they are 1, and no noise is in them
    correlation_noise = noise / scale * (1 - correlations**2)
    np.fill_diagonal(correlation_noise, 0.0)
    return _Moments(n, mean, variances, np.diag(noise), correlations, correlation_noise)


def _noise_share(noise: np.ndarray, value: np.ndarray) -> float:
    """Return which share of the squared entries of an array is sampling noise, from 0 to 1."""
    total = float(np.square(value).sum())
    return min(1.0, float(noise.sum()) / total) if total > 0 else 1.0


def _law(own: _Moments, other: _Moments, alike_variances: float, alike_correlations: float) -> NormalLaw:
    """Return the normal law of a sample, whose spread is taken from the other one as far as they are alike."""
    of_other = other.n / (own.n + other.n)
    v, c = alike_variances * of_other, alike_correlations * of_other
    variances = (1 - v) * own.variances + v * other.variances
    correlations = (1 - c) * own.correlations + c * other.correlations
    noise = (1 - c) ** 2 * own.correlation_noise + c**2 * other.correlation_noise
    correlations = (1 - _noise_share(noise, correlations)) * correlations
    np.fill_diagonal(correlations, 1 + _SMALLEST)
    lower = cholesky(correlations, lower=True) * np.sqrt(variances)[:, None]
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
    return NormalLaw(own.mean, inverse.T, -float(np.log(np.diag(lower)).sum()))
