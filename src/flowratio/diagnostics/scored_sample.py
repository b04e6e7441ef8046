"""A sample with its log r, and means over it with standard errors: the input of every check."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.samples.weighting import mean_and_error
from flowratio.weights import self_normalize

LARGEST_Z = 1e6  # a difference with a standard error of 0 is so many standard errors
LOG_LARGEST = math.log(np.finfo(np.float64).max)


class ScoredSample(NamedTuple):
    """A sample and its log-ratios. r = p/q, p is y = 1."""

    X: Matrix  # (n, d)
    log_r: Vector  # (n,)
    share: Vector  # (n,): positive weights that add up to 1

    @property
    def n(self) -> float:
        """Effective sample size of the weights of the rows (Kish)."""
        return float(1 / (self.share @ self.share))

    def log_weights(self, sign: int = 1) -> Vector:
        """Return log-weights of rows weighted by r, or by 1/r if `sign` is -1, of shape (n,)."""
        return sign * self.log_r + np.log(self.share)

    def divided(self, log_factor: float) -> ScoredSample:
        """Return the rows with ratios that are divided by a factor."""
        return self._replace(log_r=self.log_r - log_factor)

    def tilted(self, sign: int = 1) -> ScoredSample:
        """Return the rows with shares weighted by r: rows of q as a sample of p. For `sign=-1` by 1/r."""
        return self._replace(share=self_normalize(self.log_weights(sign)))


class Separation(NamedTuple):
    """How well values distinguish rows of p from rows of q."""

    auc: float  # share of pairs in which the row of p has the larger value: 0.5 is no better than a guess
    standard_error: float  # of `auc`
    z: float  # how many standard errors `auc` is above 0.5


def errors_off(difference: float, error: float) -> float:
    """Return how many standard errors a difference is from 0. The maximum is a million."""
    if abs(difference) <= 1e-12:  # rounding: all quantities that are compared are of order 1
        return 0.0
    return math.copysign(min(abs(difference) / max(error, 1e-300), LARGEST_Z), difference)


def separation(f_p: Vector, share_p: Vector, f_q: Vector, share_q: Vector, inflation: float = 1.0) -> Separation:
    r"""Return the share of pairs in which the row of p has the larger value, ties counting one half: the AUC.

    .. math:: A = \sum_{i \in p} \sum_{j \in q} w_i w_j \big([f_i > f_j] + \tfrac12 [f_i = f_j]\big)

    Its standard error is that of DeLong et al. (1988, Biometrics), from the mean of each row over the rows of the other
    sample. `inflation` is a factor of the part that is due to rows of q. The weights of each sample add up to 1.
    """
    auc, error_p = mean_and_error(_share_below(f_p, f_q, share_q), share_p)
    _, error_q = mean_and_error(1 - _share_below(f_q, f_p, share_p), share_q)
    error = float(np.hypot(error_p, inflation * error_q))
    return Separation(float(auc), error, errors_off(float(auc) - 0.5, error))


def _share_below(at: Vector, values: Vector, share: Vector) -> Vector:
    """Return the weight of the values below each point, and half of that at it: (m,), (n,), (n,) to (m,)."""
    order = np.argsort(values, kind="stable")
    total, values = np.concatenate([[0.0], np.cumsum(share[order])]), values[order]
    return 0.5 * (total[np.searchsorted(values, at, "left")] + total[np.searchsorted(values, at, "right")])
