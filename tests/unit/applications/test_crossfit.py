"""Every row is scored by a model that has not seen it, and by all others too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowratio import AutoRatio
from flowratio.applications.crossfit import (
    CrossFitted,
    FoldScores,
    check_folds,
    cross_fit,
    folds_of,
    ratio_to_fit,
)
from flowratio.samples.two_samples import TwoSamples, two_samples


class Memory:
    """log r is 1 on rows that were fitted, whatever they are, and 0 on others."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: Any = None) -> Memory:
        self.seen = {float(x) for x, w in zip(X[:, 0], sample_weight, strict=True) if w > 0}
        return self

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.array([float(x in self.seen) for x in X[:, 0].tolist()])


def samples(n_folds: int = 3) -> tuple[TwoSamples, np.ndarray]:
    both = two_samples(np.arange(12.0)[:, None], 100 + np.arange(20.0)[:, None])
    return both, folds_of(both, n_folds, np.random.default_rng(0))


def test_rows_are_scored_by_a_model_that_was_fitted_without_them() -> None:
    both, fold = samples()
    scores = cross_fit(Memory(), both, fold, 0)
    assert not scores.p.log_r.any()
    assert not scores.q.log_r.any()
    np.testing.assert_array_equal(scores.p.each, fold[:12] != np.arange(3)[:, None])
    np.testing.assert_array_equal(scores.q.each, fold[12:] != np.arange(3)[:, None])
    assert (len(scores.p.w), len(scores.q.w)) == (12, 20)


def test_more_rows_are_scored_only() -> None:
    both, fold = samples()
    X_more, fold_more = 300 + np.arange(5.0)[:, None], np.array([0, 1, 2, 0, 1])
    scores = cross_fit(Memory(), both, fold, 0, more=(X_more, fold_more))
    assert scores.q.log_r.shape == scores.q.w.shape == scores.q.fold.shape == (25,)
    assert not scores.q.each[:, 20:].any()
    assert scores.q.each[:, :20].sum() == 2 * 20
    np.testing.assert_array_equal(scores.q.fold[20:], fold_more)


def test_folds_without_the_one_row_that_differs_see_nothing() -> None:
    _, fold = samples()
    X = np.zeros((12, 1))
    X[0] = 1.0
    scores = cross_fit("logistic", two_samples(X, np.zeros((20, 1))), fold, 0)
    assert not scores.p.each[fold[0]].any()
    assert scores.p.each.any()


def test_means_with_and_without_a_fold() -> None:
    scores = FoldScores.of(np.zeros((2, 3)), np.array([1.0, 1.0, 2.0]), np.array([0, 1, 1]))
    values = np.array([4.0, 1.0, 2.5])
    assert scores.mean(values) == 2.5
    assert scores.mean_without(0, values) == 2.0
    assert scores.mean_without(1, values) == 4.0


def test_swapping_inverts_all_log_ratios() -> None:
    p, q = (FoldScores(log_r, log_r[None], log_r**2, np.zeros(0)) for log_r in (np.array([1.0]), np.array([2.0, 3.0])))
    other = CrossFitted(p, q).swapped()
    assert (other.p.log_r.tolist(), other.q.log_r.tolist()) == ([-2.0, -3.0], [-1.0])
    assert (other.p.each.tolist(), other.q.each.tolist()) == ([[-2.0, -3.0]], [[-1.0]])
    assert other.p.w.tolist() == [4.0, 9.0]


def test_a_choice_is_made_once() -> None:
    rng = np.random.default_rng(0)
    both = two_samples(*(rng.normal(m, 1, (60, 1)) for m in (1.0, 0.0)))
    assert not isinstance(ratio_to_fit(AutoRatio(["logistic", "qda"]), both, 0), AutoRatio)
    assert ratio_to_fit("qda", both, 0).classifier == "qda"


def test_folds_are_filled_alike() -> None:
    both = two_samples(np.arange(23.0)[:, None], np.arange(12.0)[:, None])
    fold = folds_of(both, 5, np.random.default_rng(0))
    assert sorted(np.bincount(fold[:23])) == [4, 4, 5, 5, 5]
    assert sorted(np.bincount(fold[23:])) == [2, 2, 2, 3, 3]
    assert (check_folds(10, 100), check_folds(10, 7)) == (10, 3)
    with pytest.raises(ValueError, match=r"smaller sample has 3 rows\. Give at least 4 rows of each"):
        check_folds(2, 3)
