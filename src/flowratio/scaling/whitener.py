"""Remove the correlations between columns (whitening)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from flowratio.scaling.base import Scaler
from flowratio.scaling.curves import Pair


class Whitener(Scaler):
    r"""Remove the correlations between columns by Cholesky whitening: z = L⁻¹ (x − m), with L lower triangular.

    .. math:: L L^\top = D\,((1 - \lambda) R + \lambda I)\,D, \qquad \log|\det| = -\sum_j \log L_{jj}

    R is the matrix of correlations, D the standard deviations, and λ the share from `shrunk_correlation`. The fitted
    `mean_` is m, of shape (d,), and `mixing_` and `unmixing_` are L and its inverse, of shape (d, d).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 1))
    >>> Z = Whitener().fit_transform(np.hstack([x, x + 0.1 * rng.normal(size=(1000, 1))]))
    >>> bool(abs(np.corrcoef(Z, rowvar=False)[0, 1]) < 0.01)
    True
    """

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        n, d = X.shape
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        centered = X - self.mean_
        scale = np.sqrt(np.mean(centered**2, axis=0))
        if not scale.all():
            raise ValueError("`X` has a constant column. Use a `Standardizer` first, which leaves it out.")
        R, _ = shrunk_correlation(centered.T @ centered / n / np.outer(scale, scale), n)
        self.mixing_ = np.linalg.cholesky(R) * scale[:, None]
        self.unmixing_ = solve_triangular(self.mixing_, np.eye(d), lower=True)

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        return (X - self.mean_) @ self.unmixing_.T, np.full(len(X), -np.log(np.diag(self.mixing_)).sum())

    def _inverse(self, Z: np.ndarray) -> Pair:
        return Z @ self.mixing_.T + self.mean_, np.full(len(Z), -np.log(np.diag(self.mixing_)).sum())


def shrunk_correlation(R: np.ndarray, n: float, min_share: float = 1e-9) -> tuple[np.ndarray, float]:
    r"""Shrink correlations R, (d, d), of n rows by the share of their squares that is sampling noise [1]_.

    .. math:: (1 - \lambda) R + \lambda I, \qquad
              \lambda = \sum_{i \ne j} \frac{(1 - R_{ij}^2)^2}{n} \Big/ \sum_{i \ne j} R_{ij}^2

    λ is at least `min_share`, so that the result is never singular. Return the shrunk correlations and 1 − λ.

    .. [1] Schäfer, Strimmer (2005). *A shrinkage approach to large-scale covariance matrix estimation.*
    """
    off = R[~np.eye(len(R), dtype=bool)]
    share = noise_share(float(np.sum((1 - off**2) ** 2) / n), float(np.sum(off**2)), min_share)
    return (1 - share) * R + share * np.eye(len(R)), 1 - share


def noise_share(noise: float, total: float, min_share: float = 0.0) -> float:
    """Return the share of a sum of squares that is expected from sampling noise alone, from `min_share` to 1."""
    return min(1.0, max(noise / max(total, 1e-300), min_share))
