r"""Least-squares ratios: uLSIF, and its relative form RuLSIF, in closed form with an exact leave-one-out.

With :math:`M = \hat H + \lambda I`, :math:`g = \phi^\top M^{-1} \phi` and :math:`f = \phi^\top M^{-1} \hat h` at a row,
and sums over its sample divided by one row less, the Sherman-Morrison formula gives the fit without the row at the row:

.. math:: r_{-i}(x_i) = \frac{f - g / (n_p - 1)}{1 - \alpha g / (n_p - 1)}, \qquad
          r_{-j}(x_j) = \frac{f}{1 - (1 - \alpha) g / (n_q - 1)}

for a row i of p and a row j of q. One eigendecomposition for each sample and bandwidth serves all rows and all λ.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from flowratio._support.chunks import chunks
from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, TableLike, Vector
from flowratio._support.validation import RandomState, check_count, is_number, seed_from
from flowratio.ratios.base import RatioEstimator, Requires
from flowratio.ratios.kernel.kernels import check_range, choose_centers, median_distance, squared_distances
from flowratio.samples.two_samples import TwoSamples

_BANDWIDTHS = 2.0 ** np.arange(2, -3.5, -0.5)  # in median distances between rows, smoothest first
_REGULARIZATIONS = 10.0 ** np.arange(1, -5.5, -0.5)  # strongest first, without a unit: k(x, x) = 1
_SLACK = 0.02  # of the best score, about its standard error for 10 000 rows
_N_BOUNDS = 32  # number of candidate floors, and of candidate ceilings
_NO_CEILING = 1e100
_LEAST = 1e-6  # bandwidth, in standard deviations, or regularization
_SMALLEST = 1e-150  # least denominator: a quotient by it is above every ceiling
_BLOCK_VALUES = 1 << 18  # kernel values at a time: 2 MB


class _Sample(NamedTuple):
    """Rows (n, d) and their weights (n,). Leave-one-out removes weight 1 of a row, or all of it if w is below 1."""

    rows: Matrix
    w: Vector

    @property
    def unit(self) -> float:
        """The weight of one row: 1 if all weights are at least 1, and their common value if that is below 1."""
        total = self.w.sum()
        return float(min(self.w @ np.minimum(self.w, 1) / total, total / 2))

    def blocks(self, centers: Matrix) -> Iterator[tuple[slice, Matrix]]:
        """Yield blocks of m rows, and minus half the squared distances to the centers, (m, b)."""
        for part in chunks(len(self.rows), len(centers), _BLOCK_VALUES):
            D = squared_distances(self.rows[part], centers)
            yield part, np.multiply(D, -0.5, out=D)


class _Grid(NamedTuple):
    """Candidates."""

    bandwidths: Vector  # (s,)
    regularizations: Vector  # (l,)
    bounds: Vector  # of r, first floors, then ceilings, (k,)


class _Moments(NamedTuple):
    """Means over a sample of the kernel, (s, b), and of its products, (s, b, b), for each bandwidth."""

    first: np.ndarray
    second: np.ndarray


class _LeastSquaresRatio(RatioEstimator, ABC):
    """Settings selected by leave-one-out, one linear system, bounds on r."""

    requires = Requires(rows="distinct")
    alpha: float  # share of p in the denominator of the relative ratio

    def __init__(
        self,
        bandwidth: float | None = None,
        regularization: float | None = None,
        *,
        n_centers: int = 100,
        random_state: RandomState = None,
    ) -> None:
        self.bandwidth, self.regularization = bandwidth, regularization
        self.n_centers, self.random_state = n_centers, random_state

    def _fit(self, samples: TwoSamples) -> None:
        self._check_settings()
        rng = np.random.default_rng(seed_from(self.random_state))
        p, q = _Sample(samples.X_p, samples.w_p), _Sample(samples.X_q, samples.w_q)
        self.centers_ = choose_centers(p.rows, p.w, self.n_centers, rng)
        grid = self._grid(p, q)
        self.bandwidths_, self.regularizations_, _ = grid
        at_p, at_q = (_kernel_moments(sample, self.centers_, grid.bandwidths) for sample in (p, q))
        of_p = _leave_one_out(p, True, self.centers_, at_p, at_q, grid, self.alpha)
        of_q = _leave_one_out(q, False, self.centers_, at_p, at_q, grid, self.alpha)
        self.loo_objectives_ = 0.5 * (self.alpha * of_p.second + (1 - self.alpha) * of_q.second) - of_p.first
        self.loo_scores_, bounds = _scores(of_p, of_q)
        i, j = _choice(self.loo_scores_)
        self.bandwidth_, self.regularization_ = float(grid.bandwidths[i]), float(grid.regularizations[j])
        self.floor_, self.ceiling_ = bounds[i, j].tolist()
        H = self.alpha * at_p.second[i] + (1 - self.alpha) * at_q.second[i]
        self.coefficients_ = np.linalg.solve(H + self.regularization_ * np.eye(len(H)), at_p.first[i])
        ratios = [(self._unclipped(sample), sample.w) for sample in (p, q)]
        clipped = [[w @ (r < self.floor_) / w.sum(), w @ (r > self.ceiling_) / w.sum()] for r, w in ratios]
        self.clipped_share_ = np.array(clipped)  # of p and q, below and above

    def _check_settings(self) -> None:
        check_range("bandwidth", self.bandwidth, _LEAST, 1 / _LEAST, "to select it by leave-one-out")
        check_range("regularization", self.regularization, _LEAST, 1 / _LEAST, "to select it by leave-one-out")
        check_count(self.n_centers, "n_centers")
        if not (is_number(self.alpha) and 0 <= self.alpha < 1):
            raise ArgumentError("alpha", f"`alpha` is {self.alpha!r}. Use a number of 0 or more and below 1.")

    def _grid(self, p: _Sample, q: _Sample) -> _Grid:
        bandwidths, regularizations = np.array([self.bandwidth]), np.array([self.regularization])
        if self.bandwidth is None:
            balanced = np.concatenate([p.w / p.w.sum(), q.w / q.w.sum()])
            bandwidths = _BANDWIDTHS * median_distance(np.concatenate([p.rows, q.rows]), balanced)
        if self.regularization is None:
            regularizations = _REGULARIZATIONS
        n_p, n_q = (sample.w.sum() / sample.unit for sample in (p, q))
        floors = np.geomspace(1 / n_p, 1, _N_BOUNDS)
        ceilings = np.geomspace(1, n_q, _N_BOUNDS + 1)[1:] if self.alpha > 0 else np.array([_NO_CEILING])
        return _Grid(bandwidths, regularizations, np.concatenate([floors, ceilings]))

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.log(np.clip(self._unclipped(_Sample(X, np.ones(len(X)))), self.floor_, self.ceiling_))

    def _unclipped(self, sample: _Sample) -> Vector:
        """Return r of rows, (n,), from the linear system."""
        values = [np.exp(D / self.bandwidth_**2) @ self.coefficients_ for _, D in sample.blocks(self.centers_)]
        return _absolute(np.concatenate(values), self.alpha)


class _LeaveOneOut:
    """Leave-one-out ratios of one sample, as sums: shares and log-likelihoods between neighboring bounds."""

    def __init__(self, grid: _Grid, is_p: bool) -> None:
        shape = (len(grid.bandwidths), len(grid.regularizations))
        self.bounds, self.is_p = grid.bounds, is_p
        self.first, self.second = np.zeros(shape), np.zeros(shape)  # means of r_alpha, and of its square
        self.share, self.likelihood = (np.zeros((*shape, len(grid.bounds))) for _ in range(2))

    def add(self, s: int, r_alpha: Matrix, share: Vector, alpha: float) -> None:
        """Add ratios (m, l), under bandwidth s, of rows that are shares (m,) of the sample."""
        self.first[s] += share @ r_alpha
        self.second[s] += share @ r_alpha**2
        r = np.clip(_absolute(r_alpha, alpha), self.bounds[0], self.bounds[-1])
        n_l, n_k = self.share.shape[1:]
        between = (np.searchsorted(self.bounds, r, "right") - 1 + n_k * np.arange(n_l)).ravel()
        share = np.repeat(share, n_l)
        for sums, values in ((self.share, share), (self.likelihood, share * self.log_likelihood(r).ravel())):
            sums[s] += np.bincount(between, values, n_l * n_k).reshape(n_l, n_k)

    def log_likelihood(self, r: np.ndarray) -> np.ndarray:
        """Return log(r / (1 + r)) for p, log(1 / (1 + r)) for q."""
        return -np.log1p(1 / r if self.is_p else r)

    def gains(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gain in log-likelihood of each bound as a floor, and as a ceiling: both (s, l, k)."""
        at_bound = self.log_likelihood(self.bounds)
        share, total = np.cumsum(self.share, axis=-1), np.cumsum(self.likelihood, axis=-1)
        below = (share - self.share) * at_bound - (total - self.likelihood)
        above = (share[..., -1:] - share + self.share) * at_bound - (total[..., -1:] - total + self.likelihood)
        return below, above


