"""The reliability curve: bins, intervals, and a statistic that is χ² for the true ratio."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from flowratio.diagnostics.reliability import Reliability, reliability
from flowratio.diagnostics.scored_sample import ScoredSample


def sample(log_r: np.ndarray) -> ScoredSample:
    return ScoredSample(np.zeros((len(log_r), 1)), log_r, np.full(len(log_r), 1 / len(log_r)))


def of_normal(rng: np.random.Generator, n_p: int, n_q: int, slope: float = 1.0, offset: float = 0.0) -> Reliability:
    """Return the curve of slope · log r + offset, for N(1, 1) and N(0, 1)."""
    return reliability(
        sample(slope * (rng.normal(1, 1, n_p) - 0.5) + offset), sample(slope * (rng.normal(0, 1, n_q) - 0.5) + offset)
    )


def test_bins_have_equal_mass_and_shares_are_counts() -> None:
    rng = np.random.default_rng(0)
    log_p, log_q = rng.normal(1, 1, 400), rng.normal(0, 1, 100)
    curve = reliability(sample(log_p), sample(log_q))
    assert curve.n_bins == 10
    np.testing.assert_allclose(curve.mass, 0.1, atol=1 / 200)  # one row of q is 1/200
    assert (np.diff(curve.predicted) > 0).all()
    # brute force: the rows of the first bin are those below the largest value that keeps its mass
    both, half = expit(np.concatenate([log_p, log_q])), np.repeat([1 / 800, 1 / 200], [400, 100])
    order = np.argsort(both)
    inside = order[np.cumsum(half[order]) - half[order] / 2 < 0.1]
    assert curve.observed[0] == pytest.approx(half[inside][inside < 400].sum() / half[inside].sum())
    assert curve.predicted[0] == pytest.approx(half[inside] @ both[inside] / half[inside].sum())


@pytest.mark.parametrize(("n_p", "n_q"), [(500, 500), (300, 1500)])
def test_statistic_is_chi_squared_for_the_true_ratio(n_p: int, n_q: int) -> None:
    rng = np.random.default_rng(0)
    curve = [of_normal(rng, n_p, n_q) for _ in range(300)]
    p_values = np.array([one.p_value for one in curve])
    # a mean of 300 uniform values is known to 0.017; bins are chosen by the rows, which adds to that
    assert p_values.mean() == pytest.approx(0.5, abs=0.05)
    assert np.mean(p_values < 0.05) < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)
    assert np.mean([one.error for one in curve]) == pytest.approx(np.mean([one.noise for one in curve]), rel=0.08)


def test_intervals_cover_what_they_should() -> None:
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(200):
        curve = of_normal(rng, 300, 900)
        # for the true ratio the share of p in a bin is the mean probability there
        covered.append((curve.low <= curve.predicted) & (curve.predicted <= curve.high))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.03)


def test_wilson_interval_of_equal_samples_is_that_of_scipy() -> None:
    log_p, log_q = np.zeros(30), np.zeros(30)
    curve = reliability(sample(log_p), sample(log_q))  # one value: one bin
    expected = stats.binomtest(30, 60).proportion_ci(method="wilson")
    assert curve.n_bins == 1
    assert (curve.low[0], curve.high[0]) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(("slope", "offset", "sure"), [(3.0, 0.0, True), (0.2, 0.0, False), (1.0, 1.1, None)])
def test_wrong_ratios_are_told(slope: float, offset: float, sure: bool | None) -> None:
    curve = of_normal(np.random.default_rng(0), 800, 800, slope, offset)
    assert curve.p_value < 1e-6
    assert curve.error > 2 * curve.noise
    if sure is not None:
        assert (curve.slope < 1) == sure
    assert curve.slope * slope == pytest.approx(1, abs=4 * slope * curve.slope_error)


def test_slope_is_that_of_a_logistic_regression_and_its_error_is_right() -> None:
    slopes, errors = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X_p, X_q = rng.normal(1, 1, (300, 1)), rng.normal(0, 1, (200, 1))
        curve = reliability(*(sample(2 * X[:, 0] - 1) for X in (X_p, X_q)))
        slopes.append(curve.slope)
        errors.append(curve.slope_error)
        if seed < 5:
            X, y = np.concatenate([2 * X_p - 1, 2 * X_q - 1]), np.repeat([1, 0], [300, 200])
            fit = LogisticRegression(C=np.inf, tol=1e-8).fit(X, y, np.where(y, 1 / 300, 1 / 200))
            assert curve.slope == pytest.approx(fit.coef_[0, 0], rel=1e-3)
    assert np.mean(slopes) == pytest.approx(0.5, abs=0.03)
    assert np.mean(errors) == pytest.approx(np.std(slopes), rel=0.25)  # 100 replications tell it to 7 %


def test_log_ratios_of_hundreds_give_finite_numbers() -> None:
    right = reliability(sample(np.full(40, 800.0)), sample(np.full(50, -800.0)))
    wrong = reliability(sample(np.full(40, -800.0)), sample(np.full(50, 800.0)))
    assert (right.error, right.chi2, right.p_value) == (0.0, 0.0, 1.0)
    assert np.isfinite([right.slope, right.slope_error, wrong.slope, wrong.slope_error]).all()
    assert wrong.slope < 0
    assert wrong.error == pytest.approx(1.0)
    assert wrong.p_value < 1e-9
    assert np.isfinite([wrong.chi2, wrong.noise, *wrong.low, *wrong.high]).all()
