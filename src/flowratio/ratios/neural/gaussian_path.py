r"""A path of Gaussians from p to q: how far apart two samples are, and a first estimate of their log-ratio.

.. math:: x_\alpha = \sqrt{1 - \alpha^2}\, x_p + \alpha\, x_q, \qquad 0 \le \alpha \le 1
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from flowratio._support.types import Matrix, Vector
from flowratio.samples.two_samples import TwoSamples
from flowratio.scaling.whitener import shrunk_correlation

_MAX_JOINT = 512  # maximum number of columns for which correlations are used
_MIN_VARIANCE = 1e-6  # of a column of one sample, in units of the pooled variance


@dataclass(frozen=True)
class GaussianPath:
    """Gaussians with the moments of x_α, in coordinates u = x @ basis where all covariances are diagonal."""

    basis: Matrix  # (d, d)
    mean_p: Vector  # of u, (d,)
    mean_q: Vector
    variance_p: Vector
    variance_q: Vector
    normal: Vector  # whether a coordinate of u looks Gaussian in both samples, (d,)

    def moments(self, mixing: Vector) -> tuple[Matrix, Matrix]:
        """Return means and variances at coefficients α of shape (m,), each of shape (m, d)."""
        of_q = mixing[:, None]
        of_p = np.sqrt(1 - of_q**2)
        return of_p * self.mean_p + of_q * self.mean_q, of_p**2 * self.variance_p + of_q**2 * self.variance_q

    def lengths(self) -> tuple[Vector, Vector]:
        """Return angles from 0 to π/2, whose sines are coefficients α, and the lengths of the path up to them."""
        angle = np.arctan(np.concatenate([[0.0], np.geomspace(1e-5, 1e5, 512), [np.inf]]))  # fine at both ends
        of_p, of_q = np.cos(angle)[:, None], np.sin(angle)[:, None]
        variance = of_p**2 * self.variance_p + of_q**2 * self.variance_q
        speed_mean = (of_p * self.mean_q - of_q * self.mean_p) ** 2 / variance
        speed_variance = 0.5 * (2 * of_p * of_q * (self.variance_q - self.variance_p) / variance) ** 2
        speed = np.sqrt((speed_mean + speed_variance).sum(axis=1))
        return angle, np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(angle))])

    def coefficients(self, m: int, mixing: str) -> Vector:
        """Return coefficients α of shape (m + 1,), from 0 (rows of p) to 1 (rows of q), spaced as `mixing` asks."""
        steps = np.arange(m + 1) / m
        if mixing == "linear":
            return steps
        angle, length = self.lengths()
        if mixing == "angular" or length[-1] == 0:
            alpha = np.sin(steps * math.pi / 2)
        else:
            alpha = np.sin(np.interp(steps * length[-1], length, angle))
        alpha[[0, -1]] = 0.0, 1.0  # the ends are p and q themselves
        return alpha


def gaussian_path(samples: TwoSamples) -> GaussianPath:
    """Return the path between Gaussians with the moments of two samples, without what sampling noise adds to it."""
    mean_p, C_p, n_p, signal_p = _moments(samples.X_p, samples.w_p)
    mean_q, C_q, n_q, signal_q = _moments(samples.X_q, samples.w_q)
    d = len(mean_p)
    if d <= _MAX_JOINT:
        ratio, basis = eigh(C_p, C_q)
    else:
        ratio, basis = np.diag(C_p) / np.diag(C_q), np.diag(np.diag(C_q) ** -0.5)
    ratio = np.maximum(ratio, _MIN_VARIANCE**2)
    basis = basis * ratio**-0.25  # variances are now √ratio in p, and 1/√ratio in q
    noise = (2 / n_p + 2 / n_q) * (d + max(signal_p, signal_q) * d * (d - 1) / 2)
    log_ratio = np.log(ratio)
    log_ratio = log_ratio * max(0.0, 1 - noise / max(float(log_ratio @ log_ratio), 1e-300))
    mean_p, mean_q = mean_p @ basis, mean_q @ basis
    noise_p, noise_q = ratio**0.5 / n_p, ratio**-0.5 / n_q  # squared errors of the means
    shift = (mean_p - mean_q) / (noise_p + noise_q)
    shift = shift * min(1.0, d / max(float((noise_p + noise_q) @ shift**2), 1e-300))  # the part due to noise
    mean_p, mean_q = mean_p - noise_p * shift, mean_q + noise_q * shift
    normal = _looks_normal(samples.X_p @ basis, samples.w_p) & _looks_normal(samples.X_q @ basis, samples.w_q)
    return GaussianPath(basis, mean_p, mean_q, np.exp(log_ratio / 2), np.exp(-log_ratio / 2), normal)


def _moments(X: Matrix, w: Vector) -> tuple[Vector, Matrix, float, float]:
    """Return mean (d,), covariance (d, d), number of rows, and the share of squared correlations that is not noise."""
    share = w / w.sum()
    n_rows, d = 1 / float(share @ share), X.shape[1]
    n = max(n_rows - 3, 1.0)  # minus 3 makes formulas for large n right for the moments of n Gaussian rows
    mean = share @ X
    centered = (X - mean) * np.sqrt(share)[:, None]
    # a handful of rows may lie close together by chance
    variance = np.maximum((centered**2).sum(axis=0), max(_MIN_VARIANCE, n_rows**-2.0))
    if d == 1 or d > _MAX_JOINT:
        return mean, np.diag(variance), n, 0.0
    scale = np.sqrt(variance)
    R = (centered / scale).T @ (centered / scale)
    np.fill_diagonal(R, 1.0)
    R, signal = shrunk_correlation(R, n, min_share=1e-6)
    return mean, R * np.outer(scale, scale), n, signal**2


def _looks_normal(U: Matrix, w: Vector) -> Vector:
    """Return which columns have a skewness below ½ and a kurtosis within 1 of 3, or no more than sampling noise."""
    share = w / w.sum()
    n = 1 / (share @ share)
    Z = U - share @ U
    Z /= np.sqrt(np.maximum(share @ Z**2, 1e-300))
    skewness, excess = share @ Z**3, share @ Z**4 - 3
    return (np.abs(skewness) < 0.5 + 2 * math.sqrt(6 / n)) & (np.abs(excess) < 1 + 2 * math.sqrt(24 / n))
