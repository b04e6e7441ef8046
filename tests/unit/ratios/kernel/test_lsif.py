"""Least squares against its textbook formula, and leave-one-out against fits that leave a row out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from flowratio.ratios.base import OverlapWarning
from flowratio.ratios.kernel.kernels import squared_distances
from flowratio.ratios.kernel.lsif import RULSIF, ULSIF

Ratio = ULSIF | RULSIF
RATIOS: list[Callable[..., Ratio]] = [ULSIF, RULSIF]


def gaussians(n_p: int, n_q: int, d: int = 2, shift: float = 0.7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1.0, (n_p, d)), rng.normal(0.0, 1.0, (n_q, d))


def standardized(ratio: Ratio, X: np.ndarray) -> np.ndarray:
    return (X - ratio.mean_) / ratio.scale_


def alpha_of(ratio: Ratio) -> float:
    return ratio.alpha if isinstance(ratio, RULSIF) else 0.0


def kernel(ratio: Ratio, X: np.ndarray, bandwidth: float) -> np.ndarray:
    return np.exp(-squared_distances(standardized(ratio, X), ratio.centers_) / (2 * bandwidth**2))


def textbook(phi_p: np.ndarray, phi_q: np.ndarray, alpha: float, regularization: float) -> np.ndarray:
    H = alpha * phi_p.T @ phi_p / len(phi_p) + (1 - alpha) * phi_q.T @ phi_q / len(phi_q)
    return np.linalg.solve(H + regularization * np.eye(H.shape[0]), phi_p.mean(axis=0))


def left_out(phi_p: np.ndarray, phi_q: np.ndarray, alpha: float, lam: float) -> tuple[np.ndarray, np.ndarray]:
    """Return relative ratios of all rows of p and of q, each from a fit to all rows but this one."""
    r_p = [phi_p[i] @ textbook(np.delete(phi_p, i, 0), phi_q, alpha, lam) for i in range(len(phi_p))]
    r_q = [phi_q[j] @ textbook(phi_p, np.delete(phi_q, j, 0), alpha, lam) for j in range(len(phi_q))]
    return np.array(r_p), np.array(r_q)


def best_score(r_p: np.ndarray, r_q: np.ndarray, floors: np.ndarray, ceilings: np.ndarray) -> float:
    """Return the best of the scores of all floors and ceilings, each from its definition."""
    low, high = (bound[..., None] for bound in np.meshgrid(floors, ceilings))
    p, q = np.clip(r_p, low, high), np.clip(r_q, low, high)
    scores = math.log(2) + 0.5 * np.log(p / (1 + p)).mean(axis=-1) + 0.5 * np.log(1 / (1 + q)).mean(axis=-1)
    return float(scores.max())


@pytest.mark.parametrize(
    "ratio", [ULSIF(0.8, 0.05), RULSIF(0.3, bandwidth=0.8, regularization=0.05), RULSIF(0, bandwidth=2.0)]
)
def test_fit_is_the_textbook_formula(ratio: Ratio) -> None:
    X_p, X_q = gaussians(50, 80)
    ratio.fit_samples(X_p, X_q)
    phi_p, phi_q = (kernel(ratio, X, ratio.bandwidth_) for X in (X_p, X_q))
    expected = textbook(phi_p, phi_q, alpha_of(ratio), ratio.regularization_)
    # the condition number of the system is below 1e7: nine digits are left
    np.testing.assert_allclose(ratio.coefficients_, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    assert len(ratio.centers_) == 50
    assert {tuple(row) for row in ratio.centers_.round(9)} == {tuple(row) for row in standardized(ratio, X_p).round(9)}


@pytest.mark.parametrize("ratio", [ULSIF(random_state=0, n_centers=8), RULSIF(0.3, random_state=0, n_centers=8)])
def test_leave_one_out_is_brute_force(ratio: Ratio) -> None:
    X_p, X_q = gaussians(12, 17)
    ratio.fit_samples(X_p, X_q)
    alpha = alpha_of(ratio)
    floors = np.geomspace(1 / 12, 1, 32)
    ceilings = np.geomspace(1, 17, 33)[1:] if alpha else np.array([np.inf])
    for i, bandwidth in list(enumerate(ratio.bandwidths_))[::2]:
        phi_p, phi_q = (kernel(ratio, X, bandwidth) for X in (X_p, X_q))
        for j, regularization in list(enumerate(ratio.regularizations_))[::3]:
            r_p, r_q = left_out(phi_p, phi_q, alpha, regularization)
            objective = 0.5 * (alpha * np.mean(r_p**2) + (1 - alpha) * np.mean(r_q**2)) - np.mean(r_p)
            # the grid ends at a condition number of 1e6, on either side of this comparison
            assert ratio.loo_objectives_[i, j] == pytest.approx(objective, rel=1e-8, abs=1e-8)
            r_p, r_q = (
                np.where(alpha * r < 1, (1 - alpha) * r / np.maximum(1 - alpha * r, 1e-9), 1e9) for r in (r_p, r_q)
            )
            assert ratio.loo_scores_[i, j] == pytest.approx(best_score(r_p, r_q, floors, ceilings), abs=1e-8)


@pytest.mark.parametrize("make", RATIOS)
def test_whole_weights_are_repetition_left_out_one_at_a_time(make: Callable[..., Ratio]) -> None:
    X_p, X_q = gaussians(9, 11)
    w_p, w_q = np.array([1, 2, 3, 1, 1, 2, 1, 1, 4]), np.array([2, 1, 1, 1, 5, 1, 1, 1, 1, 2, 3])
    weighted = make(bandwidth=0.9, regularization=0.1, random_state=0).fit_samples(X_p, X_q, w_p, w_q)
    X_p, X_q = np.repeat(X_p, w_p, axis=0), np.repeat(X_q, w_q, axis=0)
    repeated = make(bandwidth=0.9, regularization=0.1, random_state=0).fit_samples(X_p, X_q)
    np.testing.assert_allclose(weighted.coefficients_, repeated.coefficients_, rtol=1e-10)  # the units are rounded
    alpha = alpha_of(weighted)
    r_p, r_q = left_out(kernel(weighted, X_p, 0.9), kernel(weighted, X_q, 0.9), alpha, 0.1)
    objective = 0.5 * (alpha * np.mean(r_p**2) + (1 - alpha) * np.mean(r_q**2)) - np.mean(r_p)
    assert weighted.loo_objectives_.item() == pytest.approx(objective, rel=1e-10)
    assert repeated.loo_objectives_.item() == pytest.approx(objective, rel=1e-10)


@pytest.mark.parametrize("make", RATIOS)
def test_a_factor_of_weights_below_one_changes_nothing(make: Callable[..., Ratio]) -> None:
    X_p, X_q = gaussians(30, 40)
    plain = make(random_state=0).fit_samples(X_p, X_q)
    shares = make(random_state=0).fit_samples(X_p, X_q, np.full(30, 1 / 32), np.full(40, 1 / 64))
    # a power of 2 changes no digit of a weight; sums may be divided in another order
    np.testing.assert_allclose(shares.loo_objectives_, plain.loo_objectives_, rtol=1e-6)
    np.testing.assert_allclose(shares.log_ratio(X_q), plain.log_ratio(X_q), rtol=1e-6)


def test_the_strongest_regularization_near_the_best_score_is_taken() -> None:
    ratio = ULSIF(random_state=0).fit_samples(*gaussians(200, 200))
    best = ratio.loo_scores_.max()
    j = ratio.regularizations_.tolist().index(ratio.regularization_)
    assert ratio.loo_scores_[:, j].max() >= 0.98 * best
    assert (ratio.loo_scores_[:, :j] < 0.98 * best).all()  # from strong to weak
    assert ratio.bandwidth_ == ratio.bandwidths_[np.argmax(ratio.loo_scores_[:, j])]


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")
def test_floor_is_reached_and_its_share_counted() -> None:
    X_p, X_q = gaussians(60, 90, shift=1.5)
    w_q = np.arange(1.0, 91.0)
    ratio = ULSIF(0.5, 0.01, random_state=0).fit_samples(X_p, X_q, None, w_q)
    values = [kernel(ratio, X, 0.5) @ ratio.coefficients_ for X in (X_p, X_q)]
    below = values[1] < ratio.floor_
    assert 0 < below.sum() < 90
    assert (values[1] < 0).any()
    np.testing.assert_allclose(ratio.ratio(X_q), np.where(below, ratio.floor_, values[1]), rtol=1e-9)
    shares = [[np.mean(values[0] < ratio.floor_), 0], [w_q @ below / w_q.sum(), 0]]
    np.testing.assert_allclose(ratio.clipped_share_, shares, rtol=1e-12)
    assert 1 / 60 <= ratio.floor_ <= 1


@pytest.mark.filterwarnings("ignore::flowratio.ratios.base.OverlapWarning")
def test_relative_ratio_is_converted_back_within_its_bounds() -> None:
    X_p, X_q = gaussians(60, 90, shift=1.5)
    ratio = RULSIF(0.4, bandwidth=0.5, regularization=0.001, random_state=0).fit_samples(X_p, X_q)
    relative = kernel(ratio, X_p, 0.5) @ ratio.coefficients_
    beyond = relative >= 1 / 0.4
    assert 0 < beyond.sum() < 60
    r = np.where(beyond, np.inf, 0.6 * relative / np.where(beyond, 1.0, 1 - 0.4 * relative))
    np.testing.assert_allclose(ratio.ratio(X_p), np.clip(r, ratio.floor_, ratio.ceiling_), rtol=1e-9)
    assert ratio.clipped_share_[0, 1] == pytest.approx(np.mean(r > ratio.ceiling_), rel=1e-12)
    assert 1 < ratio.ceiling_ <= 90
    inside = (r > ratio.floor_) & (r < ratio.ceiling_)
    np.testing.assert_allclose(ratio.relative_ratio(X_p)[inside], relative[inside], rtol=1e-9)
    assert (ratio.relative_ratio(X_p) < 1 / 0.4).all()


def test_rulsif_at_alpha_zero_is_ulsif() -> None:
    X_p, X_q = gaussians(40, 60)
    u, r = (make(random_state=3).fit_samples(X_p, X_q) for make in (ULSIF, lambda **k: RULSIF(0.0, **k)))
    np.testing.assert_array_equal(u.log_ratio(X_q), r.log_ratio(X_q))


@pytest.mark.parametrize("make", RATIOS)
def test_direction_and_mean(make: Callable[..., Ratio]) -> None:
    X_p, X_q = gaussians(3000, 3000)  # KL(p ‖ q) is 0.49
    ratio = make(random_state=0).fit_samples(X_p, X_q)
    X = gaussians(1, 20_000, seed=1)[1]
    r = ratio.ratio(X)
    # Var_q r = exp(0.98) - 1 = 1.7: a standard error of 0.01 here, and of 0.03 from each of the fitted samples;
    # the regularization takes away a few hundredths
    assert r.mean() == pytest.approx(1, abs=0.1)
    np.testing.assert_allclose(r @ X / r.sum(), [0.7, 0.7], atol=0.12)
    # the truth has a variance of 0.98; a ratio of 1 is off by 0.98 + 0.49² = 1.2
    assert np.mean((np.log(r) - (0.7 * X.sum(axis=1) - 0.49)) ** 2) < 0.15


@pytest.mark.parametrize("make", RATIOS)
def test_equal_samples_have_a_ratio_near_one(make: Callable[..., Ratio]) -> None:
    X = gaussians(500, 500)[1]
    log_r = make(random_state=0).fit_samples(X, X).log_ratio(X)
    assert np.abs(log_r).max() < 0.1


@pytest.mark.parametrize("make", RATIOS)
def test_finite_everywhere(make: Callable[..., Ratio]) -> None:
    X_p, X_q = gaussians(30, 20, d=3)
    ratio = make(random_state=0).fit_samples(X_p, X_q)
    far = np.array([[1e300, -1e300, 0.0], [1e9, 1e9, 1e9], [0.0, 0.0, 0.0]])
    log_r = ratio.log_ratio(far)
    assert np.isfinite(log_r).all()
    # no kernel reaches there: the fit is 0, below the floor
    np.testing.assert_array_equal(log_r[:2], np.log(ratio.floor_))
    # a row is scored the same alone
    np.testing.assert_allclose(ratio.log_ratio(far[2:]), log_r[2:], rtol=1e-12)


@pytest.mark.parametrize("make", RATIOS)
def test_many_columns_few_rows_and_duplicates(make: Callable[..., Ratio]) -> None:
    X_p, X_q = gaussians(20, 20, d=900, shift=0.02)
    assert np.isfinite(make(random_state=0).fit_samples(X_p, X_q).log_ratio(X_q)).all()
    X_p, X_q = np.repeat([[0.0], [1.0]], [40, 20], axis=0), np.repeat([[0.0], [1.0], [2.0]], [20, 40, 10], axis=0)
    log_r = make(random_state=0).fit_samples(X_p, X_q).log_ratio([[0.0], [1.0]])
    assert log_r[0] > 0 > log_r[1]  # 4/6 : 2/7 and 2/6 : 4/7
    tiny = make(random_state=0).fit_samples([[0.0], [1.0]], [[0.5], [2.0]])
    assert np.isfinite(tiny.log_ratio([[0.0], [5.0]])).all()


@pytest.mark.parametrize("make", RATIOS)
def test_disjoint_samples_warn_and_stay_finite(make: Callable[..., Ratio]) -> None:
    X_p, X_q = gaussians(200, 200, shift=50.0)
    with pytest.warns(OverlapWarning):
        ratio = make(random_state=0).fit_samples(X_p, X_q)
    assert np.isfinite(ratio.log_ratio(np.concatenate([X_p, X_q]))).all()


@pytest.mark.parametrize("make", RATIOS)
def test_seed_decides_the_centers(make: Callable[..., Ratio]) -> None:
    X_p, X_q = gaussians(150, 150)
    first, second, other = (make(n_centers=20, random_state=seed).fit_samples(X_p, X_q) for seed in (5, 5, 6))
    assert first.centers_.shape == (20, 2)
    np.testing.assert_array_equal(first.log_ratio(X_q), second.log_ratio(X_q))
    assert not np.array_equal(first.centers_, other.centers_)


@pytest.mark.parametrize(
    ("ratio", "message"),
    [
        (ULSIF(bandwidth=0.0), "`bandwidth` is 0.0. Use a number from 1e-06 to"),
        (ULSIF(bandwidth=np.inf), "`bandwidth` is inf"),
        (ULSIF(regularization=-1.0), "`regularization` is -1.0"),
        (RULSIF(regularization=True), "`regularization` is True"),
        (ULSIF(n_centers=0), "`n_centers` is 0. Use an integer"),
        (RULSIF(alpha=1.0), "`alpha` is 1.0. Use a number of 0 or more and below 1"),
        (RULSIF(alpha=np.nan), "`alpha` is nan"),
    ],
)
def test_bad_settings(ratio: Ratio, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ratio.fit_samples(*gaussians(10, 10))
