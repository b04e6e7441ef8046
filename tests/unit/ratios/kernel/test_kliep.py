"""KLIEP: its optimum by hand and by another solver, its search by literal refits, its answers by closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from flowratio.ratios.kernel import kliep
from flowratio.ratios.kernel.kernels import squared_distances
from flowratio.ratios.kernel.kliep import KLIEP
from flowratio.samples.weighting import distinct_rows

# few rows and narrow kernels leave few draws, and are told so
pytestmark = pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")


def shifted(n_p: int, n_q: int, d: int, shift: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw p = N(shift, I) and q = N(0, I), for which log r = shift · sum(x) - d · shift² / 2."""
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, (n_p, d)), rng.normal(0, 1, (n_q, d))


def by_hand(theta: np.ndarray, reach: float, centres: np.ndarray, sigma: float, Z: np.ndarray) -> np.ndarray:
    """Evaluate all functions of the docstring at standardized rows, (n, 2 + m)."""
    start = Z @ theta
    kernels = np.exp(-((Z[:, None] - centres) ** 2).sum(axis=2) / (2 * sigma**2))
    return np.exp(start)[:, None] * np.column_stack([np.ones(len(Z)), expit(2 * (start - reach)), kernels])


def functions(ratio: KLIEP, X: np.ndarray) -> np.ndarray:
    Z = (X - ratio.mean_) / ratio.scale_
    return by_hand(ratio.start_, ratio.reach_, ratio.centres_, ratio.bandwidth_, Z)