def _leave_one_out(
    sample: _Sample, is_p: bool, centers: np.ndarray, at_p: _Moments, at_q: _Moments, grid: _Grid, alpha: float
) -> _LeaveOneOut:
    """Return the fits without a row of a sample, at this row, summed over all rows."""
    others = sample.w.sum() - sample.unit
    more = sample.w.sum() / others  # a mean over one row less
    more_p, more_q = (more, 1.0) if is_p else (1.0, more)
    in_H, in_h = (alpha, 1.0) if is_p else (1 - alpha, 0.0)
    e, V = np.linalg.eigh(alpha * more_p * at_p.second + (1 - alpha) * more_q * at_q.second)  # (s, b), (s, b, b)
    h = np.einsum("sbi,sb->si", V, more_p * at_p.first)
    resolvent = 1 / (np.maximum(e, 0)[..., None] + grid.regularizations)  # (s, b, l)
    left_out, share = np.minimum(sample.w, 1)[:, None] / others, sample.w / sample.w.sum()
    sums = _LeaveOneOut(grid, is_p)
    for part, D in sample.blocks(centers):
        for s, bandwidth in enumerate(grid.bandwidths):
            psi = np.exp(D / bandwidth**2) @ V[s]
            f = psi @ (h[s][:, None] * resolvent[s])  # (m, l)
            g = left_out[part] * (np.square(psi, out=psi) @ resolvent[s])
            sums.add(s, (f - in_h * g) / (1 - in_H * g), share[part], alpha)
    return sums


