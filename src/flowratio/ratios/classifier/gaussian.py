r"""Discriminant analysis: Gaussian densities whose means and covariances are shrunk by their sampling noise.

.. math:: \log \hat p(x) = a - \tfrac12 \|L^{-1} (x - \bar x)\|^2, \qquad L L^\top \approx \mathrm{cov}_p
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit
from sklearn.base import BaseEstimator
from typing_extensions import Self

from flowratio._support.types import Matrix, Vector
from flowratio.scaling.whitener import noise_share

_SMALLEST = 1e-8  # least variance within a sample, in units of that of both
_N_SPREADS, _EM_STEPS = 24, 30
_RAREST = 1e-6  # share of entries
_MAX_DEVIATIONS = 3.0  # standard deviations of the deviance, beyond which a sample contradicts a covariance
_BLENDS = (0.0, 0.125, 0.25, 0.5, 0.75, 0.9, 1.0)
_MIN_ROWS_PER_COLUMN = 3  # for a covariance of its own


@dataclass(frozen=True)
class GaussianDensity:
    """A log-density, up to a constant that all densities of d columns share."""

    mean: Vector  # (d,)
    root: Matrix  # of the precision, which is root · rootᵀ, (d, d)
    constant: float  # log-density at the mean

    def log_prob(self, X: Matrix) -> np.ndarray:
        """Return the log-density of rows, (n, d) to (n,)."""
        return self.constant - 0.5 * np.square((X - self.mean) @ self.root).sum(axis=1)


@dataclass(frozen=True)
class _Noisy:
    """Values (m,) and the squares of their standard errors, (m,)."""

    value: np.ndarray
    noise: np.ndarray

    def minus(self, other: _Noisy) -> _Noisy:
        return _Noisy(self.value - other.value, self.noise + other.noise)

    def share_of_noise(self, other: _Noisy) -> np.ndarray:
        """Return the share of the noise of a difference that comes from the first."""
        return self.noise / np.maximum(self.noise + other.noise, _SMALLEST**2)

    def moved_to(self, other: _Noisy, share: np.ndarray | float) -> _Noisy:
        """Return the values after a share of the way to another."""
        value = self.value + share * (other.value - self.value)
        return _Noisy(value, (1 - share) ** 2 * self.noise + share**2 * other.noise)


@dataclass(frozen=True)
class _Moments:
    """Size of a sample, means (d,), logs of variances (d,), and correlations below the diagonal, row by row."""

    n: float
    means: _Noisy
    log_variances: _Noisy
    correlations: _Noisy


class GaussianDiscriminant(BaseEstimator):
    r"""Discriminant analysis with weights, in which means, variances and correlations are shrunk by their noise.

    All entries of both samples are moved toward each other, and correlations then toward 0. An entry with value v and
    squared standard error s² keeps its posterior mean [1]_,

    .. math:: v \cdot P(\theta \ne 0 \mid v) \cdot \frac{\tau^2}{\tau^2 + s^2}, \qquad
              \theta = 0 \text{ or } \theta \sim N(0, \tau^2)

    where τ and the share of entries with θ = 0 have maximum likelihood. If `shared`, both samples have one covariance.
    `benchmarks/replacements.py` compares it with the shrunk LDA and QDA of scikit-learn.

    .. [1] Johnstone, Silverman (2004). *Needles and straw in haystacks.* Annals of Statistics.
    """

    densities_: list[GaussianDensity]  # of the samples with y = 1 and with y = 0
    log_odds_: float  # of the sample

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared

    def fit(self, X: Matrix, y: Vector, sample_weight: Vector | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,) that count rows."""
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        p, q = (_moments(X[y == label], w[y == label]) for label in (1, 0))
        self.densities_ = [_density(own, other, self.shared) for own, other in ((p, q), (q, p))]
        self.log_odds_ = math.log(p.n / q.n)
        return self

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return the logit of rows, (n, d) to (n,)."""
        of_p, of_q = (density.log_prob(X) for density in self.densities_)
        return of_p - of_q + self.log_odds_


def _moments(X: Matrix, w: Vector) -> _Moments:
    n = float(w.sum())
    dof = max(n - 1, 1.0)
    mean = w @ X / n
    D = X - mean
    squares = np.square(D)
    covariance = (D.T * w) @ D / dof
    noise = np.maximum((squares.T * w) @ squares / n - covariance**2, 0.0) / dof
    variances = np.diag(covariance) + _SMALLEST
    below = np.tril_indices(len(variances), -1)
    scale = np.outer(variances, variances)[below]
    correlations = covariance[below] / np.sqrt(scale)
    return _Moments(
        n,
        _Noisy(mean, variances / n),
        _Noisy(np.log(variances), np.diag(noise) / variances**2),
        _Noisy(correlations, noise[below] / scale * (1 - correlations**2)),
    )


def _density(own: _Moments, other: _Moments, shared: bool) -> GaussianDensity:
    """Return the density of a sample, from both samples where they agree."""
    of_other = other.n / (own.n + other.n)
    lower = _covariance_factor(own, other, shared)
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
    difference = other.means.minus(own.means)
    scale = np.sqrt(own.n * own.means.noise + other.n * other.means.noise)
    shares = _noise_shares(_Noisy(difference.value / scale, difference.noise / scale**2))
    noise = shares * difference.value
    deviance = own.n * of_other * float(np.square(inverse @ noise).sum())  # about the sum of shares, if it is noise
    if deviance > (expected := float(shares.sum())):
        noise *= math.sqrt(expected / deviance)
    mean = own.means.value + own.means.share_of_noise(other.means) * noise
    return GaussianDensity(mean, inverse.T, -float(np.log(np.diag(lower)).sum()))


def _covariance_factor(own: _Moments, other: _Moments, shared: bool) -> Matrix:
    """Return the lower factor (d, d) of the covariance of a sample, shrunk toward the other one and independence.

    If shrinking each entry by its own share gives no covariance, or one that the sample contradicts, it is blended with
    the covariance whose entries all have one share, and that one with the covariance of the sample.
    """
    of_other = other.n / (own.n + other.n)
    pairs = (own.log_variances, other.log_variances), (own.correlations, other.correlations)

    def shrunk(shares: Callable[[_Noisy], Vector], entrywise: bool = False) -> Matrix:
        entries: list[_Noisy] = []
        for mine, its in pairs:
            way = mine.share_of_noise(its) if entrywise and not shared else of_other
            entries.append(mine.moved_to(its, (1.0 if shared else shares(mine.minus(its))) * way))
        v, r = entries
        return _covariance(np.exp(v.value), (1 - shares(r)) * r.value)

    common, entrywise = shrunk(_noise_share), shrunk(_noise_shares, entrywise=True)
    sample = shrunk(lambda entries: np.zeros_like(entries.value))
    n = own.n + other.n if shared else own.n
    d = np.count_nonzero(own.log_variances.noise)  # without constant columns
    n_entries = d + np.count_nonzero(own.correlations.value)
    limit = n_entries + _MAX_DEVIATIONS * math.sqrt(2 * n_entries)  # a chi-squared variable rarely exceeds it
    legs = ((entrywise, common), (common, sample)) if n > _MIN_ROWS_PER_COLUMN * d else ((entrywise, common),)
    for start, end in legs:
        for blend in _BLENDS:
            candidate = start + blend * (end - start)
            if n * _deviance(sample, candidate) <= limit:
                return cholesky(candidate, lower=True)
    return cholesky(common, lower=True)  # the covariance of few rows is singular, and contradicts all others


def _covariance(variances: np.ndarray, below: Vector) -> np.ndarray:
    """Return a covariance (d, d) from variances (d,) and the correlations below its diagonal."""
    d = len(variances)
    out = np.zeros((d, d))
    out[np.tril_indices(d, -1)] = below
    scales = np.sqrt(variances)
    return scales[:, None] * (out + out.T + (1 + _SMALLEST) * np.eye(d)) * scales


def _deviance(sample: Matrix, candidate: Matrix) -> float:
    """Return twice the divergence of two Gaussians with these covariances, or inf if the second is no covariance."""
    sign, log_det = np.linalg.slogdet(candidate)
    if sign <= 0 or np.linalg.eigvalsh(candidate)[0] <= 0:
        return math.inf
    return float(np.trace(np.linalg.solve(candidate, sample)) - np.linalg.slogdet(sample)[1] + log_det) - len(sample)


def _noise_share(entries: _Noisy) -> Vector:
    """Return the share of the sum of squares that is sampling noise, from 0 to 1, the same for all entries."""
    total = float(np.square(entries.value).sum())
    return np.full_like(entries.value, noise_share(float(entries.noise.sum()), total))


def _noise_shares(entries: _Noisy) -> np.ndarray:
    """Return the expected share of noise of each entry, if some are noise only. A grid and EM maximize likelihood."""
    shares, nonzero = np.ones_like(entries.value), entries.value != 0  # entries of constant columns are 0
    if not nonzero.any():
        return shares
    squares, noise = np.square(entries.value[nonzero]), np.maximum(entries.noise[nonzero], _SMALLEST**2)
    least, most = 0.02 * float(np.median(noise)), 2 * float(squares.max())
    spreads = np.geomspace(least, max(most, 2 * least), _N_SPREADS)[:, None]  # variances
    signal = spreads / (noise + spreads)  # share of each entry that is no noise, (k, m)
    gain = 0.5 * (np.log1p(-np.minimum(signal, 1 - _SMALLEST)) + signal * squares / noise)
    zero = np.full_like(spreads, 0.5)  # share of entries whose true value is 0
    alive = np.ones_like(signal)
    for _ in range(_EM_STEPS):
        alive = expit(np.log(1 / zero - 1) + gain)
        # as if one more entry were not 0, because few entries carry little information
        zero = np.maximum((1 - alive).sum(axis=1, keepdims=True) / (len(squares) + 1), _RAREST)
    likelihood = np.logaddexp(np.log(zero), np.log1p(-zero) + gain).sum(axis=1) + np.log1p(-zero[:, 0])
    best = int(likelihood.argmax())
    shares[nonzero] = 1 - alive[best] * signal[best]
    return shares
