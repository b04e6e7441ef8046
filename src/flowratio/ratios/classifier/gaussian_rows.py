r"""Moments of a sample, and a Gaussian density from the rows themselves if they are fewer than the columns.

With n rows and d > n columns the shrunk covariance is a diagonal plus a product of n rows,

.. math:: C = V^{1/2} (\Delta + U^\top U) V^{1/2}, \qquad
          (\Delta + U^\top U)^{-1} = \Delta^{-1} - \Delta^{-1} U^\top (I + U \Delta^{-1} U^\top)^{-1} U \Delta^{-1}

so that only an n × n matrix is factorized.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.classifier.noise import Noisy
from flowratio.scaling.whitener import noise_share

_SMALLEST = 1e-8  # least variance within a sample, in units of that of both
_BLOCK_COLUMNS = 256  # columns whose correlations with all others are in memory at a time


@dataclass(frozen=True)
class GaussianDensity:
    """A log-density, up to a constant that all densities of d columns share."""

    mean: Vector  # (d,)
    root: Matrix  # of the precision, which is root · rootᵀ, (d, k)
    constant: float  # log-density at the mean
    diagonal: Vector | None = None  # (d,), if the precision is this diagonal minus root · rootᵀ

    def distances(self, D: Matrix) -> np.ndarray:
        """Return the squared lengths of differences in the metric of the precision, (n, d) to (n,)."""
        squares = np.square(D @ self.root).sum(axis=1)
        if self.diagonal is None:
            return squares
        return np.maximum(np.square(D) @ self.diagonal - squares, 0.0)

    def log_prob(self, X: Matrix) -> np.ndarray:
        """Return the log-density of rows, (n, d) to (n,)."""
        return self.constant - 0.5 * self.distances(X - self.mean)


@dataclass(frozen=True)
class Moments:
    """Means (d,) and logs of variances (d,) of a sample, and its rows, scaled so that rowsᵀ · rows are correlations."""

    n: float  # number of rows, counted by their weights
    means: Noisy
    log_variances: Noisy
    rows: Matrix  # (n_rows, d)
    squares: Matrix  # of the rows, scaled so that squaresᵀ · squares are their mean products, (n_rows, d)

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def correlations(self, left: slice, right: slice) -> tuple[Matrix, Matrix]:
        """Return correlations of some columns with others, (l, r), and the squares of their standard errors."""
        R = self.rows[:, left].T @ self.rows[:, right]
        noise = self.squares[:, left].T @ self.squares[:, right]
        return R, np.maximum(noise - R**2, 0.0) / max(self.n - 1, 1.0) * (1 - R**2)


def variance_floors(p: tuple[Matrix, Vector], q: tuple[Matrix, Vector]) -> tuple[Vector, Vector]:
    r"""Return the least variances of the columns of two samples of rows and weights, (d,) each.

    A column that is constant in a sample of n rows has no variance there, but another row may have another value. With

    .. math:: 2 / \log(1 + n)

    of the pooled variance, log r of two different constants is log(1 + n), about what n rows can show.
    """
    shares = [w / w.sum() for _, w in (p, q)]
    means = [share @ X for (X, _), share in zip((p, q), shares, strict=True)]
    variances = [share @ np.square(X - m) for (X, _), share, m in zip((p, q), shares, means, strict=True)]
    pooled = (variances[0] + variances[1]) / 2 + np.square(means[0] - means[1]) / 4
    floor_p, floor_q = (
        np.where(variance < _SMALLEST * pooled, 2 / math.log1p(w.sum()) * pooled, 0.0)
        for variance, (_, w) in zip(variances, (p, q), strict=True)
    )
    return floor_p, floor_q


def moments_of(X: Matrix, w: Vector, floors: Vector) -> Moments:
    """Return the moments of rows (n, d) with weights (n,) that count rows. `floors` are least variances, (d,)."""
    n = float(w.sum())
    dof = max(n - 1, 1.0)
    mean = w @ X / n
    D = X - mean
    squares = np.square(D)
    variances = w @ squares / dof
    noise = np.maximum(w @ np.square(squares) / n - variances**2, 0.0) / dof
    variances = np.maximum(variances, floors) + _SMALLEST
    D *= np.sqrt(w / dof)[:, None] / np.sqrt(variances)
    squares *= np.sqrt(w / n)[:, None] / variances
    logs = Noisy(np.log(variances), noise / variances**2)
    return Moments(n, Noisy(mean, variances / n), logs, D, squares)


def wide_density(own: Moments, other: Moments, shared: bool) -> GaussianDensity:
    """Return the density of mean 0 of a sample, whose covariance is shrunk toward the other one and independence.

    All entries have one share of noise: the covariance of fewer rows than columns is singular, so it cannot confirm a
    share for each entry.
    """
    of_other = other.n / (own.n + other.n)
    v_own, v_other = own.log_variances, other.log_variances
    way = of_other if shared else of_other * _share(v_own.minus(v_other))
    variances = np.exp(v_own.moved_to(v_other, way).value)
    sums = _CorrelationSums.of(own, other)
    way = of_other if shared else of_other * sums.share_of_difference()
    share = 1 - sums.share_after(way)
    U = np.concatenate([math.sqrt(share * (1 - way)) * own.rows, math.sqrt(share * way) * other.rows])  # (m, d)
    diagonal = 1 + _SMALLEST - np.square(U).sum(axis=0)  # the diagonal of correlations is 1
    scaled = U / diagonal
    lower = cholesky(scaled @ U.T + np.eye(len(U)), lower=True)  # (m, m)
    scale = 1 / np.sqrt(variances)
    root = solve_triangular(lower, scaled, lower=True) * scale  # (m, d)
    log_det = np.log(variances).sum() + np.log(diagonal).sum() + 2 * np.log(np.diag(lower)).sum()
    return GaussianDensity(np.zeros(len(scale)), root.T, -0.5 * float(log_det), scale**2 / diagonal)


def _share(entries: Noisy) -> float:
    return noise_share(float(entries.noise.sum()), float(np.square(entries.value).sum()))


@dataclass(frozen=True)
class _CorrelationSums:
    """Sums over all pairs of columns: products of the correlations of two samples, and their noise."""

    own: float
    both: float
    other: float
    noise_own: float
    noise_other: float

    @classmethod
    def of(cls, own: Moments, other: Moments) -> _CorrelationSums:
        sums = np.zeros(5)
        d = own.rows.shape[1]
        for start in range(0, d, _BLOCK_COLUMNS):
            block, before = slice(start, min(start + _BLOCK_COLUMNS, d)), slice(0, min(start + _BLOCK_COLUMNS, d))
            below = np.tri(block.stop - start, before.stop, start - 1, dtype=bool)
            (r_own, noise_own), (r_other, noise_other) = (one.correlations(block, before) for one in (own, other))
            products = (r_own * r_own, r_own * r_other, r_other * r_other, noise_own, noise_other)
            sums += [float(product[below].sum()) for product in products]
        return cls(*map(float, sums))

    def share_of_difference(self) -> float:
        """Return the share of noise in the differences of the correlations."""
        return noise_share(self.noise_own + self.noise_other, self.own - 2 * self.both + self.other)

    def share_after(self, way: float) -> float:
        """Return the share of noise in the correlations of the first sample, after a share of the way to the other."""
        stay = 1 - way
        total = stay**2 * self.own + 2 * stay * way * self.both + way**2 * self.other
        return noise_share(stay**2 * self.noise_own + way**2 * self.noise_other, total)