def _kernel_moments(sample: _Sample, centers: np.ndarray, bandwidths: np.ndarray) -> _Moments:
    b = len(centers)
    first, second = np.zeros((len(bandwidths), b)), np.zeros((len(bandwidths), b, b))
    share = sample.w / sample.w.sum()
    for part, D in sample.blocks(centers):
        for s, bandwidth in enumerate(bandwidths):
            phi = np.exp(D / bandwidth**2)
            first[s] += share[part] @ phi
            phi *= np.sqrt(share[part])[:, None]
            second[s] += phi.T @ phi
    return _Moments(first, second)


def _scores(p: _LeaveOneOut, q: _LeaveOneOut) -> tuple[np.ndarray, np.ndarray]:
    """Return leave-one-out scores with the best floor and ceiling, (s, l), and these two, (s, l, 2)."""
    floor, ceiling = (0.5 * (of_p + of_q) for of_p, of_q in zip(p.gains(), q.gains(), strict=True))
    floor, ceiling = floor[..., :_N_BOUNDS], ceiling[..., _N_BOUNDS:]
    plain = math.log(2) + 0.5 * (p.likelihood + q.likelihood).sum(axis=-1)
    best = [p.bounds[np.argmax(floor, axis=-1)], p.bounds[_N_BOUNDS + np.argmax(ceiling, axis=-1)]]
    return plain + floor.max(axis=-1) + ceiling.max(axis=-1), np.stack(best, axis=-1)


def _choice(scores: np.ndarray) -> tuple[int, int]:
    """Select the strongest regularization that is as good as the best, and the best bandwidth for it."""
    good = scores >= scores.max() - _SLACK * abs(scores.max()) - 1e-9
    j = int(np.argmax(good.any(axis=0)))
    return int(np.argmax(scores[:, j].round(9))), j  # ties to nine digits are ties


def _absolute(r_alpha: np.ndarray, alpha: float) -> np.ndarray:
    """Return r = (1 - alpha) r_alpha / (1 - alpha r_alpha), huge where r_alpha is 1 / alpha or more."""
    return (1 - alpha) * r_alpha / np.maximum(1 - alpha * r_alpha, _SMALLEST)


