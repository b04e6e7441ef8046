r"""Which log-ratios to combine, and how: convex weights by the likelihood of held-out rows.

.. math:: \min_\lambda \ \sum_i \omega_i \log\big(1 + e^{-s_i \sum_k \lambda_k f_k(x_i)}\big)
          \quad \text{subject to} \quad \lambda_k \ge 0, \quad \sum_k \lambda_k = 1

with s = ±1 on rows of p and of q. The weights ω of each sample add up to one half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from flowratio._support.types import Matrix, Vector

_SLACK = 0.75  # standard errors by which a simpler ratio may be worse than the best one
_GAIN = 2.0  # standard errors that another ratio must gain, the best of many: about 4 standard errors of its weight
_MIN_WEIGHT = 0.01  # smaller weights are dropped
_MIN_HEDGE = 0.05  # smaller weights of a hedge are dropped: they are not worth their cost
_SMALLEST_LOSS = 1e-9  # nats: a column with a smaller loss separates the samples
_HEDGE_ROWS = 1000  # rows with which a stack of few and one of all columns count one half each


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows: sign 1 on rows of p and -1 on rows of q, and weights of sum ½ in each sample, both (n,)."""

    sign: Vector
    share: Vector

    def rows(self, rows: Vector) -> HeldOut:
        """Return some of the rows, with weights that again add up to one half in each sample."""
        sign, share = self.sign[rows], self.share[rows]
        total = np.where(sign > 0, share[sign > 0].sum(), share[sign < 0].sum())
        return HeldOut(sign, share / (2 * total))

    def losses(self, log_r: Vector) -> Vector:
        """Return the loss of every row in nats, (n,) to (n,)."""
        return -log_expit(self.sign * log_r)

    def mean(self, losses: Vector) -> float:
        """Return the mean over both samples, each counting one half."""
        return float(self.share @ losses)

    def standard_error(self, losses: Vector) -> float:
        """Return the standard error of `mean`."""
        samples = [(self.share[of], losses[of]) for of in (self.sign > 0, self.sign < 0)]
        return math.sqrt(sum(float(np.square(share * (v - 2 * (share @ v))).sum()) for share, v in samples))


def convex_weights(log_ratios: Matrix, held_out: HeldOut) -> Vector:
    """Return the weights of columns, (n, m) to (m,), that minimize the held-out loss of their sum."""
    losses = np.array([held_out.mean(held_out.losses(column)) for column in log_ratios.T])
    # even the smallest weight of a ratio that is wrong by millions costs more than r = 1, and breaks the search
    usable = (losses < math.log(2) / _MIN_WEIGHT) | (losses == losses.min())
    weights = np.zeros(len(losses))
    weights[usable] = _minimizer(held_out.sign[:, None] * log_ratios[:, usable], held_out.share)
    return _without_small(weights, _MIN_WEIGHT)


def _minimizer(margins: Matrix, share: Vector) -> Vector:
    """Return the convex weights of columns, (n, m) to (m,), of the smallest loss. Rows of q have the other sign."""
    m = margins.shape[1]
    losses = -(share @ log_expit(margins))
    if m == 1 or losses.min() < _SMALLEST_LOSS:  # a solver cannot improve on a perfect column
        return (np.arange(m) == losses.argmin()).astype(np.float64)

    def loss(weights: Vector) -> tuple[float, Vector]:
        margin = margins @ weights
        return -float(share @ log_expit(margin)), -((share * expit(-margin)) @ margins)

    box, total = [(0.0, 1.0)] * m, {"type": "eq", "fun": lambda v: v.sum() - 1, "jac": np.ones_like}
    options = {"bounds": box, "constraints": total, "options": {"ftol": 1e-10, "maxiter": 200}}
    return minimize(loss, np.full(m, 1 / m), jac=True, method="SLSQP", **options).x


def _without_small(weights: Vector, minimum: float) -> Vector:
    """Return weights (m,) that add up to 1, without the small ones."""
    weights = np.where(weights < minimum, 0.0, weights)
    return weights / weights.sum()


def choose_stack(log_ratios: Matrix, held_out: HeldOut, max_columns: int | None = None) -> Vector:
    """Return the weights of columns, (n, m) to (m,), of a stack of few. The simplest columns come first.

    It starts with the first column about as good as the best one. Others join while the gain is more than noise.
    """
    losses = [held_out.losses(column) for column in log_ratios.T]
    best = min(losses, key=held_out.mean)
    excess = [held_out.mean(loss - best) for loss in losses]
    noise = [_SLACK * held_out.standard_error(loss - best) for loss in losses]
    limit = max(e for e, n in zip(excess, noise, strict=True) if e <= n)  # columns as close as these are equal too
    members = [next(k for k, e in enumerate(excess) if e <= limit)]
    weights, current = np.ones(1), losses[members[0]]
    max_columns = len(losses) if max_columns is None else max_columns
    while len(members) < max_columns:
        rest = [k for k in range(len(losses)) if k not in members]
        trials = [convex_weights(log_ratios[:, [*members, k]], held_out) for k in rest]
        after = [held_out.losses(log_ratios[:, [*members, k]] @ trial) for k, trial in zip(rest, trials, strict=True)]
        i = int(np.argmin([held_out.mean(loss) for loss in after]))
        gain = current - after[i]
        if held_out.mean(gain) <= _GAIN * held_out.standard_error(gain):
            break
        members, weights, current = [*members, rest[i]], trials[i], after[i]
    out = np.zeros(log_ratios.shape[1])
    out[members] = weights
    return out


def hedge(few: Vector, log_ratios: Matrix, held_out: HeldOut) -> Vector:
    """Return the weights of a stack of few, (m,), mixed with `convex_weights` of all columns if there are few rows.

    Few rows do not show which columns are the best. A stack of r = 1 stays.
    """
    if not (log_ratios @ few).any():
        return few
    share = _HEDGE_ROWS / (len(log_ratios) + _HEDGE_ROWS)
    return _without_small((1 - share) * few + share * convex_weights(log_ratios, held_out), _MIN_HEDGE)


def can_help(stack: Vector, log_r: Vector, held_out: HeldOut, n_candidates: int = 1) -> bool:
    """Return whether a log-ratio (n,) may join a stack (n,): it is not clearly worse, or a mix of both is better.

    A stack that was chosen from m candidates on the same rows looks better than it is by about log(m) / n nats.
    """
    excess = held_out.losses(log_r) - held_out.losses(stack)
    optimism = math.log(n_candidates) / len(stack)
    clearly_worse = held_out.mean(excess) > 2 * held_out.standard_error(excess) + optimism
    mix = np.column_stack([stack, log_r, np.zeros_like(stack)])  # r = 1: shrinking a stack is no merit
    return not clearly_worse or bool(convex_weights(mix, held_out)[1] > 0)
