r"""Elliptical copulas: the ratio of a joint distribution to the product of its margins, with few parameters.

For normal scores z of the columns, and t = T⁻¹(Φ(z)) by Student's distribution with ν degrees of freedom,

.. math:: \log r = \log t_\nu(x, y; P) - \log t_\nu(x; P_{xx}) - \log t_\nu(y; P_{yy})

With infinite ν it is the Gaussian copula. Its canonical pairs show what strong dependence hides from a classifier: how
far y is from where x puts it, in units of the conditional width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import gammaln, ndtr, stdtrit

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.classifier.gaussian import GaussianDiscriminant

_DEGREES = (1.0, 1.4, 2.0, 2.8, 4.0, 6.0, 10.0, 20.0, 50.0)  # of freedom
_GRID = np.linspace(-8.0, 8.0, 16_001)  # of normal scores: none of 10⁹ rows is beyond
_EM_STEPS = 25
_MAX_PAIRS = 4  # canonical pairs that become features
_LEAST_CORRELATION = 0.3  # of a canonical pair that becomes a feature
_SMALLEST = 1e-11  # relative variance of a column given the others
_STRONG = 0.99  # canonical correlation above which correlations are not noise


@dataclass(frozen=True, eq=False)
class EllipticalRatio:
    """log r = log p(x, y) - log p(x) p(y) of an elliptical distribution. The first d_x columns of a row are x."""

    mean: Vector  # (d,)
    scale: Matrix  # (d, d)
    degrees: float  # of freedom; inf for a Gaussian
    d_x: int

    def log_ratio(self, Z: Matrix) -> np.ndarray:
        """Return log r of rows, (n, d) to (n,)."""
        d, d_x = Z.shape[1], self.d_x
        parts = [slice(None), slice(None, d_x), slice(d_x, None)]
        joint, x, y = (self._log_density(Z[:, part], part) for part in parts)
        constant = 0.0
        if math.isfinite(v := self.degrees):
            constant = gammaln((v + d) / 2) + gammaln(v / 2) - gammaln((v + d_x) / 2) - gammaln((v + d - d_x) / 2)
        return joint - x - y + constant

    def _log_density(self, Z: Matrix, part: slice) -> np.ndarray:
        """Return the log-density of some columns, up to constants of (d, ν)."""
        root = cholesky(_regular(self.scale[part, part]), lower=True)
        inverse = solve_triangular(root, np.eye(len(root)), lower=True)
        squares = np.square((Z - self.mean[part]) @ inverse.T).sum(axis=1)
        v = self.degrees
        tail = 0.5 * squares if math.isinf(v) else (v + len(root)) / 2 * np.log1p(squares / v)
        return -tail - float(np.log(np.diag(root)).sum())

    def largest_correlation(self) -> float:
        """Return the largest canonical correlation of x and y."""
        return float(_canonical(self.scale, self.d_x)[1].max())

    def smallest_width(self) -> float:
        """Return the smallest width of a column given all others, as a share of its marginal width."""
        precision = np.linalg.inv(_regular(_correlations(_regular(self.scale))))
        return float(1 / math.sqrt(np.diag(precision).max()))

    def canonical_residuals(self, Z: Matrix) -> np.ndarray:
        """Return y minus its mean given x, in units of its width given x, of the strongest canonical pairs, (n, 2k)."""
        d_x = self.d_x
        inverses, rho, (left, right) = _canonical(self.scale, d_x)
        k = min(int(np.count_nonzero(rho > _LEAST_CORRELATION)), _MAX_PAIRS)
        D = Z - self.mean
        white = D[:, :d_x] @ inverses[0].T, D[:, d_x:] @ inverses[1].T
        u, v = white[0] @ left[:, :k], white[1] @ right[:, :k]
        out: list[np.ndarray] = []
        for a, b, own in ((u, v, white[0]), (v, u, white[1])):
            width = np.sqrt(1 - rho[:k] ** 2)
            if math.isfinite(self.degrees):  # given x, the width grows with the distance of x
                width = (
                    width
                    * np.sqrt((self.degrees + np.square(own).sum(axis=1)) / (self.degrees + own.shape[1]))[:, None]
                )
            out.append(np.arcsinh((b - rho[:k] * a) / width))
        return np.hstack(out)


def fit_gaussian(P: Matrix, Q: Matrix, d_x: int) -> EllipticalRatio:
    """Fit a Gaussian to rows of the joint distribution (n, d). Q are rows of the product."""
    mean, scale = P.mean(axis=0), np.cov(P, rowvar=False)
    return EllipticalRatio(mean, _shrunken(P, Q, np.ones(len(P)), scale, d_x), math.inf, d_x)


def fit_student(P: Matrix, Q: Matrix, d_x: int, degrees: float) -> EllipticalRatio:
    """Fit Student's distribution with these degrees of freedom to rows (n, d) by EM. Q are rows of the product."""
    mean, scale, w = _em(P, degrees)
    return EllipticalRatio(mean, _shrunken(P, Q, w, scale, d_x), degrees, d_x)


