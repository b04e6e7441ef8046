"""Covariate shift with a closed form: what weights recover of the target, and what is wrong without them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.linear_model import LinearRegression

from flowratio.applications.adaptation import ImportanceWeighted
from flowratio.applications.conformal import conformal_quantile
from flowratio.applications.target_scorer import TargetScorer
from flowratio.ratios.classifier.classifier import ClassifierRatio

SHIFT, N = 0.8, 10_000  # q = N(0, I), p = N(0.8 · 1, I): log r is linear


def draw(seed: int, n: int = N, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), SHIFT + rng.normal(size=(n, d))


def test_weighted_means_of_the_source_are_means_of_the_target() -> None:
    X, X_target = draw(0)
    model = ImportanceWeighted(LinearRegression(), "logistic").fit(X, X[:, 0] ** 2, X_target=X_target)
    w = model.sample_weight_
    assert w.mean() == pytest.approx(1)
    # r² has mean exp(2 · 0.64) = 3.6 under q: an effective sample of 2800, 3 standard errors of a mean are 0.06
    np.testing.assert_allclose(np.average(X, axis=0, weights=w), SHIFT, rtol=0, atol=0.06)
    np.testing.assert_allclose(np.average(X, axis=0), 0, rtol=0, atol=0.06)
    assert model.effective_sample_size_ == pytest.approx(N * math.exp(-2 * SHIFT**2), rel=0.2)


def test_a_line_through_a_parabola_is_the_best_one_on_the_target() -> None:
    X, X_target = draw(1, d=1)
    y = X[:, 0] ** 2
    model = ImportanceWeighted(LinearRegression(), "logistic").fit(X, y, X_target=X_target)
    # E (x² - a - b x)² under N(m, 1) is least at b = 2 m, a = 1 - m²; errors of the two are about 0.07
    result = np.array([model.estimator_.coef_[0], model.estimator_.intercept_])
    np.testing.assert_allclose(result, [2 * SHIFT, 1 - SHIFT**2], rtol=0, atol=0.25)
    plain = LinearRegression().fit(X, y)
    np.testing.assert_allclose([plain.coef_[0], plain.intercept_], [0, 1], rtol=0, atol=0.1)
    # the risk of the best line is E (x² - a - b x)² = 2, of that of the source 2 + 4 m² + m⁴
    risks = [np.mean((one.predict(X_target) - X_target[:, 0] ** 2) ** 2) for one in (model, plain)]
    np.testing.assert_allclose(risks, [2, 2 + 4 * SHIFT**2 + SHIFT**4], rtol=0.15)


def test_the_weighted_score_is_that_of_the_target() -> None:
    X, X_target = draw(2, d=1)
    plain = LinearRegression().fit(X, X[:, 0] ** 2)
    ratio = ClassifierRatio("logistic").fit_samples(X_target, X)
    result = -TargetScorer("neg_mean_squared_error", ratio)(plain, X, X[:, 0] ** 2)
    truth = 2 + 4 * SHIFT**2 + SHIFT**4
    assert result == pytest.approx(truth, rel=0.2)
    assert np.mean((plain.predict(X) - X[:, 0] ** 2) ** 2) < 0.6 * truth  # the source says 2


def test_conformal_intervals_cover_the_target() -> None:
    rng = np.random.default_rng(3)
    n_calibration, n_repeats, coverage = 300, 2_000, 0.9
    hits = {"weighted": 0, "plain": 0}
    for _ in range(n_repeats):  # one test row each: hits are independent
        x, t = rng.normal(size=n_calibration), rng.normal(SHIFT, 1, size=1)
        scores, score = (np.abs(np.exp(z / 2) * rng.normal(size=z.shape)) for z in (x, t))  # the spread grows with x
        log_r, log_t = SHIFT * x, SHIFT * t  # the true ratio, but for a constant
        hits["weighted"] += int(score[0] <= conformal_quantile(scores, log_r, log_t, coverage)[0])
        hits["plain"] += int(score[0] <= conformal_quantile(scores, 0 * log_r, 0 * log_t, coverage)[0])
    # at least 90 % by theory, and at most the mean weight of the test row more, here about 1 %
    assert hits["weighted"] >= binom.ppf(0.001, n_repeats, coverage)
    assert hits["weighted"] <= binom.ppf(0.999, n_repeats, coverage + 0.015)
    assert hits["plain"] < binom.ppf(1e-6, n_repeats, coverage)


def test_estimated_weights_cover_the_target_too() -> None:
    rng = np.random.default_rng(4)
    X, X_target = draw(5, n=4_000, d=1)
    y, y_target = (np.exp(rows[:, 0] / 2) * rng.normal(size=len(rows)) for rows in (X, X_target))
    ratio = ClassifierRatio("logistic").fit_samples(X_target, X)
    bound = conformal_quantile(np.abs(y), ratio.log_ratio(X), ratio.log_ratio(X_target))
    # 4000 calibration rows are worth 1100: the quantile's coverage has a standard error of 0.01
    assert np.mean(np.abs(y_target) <= bound) == pytest.approx(0.9, abs=0.03)
    spread = norm.ppf(0.95) * np.exp(SHIFT / 2)
    assert np.median(bound) > spread  # wider than at the middle of the target: one bound for all its rows
