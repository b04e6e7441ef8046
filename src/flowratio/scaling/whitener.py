"""Remove the correlations of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from flowratio.scaling.curves import Pair

if TYPE_CHECKING:
    pass
from flowratio.scaling.base import Scaler


class Whitener(Scaler):
    r"""Remove the correlations of the columns, in their order: z = L⁻¹ (x − m), with L triangular.

    .. math:: L L^\top = D\,((1 - \lambda) R + \lambda I)\,D, \qquad \log|\det| = -\sum_j \log L_{jj}

    R holds the correlations and D the standard deviations. λ is the share of the off-diagonal sum of squares of R that
    is owed to chance, :math:`\sum_{i \ne j} (1 - R_{ij}^2)^2 / n` of it [1]_: a few rows do not make correlations.

    Attributes
    ----------
    mean_
        Means, of shape (d,).
    mixing_, unmixing_
        L and its inverse, of shape (d, d).

    References
    ----------
    .. [1] Schäfer, Strimmer (2005). *A shrinkage approach to large-scale covariance matrix estimation.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 1))
    >>> Z = Whitener().fit_transform(np.hstack([x, x + 0.1 * rng.normal(size=(1000, 1))]))
    >>> bool(abs(np.corrcoef(Z, rowvar=False)[0, 1]) < 0.01)
    True
    """

    def _fit(self, X: np.ndarray, names: Sequence[str] | None) -> None:
        del names
        n, d = X.shape
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        centred = X - self.mean_
        scale = np.sqrt(np.mean(centred**2, axis=0))
        if not scale.all():
            raise ValueError("`X` has a constant column: standardize first, which leaves it out.")
        R = centred.T @ centred / n / np.outer(scale, scale)
        off = ~np.eye(d, dtype=bool)
        chance = np.sum((1 - R[off] ** 2) ** 2) / n
        share = min(1.0, max(chance / max(np.sum(R[off] ** 2), 1e-300), 1e-9))  # never singular
        self.mixing_ = np.linalg.cholesky((1 - share) * R + share * np.eye(d)) * scale[:, None]
        self.unmixing_ = solve_triangular(self.mixing_, np.eye(d), lower=True)

    def _forward(self, X: np.ndarray, rng: np.random.Generator | None) -> Pair:
        return (X - self.mean_) @ self.unmixing_.T, self._log_det(len(X))

    def _inverse(self, Z: np.ndarray) -> Pair:
        return Z @ self.mixing_.T + self.mean_, self._log_det(len(Z))

    def _log_det(self, n: int) -> np.ndarray:
        return np.full(n, -np.log(np.diag(self.mixing_)).sum())
