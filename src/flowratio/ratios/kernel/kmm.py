"""KMM: weights on the rows of q under which the kernel means of both samples agree."""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning

from flowratio._support.chunks import chunks
from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, Vector
from flowratio._support.validation import RandomState, check_count, check_positive, is_number, seed_from
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.kernel.interior import BLOCK_VALUES, Bounds, Dense, LowRank, central_point, start_point, weight_at
from flowratio.ratios.kernel.kernels import check_range, choose_centers, median_distance, squared_distances
from flowratio.samples.two_samples import TwoSamples

_EXACT_ROWS = 4_000  # rows of a sample up to which the full kernel is in memory, and from which landmarks come
_RESIDUAL = 1e-8  # of k(x, x) = 1 outside the span of the landmarks: below it they give the full kernel
_NARROWEST_SLAB = 1e-6  # an interior needs some width
_NARROWEST, _WIDEST = 1e-3, float(np.finfo(np.float64).max)
_NOISE, _COARSEST_GAP = 1.5, 0.1
_COARSE = 0.03  # the gap, as a share of the landmarks' residual, at which the full kernel takes over


class KMM(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) by kernel mean matching: weighted by β, rows of q have the kernel mean of p.

    .. math:: \min_\beta \ \tfrac12 \sum_{ij} \beta_i \beta_j k(x_i, x_j) - \sum_i \beta_i \kappa_i, \qquad
              \kappa_i = \frac{n_q}{n_p} \sum_j k(x_i, x^p_j), \qquad k(x, x') = e^{-\|x - x'\|^2 / (2 \sigma^2)}

    subject to :math:`0 \le \beta_i \le B` and :math:`|\mathrm{mean}_q \beta - 1| \le \varepsilon` [1]_ [2]_. Rows are
    standardized. A row of weight w counts as w equal rows.

    - *Precision.* An interior-point method finds the point of the central path whose objective is within `gap` of the
      minimum. The kernel means of n rows are known to about 1/n of their squared length, so a smaller `gap` fits noise.
      An example is q = N(0, I), p = N(1, I), d = 2 and n = 1000. There the mean squared error of log r is 0.27 for
      `gap` = 3/n, 8 for 1e-6 and 23 for 1e-7. The default is about 3/n. For the exact quadratic program set
      `gap=1e-7`.
    - *New rows.* With the barrier μ and the multiplier ν of ε, the optimality conditions give β(x) for any x:

      .. math:: \frac{\mu}{\beta(x)} - \frac{\mu}{B - \beta(x)} + \nu = h(x)
                = \sum_i \beta_i k(x, x_i) - \frac{n_q}{n_p} \sum_j k(x, x^p_j)

      On rows of q this is their β. It is never above the largest β of the fit. Far from all rows r goes to 1.
    - *Size.* Above 4000 rows in a sample, a pivoted Cholesky decomposition gives a kernel of low rank.

    Parameters
    ----------
    bandwidth
        σ in standard deviations (`scale_`), at least 0.001. None uses the median distance of rows of both samples.
    max_weight
        B, the largest weight. It must be above 1 - ε.
    tolerance
        ε, the largest distance of the mean weight from 1, at least 1e-6. None uses :math:`1 - 1 / \sqrt{n_q}` [1]_.
    gap
        Largest distance of the objective from its minimum, as a share of half the squared length of the kernel means,
        :math:`n_q^2 (\|m_p\|^2 + \|m_q\|^2) / 4`. None uses :math:`1.5/n_p + 1.5/n_q`. The maximum is then 0.1.
    rank, max_iter
        Largest number of landmarks, and of Newton steps.
    random_state
        Seed of the landmarks, above 4000 rows: an integer, a NumPy generator, or None for a new seed each time.

    Attributes
    ----------
    rows_, q_weights_, mean_weight_
        Standardized, distinct rows of q, (m, d), their β, (m,), and its mean. β of a row is `mean_weight_ * ratio(X)`.
    bandwidth_, tolerance_, gap_, objective_, n_iter_, kkt_residual_
        σ, ε, the gap of the fit, ½ βᵀKβ - κᵀβ, the number of Newton steps, and an upper bound on the distance of the
        objective from its minimum, in units of `gap`.
    centers_, witness_coefficients_, barrier_, multiplier_
        h as a sum of kernels, (c, d) and (c,), μ and ν. With the kernel of low rank `centers_` is None, and the
        coefficients are those of the r features.
    landmarks_, root_, residual_
        Standardized landmarks, (r, d), the Cholesky factor of their kernel matrix, (r, r), and the largest part of
        k(x, x) = 1, among rows of q, outside their span.

    References
    ----------
    .. [1] Huang et al. (2006). *Correcting sample selection bias by unlabeled data.*
    .. [2] Gretton et al. (2009). *Covariate shift by kernel mean matching.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(0.5, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> KMM(random_state=0).fit_samples(X_p, X_q).log_ratio([[-0.75], [0.25], [1.25]]).round(1)  # -.5, 0, .5
    array([-0.5,  0. ,  0.5])
    """

    requires = Requires(rows="distinct", noise=True)
    centers_: Matrix | None

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
        self.bandwidth, self.max_weight, self.tolerance, self.gap = bandwidth, max_weight, tolerance, gap
        self.rank, self.max_iter, self.random_state = rank, max_iter, random_state

    def _fit(self, samples: TwoSamples) -> None:
        n_p, n_q = samples.w_p.sum(), samples.w_q.sum()
        bounds = self._checked_bounds(samples.w_q)
        self._check_settings()
        self.gap_ = min(_COARSEST_GAP, _NOISE / n_p + _NOISE / n_q) if self.gap is None else float(self.gap)
        halves = np.concatenate([samples.w_p / n_p, samples.w_q / n_q])
        self.bandwidth_ = median_distance(samples.X, halves) if self.bandwidth is None else float(self.bandwidth)
        self.rows_ = samples.X_q
        A = self._fit_landmarks(samples.X_q, samples.w_q)
        w_p = samples.w_p * (n_q / n_p)
        b = self._features_of_sum(samples.X_p, w_p)
        unit = (b @ b + np.square(A.sum(axis=0)).sum()) / 4
        self.barrier_ = float(self.gap_ * unit / bounds.units.sum())
        self._solve(A, b, samples.X_p, w_p, bounds, unit)
        if not self.kkt_residual_ <= self.gap_:
            distance = f"Its objective may be {self.kkt_residual_:.2g} above the minimum, and `gap` is {self.gap_:.2g}"
            message = f"KMM stopped after {self.n_iter_} steps. {distance}. Use a larger `max_iter` or a larger `gap`."
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _check_settings(self) -> None:
        check_range("bandwidth", self.bandwidth, _NARROWEST, _WIDEST, "for the median distance")
        check_count(self.rank, "rank")
        check_count(self.max_iter, "max_iter")
        gap = self.gap
        if gap is not None and not (is_number(gap) and 0 < gap <= 1):
            raise ArgumentError("gap", f"`gap` is {gap!r}. Use a number above 0 and at most 1, or None for about 3/n.")

    def _checked_bounds(self, w: Vector) -> Bounds:
        B, tolerance = self.max_weight, self.tolerance
        check_positive(B, "max_weight")
        check_range("tolerance", tolerance, 0.0, _WIDEST, "for 1 - 1/√n")
        tolerance = 1 - 1 / math.sqrt(w.sum()) if tolerance is None else float(tolerance)
        self.tolerance_ = max(tolerance, _NARROWEST_SLAB)
        if B + self.tolerance_ <= 1:
            problem = f"`max_weight` is {B:g}, but the mean weight must be at least {1 - self.tolerance_:g}"
            advice = f"Use `max_weight` above 1, or `tolerance` above {1 - B:g}."
            raise ArgumentError("max_weight", f"{problem}. {advice}")
        return Bounds(w, float(B), 1 - self.tolerance_, 1 + self.tolerance_)

    def _kernel(self, X: np.ndarray, C: np.ndarray) -> np.ndarray:
        K = squared_distances(X, C)
        K *= -0.5 / self.bandwidth_**2
        return np.exp(K, out=K)

    def _kernel_times(self, X: np.ndarray, C: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return K(X, C) a, (n,), a block of rows at a time."""
        return np.concatenate([self._kernel(X[part], C) @ a for part in chunks(len(X), len(C), BLOCK_VALUES)])

    def _features(self, X: np.ndarray) -> np.ndarray:
        """Return features of rows, (n, d) to (n, r), whose products are the kernel of low rank."""
        F = np.empty((len(X), len(self.root_)))
        for part in chunks(*F.shape, BLOCK_VALUES):
            K = self._kernel(X[part], self.landmarks_)
            F[part] = solve_triangular(self.root_, K.T, lower=True, overwrite_b=True, check_finite=False).T
        return F

    def _features_of_sum(self, X: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the weighted sum of the features of rows, (n, d) to (r,)."""
        blocks = chunks(len(X), len(self.root_), BLOCK_VALUES)
        total = sum(w[part] @ self._kernel(X[part], self.landmarks_) for part in blocks)
        return solve_triangular(self.root_, total, lower=True)

    def _fit_landmarks(self, X: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Select landmarks, and return the features of rows times their weights, (n, r)."""
        pool = choose_centers(X, w, _EXACT_ROWS, np.random.default_rng(seed_from(self.random_state)))
        pivots, self.root_ = self._pivoted_cholesky(pool)
        self.landmarks_ = pool[pivots]
        A = self._features(X)
        self.residual_ = float(max(0.0, 1 - np.einsum("ij,ij->i", A, A).min()))
        A *= w[:, None]
        return A

    def _pivoted_cholesky(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows, (r,), whose features span those of all n, and the lower factor of their kernel, (r, r)."""
        L, missed = np.zeros((min(len(X), self.rank), len(X))), np.ones(len(X))  # the diagonal of the kernel is 1
        pivots: list[int] = []
        for k in range(len(L)):
            i = int(missed.argmax())
            if missed[i] <= _RESIDUAL:
                break
            L[k] = (self._kernel(X, X[i : i + 1])[:, 0] - L[:k, i] @ L[:k]) / math.sqrt(missed[i])
            missed -= L[k] ** 2
            missed[i] = 0.0
            pivots.append(i)
        return np.array(pivots), np.tril(L[: len(pivots), pivots].T)

    def _solve(
        self, A: np.ndarray, b: np.ndarray, X_p: np.ndarray, w_p: np.ndarray, bounds: Bounds, unit: float
    ) -> None:
        """Find the central point of the kernel of low rank and, from there, that of the full kernel."""
        exact = self.residual_ > _RESIDUAL and max(len(X_p), len(A)) <= _EXACT_ROWS
        quadratic: LowRank | Dense = LowRank(A)
        kappa = A @ b
        # the landmarks' path equals that of the kernel only down to the part that they miss
        mu = self.barrier_ * max(1.0, _COARSE * self.residual_ / self.gap_ if exact else 1.0)
        point = central_point(quadratic, kappa, bounds, mu, start_point(quadratic, kappa, bounds, mu), self.max_iter)
        if exact:
            X_q, w = self.rows_, bounds.w
            quadratic = Dense(w[:, None] * self._kernel(X_q, X_q) * w)
            kappa = w * self._kernel_times(X_q, X_p, w_p)
            point = central_point(quadratic, kappa, bounds, self.barrier_, point, self.max_iter)
            self.centers_ = np.concatenate([X_q, X_p])
            self.witness_coefficients_ = np.concatenate([w * point.beta, -w_p])
        else:
            self.centers_ = None
            self.witness_coefficients_ = point.beta @ A - b
        self.q_weights_, self.n_iter_ = point.beta, point.n_iter
        self.mean_weight_ = float(bounds.share @ point.beta)
        self.multiplier_ = float(point.z[-2] - point.z[-1]) / bounds.w.sum()
        gradient = quadratic.times(point.beta) - kappa
        self.objective_ = float(point.beta @ (gradient - kappa)) / 2
        self.kkt_residual_ = (float(gradient @ point.beta) - bounds.least(gradient)) / unit

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        F = self._features(X)
        a = self.witness_coefficients_
        h = F @ a if self.centers_ is None else self._kernel_times(X, self.centers_, a)
        # outside the span of the landmarks, more than rows of q are
        missed = 1 - np.einsum("ij,ij->i", F, F) - self.residual_
        unknown = np.clip(missed / max(1 - self.residual_, _RESIDUAL), 0, 1)
        at_mean = 1 / self.mean_weight_ - 1 / (self.max_weight - self.mean_weight_)
        slope = (h - self.multiplier_) / self.barrier_ + unknown * (at_mean + self.multiplier_ / self.barrier_)
        beta = np.minimum(weight_at(slope, self.max_weight), self.q_weights_.max())
        return np.log(beta / self.mean_weight_)
