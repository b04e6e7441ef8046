"""What brings the scores of a classifier in line with rows that it has not seen: score to log r."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from flowratio.ratios.classifier.presets import newton


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
    """Fit posteriors under even odds.

    A block at an end that has a rows of p and none of q may hold one of the n_q + 1 rows that q would have with
    another: its ratio is a / n_p to 1 / (n_q + 1), if that is not less than the block before says; and so for p and q
    swapped.
    """
    is_p = y == 1
    n_p, n_q = w[is_p].sum(), w[~is_p].sum()
    line = IsotonicRegression(out_of_bounds="clip").fit(scores, y, np.where(is_p, w / n_p, w / n_q))
    share, at_rows = line.y_thresholds_, line.predict(scores)
    inner = logit(share[(share > 0) & (share < 1)])
    top = math.log(max(w[at_rows == 1].sum(), 1e-300) / n_p * (n_q + 1))
    bottom = -math.log(max(w[at_rows == 0].sum(), 1e-300) / n_q * (n_p + 1))
    with np.errstate(divide="ignore"):
        log_r = logit(share)
    log_r[share == 1] = max(top, inner.max(initial=-math.inf))
    log_r[share == 0] = min(bottom, inner.min(initial=math.inf))
    return IsotonicCalibrator(line.X_thresholds_, np.sort(log_r))  # the ends are in order where no block is between


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
