r"""Candidates of a flow: drawn in batches, drawn again from their seed, and selected by their weights.

Two-stage sampling decodes some of the candidates. Candidate i is decoded with the chance :math:`c_i`. Those that are
decoded have the weight :math:`w_i / c_i`, so that a weighted mean over them estimates the mean over all candidates with
the weights w, whatever the chances are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from flowratio._support.chunks import chunks
from flowratio._support.types import Matrix, Vector
from flowratio.flows import Flow
from flowratio.flows.base import new_generator
from flowratio.weights import cap, self_normalize, temper

_EQUAL_SHARE = 0.2  # of the decoded candidates. Without it, a wrong first weight of 0 could never be corrected
# power of the first weights. If the second stage decides between 0 and w, where the first one knows the probability of
# w, the variance is smallest at 1/2. It is less wasteful than 1 where the first weights are wrong
_POWER = 0.5


class ToDecode(NamedTuple):
    """Candidates that are decoded."""

    positions: np.ndarray  # (m,), sorted, all different
    log_chance: Vector  # log of the chance of each of them to be decoded, (m,)


def candidates(flow: Flow, n: int, seed: int) -> Iterator[tuple[slice, Matrix]]:
    """Yield n candidates z in batches, the same for the same seed: their positions, and z, of shape (m, d_z)."""
    generator = new_generator().manual_seed(seed)
    for part in chunks(n, flow.n_features):
        yield part, flow.base_sample(part.stop - part.start, generator).detach().cpu().double().numpy()


def gathered(flow: Flow, n: int, seed: int, positions: np.ndarray) -> Matrix:
    """Return some of n candidates, (m,) to (m, d_z). All are drawn again, so that they are never all in memory."""
    Z = np.empty((len(positions), flow.n_features))
    for part, batch in candidates(flow, n, seed):
        here = np.flatnonzero((part.start <= positions) & (positions < part.stop))
        Z[here] = batch[positions[here] - part.start]
    return Z


def resampled(log_w: Vector, n: int, replace: bool, rng: np.random.Generator) -> np.ndarray:
    """Return n positions of candidates, drawn by their weights, of shape (n,)."""
    if replace:
        return rng.choice(len(log_w), n, p=self_normalize(log_w))
    n_positive = np.count_nonzero(log_w > -np.inf)
    if n > n_positive:
        problem = f"`n` is {n}, but {n_positive} of {len(log_w)} candidates have a positive weight"
        raise ValueError(f"{problem}. Use more `n_candidates`, a smaller `n`, or `replace=True`.")
    # the largest of log w plus Gumbel noise is a draw by w, the next one a draw from the rest, and so on
    key = log_w + rng.gumbel(size=len(log_w))
    largest = np.argpartition(key, -n)[-n:]
    return largest[np.argsort(-key[largest])]


def to_decode(log_w: Vector, m: int, rng: np.random.Generator) -> ToDecode:
    r"""Select m different candidates to decode, mostly those with large weights: log-weights (n,) to positions (m,).

    .. math:: c_i = \min(1,\ a s_i), \qquad s_i = 0.8\, \sqrt{w_i} / \mathrm{mean} \sqrt w + 0.2,
              \qquad \sum_i c_i = m

    The second part of s bounds the weights of the second stage, also where the first weight is wrong. No candidate is
    decoded twice, because candidates with large weights have the chance 1.

    References
    ----------
    .. [1] Fearnhead, Clifford (2003). *On-line inference for hidden Markov models via particle filters.* JRSS B.
    .. [2] Hesterberg (1995). *Weighted average importance sampling and defensive mixture distributions.* Technometrics.
    """
    n = len(log_w)
    if m >= n:
        return ToDecode(np.arange(n), np.zeros(n))
    s = (1 - _EQUAL_SHARE) * self_normalize(temper(log_w, _POWER), total=n) + _EQUAL_SHARE
    chance = np.minimum(self_normalize(cap(np.log(s), n / m), total=m), 1.0)
    # one of the points u, u + 1, … lies in an interval of length c_i with the chance c_i
    ends = np.floor(np.concatenate([[0.0], np.cumsum(chance)]) - rng.random())
    positions = np.flatnonzero(np.diff(ends) > 0)
    return ToDecode(positions, np.log(chance[positions]))
