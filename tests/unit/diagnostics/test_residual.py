"""A classifier after the ratio: nothing is left after the true ratio, and all of the score after r = 1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_expit
from scipy.stats import norm

from flowratio.diagnostics.residual import Residual, residual


def shifted(n: int, d: int, seed: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Draw n rows of N(e_1, scale² I) and of N(0, I), and return them with the mask of the first sample."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, d))
    X[:n] *= scale
    X[:n, 0] += 1.0
    return X, np.repeat([True, False], n)


def of(X: np.ndarray, is_p: np.ndarray, log_r: np.ndarray, seed: int = 0) -> Residual:
    return residual(X, log_r, is_p, np.ones(len(X)), seed)


def test_true_ratio_leaves_nothing() -> None:
    results = []
    for seed in range(8):
        X, is_p = shifted(400, 2, seed)
        results.append(of(X, is_p, X[:, 0] - 0.5, seed))
    assert max(one.z for one in results) < 2.5  # the best of 8: 1 in 20 beyond it if all were Gaussian
    assert np.mean([one.gain for one in results]) < 0.001  # 3 standard errors of 8 gains are 0.001
    # about ten coefficients of 640 rows, shrunk: their variance adds up to less than 10 / 640
    assert np.mean([np.mean(one.log_correction**2) for one in results]) < 0.03


def test_no_ratio_leaves_the_score_of_the_truth() -> None:
    X, is_p = shifted(2000, 3, 0)
    rest = of(X, is_p, np.zeros(len(X)))

    def integrand(x: float) -> float:
        log_r = x - 0.5
        return 0.5 * (norm.pdf(x, 1) * log_expit(log_r) + norm.pdf(x) * log_expit(-log_r))

    truth = np.log(2) + quad(integrand, -9, 10)[0]  # Jensen-Shannon divergence
    assert rest.gain == pytest.approx(truth, abs=4 * rest.standard_error)
    log_r = X[:, 0] - 0.5
    on_rows = np.log(2) + 0.5 * (log_expit(log_r[is_p]).mean() + log_expit(-log_r[~is_p]).mean())
    assert on_rows - 0.01 < rest.gain < on_rows + 0.002  # on the same rows: about 20 coefficients of 4000 rows
    assert np.mean((rest.log_correction - (X[:, 0] - 0.5)) ** 2) < 0.04  # 9 coefficients: 9 / (0.2 · 4000), and trees


def test_wrong_form_is_found() -> None:
    X, is_p = shifted(500, 2, 0, scale=1.5)
    true = -0.5 * (((X - [1.0, 0.0]) / 1.5) ** 2).sum(axis=1) - 2 * np.log(1.5) + 0.5 * (X**2).sum(axis=1)
    linear = 0.6 * X[:, 0] - 0.3
    rest = of(X, is_p, linear)
    assert rest.z > 4
    after = np.mean((linear + rest.log_correction - true) ** 2)
    assert after < 0.25 * np.mean((linear - true) ** 2)


def test_interaction_that_no_single_column_shows_is_found() -> None:
    rng = np.random.default_rng(0)
    X, n = rng.normal(size=(2000, 3)), 1000
    X[:n, 1] = 0.6 * X[:n, 0] + 0.8 * X[:n, 1]
    rest = of(X, np.repeat([True, False], n), np.zeros(2 * n))
    assert rest.z > 5


def test_constant_factor_is_a_correction() -> None:
    X, is_p = shifted(1000, 2, 0)
    rest = of(X, is_p, X[:, 0] - 0.5 + 1.0)
    assert np.mean(rest.log_correction) == pytest.approx(-1.0, abs=0.2)


def test_order_weights_missing_values_and_thinning() -> None:
    X, is_p = shifted(300, 2, 0)
    X[::7, 1] = np.nan
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = residual(X[order], np.zeros(len(X)), is_p[order], np.ones(len(X)), 0)
    plain = residual(X, np.zeros(len(X)), is_p, np.full(len(X), 2.0), 0, max_rows=150)
    assert shuffled.gain == pytest.approx(0.107, abs=5 * shuffled.standard_error)
    assert plain.gain == pytest.approx(0.107, abs=5 * plain.standard_error)
    assert plain.n_overlap == pytest.approx(300)


@pytest.mark.parametrize("size", [0.0, 5.0, 800.0, -800.0])
def test_extreme_ratios_and_few_rows_give_finite_numbers(size: float) -> None:
    X, is_p = shifted(6, 2, 0)
    rest = of(X, is_p, np.where(is_p, size, -size))
    assert np.isfinite([rest.gain, rest.standard_error, rest.z, rest.n_p, rest.n_q]).all()
    assert np.isfinite(rest.log_correction).all()


def test_fewer_rows_of_one_sample_keep_the_odds() -> None:
    """A classifier that sees one row of q in 8 must not take rows of p for more frequent."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0.4, 1, (1000, 1)), rng.normal(0, 1, (8000, 1))])
    is_p, ones, zeros = np.arange(9000) < 1000, np.ones(9000), np.zeros(9000)
    all_rows, some = (residual(X, zeros, is_p, ones, 0, max_rows=m) for m in (20_000, 1000))
    assert some.gain > 0.8 * all_rows.gain > 0
    assert np.abs(some.log_correction - (0.4 * X[:, 0] - 0.08)).mean() < 0.2  # the true log r
