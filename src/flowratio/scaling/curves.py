r"""The curve that maps one column to a Gaussian shape: smooth, strictly increasing, inverted in closed form.

Between knots, with :math:`\xi = (x - x_k) / (x_{k+1} - x_k)`, the secant slope s, and the slopes a s and b s at the
two knots, it is the rational quadratic spline of [1]_,

.. math:: t = t_k + (t_{k+1} - t_k) \frac{\xi^2 + a\,\xi(1 - \xi)}{1 + (a + b - 2)\,\xi(1 - \xi)}

The knots are quantiles whose probabilities are evenly spaced in normal scores. Equal values share their mean rank.
Beyond the outermost knot, with slope s there, :math:`t = t_e + \log(1 + \rho s\,(x - x_e)) / \rho`: a straight line
for :math:`\rho = 0`, and the curve of a log-normal column for :math:`\rho > 0`. At the end the scores are standardized.

.. [1] Gregory, Delbourgo (1982). *Piecewise rational quadratic interpolation to monotonic data.*
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import ndtr, ndtri

Pair: TypeAlias = tuple[np.ndarray, np.ndarray]
_Tail: TypeAlias = Callable[[np.ndarray, float, float], Pair]
SMALLEST = 1e-290  # smaller differences of values count as zero
_MAX_RATE = 20.0  # heaviest tail: the slope falls by e^20 over one unit of z
_FAR = 100.0  # beyond e^100 of its units a heavy tail is a straight line, so that `inverse` stays finite


class Curve(NamedTuple):
    """A strictly increasing curve t(x) with a continuous slope: splines between k knots, and tails beyond them."""

    x: np.ndarray
    t: np.ndarray
    slope: np.ndarray
    rates: np.ndarray  # (2,): rho before the first knot and after the last

    def forward(self, x: np.ndarray) -> Pair:
        """Return t and log dt/dx at x, all of shape (n,)."""
        k = np.searchsorted(self.x[1:-1], x, side="right")
        xi = ((x - self.x[k]) / np.diff(self.x)[k]).clip(0, 1)
        a, b, log_secant = self._ratios(k)
        t = self.t[k] + np.diff(self.t)[k] * xi * (xi + a * (1 - xi)) / (1 + (a + b - 2) * xi * (1 - xi))
        return self._with_tails(x, self.x, t, self.t, log_secant + _log_slope(xi, a, b), _tail)

    def inverse(self, t: np.ndarray) -> Pair:
        """Return x and log dt/dx at t, all of shape (n,)."""
        k = np.searchsorted(self.t[1:-1], t, side="right")
        eta = ((t - self.t[k]) / np.diff(self.t)[k]).clip(0, 1)
        a, b, log_secant = self._ratios(k)
        # the root of the quadratic for xi, in a form without cancellation
        p, q = a * (1 - eta) - b * eta, 4 * eta * (1 - eta)
        root = np.hypot(p, np.sqrt(q))
        xi = 2 * eta / (2 * eta + np.where(p > 0, p + root, q / (root + np.abs(p))))
        x = self.x[k] + np.diff(self.x)[k] * xi
        return self._with_tails(t, self.t, x, self.x, log_secant + _log_slope(xi, a, b), _tail_inverse)

    def log_likelihood(self, x: np.ndarray) -> float:
        """Return the log-likelihood of x, (n,), where t is standard Gaussian, up to a constant."""
        t, log_slope = self.forward(x)
        return float(np.sum(log_slope - t * t / 2))

    def _ratios(self, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        secant = np.diff(self.t) / np.diff(self.x)
        return (self.slope[:-1] / secant)[k], (self.slope[1:] / secant)[k], np.log(secant)[k]

    def _with_tails(
        self, u: np.ndarray, knots_u: np.ndarray, v: np.ndarray, knots_v: np.ndarray, log_slope: np.ndarray, tail: _Tail
    ) -> Pair:
        """Replace v and the log-slope where u lies beyond the outermost knots."""
        for end, sign in ((0, -1), (-1, 1)):
            beyond = sign * (u - knots_u[end]) > 0
            if beyond.any():
                rise, log_slope[beyond] = tail(sign * (u[beyond] - knots_u[end]), self.slope[end], self.rates[end])
                v[beyond] = knots_v[end] + sign * rise
        return v, log_slope


def _log_slope(xi: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Log-slope of the spline relative to the secant."""
    other = 1 - xi
    return np.log(b * xi * xi + 2 * xi * other + a * other * other) - 2 * np.log1p((a + b - 2) * xi * other)


def _tail(run: np.ndarray, slope: float, rate: float) -> Pair:
    """Rise of t, and log-slope, at a distance `run` beyond the outermost knot."""
    if rate == 0:
        return slope * run, np.full(len(run), np.log(slope))
    growth = slope * rate * run
    near = np.minimum(growth, np.expm1(_FAR))
    rise = (np.log1p(near) + (growth - near) * np.exp(-_FAR)) / rate
    return rise, np.log(slope) - np.log1p(near)


