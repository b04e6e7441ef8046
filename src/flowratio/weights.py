r"""From log-ratios to importance weights: normalize, temper, rebalance, cap, smooth, and the effective sample size.

A mean over p is a mean over q in which each row x has the importance weight r(x) = p(x) / q(x):

.. math:: \mathrm{mean}_p\, g = \mathrm{mean}_q\, r g \approx \sum_i w_i\, g(x_i) \Big/ \sum_i w_i,
          \qquad \log w_i = \log r(x_i)

Weights are passed as logs. Only this module exponentiates them. A log-weight of -inf is a weight of 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Vector, VectorLike
from flowratio._support.validation import check_choice, check_nonnegative, check_positive, is_number
from flowratio.samples.weighting import log_mean_exp

MIN_ESS = 20.0  # at or below it weighted means depend on a handful of rows
MIN_ESS_SHARE = 0.25  # of the rows: below 80 rows this limit is the smaller one

_EPS = float(np.finfo(np.float64).eps)
_LOG_LARGEST = math.log(np.finfo(np.float64).max)
_FEWEST, _FEWEST_IN_TAIL = 25, 5  # weights, and weights in their tail, to which a tail is fitted
_SMALLEST_EXCESS = 1e-300  # of the largest weight. Below it quotients of excesses overflow


class Smoothed(NamedTuple):
    """Result of `pareto_smooth`."""

    log_w: Vector  # (n,)
    k_hat: float  # shape of their tail


class Capped(NamedTuple):
    """Result of `cap_to_design_effect`."""

    log_w: Vector  # (n,)
    n_capped: int  # how many of them are lower than before


def ratios_from_logs(log_r: Vector) -> Vector:
    """Return ratios from their logs, (n,) to (n,). A ratio too large for a float becomes the largest float."""
    return np.exp(np.minimum(log_r, _LOG_LARGEST))


def self_normalize(log_w: VectorLike, total: float = 1.0) -> Vector:
    r"""Return weights that add up to `total`: log-weights (n,) to weights (n,).

    An additive constant of `log_w` cancels. `total=len(log_w)` gives weights of mean 1.

    .. math:: w_i = \mathrm{total} \cdot e^{\ell_i} \Big/ \sum_j e^{\ell_j}

    Examples
    --------
    >>> self_normalize([0.0, np.log(3.0)]).round(12).tolist()
    [0.25, 0.75]
    """
    check_positive(total, "total")
    w = _relative(_checked(log_w))
    return w / w.sum() * total


def temper(log_r: VectorLike, gamma: float) -> Vector:
    r"""Raise ratios to a power. A power below 1 makes weights more equal: log r (n,) to log-weights (n,).

    The power `gamma` is 0 or more: 1 leaves the ratios unchanged, 0 gives every row the weight 1.

    .. math:: \log w_i = \gamma \log r(x_i)

    References
    ----------
    .. [1] Grover et al. (2019). *Bias Correction of Learned Generative Models using … Importance Weighting.* NeurIPS.
    .. [2] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI. Appendix on importance weighting.

    Examples
    --------
    >>> temper([2.0, -4.0], gamma=0.5).tolist()
    [1.0, -2.0]
    """
    check_nonnegative(gamma, "gamma")
    log_r = finite_vector(log_r, "log_r", may_be_zero=True)
    if gamma == 0:
        return np.zeros_like(log_r)  # also where r = 0
    with np.errstate(over="ignore"):
        log_w = float(gamma) * log_r
    if np.isposinf(log_w).any():
        problem = f"`gamma` is {gamma!r} and `log_r` has values up to {log_r.max():.1e}. The product overflows"
        raise ArgumentError("gamma", f"{problem}. Use a smaller `gamma`.")
    return _not_all_zero(log_w, "log_r")


def rebalance(log_r: VectorLike, proportion: float = 0.5, toward: Literal["p", "q"] = "p") -> Vector:
    r"""Weight rows of a mixture of p and q toward p or toward q: log r (n,) to log-weights (n,).

    For rows of :math:`h = \pi p + (1 - \pi) q`, such as draws of a flow that was trained on both samples. `proportion`
    is π, the share of p in the mixture: n_p / (n_p + n_q) for both samples pooled. 0 if all rows come from q.

    .. math:: \frac{p}{h} = \frac{r}{\pi r + 1 - \pi} \leq \frac1\pi, \qquad
              \frac{q}{h} = \frac{1}{\pi r + 1 - \pi} \leq \frac1{1 - \pi}

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI. Appendix on targeted generation.

    Examples
    --------
    >>> np.exp(rebalance([np.log(3.0)])).round(12).tolist()
    [1.5]
    """
    check_proportion(proportion)
    check_choice(toward, "toward", ["p", "q"])
    log_r = finite_vector(log_r, "log_r", may_be_zero=True)
    log_pi, log_rest = math.log(proportion) if proportion else -math.inf, math.log1p(-proportion)
    if toward == "q":
        return -np.logaddexp(log_pi + log_r, log_rest)
    return -np.logaddexp(log_pi, log_rest - _not_all_zero(log_r, "log_r"))


def check_proportion(proportion: Any) -> None:
    """Refuse a value that is not a share of p in a mixture of p and q."""
    if not (is_number(proportion) and 0 <= proportion < 1):
        raise ArgumentError("proportion", f"`proportion` is {proportion!r}. It must be 0 or more and below 1.")


def cap(log_w: VectorLike, largest: float | None = None) -> Vector:
    r"""Lower all weights above a cap to the cap: log-weights (n,) to log-weights (n,).

    `largest` is c, the largest weight after capping in units of the mean weight after capping. It is 1 or more. 1 makes
    all weights equal. The cap τ is the solution of

    .. math:: w_i' = \min(w_i,\ \tau), \qquad \tau = \frac{c}{n} \sum_j \min(w_j,\ \tau)

    With None, the cap is that of Ionides [1]_, :math:`\tau = \sqrt n` times the mean weight before capping. Then the
    bias vanishes as n grows, and the variance is finite for every r.

    References
    ----------
    .. [1] Ionides (2008). *Truncated Importance Sampling.* Journal of Computational and Graphical Statistics.

    Examples
    --------
    >>> np.exp(cap(np.log([1.0, 1.0, 1.0, 97.0]), largest=2)).round(12).tolist()  # their mean is 1.5
    [1.0, 1.0, 1.0, 3.0]
    """
    log_w = _checked(log_w)
    if largest is not None:
        return np.minimum(log_w, log_cap(lambda: [log_w], largest))
    with np.errstate(over="ignore"):  # 1e308 and -1e308 differ by more than a float holds
        return np.minimum(log_w, log_mean_exp(log_w) + math.log(len(log_w)) / 2)


def log_cap(blocks: Callable[[], Iterable[Vector]], largest: float) -> float:
    r"""Return the log of the cap τ that makes the largest weight `largest` times the mean: the τ of `cap`.

    Each call of `blocks` yields all log-weights again, in blocks. The solution is exact after a few calls:
    :math:`\tau - (c/n) \sum_j \min(w_j, \tau)` is convex and piecewise linear, so that Newton's method ends. Bisection
    makes it short where weights differ by hundreds of nats.
    """
    check_cap(largest)
    low, high, n_calls = -math.inf, math.inf, 0
    while True:
        is_newton = n_calls < 4 or n_calls % 2 == 0  # and else bisection
        at = high if is_newton else low / 2 + high / 2
        n, n_positive, n_above, lowest, log_sum = _sums_below(blocks(), at)
        if largest * n_positive < n:
            zeros = f"{n - n_positive} of {n} weights are zero, so that no cap brings it below {n / n_positive:.4g}"
            raise ArgumentError("largest", f"`largest` is {largest}, but {zeros}. Use a larger maximum.")
        # a tangent of a convex function lies below it, so that its root is not below the solution
        root = math.log(largest) + log_sum - math.log(n - largest * n_above) if n > largest * n_above else math.inf
        if is_newton and root >= high:
            return high
        low, high, n_calls = max(low, lowest, at if root > at else low), min(high, root), n_calls + 1


def check_cap(largest: Any) -> None:
    """Refuse a value that is not a largest weight in units of the mean weight."""
    if not (is_number(largest) and 1 <= largest < math.inf):
        rule = "The largest weight is never below the mean weight. Use a finite number of 1 or more"
        raise ArgumentError("largest", f"`largest` is {largest!r}. {rule}.")


def _sums_below(blocks: Iterable[Vector], log_limit: float) -> tuple[int, int, int, float, float]:
    """Count the weights, those above zero and those above a limit.

    Return also the smallest log-weight above -inf, and the log of the sum of the weights up to the limit.
    """
    n = n_positive = n_above = 0
    lowest, log_sum = math.inf, -math.inf
    for log_w in blocks:
        positive = log_w[log_w > -np.inf]
        below = positive[positive <= log_limit]
        n, n_positive, n_above = n + len(log_w), n_positive + len(positive), n_above + len(positive) - len(below)
        if len(positive):
            lowest = min(lowest, float(positive.min()))
        if len(below):
            with np.errstate(over="ignore"):
                log_sum = float(np.logaddexp(log_sum, log_mean_exp(below) + math.log(len(below))))
    return n, n_positive, n_above, lowest, log_sum


def pareto_smooth(log_w: VectorLike) -> Smoothed:
    r"""Replace the largest weights by quantiles of a generalized Pareto distribution that is fitted to them.

    The M largest weights, :math:`M = \min(n/5, 3\sqrt n)`, beyond a threshold u, become

    .. math:: w_{(i)}' = u + \frac{\sigma}{k}\left(\Big(1 - \frac{i - 1/2}{M}\Big)^{-k} - 1\right),
              \qquad i = 1, \dots, M

    but not larger than the largest weight. Scale and shape are those of Zhang and Stephens [2]_. A weak prior, worth
    ten weights, moves k toward 1/2.

    Returns `log_w`, not normalized, and `k_hat`. Weighted means are reliable if k_hat is not above `largest_k_hat(n)`.
    If k_hat is 1 or more, not even the mean weight is finite. k_hat is -inf if the largest weights are all equal: there
    is no tail. It is inf if a tail cannot be fitted: n is below 25, fewer than five weights stand out, or they differ
    by more than a float can hold. In both cases the weights do not change.

    References
    ----------
    .. [1] Vehtari, Simpson, Gelman, Yao, Gabry (2024). *Pareto Smoothed Importance Sampling.* JMLR.
    .. [2] Zhang, Stephens (2009). *A New … Estimation Method for the Generalized Pareto Distribution.* Technometrics.

    Examples
    --------
    >>> u = (np.arange(1000) + 0.5) / 1000
    >>> round(pareto_smooth(-0.4 * np.log(u)).k_hat, 1)  # a Pareto tail of shape 0.4
    0.4
    """
    log_w = _checked(log_w)
    n_tail = max(int(min(len(log_w) / 5, 3 * math.sqrt(len(log_w)))), _FEWEST_IN_TAIL)
    order = np.argsort(log_w, kind="stable")[-n_tail - 1 :]
    log_top = _below_largest(log_w)[order]
    alike = 4 * _EPS * max(1.0, abs(log_w.max()))  # up to rounding
    if (log_top[-n_tail:] >= -alike).all():
        return Smoothed(log_w.copy(), -math.inf)
    is_above = log_top > log_top[0] + alike  # not what ties with the threshold
    tail, u = order[is_above], np.exp(log_top[0])
    excess = np.exp(log_top[is_above]) - u
    if len(log_w) < _FEWEST or len(tail) < _FEWEST_IN_TAIL or excess[0] < _SMALLEST_EXCESS:
        return Smoothed(log_w.copy(), math.inf)
    sigma, k = _fit_pareto(excess)
    smooth = log_w.copy()
    smooth[tail] = log_w.max() + np.log(np.minimum(u + _pareto_quantiles(len(tail), sigma, k), 1.0))
    return Smoothed(smooth, k)


def largest_k_hat(n: float) -> float:
    """Return the largest Pareto k̂ of n weights at which weighted means are reliable, by Vehtari et al. (2024)."""
    return min(0.7, 1 - 1 / math.log10(n)) if n > 1 else -math.inf


def _fit_pareto(x: Vector) -> tuple[float, float]:
    r"""Return scale and shape of a generalized Pareto distribution of sorted positive excesses, of shape (m,).

    With θ = -k/σ the likelihood has its maximum over k at mean log(1 - θx). θ is its posterior mean over a grid.
    """
    m = len(x)
    n_grid = 30 + math.isqrt(m)
    quartile = x[math.floor(m / 4 + 0.5) - 1]
    theta = 1 / x[-1] + (1 - np.sqrt(n_grid / (np.arange(n_grid) + 0.5))) / (3 * quartile)
    theta[theta == 0] = _EPS / x[-1]  # the exponential distribution, as a limit
    k = np.array([np.log1p(-t * x).mean() for t in theta])
    log_likelihood = m * (np.log(-theta / k) - k - 1)
    posterior = _relative(log_likelihood)
    best = float(posterior @ theta / posterior.sum()) or _EPS / float(x[-1])
    shape = float(np.log1p(-best * x).mean())
    return -shape / best, (m * shape + 10 * 0.5) / (m + 10)


def _pareto_quantiles(m: int, sigma: float, k: float) -> Vector:
    """Return the quantiles (i - 1/2) / m of a generalized Pareto distribution, of shape (m,)."""
    exponential = -np.log1p(-(np.arange(m) + 0.5) / m)
    with np.errstate(over="ignore"):  # the caller limits them by the largest weight
        return sigma * (np.expm1(k * exponential) / k if k else exponential)


def cap_to_design_effect(log_w: VectorLike, design_effect: float) -> Capped:
    r"""Lower the largest weights to the largest cap that meets a bound on the design effect.

    The design effect of Kish is the factor by which weights inflate the variance of a mean: n divided by the effective
    sample size. The bound is finite, and 1 or more. 1 makes all weights equal. Other weights do not change, so the sum
    of the weights falls.

    .. math:: n \sum_i w_i^2 \Big/ \Big(\sum_i w_i\Big)^2 \leq \mathrm{design\ effect}

    References
    ----------
    .. [1] Kish (1965). *Survey Sampling.*

    Examples
    --------
    >>> capped = cap_to_design_effect(np.log([1.0, 1.0, 1.0, 5.0]), design_effect=1.2)
    >>> np.exp(capped.log_w).round(4).tolist(), capped.n_capped
    ([1.0, 1.0, 1.0, 2.3923], 1)
    """
    if not (is_number(design_effect) and 1 <= design_effect < math.inf):
        raise ValueError(f"`design_effect` is {design_effect!r}. Use a finite number of 1 or more.")
    log_w = _checked(log_w)
    n, positive = len(log_w), np.sort(log_w[log_w > -np.inf])
    if n / len(positive) > design_effect:
        reason = f"{n - len(positive)} of {n} weights are zero, so that no cap brings it below {n / len(positive):.4g}"
        raise ValueError(f"`design_effect` is {design_effect}, but {reason}. Use a larger bound, or drop these rows.")
    log_cap = _log_cap(positive, n, float(design_effect))
    return Capped(np.minimum(log_w, log_cap), int(np.count_nonzero(log_w > log_cap)))


def _log_cap(log_w: Vector, n: int, design_effect: float) -> float:
    """Return the log of the largest cap of sorted positive weights, of shape (m,), that meets a design effect."""
    below = np.maximum(_below_largest(log_w), -1e300)  # doubled below
    n_above = len(log_w) - 1.0 - np.arange(len(log_w))  # weights above each, if that one were the cap
    with np.errstate(divide="ignore"):  # there are none above the last
        log_sum = np.logaddexp(np.logaddexp.accumulate(below), np.log(n_above) + below)
        log_squares = np.logaddexp(np.logaddexp.accumulate(2 * below), np.log(n_above) + 2 * below)
    meets = math.log(n) + log_squares - 2 * log_sum <= math.log(design_effect)
    last = int(np.flatnonzero(meets)[-1]) if meets.any() else 0
    if last == len(log_w) - 1:
        return float(log_w[-1])
    w = np.exp(below[: last + 1] - below[last])
    total, squares, m = w.sum(), w @ w, n_above[last]
    # n (squares + m c^2) = design_effect (total + m c)^2
    a, b = m * (n - design_effect * m), design_effect * total * m
    root = math.sqrt(max(b**2 - a * (n * squares - design_effect * total**2), 0.0))
    cap = max((b + root) / a, 1.0) if a > 0 else math.inf
    return float(min(log_w[last] + math.log(cap), log_w[last + 1]))


def effective_sample_size(log_w: VectorLike) -> float:
    r"""Return the number of equally weighted rows that carry the same information, between 1 and n.

    .. math:: \mathrm{ESS} = \Big(\sum_i w_i\Big)^2 \Big/ \sum_i w_i^2

    References
    ----------
    .. [1] Kong (1992). *A note on importance sampling using standardized weights.*

    Examples
    --------
    >>> effective_sample_size(np.array([0.0, -800.0]))
    1.0
    """
    w = _relative(_checked(log_w))
    return float(w.sum() ** 2 / (w @ w))


def effective_sample_size_of_ratio(
    log_p: Vector, w_p: Vector, log_q: Vector, w_q: Vector, n_q: float, gamma: float = 1.0
) -> float:
    r"""Return the effective sample size of n_q rows of q under the weights :math:`r^\gamma`, by rows of both samples.

    The weights of rows of q alone cannot show that q has no rows in a region of p. The rows of p can show it, by
    :math:`\mathrm{mean}_q r^{2\gamma} = \mathrm{mean}_p r^{2\gamma - 1}`. The smaller of the two sizes is returned.
    Log-ratios and weights have shapes (m_p,) and (m_q,): a part of the rows is enough.
    """
    log_square_p, log_square_q = log_mean_exp((2 * gamma - 1) * log_p, w_p), log_mean_exp(2 * gamma * log_q, w_q)
    log_mean_q = log_mean_exp(gamma * log_q, w_q)
    # mean_q r is 1. Of other powers both samples estimate the mean, and the larger counts
    log_mean = 0.0 if gamma == 1 else max(log_mean_q, log_mean_exp((gamma - 1) * log_p, w_p))
    log_share = min(0.0, 2 * log_mean_q - log_square_q, 2 * log_mean - log_square_p)
    return float(max(1.0, n_q * math.exp(log_share)))


def is_small(ess: float, n: float) -> bool:
    """Return whether an effective sample size, of n rows, is so small that results depend on a handful of rows."""
    return ess <= min(MIN_ESS, max(MIN_ESS_SHARE * n, 1.0))


def _relative(log_w: Vector) -> Vector:
    """Return weights in units of the largest, of shape (n,)."""
    return np.exp(_below_largest(log_w))


def _below_largest(log_w: Vector) -> Vector:
    """Return log-weights, of shape (n,), shifted so that the largest is 0."""
    with np.errstate(over="ignore"):  # 1e308 and -1e308 differ by more than a float holds
        return log_w - log_w.max()


def _checked(log_w: VectorLike) -> Vector:
    """Return log-weights as float64, of shape (n,)."""
    return _not_all_zero(finite_vector(log_w, "log_w", may_be_zero=True), "log_w")


def _not_all_zero(log_w: Vector, name: str) -> Vector:
    if np.isneginf(log_w).all():
        raise ValueError(f"`{name}` is -inf in every row, so all weights are zero. At least one must be positive.")
    return log_w


def finite_vector(values: VectorLike, name: str, may_be_zero: bool = False, may_be_empty: bool = False) -> Vector:
    """Return finite numbers as float64, of shape (n,). With `may_be_zero`, -inf stands for the log of zero."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not an array of numbers ({error}). Give one number for each row.") from error
    if numbers.ndim != 1 or not (len(numbers) or may_be_empty):
        raise ValueError(f"`{name}` has shape {numbers.shape}. Give one number for each row, and at least one row.")
    is_bad = ~np.isfinite(numbers) & ~(may_be_zero & np.isneginf(numbers))
    if is_bad.any():
        rows = f"{np.count_nonzero(is_bad)} of {len(numbers)} rows, the first {int(np.argmax(is_bad))} (counted from 0)"
        zero = ", or -inf for zero" * may_be_zero
        raise ValueError(f"`{name}` is NaN or infinite in {rows}. Give finite numbers{zero}.")
    return numbers
