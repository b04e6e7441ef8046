r"""A simple ratio b underneath another one, from which only the rest has to be learned.

.. math:: r(x) = e^{b(x)} \cdot \frac{p(x)\, \sigma(-b(x))}{q(x)\, \sigma(b(x))}

because σ(-b) / σ(b) = exp(-b). The rest is the ratio of two weighted samples. The weights σ(-b) of rows of p and σ(b)
of rows of q are bounded, so any estimator that takes weights can learn it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from flowratio._support.types import Matrix, Vector
from flowratio.ratios.auto.combination import HeldOut, choose_stack
from flowratio.ratios.registry import fit_prepared, log_ratio_prepared, new_ratio, silent
from flowratio.samples.folding import random_ranks
from flowratio.samples.two_samples import TwoSamples

_MANY_ROWS, _FOLDS, _FOLDS_OF_MANY = 20_000, 5, 2  # with many rows half of them are enough for a simple ratio
_LEAST_WEIGHT = 1e-9  # a weight must be positive
_JUDGES = 5  # one of so many rows decides between two fits


class BaseFit(NamedTuple):
    """Fitted base ratios, a list for each with one model for each fold, and their shares, of shape (m,)."""

    models: list[list[Any]]
    shares: Vector
    log_r: Vector  # of the rows of the fit, each by models that did not see it, (n,)


def fit_base(ratios: Sequence[Any], samples: TwoSamples, seed: int) -> BaseFit:
    """Cross-fit ratios, the simplest first, and combine them as `AutoRatio` does, with r = 1 as another candidate."""
    n_folds = min(_FOLDS if len(samples.X) <= _MANY_ROWS else _FOLDS_OF_MANY, samples.n_least // 2)
    if n_folds < 2:  # too few rows to leave any out
        return BaseFit([], np.zeros(0), np.zeros(len(samples.X)))
    fold = random_ranks(samples, np.random.default_rng([seed, 0, 7])) % n_folds
    columns, models = np.zeros((len(fold), len(ratios) + 1)), [[] for _ in ratios]
    with silent():
        for k in range(n_folds):
            rest, held_out = samples.part(fold != k), samples.X[fold == k]
            for j, ratio in enumerate(ratios):
                model = fit_prepared(new_ratio(ratio, seed, argument="base"), rest)
                columns[fold == k, j + 1] = log_ratio_prepared(model, held_out)
                models[j].append(model)
    weights = choose_stack(columns, held_out_rows(samples))
    used = [j for j, weight in enumerate(weights[1:]) if weight > 0]
    return BaseFit([models[j] for j in used], weights[1:][used], columns @ weights)


def base_log_ratio(models: list[list[Any]], shares: Vector, X: Matrix) -> Vector:
    """Return log r of the base, (n, d) to (n,): each ratio is the mean over its folds."""
    log_r = np.zeros(len(X))
    for share, folds in zip(shares, models, strict=True):
        for model in folds:
            log_r += share / len(folds) * log_ratio_prepared(model, X)
    return log_r


def held_out_rows(samples: TwoSamples) -> HeldOut:
    """Return all rows as held-out rows, with weights of sum one half in each sample."""
    total = np.where(samples.y == 1, samples.w_p.sum(), samples.w_q.sum())
    return HeldOut(np.where(samples.y == 1, 1.0, -1.0), samples.w / (2 * total))


def over_base(samples: TwoSamples, log_base: Vector) -> tuple[TwoSamples, float]:
    """Return the samples whose ratio is the rest, up to a factor, and the log of this factor. Totals stay."""
    tilt = np.maximum(_tilt(samples, log_base), _LEAST_WEIGHT)
    share_p, share_q = (np.average(tilt[part], weights=samples.w[part]) for part in samples.parts)
    w = samples.w * tilt / np.where(samples.y == 1, share_p, share_q)
    return replace(samples, w=w), math.log(share_p / share_q)


def n_left(samples: TwoSamples, log_base: Vector) -> float:
    """Return the effective number of rows that a base leaves to learn from, in the sample with fewer.

    Rows of the least weight do not count: all rows have it if the base separates the samples.
    """
    tilt = _tilt(samples, log_base)
    w = np.where(tilt > _LEAST_WEIGHT, samples.w * tilt, 0.0)
    return replace(samples, w=w).n_effective if all(w[part].any() for part in samples.parts) else 0.0


def _tilt(samples: TwoSamples, log_base: Vector) -> Vector:
    return expit(np.where(samples.y == 1, -log_base, log_base))


def is_better_over_base(new_estimator: Callable[[], Any], samples: TwoSamples, log_base: Vector, seed: int) -> bool:
    """Return whether an estimator over the base is better on held-out rows than the estimator alone.

    `new_estimator` returns a new one. Both are fitted to four fifths of `samples`, and scored on the rest.
    """
    judge = random_ranks(samples, np.random.default_rng([seed, 0, 8])) % _JUDGES == 0
    rest, rows = samples.part(~judge), samples.X[judge]
    held_out = held_out_rows(samples).rows(np.flatnonzero(judge))
    tilted, constant = over_base(rest, log_base[~judge])
    losses = []
    for part, start in ((tilted, log_base[judge] + constant), (rest, np.zeros(len(rows)))):
        log_r = start + log_ratio_prepared(fit_prepared(new_estimator(), part), rows)
        losses.append(held_out.mean(held_out.losses(log_r)))
    return losses[0] <= losses[1]