def _tail_inverse(rise: np.ndarray, slope: float, rate: float) -> Pair:
    """Distance beyond the outermost knot, and log-slope, where t has risen by `rise`."""
    if rate == 0:
        return rise / slope, np.full(len(rise), np.log(slope))
    near = np.minimum(rate * rise, _FAR)
    growth = np.expm1(near) + (rate * rise - near) * np.exp(_FAR)
    return growth / (slope * rate), np.log(slope) - near


def fit_curve(x: np.ndarray, n_knots: int) -> Curve:
    """Fit a curve to the values of a column, of shape (n,)."""
    values, counts = np.unique(np.where(np.abs(x) < SMALLEST, 0.0, x), return_counts=True)
    level = (np.cumsum(counts) - counts / 2) / len(x)
    targets = _levels(len(x), n_knots)
    right = np.searchsorted(level, targets).clip(1, len(level) - 1)
    knots = np.unique(right - (targets - level[right - 1] < level[right] - targets))
    score = ndtri(level)
    knots_x, knots_t, height = values[knots], score[knots], np.diff(score[knots])
    log_secant = np.log(height) - np.log(np.diff(knots_x))
    # geometric means of neighbors, the nearer knot counts more: positive, and exact to second order
    inner = (log_secant[:-1] * height[1:] + log_secant[1:] * height[:-1]) / (height[:-1] + height[1:])
    low, high = slice(0, knots[0] + 1), slice(knots[-1], None)
    first, rate_0 = _fit_tail(-knots_x[::-1], -knots_t[::-1], -values[low][::-1], -score[low][::-1], len(x))
    last, rate_1 = _fit_tail(knots_x, knots_t, values[high], score[high], len(x))
    slopes, rates = np.concatenate([[first], np.exp(inner), [last]]), np.array([rate_0, rate_1])
    mean = np.average(score, weights=counts)
    std = np.sqrt(np.average((score - mean) ** 2, weights=counts))
    return Curve(knots_x, (knots_t - mean) / std, slopes / std, rates * std)


def straight_curve(mean: np.ndarray, scale: np.ndarray) -> Curve:
    """Return the line that standardizes a column of this mean and scale, as a curve."""
    t = np.array([-1.0, 1.0])
    return Curve(mean + scale * t, t, np.full(2, 1 / scale), np.zeros(2))


def _levels(n: int, n_knots: int) -> np.ndarray:
    """Return probabilities evenly spaced in normal scores. As many rows as lie beyond them are between any two."""
    beyond = np.clip(n / 20, 0.5, 8.5) / n
    levels = [beyond]
    for level in ndtr(np.linspace(ndtri(beyond), -ndtri(beyond), n_knots)):
        if level <= 0.5 and level - levels[-1] >= beyond:
            levels.append(float(level))
    return np.unique([*levels, *(1 - np.array(levels))])


def _fit_tail(x: np.ndarray, t: np.ndarray, tail_x: np.ndarray, tail_t: np.ndarray, n: int) -> tuple[float, float]:
    """Return the slope at the last of the knots (x, t), and the rate of its fall beyond, from the tail of n rows."""
    near = min(int(np.argmin(np.abs(t - t[-1] + 0.7))), len(t) - 2)
    far = min(int(np.argmin(np.abs(t - t[near] + 0.7))), near - 1)
    log_slope = np.log(t[-1] - t[near]) - np.log(x[-1] - x[near])
    rate = 0.0
    if far >= 0:
        fall = np.log(t[near] - t[far]) - np.log(x[near] - x[far]) - log_slope
        # shrunk to zero within two standard errors: there are few rows in the tail
        fall *= max(0.0, 1 - 4 / max(fall**2 * n * (ndtr(t[-1]) - ndtr(t[near])), 4))
        rate = 2 * fall / (t[-1] - t[far])
        log_slope -= np.clip(rate * (t[-1] - t[near]) / 2, -1, 2)
    slope, rate = float(np.exp(log_slope)), float(np.clip(rate, 0, _MAX_RATE)) + 0.0
    run, most = tail_x[1:] - x[-1], 2 * (tail_t[1:] - t[-1]) + 1

    def excess(rate: float) -> float:
        return float(np.max(_tail(run, slope, rate)[0] - most))

    if len(run) and excess(rate) > 0:  # rows that would be outliers in z too
        bracket = (max(rate, 1e-9), _MAX_RATE)
        rate = _MAX_RATE if excess(_MAX_RATE) > 0 else float(root_scalar(excess, bracket=bracket).root)
    return slope, rate
