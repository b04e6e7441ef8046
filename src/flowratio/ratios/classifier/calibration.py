"""Calibration of the scores of a classifier on held-out rows: score to log r."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from flowratio._support.types import Vector
from flowratio.ratios.classifier.presets import newton


@dataclass(frozen=True)
class IsotonicCalibrator:
    """An increasing function of the score, linear between knots: their scores and log r, of shape (k,)."""

    scores: Vector
    log_r: Vector

    def __call__(self, scores: Vector) -> Vector:
        return np.interp(scores, self.scores, self.log_r)


@dataclass(frozen=True)
class SigmoidCalibrator:
    """A line, log r = slope · score + intercept."""

    slope: float
    intercept: float

    def __call__(self, scores: Vector) -> Vector:
        return self.slope * scores + self.intercept


Calibrator: TypeAlias = IsotonicCalibrator | SigmoidCalibrator


def isotonic(scores: Vector, y: Vector, w: Vector) -> IsotonicCalibrator:
    """Fit an isotonic regression with equal prior odds.

    A block at an end with a rows of p and none of q gets the ratio a / n_p to 1 / (n_q + 1), and not less than the
    block before. The same holds with p and q exchanged.
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
    # without a block between them the ends may be out of order
    return IsotonicCalibrator(line.X_thresholds_, np.sort(log_r))


def sigmoid(scores: Vector, y: Vector, w: Vector) -> SigmoidCalibrator:
    """Fit a logistic regression with equal prior odds, to the smoothed labels of Platt (1999)."""
    n_p, n_q = w[y == 1].sum(), w[y == 0].sum()
    target = np.where(y == 1, (n_p + 1) / (n_p + 2), 1 / (n_q + 2))
    share = (n_p + n_q) * np.where(y == 1, w / n_p, w / n_q) / 2
    center = scores.mean()
    scale = max(np.abs(scores - center).max(), np.finfo(np.float64).tiny)
    slope, intercept = newton((scores[:, None] - center) / scale, target, share, np.array([1e-6, 0.0]))
    return SigmoidCalibrator(float(slope / scale), float(intercept - slope * center / scale))


CALIBRATORS: dict[str, Callable[[Vector, Vector, Vector], Calibrator]] = {"isotonic": isotonic, "sigmoid": sigmoid}
