r"""From log r to weights: normalize, flatten, rebalance, truncate, smooth, trim, and count what they are worth.

A row x of q counts in a mean over p as often as r(x) = p(x) / q(x) says,

.. math:: \mathrm{mean}_p\, g = \mathrm{mean}_q\, r g \approx \sum_i w_i\, g(x_i) \Big/ \sum_i w_i,
          \qquad \log w_i = \log r(x_i)

Weights travel as logs, and leave them in `self_normalize` alone. A log-weight of -inf is a weight of zero.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from flowratio._support.validation import is_number
from flowratio.samples.weighting import log_mean_exp

_EPS = float(np.finfo(np.float64).eps)
_FEWEST, _FEWEST_IN_TAIL = 25, 5  # weights, and weights in their tail, to which a tail is fitted
_SMALLEST_EXCESS = 1e-300  # of the largest weight; below it quotients of excesses overflow


class Smoothed(NamedTuple):
    """What `pareto_smooth` returns: log-weights of shape (n,), and the shape of their tail."""

    log_w: np.ndarray
    k_hat: float


class Trimmed(NamedTuple):
    """What `trim` returns: log-weights of shape (n,), and how many of them were lowered."""

    log_w: np.ndarray
    n_touched: int


def self_normalize(log_w: Any, total: float = 1.0) -> np.ndarray:
    r"""Return weights that add up to `total`: log-weights (n,) to weights (n,).

    .. math:: w_i = \mathrm{total} \cdot e^{\ell_i} \Big/ \sum_j e^{\ell_j}

    Parameters
    ----------
    log_w
        Log-weights, of shape (n,). An additive constant cancels.
    total
        Sum of the weights, above 0; `total=len(log_w)` gives weights whose mean is 1.

    Examples
    --------
    >>> self_normalize([0.0, np.log(3.0)]).round(12).tolist()
    [0.25, 0.75]
    >>> self_normalize([800.0, 800.0, -np.inf], total=3).tolist()
    [1.5, 1.5, 0.0]
    """
    if not (is_number(total) and 0 < total < math.inf):
        raise ValueError(f"`total` is {total!r}: give a number above 0, such as `len(log_w)` for weights of mean 1.")
    w = _relative(_checked(log_w))
    return w / w.sum() * total


def flatten(log_r: Any, gamma: float) -> np.ndarray:
    r"""Raise ratios to a power, which makes weights more alike where it is below 1: log r (n,) to log-weights (n,).

    .. math:: \log w_i = \gamma \log r(x_i)

    Parameters
    ----------
    log_r
        Log-ratios, of shape (n,).
    gamma
        The power, 0 or more: 1 keeps the ratios, 0 gives every row the weight 1.

    References
    ----------
    .. [1] Grover et al. (2019). *Bias Correction of Learned Generative Models using Likelihood-Free Importance
       Weighting.* NeurIPS.
    .. [2] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI. Appendix on importance weighting.

    Examples
    --------
    >>> flatten([2.0, -4.0], gamma=0.5).tolist()
    [1.0, -2.0]
    """
    if not (is_number(gamma) and 0 <= gamma < math.inf):
        raise ValueError(f"`gamma` is {gamma!r}: give a finite number of 0 or more; 1 keeps the ratios as they are.")
    log_r = _numbers(log_r, "log_r")
    if gamma == 0:
        return np.zeros_like(log_r)  # also where r = 0
    with np.errstate(over="ignore"):
        log_w = float(gamma) * log_r
    if np.isposinf(log_w).any():
        raise ValueError(f"`gamma` is {gamma!r} and `log_r` is up to {log_r.max():.1e}: the product overflows.")
    return _not_all_zero(log_w, "log_r")


def rebalance(log_r: Any, proportion: float = 0.5, toward: Literal["p", "q"] = "p") -> np.ndarray:
    r"""Weight rows of a mixture of p and q so that they become a sample of p, or of q: log r (n,) to log-weights (n,).

    For rows of :math:`h = \pi p + (1 - \pi) q`, as a flow draws them that was trained on both samples,

    .. math:: \frac{p}{h} = \frac{r}{\pi r + 1 - \pi} \leq \frac1\pi, \qquad
              \frac{q}{h} = \frac{1}{\pi r + 1 - \pi} \leq \frac1{1 - \pi}

    These weights are bounded, unlike r. With :math:`\pi = 1/2` they are the paper's :math:`r / (\frac12 (r + 1))`. With
    :math:`\pi = 0` the rows are of q alone, and the weights toward p are r, which is not bounded.

    Parameters
    ----------
    log_r
        Log-ratios log p - log q of the rows, of shape (n,).
    proportion
        The share π of p in the mixture, 0 or more and below 1: n_p / (n_p + n_q) for both samples pooled.
    toward
        `"p"` or `"q"`.

    References
    ----------
    .. [1] Choi, Liao, Ermon (2021). *Featurized Density Ratio Estimation.* UAI. Appendix on targeted generation.

    Examples
    --------
    >>> np.exp(rebalance([np.log(3.0)])).round(12).tolist()
    [1.5]
    >>> np.exp(rebalance([800.0, -800.0], proportion=0.1, toward="q")).round(4).tolist()
    [0.0, 1.1111]
    """
    check_proportion(proportion)
    log_r = _numbers(log_r, "log_r")
    log_pi, log_rest = math.log(proportion) if proportion else -math.inf, math.log1p(-proportion)
    if toward == "p":
        return -np.logaddexp(log_pi, log_rest - _not_all_zero(log_r, "log_r"))
    if toward == "q":
        return -np.logaddexp(log_pi + log_r, log_rest)
    raise ValueError(f"`toward` is {toward!r}: give 'p' or 'q'.")


def check_proportion(proportion: Any) -> None:
    """Refuse what is no share of p in a mixture of p and q."""
    if not (is_number(proportion) and 0 <= proportion < 1):
        raise ValueError(
            f"`proportion` is {proportion!r}: it is the share of p in the mixture, and must be 0 or more and below 1."
        )


def truncate(log_w: Any, largest: float | None = None) -> np.ndarray:
    r"""Lower weights that are above a cap to the cap: log-weights (n,) to log-weights (n,).

    .. math:: w_i' = \min(w_i,\ c\, \bar w), \qquad c = \sqrt n \text{ by default}

    With the default the bias vanishes as n grows, and the variance is finite for every r.

    Parameters
    ----------
    log_w
        Log-weights, of shape (n,). An additive constant is kept.
    largest
        The cap c, in units of the mean weight, above 0; the root of n if None.

    References
    ----------
    .. [1] Ionides (2008). *Truncated Importance Sampling.* Journal of Computational and Graphical Statistics.

    Examples
    --------
    >>> np.exp(truncate(np.log([1.0, 1.0, 1.0, 97.0]), largest=2)).round(12).tolist()
    [1.0, 1.0, 1.0, 50.0]
    """
    if largest is not None and not (is_number(largest) and 0 < largest < math.inf):
        raise ValueError(f"`largest` is {largest!r}: give the cap in units of the mean weight, above 0, or None.")
    log_w = _checked(log_w)
    log_mean = log_w.max() + math.log(_relative(log_w).mean())
    return np.minimum(log_w, log_mean + math.log(math.sqrt(len(log_w)) if largest is None else largest))


def pareto_smooth(log_w: Any) -> Smoothed:
    r"""Replace the largest weights by quantiles of a generalized Pareto distribution that is fitted to them.

    Beyond a threshold u nearly every distribution is such a Pareto distribution, with a shape k that says how many
    moments the weights have: fewer than 1/k. The M largest weights, :math:`M = \min(n/5, 3\sqrt n)`, become

    .. math:: w_{(i)}' = u + \frac{\sigma}{k}\left(\Big(1 - \frac{i - 1/2}{M}\Big)^{-k} - 1\right),
              \qquad i = 1, \dots, M

    and none more than the largest was. Scale and shape are those of Zhang and Stephens (2009); a weak prior, worth ten
    weights, draws k toward 1/2.

    Parameters
    ----------
    log_w
        Log-weights, of shape (n,). An additive constant is kept: the smoothed weights are not normalized.

    Returns
    -------
    Smoothed
        `log_w`, smoothed, in the order they came in, and `k_hat`. Up to `largest_k_hat(n)` weighted means can be
        trusted, and from 1 on not even the mean weight is finite. If the M largest weights (five, or all that there
        are, if M is less) are all alike, they have no tail, and k_hat is -inf: constant weights, be they few, are as
        good as weights can be. If they differ, but n is below 25, fewer than five of them stand out, or they differ by
        more than a float can hold, a tail cannot be fitted: k_hat is inf, which says that nothing is known of it. In
        both cases the weights stay as they are.

    References
    ----------
    .. [1] Vehtari, Simpson, Gelman, Yao, Gabry (2024). *Pareto Smoothed Importance Sampling.* JMLR.
    .. [2] Zhang, Stephens (2009). *A New and Efficient Estimation Method for the Generalized Pareto Distribution.*
       Technometrics.

    Examples
    --------
    >>> u = (np.arange(1000) + 0.5) / 1000
    >>> smoothed = pareto_smooth(-0.4 * np.log(u))  # a Pareto tail of shape 0.4
    >>> round(smoothed.k_hat, 1)
    0.4
    >>> pareto_smooth(np.zeros(100)).k_hat, pareto_smooth(np.arange(10.0)).k_hat
    (-inf, inf)
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
    r"""Return the largest Pareto k̂ of n weights with which weighted means can be trusted.

    .. math:: \min\Big(0.7,\ 1 - \frac1{\log_{10} n}\Big)

    Parameters
    ----------
    n
        Number of weights, above 1.

    References
    ----------
    .. [1] Vehtari, Simpson, Gelman, Yao, Gabry (2024). *Pareto Smoothed Importance Sampling.* JMLR.

    Examples
    --------
    >>> largest_k_hat(100), largest_k_hat(10_000)
    (0.5, 0.7)
    """
    return min(0.7, 1 - 1 / math.log10(n)) if n > 1 else -math.inf


