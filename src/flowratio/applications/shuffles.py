"""Rows of the product of two variables: the x of a row with the y of another row of the same fold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import KDTree

from flowratio._support.types import Matrix, Vector
from flowratio.samples.weighting import log_mean_exp
from flowratio.weights import effective_sample_size

_MOST_SCORED = 16_000_000  # values of the pairs that a copula scores


def shuffled(fold: Vector, rng: np.random.Generator) -> Vector:
    """Return another row of the same fold for every row, of shape (n,): the rows of a fold are rotated."""
    deal = np.empty(len(fold), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fold == k))
        deal[rows] = np.roll(rows, int(rng.integers(1, len(rows))))
    return deal


def nearest_rows(z: Matrix, fold: Vector, m: int, rng: np.random.Generator) -> Matrix:
    """Return the rows of the same fold that are nearest in z (n, d_z) to every row, of shape (m, n), or fewer."""
    z = z + 1e-6 * rng.normal(size=z.shape)  # random order of rows with the same z
    m = min(m, int(np.bincount(fold).min()) - 1)
    deals = np.empty((m, len(z)), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = np.flatnonzero(fold == k)
        near = np.asarray(KDTree(z[rows]).query(z[rows], m + 1)[1])  # (rows, m + 1): the first is the row itself
        deals[:, rows] = rows[near[:, 1:]].T
    return deals


def distance(z: Matrix, deals: Matrix) -> float:
    """Return the mean squared distance of dealt rows (m, n) in a column of z (n, d), as a share of that of any two."""
    spread = 2 * z.var(axis=0)
    return float(max(np.square(z - z[deals]).mean(axis=(0, 1))[spread > 0] / spread[spread > 0], default=0.0))


def by_row(terms: Matrix, deals: Matrix) -> Vector:
    """Assign terms of dealt rows (m, n) to the rows that their x and their y come from: (n,), of the same mean."""
    by_y = np.zeros(terms.shape[1])
    for deal, term in zip(deals, terms, strict=True):
        by_y += np.bincount(deal, term, len(by_y)) / len(deals)
    return terms.mean(axis=0) + by_y - terms.mean()


def pairs_of_folds(fold: Vector, d: int, rng: np.random.Generator) -> list[tuple[Vector, Vector]]:
    """Return pairs (i, j) of different rows of each fold, as many as can be scored with d columns."""
    n_shifts, pairs = max(_MOST_SCORED // (d * len(fold)), 1), []
    for k in range(int(fold.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fold == k))
        shifts = 1 + rng.permutation(len(rows) - 1)[:n_shifts]
        pairs.append((np.tile(rows, len(shifts)), np.concatenate([np.roll(rows, -s) for s in shifts])))
    return pairs


@dataclass(frozen=True, eq=False)
class TiltedProduct:
    """Pairs of the x of row i and the y of row j, with weights r₀: rows of t = q r₀ / Z, where Z = mean_q r₀."""

    i: Vector
    j: Vector
    log_r: Vector

    @cached_property
    def log_z(self) -> float:
        """The log of the mean of r₀."""
        return log_mean_exp(self.log_r)

    @cached_property
    def effective_size(self) -> float:
        """The effective sample size of the weighted pairs."""
        return effective_sample_size(self.log_r)

    def influence(self, n: int) -> np.ndarray:
        """Return what each of n rows adds to -log Z, (n,), of mean 0."""
        w = np.exp(self.log_r - self.log_z)
        means = [np.bincount(of, w, n) / np.maximum(np.bincount(of, minlength=n), 1) for of in (self.i, self.j)]
        return 2 - means[0] - means[1]

    def draw(self, m: int, rng: np.random.Generator) -> Vector:
        """Return the positions of m pairs that are drawn in proportion to r₀, evenly spread."""
        w = np.cumsum(np.exp(self.log_r - self.log_r.max()))
        return np.searchsorted(w, (np.arange(m) + rng.random()) / m * w[-1]).clip(0, len(w) - 1)


def pairs_by_row(terms: Vector, i: Vector, j: Vector, n: int) -> np.ndarray:
    """Return what each of n rows adds to the mean of terms of pairs (i, j), (n,), of mean 0."""
    centered = (terms - terms.mean()) * (n / len(terms))
    return np.bincount(i, centered, n) + np.bincount(j, centered, n)
