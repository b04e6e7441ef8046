r"""KMM: weights on the rows of q under which the kernel means of both samples agree.

.. math:: \min_\beta \ \tfrac12 \beta^\top K \beta - \kappa^\top \beta
          \quad \text{subject to} \quad 0 \le \beta_i \le B, \quad |\mathrm{mean}_q \beta - 1| \le \varepsilon
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning

from flowratio._support.validation import RandomState, is_count, is_number, seed_from
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.kernel.interior import Bounds, Dense, LowRank, blocks, central_point, start_point, weight_at
from flowratio.ratios.kernel.kernels import choose_centres, median_distance, squared_distances

_EXACT_ROWS = 4_000  # rows of a sample up to which the whole kernel is in memory; also those that landmarks come from
_RESIDUAL = 1e-8  # of k(x, x) = 1 outside the span of the landmarks: below it they are the whole kernel
_NARROWEST_SLAB = 1e-6  # an interior needs some width
_NARROWEST = 1e-3
_NOISE, _COARSEST_GAP = 1.5, 0.1
_COARSE = 0.03  # share of what landmarks miss: the gap at which they hand over to the kernel


class KMM(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) by kernel mean matching: weights β on rows of q that give them p's kernel mean.

    .. math:: \min_\beta \ \tfrac12 \sum_{ij} \beta_i \beta_j k(x_i, x_j) - \sum_i \beta_i \kappa_i, \qquad
              \kappa_i = \frac{n_q}{n_p} \sum_j k(x_i, x^p_j), \qquad k(x, x') = e^{-\|x - x'\|^2 / (2 \sigma^2)}

    subject to :math:`0 \le \beta_i \le B` and :math:`|\mathrm{mean}_q \beta - 1| \le \varepsilon` [1]_ [2]_. x is in
    standard units. A row of weight w counts as w equal rows, which get equal β.

    *The solver* is a primal-dual interior-point method. It does not end at just any of the many β whose objective is
    as good as the least one, but at that on the central path: the minimum of

    .. math:: \tfrac12 \beta^\top K \beta - \kappa^\top \beta
              - \mu \sum_i \big[\log \beta_i + \log(B - \beta_i)\big] + \dots

    (and the same for ε), with μ so small that the objective is within `gap` of its least value. This point is unique,
    all its weights are positive, and it does not hang on rounding, order or start. As `gap` goes to 0 it goes to the
    exact solution.

    *How exact?* The kernel means of n rows are known to about 1/n of their squared length. A smaller gap fits noise:
    the exact solution has zero weight on most rows, where log r is -∞. (q = N(0, I), p = N(1, I), d = 2, n = 1000:
    the mean squared error of log r is .27 for a gap of 3/n, 8 for 1e-6, 23 for 1e-7.) On shifted Gaussians of 2 and 10
    columns, with 150 to 3000 rows, errors and `score` together are best at about 3/n, and so is the default. For the
    quadratic program as it stands set `gap=1e-7`.

    *New rows.* At each row of q the optimality conditions tie β to the witness function, the gap of the kernel means:

    .. math:: \frac{\mu}{\beta(x)} - \frac{\mu}{B - \beta(x)} + \nu = h(x)
              = \sum_i \beta_i k(x, x_i) - \frac{n_q}{n_p} \sum_j k(x, x^p_j)

    with ν the multiplier of ε. The same equation gives β(x) for any x: on rows of q it is their β, in between it is
    smooth, and it is at most the largest β of the fit. Far from all rows, where h says nothing, it goes to the mean,
    and r to 1. r is β over its mean on the rows of q.

    *Size.* Landmarks from a pivoted Cholesky decomposition give a kernel of low rank. Up to 4000 rows in either
    sample it is only the start, unless it is the whole kernel to 1e-8; above, the program is that of this kernel.

    Parameters
    ----------
    bandwidth
        σ in standard deviations (`scale_`), at least 0.001. None for the median distance of rows of both samples.
    max_weight
        B, the largest weight; above 1 - ε.
    tolerance
        ε, how far the mean weight may be from 1. None for :math:`1 - 1 / \sqrt{n_q}`, as in [1]_. At least 1e-6.
    gap
        How far the objective may stay above its least value, as a share of half the squared length of the kernel
        means, :math:`n_q^2 (\|m_p\|^2 + \|m_q\|^2) / 4`. None for what the samples can tell,
        :math:`1.5/n_p + 1.5/n_q`, and at most 0.1.
    rank
        Number of landmarks at most.
    max_iter
        Newton steps at most.
    random_state
        Seed of the rows that landmarks are chosen from, if there are more than 4000: an integer, a NumPy generator, or
        None for a new one each time.

    Attributes
    ----------
    rows_
        Standardized, distinct rows of q in an order of their own, of shape (m, d).
    weights_
        β of these rows, of shape (m,), as the program has it: its mean is `mean_weight_`, not 1.
    mean_weight_
        Mean of β over the rows of q. β of a row of q is `mean_weight_ * ratio(X)`.
    bandwidth_, tolerance_, gap_
        σ, ε and the gap that were used.
    objective_
        ½ βᵀKβ - κᵀβ.
    kkt_residual_
        How far the optimality conditions of the program are missed, in the unit of `gap`: with g the gradient at β,
        gᵀβ less its minimum over all β within the bounds. It is 0 at the exact solution and nowhere else, and the
        objective is at most this far above the least one.
    n_iter_
        Newton steps.
    centres_, coef_
        The witness function, :math:`h(x) = \sum_c a_c k(x, c)`, of shapes (c, d) and (c,). For the kernel of low rank
        there are no centres, and the coefficients are those of the r features.
    landmarks_, root_
        Standardized landmarks, of shape (r, d), and the Cholesky factor L of their kernel matrix, of shape (r, r). The
        features of x are L⁻¹ k(landmarks, x).
    residual_
        The largest part of k(x, x) = 1, among rows of q, that the landmarks miss.
    barrier_, multiplier_
        μ and ν.

    References
    ----------
    .. [1] Huang, Smola, Gretton, Borgwardt & Schölkopf (2006). *Correcting sample selection bias by unlabeled data.*
    .. [2] Gretton, Smola, Huang, Schmittfull, Borgwardt & Schölkopf (2009). *Covariate shift by kernel mean matching.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.5, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> kmm = KMM(random_state=0).fit_samples(X_p, X_q)
    >>> kmm.log_ratio([[-0.75], [0.25], [1.25]]).round(1)  # the truth is -.5, 0, .5
    array([-0.5,  0. ,  0.5])
    """

    rows_: np.ndarray
    weights_: np.ndarray
    mean_weight_: float
    bandwidth_: float
    tolerance_: float
    gap_: float
    objective_: float
    kkt_residual_: float
    n_iter_: int
    centres_: np.ndarray | None
    coef_: np.ndarray
    landmarks_: np.ndarray
    root_: np.ndarray
    residual_: float
    barrier_: float
    multiplier_: float
    _takes_draws = True

    def __init__(
        self,
        bandwidth: float | None = None,
        *,
        max_weight: float = 1000.0,
        tolerance: float | None = None,
        gap: float | None = None,
        rank: int = 500,
        max_iter: int = 200,
        random_state: RandomState = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.max_weight = max_weight
        self.tolerance = tolerance
        self.gap = gap
        self.rank = rank
        self.max_iter = max_iter
        self.random_state = random_state

    @property
    def _rows(self) -> Literal["distinct"]:
        return "distinct"

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        is_p = y == 1
        X_p, X_q, w_p, w_q = X[is_p], X[~is_p], w[is_p], w[~is_p]
        n_p, n_q = w_p.sum(), w_q.sum()
        bounds = self._checked_bounds(w_q)
        self._check_settings()
        self.gap_ = min(_COARSEST_GAP, _NOISE / n_p + _NOISE / n_q) if self.gap is None else float(self.gap)
        halves = np.concatenate([w_p / n_p, w_q / n_q])
        self.bandwidth_ = median_distance(X, halves) if self.bandwidth is None else float(self.bandwidth)
        self.rows_ = X_q
        A = self._fit_landmarks(X_q, w_q)
        b = self._features_of_sum(X_p, w_p * (n_q / n_p))
        unit = (b @ b + np.square(A.sum(axis=0)).sum()) / 4
        self.barrier_ = float(self.gap_ * unit / bounds.units.sum())
        self._solve(A, b, X_p, w_p * (n_q / n_p), bounds, unit)
        if not self.kkt_residual_ <= self.gap_:
            warnings.warn(
                f"KMM stopped after {self.n_iter_} steps, {self.kkt_residual_:.2g} above its minimum by the optimality "
                f"conditions, not within `gap` = {self.gap_:.2g}. Give a larger `max_iter`, or a larger `gap`.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _check_settings(self) -> None:
        if self.bandwidth is not None and not (is_number(self.bandwidth) and _NARROWEST <= self.bandwidth < math.inf):
            raise ValueError(
                f"`bandwidth` is {self.bandwidth!r}: give standard deviations, at least {_NARROWEST:g}, or None for "
                "the median distance."
            )
        if self.gap is not None and not (is_number(self.gap) and 0 < self.gap <= 1):
            raise ValueError(f"`gap` is {self.gap!r}: give a number above 0 and at most 1, or None for about 3/n.")
        for name in ("rank", "max_iter"):
            if not is_count(getattr(self, name)):
                raise ValueError(f"`{name}` is {getattr(self, name)!r}: give a whole number of 1 or more.")

    def _checked_bounds(self, w: np.ndarray) -> Bounds:
        if not (is_number(self.max_weight) and 0 < self.max_weight < math.inf):
            raise ValueError(
                f"`max_weight` is {self.max_weight!r}: give a positive number, the largest weight of a row."
            )
        if self.tolerance is not None and not (is_number(self.tolerance) and 0 <= self.tolerance < math.inf):
            raise ValueError(
                f"`tolerance` is {self.tolerance!r}: give how far the mean weight may be from 1, 0 or more, or None "
                "for 1 - 1/√n."
            )
        tolerance = 1 - 1 / math.sqrt(w.sum()) if self.tolerance is None else float(self.tolerance)
        self.tolerance_ = max(tolerance, _NARROWEST_SLAB)
        if self.max_weight <= 1 - self.tolerance_:
            raise ValueError(
                f"`max_weight` is {self.max_weight:g}, but the mean weight must be at least {1 - self.tolerance_:g}: "
                f"no weights are within both bounds. Give `max_weight` above 1, or `tolerance` above "
                f"{1 - self.max_weight:g}."
            )
        return Bounds(w, float(self.max_weight), 1 - self.tolerance_, 1 + self.tolerance_)

    def _kernel(self, X: np.ndarray, C: np.ndarray) -> np.ndarray:
        K = squared_distances(X, C)
        K *= -0.5 / self.bandwidth_**2
        return np.exp(K, out=K)

    def _kernel_times(self, X: np.ndarray, C: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return K(X, C) a, (n,), a block of rows at a time."""
        return np.concatenate([self._kernel(X[part], C) @ a for part in blocks(len(X), len(C))])

    def _features(self, X: np.ndarray) -> np.ndarray:
        """Return features of rows, (n, d) to (n, r), whose products are the kernel of low rank."""
        F = np.empty((len(X), len(self.root_)))
        for part in blocks(*F.shape):
            K = self._kernel(X[part], self.landmarks_)
            F[part] = solve_triangular(self.root_, K.T, lower=True, overwrite_b=True, check_finite=False).T
        return F

    def _features_of_sum(self, X: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the features of rows, (n, d) to (r,)."""
        total = sum(w[part] @ self._kernel(X[part], self.landmarks_) for part in blocks(len(X), len(self.root_)))
        return solve_triangular(self.root_, total, lower=True)

    def _fit_landmarks(self, X: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Choose landmarks, and return the features of rows times their weights, (n, r)."""
        pool = choose_centres(X, w, _EXACT_ROWS, np.random.default_rng(seed_from(self.random_state)))
        pivots, self.root_ = _pivoted_cholesky(
            lambda i: self._kernel(pool, pool[i : i + 1])[:, 0], len(pool), self.rank
        )
        self.landmarks_ = pool[pivots]
        A = self._features(X)
        self.residual_ = float(max(0.0, 1 - np.einsum("ij,ij->i", A, A).min()))
        A *= w[:, None]
        return A

    def _solve(
        self, A: np.ndarray, b: np.ndarray, X_p: np.ndarray, w_p: np.ndarray, bounds: Bounds, unit: float
    ) -> None:
        """Find the central point of the kernel of low rank and, from there, that of the kernel itself."""
        exact = self.residual_ > _RESIDUAL and max(len(X_p), len(A)) <= _EXACT_ROWS
        quadratic: LowRank | Dense = LowRank(A)
        kappa = A @ b
        # what the landmarks miss decides how far down their path is that of the kernel
        mu = self.barrier_ * max(1.0, _COARSE * self.residual_ / self.gap_ if exact else 1.0)
        point = central_point(quadratic, kappa, bounds, mu, start_point(quadratic, kappa, bounds, mu), self.max_iter)
        if exact:
            X_q, w = self.rows_, bounds.w
            quadratic = Dense(w[:, None] * self._kernel(X_q, X_q) * w)
            kappa = w * self._kernel_times(X_q, X_p, w_p)
            point = central_point(quadratic, kappa, bounds, self.barrier_, point, self.max_iter)
            self.centres_ = np.concatenate([X_q, X_p])
            self.coef_ = np.concatenate([w * point.beta, -w_p])
        else:
            self.centres_, self.coef_ = None, point.beta @ A - b
        self.weights_, self.n_iter_ = point.beta, point.n_iter
        self.mean_weight_ = float(bounds.share @ point.beta)
        self.multiplier_ = float(point.z[-2] - point.z[-1]) / bounds.w.sum()
        gradient = quadratic.times(point.beta) - kappa
        self.objective_ = float(point.beta @ (gradient - kappa)) / 2
        self.kkt_residual_ = (float(gradient @ point.beta) - bounds.least(gradient)) / unit

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        F = self._features(X)
        h = F @ self.coef_ if self.centres_ is None else self._kernel_times(X, self.centres_, self.coef_)
        # what the landmarks miss, beyond what they miss on rows of q
        missed = 1 - np.einsum("ij,ij->i", F, F) - self.residual_
        unknown = np.clip(missed / max(1 - self.residual_, _RESIDUAL), 0, 1)
        at_mean = 1 / self.mean_weight_ - 1 / (self.max_weight - self.mean_weight_)
        slope = (h - self.multiplier_) / self.barrier_ + unknown * (at_mean + self.multiplier_ / self.barrier_)
        beta = np.minimum(weight_at(slope, self.max_weight), self.weights_.max())
        return np.log(beta / self.mean_weight_)


def _pivoted_cholesky(column: Callable[[int], np.ndarray], n: int, max_rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose rows whose features span those of all n, the farthest from the span first.

    Columns are those of the kernel matrix, of shape (n,); its diagonal is 1. Returns the rows, (r,), and the lower
    Cholesky factor of their kernel matrix, (r, r).
    """
    L = np.zeros((min(n, max_rank), n))
    missed = np.ones(n)
    pivots: list[int] = []
    for k in range(len(L)):
        i = int(missed.argmax())
        if missed[i] <= _RESIDUAL:
            break
        L[k] = (column(i) - L[:k, i] @ L[:k]) / math.sqrt(missed[i])
        missed -= L[k] ** 2
        missed[i] = 0.0
        pivots.append(i)
    return np.array(pivots), np.tril(L[: len(pivots), pivots].T)