def _shrunken(P: Matrix, Q: Matrix, w: Vector, scale: np.ndarray, d_x: int) -> np.ndarray:
    """Return the scale matrix with correlations shrunk by their noise, unless the dependence is very strong."""
    if _canonical(scale, d_x)[1].max() > _STRONG:
        return scale
    X, y = np.concatenate([P, Q]), np.repeat([1, 0], [len(P), len(Q)])
    weights = np.concatenate([w * len(P) / w.sum(), np.ones(len(Q))])
    model: Any = GaussianDiscriminant().fit(X, y, weights)
    factor = np.linalg.inv(model.densities_[0].root)  # the precision is root · rootᵀ
    covariance = factor.T @ factor
    return _correlations(covariance) * np.sqrt(np.outer(np.diag(scale), np.diag(scale)))


def _correlations(scale: np.ndarray) -> np.ndarray:
    d = 1 / np.sqrt(np.diag(scale))
    return scale * np.outer(d, d)


def _canonical(scale: np.ndarray, d_x: int) -> tuple[list[np.ndarray], np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the whitening matrices of x and y, the canonical correlations, and their directions."""
    roots = [cholesky(_regular(scale[part, part]), lower=True) for part in (slice(None, d_x), slice(d_x, None))]
    inverses = [solve_triangular(root, np.eye(len(root)), lower=True) for root in roots]
    left, rho, right = np.linalg.svd(inverses[0] @ scale[:d_x, d_x:] @ inverses[1].T, full_matrices=False)
    return inverses, np.clip(rho, 0.0, math.sqrt(1 - _SMALLEST)), (left, right.T)


def _regular(scale: np.ndarray) -> np.ndarray:
    return (
        scale + _SMALLEST * np.diag(np.diag(scale)) + 1e-12 * np.eye(len(scale))
    )  # a column may be constant in all folds except one


def _em(Z: Matrix, degrees: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return center (d,), scale matrix (d, d) and weights of rows (n,) of Student's distribution."""
    mean, scale = (
        np.median(Z, axis=0),
        np.atleast_2d(np.cov(np.clip(Z, *np.quantile(Z, [0.05, 0.95], axis=0)), rowvar=False)),
    )
    w = np.ones(len(Z))
    for _ in range(_EM_STEPS):
        scale = _regular(scale)
        D = Z - mean
        squares = np.square(solve_triangular(cholesky(scale, lower=True), D.T, lower=True)).sum(axis=0)
        w = (degrees + Z.shape[1]) / (degrees + squares)
        mean = w @ Z / w.sum()
        D = Z - mean
        scale = (D * w[:, None]).T @ D / w.sum()
    return mean, scale, w


def student_scores(Z: Matrix, degrees: float) -> np.ndarray:
    """Return normal scores (n, d) as scores of Student's distribution."""
    u = ndtr(np.minimum(_GRID, -_GRID))  # the smaller tail: exact far out
    grid = np.where(_GRID <= 0, 1.0, -1.0) * stdtrit(degrees, u)
    return np.interp(Z, _GRID, grid)


def copula_degrees(Z: Matrix) -> float:
    """Return the degrees of freedom with the largest likelihood of the copula of normal scores (n, d)."""
    likelihoods: list[float] = []
    for v in _DEGREES:
        T = student_scores(Z, v)
        scale = _correlations(_em(T, v)[1])
        likelihoods.append(float(np.mean(_student_density(T, scale, v) - _margins(T, v))))
    return _DEGREES[int(np.argmax(likelihoods))]


def student_degrees(Z: Matrix) -> float:
    """Return the degrees of freedom with the largest likelihood of rows (n, d) in their own units."""
    likelihoods = []
    for v in _DEGREES:
        mean, scale, w = _em(Z, v)
        scale = scale * float(w.mean())  # the scale of maximum likelihood, where the mean weight is 1
        likelihoods.append(float(np.mean(_student_density(Z - mean, scale, v))))
    return _DEGREES[int(np.argmax(likelihoods))]


def _margins(T: Matrix, v: float) -> np.ndarray:
    constant = gammaln((v + 1) / 2) - gammaln(v / 2) - 0.5 * math.log(v * math.pi)
    return T.shape[1] * constant - (v + 1) / 2 * np.log1p(T**2 / v).sum(axis=1)


def _student_density(Z: Matrix, scale: Matrix, v: float) -> np.ndarray:
    d = Z.shape[1]
    root = cholesky(_regular(scale), lower=True)
    squares = np.square(solve_triangular(root, Z.T, lower=True)).sum(axis=0)
    constant = gammaln((v + d) / 2) - gammaln(v / 2) - d / 2 * math.log(v * math.pi) - np.log(np.diag(root)).sum()
    return constant - (v + d) / 2 * np.log1p(squares / v)
