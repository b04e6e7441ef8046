r"""Discriminant analysis: Gaussian densities whose means and covariances are shrunk by their sampling noise.

.. math:: \log \hat p(x) = a - \tfrac12 \|L^{-1} (x - \bar x)\|^2, \qquad L L^\top \approx \mathrm{cov}_p
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from sklearn.base import BaseEstimator
from typing_extensions import Self

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.classifier.gaussian_rows import (
    GaussianDensity,
    Moments,
    moments_of,
    variance_floors,
    wide_density,
)
from flowratio.ratios.classifier.noise import Noisy, expected_noise_shares
from flowratio.scaling.whitener import noise_share

_SMALLEST = 1e-8  # added to the diagonal of a correlation matrix
_MAX_DEVIATIONS = 3.0  # standard deviations of the deviance, beyond which a sample contradicts a covariance
_BLENDS, _COARSE_BLENDS = (0.0, 0.125, 0.25, 0.5, 0.75, 0.9, 1.0), (0.0, 0.5, 1.0)
_SINGULAR = 1e-6  # share of its variance that a column has beyond the other columns, below which they determine it
_MANY_COLUMNS = 500  # with more columns a factorization takes seconds, so fewer blends are tried
_MIN_ROWS_PER_COLUMN = 3  # for a covariance of its own


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
        samples = [(X[y == label], w[y == label]) for label in (1, 0)]
        p, q = (moments_of(*sample, floors) for sample, floors in zip(samples, variance_floors(*samples), strict=True))
        self.densities_ = self._densities(p, q)
        self.log_odds_ = math.log(p.n / q.n)
        return self

    def _densities(self, p: Moments, q: Moments) -> list[GaussianDensity]:
        if p.n_rows + q.n_rows < len(p.means.value):  # the n × n form is cheaper
            centered = [wide_density(own, other, self.shared) for own, other in ((p, q), (q, p))]
        else:
            r_p, r_q = _correlations(p), _correlations(q)
            centered = [_dense_density(p, r_p, q, r_q, self.shared)]
            centered.append(centered[0] if self.shared else _dense_density(q, r_q, p, r_p, False))
        pairs = zip(centered, ((p, q), (q, p)), strict=True)
        return [_with_mean(density, own, other) for density, (own, other) in pairs]

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return the logit of rows, (n, d) to (n,)."""
        of_p, of_q = (density.log_prob(X) for density in self.densities_)
        return of_p - of_q + self.log_odds_


def _with_mean(density: GaussianDensity, own: Moments, other: Moments) -> GaussianDensity:
    """Return a density of mean 0 with the mean of its sample, which is that of both samples where they agree."""
    of_other = other.n / (own.n + other.n)
    difference = other.means.minus(own.means)
    scale = np.sqrt(own.n * own.means.noise + other.n * other.means.noise)
    shares = expected_noise_shares(Noisy(difference.value / scale, difference.noise / scale**2))
    noise = shares * difference.value
    deviance = own.n * of_other * float(density.distances(noise[None])[0])  # about the sum of shares, if it is noise
    if deviance > (expected := float(shares.sum())):
        noise *= math.sqrt(expected / deviance)
    return replace(density, mean=own.means.value + own.means.share_of_noise(other.means) * noise)


def _correlations(sample: Moments) -> Noisy:
    """Return the correlations below the diagonal, row by row."""
    R, noise = sample.correlations(slice(None), slice(None))
    below = np.tril_indices(len(R), -1)
    return Noisy(R[below], noise[below])


def _dense_density(own: Moments, r_own: Noisy, other: Moments, r_other: Noisy, shared: bool) -> GaussianDensity:
    """Return the density of mean 0 of a sample, whose covariance is shrunk toward the other one and independence."""
    lower = _covariance_factor(own, r_own, other, r_other, shared)
    lower = lower if shared else _with_floors(lower, own, other)
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
    return GaussianDensity(np.zeros(len(lower)), inverse.T, -float(np.log(np.diag(lower)).sum()))


