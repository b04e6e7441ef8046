r"""The interior-point method of `KMM`: the central point of a quadratic program with bounds on β and on its mean.

.. math:: \min_\beta \ \tfrac12 \beta^\top M \beta - \kappa^\top \beta - \mu \sum_k u_k \log b_k(\beta)

Every bound b_k is a linear function of β that must stay positive. It counts u_k times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from flowratio._support.chunks import chunks

BLOCK_VALUES = 1 << 19  # values of a matrix at a time
_CENTERED, _NEARLY_CENTERED = 1e-8, 1e-2  # relative error of a bound times its multiplier
_SHORT_STEP, _TO_THE_BOUND = 0.8, 0.99
_FEW, _LEAST_REST = 0.001, 0.1  # share of the bounds that stop no step, and the least rest of a bound after a step


def weight_at(slope: np.ndarray, max_weight: float) -> np.ndarray:
    """Return the β between 0 and B at which 1/β - 1/(B - β) equals the slope."""
    edge = 2 / max_weight
    both = np.hypot(slope, edge)
    # slope + both, which cancels where the slope is negative
    total = np.where(slope < 0, edge**2 / (both - np.minimum(slope, 0)), slope + both)
    return 2 / (edge + total)


class Bounds:
    """0 ≤ β ≤ B and low ≤ mean β ≤ high, as linear functions of β that must be positive, (2n + 2,)."""

    def __init__(self, w: np.ndarray, max_weight: float, low: float, high: float) -> None:
        self.w, self.share = w, w / w.sum()
        self.max_weight, self.low, self.high = max_weight, low, high
        self.units = np.concatenate([w, w, [1.0, 1.0]])  # how often each counts in the barrier

    def values(self, beta: np.ndarray) -> np.ndarray:
        mean = self.share @ beta
        return np.concatenate([beta, self.max_weight - beta, [mean - self.low, self.high - mean]])

    def changes(self, step: np.ndarray) -> np.ndarray:
        mean = self.share @ step
        return np.concatenate([step, -step, [mean, -mean]])

    def held_in(self, beta: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return β after a step that leaves a tenth of each distance to a bound, and the mean within its bounds."""
        room = _LEAST_REST * (self.max_weight - beta)
        new = np.clip(beta + step, _LEAST_REST * beta, self.max_weight - room)
        while not self.low < self.share @ new < self.high:
            new = (new + beta) / 2
        return new

    def pull(self, z: np.ndarray) -> np.ndarray:
        """Return the transpose of `changes` times z, (2n + 2,) to (n,)."""
        n = len(self.w)
        return z[:n] - z[n:-2] + self.share * (z[-2] - z[-1])

    def least(self, gradient: np.ndarray) -> float:
        """Return the minimum of gᵀβ within the bounds, by filling the cheapest rows first."""
        price = gradient / self.w
        order = np.argsort(price)
        room = self.max_weight * self.w[order]
        mass = np.clip(room[price[order] < 0].sum(), self.low * self.w.sum(), self.high * self.w.sum())
        filled = np.diff(np.minimum(np.cumsum(room), mass), prepend=0.0)
        return float(price[order] @ filled)