class ULSIF(_LeastSquaresRatio):
    r"""Estimate r = p/q (p is y = 1) by least squares: a sum of Gaussian kernels, in closed form.

    .. math:: r(x) \approx \sum_l \theta_l\, e^{-\|x - c_l\|^2 / (2 \sigma^2)}, \qquad
              \theta = \big(\mathrm{mean}_q \phi \phi^\top + \lambda I\big)^{-1} \mathrm{mean}_p \phi

    the minimum of :math:`\tfrac12 \mathrm{mean}_q r^2 - \mathrm{mean}_p r + \tfrac\lambda2 \|\theta\|^2`. The centers
    are rows of p. Rows are standardized.

    Exact leave-one-out compares 11 bandwidths and 13 regularizations by `RatioEstimator.score`. It does not use the
    objective of [1]_, which depends on few rows. The result is the strongest regularization whose score is within 2 %
    of the best. The sum can be negative, so r has a floor between 1/n_p and 1, also selected by leave-one-out.

    Parameters
    ----------
    bandwidth, regularization
        σ in standard deviations (`scale_`) and λ, without a unit. None selects σ from 1/8 to 4 times the median
        distance of rows, and λ from 10⁻⁵ to 10.
    n_centers, random_state
        Largest number of kernels (100 are enough), and seed of their centers: an integer, a NumPy generator, or
        None for a new seed each time.

    Attributes
    ----------
    bandwidth_, regularization_, centers_, coefficients_
        σ, λ, standardized centers, of shape (b, d), and θ, of shape (b,).
    floor_, ceiling_, clipped_share_
        The smallest and the largest r (`ULSIF` has no ceiling: 1e100), and shares of rows, of shape (2, 2): of p and of
        q (rows), below the floor and above the ceiling (columns).
    bandwidths_, regularizations_, loo_scores_, loo_objectives_
        Candidates, of shapes (s,) and (l,), their leave-one-out scores in nats and objectives of [1]_, of shape (s, l).

    References
    ----------
    .. [1] Kanamori, Hido & Sugiyama (2009). *A least-squares approach to direct importance estimation.*

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> X_p, X_q = rng.normal(1.0, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> ULSIF(random_state=0).fit_samples(X_p, X_q).log_ratio([[0.0], [1.0]]).round(1).tolist()  # x - 1/2
    [-0.5, 0.5]
    """

    alpha = 0.0


class RULSIF(_LeastSquaresRatio):
    r"""Estimate r = p/q (p is y = 1) from the relative ratio, which is bounded for every p and q.

    .. math:: r_\alpha(x) = \frac{p(x)}{\alpha p(x) + (1 - \alpha) q(x)} \le \frac1\alpha, \qquad
              r = \frac{(1 - \alpha)\, r_\alpha}{1 - \alpha r_\alpha}

    The relative ratio is fitted like `ULSIF` (which has :math:`\alpha = 0`), with
    :math:`\alpha\, \mathrm{mean}_p \phi \phi^\top + (1 - \alpha)\, \mathrm{mean}_q \phi \phi^\top` in place of the mean
    over q [1]_. The fit can exceed 1/α, and r would be infinite there. So r also has a ceiling between 1 and n_q,
    selected like the floor.

    Parameters
    ----------
    alpha
        α, 0 or more and below 1. With a larger α, large ratios are harder to distinguish.
    bandwidth, regularization, n_centers, random_state
        As in `ULSIF`. All fitted attributes are also as in `ULSIF`.

    References
    ----------
    .. [1] Yamada et al. (2013). *Relative density-ratio estimation for robust distribution comparison.*

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> X_p, X_q = rng.normal(1.0, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> RULSIF(random_state=0).fit_samples(X_p, X_q).log_ratio([[0.0], [1.0]]).round(1).tolist()  # x - 1/2
    [-0.5, 0.5]
    """

    def __init__(
        self,
        alpha: float = 0.1,
        *,
        bandwidth: float | None = None,
        regularization: float | None = None,
        n_centers: int = 100,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(bandwidth, regularization, n_centers=n_centers, random_state=random_state)
        self.alpha = alpha

    def relative_ratio(self, X: TableLike) -> Vector:
        """Return r_alpha(x) = p / (alpha p + (1 - alpha) q): (n, d) to (n,), positive and below 1 / alpha."""
        return 1 / (self.alpha + (1 - self.alpha) * np.exp(-self.log_ratio(X)))