def brute_force(F_p: np.ndarray, F_q: np.ndarray) -> np.ndarray:
    """Maximize mean_p log(F a) subject to mean_q(F a) = 1 and a >= 0 by a general solver."""
    b = F_q.mean(axis=0)
    F = F_p / b
    found = minimize(
        lambda a: -np.mean(np.log(F @ a)),
        np.full(F.shape[1], 1 / F.shape[1]),
        jac=lambda a: -np.mean(F / (F @ a)[:, None], axis=0),
        bounds=[(0, 1)] * F.shape[1],
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.x / found.x.sum() / b


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("bandwidth", [0.2, 0.7, 3.0, math.inf])
def test_the_optimality_conditions_hold_and_the_mean_on_q_is_one(d: int, bandwidth: float) -> None:
    X_p, X_q = shifted(300, 200, d, 0.7)
    ratio = KLIEP(bandwidth, n_centres=50, random_state=0).fit_samples(X_p, X_q)
    F_p, F_q, coef = functions(ratio, X_p), functions(ratio, X_q), np.exp(ratio.log_coef_)
    np.testing.assert_allclose(np.log(F_p @ coef), ratio.log_ratio(X_p), atol=1e-9)
    assert np.mean(F_q @ coef) == pytest.approx(1, abs=1e-8)
    assert np.mean(ratio.ratio(X_q)) == pytest.approx(1, abs=1e-8)
    gain = np.mean(F_p / (F_p @ coef)[:, None], axis=0) / F_q.mean(axis=0)
    assert gain.max() <= 1 + 1e-6
    np.testing.assert_allclose(gain[coef > 0], 1, atol=1e-6)
    assert ratio.kkt_residual_ <= 1e-6
    assert len(ratio.centres_) == (50 if bandwidth < math.inf else 0)


@pytest.mark.parametrize("bandwidth", [0.3, 1.0])
def test_no_general_solver_finds_a_greater_likelihood(bandwidth: float) -> None:
    X_p, X_q = shifted(40, 60, 2, 0.8, seed=1)
    ratio = KLIEP(bandwidth, n_centres=10, random_state=0).fit_samples(X_p, X_q)
    F_p, F_q = functions(ratio, X_p), functions(ratio, X_q)
    best = np.mean(np.log(F_p @ brute_force(F_p, F_q)))
    # the optimum of a concave problem is one number: both solvers stop within 1e-9 of it
    assert np.mean(ratio.log_ratio(X_p)) == pytest.approx(best, abs=1e-8)


def test_scores_of_the_search_are_those_of_fits_to_the_other_folds() -> None:
    X_p, X_q = shifted(40, 50, 2, 1.0, seed=2)
    ratio = KLIEP(n_folds=4, random_state=5).fit_samples(X_p, X_q)
    Z_p, Z_q = (distinct_rows((X - ratio.mean_) / ratio.scale_, np.ones(len(X)))[0] for X in (X_p, X_q))
    rng = np.random.default_rng(5)  # every row of p is a centre, which takes no draw
    fold_p, fold_q = rng.permutation(40) % 4, rng.permutation(50) % 4
    for sigma, score, _ in ratio.scores_[[0, 2, 4, 6]]:
        loss_p, loss_q = np.empty(40), np.empty(50)
        for k in range(4):
            train_p, train_q = Z_p[fold_p != k], Z_q[fold_q != k]
            X, y = np.concatenate([train_p, train_q]), np.repeat([1, 0], [len(train_p), len(train_q)])
            w = np.where(y == 1, len(train_q), len(train_p)) * 2 / len(y)
            theta = LogisticRegression(tol=1e-10, max_iter=1000).fit(X, y, w).coef_[0]
            centres = train_p if sigma < math.inf else train_p[:0]
            F = [
                by_hand(theta, (train_q @ theta).max(), centres, sigma, Z)
                for Z in (train_p, train_q, Z_p[fold_p == k], Z_q[fold_q == k])
            ]
            coef = brute_force(F[0], F[1])
            loss_p[fold_p == k] = np.log1p(1 / (F[2] @ coef))
            loss_q[fold_q == k] = np.log1p(F[3] @ coef)
        # the search stops 1e-5 nats from the optimum of a fold at most
        assert score == pytest.approx(math.log(2) - loss_p.mean() / 2 - loss_q.mean() / 2, abs=1e-4)


def test_the_widest_bandwidth_within_a_standard_error_is_taken() -> None:
    rng = np.random.default_rng(0)
    X_p = rng.normal(0, 0.5, (400, 2)) + rng.choice([-1.5, 1.5], (400, 1))
    ratio = KLIEP(random_state=0).fit_samples(X_p, rng.normal(0, 1.5, (400, 2)))
    bandwidth, score, error = ratio.scores_.T
    assert ratio.scores_.shape == (10, 3)
    assert error[np.argmax(score)] == 0
    assert ratio.bandwidth_ == bandwidth[score >= score.max() - error].max()
    assert ratio.bandwidth_ < 1  # two clusters are no log-linear ratio


def test_a_log_linear_truth_needs_no_kernels_even_in_one_dimension() -> None:
    # where rows are sorted, folds of every k-th row would make the narrowest kernels look best
    rng = np.random.default_rng(0)
    X_p, X_q = rng.exponential(0.5, (1000, 1)), rng.exponential(1, (1000, 1))
    ratio = KLIEP(random_state=0).fit_samples(X_p, X_q)
    assert ratio.bandwidth_ == math.inf
    # log r = log 2 - x; the slope has a standard error of about 2 / sqrt(1000)
    np.testing.assert_allclose(ratio.log_ratio([[0.0], [1.0]]), [math.log(2), math.log(2) - 1], atol=0.2)


def test_rows_of_q_are_right_where_p_is_out_of_their_reach() -> None:
    # log r = 9 - 3 sum(x) has variance 18 on q, and KL(p, q) = 9: hardly a row of q lies where p does
    X_p, X_q = shifted(2000, 2000, 2, -3.0)
    X = np.random.default_rng(1).normal(0, 1, (2000, 2))
    log_r = KLIEP(random_state=0).fit_samples(X_p, X_q).log_ratio(X)
    assert np.mean((log_r + 3 * X.sum(axis=1) + 9) ** 2) < 3


def test_without_a_start_it_is_the_ratio_of_kernels_and_a_constant() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0.5, 1.0, (60, 2)), rng.normal(0.0, 1.0, (80, 2))
    ratio = KLIEP(0.8, start=None, n_centres=10, random_state=0).fit_samples(X_p, X_q)
    assert not ratio.start_.any()
    assert ratio.log_coef_[1] == -np.inf
    Z_p, Z_q = ((X - ratio.mean_) / ratio.scale_ for X in (X_p, X_q))
    kernels = [
        np.exp(-((Z[:, None] - ratio.centres_) ** 2).sum(axis=2) / (2 * 0.8**2)) for Z in (Z_p, Z_q)
    ]  # by their definition
    A_p, A_q = (np.column_stack([np.ones(len(K)), K]) for K in kernels)
    coef = np.exp(np.delete(ratio.log_coef_, 1))
    np.testing.assert_allclose(ratio.ratio(X_p), A_p @ coef, rtol=1e-10)
    assert np.mean(A_q @ coef) == pytest.approx(1, abs=1e-10)
    found = minimize(
        lambda a: -np.mean(np.log(A_p @ a)),
        np.full(11, 1 / A_q.mean(axis=0).sum()),
        jac=lambda a: -np.mean(A_p / (A_p @ a)[:, None], axis=0),
        bounds=[(0, None)] * 11,
        constraints={"type": "eq", "fun": lambda a: np.mean(A_q @ a) - 1, "jac": lambda a: A_q.mean(axis=0)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert np.mean(ratio.log_ratio(X_p)) == pytest.approx(-found.fun, abs=1e-8)


def test_direction_by_moments() -> None:
    X_p, X_q = shifted(2000, 2000, 2, 0.8)
    ratio = KLIEP(random_state=0).fit_samples(X_p, X_q)
    # the standard error of a weighted mean of 2000 rows of q is about 0.04
    np.testing.assert_allclose(ratio.weights(X_q, "sum") @ X_q, X_p.mean(axis=0), atol=0.15)


@pytest.mark.parametrize("bandwidth", [None, 0.5])
def test_a_weight_is_a_repetition(bandwidth: float | None) -> None:
    X_p, X_q = shifted(60, 50, 2, 0.5)
    rng = np.random.default_rng(3)
    times_p, times_q = rng.integers(1, 4, 60), rng.integers(1, 4, 50)
    ratio = KLIEP(bandwidth, n_centres=20, random_state=0)
    weighted = ratio.fit_samples(X_p, X_q, times_p, times_q).log_ratio(X_q)
    repeated = ratio.fit_samples(np.repeat(X_p, times_p, axis=0), np.repeat(X_q, times_q, axis=0)).log_ratio(X_q)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@pytest.mark.parametrize(("n_p", "n_q"), [(50, 5000), (5000, 50)])
def test_unequal_samples(n_p: int, n_q: int) -> None:
    X_p, X_q = shifted(n_p, n_q, 1, 0.7)
    ratio = KLIEP(random_state=0).fit_samples(X_p, X_q)
    assert np.mean(ratio.ratio(X_q)) == pytest.approx(1, abs=1e-8)
    # fifty rows place the mean to 0.14, and so log r at 0 and at 1: three of these
    np.testing.assert_allclose(ratio.log_ratio([[0.0], [1.0]]), [-0.245, 0.455], atol=0.42)


@pytest.mark.parametrize("bandwidth", [None, 0.3])
def test_identical_samples_have_ratio_one(bandwidth: float | None) -> None:
    X, _ = shifted(200, 2, 3, 0)
    log_r = KLIEP(bandwidth, random_state=0).fit_samples(X, X).log_ratio(X)
    np.testing.assert_allclose(log_r, 0, atol=1e-8)


@pytest.mark.parametrize(("n", "d", "bandwidth"), [(10, 900, None), (3, 1, None), (2, 2, None), (30, 2, 1e-3)])
def test_few_rows_and_rows_far_away_have_finite_ratios(n: int, d: int, bandwidth: float | None) -> None:
    X_p, X_q = shifted(n, n, d, 0.5)
    ratio = KLIEP(bandwidth, random_state=0).fit_samples(X_p, X_q)
    X = np.concatenate([X_p, X_q])
    assert np.isfinite(ratio.log_ratio(np.concatenate([X, 1e8 * X, -1e300 * X]))).all()
    assert ratio.kkt_residual_ <= 1e-6
    assert np.mean(ratio.ratio(X_q)) == pytest.approx(1, abs=1e-8)


def test_one_row_cannot_be_held_out() -> None:
    # one row, of a weight that is not whole
    ratio = KLIEP().fit_samples([[1.0]] * 2, [[0.0], [2.0], [-3.0]], [1.3, 1.4])
    assert ratio.bandwidth_ == math.inf
    assert len(ratio.scores_) == 0


def test_kernels_that_no_row_of_q_sees_are_left_out() -> None:
    # their coefficients would have no bound
    X_p, X_q = shifted(100, 100, 2, 0.5)
    ratio = KLIEP(0.01, random_state=0).fit_samples(X_p, X_q)
    Z_q = (X_q - ratio.mean_) / ratio.scale_
    unseen = squared_distances(ratio.centres_, Z_q).min(axis=1) / (2 * 0.01**2) > 300  # exp(-300) is 1e-130
    assert unseen.any()
    assert np.isneginf(ratio.log_coef_[2:][unseen]).all()


def test_a_search_of_many_rows_looks_at_some(monkeypatch: pytest.MonkeyPatch) -> None:
    X_p, X_q = shifted(300, 300, 2, 0.5)
    every = KLIEP(random_state=0).fit_samples(X_p, X_q)
    monkeypatch.setattr(kliep, "_SEARCH_ROWS", 100)
    some = KLIEP(random_state=0).fit_samples(X_p, X_q)
    assert not np.array_equal(every.scores_[:, 1], some.scores_[:, 1])
    assert np.mean(some.ratio(X_q)) == pytest.approx(1, abs=1e-8)  # of all rows


def test_same_seed_same_bits() -> None:
    X_p, X_q = shifted(200, 200, 2, 0.5)
    first, second = (KLIEP(random_state=1).fit_samples(X_p, X_q).log_ratio(X_q) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bandwidth": 0.0}, "`bandwidth` is 0.0: give a number of standard deviations, at least 0.001"),
        ({"bandwidth": math.nan}, "`bandwidth` is nan"),
        ({"bandwidth": "scott"}, "`bandwidth` is 'scott'"),
        ({"n_centres": 0}, "`n_centres` is 0: give a whole number of 1 or more"),
        ({"n_folds": 1}, "`n_folds` is 1. Use an integer of 2 or more"),
        ({"random_state": -1}, "`random_state` is -1"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KLIEP(**settings).fit_samples(*shifted(10, 10, 1, 0.5))
