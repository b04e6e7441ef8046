"""Scores of columns, of their curves and of their products, from ranks, under permutations of the rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from flowratio._support.types import Matrix, Vector

_SMALLEST = 1e-9  # spread of what is not constant; all quantities that are compared are of order 1
_LARGEST_CORRELATION = 1 - 1e-9


class RankMeasures(NamedTuple):
    """Z-scores of one permutation. Under the null hypothesis each is nearly standard normal."""

    curves: Matrix  # (4, d): location, scale and two of the shape
    products: Matrix  # (d, d), above the diagonal
    correlations: Matrix  # (d, d): change of correlations within the samples, which locations and scales do not affect


class RankScores:
    """Scores of d columns, (n, d), the rows of p first. `source` has the source column of each of them, (d,)."""

    def __init__(self, X: Matrix, n_p: int, source: Vector) -> None:
        n = len(X)
        self.U = U = ndtri((rankdata(X, axis=0) - 0.5) / n)
        self.n_p = n_p
        self.unit = math.sqrt(n_p * (n - n_p) / (n - 1))  # standard deviation of a sum over the rows of p
        curves = _curves(U)
        self.means = np.stack([curve.mean(axis=0) for curve in curves])  # (4, d)
        self.spreads = np.stack([positive_or_inf(curve.std(axis=0)) for curve in curves])
        self.mean_product = U.T @ U / n  # (d, d)
        squares = np.square(U)
        self.spread_product = positive_or_inf(np.sqrt(np.maximum(squares.T @ squares / n - self.mean_product**2, 0.0)))
        correlation = (self.mean_product - np.outer(self.means[0], self.means[0])) / np.outer(*2 * [self.spreads[0]])
        self.precision = np.linalg.pinv(correlation, rcond=_SMALLEST, hermitian=True)
        # categories of one source exclude each other: their correlation is about their shares
        self.is_pair = source[:, None] != source

    def measures(self, order: np.ndarray) -> RankMeasures:
        """Return the scores of a permutation: p has the first rows."""
        U = self.U[order[: self.n_p]]
        product = U.T @ U
        sums = _sums_of_curves(U, product.diagonal())
        curves = (sums - self.n_p * self.means) / self.spreads / self.unit
        products = (product - self.n_p * self.mean_product) / self.spread_product
        return RankMeasures(curves, np.triu(products, 1) / self.unit, self._correlations(product, sums[0]))

    def _correlations(self, product: Matrix, sums: Vector) -> Matrix:
        """Return differences of correlations by Fisher's transform, from products and sums of the rows of p."""
        n, n_p = len(self.U), self.n_p
        of_p = _fisher(product / n_p, sums / n_p)
        of_q = _fisher((n * self.mean_product - product) / (n - n_p), (n * self.means[0] - sums) / (n - n_p))
        error = math.sqrt(1 / max(n_p - 3, 1) + 1 / max(n - n_p - 3, 1))
        return np.where(self.is_pair, np.abs(of_p - of_q) / error, 0.0)

    def statistics(self, measures: RankMeasures) -> Vector:
        """Return roots of the largest squares and of their sums, of shape (9,): nearly Gaussian."""
        curves, products = measures.curves, measures.products
        squares = [np.square(z) for z in (curves[0], curves[1], curves[2:], products)]
        sums = [curves[0] @ self.precision @ curves[0], *(z.sum() for z in squares)]
        return np.array([*(math.sqrt(z.max()) for z in squares), *np.cbrt(sums)])


def _curves(U: Matrix) -> list[Matrix]:
    """Return Hermite polynomials of normal scores, each of shape (n, d)."""
    squares = np.square(U)
    return [U, squares - 1, (squares - 3) * U, (squares - 6) * squares + 3]


def _sums_of_curves(U: Matrix, squares: Vector) -> Matrix:
    """Return the sums of the curves over the rows, (n, d) to (4, d), without the curves. `squares` are sums of U²."""
    powers = np.square(U)
    fourth = np.einsum("ij,ij->j", powers, powers)
    powers *= U
    first, third = U.sum(axis=0), powers.sum(axis=0)
    return np.stack([first, squares - len(U), third - 3 * first, fourth - 6 * squares + 3 * len(U)])


def _fisher(second_moments: Matrix, means: Vector) -> Matrix:
    """Return Fisher's transform of correlations, (d, d). Constant columns have none."""
    covariance = second_moments - np.outer(means, means)
    scale = positive_or_inf(np.sqrt(np.maximum(covariance.diagonal(), 0.0)))
    correlation = covariance / np.outer(scale, scale)
    return np.arctanh(np.clip(correlation, -_LARGEST_CORRELATION, _LARGEST_CORRELATION))


def positive_or_inf(values: Vector) -> Vector:
    """Return standard deviations, and infinity for those of constants, so that these count nothing."""
    return np.where(values > _SMALLEST, values, np.inf)
