"""Corrections of a ratio by flexible learners, cross-fitted and stacked: what a simple form misses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from flowratio._support.types import Matrix, Vector
from flowratio.applications.divergences import kl_terms
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, new_ratio
from flowratio.samples.two_samples import TwoSamples


def fit_learner(name: str, F: Matrix, n: int, rows: Vector, seed: int) -> np.ndarray:
    """Fit a ratio to some rows (a mask) of the n rows of p and the rows of t, and return log(p / t) of all rows."""
    positions = np.flatnonzero(rows)
    n_p = int(np.searchsorted(positions, n))
    samples = TwoSamples(F[positions], n_p, np.ones(len(positions)), math.log(n_p / (len(positions) - n_p)))
    return log_ratio_prepared(fit_prepared(new_ratio(name, seed), samples), F)


@dataclass(frozen=True, eq=False)
class Corrections:
    """log(p / t) of n rows of p, then of m rows of t, by learners that are fitted without each fold."""

    names: tuple[str, ...]
    each: np.ndarray  # (n_learners, n_folds, n + m)
    fold: Vector  # (n + m,)
    n: int
    source: Vector  # (n + m,): the row of p that the x of each row comes from

    @cached_property
    def held_out(self) -> np.ndarray:
        """Held-out corrections by each learner, (n_learners, n + m)."""
        return self.each[:, self.fold, np.arange(len(self.fold))]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the learners in each fold, from the scores of the other folds, (n_folds, n_learners).

        All are 0 if together they do not improve the held-out score by half a standard error. A larger threshold would
        drop small gains that are real, and bias the estimate towards 0.
        """
        rows = [np.flatnonzero(self.fold != k) for k in range(self.each.shape[1])]
        weights = np.array([_weights(self.held_out[:, positions], positions < self.n) for positions in rows])
        log_r = np.einsum("nl,ln->n", weights[self.fold], self.held_out)
        return weights if self._improves(log_r) else np.zeros_like(weights)

    def _improves(self, log_r: Vector) -> bool:
        """Return whether log r scores above 0 by half a standard error. Rows with the same x are one observation."""
        is_p = np.arange(len(log_r)) < self.n
        share = np.where(is_p, 0.5 / self.n, 0.5 / (len(log_r) - self.n))
        gains = share * (log_expit(np.where(is_p, log_r, -log_r)) + math.log(2))
        by_source = np.bincount(self.source, gains, self.n)
        return float(gains.sum()) > 0.5 * math.sqrt(self.n * float(by_source.var()))

    @cached_property
    def stacked(self) -> np.ndarray:
        """Weighted sums of the learners, by every fold, (n_folds, n + m)."""
        return np.einsum("kl,lkn->kn", self.weights, self.each)

    def stacked_held_out(self) -> np.ndarray:
        return self.stacked[self.fold, np.arange(len(self.fold))]

    @property
    def reach(self) -> float:
        """The largest ratio that rows of t can confirm. They are near those of p: larger ones are rare, and noisy."""
        return (len(self.fold) - self.n) ** (1 / 3)

    def terms(self, log_r: Vector) -> tuple[np.ndarray, np.ndarray]:
        """Return what rows of p and of t add to KL(p ‖ t), (n,) and (m,)."""
        return kl_terms(log_r[: self.n], log_r[self.n :], self.reach)

    def disagreement(self) -> float:
        """Return the difference in nats of the first learner and the best of the others, with weights of their own."""
        gains = []
        for k, name in enumerate(self.names):
            alone = Corrections((name,), self.each[k : k + 1], self.fold, self.n, self.source)
            gains.append(max(sum(float(part.mean()) for part in self.terms(alone.stacked_held_out())), 0.0))
        return abs(gains[0] - max(gains[1:])) if len(gains) > 1 else 0.0


def _weights(each: np.ndarray, is_p: Vector) -> np.ndarray:
    """Return weights of learners, (n_learners,), from 0 to 1 each, with the best score of held-out rows."""
    sign = np.where(is_p, 1.0, -1.0)
    share = np.where(is_p, 1 / is_p.sum(), 1 / (~is_p).sum())

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (weights @ each)
        return -float(share @ log_expit(margin)), -each @ (share * sign * expit(-margin))

    start, bounds = np.full(len(each), 0.3), [(0.0, 1.0)] * len(each)
    fit: Any = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
    return fit.x
