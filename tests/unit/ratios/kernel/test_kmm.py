from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from flowratio import KMM, OverlapWarning
from flowratio.ratios.kernel import kmm as module

pytestmark = pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")


def samples(n_p: int = 60, n_q: int = 80, d: int = 2, shift: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_p, d)) + shift, rng.normal(size=(n_q, d))


def program(ratio: KMM, X_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return K and κ of the fitted rows of q, by their definition."""
    Z_p, Z_q = (X_p - ratio.mean_) / ratio.scale_, ratio.rows_
    K, cross = (
        np.exp(-((Z_q[:, None] - Z) ** 2).sum(axis=2) / (2 * ratio.bandwidth_**2)) for Z in (Z_q, Z_p)
    )  # (n_q, n_q), (n_q, n_p)
    return K, cross.sum(axis=1) * len(Z_q) / len(Z_p)


@pytest.mark.parametrize(("max_weight", "tolerance"), [(1000.0, None), (2.0, 0.1), (1.2, 0.01)])
def test_no_general_solver_finds_a_lower_objective(max_weight: float, tolerance: float | None) -> None:
    X_p, X_q = samples(20, 15)
    ratio = KMM(1.0, max_weight=max_weight, tolerance=tolerance, gap=1e-9).fit_samples(X_p, X_q)
    K, kappa = program(ratio, X_p)
    beta, eps = ratio.q_weights_, ratio.tolerance_
    assert beta.min() >= 0
    assert beta.max() <= max_weight
    assert abs(beta.mean() - 1) <= eps
    assert ratio.objective_ == pytest.approx(0.5 * beta @ K @ beta - kappa @ beta, rel=1e-10)
    optimum = minimize(
        lambda b: 0.5 * b @ K @ b - kappa @ b,
        np.ones(15),
        jac=lambda b: K @ b - kappa,
        bounds=[(0, max_weight)] * 15,
        constraints=[
            {"type": "ineq", "fun": lambda b: b.mean() - 1 + eps, "jac": lambda b: np.full(15, 1 / 15)},
            {"type": "ineq", "fun": lambda b: 1 + eps - b.mean(), "jac": lambda b: np.full(15, -1 / 15)},
        ],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    # `gap` is a share of half the squared length of the kernel means, which is of the size of the objective
    assert ratio.objective_ == pytest.approx(optimum.fun, rel=1e-8)


@pytest.mark.parametrize("d", [2, 10])
def test_the_optimality_conditions_bound_the_gap(d: int) -> None:
    X_p, X_q = samples(d=d)
    ratio = KMM(gap=1e-6).fit_samples(X_p, X_q)
    K, kappa = program(ratio, X_p)
    g, beta, eps = K @ ratio.q_weights_ - kappa, ratio.q_weights_, ratio.tolerance_
    # the least of gᵀb: fill the cheapest rows up to B, as many as the mean allows
    order = np.argsort(g)
    n, left, least = len(beta), (1 + eps) * len(beta), 0.0
    for i in order:
        used = n * (1 + eps) - left
        if g[i] >= 0 and used >= (1 - eps) * n:
            break
        room = min(1000.0, left if g[i] < 0 else (1 - eps) * n - used)
        least, left = least + room * g[i], left - room
    Z_p = (X_p - ratio.mean_) / ratio.scale_
    K_p = np.exp(-((Z_p[:, None] - Z_p) ** 2).sum(axis=2) / (2 * ratio.bandwidth_**2))
    unit = n**2 * (K_p.mean() + K.mean()) / 4
    # the program solved is that of a kernel which differs from this by 1e-8
    assert ratio.kkt_residual_ == pytest.approx((g @ beta - least) / unit, rel=0.05)
    assert ratio.kkt_residual_ <= ratio.gap_ == 1e-6


def test_weights_of_training_rows_are_theirs_and_have_mean_one() -> None:
    X_p, X_q = samples(100, 150)
    ratio = KMM().fit_samples(X_p, X_q)
    r = ratio.ratio(X_q)
    assert r.mean() == pytest.approx(1, abs=1e-6)
    order = np.lexsort(((X_q - ratio.mean_) / ratio.scale_).T)
    fitted = ratio.q_weights_[np.lexsort(ratio.rows_.T)] / ratio.mean_weight_
    # the rule for new rows has the stationarity conditions, which hold to 1e-8 of μ, for its definition
    np.testing.assert_allclose(r[order], fitted, rtol=1e-5)


def test_new_rows_are_scored_smoothly_and_far_ones_at_the_mean() -> None:
    X_p, X_q = samples(200, 200)
    ratio = KMM().fit_samples(X_p, X_q)
    line = np.linspace(-3, 3, 601)[:, None] * [[1.0, 1.0]]
    finer = np.linspace(-3, 3, 6001)[:, None] * [[1.0, 1.0]]
    steps, finer_steps = (np.abs(np.diff(ratio.log_ratio(rows))).max() for rows in (line, finer))
    assert finer_steps < 0.12 * steps  # a tenth of the way, a tenth of the change: no jumps
    assert ratio.ratio([[1e3, -1e3], [1e300, 0.0]]) == pytest.approx(1)


def test_kernel_means_agree_under_the_weights() -> None:
    X_p, X_q = samples(400, 400)
    ratio = KMM(gap=1e-7).fit_samples(X_p, X_q)
    K, kappa = program(ratio, X_p)
    before, after = np.abs(K.sum(axis=1) - kappa).mean(), np.abs(K @ ratio.q_weights_ - kappa).mean()
    assert after < 0.01 * before
    mean = ratio.weights(X_q) @ X_q / len(X_q)
    # 400 rows of p, and half as many effective ones of q: a standard error of .09
    np.testing.assert_allclose(mean, X_p.mean(axis=0), atol=0.2)


def test_low_rank_and_whole_kernel_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    X_p, X_q = samples(300, 300)
    whole = KMM(random_state=0).fit_samples(X_p, X_q)
    monkeypatch.setattr(module, "_EXACT_ROWS", 200)
    low_rank = KMM(random_state=0).fit_samples(X_p, X_q)
    assert len(low_rank.landmarks_) < 150  # of 200 rows that landmarks may be, in a plane
    X = np.random.default_rng(1).normal(size=(500, 2))
    # landmarks from two thirds of the rows miss little of the kernel but where the other rows are far out
    off = np.abs(low_rank.log_ratio(X) - whole.log_ratio(X))
    assert np.median(off) < 1e-4
    assert off.max() < 0.1


@pytest.mark.parametrize("rank", [20, 500])
def test_few_landmarks_are_only_the_start(rank: int) -> None:
    X_p, X_q = samples(100, 100, d=10, shift=0.3)
    ratio = KMM(rank=rank, gap=1e-8).fit_samples(X_p, X_q)
    K, kappa = program(ratio, X_p)
    exact = KMM(rank=100, gap=1e-8).fit_samples(X_p, X_q)
    assert ratio.objective_ == pytest.approx(0.5 * ratio.q_weights_ @ K @ ratio.q_weights_ - kappa @ ratio.q_weights_)
    assert ratio.objective_ == pytest.approx(exact.objective_, rel=1e-7)


def test_a_weight_is_a_repetition() -> None:
    X_p, X_q = samples(30, 40)
    rng = np.random.default_rng(1)
    w_p, w_q = rng.integers(1, 4, 30), rng.integers(1, 4, 40)
    weighted = KMM(gap=1e-4).fit_samples(X_p, X_q, w_p, w_q)
    repeated = KMM(gap=1e-4).fit_samples(np.repeat(X_p, w_p, axis=0), np.repeat(X_q, w_q, axis=0))
    np.testing.assert_allclose(weighted.log_ratio(X_q), repeated.log_ratio(X_q), atol=1e-8)
    assert len(weighted.q_weights_) == 40


def test_few_steps_give_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match=r"KMM stopped after 3 steps.*`gap` is 1e-08. Use a larger `max_iter`"):
        KMM(max_iter=3, gap=1e-8).fit_samples(*samples())


def test_disjoint_samples_give_a_warning() -> None:
    X_p, X_q = samples(150, 100)
    with pytest.warns(OverlapWarning, match="effective sample size is .* of 100"):
        ratio = KMM().fit_samples(X_p + 50, X_q)
    assert np.isfinite(ratio.log_ratio(np.concatenate([X_p + 50, X_q]))).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_weight": 0.5, "tolerance": 0.1}, "`max_weight` is 0.5, but the mean weight must be at least 0.9"),
        ({"max_weight": 0.0}, "`max_weight` is 0.0. Use a finite number above 0"),
        ({"tolerance": -1.0}, "`tolerance` is -1.0. Use a number of 0 or more, or None for 1 - 1/√n"),
        ({"bandwidth": 0.0}, "`bandwidth` is 0.0. Use a number of 0.001 or more, or None for the median distance"),
        ({"gap": 0.0}, "`gap` is 0.0. Use a number above 0"),
        ({"rank": 0}, "`rank` is 0. Use an integer"),
        ({"max_iter": 2.5}, "`max_iter` is 2.5. Use an integer"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KMM(**settings).fit_samples(*samples())


def test_a_column_that_is_constant_within_each_sample_is_named() -> None:
    X_p, X_q = samples()
    apart = [np.column_stack([X, np.full(len(X), value)]) for X, value in ((X_p, 1.0), (X_q, 2.0))]
    with pytest.warns(OverlapWarning, match="column `x2` separates the samples" if X_p.shape[1] == 1 else "separates"):
        assert KMM().fit_samples(*apart).uncovered_share_ == 1.0
    few = np.arange(3.0)[:, None]
    assert KMM().fit_samples(few + 5, few).uncovered_share_ == 0.0  # 3 rows may be apart by chance
