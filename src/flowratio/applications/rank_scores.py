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
_GAUSSIAN = 3.0  # kurtosis
_FEWEST_OF_PAIR = 5  # rows of a sample that two 0/1 columns must share on average: with fewer, z has heavy tails


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
        self.is_pair = (source[:, None] != source) & _has_enough_rows(U, min(n_p, n - n_p))

    def measures(self, order: np.ndarray) -> RankMeasures:
        """Return the scores of a permutation: p has the first rows."""
        U = self.U[order[: self.n_p]]
        product = U.T @ U
        sums = _sums_of_curves(U, product.diagonal())
        curves = (sums - self.n_p * self.means) / self.spreads / self.unit
        products = (product - self.n_p * self.mean_product) / self.spread_product
        products = np.triu(self.is_pair * products, 1) / self.unit
        return RankMeasures(curves, products, self._correlations(product, sums[0]))

    def _correlations(self, product: Matrix, sums: Vector) -> Matrix:
        """Return differences of correlations by Fisher's transform, from products and sums of the rows of p."""
        n, n_p = len(self.U), self.n_p
        of_p = _fisher(product / n_p, sums / n_p)
        of_q = _fisher((n * self.mean_product - product) / (n - n_p), (n * self.means[0] - sums) / (n - n_p))
        error = math.sqrt(1 / max(n_p - 3, 1) + 1 / max(n - n_p - 3, 1))
        return np.where(self.is_pair, np.abs(of_p - of_q) / error, 0.0)

    def statistics(self, measures: RankMeasures) -> Vector:
        """Return roots of sums of squares, of shape (5,), the first one by Hotelling: nearly Gaussian."""
        curves, products = measures.curves, measures.products
        squares = [np.square(z).sum() for z in (curves[0], curves[1], curves[2:], products)]
        return np.cbrt([curves[0] @ self.precision @ curves[0], *squares])


def _has_enough_rows(U: Matrix, n: int) -> np.ndarray:
    """Return which pairs of columns, (d, d), have correlations in a sample of n rows that are nearly Gaussian.

    Two 0/1 columns with shares a and b share a · b · n rows on average, and 1 / a is nearly the kurtosis of one.
    """
    C = U - U.mean(axis=0)
    squares = np.square(C)
    kurtosis = np.square(squares).mean(axis=0) / positive_or_inf(squares.mean(axis=0)) ** 2
    return np.outer(kurtosis, kurtosis) <= max(n / _FEWEST_OF_PAIR, _GAUSSIAN**2)


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
