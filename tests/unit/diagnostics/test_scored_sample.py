"""Means with errors, and the AUC with its error, against brute force and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from flowratio.diagnostics.scored_sample import ScoredSample, errors_off, separation
from flowratio.samples.weighting import log_mean_exp


def test_log_mean_is_that_of_logsumexp() -> None:
    rng = np.random.default_rng(0)
    log_values, share = rng.normal(0, 300, 50), rng.dirichlet(np.ones(50))
    assert log_mean_exp(log_values, share) == pytest.approx(logsumexp(log_values, b=share), rel=1e-12)


@pytest.mark.parametrize(("difference", "error", "expected"), [(1.0, 0.5, 2.0), (-1.0, 0.0, -1e6), (1e-15, 0.0, 0.0)])
def test_errors_off_are_finite(difference: float, error: float, expected: float) -> None:
    assert errors_off(difference, error) == expected


def test_auc_is_that_of_scikit_learn_ties_and_weights_included() -> None:
    rng = np.random.default_rng(0)
    f_p, f_q = rng.integers(0, 9, 60) + 1.0, rng.integers(0, 9, 80) + 0.0
    w_p, w_q = rng.dirichlet(np.ones(60)), rng.dirichlet(np.ones(80))
    expected = roc_auc_score(
        np.repeat([1, 0], [60, 80]), np.concatenate([f_p, f_q]), sample_weight=np.concatenate([w_p, w_q])
    )
    assert separation(f_p, w_p, f_q, w_q).auc == pytest.approx(expected, abs=1e-12)


def test_error_of_the_auc_is_its_spread_over_samples() -> None:
    rng = np.random.default_rng(0)
    share_p, share_q = np.full(60, 1 / 60), np.full(90, 1 / 90)
    results = [separation(rng.normal(0.5, 1, 60), share_p, rng.normal(size=90), share_q) for _ in range(2000)]
    spread = np.std([one.auc for one in results])
    assert np.mean([one.standard_error for one in results]) == pytest.approx(spread, rel=0.05)  # 1.6 % is its own error


def test_tilted_rows_of_q_are_a_sample_of_p() -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 1))
    q = ScoredSample(x, x[:, 0] - 0.5, np.full(20_000, 1 / 20_000))  # p = N(1, 1)
    # the variance of r x under q is E_p[r x^2] - 1 = 5 e - 1
    assert q.tilted().share @ x[:, 0] == pytest.approx(1.0, abs=4 * np.sqrt((5 * np.e - 1) / 20_000))
    assert q.tilted(-1).share @ x[:, 0] == pytest.approx(-1.0, abs=4 * np.sqrt((5 * np.e - 1) / 20_000))
    assert q.n == pytest.approx(20_000)