def _covariance_factor(own: Moments, r_own: Noisy, other: Moments, r_other: Noisy, shared: bool) -> Matrix:
    """Return the lower factor (d, d) of the covariance of a sample, shrunk toward the other one and independence.

    Each entry is shrunk by its own share. If the result is not a covariance, or the sample contradicts it, it is
    blended with the covariance whose entries all have one share. If that fails too, the latter is blended with the
    covariance of the sample.
    """
    of_other = other.n / (own.n + other.n)

    def shrunk(shares: Callable[[Noisy], Vector], entrywise: bool = False) -> Matrix:
        entries: list[Noisy] = []
        for mine, its in ((own.log_variances, other.log_variances), (r_own, r_other)):
            way = mine.share_of_noise(its) if entrywise and not shared else of_other
            entries.append(mine.moved_to(its, (1.0 if shared else shares(mine.minus(its))) * way))
        v, r = entries
        return _covariance(np.exp(v.value), (1 - shares(r)) * r.value)

    common = shrunk(_noise_share)
    n = own.n + other.n if shared else own.n
    d = np.count_nonzero(own.log_variances.noise)  # without constant columns
    if n <= d:  # the covariance of the sample is singular, and contradicts all others
        return cholesky(common, lower=True)
    entrywise = shrunk(expected_noise_shares, entrywise=True)
    sample = shrunk(lambda entries: np.zeros_like(entries.value))
    n_entries = d + np.count_nonzero(r_own.value)
    limit = n_entries + _MAX_DEVIATIONS * math.sqrt(2 * n_entries)  # a chi-squared variable rarely exceeds it
    legs = ((entrywise, common), (common, sample)) if n > _MIN_ROWS_PER_COLUMN * d else ((entrywise, common),)
    sample_log_det = float(np.linalg.slogdet(sample)[1])
    for start, end in legs:
        for blend in _BLENDS if len(sample) <= _MANY_COLUMNS else _COARSE_BLENDS:
            lower = _factor(start + blend * (end - start))
            if lower is not None and n * _deviance(sample, sample_log_det, lower) <= limit:
                return lower
    return cholesky(common, lower=True)


def _with_floors(lower: Matrix, own: Moments, other: Moments) -> Matrix:
    """Return a lower factor (d, d) with least variances in directions in which only the other sample varies.

    Columns that always add up to 1 in one sample, such as two categories, are an example. The floor is that of
    `variance_floors`.
    """
    scales = np.sqrt(np.square(lower).sum(axis=1))
    L = lower / scales[:, None]
    if np.square(np.diag(L)).min() > _SINGULAR:
        return lower
    values, directions = np.linalg.eigh(L @ L.T)
    null = values < _SINGULAR
    V = directions[:, null] / scales[:, None]
    correlations = other.correlations(slice(None), slice(None))[0]
    deviations = np.exp(other.log_variances.value / 2)
    difference = (other.means.value - own.means.value) @ V
    pooled = np.einsum("ik,ij,jk->k", V * deviations[:, None], correlations, V * deviations[:, None]) / 2
    values[null] = np.maximum(values[null], 2 / math.log1p(own.n) * (pooled + difference**2 / 4))
    return scales[:, None] * cholesky((directions * values) @ directions.T, lower=True)


def _factor(candidate: Matrix) -> Matrix | None:
    """Return the lower factor (d, d), or None if the candidate is not a covariance."""
    try:
        return cholesky(candidate, lower=True)
    except np.linalg.LinAlgError:
        return None


def _deviance(sample: Matrix, sample_log_det: float, lower: Matrix) -> float:
    """Return twice the divergence of two Gaussians with these covariances. The second one has this lower factor."""
    log_det = 2 * float(np.log(np.diag(lower)).sum())
    return float(np.trace(cho_solve((lower, True), sample)) - sample_log_det + log_det) - len(sample)


def _covariance(variances: np.ndarray, below: Vector) -> np.ndarray:
    """Return a covariance (d, d) from variances (d,) and the correlations below its diagonal."""
    d = len(variances)
    out = np.zeros((d, d))
    out[np.tril_indices(d, -1)] = below
    scales = np.sqrt(variances)
    return scales[:, None] * (out + out.T + (1 + _SMALLEST) * np.eye(d)) * scales


def _noise_share(entries: Noisy) -> Vector:
    """Return the share of the sum of squares that is sampling noise, from 0 to 1, the same for all entries."""
    total = float(np.square(entries.value).sum())
    return np.full_like(entries.value, noise_share(float(entries.noise.sum()), total))
