r"""A classifier by densities: normal laws with one covariance, so that log r is linear, or with two: quadratic.

.. math:: \log \hat p(x) = a - \tfrac12 \|L^{-1} (x - \bar x)\|^2, \qquad L L^\top \approx \mathrm{cov}_p
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import digamma
from sklearn.base import BaseEstimator
from typing_extensions import Self

_SMALLEST = 1e-8  # variance within a sample, in units of that of both
_LEAST_FACTOR = 0.1  # of the precision, where columns outnumber rows


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


class GaussianDiscriminant(BaseEstimator):
    r"""Tell two samples apart as if each were normal: discriminant analysis, with weights, and without its bias.

    Plugged-in moments tell samples apart too surely: the inverse of a covariance of ν degrees of freedom is too large
    by the factor ν/(ν - d - 1) on average, its log-determinant is too small, and the distance to the mean of n rows is
    too large by d/n. All three are known, and taken out: for normal samples the log-ratio has no bias at any x.
    Correlations are shrunk by the share d/ν, which matters only where columns are many for the rows.

    Parameters
    ----------
    shared
        Whether both samples have one covariance.

    Attributes
    ----------
    laws_
        Of the samples with y = 1 and with y = 0.
    log_odds_
        Of the sample.
    """

    laws_: list[NormalLaw]
    log_odds_: float

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,) that count rows."""
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        samples = [(X[y == label], w[y == label]) for label in (1, 0)]
        counts = [float(v.sum()) for _, v in samples]
        means = [v @ rows / n for (rows, v), n in zip(samples, counts, strict=True)]
        scatters = [((rows - mean).T * v) @ (rows - mean) for (rows, v), mean in zip(samples, means, strict=True)]
        dofs = [max(n - 1, 1.0) for n in counts]
        if self.shared:
            scatters, dofs = [scatters[0] + scatters[1]] * 2, [dofs[0] + dofs[1]] * 2
        self.laws_ = [_law(*found) for found in zip(means, counts, scatters, dofs, strict=True)]
        self.log_odds_ = math.log(counts[0] / counts[1])
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the logit of rows, (n, d) to (n,)."""
        of_p, of_q = (law.log_prob(X) for law in self.laws_)
        return of_p - of_q + self.log_odds_


def _law(mean: np.ndarray, n: float, scatter: np.ndarray, dof: float) -> NormalLaw:
    """Return the normal law of n rows with this mean (d,) and this scatter (d, d) of so many degrees of freedom."""
    d = len(mean)
    covariance = scatter / dof
    variances = np.diag(covariance) + _SMALLEST
    shrunk = min(1.0, d / dof)
    covariance = (1 - shrunk) * covariance + shrunk * np.diag(variances) + _SMALLEST * np.eye(d)
    lower = cholesky(covariance, lower=True)
    inverse = solve_triangular(lower, np.eye(d), lower=True)
    factor = max((dof - d - 1) / dof, _LEAST_FACTOR)
    log_det = 2 * float(np.log(np.diag(lower)).sum())
    if dof > d:  # the mean of log|S| under normality, less that of the truth
        log_det -= float(digamma((dof - np.arange(d)) / 2).sum()) - d * math.log(dof / 2)
    return NormalLaw(mean, inverse.T * math.sqrt(factor), 0.5 * (d / n - log_det))