class LowRank:
    """M = AAᵀ, with A of shape (n, r)."""

    def __init__(self, A: np.ndarray) -> None:
        self.A = A

    def times(self, v: np.ndarray) -> np.ndarray:
        return self.A @ (v @ self.A)

    def factor(self, diagonal: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        A, r = self.A, self.A.shape[1]
        G = np.eye(r)
        for part in chunks(len(A), r, BLOCK_VALUES):
            scaled = A[part] / np.sqrt(diagonal[part])[:, None]
            G += scaled.T @ scaled
        factor = cho_factor(G.T, lower=True, overwrite_a=True, check_finite=False)
        return lambda v: (v - A @ cho_solve(factor, (v / diagonal) @ A, check_finite=False)) / diagonal  # Woodbury


class Dense:
    """M in full, of shape (n, n)."""

    def __init__(self, M: np.ndarray) -> None:
        self.M, self.work = M, np.empty_like(M)

    def times(self, v: np.ndarray) -> np.ndarray:
        return self.M @ v

    def factor(self, diagonal: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        np.copyto(self.work, self.M)
        self.work.flat[:: len(diagonal) + 1] += diagonal
        factor = cho_factor(self.work.T, lower=True, overwrite_a=True, check_finite=False)
        return lambda v: cho_solve(factor, v, check_finite=False)


class Point(NamedTuple):
    """Weights, (n,), multipliers, (2n + 2,), and the number of Newton steps so far."""

    beta: np.ndarray
    z: np.ndarray
    n_iter: int


def start_point(quadratic: LowRank | Dense, kappa: np.ndarray, bounds: Bounds, mu: float) -> Point:
    """Return equal weights within the bounds, and multipliers of the size of the gradient."""
    low, high = max(bounds.low, 0.0), min(bounds.high, bounds.max_weight)
    beta = np.full(len(kappa), min(1.0, (low + high) / 2))
    size = float(np.abs((quadratic.times(beta) - kappa) / bounds.w).max())
    return Point(beta, max(size, mu) * bounds.units / bounds.values(beta), 0)


def central_point(
    quadratic: LowRank | Dense, kappa: np.ndarray, bounds: Bounds, mu: float, start: Point, max_iter: int
) -> Point:
    """Follow the central path by Newton steps down to the point where every bound times its z is μ."""
    beta, z, n_iter = start
    length, last_error = 0.0, math.inf
    while n_iter < max_iter:
        x = bounds.values(beta)
        residual = quadratic.times(beta) - kappa - bounds.pull(z)
        error = float(np.abs(x * z / (mu * bounds.units) - 1).max())
        converged = error <= _CENTERED or last_error / 2 < error < _NEARLY_CENTERED  # the latter: up to rounding
        if length == 1 and converged:
            break
        last_error = error if length == 1 else math.inf
        try:
            length, step, change = _newton_step(quadratic, bounds, x, z, residual, mu)
        except LinAlgError:
            break
        new_beta, new_z = bounds.held_in(beta, length * step), np.maximum(z + length * change, _LEAST_REST * z)
        if not (np.array_equal(new_beta, beta + length * step) and np.array_equal(new_z, z + length * change)):
            length = 0.0  # not a whole Newton step
        beta, z, n_iter = new_beta, new_z, n_iter + 1
    return Point(beta, z, n_iter)


def _newton_step(
    quadratic: LowRank | Dense, bounds: Bounds, x: np.ndarray, z: np.ndarray, residual: np.ndarray, mu: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the length of a predictor-corrector step, and the changes of β and z for length 1."""
    n, units, share = len(residual), bounds.units, bounds.share
    ratio = z / x
    solve = quadratic.factor(ratio[:n] + ratio[n:-2])
    along = solve(share)
    stiffness = 1 / (ratio[-2] + ratio[-1]) + share @ along

    def direction(target: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        pull_z = target / x - z
        step = solve(bounds.pull(pull_z) - residual)
        step -= along * (share @ step / stiffness)
        dx = bounds.changes(step)
        dz = pull_z - ratio * dx
        return min(_largest_step(x, dx), _largest_step(z, dz)), step, dx, dz

    length, _, dx, dz = direction(mu * units)
    now, then = x @ z, (x + length * dx) @ (z + length * dz)
    target = max(mu, (then / now) ** 3 * now / units.sum()) * units
    best = (0.0, residual, z)
    for share_of_correction in (1.0, length**2, 0.0):  # in full it may point out of the bounds
        length, step, _, change = direction(target - share_of_correction * dx * dz)
        best = max(best, (length, step, change), key=lambda candidate: candidate[0])
        if length > _SHORT_STEP:
            break
    length, step, change = best
    return (1.0 if length == 1 else _TO_THE_BOUND * length), step, change


def _largest_step(x: np.ndarray, dx: np.ndarray) -> float:
    """Return the largest step up to 1 at which 99.9 % of all x, and the last two, stay positive."""
    shrinking = -dx / x
    n_few = int(_FEW * len(x))  # of 10⁵ rows one would stop every step. `Bounds.held_in` corrects them
    most = shrinking.max() if n_few == 0 else np.partition(shrinking, -n_few - 1)[-n_few - 1]
    return 1 / max(1.0, float(most), float(shrinking[-2:].max()))
