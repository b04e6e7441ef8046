"""Treated rows and controls: checks of the input, folds, and held-out log-ratios."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from flowratio._support.errors import ArgumentError
from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio._support.wording import quoted
from flowratio.applications.copied_columns import refuse_copies
from flowratio.applications.crossfit import FEWEST_ROWS, check_folds, cross_fit
from flowratio.samples.containers import to_table
from flowratio.samples.folding import folds
from flowratio.samples.pairing import check_pairs
from flowratio.samples.two_samples import TwoSamples, two_samples
from flowratio.samples.weighting import checked_weights


class Groups(NamedTuple):
    """Treated rows (p), then controls (q), without rows of weight 0."""

    samples: TwoSamples
    order: np.ndarray  # position of each of the m rows in the input, (m,)
    w: Vector  # their weights in the input, (m,)
    n: int  # number of rows of the input

    @property
    def is_treated(self) -> np.ndarray:
        return self.samples.y == 1

    def in_input_order(self, values: Vector, otherwise: float) -> Vector:
        """Return values, (m,) to (n,), and another value for rows of weight 0."""
        result = np.full(self.n, otherwise)
        result[self.order] = values
        return result


def treatment_groups(X: TableLike, treatment: VectorLike, sample_weight: VectorLike | None) -> Groups:
    """Check the rows and their treatment, and return the two groups."""
    check_pairs({"X": X, "treatment": treatment, "sample_weight": sample_weight})
    X = to_table(X)
    n = _num_samples(X)
    is_treated = _checked_treatment(treatment, n)
    w = checked_weights(sample_weight, n, "sample_weight")
    parts = [np.flatnonzero(of & (w > 0)) for of in (is_treated, ~is_treated)]
    for name, rows in zip(("1", "0"), parts, strict=True):
        if len(rows) < FEWEST_ROWS:
            problem = f"`treatment` is {name} on {len(rows)} row{'s' * (len(rows) != 1)} of positive weight"
            raise ArgumentError("treatment", f"{problem}. Give at least {FEWEST_ROWS} rows of each group.")
    refuse_copies(is_treated, X, "treatment", "No weights make such groups comparable. Drop the column.")
    tables: list[Any] = [_safe_indexing(X, rows) for rows in parts]
    names = "X[treatment == 1]", "X[treatment == 0]"
    samples = two_samples(tables[0], tables[1], *(w[rows] for rows in parts), arguments=names)
    order = np.concatenate(parts)
    return Groups(samples, order, w[order], n)


def _checked_treatment(treatment: VectorLike, n: int) -> np.ndarray:
    rule = "Use 1 or True for treated rows, and 0 or False for controls."
    values = np.asarray(treatment)
    if values.shape != (n,):
        problem = f"`treatment` has shape {values.shape} but `X` has {n} rows"
        raise ArgumentError("treatment", f"{problem}. Give one value for each row.")
    try:
        numbers = values.astype(np.float64) if values.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or (values.dtype.kind == "O" and any(isinstance(value, str) for value in values)):
        raise ArgumentError("treatment", f"`treatment` has values such as {quoted(values[:1].tolist()[0])}. {rule}")
    is_bad = ~np.isin(numbers, (0.0, 1.0))
    if is_bad.any():
        first = f"the first is {numbers[is_bad][0]:g}"
        raise ArgumentError("treatment", f"`treatment` is neither 0 nor 1 on {is_bad.sum()} rows, {first}. {rule}")
    return numbers == 1


def content_folds(samples: TwoSamples, values: Vector | None, n_folds: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a fold for each row, (n,), that depends on what the row holds, and not on the order of the input."""
    k = check_folds(n_folds, min(samples.n_p, samples.n_q))
    mean, scale = samples.X.mean(axis=0), samples.X.std(axis=0)
    key = np.tanh((samples.X - mean) / np.where(scale > 0, scale, 1.0)) @ np.random.default_rng(0).normal(
        size=len(mean)
    )
    second = np.zeros(len(key)) if values is None else values
    fold = np.empty(len(key), np.int64)
    for part in samples.parts:
        fold[part][np.lexsort((second[part], key[part]))] = folds(len(key[part]), k, rng)
    return fold


class HeldOutRatios(NamedTuple):
    """Log-ratios of all rows of two samples, those of p first."""

    log_r: Vector  # (n,): of each row by the model that was not fitted to it
    each: Matrix  # (n_folds, n): of each row by every model
    fold: np.ndarray  # (n,)


def cross_fitted(ratio: Any, samples: TwoSamples, fold: np.ndarray, seed: int, verbose: bool) -> HeldOutRatios:
    """Fit a ratio to all folds (n,) except one, in turn, and score all rows."""
    scores = cross_fit(ratio, samples, fold, seed, verbose)
    log_r = np.concatenate([scores.p.log_r, scores.q.log_r])
    return HeldOutRatios(log_r, np.hstack([scores.p.each, scores.q.each]), fold)
