r"""Whether rows of q lie where p is: effective sample size, tail of the weights, rows beyond the other sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from flowratio._support.types import Matrix, Vector
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.samples.weighting import log_mean_exp
from flowratio.weights import effective_sample_size, effective_sample_size_of_ratio, largest_k_hat, pareto_smooth


@dataclass(frozen=True, eq=False)
class Overlap:
    r"""How far the two samples overlap, by the ratio r = p/q (p is y = 1).

    A row of p is *beyond q* where :math:`r(x) > n_q`. By Markov's inequality :math:`Q(r \geq t) \leq 1/t`, so fewer
    than one of n_q rows of q is expected that far out, and no row of q represents it. A row of p is beyond q too if q
    clearly does not have its category. Rows of q are beyond p where
    :math:`1/r(x) > n_p`: they do not harm weights r, which are nearly 0 there, but they harm weights 1/r.
    """

    ess_q: float  # effective sample size of the weights r on rows of q (Kish)
    ess_low: float  # ends of the interval of one standard error of `ess_q`, which noise of log r makes too large
    ess_high: float
    ess_p: float  # effective sample size of the weights 1/r on rows of p
    kl: float  # KL(p ‖ q) in nats: mean_p log r − log mean_q r
    headroom: float  # log n_q − KL in nats: 0 or less if q has too few rows for any weights, 3 or more is good
    inflation_q: float  # factor by which rows of q understate errors of means weighted by r, according to rows of p
    inflation_p: float  # the same for means over rows of p weighted by 1/r
    k_hat_q: float  # Pareto k̂ of the weights r on rows of q; inf if there are too few, or too few distinct ones
    k_hat_p: float  # … and of 1/r on rows of p
    n_p: float  # effective sample size of the weights that the sample came with
    n_q: float
    p_beyond_q: np.ndarray  # (n_p,): which rows are beyond the other sample, in the input order
    q_beyond_p: np.ndarray  # (n_q,)
    share_p_beyond_q: float  # their share of the sample, from 0 to 1
    share_q_beyond_p: float

    @property
    def is_absent(self) -> bool:
        """Whether p and q do not overlap. The weights of rows of q can be equal then, and `ess_q` means nothing."""
        return no_overlap(self.share_p_beyond_q, self.headroom)

    @property
    def ess_text(self) -> str:
        """`ess_q` with its standard error, or with the ends of the interval if they are not equally far."""
        return size_text(self.ess_q, self.ess_low, self.ess_high)

    @property
    def reliable_q(self) -> bool:
        """Whether standard errors of means of r over q are reliable: a light tail, an effective size above 10."""
        return _is_reliable(self.k_hat_q, self.ess_q / self.inflation_q**2, self.n_q)

    @property
    def reliable_p(self) -> bool:
        """The same for 1/r over rows of p."""
        return _is_reliable(self.k_hat_p, self.ess_p / self.inflation_p**2, self.n_p)


def with_absent_rows(shared: Overlap, is_absent: Vector, w: Vector) -> Overlap:
    """Count rows as beyond the other sample that clearly have no counterpart there, (n,), by their weights, (n,)."""
    n_p = len(shared.p_beyond_q)
    p, q = shared.p_beyond_q | is_absent[:n_p], shared.q_beyond_p | is_absent[n_p:]
    shares = float(np.average(p, weights=w[:n_p])), float(np.average(q, weights=w[n_p:]))
    return replace(shared, p_beyond_q=p, q_beyond_p=q, share_p_beyond_q=shares[0], share_q_beyond_p=shares[1])


def no_overlap(share_p_beyond_q: float, headroom: float | None) -> bool:
    """Return whether q has hardly any rows where p lies. A `headroom` that is not finite may be None."""
    return share_p_beyond_q > THRESHOLDS.absent or headroom is None or headroom <= 0


def size_text(ess: float, low: float, high: float, number: Callable[[float], str] | None = None) -> str:
    """Return an effective sample size with its error: "80 ± 30", or "80 (50 to 85)". `number` writes a number."""
    number = _size if number is None else number
    below, above = (number(end) for end in (ess - low, high - ess))
    return f"{number(ess)} ± {below}" if below == above else f"{number(ess)} ({number(low)} to {number(high)})"


def _size(value: float) -> str:
    return f"{value:.0f}" if value >= 9.5 else f"{value:.2g}"


def _is_reliable(k_hat: float, ess: float, n: float) -> bool:
    is_light = ess > n / 2 if k_hat == math.inf else k_hat <= largest_k_hat(n)
    return is_light and ess > THRESHOLDS.fewest_ess


def overlap(
    p: ScoredSample,
    q: ScoredSample,
    log_p: Vector,
    log_q: Vector,
    each_q: Matrix | None = None,
    weighted: ScoredSample | None = None,
) -> Overlap:
    """Measure how far two samples overlap. `log_p` and `log_q` are of all input rows, which are flagged.

    `each_q` has log r of the rows of q by the model of each fold, (n_folds, n). `weighted` are the rows of q with log r
    as their weights, if it differs.
    """
    log_n_p, log_n_q = math.log(p.n), math.log(q.n)
    weighted = q if weighted is None else weighted
    ess_q, ess_p = effective_sample_size(weighted.log_weights()), effective_sample_size(p.log_weights(-1))
    both_q = effective_sample_size_of_ratio(p.log_r, p.share, q.log_r, q.share, q.n)
    both_p = effective_sample_size_of_ratio(-q.log_r, q.share, -p.log_r, p.share, p.n)
    kl = float(p.share @ p.log_r) - log_mean_exp(q.log_r, q.share)
    ess_low, ess_high = _ess_ends(weighted, each_q)
    return Overlap(
        ess_q=ess_q,
        ess_low=ess_low,
        ess_high=ess_high,
        ess_p=ess_p,
        kl=kl,
        headroom=log_n_q - kl,
        inflation_q=math.sqrt(ess_q / both_q),
        inflation_p=math.sqrt(ess_p / both_p),
        k_hat_q=pareto_smooth(weighted.log_weights()).k_hat,
        k_hat_p=pareto_smooth(p.log_weights(-1)).k_hat,
        n_p=p.n,
        n_q=q.n,
        p_beyond_q=log_p > log_n_q,
        q_beyond_p=-log_q > log_n_p,
        share_p_beyond_q=float(p.share @ (p.log_r > log_n_q)),
        share_q_beyond_p=float(q.share @ (-q.log_r > log_n_p)),
    )


def _ess_ends(q: ScoredSample, each_q: Matrix | None) -> tuple[float, float]:
    r"""Return the ends of one standard error around Kish's effective sample size :math:`A^2 / B`.

    Here A = Σ w and B = Σ w². Rows contribute by the delta method, :math:`d \log \mathrm{ESS} = 2\, dA / A - dB / B`.
    The models of the folds contribute by the jackknife of the ESS. If log r has an error of variance v, weights that
    are shrunken by it are too equal. The ESS of the true ratio is smaller by a factor of about :math:`e^{-v}`, so
    shrinkage lowers the lower end, if it is larger than the jackknife. Many rare categories are an example. The ends
    are between 1 and the number of rows.
    """
    size = effective_sample_size(q.log_weights())
    w = q.tilted().share
    influence = 2 * w - w**2 / (w @ w)
    rows = size * math.sqrt(np.sum((influence - influence.mean()) ** 2))
    spread = shrinkage = 0.0
    if each_q is not None:
        spread = _jackknife_error(each_q, q)
        centered = each_q - (each_q @ w)[:, None]  # a factor of r does not change the ESS
        shrinkage = -math.expm1(-stability(centered, w)) * size
    below, above = math.hypot(rows, max(spread, shrinkage)), math.hypot(rows, spread)
    return max(size - below, min(size, 1.0)), min(size + above, max(size, q.n))


def _jackknife_error(each_q: Matrix, q: ScoredSample) -> float:
    """Return the standard error of the ESS by the models of the folds, which have log r of (n_folds, n)."""
    sizes = np.array([effective_sample_size(log_r + np.log(q.share)) for log_r in each_q])
    return math.sqrt((len(sizes) - 1) / len(sizes) * np.sum((sizes - sizes.mean()) ** 2))


def stability(each: Matrix, share: Vector) -> float:
    r"""Return the jackknife variance of log r in nats², its mean over the rows of a sample.

    .. math:: \mathrm{mean}\, \frac{K - 1}{K} \sum_k \Big(\log r_k - \frac1K \sum_j \log r_j\Big)^2

    `each` has log r of the rows by the models of K folds, (K, n), and `share` the weights of the rows, (n,).
    """
    return float((len(each) - 1) * (each.var(axis=0) @ share))
