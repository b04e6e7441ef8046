r"""Which log-ratios to combine, and how: convex weights by the likelihood of rows that none of them has seen.

.. math:: \min_\lambda \ \sum_i \omega_i \log\big(1 + e^{-s_i \sum_k \lambda_k f_k(x_i)}\big)
          \quad \text{subject to} \quad \lambda_k \ge 0, \quad \sum_k \lambda_k = 1

with s = ±1 on rows of p and of q, and the weights ω of each sample adding up to one half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

_SLACK = 0.75  # standard errors by which a simpler ratio may be behind the best one
_GAIN = 2.0  # standard errors that another ratio must gain, the best of many: about 4 standard errors of its weight
_SMALLEST = 0.01  # weights below it are dropped
_WORTH = 0.05  # weight of a column that is worth its cost beside a stack of few
_FEW = 1000  # rows with which a stack of few counts one half, and one of all columns the other half


@dataclass(frozen=True)
class HeldOut:
    """What is known of rows on which ratios are judged.

    Parameters
    ----------
    sign
        1 on rows of p and -1 on rows of q, of shape (n,).
    share
        Weights that add up to one half in each sample, of shape (n,).
    """

    sign: np.ndarray
    share: np.ndarray

    def rows(self, chosen: np.ndarray) -> HeldOut:
        """Return the same for some of the rows, with weights that again add up to one half in each sample."""
        sign, share = self.sign[chosen], self.share[chosen]
        total = np.where(sign > 0, share[sign > 0].sum(), share[sign < 0].sum())
        return HeldOut(sign, share / (2 * total))

    def losses(self, log_r: np.ndarray) -> np.ndarray:
        """Return the loss of every row in nats, (n,) to (n,)."""
        return -log_expit(self.sign * log_r)

    def mean(self, losses: np.ndarray) -> float:
        """Return the mean over both samples, each counting one half."""
        return float(self.share @ losses)

    def standard_error(self, losses: np.ndarray) -> float:
        """Return the standard error of `mean`."""
        variance = 0.0
        for of in (self.sign > 0, self.sign < 0):
            share, values = self.share[of], losses[of]
            variance += float(np.square(share * (values - 2 * (share @ values))).sum())
        return math.sqrt(variance)


def convex_weights(log_ratios: np.ndarray, held_out: HeldOut) -> np.ndarray:
    r"""Return the weights of columns, (n, m) to (m,), that make the held-out loss of their sum least.

    They are not negative and add up to 1. A column of which even the smallest weight that is kept would cost more than
    r = 1 does, :math:`\log 2`, has none: a ratio that is off by millions would leave the search no scale to work on.
    """
    losses = np.array([held_out.mean(held_out.losses(column)) for column in log_ratios.T])
    usable = (losses < math.log(2) / _SMALLEST) | (losses == losses.min())
    weights = np.zeros(len(losses))
    weights[usable] = _least(held_out.sign[:, None] * log_ratios[:, usable], held_out.share)
    return _without_small(weights, _SMALLEST)


def _least(signed: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the convex weights of columns, (n, m) to (m,), of the least loss; rows of q have the other sign."""
    m = signed.shape[1]
    if m == 1:
        return np.ones(1)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = signed @ weights
        return -float(share @ log_expit(margin)), -((share * expit(-margin)) @ signed)

    found = minimize(
        loss,
        np.full(m, 1 / m),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * m,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-10, "maxiter": 200},
    )
    return found.x


def _without_small(weights: np.ndarray, least: float) -> np.ndarray:
    """Return weights (m,) that add up to 1, the small ones dropped."""
    weights = np.where(weights < least, 0.0, weights)
    return weights / weights.sum()


def choose_stack(log_ratios: np.ndarray, held_out: HeldOut, most: int | None = None) -> np.ndarray:
    """Return the weights of columns, (n, m) to (m,), of a stack of few, at most `most`: the simplest stand first.

    It begins with the first column that is nearly level with the best one. Others join, the best first, while
    the loss gains more than chance gives: with a weight that is zero in truth, the gain has the size of half its
    standard error.
    """
    losses = [held_out.losses(column) for column in log_ratios.T]
    best = min(losses, key=held_out.mean)
    behind = [held_out.mean(loss - best) for loss in losses]
    by_chance = [_SLACK * held_out.standard_error(loss - best) for loss in losses]
    level = max(b for b, c in zip(behind, by_chance, strict=True) if b <= c)  # what is that near is level, too
    chosen = [next(k for k, b in enumerate(behind) if b <= level)]
    weights, now = np.ones(1), losses[chosen[0]]
    most = len(losses) if most is None else most
    while len(chosen) < most:
        rest = [k for k in range(len(losses)) if k not in chosen]
        tried = [convex_weights(log_ratios[:, [*chosen, k]], held_out) for k in rest]
        after = [held_out.losses(log_ratios[:, [*chosen, k]] @ found) for k, found in zip(rest, tried, strict=True)]
        i = int(np.argmin([held_out.mean(loss) for loss in after]))
        gained = now - after[i]
        if held_out.mean(gained) <= _GAIN * held_out.standard_error(gained):
            break
        chosen, weights, now = [*chosen, rest[i]], tried[i], after[i]
    out = np.zeros(log_ratios.shape[1])
    out[chosen] = weights
    return out


def hedge(few: np.ndarray, log_ratios: np.ndarray, held_out: HeldOut) -> np.ndarray:
    """Return the weights of a stack of few, (m,), and, where rows are few, of other columns beside them.

    Few rows cannot tell which columns are the best: `convex_weights` of all of them count as 1000 / (n + 1000), unless
    r = 1 was taken.
    """
    if not (log_ratios @ few).any():
        return few
    share = _FEW / (len(log_ratios) + _FEW)
    return _without_small((1 - share) * few + share * convex_weights(log_ratios, held_out), _WORTH)


def can_help(stack: np.ndarray, log_r: np.ndarray, held_out: HeldOut) -> bool:
    """Return whether a log-ratio (n,) may still join a stack (n,): it is not clearly worse, or a mix of both is better.

    It is asked of some of the rows, to spare the rest.
    """
    behind = held_out.losses(log_r) - held_out.losses(stack)
    clearly = held_out.mean(behind) > 2 * held_out.standard_error(behind)
    mix = np.column_stack([stack, log_r, np.zeros_like(stack)])  # r = 1: shrinking a stack is no merit
    return not clearly or bool(convex_weights(mix, held_out)[1] > 0)
