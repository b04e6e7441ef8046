r"""The estimate of mutual information without a ratio of your own: a copula, and flexible corrections of it.

With a copula r₀ and the tilted product t = q r₀ / Z, Z = mean_q r₀,

.. math:: \mathrm{KL}(p \,\|\, q) = \mathrm{mean}_p \log r_0 - \log Z + \mathrm{KL}(p \,\|\, t)

Rows of t are pairs of rows of one fold, drawn in proportion to r₀. They are near the rows of p however strong the
dependence is, so a classifier can learn what the copula misses, and show that nothing else is missed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from flowratio._support.chunks import chunks
from flowratio._support.progress import progress
from flowratio._support.types import Matrix, Vector
from flowratio.applications.copulas import (
    EllipticalRatio,
    copula_degrees,
    fit_gaussian,
    fit_student,
    student_degrees,
    student_scores,
)
from flowratio.applications.divergences import kl_terms
from flowratio.applications.margins import is_continuous, normal_scores, robust_units, smooth_scores
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, named_ratio, new_ratio, silent
from flowratio.samples.two_samples import TwoSamples

LEARNERS = ("boosting", "mlp")  # always fitted to all folds
LATENT = "mlp in z"  # fitted to all folds if it is the best of the first fold
_MOST_SCORED = 16_000_000  # values of pairs that a copula scores
_MOST_FITTED = 20_000  # tilted rows, if n is not larger
_MOST_DRAWN = 8  # tilted rows for each row
_STRONG = 1000.0  # rows in the conditional width: with fewer the noise of ranks is above 0.003 nats
_TOO_STRONG = 50.0  # with fewer, ranks of x and y agree by chance
_N_CURVE = 3  # folds in which learners are fitted to half of the rows too


@dataclass(frozen=True, eq=False)
class Base:
    """A copula, fitted without each fold, on one kind of scores."""

    name: str
    Z: Matrix  # (n, d)
    fits: list[EllipticalRatio]

    def each(self) -> np.ndarray:
        """Return log r of the rows by every fit, (n_folds, n)."""
        return np.array([fit.log_ratio(self.Z) for fit in self.fits])

    def pairs(self, i: Vector, j: Vector, k: int) -> np.ndarray:
        """Return log r of pairs of the x of row i and the y of row j, by the fit without fold k."""
        out = np.empty(len(i))
        for part in chunks(len(i), self.Z.shape[1]):
            out[part] = self.fits[k].log_ratio(self.joined(i[part], j[part]))
        return out

    def joined(self, i: Vector, j: Vector) -> np.ndarray:
        d_x = self.fits[0].d_x
        return np.column_stack([self.Z[i, :d_x], self.Z[j, d_x:]])


@dataclass(frozen=True, eq=False)
class Pool:
    """Pairs of rows of one fold, i ≠ j, with log r₀."""

    i: Vector
    j: Vector
    log_r: Vector

    @property
    def log_z(self) -> float:
        top = self.log_r.max()
        return float(top + math.log(np.exp(self.log_r - top).mean()))

    @property
    def effective(self) -> float:
        """The effective sample size of the tilted pairs."""
        w = np.exp(self.log_r - self.log_r.max())
        return float(w.sum() ** 2 / (w @ w))

    def influence(self, n: int) -> np.ndarray:
        """Return what each row adds to -log Z, (n,), of mean 0."""
        w = np.exp(self.log_r - self.log_z)
        sums = [np.bincount(of, w, n) / np.maximum(np.bincount(of, minlength=n), 1) for of in (self.i, self.j)]
        return 2 - sums[0] - sums[1]

    def draw(self, m: int, rng: np.random.Generator) -> Vector:
        """Return positions of m pairs, drawn in proportion to r₀, evenly spread."""
        w = np.cumsum(np.exp(self.log_r - self.log_r.max()))
        return np.searchsorted(w, (np.arange(m) + rng.random()) / m * w[-1]).clip(0, len(w) - 1)


def pooled_pairs(fold: Vector, d: int, rng: np.random.Generator) -> list[tuple[Vector, Vector]]:
    """Return pairs of different rows of each fold, as many as can be scored."""
    n_shifts, pairs = max(_MOST_SCORED // (d * len(fold)), 1), []
    for k in range(int(fold.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fold == k))
        shifts = 1 + rng.permutation(len(rows) - 1)[:n_shifts]
        pairs.append((np.tile(rows, len(shifts)), np.concatenate([np.roll(rows, -s) for s in shifts])))
    return pairs


def pool_of(base: Base, pairs: list[tuple[Vector, Vector]]) -> Pool:
    log_r = [base.pairs(i, j, k) for k, (i, j) in enumerate(pairs)]
    return Pool(np.concatenate([i for i, _ in pairs]), np.concatenate([j for _, j in pairs]), np.concatenate(log_r))


# ---- the copula


def bases(parts: list[Matrix], fold: Vector, rng: np.random.Generator) -> list[Base]:
    """Return the copulas to compare, cross-fitted. `parts` are x and y in their own units, (n, d_x) and (n, d_y)."""
    X, d_x = np.hstack(parts), parts[0].shape[1]
    deal = shuffled(fold, rng)
    ranks = normal_scores(X)
    candidates = [*_copulas("ranks", ranks, d_x, fold, deal)]
    continuous = is_continuous(X)
    if not (continuous[:d_x].any() and continuous[d_x:].any()):
        return candidates
    smooth = [*_copulas("smooth margins", smooth_scores(X), d_x, fold, deal)]
    width = min(_width(base) for base in smooth) * len(X)
    if width > _STRONG:
        return candidates
    if continuous.all():
        Z = robust_units(X)
        smooth.append(_base("original units", Z, d_x, fold, deal, student_degrees(Z)))
    return smooth if width < _TOO_STRONG else candidates + smooth


def _copulas(name: str, Z: Matrix, d_x: int, fold: Vector, deal: Vector) -> list[Base]:
    degrees = copula_degrees(Z)
    return [
        _base(f"Gaussian copula, {name}", Z, d_x, fold, deal, math.inf),
        _base(f"Student copula, {name}", student_scores(Z, degrees), d_x, fold, deal, degrees),
    ]


def _base(name: str, Z: Matrix, d_x: int, fold: Vector, deal: Vector, degrees: float) -> Base:
    Q = np.column_stack([Z[:, :d_x], Z[deal, d_x:]])
    fits = []
    for k in range(int(fold.max()) + 1):
        P_k, Q_k = Z[fold != k], Q[fold != k]
        fit = fit_gaussian(P_k, Q_k, d_x) if math.isinf(degrees) else fit_student(P_k, Q_k, d_x, degrees)
        fits.append(fit)
    return Base(name, Z, fits)


def _width(base: Base) -> float:
    return min(math.sqrt(1 - fit.largest_correlation() ** 2) for fit in base.fits)


def shuffled(fold: Vector, rng: np.random.Generator) -> Vector:
    """Return another row of the same fold for every row, of shape (n,): the rows of a fold are rotated."""
    deal = np.empty(len(fold), np.int64)
    for k in range(int(fold.max()) + 1):
        rows = rng.permutation(np.flatnonzero(fold == k))
        deal[rows] = np.roll(rows, int(rng.integers(1, len(rows))))
    return deal


# ---- flexible corrections


@dataclass(frozen=True, eq=False)
class Corrections:
    """log(p / t) of rows of p, then of t, by learners that are fitted without each fold."""

    each: np.ndarray  # (n_learners, n_folds, n + m)
    fold: Vector  # (n + m,)
    n: int

    def held_out(self) -> np.ndarray:
        """Return the held-out corrections, (n_learners, n + m)."""
        return self.each[:, self.fold, np.arange(len(self.fold))]

    def stacked(self) -> tuple[np.ndarray, np.ndarray]:
        """Return corrections by every fold, (n_folds, n + m), with weights of learners from the other folds."""
        out, n_folds = self.held_out(), self.each.shape[1]
        weights = np.array([_weights(out[:, self.fold != k], np.flatnonzero(self.fold != k) < self.n) for k in range(n_folds)])
        return np.einsum("kl,lkn->kn", weights, self.each), weights


def _weights(each: np.ndarray, is_p: Vector) -> np.ndarray:
    """Return weights of learners, from 0 to 1 each, with the best held-out score."""
    sign = np.where(is_p, 1.0, -1.0)
    share = np.where(is_p, 1 / is_p.sum(), 1 / (~is_p).sum())

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (weights @ each)
        return -float(share @ log_expit(margin)), -each @ (share * sign * expit(-margin))

    fit: Any = minimize(loss, np.full(len(each), 0.3), jac=True, bounds=[(0.0, 1.0)] * len(each), method="L-BFGS-B")
    return fit.x


def fit_learner(name: str, F: Matrix, n: int, rows: Vector, seed: int) -> np.ndarray:
    """Fit a learner to some rows (a mask) of p and t, and return log(p / t) of all rows."""
    positions = np.flatnonzero(rows)
    n_p = int(np.searchsorted(positions, n))
    samples = TwoSamples(F[positions], n_p, np.ones(len(positions)), math.log(n_p / (len(positions) - n_p)))
    return log_ratio_prepared(fit_prepared(new_ratio(named_ratio(name), seed), samples), F)
