"""Elliptical copulas have closed forms: their log-ratios, their mutual information, and their conditional widths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import multivariate_normal, multivariate_t, norm, t

from flowratio.applications.copulas import (
    EllipticalRatio,
    copula_degrees,
    fit_gaussian,
    fit_student,
    student_degrees,
    student_scores,
)
from flowratio.applications.margins import normal_scores

SCALE = np.array([[1.0, 0.3, 0.5], [0.3, 2.0, -0.4], [0.5, -0.4, 1.5]])
MEAN = np.array([0.2, -0.1, 0.4])


@pytest.mark.parametrize("degrees", [1.0, 4.0, math.inf])
@pytest.mark.parametrize("d_x", [1, 2])
def test_the_log_ratio_is_that_of_the_densities(degrees: float, d_x: int) -> None:
    Z = np.random.default_rng(0).normal(size=(50, 3)) * 3
    parts = [slice(None), slice(None, d_x), slice(d_x, None)]

    def log_density(part: slice) -> np.ndarray:
        args: Any = Z[:, part], MEAN[part], SCALE[part, part]
        df: Any = degrees
        return multivariate_normal.logpdf(*args) if math.isinf(degrees) else multivariate_t.logpdf(*args, df=df)

    joint, x, y = map(log_density, parts)
    log_r = EllipticalRatio(MEAN, SCALE, degrees, d_x).log_ratio(Z)
    np.testing.assert_allclose(log_r, joint - x - y, atol=1e-6)


def student(df: float, rho: float, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    y = rho * x + math.sqrt(1 - rho**2) * rng.normal(size=(n, 1))
    return np.column_stack([x, y]) * np.sqrt(df / rng.chisquare(df, size=(n, 1)))


def student_information(df: float, rho: float) -> float:
    def f(v: float) -> float:
        return float(gammaln(v / 2) - v / 2 * digamma(v / 2))

    return f(df) + f(df + 2) - 2 * f(df + 1) - 0.5 * math.log(1 - rho**2)


@pytest.mark.parametrize("rho", [0.0, 0.7, 0.9999])
def test_a_fitted_copula_gives_the_information_of_student_pairs(rho: float) -> None:
    X = student(2.0, rho, 4000)
    Z = normal_scores(X) if rho < 0.99 else X
    T = student_scores(Z, 2.0) if rho < 0.99 else X
    Q = np.column_stack([T[:, 0], np.roll(T[:, 1], 1)])
    log_r = fit_student(T, Q, 1, 2.0).log_ratio(T)
    truth = student_information(2.0, rho)
    # four parameters of 4000 rows cost 0.001 nats, and log r has a standard error
    assert abs(log_r.mean() - truth) < 3 * log_r.std() / math.sqrt(4000) + 0.002


def test_very_strong_dependence_is_not_shrunk() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    Z = np.column_stack([x, x + math.exp(-10) * rng.normal(size=2000)])
    log_r = fit_gaussian(Z, np.column_stack([x, rng.permutation(x)]), 1).log_ratio(Z)
    assert log_r.mean() == pytest.approx(10, abs=0.07)  # log r has the standard deviation 1


def test_degrees_of_freedom() -> None:
    assert copula_degrees(normal_scores(np.arcsinh(student(2.0, 0.5, 4000)))) == 2.0
    assert student_degrees(student(2.0, 0.5, 4000)) == 2.0
    assert copula_degrees(normal_scores(np.random.default_rng(0).normal(size=(4000, 2)))) >= 20


def test_scores_of_students_distribution() -> None:
    z = np.array([[-6.0, -2.0, 0.0, 1.0, 5.0]])
    expected = np.where(z <= 0, t.ppf(norm.cdf(-np.abs(z)), 3.0), -t.ppf(norm.cdf(-np.abs(z)), 3.0))
    np.testing.assert_allclose(student_scores(z, 3.0), expected, rtol=1e-5, atol=1e-12)


def test_canonical_residuals_are_standard_and_independent_of_x() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20_000, 3)) @ np.linalg.cholesky(SCALE).T + MEAN
    ratio = EllipticalRatio(MEAN, SCALE, math.inf, 2)
    residuals = np.sinh(ratio.canonical_residuals(Z))
    assert residuals.shape == (20_000, 2)
    np.testing.assert_allclose(residuals.std(axis=0), 1, atol=0.02)  # four standard errors
    assert np.abs(np.corrcoef(residuals[:, 0], Z[:, 0])[0, 1]) < 0.03
    # one column of y: the canonical correlation is the multiple correlation
    weights = np.linalg.solve(SCALE[:2, :2], SCALE[:2, 2])
    assert ratio.largest_correlation() ** 2 == pytest.approx(SCALE[:2, 2] @ weights / SCALE[2, 2], abs=1e-9)


def test_a_column_that_is_constant_in_all_folds_except_one() -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(100, 3))
    Z[:, 1] = 0.0
    ratio = fit_gaussian(Z, np.roll(Z, 1, axis=0), 2)
    Z[0, 1] = 1.0
    assert np.isfinite(ratio.log_ratio(Z)).all()


def test_the_smallest_width_is_that_of_a_column_given_all_others() -> None:
    scale = np.diag([4.0, 1.0, 9.0])
    scale[0, 1] = scale[1, 0] = 2 * 0.99  # correlation 0.99 within x
    assert EllipticalRatio(np.zeros(3), scale, math.inf, 2).smallest_width() == pytest.approx(math.sqrt(1 - 0.99**2))
    assert EllipticalRatio(np.zeros(3), scale, math.inf, 2).largest_correlation() == pytest.approx(0, abs=1e-6)
