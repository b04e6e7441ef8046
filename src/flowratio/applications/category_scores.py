"""Tests of counts over all categories of a column, few or many, under permutations of the rows."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtri_exp, xlogy

from flowratio._support.types import Vector
from flowratio.tables.columns import FEWEST_OF_CATEGORY

N_STATISTICS = 4


class CategoryScores:
    r"""Statistics of a table of counts: K categories × 2 samples.

    With a rows of p and b rows of q in each category, and expected counts from the pooled rows:

    - Pearson's :math:`\chi^2`: each category counts the same, for changes of many categories.
    - the likelihood ratio :math:`G^2`, in which rare categories of unequal samples do not dominate.
    - the sum of squared differences of counts: frequent categories count more.
    - the largest likelihood ratio of a category: for the change of one category.

    `codes` are from 0 to K - 1, of shape (n,). A missing value is a category too.
    """

    def __init__(self, codes: Vector, n_p: int) -> None:
        self.codes, self.n_p = codes, n_p
        self.counts = np.bincount(codes)  # (K,)
        of_p = n_p / len(codes)
        self.expected = of_p * self.counts
        self.weight = 1 / np.maximum(self.counts * of_p * (1 - of_p), 1e-9)
        self.table = xlogy(np.arange(self.counts.max() + 1), np.arange(self.counts.max() + 1))
        self.log_k = math.log(max(np.count_nonzero(self.counts >= FEWEST_OF_CATEGORY), 1))
        log_n = np.log(np.maximum(self.counts, 1))
        self.log_p, self.log_q = log_n + np.log(of_p), log_n + np.log1p(-of_p)

    def count(self, order: np.ndarray) -> tuple[Vector, Vector]:
        """Return the number of rows of p and of q in each category, (K,), for a permutation."""
        a = np.bincount(self.codes[order[: self.n_p]], minlength=len(self.counts))
        return a, self.counts - a

    def most_changed(self) -> int:
        """Return the category whose count in the rows of the input is farthest from the expected one, by chance."""
        a, _ = self.count(np.arange(len(self.codes)))
        return int(np.argmax(np.square(a - self.expected) * self.weight))

    def statistics(self, order: np.ndarray) -> Vector:
        """Return maps of the four statistics of a permutation, of shape (4,): nearly Gaussian."""
        a, b = self.count(order)
        squares = np.square(a - self.expected)
        deviance = np.maximum(2 * (self.table[a] + self.table[b] - a * self.log_p - b * self.log_q), 0.0)
        sums = np.cbrt([squares @ self.weight, deviance.sum(), squares.sum()])
        return np.append(sums, self._normal_score(float(deviance.max())))

    def _normal_score(self, largest: float) -> float:
        """Return the largest likelihood ratio as a Gaussian quantile. It is the largest of K with one degree each."""
        log_p = math.log(2) + log_ndtr(-math.sqrt(largest))  # of one category
        n_above = math.exp(min(max(log_p + self.log_k, -700.0), 3.0))  # expected number, without overflow
        return -float(ndtri_exp(math.log(-math.expm1(-n_above))))
