r"""Least-squares ratios: uLSIF, and its relative form RuLSIF, in closed form with an exact leave-one-out.

The relative ratio, bounded by :math:`1 / \alpha`, is fitted by squared error; uLSIF is :math:`\alpha = 0`:

.. math:: r_\alpha(x) = \frac{p(x)}{\alpha p(x) + (1 - \alpha) q(x)} \approx \theta^\top \phi(x), \qquad
          \phi_l(x) = \exp\big(-\|x - c_l\|^2 / (2 \sigma^2)\big)

.. math:: \theta = (\hat H + \lambda I)^{-1} \hat h, \qquad \hat h = \mathrm{mean}_p \phi, \qquad
          \hat H = \alpha\, \mathrm{mean}_p \phi \phi^\top + (1 - \alpha)\, \mathrm{mean}_q \phi \phi^\top

Leave out one row of p, or of q, and keep all others. Divide the sums over its sample by one row less, in
:math:`M = \hat H + \lambda I` and in :math:`\hat h`. With :math:`g = \phi^\top M^{-1} \phi` and
:math:`f = \phi^\top M^{-1} \hat h` at the row, Sherman and Morrison's formula tells what a fit without it says of it:

.. math:: r_{-i}(x_i) = \frac{f - g / (n_p - 1)}{1 - \alpha g / (n_p - 1)}, \qquad
          r_{-j}(x_j) = \frac{f}{1 - (1 - \alpha) g / (n_q - 1)}

for a row i of p and a row j of q. One eigendecomposition for each sample and bandwidth serves all its rows and every
:math:`\lambda`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from flowratio._support.validation import RandomState, is_count, is_number, seed_from
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.kernel.kernels import choose_centres, median_distance, squared_distances

_BANDWIDTHS = 2.0 ** np.arange(2, -3.5, -0.5)  # in median distances between rows, smoothest first
_REGULARIZATIONS = 10.0 ** np.arange(1, -5.5, -0.5)  # strongest first; k(x, x) = 1, so that they have no unit
_SLACK = 0.02  # of the best score: its standard error is no smaller for 10 000 rows
_N_BOUNDS = 32  # floors that are tried, and ceilings
_NO_CEILING = 1e100
_LEAST = 1e-6  # bandwidth, in standard deviations, or regularization
_SMALLEST = 1e-150  # keeps a denominator from 0: what is divided by it is beyond every ceiling
_BLOCK_VALUES = 1 << 18  # kernel values at a time: 2 MB


class _Sample(NamedTuple):
    """Rows of p or of q, (n, d), and their weights, (n,).

    A row of weight w is w rows, and one of them is left out at a time; all of it if w is below 1.
    """

    rows: np.ndarray
    w: np.ndarray

    @property
    def unit(self) -> float:
        """The weight of one row: 1 if all weights are at least 1, and their common value if that is below 1."""
        total = self.w.sum()
        return float(min(self.w @ np.minimum(self.w, 1) / total, total / 2))

    def blocks(self, centres: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of m rows, and minus half the squared distances to the centres, (m, b)."""
        step = max(1, _BLOCK_VALUES // len(centres))
        for start in range(0, len(self.rows), step):
            part = slice(start, start + step)
            D = squared_distances(self.rows[part], centres)
            yield part, np.multiply(D, -0.5, out=D)


class _Grid(NamedTuple):
    """What is searched: bandwidths (s,), regularizations (l,), and bounds of r (k,), first floors, then ceilings."""

    bandwidths: np.ndarray
    regularizations: np.ndarray
    bounds: np.ndarray


class _Moments(NamedTuple):
    """Means over a sample of the kernel, (s, b), and of its products, (s, b, b), for each bandwidth."""

    first: np.ndarray
    second: np.ndarray


class _LeastSquaresRatio(RatioEstimator, ABC):
    """What both ratios are: settings chosen by leave-one-out, one linear system, bounds."""

    bandwidth_: float
    regularization_: float
    centres_: np.ndarray
    coef_: np.ndarray
    bandwidths_: np.ndarray
    regularizations_: np.ndarray
    loo_scores_: np.ndarray
    loo_objectives_: np.ndarray
    floor_: float
    ceiling_: float
    clipped_share_: np.ndarray

    def __init__(
        self, bandwidth: float | None, regularization: float | None, n_centres: int, random_state: RandomState
    ) -> None:
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_centres = n_centres
        self.random_state = random_state

    @property
    def _rows(self) -> Literal["distinct"]:
        return "distinct"

    @property
    @abstractmethod
    def _alpha(self) -> float:
        """The share of p in the denominator of the relative ratio."""

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        self._check_settings()
        rng = np.random.default_rng(seed_from(self.random_state))
        p, q = (_Sample(X[y == label], w[y == label]) for label in (1, 0))
        self.centres_ = choose_centres(p.rows, p.w, self.n_centres, rng)
        grid = self._grid(p, q)
        self.bandwidths_, self.regularizations_, _ = grid
        at_p, at_q = (_kernel_moments(sample, self.centres_, grid.bandwidths) for sample in (p, q))
        told_p = _leave_one_out(p, True, self.centres_, at_p, at_q, grid, self._alpha)
        told_q = _leave_one_out(q, False, self.centres_, at_p, at_q, grid, self._alpha)
        self.loo_objectives_ = 0.5 * (self._alpha * told_p.second + (1 - self._alpha) * told_q.second) - told_p.first
        self.loo_scores_, bounds = _scores(told_p, told_q)
        i, j = _choice(self.loo_scores_)
        self.bandwidth_, self.regularization_ = float(grid.bandwidths[i]), float(grid.regularizations[j])
        self.floor_, self.ceiling_ = bounds[i, j].tolist()
        H = self._alpha * at_p.second[i] + (1 - self._alpha) * at_q.second[i]
        self.coef_ = np.linalg.solve(H + self.regularization_ * np.eye(len(H)), at_p.first[i])
        self.clipped_share_ = np.array([self._clipped(sample) for sample in (p, q)])

    def _check_settings(self) -> None:
        for name in ("bandwidth", "regularization"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and _LEAST <= value <= 1 / _LEAST):
                raise ValueError(
                    f"`{name}` is {value!r}: give a number from {_LEAST:g} to {1 / _LEAST:g}, or None to have it "
                    "chosen by leave-one-out."
                )
        if not is_count(self.n_centres):
            raise ValueError(f"`n_centres` is {self.n_centres!r}: give a whole number of 1 or more.")
        if not (is_number(self._alpha) and 0 <= self._alpha < 1):
            raise ValueError(f"`alpha` is {self._alpha!r}: give a number from 0 to below 1.")

    def _grid(self, p: _Sample, q: _Sample) -> _Grid:
        bandwidths, regularizations = np.array([self.bandwidth]), np.array([self.regularization])
        if self.bandwidth is None:
            balanced = np.concatenate([p.w / p.w.sum(), q.w / q.w.sum()])
            bandwidths = _BANDWIDTHS * median_distance(np.concatenate([p.rows, q.rows]), balanced)
        if self.regularization is None:
            regularizations = _REGULARIZATIONS
        n_p, n_q = (sample.w.sum() / sample.unit for sample in (p, q))
        floors = np.geomspace(1 / n_p, 1, _N_BOUNDS)
        ceilings = np.geomspace(1, n_q, _N_BOUNDS + 1)[1:] if self._alpha > 0 else np.array([_NO_CEILING])
        return _Grid(bandwidths, regularizations, np.concatenate([floors, ceilings]))

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.log(np.clip(self._unclipped(_Sample(X, np.ones(len(X)))), self.floor_, self.ceiling_))

    def _unclipped(self, sample: _Sample) -> np.ndarray:
        """Return r of rows, (n,), as it comes from the linear system."""
        values = [np.exp(D / self.bandwidth_**2) @ self.coef_ for _, D in sample.blocks(self.centres_)]
        return _absolute(np.concatenate(values), self._alpha)

    def _clipped(self, sample: _Sample) -> list[float]:
        """Return the shares of a sample below the floor and above the ceiling."""
        r = self._unclipped(sample)
        return [float(sample.w @ beyond / sample.w.sum()) for beyond in (r < self.floor_, r > self.ceiling_)]


class _Told:
    """Left-out ratios of one sample, summed up: what they tell of y, by the bounds that they lie between."""

    def __init__(self, grid: _Grid, is_p: bool) -> None:
        shape = (len(grid.bandwidths), len(grid.regularizations))
        self.bounds, self.is_p = grid.bounds, is_p
        self.first, self.second = np.zeros(shape), np.zeros(shape)  # means of r_alpha, and of its square
        self.share, self.told = (np.zeros((*shape, len(grid.bounds))) for _ in range(2))

    def add(self, s: int, r_alpha: np.ndarray, share: np.ndarray, alpha: float) -> None:
        """Add ratios (m, l), under bandwidth s, of rows that are shares (m,) of the sample."""
        self.first[s] += share @ r_alpha
        self.second[s] += share @ r_alpha**2
        r = np.clip(_absolute(r_alpha, alpha), self.bounds[0], self.bounds[-1])
        n_l, n_k = self.share.shape[1:]
        between = (np.searchsorted(self.bounds, r, "right") - 1 + n_k * np.arange(n_l)).ravel()
        share = np.repeat(share, n_l)
        self.share[s] += np.bincount(between, share, n_l * n_k).reshape(n_l, n_k)
        self.told[s] += np.bincount(between, share * self.log_likelihood(r).ravel(), n_l * n_k).reshape(n_l, n_k)

    def log_likelihood(self, r: np.ndarray) -> np.ndarray:
        """Return log(r / (1 + r)) for rows of p, log(1 / (1 + r)) for rows of q."""
        return -np.log1p(1 / r if self.is_p else r)

    def gains(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what each bound would gain as a floor, and as a ceiling: both (s, l, k)."""
        at_bound = self.log_likelihood(self.bounds)
        share, told = np.cumsum(self.share, axis=-1), np.cumsum(self.told, axis=-1)
        below = (share - self.share) * at_bound - (told - self.told)
        above = (share[..., -1:] - share + self.share) * at_bound - (told[..., -1:] - told + self.told)
        return below, above


def _leave_one_out(
    sample: _Sample, is_p: bool, centres: np.ndarray, at_p: _Moments, at_q: _Moments, grid: _Grid, alpha: float
) -> _Told:
    """Sum up what fits without a row of a sample say at this row, over all rows."""
    others = sample.w.sum() - sample.unit
    more = sample.w.sum() / others  # a mean over one row less, but for what that row adds to it
    more_p, more_q = (more, 1.0) if is_p else (1.0, more)
    in_H, in_h = (alpha, 1.0) if is_p else (1 - alpha, 0.0)
    e, V = np.linalg.eigh(alpha * more_p * at_p.second + (1 - alpha) * more_q * at_q.second)  # (s, b), (s, b, b)
    h = np.einsum("sbi,sb->si", V, more_p * at_p.first)
    resolvent = 1 / (np.maximum(e, 0)[..., None] + grid.regularizations)  # (s, b, l)
    left_out, share = np.minimum(sample.w, 1)[:, None] / others, sample.w / sample.w.sum()
    told = _Told(grid, is_p)
    for part, D in sample.blocks(centres):
        for s, bandwidth in enumerate(grid.bandwidths):
            psi = np.exp(D / bandwidth**2) @ V[s]
            f = psi @ (h[s][:, None] * resolvent[s])  # (m, l)
            g = left_out[part] * (np.square(psi, out=psi) @ resolvent[s])
            told.add(s, (f - in_h * g) / (1 - in_H * g), share[part], alpha)
    return told


def _kernel_moments(sample: _Sample, centres: np.ndarray, bandwidths: np.ndarray) -> _Moments:
    b = len(centres)
    first, second = np.zeros((len(bandwidths), b)), np.zeros((len(bandwidths), b, b))
    share = sample.w / sample.w.sum()
    for part, D in sample.blocks(centres):
        for s, bandwidth in enumerate(bandwidths):
            phi = np.exp(D / bandwidth**2)
            first[s] += share[part] @ phi
            phi *= np.sqrt(share[part])[:, None]
            second[s] += phi.T @ phi
    return _Moments(first, second)


def _scores(p: _Told, q: _Told) -> tuple[np.ndarray, np.ndarray]:
    """Return left-out scores with the best floor and ceiling, (s, l), and these two, (s, l, 2)."""
    floor, ceiling = (0.5 * (of_p + of_q) for of_p, of_q in zip(p.gains(), q.gains(), strict=True))
    floor, ceiling = floor[..., :_N_BOUNDS], ceiling[..., _N_BOUNDS:]
    plain = math.log(2) + 0.5 * (p.told + q.told).sum(axis=-1)
    best = [p.bounds[np.argmax(floor, axis=-1)], p.bounds[_N_BOUNDS + np.argmax(ceiling, axis=-1)]]
    return plain + floor.max(axis=-1) + ceiling.max(axis=-1), np.stack(best, axis=-1)


def _choice(scores: np.ndarray) -> tuple[int, int]:
    """Choose the strongest regularization that is as good as the best, and the best bandwidth for it."""
    good = scores >= scores.max() - _SLACK * abs(scores.max()) - 1e-9
    j = int(np.argmax(good.any(axis=0)))
    return int(np.argmax(scores[:, j].round(9))), j  # equal to nine digits is equal, whatever the rounding


def _absolute(r_alpha: np.ndarray, alpha: float) -> np.ndarray:
    """Return r = (1 - alpha) r_alpha / (1 - alpha r_alpha), huge where r_alpha is 1 / alpha or more."""
    return (1 - alpha) * r_alpha / np.maximum(1 - alpha * r_alpha, _SMALLEST)


class ULSIF(_LeastSquaresRatio):
    r"""Estimate r = p/q (p is y = 1) by least squares: a weighted sum of Gaussian kernels, in closed form.

    .. math:: r(x) \approx \sum_l \theta_l\, e^{-\|x - c_l\|^2 / (2 \sigma^2)}, \qquad
              \theta = \big(\mathrm{mean}_q \phi \phi^\top + \lambda I\big)^{-1} \mathrm{mean}_p \phi

    the minimum of :math:`\tfrac12 \mathrm{mean}_q r^2 - \mathrm{mean}_p r + \tfrac\lambda2 \|\theta\|^2`. Centres are
    rows of p; x is in standard units.

    *What is searched* are 11 bandwidths and 13 regularizations, by leave-one-out: a row of p or of q is left out, all
    others are kept, the centres too, and the fit without the row is exact. What such fits say of the rows is scored by
    `RatioEstimator.score`, and not by the objective of [1]_: the square of r rests on the few rows of q where r is
    largest. (For two standard normals in the plane at a distance of √2 and 1000 rows of each, the mean squared error
    of log r is 0.3 by the score, and 1.0 by the objective.) Of what scores within 2 % of the best, the strongest
    regularization is taken.

    *The floor.* Nothing keeps the sum above 0. Below a floor f, r is f. The f with the best left-out score is a ratio
    of frequencies: the share of p's rows that fall below it over the share of q's rows that do. It is looked for
    between 1/n_p (one row of p against all of q) and 1.

    Parameters
    ----------
    bandwidth
        σ in standard deviations (`scale_`). None searches for it, from 1/8 to 4 times the median distance of rows.
    regularization
        λ; it has no unit. None searches for it, from 10⁻⁵ to 10.
    n_centres
        Number of kernels at most. From 100 to 400, the error of log r changes less than from one draw to the next.
    random_state
        Seed of the choice of centres: an integer, a NumPy generator, or None for a new one each time.

    Attributes
    ----------
    bandwidth_, regularization_
        σ and λ.
    centres_
        Standardized centres, of shape (b, d).
    coef_
        θ, of shape (b,).
    floor_
        The least r.
    clipped_share_
        Shares of rows, of shape (2, 2): of p and of q (rows), below the floor and above the ceiling (columns). There
        is no ceiling here: `ceiling_` is 1e100.
    bandwidths_, regularizations_
        What was searched, of shapes (s,) and (l,).
    loo_scores_
        Left-out scores in nats with the best floor for each, of shape (s, l).
    loo_objectives_
        The objective of [1]_, :math:`\tfrac12 \mathrm{mean}_q r_{-j}^2 - \mathrm{mean}_p r_{-i}`, of shape (s, l).

    References
    ----------
    .. [1] Kanamori, Hido & Sugiyama (2009). *A least-squares approach to direct importance estimation.*

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> X_p, X_q = rng.normal(1.0, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> ratio = ULSIF(random_state=0).fit_samples(X_p, X_q)
    >>> ratio.log_ratio([[0.0], [1.0]]).round(1).tolist()  # x - 1/2 is the truth
    [-0.5, 0.5]
    """

    def __init__(
        self,
        bandwidth: float | None = None,
        regularization: float | None = None,
        *,
        n_centres: int = 100,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(bandwidth, regularization, n_centres, random_state)

    @property
    def _alpha(self) -> float:
        return 0.0


class RULSIF(_LeastSquaresRatio):
    r"""Estimate r = p/q (p is y = 1) through the relative ratio, which is bounded however far apart p and q are.

    .. math:: r_\alpha(x) = \frac{p(x)}{\alpha p(x) + (1 - \alpha) q(x)} \le \frac1\alpha, \qquad
              r = \frac{(1 - \alpha)\, r_\alpha}{1 - \alpha r_\alpha}

    The relative ratio is fitted as by `ULSIF`, which is :math:`\alpha = 0`, with
    :math:`\alpha\, \mathrm{mean}_p \phi \phi^\top + (1 - \alpha)\, \mathrm{mean}_q \phi \phi^\top` in place of the mean
    over q [1]_. Because it is bounded, its squared error does not rest on a few rows.

    Nothing keeps the fit below 1/α, where r is infinite: above a ceiling, r is the ceiling. It is chosen like the
    floor, which makes it the share of p's rows above it over that of q's rows, between 1 and n_q (all of p against one
    row of q). The relative ratio is that of r within floor and ceiling.

    Parameters
    ----------
    alpha
        α, from 0 to below 1: the larger, the less large ratios are told apart.
    bandwidth, regularization, n_centres, random_state
        As in `ULSIF`.

    Attributes
    ----------
    ceiling_
        The largest r; `floor_` is the least.
    bandwidth_, regularization_, centres_, coef_, floor_, clipped_share_, bandwidths_, regularizations_, loo_scores_
        As in `ULSIF`.
    loo_objectives_
        The objective of [1]_, whose mean of squares is over αp + (1−α)q, of shape (s, l).

    References
    ----------
    .. [1] Yamada, Suzuki, Kanamori, Hachiya & Sugiyama (2013). *Relative density-ratio estimation for robust
       distribution comparison.*

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> X_p, X_q = rng.normal(1.0, 1.0, (2000, 1)), rng.normal(0.0, 1.0, (2000, 1))
    >>> ratio = RULSIF(random_state=0).fit_samples(X_p, X_q)
    >>> ratio.log_ratio([[0.0], [1.0]]).round(1).tolist()  # x - 1/2 is the truth
    [-0.5, 0.5]
    """

    def __init__(
        self,
        alpha: float = 0.1,
        *,
        bandwidth: float | None = None,
        regularization: float | None = None,
        n_centres: int = 100,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(bandwidth, regularization, n_centres, random_state)
        self.alpha = alpha

    @property
    def _alpha(self) -> float:
        return self.alpha

    def relative_ratio(self, X: Any) -> np.ndarray:
        """Return r_alpha(x) = p / (alpha p + (1 - alpha) q): (n, d) to (n,), positive and below 1 / alpha."""
        return 1 / (self.alpha + (1 - self.alpha) * np.exp(-self.log_ratio(X)))
