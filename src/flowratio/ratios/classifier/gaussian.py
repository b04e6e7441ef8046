r"""A classifier by densities: normal laws whose covariances are as different, and as correlated, as the rows can tell.

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

_SMALLEST = 1e-8  # variance within a sample, in units of that of both
_N_SPREADS = 24
_EM_STEPS = 30
_RAREST = 1e-6  # share of entries
_SURELY = 3.0  # standard deviations beyond which a sample speaks against correlations
_WAYS_BACK = (0.0, 0.125, 0.25, 0.5, 0.75, 0.9, 1.0)
_ENOUGH = 3  # rows for each column, for a covariance of its own


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
class _Noisy:
    """Values (m,) and the squares of their standard errors."""

    value: np.ndarray
    noise: np.ndarray

    def minus(self, other: _Noisy) -> _Noisy:
        return _Noisy(self.value - other.value, self.noise + other.noise)

    def share_of_noise(self, other: _Noisy) -> np.ndarray:
        """Return how much of the noise of a difference is that of the first."""
        return self.noise / np.maximum(self.noise + other.noise, _SMALLEST**2)

    def drawn_to(self, other: _Noisy, share: np.ndarray | float) -> _Noisy:
        """Return what is that share of the way to another."""
        value = self.value + share * (other.value - self.value)
        return _Noisy(value, (1 - share) ** 2 * self.noise + share**2 * other.noise)


@dataclass(frozen=True)
class _Moments:
    """Of one sample: its size, means (d,), logs of variances (d,), and correlations below the diagonal, row by row."""

    n: float
    means: _Noisy
    log_variances: _Noisy
    correlations: _Noisy


class GaussianDiscriminant(BaseEstimator):
    r"""Tell two samples apart as if each were normal: discriminant analysis, with weights, and shrunk by what is noise.

    Means, variances and correlations of both samples are drawn to each other, and correlations then to 0, entry by
    entry. An entry with the value v and the squared standard error s² keeps what it is expected to hold [1]_,

    .. math:: v \cdot P(\theta \ne 0 \mid v) \cdot \frac{\tau^2}{\tau^2 + s^2}, \qquad
              \theta = 0 \text{ or } \theta \sim N(0, \tau^2)

    where τ and the share of entries that are 0 in truth are those under which all of them are likeliest. Two samples of
    one covariance have a log-ratio that is nearly linear; a change in few columns, or few correlations, is found among
    many that did not change, and hardly shrunk.

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
    .. [1] Johnstone, Silverman (2004). *Needles and straw in haystacks.* Annals of Statistics.
    """

    laws_: list[NormalLaw]
    log_odds_: float

    def __init__(self, shared: bool = False) -> None:
        self.shared = shared

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit to rows (n, d), labels (n,) of 0 and 1, and weights (n,) that count rows."""
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        p, q = (_moments(X[y == label], w[y == label]) for label in (1, 0))
        self.laws_ = [_law(own, other, self.shared) for own, other in ((p, q), (q, p))]
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
    below = np.tril_indices(len(variances), -1)
    scale = np.outer(variances, variances)[below]
    correlations = covariance[below] / np.sqrt(scale)
    return _Moments(
        n,
        _Noisy(mean, variances / n),
        _Noisy(np.log(variances), np.diag(noise) / variances**2),
        _Noisy(correlations, noise[below] / scale * (1 - correlations**2)),
    )


def _law(own: _Moments, other: _Moments, shared: bool) -> NormalLaw:
    """Return the normal law of a sample; where both are alike, it is taken from both."""
    of_other = other.n / (own.n + other.n)
    lower = _covariance_factor(own, other, shared)
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
    apart = other.means.minus(own.means)
    scale = np.sqrt(own.n * own.means.noise + other.n * other.means.noise)
    shares = _noise_shares(_Noisy(apart.value / scale, apart.noise / scale**2))
    noise = shares * apart.value
    against = own.n * of_other * float(np.square(inverse @ noise).sum())  # about the sum of shares, if it is noise
    if against > (most := float(shares.sum())):
        noise *= math.sqrt(most / against)
    mean = own.means.value + own.means.share_of_noise(other.means) * noise
    return NormalLaw(mean, inverse.T, -float(np.log(np.diag(lower)).sum()))


