"""Learners are stacked by held-out scores: noise gets no weight, and what is right gets its weight."""

from __future__ import annotations

import numpy as np
import pytest

from flowratio.applications.corrections import Corrections, fit_learner


def corrections(*log_ratios: np.ndarray, n: int, n_folds: int = 4) -> Corrections:
    fold = np.arange(len(log_ratios[0])) % n_folds
    each = np.array([np.tile(log_r, (n_folds, 1)) for log_r in log_ratios])
    names = tuple(f"learner {k}" for k in range(len(each)))
    return Corrections(names, each, fold, n, np.arange(len(fold)) % n)


def gaussian_rows(n: int, shift: float) -> np.ndarray:
    """Return n rows of N(shift, 1), then n rows of N(0, 1)."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(shift, 1, n), rng.normal(size=n)])


def test_noise_gets_no_weight() -> None:
    noise = np.random.default_rng(1).normal(size=4000)
    of = corrections(noise, n=2000)
    assert not of.weights.any()
    assert not of.stacked_held_out().any()
    assert of.disagreement() == 0


def test_an_exaggerated_ratio_is_scaled_back() -> None:
    log_r = gaussian_rows(3000, 1.0) - 0.5
    of = corrections(2 * log_r, np.random.default_rng(1).normal(size=6000), n=3000)
    assert of.weights[:, 0] == pytest.approx(0.5, abs=0.06)  # a slope of 6000 rows has a standard error of 0.03 · 0.5
    assert (of.weights[:, 1] < 0.1).all()
    of_p, of_t = of.terms(of.stacked_held_out())
    assert of_p.mean() + of_t.mean() == pytest.approx(0.5, abs=0.08)  # KL of the Gaussians, 3 standard errors
    assert of.disagreement() == pytest.approx(0.5, abs=0.08)  # the second learner sees nothing


def test_copies_of_a_row_are_one_observation() -> None:
    # gains of rows of t are 0.38 in one half of the rows, and -0.32 in the other: the mean is 0.03, the spread 0.35
    log_r = np.concatenate([np.zeros(1000), np.tile([-1.0, 0.55], 500)])
    of = corrections(log_r, n=1000, n_folds=5)
    assert of.weights.any()  # 1000 values: the standard error of the mean is 1/32 of the spread
    source = np.concatenate([np.arange(1000), np.arange(1000) % 2])
    copies = Corrections(of.names, of.each, of.fold, 1000, source)
    assert not copies.weights.any()  # 2 values: half of a standard error is more than the mean


def test_a_learner_is_fitted_to_some_rows() -> None:
    F = gaussian_rows(500, 1.0)[:, None]
    log_r = fit_learner("logistic", F, 500, np.arange(1000) % 2 == 0, 0)
    assert np.abs(log_r - (F[:, 0] - 0.5)).max() < 1  # 500 rows: the slope has a standard error of 0.1