def _fit_pareto(x: np.ndarray) -> tuple[float, float]:
    r"""Return scale and shape of a generalized Pareto distribution of sorted positive excesses, of shape (m,).

    With :math:`\theta = -k/\sigma` the likelihood has its maximum over k in closed form,
    :math:`k(\theta) = \mathrm{mean} \log(1 - \theta x)`. θ is its posterior mean over a grid of quantiles of a prior.
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


def _pareto_quantiles(m: int, sigma: float, k: float) -> np.ndarray:
    """Return the quantiles (i - 1/2) / m of a generalized Pareto distribution, of shape (m,)."""
    exponential = -np.log1p(-(np.arange(m) + 0.5) / m)
    with np.errstate(over="ignore"):  # the largest weight is the limit of all
        return sigma * (np.expm1(k * exponential) / k if k else exponential)


def trim(log_w: Any, design_effect: float) -> Trimmed:
    r"""Lower the largest weights to a cap, no farther than a given design effect asks for.

    .. math:: n \sum_i w_i^2 \Big/ \Big(\sum_i w_i\Big)^2 \leq \mathrm{design\ effect}

    The design effect of Kish is the factor by which weights inflate the variance of a mean: n by the effective sample
    size. It falls with the cap, which is the largest that meets the bound, in closed form between two neighbouring
    weights. What is cut off is not given to other rows: the sum of the weights falls.

    Parameters
    ----------
    log_w
        Log-weights, of shape (n,). An additive constant is kept.
    design_effect
        The bound, 1 or more, and finite. 1 makes all weights equal.

    Returns
    -------
    Trimmed
        `log_w`, trimmed, in the order they came in, and `n_touched`, how many weights were lowered.

    References
    ----------
    .. [1] Kish (1965). *Survey Sampling.*

    Examples
    --------
    >>> trimmed = trim(np.log([1.0, 1.0, 1.0, 5.0]), design_effect=1.2)
    >>> np.exp(trimmed.log_w).round(4).tolist(), trimmed.n_touched
    ([1.0, 1.0, 1.0, 2.3923], 1)
    """
    if not (is_number(design_effect) and 1 <= design_effect < math.inf):
        raise ValueError(f"`design_effect` is {design_effect!r}: give a finite number of 1 or more.")
    log_w = _checked(log_w)
    n, positive = len(log_w), np.sort(log_w[log_w > -np.inf])
    if n / len(positive) > design_effect:
        raise ValueError(
            f"`design_effect` is {design_effect}, but {n - len(positive)} of {n} weights are zero: no cap brings it "
            f"below {n / len(positive):.4g}. Give more than that, or leave these rows out."
        )
    log_cap = _log_cap(positive, n, float(design_effect))
    return Trimmed(np.minimum(log_w, log_cap), int(np.count_nonzero(log_w > log_cap)))


def _log_cap(log_w: np.ndarray, n: int, design_effect: float) -> float:
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


def effective_sample_size(log_w: Any) -> float:
    r"""Count the equally weighted draws that the weights are worth, between 1 and n.

    .. math:: \mathrm{ESS} = \Big(\sum_i w_i\Big)^2 \Big/ \sum_i w_i^2

    Parameters
    ----------
    log_w
        Log-weights, of shape (n,). An additive constant cancels.

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


