"""What brings the scores of a classifier in line with rows that it has not seen: score to log r."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from flowratio.ratios.presets import newton


@dataclass(frozen=True)
class IsotonicCalibrator:
    """An increasing function of the score, linear between its knots.

    Parameters
    ----------
    scores, log_r
        Where the knots are, and log r there, of shape (k,).
    """

    scores: np.ndarray
    log_r: np.ndarray

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return np.interp(scores, self.scores, self.log_r)


@dataclass(frozen=True)
class SigmoidCalibrator:
    """A line, log r = slope · score + intercept."""

    slope: float
    intercept: float

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        return self.slope * scores + self.intercept


def isotonic(scores: np.ndarray, y: np.ndarray, w: np.ndarray) -> IsotonicCalibrator:
    """Fit posteriors under even odds. Where no row of n is, a share of 1/(n + 1) may be: log r is finite."""
    n_p, n_q = w[y == 1].sum(), w[y == 0].sum()
    line = IsotonicRegression().fit(scores, y, np.where(y == 1, w / n_p, w / n_q))
    with np.errstate(divide="ignore"):
        log_r = np.clip(logit(line.y_thresholds_), -math.log1p(n_p), math.log1p(n_q))
    return IsotonicCalibrator(line.X_thresholds_, log_r)


def sigmoid(scores: np.ndarray, y: np.ndarray, w: np.ndarray) -> SigmoidCalibrator:
    """Fit a logistic regression under even odds, to labels drawn in from 0 and 1 as Platt (1999) does."""
    n_p, n_q = w[y == 1].sum(), w[y == 0].sum()
    target = np.where(y == 1, (n_p + 1) / (n_p + 2), 1 / (n_q + 2))
    share = (n_p + n_q) * np.where(y == 1, w / n_p, w / n_q) / 2
    centre = scores.mean()
    scale = max(np.abs(scores - centre).max(), np.finfo(np.float64).tiny)
    slope, intercept = newton((scores[:, None] - centre) / scale, target, share, np.array([1e-6, 0.0]))
    return SigmoidCalibrator(float(slope / scale), float(intercept - slope * centre / scale))


CALIBRATORS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], Any]] = {
    "isotonic": isotonic,
    "sigmoid": sigmoid,
}
