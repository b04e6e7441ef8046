"""Every row is scored by a model that has not seen it, and by all others too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowratio import AutoRatio
from flowratio.applications.crossfit import CrossFitted, Sample, check_folds, chosen_ratio, cross_fit, folds


class Memory:
    """log r is 1 on rows that were fitted, whatever they are, and 0 on others."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: Any = None) -> Memory:
        self.seen = {float(x) for x, w in zip(X[:, 0], sample_weight, strict=True) if w > 0}
        return self

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        return np.array([float(x in self.seen) for x in X[:, 0].tolist()])


def samples(n_folds: int = 3) -> tuple[Sample, Sample]:
    rng = np.random.default_rng(0)
    X_p, X_q = np.arange(12.0)[:, None], 100 + np.arange(20.0)[:, None]
    return Sample(X_p, np.ones(12), folds(12, n_folds, rng)), Sample(X_q, np.ones(20), folds(20, n_folds, rng))


def test_rows_are_scored_by_a_model_that_has_not_seen_them() -> None:
    p, q = samples()
    found = cross_fit(Memory(), p, q, 0)
    assert not found.log_p.any()
    assert not found.log_q.any()
    np.testing.assert_array_equal(found.each_p, p.fold != np.arange(3)[:, None])
    np.testing.assert_array_equal(found.each_q, q.fold != np.arange(3)[:, None])


def test_rows_of_weight_zero_are_scored_only() -> None:
    p, q = samples()
    w = np.repeat([1.0, 0.0], [15, 5])
    found = cross_fit(Memory(), p, Sample(q.X, w, q.fold), 0)
    assert not found.each_q[:, 15:].any()
    assert found.each_q[:, :15].sum() == 2 * 15


def test_folds_without_the_one_row_that_differs_tell_nothing() -> None:
    p, q = samples()
    X = np.zeros((12, 1))
    X[0] = 1.0
    found = cross_fit("logistic", Sample(X, p.w, p.fold), Sample(np.zeros((20, 1)), q.w, q.fold), 0)
    assert not found.each_p[p.fold[0]].any()
    assert found.each_p.any()


def test_swapping_turns_all_over() -> None:
    one = CrossFitted(np.array([1.0]), np.array([2.0, 3.0]), np.array([[1.0]]), np.array([[2.0, 3.0]]))
    other = one.swapped()
    assert (other.log_p.tolist(), other.log_q.tolist()) == ([-2.0, -3.0], [-1.0])
    assert (other.each_p.tolist(), other.each_q.tolist()) == ([[-2.0, -3.0]], [[-1.0]])


def test_a_choice_is_made_once() -> None:
    rng = np.random.default_rng(0)
    fold = np.arange(60) % 2
    p, q = (Sample(rng.normal(m, 1, (60, 1)), np.ones(60), fold) for m in (1.0, 0.0))
    chosen = chosen_ratio(AutoRatio(["logistic", "qda"]), p, q, 0)
    assert not isinstance(chosen, AutoRatio)
    assert chosen_ratio("qda", p, q, 0).classifier == "qda"


def test_folds_are_filled_alike() -> None:
    fold = folds(23, 5, np.random.default_rng(0))
    assert sorted(np.bincount(fold)) == [4, 4, 5, 5, 5]
    assert (check_folds(10, 100), check_folds(10, 7)) == (10, 3)
    with pytest.raises(ValueError, match="smaller sample has 3 rows: give at least 4 of each"):
        check_folds(2, 3)