def _relative(log_w: np.ndarray) -> np.ndarray:
    """Return weights in units of the largest, of shape (n,)."""
    return np.exp(_below_largest(log_w))


def _below_largest(log_w: np.ndarray) -> np.ndarray:
    """Return log-weights of which the largest is 0, of shape (n,)."""
    with np.errstate(over="ignore"):  # 1e308 and -1e308 differ by more than a float holds
        return log_w - log_w.max()


def _checked(log_w: Any, name: str = "log_w") -> np.ndarray:
    """Return log-weights as float64, of shape (n,); refuse what is no set of weights."""
    return _not_all_zero(_numbers(log_w, name), name)


def _not_all_zero(log_w: np.ndarray, name: str) -> np.ndarray:
    if np.isneginf(log_w).all():
        raise ValueError(f"`{name}` is -inf in every row: all weights are zero. Leave some row a positive weight.")
    return log_w


def _numbers(log_w: Any, name: str) -> np.ndarray:
    """Return finite numbers, or -inf, as float64, of shape (n,)."""
    try:
        log_w = np.asarray(log_w, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` is not an array of numbers ({error}): give one log-weight a row.") from error
    if log_w.ndim != 1 or not len(log_w):
        raise ValueError(f"`{name}` has shape {log_w.shape}: give one log-weight a row, of shape (n,), n at least 1.")
    unsound = np.isnan(log_w) | np.isposinf(log_w)
    if unsound.any():
        raise ValueError(
            f"`{name}` is NaN or inf in {np.count_nonzero(unsound)} rows, the first {int(np.argmax(unsound))} (counted "
            "from 0): a log-weight is a finite number, or -inf for a weight of zero. Drop these rows."
        )
    return log_w


_FEWEST_DRAWS = 20.0
_LOG_LARGEST = math.log(np.finfo(np.float64).max)


def is_small(ess: float, n: float) -> bool:
    """Return whether so few effective draws are left of n rows that what is weighted rests on a handful of them."""
    return ess <= min(_FEWEST_DRAWS, max(n / 4, 1.0))


def effective_sample_size_of_ratio(
    log_p: np.ndarray, w_p: np.ndarray, log_q: np.ndarray, w_q: np.ndarray, n_q: float, gamma: float = 1.0
) -> float:
    r"""Estimate how many equally weighted rows the weights :math:`r^\gamma` leave of n_q rows of q.

    The effective sample size of the weights on rows of q does not notice that no row of q lies where p does. By
    :math:`\mathrm{mean}_q r^{2\gamma} = \mathrm{mean}_p r^{2\gamma - 1}` the rows of p tell the same number, and do
    notice: the smaller counts.

    Parameters
    ----------
    log_p, w_p
        log r and weights of rows of p, of shape (m_p,).
    log_q, w_q
        log r and weights of rows of q, of shape (m_q,).
    n_q
        Number of rows of q.
    gamma
        The power, 0 or more.
    """
    log_square_p, log_square_q = log_mean_exp((2 * gamma - 1) * log_p, w_p), log_mean_exp(2 * gamma * log_q, w_q)
    log_mean_q = log_mean_exp(gamma * log_q, w_q)
    # mean_q r is 1; of other powers both samples tell the mean, and the larger counts
    log_mean = 0.0 if gamma == 1 else max(log_mean_q, log_mean_exp((gamma - 1) * log_p, w_p))
    log_share = min(0.0, 2 * log_mean_q - log_square_q, 2 * log_mean - log_square_p)
    return float(max(1.0, n_q * math.exp(log_share)))


def ratios_from_logs(log_r: np.ndarray) -> np.ndarray:
    """Return r from log r, of shape (n,). A ratio too large for a float is the largest float."""
    return np.exp(np.minimum(log_r, _LOG_LARGEST))