def _covariance_factor(own: _Moments, other: _Moments, shared: bool) -> np.ndarray:
    """Return the lower factor (d, d) of the covariance of a sample, drawn to that of the other one and to independence.

    Entry by entry this may end at a covariance that cannot be, or that the sample speaks against: then it goes some of
    the way back to the one that is drawn there all alike, and from there to that of the sample.
    """
    of_other = other.n / (own.n + other.n)

    pairs = (own.log_variances, other.log_variances), (own.correlations, other.correlations)

    def drawn(shares: Callable[[_Noisy], np.ndarray], each_for_itself: bool = False) -> np.ndarray:
        v, r = (
            mine.drawn_to(
                its,
                (1.0 if shared else shares(mine.minus(its)))
                * (mine.share_of_noise(its) if each_for_itself and not shared else of_other),
            )
            for mine, its in pairs
        )
        return _covariance(np.exp(v.value), (1 - shares(r)) * r.value)

    alike, each = drawn(_noise_share), drawn(_noise_shares, each_for_itself=True)
    seen, n = drawn(_no_share), own.n + other.n if shared else own.n
    d = np.count_nonzero(own.log_variances.noise)  # constant columns say nothing
    usual = _usual(d + np.count_nonzero(own.correlations.value))
    legs = ((each, alike), (alike, seen)) if n > _ENOUGH * d else ((each, alike),)
    for start, end in legs:
        for way in _WAYS_BACK:
            found = start + way * (end - start)
            if n * _deviance(seen, found) <= usual:
                return cholesky(found, lower=True)
    return cholesky(alike, lower=True)  # of few rows the covariance is singular, and speaks against all others


def _covariance(variances: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return a covariance (d, d), given the correlations below its diagonal."""
    d = len(variances)
    out = np.zeros((d, d))
    out[np.tril_indices(d, -1)] = below
    scales = np.sqrt(variances)
    return scales[:, None] * (out + out.T + (1 + _SMALLEST) * np.eye(d)) * scales


def _usual(n: float) -> float:
    """Return what a chi-squared number of n degrees of freedom rarely exceeds."""
    return n + _SURELY * math.sqrt(2 * n)


def _deviance(seen: np.ndarray, found: np.ndarray) -> float:
    """Return twice the nats a row that normal laws of two correlations are apart; inf if the second cannot be."""
    sign, log_det = np.linalg.slogdet(found)
    least = np.linalg.eigvalsh(found)[0]
    if sign <= 0 or least <= 0:
        return math.inf
    return float(np.trace(np.linalg.solve(found, seen)) - np.linalg.slogdet(seen)[1] + log_det) - len(seen)


def _no_share(entries: _Noisy) -> np.ndarray:
    """Return that nothing is noise."""
    return np.zeros_like(entries.value)


def _noise_share(entries: _Noisy) -> np.ndarray:
    """Return which share of the squared entries is sampling noise, from 0 to 1, for all alike."""
    total = float(np.square(entries.value).sum())
    return np.full_like(entries.value, min(1.0, float(entries.noise.sum()) / total) if total > 0 else 1.0)


def _noise_shares(entries: _Noisy) -> np.ndarray:
    """Return which share of each entry is expected to be noise, some entries being nothing else.

    The spread of the others is the likeliest of a grid, and the share of zeros the likeliest for it, by EM.
    """
    shares, some = np.ones_like(entries.value), entries.value != 0  # those of constant columns are, and say nothing
    if not some.any():
        return shares
    squares, noise = np.square(entries.value[some]), np.maximum(entries.noise[some], _SMALLEST**2)
    least, most = 0.02 * float(np.median(noise)), 2 * float(squares.max())
    spreads = np.geomspace(least, max(most, 2 * least), _N_SPREADS)[:, None]  # variances
    kept = spreads / (noise + spreads)  # (k, m)
    gain = 0.5 * (np.log1p(-np.minimum(kept, 1 - _SMALLEST)) + kept * squares / noise)
    zero = np.full_like(spreads, 0.5)  # share of entries that are 0 in truth
    alive = np.ones_like(kept)
    for _ in range(_EM_STEPS):
        alive = expit(np.log(1 / zero - 1) + gain)
        # one more that is not 0: few entries tell little
        zero = np.maximum((1 - alive).sum(axis=1, keepdims=True) / (len(squares) + 1), _RAREST)
    likelihood = np.logaddexp(np.log(zero), np.log1p(-zero) + gain).sum(axis=1) + np.log1p(-zero[:, 0])
    best = int(likelihood.argmax())
    shares[some] = 1 - alive[best] * kept[best]
    return shares
