"""KLIEP: the non-negative combination of kernels with mean 1 on q and maximum likelihood on p."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.special import log_expit, logsumexp

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_count, check_n_folds, seed_from
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.classifier.presets import NewtonLogisticRegression
from flowratio.ratios.kernel.kernels import check_range, choose_centers, median_distance, squared_distances
from flowratio.samples.folding import random_ranks
from flowratio.samples.two_samples import TwoSamples

_WIDTHS = np.array([np.inf, *2.0 ** np.arange(0.5, -4, -0.5)])  # in median distances, from wide to narrow
_NARROWEST = 1e-3
_SEARCH_ROWS = 20_000  # largest number of rows of each sample in the search
_NEGLIGIBLE = 1e-100  # mean of a function on q below which its coefficient could overflow
_TOLERANCE, _SEARCH_TOLERANCE = 1e-10, 1e-5  # of the optimality conditions, in nats
_MAX_STEPS, _EM_STEPS = 500, 3
_ROUNDING = 1e-14  # of f, in nats
_JOINING = 20  # largest number of functions that get a coefficient above 0 in one step


class KLIEP(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) by maximum likelihood on p: kernels that correct a log-linear ratio.

    .. math:: r(x) = e^{\theta \cdot x} \Big[ \beta_0 + \beta_1 \frac{1}{1 + e^{-2 (\theta \cdot x - \tau)}}
              + \sum_l \alpha_l \exp\big(-\|x - c_l\|^2 / (2 \sigma^2)\big) \Big], \qquad \alpha, \beta \ge 0

    The coefficients maximize :math:`\mathrm{mean}_p \log r` subject to :math:`\mathrm{mean}_q\, r = 1` [1]_, by an
    exact algorithm for mixture proportions [4]_. The centers are rows of p. Rows are standardized.

    - *Start.* The kernels correct a log-linear ratio [2]_ [3]_, whose direction θ comes from logistic regression with a
      small ridge. With kernels alone, r falls like a Gaussian wherever p has no rows.
    - *Step.* If p has rows beyond those of q, the constraint would scale all of r by a wrong factor. A step at the last
      row of q (τ is the maximum of θ·x on q) prevents this.
    - *Bandwidth.* σ is the widest of ten candidates, among them ∞ (no kernels), whose cross-validated
      `RatioEstimator.score` is within one standard error of the best.

    Parameters
    ----------
    bandwidth
        σ in standard deviations, at least 0.001, or `inf` for no kernels. None selects it by cross-validation.
    start
        `"log-linear"`, or None for the ratio of [1]_: kernels and a constant, without a start and without a step.
    n_centers
        Largest number of kernels. Few get a coefficient above 0, so more than 100 cost time and change little.
    n_folds, random_state
        Number of folds, and seed of centers and folds: an integer, a NumPy generator, or None for a new seed each time.

    Attributes
    ----------
    bandwidth_, start_, reach_, centers_, log_coefficients_
        σ, θ, (d,), and τ, for standardized rows, centers, (m, d), and logarithms of β₀, β₁ and all α, (2 + m,).
    kkt_residual_, scores_
        Upper bound on the distance of the likelihood from its maximum, in nats. Results of the cross-validation, of
        shape (n_bandwidths, 3): bandwidth, score in nats, standard error.

    References
    ----------
    .. [1] Sugiyama et al. (2008). *Direct importance estimation for covariate shift adaptation.*
    .. [2] Hjort & Glad (1995). *Nonparametric density estimation with a parametric start.*
    .. [3] Tsuboi et al. (2009). *Direct density ratio estimation for large-scale covariate shift adaptation.*
    .. [4] Kim et al. (2020). *A fast algorithm for maximum likelihood estimation of mixture proportions.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1.0, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> KLIEP(random_state=0).fit_samples(X_p, X_q).log_ratio([[0.0], [1.0]]).round(1).tolist()  # x - 1/2
    [-0.5, 0.5]
    """

    requires = Requires(noise=True)

    def __init__(
        self,
        bandwidth: float | None = None,
        *,
        start: Literal["log-linear"] | None = "log-linear",
        n_centers: int = 100,
        n_folds: int = 5,
        random_state: RandomState = None,
    ) -> None:
        self.bandwidth, self.start, self.n_centers = bandwidth, start, n_centers
        self.n_folds, self.random_state = n_folds, random_state

    def _fit(self, samples: TwoSamples) -> None:
        self._check_settings()
        rng = np.random.default_rng(seed_from(self.random_state))
        X, n_p = samples.X, samples.n_p
        positions = choose_centers(np.arange(n_p)[:, None], samples.w_p, self.n_centers, rng)[:, 0]
        self.scores_, self.bandwidth_ = np.empty((0, 3)), np.inf
        if self.bandwidth is not None:
            self.bandwidth_ = float(self.bandwidth)
        elif (n_folds := min(self.n_folds, samples.n_least)) > 1:  # a single row cannot be held out
            rank = random_ranks(samples, rng)
            fold, used = rank % n_folds, rank < _SEARCH_ROWS
            part = replace(samples.part(used), w=samples.w[used])
            self.scores_ = self._search(part, fold[used], X[positions], np.where(used, fold, -1)[positions])
            bandwidth, score, error = self.scores_.T
            self.bandwidth_ = float(bandwidth[np.argmax(score >= score.max() - error)])  # the first is the widest
        self.centers_ = X[positions if self.bandwidth_ < np.inf else []]
        self.start_ = self._new_start(X, samples.y, samples.w)
        start = X @ self.start_
        self.reach_ = float(start[n_p:].max())
        A = _functions(squared_distances(self.centers_, X), self.bandwidth_)
        A[1] = np.exp(_log_step(start, self.reach_))
        usable = self._usable(np.ones(len(self.centers_), bool))
        coefficients, log_mean, self.kkt_residual_ = _fitted(A, start, n_p, samples.w, usable, _TOLERANCE)
        with np.errstate(divide="ignore"):
            self.log_coefficients_ = np.log(coefficients) - log_mean

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        start, kernels = X @ self.start_, np.isfinite(self.log_coefficients_[2:])
        log_terms = np.empty((len(X), 2 + np.count_nonzero(kernels)))
        log_terms[:, 0] = self.log_coefficients_[0]
        log_terms[:, 1] = self.log_coefficients_[1] + _log_step(start, self.reach_)
        log_terms[:, 2:] = squared_distances(X, self.centers_[kernels]) * (-0.5 / self.bandwidth_**2)
        log_terms[:, 2:] += self.log_coefficients_[2:][kernels]
        return start + logsumexp(log_terms, axis=1)

    def _check_settings(self) -> None:
        check_range("bandwidth", self.bandwidth, _NARROWEST, math.inf, "to select it by cross-validation")
        check_count(self.n_centers, "n_centers")
        check_n_folds(self.n_folds)
        if self.start not in ("log-linear", None):
            raise ArgumentError("start", f"`start` is {self.start!r}. Use 'log-linear', or None for kernels only.")

    def _search(self, samples: TwoSamples, fold: Vector, centers: Matrix, center_fold: Vector) -> Matrix:
        """Return bandwidths, held-out scores and errors of their difference from the best, (n_bandwidths, 3)."""
        X, y, w, n_p = samples.X, samples.y, samples.w, samples.n_p
        share = w / (2 * np.bincount(y, w)[y])  # each sample counts one half
        bandwidths = _WIDTHS * median_distance(X, share)
        D = squared_distances(centers, X)  # (m, n)
        starts = [X @ self._new_start(X[fold != k], y[fold != k], w[fold != k]) for k in range(fold.max() + 1)]
        loss = np.empty((len(bandwidths), len(X)))
        for j, bandwidth in enumerate(bandwidths):
            A = _functions(D, bandwidth)
            for k, start in enumerate(starts):
                held_out = fold == k
                A[1] = np.exp(_log_step(start, start[n_p:][~held_out[n_p:]].max()))
                usable = self._usable((center_fold != k) & (bandwidth < np.inf))
                coefficients, log_mean, _ = _fitted(A, start, n_p, np.where(held_out, 0, w), usable, _SEARCH_TOLERANCE)
                r = np.maximum((coefficients @ A)[held_out], np.finfo(float).tiny)  # no kernel may reach a held-out row
                log_r = start[held_out] - log_mean + np.log(r)
                loss[j, held_out] = np.logaddexp(0, np.where(y[held_out] == 1, -log_r, log_r))
        score = math.log(2) - loss @ share
        difference = loss - loss[np.argmax(score)]
        errors = [_error(difference[:, :n_p], w[:n_p]), _error(difference[:, n_p:], w[n_p:])]
        return np.column_stack([bandwidths, score, np.hypot(*errors)])

    def _new_start(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the direction of the log-linear ratio, (d,). Both samples count one half. A ridge keeps it finite."""
        if self.start is None:
            return np.zeros(X.shape[1])
        total_q, total_p = np.bincount(y, w)
        balance = 2 / (total_p + total_q) * np.where(y == 1, total_q, total_p)
        return NewtonLogisticRegression(1.0).fit(X, y, w * balance).coef_[0]

    def _usable(self, kernels: np.ndarray) -> np.ndarray:
        """Return which functions are available, (2 + m,), from which kernels are. Without a start there is no step."""
        return np.concatenate([[True, self.start is not None], kernels])


def _log_step(start: Vector, reach: float) -> Vector:
    """Return the logarithm of the step over exp(start), (n,)."""
    return log_expit(2 * (start - reach))


def _functions(D: np.ndarray, bandwidth: float) -> np.ndarray:
    """Return all functions over exp(start), (2 + m, n), from squared distances, (m, n), without the step."""
    A = np.empty((2 + len(D), D.shape[1]))
    A[0] = 1
    np.multiply(D, -0.5 / bandwidth**2, out=A[2:])
    np.exp(A[2:], out=A[2:])
    return A


def _error(difference: Matrix, w: Vector) -> Vector:
    """Return the standard error of half the mean of each row, (k, n) to (k,)."""
    mean = np.average(difference, axis=1, weights=w)
    return np.sqrt((difference - mean[:, None]) ** 2 @ w) / (2 * w.sum())


def _fitted(
    A: np.ndarray, start: np.ndarray, n_p: int, w: np.ndarray, usable: np.ndarray, tolerance: float
) -> tuple[np.ndarray, float, float]:
    """Fit functions (k, n) to rows with w > 0. Return coefficients, (k,), log mean of exp(start) on q, residual."""
    top = float(start[n_p:][w[n_p:] > 0].max())
    tilted = w[n_p:] * np.exp(np.minimum(start[n_p:] - top, 0))  # 0 * exp is 0 on rows that are held out
    b = A[:, n_p:] @ tilted / tilted.sum()  # means on q, that of exp(start) being 1
    used, rows = np.flatnonzero(usable & (b > _NEGLIGIBLE)), np.flatnonzero(w[:n_p])
    share, residual = _maximized(A[np.ix_(used, rows)], w[rows] / w[rows].sum(), b[used], tolerance)
    coefficients = np.zeros(len(A))
    coefficients[used] = share / b[used]
    return coefficients, top + math.log(tilted.sum() / w[n_p:].sum()), residual


def _maximized(A: np.ndarray, w: np.ndarray, b: np.ndarray, tolerance: float) -> tuple[np.ndarray, float]:
    r"""Maximize :math:`\sum_i w_i \log \sum_l a_l A_{li} / b_l` over the simplex. Return a, (k,), and the residual.

    Three steps of EM come first. The optimum is also that of :math:`f(a) = \sum_l a_l - \sum_i w_i \log(\cdot)` over
    a >= 0, so each further step minimizes the quadratic model of f, where a > 0 and for functions that gain most.
    """
    a, residual = np.full(len(A), 1 / len(A)), np.inf
    for step in range(_MAX_STEPS):
        r = (a / b) @ A
        g = A @ (w / r) / b
        residual = max(float(g.max() - 1), float(np.abs(g - 1)[a > 0].max()))
        if residual <= tolerance:
            break
        if step < _EM_STEPS:
            a = a * g
            continue
        joining = np.flatnonzero((a == 0) & (g > 1))
        used = np.concatenate([np.flatnonzero(a), joining[np.argsort(-g[joining], kind="stable")[:_JOINING]]])
        F = A[used] * (np.sqrt(w) / r)  # (u, n)
        change = _newton_point(F @ F.T / np.outer(b[used], b[used]), g[used], a[used]) - a[used]
        length = _step_length((change / b[used]) @ F / np.sqrt(w), w, change.sum())
        if length == 0:  # the gain is below rounding
            break
        a[used] = np.maximum(a[used] + length * change, 0)
        a /= a.sum()
    return a, residual


def _newton_point(H: np.ndarray, g: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Minimize the quadratic model of f at a, (u,), over non-negative points. Its Hessian has H a = g."""
    damping = 1e-10 * np.trace(H)  # functions may be nearly equal
    H[np.diag_indices_from(H)] += damping
    L = np.linalg.cholesky(H)
    return nnls(L.T, solve_triangular(L, 2 * g - 1 + damping * a, lower=True))[0]


def _step_length(change: np.ndarray, w: np.ndarray, growth: float) -> float:
    """Halve a step until f falls enough. A full step scales r by 1 + change, (n,), and adds growth to sum(a)."""
    enough, length = growth - 1e-4 * (growth - w @ change), 1.0
    while length > 1e-10:
        if length * change.min() > -0.99 and w @ np.log1p(length * change) >= length * enough - _ROUNDING:
            return length
        length /= 2
    return 0.0
