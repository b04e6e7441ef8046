r"""Whether there are rows of q where p is: effective draws, the tail of the weights, rows beyond the other sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flowratio.diagnostics.scored_sample import Scored
from flowratio.ratios.base import effective_draws
from flowratio.weights import effective_sample_size, largest_k_hat, pareto_smooth

FEWEST_DRAWS = 10  # of fewer nothing can be said


@dataclass(frozen=True, eq=False)
class Overlap:
    r"""How far the two samples overlap, as the ratio r = p/q (p is y = 1) has it.

    A row of p is *beyond q* where :math:`r(x) > n_q`. By Markov's inequality
    :math:`Q(r \geq t) = E_q[r \geq t] \leq P(r \geq t) / t \leq 1/t`: of n_q rows of q fewer than one is expected to
    lie as far out as such a row does, so that nothing stands for it when rows of q are weighted. Rows of q are beyond
    p where :math:`1/r(x) > n_p`: they are no harm to weights r, which are nearly 0 there, but to weights 1/r.

    Attributes
    ----------
    ess_q, ess_p
        Effective sample size of the weights r on rows of q, and of 1/r on rows of p.
    draws_q, draws_p
        The same, but not more than the rows of the other sample say, by mean_q r² = mean_p r: `ess_q` does not notice
        that no row of q lies where p does, and these do.
    k_hat_q, k_hat_p
        Pareto k̂ of the weights r on rows of q, and of 1/r on rows of p: the shape of their upper tail. Means that are
        weighted by them can be trusted up to `weights.largest_k_hat(n)`; inf if the tail cannot be told, by too few
        rows or too few distinct weights, and then the effective draws decide.
    n_p, n_q
        How many rows the samples are worth.
    p_beyond_q, q_beyond_p
        Which rows are beyond the other sample, of shapes (n_p,) and (n_q,), in the order in which they were given.
    share_p_beyond_q, share_q_beyond_p
        How much of each sample that is, from 0 to 1.
    """

    ess_q: float
    ess_p: float
    draws_q: float
    draws_p: float
    k_hat_q: float
    k_hat_p: float
    n_p: float
    n_q: float
    p_beyond_q: np.ndarray
    q_beyond_p: np.ndarray
    share_p_beyond_q: float
    share_q_beyond_p: float

    @property
    def reliable_q(self) -> bool:
        """Whether standard errors of means of r over rows of q can be trusted: a light tail, more than 10 draws."""
        return _reliable(self.k_hat_q, self.draws_q, self.n_q)

    @property
    def reliable_p(self) -> bool:
        """The same of 1/r over rows of p."""
        return _reliable(self.k_hat_p, self.draws_p, self.n_p)

    @property
    def inflation(self) -> float:
        """By how much rows of q alone understate the standard errors of means that are weighted by r."""
        return math.sqrt(self.ess_q / self.draws_q)


def _reliable(k_hat: float, draws: float, n: float) -> bool:
    light = draws > n / 2 if k_hat == math.inf else k_hat <= largest_k_hat(n)
    return light and draws > FEWEST_DRAWS


def overlap(p: Scored, q: Scored, log_p: np.ndarray, log_q: np.ndarray) -> Overlap:
    """Look how far two samples overlap.

    Parameters
    ----------
    p, q
        The samples with their log-ratios.
    log_p, log_q
        log r of all rows as they were given, of shapes (n_p,) and (n_q,): these are flagged.
    """
    log_n_p, log_n_q = math.log(p.n), math.log(q.n)
    return Overlap(
        ess_q=effective_sample_size(q.log_weights()),
        ess_p=effective_sample_size(p.log_weights(-1)),
        draws_q=effective_draws(p.log_r, p.share, q.log_r, q.share, q.n),
        draws_p=effective_draws(-q.log_r, q.share, -p.log_r, p.share, p.n),
        k_hat_q=pareto_smooth(q.log_weights()).k_hat,
        k_hat_p=pareto_smooth(p.log_weights(-1)).k_hat,
        n_p=p.n,
        n_q=q.n,
        p_beyond_q=log_p > log_n_q,
        q_beyond_p=-log_q > log_n_p,
        share_p_beyond_q=float(p.share @ (p.log_r > log_n_q)),
        share_q_beyond_p=float(q.share @ (-q.log_r > log_n_p)),
    )
