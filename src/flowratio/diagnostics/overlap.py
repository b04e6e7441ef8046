r"""Whether rows of q lie where p is: effective sample size, tail of the weights, rows beyond the other sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flowratio._support.types import Vector
from flowratio.diagnostics.scored_sample import ScoredSample
from flowratio.diagnostics.thresholds import THRESHOLDS
from flowratio.weights import effective_sample_size, effective_sample_size_of_ratio, largest_k_hat, pareto_smooth


@dataclass(frozen=True, eq=False)
class Overlap:
    r"""How far the two samples overlap, by the ratio r = p/q (p is y = 1).

    A row of p is *beyond q* where :math:`r(x) > n_q`. By Markov's inequality :math:`Q(r \geq t) \leq 1/t`, so fewer
    than one of n_q rows of q is expected that far out, and no row of q represents it. Rows of q are beyond p where
    :math:`1/r(x) > n_p`: they do not harm weights r, which are nearly 0 there, but they harm weights 1/r.
    """

    ess_q: float  # effective sample size of the weights r on rows of q
    ess_p: float  # … and of 1/r on rows of p
    draws_q: float  # the same, by rows of both samples: also small if no row of q lies where p does
    draws_p: float
    k_hat_q: float  # Pareto k̂ of the weights r on rows of q; inf if there are too few, or too few distinct ones
    k_hat_p: float  # … and of 1/r on rows of p
    n_p: float  # effective sample size of the weights that the sample came with
    n_q: float
    p_beyond_q: np.ndarray  # (n_p,): which rows are beyond the other sample, in the input order
    q_beyond_p: np.ndarray  # (n_q,)
    share_p_beyond_q: float  # their share of the sample, from 0 to 1
    share_q_beyond_p: float

    @property
    def reliable_q(self) -> bool:
        """Whether standard errors of means of r over q are reliable: a light tail, an effective size above 10."""
        return _is_reliable(self.k_hat_q, self.draws_q, self.n_q)

    @property
    def reliable_p(self) -> bool:
        """The same for 1/r over rows of p."""
        return _is_reliable(self.k_hat_p, self.draws_p, self.n_p)

    @property
    def inflation(self) -> float:
        """Factor by which rows of q alone understate the standard errors of means that are weighted by r."""
        return math.sqrt(self.ess_q / self.draws_q)


def _is_reliable(k_hat: float, ess: float, n: float) -> bool:
    is_light = ess > n / 2 if k_hat == math.inf else k_hat <= largest_k_hat(n)
    return is_light and ess > THRESHOLDS.fewest_ess


def overlap(p: ScoredSample, q: ScoredSample, log_p: Vector, log_q: Vector) -> Overlap:
    """Measure how far two samples overlap. `log_p` and `log_q` are of all input rows, which are flagged."""
    log_n_p, log_n_q = math.log(p.n), math.log(q.n)
    return Overlap(
        ess_q=effective_sample_size(q.log_weights()),
        ess_p=effective_sample_size(p.log_weights(-1)),
        draws_q=effective_sample_size_of_ratio(p.log_r, p.share, q.log_r, q.share, q.n),
        draws_p=effective_sample_size_of_ratio(-q.log_r, q.share, -p.log_r, p.share, p.n),
        k_hat_q=pareto_smooth(q.log_weights()).k_hat,
        k_hat_p=pareto_smooth(p.log_weights(-1)).k_hat,
        n_p=p.n,
        n_q=q.n,
        p_beyond_q=log_p > log_n_q,
        q_beyond_p=-log_q > log_n_p,
        share_p_beyond_q=float(p.share @ (p.log_r > log_n_q)),
        share_q_beyond_p=float(q.share @ (-q.log_r > log_n_p)),
    )
