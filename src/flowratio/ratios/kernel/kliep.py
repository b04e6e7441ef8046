r"""KLIEP: non-negative combinations of kernels, of greatest likelihood on p among those whose mean on q is 1.

.. math:: \max_{\alpha \ge 0} \ \mathrm{mean}_p \log r_\alpha \quad \text{subject to} \quad
          \mathrm{mean}_q\, r_\alpha = 1
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from scipy.special import log_expit, logsumexp

from flowratio._support.validation import RandomState, check_n_folds, is_count, is_number, seed_from
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.classifier.presets import NewtonLogisticRegression
from flowratio.ratios.kernel.kernels import choose_centres, median_distance, squared_distances

_WIDTHS = np.array([np.inf, *2.0 ** np.arange(0.5, -4, -0.5)])  # in median distances, from wide to narrow
_NARROWEST = 1e-3
_SEARCH_ROWS = 20_000  # rows of each sample that the search looks at
_UNSEEN = 1e-100  # the mean on q of a function below which its coefficient could be larger than floats are
_TOLERANCE, _SEARCH_TOLERANCE = 1e-10, 1e-5  # of the optimality conditions, in nats
_MAX_STEPS, _EM_STEPS = 500, 3
_ROUNDING = 1e-14  # of f, in nats
_JOINING = 20  # functions that may join those with a coefficient in one step


class KLIEP(RatioEstimator):
    r"""Estimate r = p/q (p is y = 1) by kernels that correct a log-linear ratio, with the greatest likelihood on p.

    .. math:: r(x) = e^{\theta \cdot x} \Big[ \beta_0 + \beta_1 \frac{1}{1 + e^{-2 (\theta \cdot x - \tau)}}
              + \sum_l \alpha_l \exp\big(-\|x - c_l\|^2 / (2 \sigma^2)\big) \Big], \qquad \alpha, \beta \ge 0

    The coefficients maximize :math:`\mathrm{mean}_p \log r` subject to :math:`\mathrm{mean}_q\, r = 1` [1]_. With the
    share of that mean that each function has as unknowns, these are the proportions of a mixture, which are found
    exactly [4]_. The centres are rows of p; x is in standard units.

    *The start.* Kernels alone let r fall like a Gaussian wherever p has no rows, whatever the truth is. Here they
    correct a start, as in [2]_: the log-linear ratio [3]_, in the direction θ that logistic regression with a small
    ridge finds. (The log-linear ratio of greatest likelihood on p need not exist: it does not if the mean of p lies
    outside the hull of q's rows.) A kernel times the start is a kernel, its centre moved by σ²θ. A shift of Gaussians
    needs no kernel, and identical samples give r = 1.

    *The step.* If p reaches beyond the rows of q, the true ratio has a mean far below 1 on those rows, as what is
    missing lies where they do not. The constraint puts it somewhere. The step, at the last row of q (τ is the greatest
    θ·x on q), takes it, and the rest of r need not be wrong by a factor.

    *The bandwidth.* σ = ∞ (no kernels) and nine multiples of the median distance are compared on held-out folds. The
    start, the coefficients, and the normalization on q come from the other folds, and so do the centres. What is
    compared is `RatioEstimator.score`, the likelihood of y on held-out rows of both samples. The likelihood of
    held-out rows of p alone would not do: a narrow kernel where q has no rows raises it without end, and no row
    objects. The widest σ whose score is within one standard error (of the difference) of the best is taken.

    Parameters
    ----------
    bandwidth
        σ in standard deviations (`scale_`), at least 0.001; `inf` for the log-linear ratio without kernels. None
        searches for it.
    start
        `"log-linear"`, or None for the ratio of [1]_: kernels and a constant, without a start and without a step.
    n_centres
        Number of kernels at most. Few get a coefficient, as in any mixture of greatest likelihood: more than a hundred
        cost time and change little.
    n_folds
        Folds of the search, 2 or more; if a sample has fewer distinct rows, as many as those.
    random_state
        Seed of centres and folds: an integer, a NumPy generator, or None for another one each time.

    Attributes
    ----------
    bandwidth_
        σ in standard deviations.
    centres_
        Standardized centres, of shape (m, d); none if σ is infinite.
    start_, reach_
        θ, of shape (d,), and τ, for standardized rows.
    log_coef_
        Logarithms of β₀, β₁ and all α, of shape (2 + m,); `-inf` where they are zero.
    kkt_residual_
        How far the conditions of the optimum are missed. Let each function be scaled to mean 1 on q, and g be the mean
        on p of the function over r: the largest g - 1 of all functions, or abs(g - 1) of those with a coefficient. The
        likelihood is this close to its maximum, in nats.
    scores_
        The search, of shape (n_bandwidths, 3): bandwidth, held-out score in nats, standard error of its distance from
        the best. Empty if the bandwidth was given.

    References
    ----------
    .. [1] Sugiyama, Suzuki, Nakajima, Kashima, von Bünau & Kawanabe (2008). *Direct importance estimation for
       covariate shift adaptation.*
    .. [2] Hjort & Glad (1995). *Nonparametric density estimation with a parametric start.*
    .. [3] Tsuboi, Kashima, Hido, Bickel & Sugiyama (2009). *Direct density ratio estimation for large-scale covariate
       shift adaptation.*
    .. [4] Kim, Carbonetto, Stephens & Anitescu (2020). *A fast algorithm for maximum likelihood estimation of mixture
       proportions using sequential quadratic programming.*

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X_p, X_q = rng.normal(1.0, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> ratio = KLIEP(random_state=0).fit_samples(X_p, X_q)
    >>> ratio.log_ratio([[0.0], [1.0]]).round(1).tolist()  # x - 1/2 is the truth
    [-0.5, 0.5]
    """

    bandwidth_: float
    centres_: np.ndarray
    start_: np.ndarray
    reach_: float
    log_coef_: np.ndarray
    kkt_residual_: float
    scores_: np.ndarray
    _takes_draws = True

    def __init__(
        self,
        bandwidth: float | None = None,
        *,
        start: Literal["log-linear"] | None = "log-linear",
        n_centres: int = 100,
        n_folds: int = 5,
        random_state: RandomState = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.start = start
        self.n_centres = n_centres
        self.n_folds = n_folds
        self.random_state = random_state

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        self._check_settings()
        rng = np.random.default_rng(seed_from(self.random_state))
        n_p = int(y.sum())
        chosen = choose_centres(np.arange(n_p)[:, None], w[:n_p], self.n_centres, rng)[:, 0]
        self.scores_, self.bandwidth_ = np.empty((0, 3)), np.inf
        if self.bandwidth is not None:
            self.bandwidth_ = float(self.bandwidth)
        sizes = (n_p // self._n_draws, (len(y) - n_p) // self._n_draws)
        if self.bandwidth is None and (n_folds := min(self.n_folds, *sizes)) > 1:  # an only row cannot be held out
            fold = np.concatenate([np.tile(_folds(n, n_folds, rng), self._n_draws) for n in sizes])
            seen = fold >= 0
            self.scores_ = self._search(X[seen], y[seen], w[seen], fold[seen], X[chosen], fold[chosen])
            bandwidth, score, error = self.scores_.T
            self.bandwidth_ = float(bandwidth[np.argmax(score >= score.max() - error)])  # the first is the widest
        self.centres_ = X[chosen if self.bandwidth_ < np.inf else []]
        self.start_ = self._new_start(X, y, w)
        start = X @ self.start_
        self.reach_ = float(start[n_p:].max())
        A = _functions(squared_distances(self.centres_, X), self.bandwidth_)
        A[1] = np.exp(_log_step(start, self.reach_))
        usable = self._usable(np.ones(len(self.centres_), bool))
        coef, log_mean, self.kkt_residual_ = _fitted(A, start, n_p, w, usable, _TOLERANCE)
        with np.errstate(divide="ignore"):
            self.log_coef_ = np.log(coef) - log_mean

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        start, kernels = X @ self.start_, np.isfinite(self.log_coef_[2:])
        log_terms = np.empty((len(X), 2 + np.count_nonzero(kernels)))
        log_terms[:, 0] = self.log_coef_[0]
        log_terms[:, 1] = self.log_coef_[1] + _log_step(start, self.reach_)
        log_terms[:, 2:] = squared_distances(X, self.centres_[kernels]) * (-0.5 / self.bandwidth_**2)
        log_terms[:, 2:] += self.log_coef_[2:][kernels]
        return start + logsumexp(log_terms, axis=1)

    def _check_settings(self) -> None:
        sigma = self.bandwidth
        if sigma is not None and not (is_number(sigma) and sigma >= _NARROWEST):
            raise ValueError(
                f"`bandwidth` is {sigma!r}: give a number of standard deviations, at least {_NARROWEST}, or None to "
                "search for it."
            )
        if self.start not in ("log-linear", None):
            raise ValueError(f"`start` is {self.start!r}: give 'log-linear', or None for kernels and a constant alone.")
        if not is_count(self.n_centres):
            raise ValueError(f"`n_centres` is {self.n_centres!r}: give a whole number of 1 or more.")
        check_n_folds(self.n_folds)

    def _search(
        self,
        X: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        fold: np.ndarray,
        centres: np.ndarray,
        centre_fold: np.ndarray,
    ) -> np.ndarray:
        """Return bandwidths, held-out scores and standard errors of their distance from the best, (n_bandwidths, 3)."""
        n_p = int(y.sum())
        share = w / (2 * np.bincount(y, w)[y])  # each sample counts one half
        bandwidths = _WIDTHS * median_distance(X, share)
        D = squared_distances(centres, X)  # (m, n)
        starts = [X @ self._new_start(X[fold != k], y[fold != k], w[fold != k]) for k in range(fold.max() + 1)]
        loss = np.empty((len(bandwidths), len(X)))
        for j, bandwidth in enumerate(bandwidths):
            A = _functions(D, bandwidth)
            for k, start in enumerate(starts):
                held_out = fold == k
                A[1] = np.exp(_log_step(start, start[n_p:][~held_out[n_p:]].max()))
                usable = self._usable((centre_fold != k) & (bandwidth < np.inf))
                coef, log_mean, _ = _fitted(A, start, n_p, np.where(held_out, 0, w), usable, _SEARCH_TOLERANCE)
                r = np.maximum((coef @ A)[held_out], np.finfo(float).tiny)  # no kernel may reach a held-out row
                log_r = start[held_out] - log_mean + np.log(r)
                loss[j, held_out] = np.logaddexp(0, np.where(y[held_out] == 1, -log_r, log_r))
        score = math.log(2) - loss @ share
        gap = loss - loss[np.argmax(score)]
        return np.column_stack(
            [bandwidths, score, np.hypot(_error(gap[:, :n_p], w[:n_p]), _error(gap[:, n_p:], w[n_p:]))]
        )

    def _new_start(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.zeros(X.shape[1]) if self.start is None else _log_linear(X, y, w)

    def _usable(self, kernels: np.ndarray) -> np.ndarray:
        """Return which functions may be used, (2 + m,), from which kernels may: without a start there is no step."""
        return np.concatenate([[True, self.start is not None], kernels])


def _folds(n: int, n_folds: int, rng: np.random.Generator) -> np.ndarray:
    """Return the fold of each row, (n,), at random; -1 for what is left out to keep a search of many rows short.

    Rows are in an order along which they resemble their neighbours: every k-th of them would be a copy of the others.
    """
    fold = rng.permutation(n)
    return np.where(fold < _SEARCH_ROWS, fold % n_folds, -1)


def _log_linear(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the direction of the log-linear ratio, (d,): both samples count one half, a ridge of 1 keeps it finite."""
    total_q, total_p = np.bincount(y, w)
    balance = 2 / (total_p + total_q) * np.where(y == 1, total_q, total_p)
    return NewtonLogisticRegression(1.0).fit(X, y, w * balance).coef_[0]


def _log_step(start: np.ndarray, reach: float) -> np.ndarray:
    """Return the logarithm of the step over exp(start), (n,)."""
    return log_expit(2 * (start - reach))


def _functions(D: np.ndarray, bandwidth: float) -> np.ndarray:
    """Return all functions over exp(start), (2 + m, n), from squared distances, (m, n). The step is left open."""
    A = np.empty((2 + len(D), D.shape[1]))
    A[0] = 1
    np.multiply(D, -0.5 / bandwidth**2, out=A[2:])
    np.exp(A[2:], out=A[2:])
    return A


def _error(gap: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the standard error of half the mean of each row, (k, n) to (k,)."""
    mean = np.average(gap, axis=1, weights=w)
    return np.sqrt((gap - mean[:, None]) ** 2 @ w) / (2 * w.sum())


def _fitted(
    A: np.ndarray, start: np.ndarray, n_p: int, w: np.ndarray, usable: np.ndarray, tolerance: float
) -> tuple[np.ndarray, float, float]:
    """Fit the usable ones of the functions, (k, n), to rows with w > 0, those of p first.

    Returns coefficients, (k,), the logarithm of the mean of exp(start) on q, which they leave out, and the residual.
    """
    top = float(start[n_p:][w[n_p:] > 0].max())
    tilted = w[n_p:] * np.exp(np.minimum(start[n_p:] - top, 0))  # 0 * exp is 0 on rows that are held out
    b = A[:, n_p:] @ tilted / tilted.sum()  # means on q, that of exp(start) being 1
    used, rows = np.flatnonzero(usable & (b > _UNSEEN)), np.flatnonzero(w[:n_p])
    share, residual = _maximized(A[np.ix_(used, rows)], w[rows] / w[rows].sum(), b[used], tolerance)
    coef = np.zeros(len(A))
    coef[used] = share / b[used]
    return coef, top + math.log(tilted.sum() / w[n_p:].sum()), residual


def _maximized(A: np.ndarray, w: np.ndarray, b: np.ndarray, tolerance: float) -> tuple[np.ndarray, float]:
    r"""Maximize :math:`\sum_i w_i \log \sum_l a_l A_{li} / b_l` over the simplex; return a, (k,), and the residual.

    These are the proportions of a mixture. A few steps of EM come first. Then, as a sum of a that is free but costs as
    much as itself has the same optimum, each step minimizes the quadratic model of :math:`f(a) = \sum_l a_l -
    \sum_i w_i \log(\cdot)` over a >= 0, on the functions with a > 0 and those that would gain most.
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
        if length == 0:  # nothing to gain that floats can tell
            break
        a[used] = np.maximum(a[used] + length * change, 0)
        a /= a.sum()
    return a, residual


def _newton_point(H: np.ndarray, g: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Minimize the quadratic model of f at a, (u,), over non-negative points; its Hessian has H a = g."""
    damping = 1e-10 * np.trace(H)  # functions may be all but equal
    H[np.diag_indices_from(H)] += damping
    L = np.linalg.cholesky(H)
    return nnls(L.T, solve_triangular(L, 2 * g - 1 + damping * a, lower=True))[0]


def _step_length(change: np.ndarray, w: np.ndarray, growth: float) -> float:
    """Halve a step until f falls enough; a whole one changes r by the factor 1 + change, (n,), and sum(a) by growth."""
    enough, length = growth - 1e-4 * (growth - w @ change), 1.0
    while length > 1e-10:
        if length * change.min() > -0.99 and w @ np.log1p(length * change) >= length * enough - _ROUNDING:
            return length
        length /= 2
    return 0.0
