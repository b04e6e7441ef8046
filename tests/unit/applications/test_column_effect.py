"""Effects of columns, compared with closed forms. Tolerances are the standard errors that are returned."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import rankdata

from flowratio.applications.column_effect import (
    Variance,
    effect_of,
    variance_of_categories,
    variance_of_number,
    variance_of_pair,
)

Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]
N_DRAWS = 60


def effect_of_number(p: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    x = np.concatenate([p, q]).astype(float)
    is_missing = np.isnan(x)
    x[is_missing] = np.nanmedian(x)
    x = (x - x.mean()) / x.std()
    u = ndtri((rankdata(x) - 0.5) / len(x))
    return effect_of([variance_of_number(x, u, is_missing, len(p))])


def deviation(p: np.ndarray, q: np.ndarray) -> float:
    """Return the standard deviation of log r of categories with these shares."""
    log_r, share = np.log(p / q), (p + q) / 2
    return math.sqrt(share @ log_r**2 - (share @ log_r) ** 2)


def gaussian(shift: float, scale: float) -> float:
    """Return the standard deviation of log N(shift, scale²) - log N(0, 1), where both count one half."""
    # log r is a x² + b x + c, and the moments of x are those of two Gaussians
    a, b = (1 - scale**-2) / 2, shift / scale**2
    m = [1.0, shift, shift**2 + scale**2, shift**3 + 3 * shift * scale**2]
    m.append(shift**4 + 6 * shift**2 * scale**2 + 3 * scale**4)
    first, second, third, fourth = np.add(m[1:], [0, 1, 0, 3]) / 2
    mean = a * second + b * first
    return math.sqrt(a**2 * fourth + 2 * a * b * third + b**2 * second - mean**2)


def normals(shift: float, scale: float, n_p: int, n_q: int) -> Draw:
    return lambda rng: (rng.normal(shift, scale, n_p), rng.normal(size=n_q))


def coins(p: float, q: float, n_p: int, n_q: int) -> Draw:
    return lambda rng: (rng.random(n_p) < p, rng.random(n_q) < q)


def bernoulli(p: float, q: float) -> float:
    return deviation(np.array([p, 1 - p]), np.array([q, 1 - q]))


CASES = {
    "shift 0.3": (normals(0.3, 1, 500, 500), gaussian(0.3, 1)),
    "shift 1": (normals(1, 1, 500, 800), gaussian(1, 1)),
    "shift 3": (normals(3, 1, 500, 500), gaussian(3, 1)),
    "scale": (normals(0, 1.3, 500, 500), gaussian(0, 1.3)),
    "shift and scale": (normals(0.5, 2, 500, 2000), gaussian(0.5, 2)),
    "lognormal": (lambda rng: (np.exp(rng.normal(0.4, 1, 500)), np.exp(rng.normal(0, 1, 500))), gaussian(0.4, 1)),
    "0/1, far": (coins(0.88, 0.12, 1000, 1000), bernoulli(0.88, 0.12)),
    "0/1, near": (coins(0.5, 0.4, 500, 500), bernoulli(0.5, 0.4)),
    "0/1, unequal n": (coins(0.9, 0.5, 300, 1000), bernoulli(0.9, 0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_effects_are_right_within_their_standard_errors(name: str) -> None:
    draw, truth = CASES[name]
    effects = np.array([effect_of_number(*draw(np.random.default_rng(seed))) for seed in range(N_DRAWS)])
    z = (effects[:, 0] - truth) / effects[:, 1]
    # two standard errors cover 95 % of 60 draws: 57 ± 1.7, so 51 is 3.5 deviations below
    assert np.count_nonzero(np.abs(z) < 2) >= 51
    assert np.abs(np.median(z)) < 0.6  # 60 draws know the median to 0.16, and a root is biased by less than 0.4
    assert 0.7 < effects[:, 1].mean() / effects[:, 0].std() < 1.4  # a deviation of 60 draws is known to 9 %


@pytest.mark.parametrize("draw", [normals(0, 1, 500, 800), coins(0.3, 0.3, 500, 800)])
def test_effects_of_unchanged_columns_are_zero_within_their_standard_errors(draw: Draw) -> None:
    effects = np.array([effect_of_number(*draw(np.random.default_rng(seed))) for seed in range(N_DRAWS)])
    assert np.count_nonzero(effects[:, 0] < 2 * effects[:, 1]) >= 51
    assert np.median(effects[:, 0]) < 0.05


def test_the_issue_with_a_column_of_zeros_and_ones() -> None:
    p, q = coins(math.exp(2) / (1 + math.exp(2)), 1 / (1 + math.exp(2)), 2000, 2000)(np.random.default_rng(0))
    effect, error = effect_of_number(p, q)
    assert abs(effect - 2) < 2 * error < 0.2


def test_missing_values_have_their_own_log_ratio() -> None:
    draws = []
    for seed in range(N_DRAWS):
        rng = np.random.default_rng(seed)
        p, q = rng.normal(0.5, 1, 800), rng.normal(size=800)
        p[rng.random(800) < 0.4], q[rng.random(800) < 0.1] = np.nan, np.nan
        draws.append(effect_of_number(p, q))
    effects = np.array(draws)
    # E (log r)² = Σ over missing, 0.25, and not: log r = log(0.6 / 0.9) + x / 2 - 1/8 there
    first = math.log(4)
    rest, w_p, w_q = math.log(0.6 / 0.9), 0.3, 0.45
    mean = 0.25 * first + w_p * (rest + 1 / 8) + w_q * (rest - 1 / 8)
    square = 0.25 * first**2 + w_p * ((rest + 1 / 8) ** 2 + 1 / 4) + w_q * ((rest - 1 / 8) ** 2 + 1 / 4)
    z = (effects[:, 0] - math.sqrt(square - mean**2)) / effects[:, 1]
    assert np.count_nonzero(np.abs(z) < 2) >= 51


@pytest.mark.parametrize(("n_categories", "n"), [(4, 500), (100, 1000), (400, 5000)])
def test_effects_of_categories(n_categories: int, n: int) -> None:
    rng = np.random.default_rng(1)
    shares = rng.gamma(1.0, size=n_categories) + 0.05
    others = shares * np.exp(0.5 * rng.normal(size=n_categories))
    p, q = others / others.sum(), shares / shares.sum()
    changed, same = [], []
    for _ in range(N_DRAWS):
        changed.append(effect_of([variance_of_categories(*(rng.multinomial(n, s).astype(float) for s in (p, q)))]))
        same.append(effect_of([variance_of_categories(*(rng.multinomial(n, s).astype(float) for s in (q, q)))]))
    z = (np.array(changed)[:, 0] - deviation(p, q)) / np.array(changed)[:, 1]
    assert np.count_nonzero(np.abs(z) < 2) >= 51
    assert np.count_nonzero(np.array(same)[:, 0] < 2 * np.array(same)[:, 1]) >= 51


@pytest.mark.parametrize("rho", [0.3, 0.7])
def test_the_effect_of_a_changed_correlation(rho: float) -> None:
    effects = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2, 1600))
        y[:800] = rho * x[:800] + math.sqrt(1 - rho**2) * y[:800]
        effects.append(effect_of([variance_of_pair(np.exp(x), y + 3, 800)]))  # units and margins do not matter
    # log r = (ρ x y - ρ² (x² + y²) / 2) / (1 - ρ²) + const, a quadratic form x'Ax: Var = 2 tr (A S A S)
    A = np.array([[-(rho**2), rho], [rho, -(rho**2)]]) / (2 * (1 - rho**2))
    S = [np.array([[1, rho], [rho, 1]]), np.eye(2)]
    variances, means = [2 * np.trace(A @ s @ A @ s) for s in S], [np.trace(A @ s) for s in S]
    truth = math.sqrt(np.mean(variances) + np.var(means))
    z = np.array([(effect - truth) / error for effect, error in effects])
    assert np.count_nonzero(np.abs(z) < 2.5) >= 26  # ranks within the samples are a little less noisy than rows
    assert np.abs(np.median(z)) < 1


def test_heavy_tails_and_separated_columns_have_finite_effects() -> None:
    rng = np.random.default_rng(0)
    effect, error = effect_of_number(rng.standard_cauchy(500) + 1, rng.standard_cauchy(500))
    assert 0.4 < effect < 1.2  # two Cauchy distributions, 1 apart: log r is within ±0.96, of deviation 0.69
    assert error < 0.3
    effect, error = effect_of_number(np.zeros(500), np.ones(500))
    assert 4 < effect < 12
    assert error > 0.5
    constant, there = np.zeros(100), np.zeros(100, bool)
    assert effect_of([variance_of_number(constant, constant, there, 50)])[0] == 0.0


def test_variances_add_up_and_are_not_negative() -> None:
    assert effect_of([Variance(9.0, 3.0), Variance(16.0, 4.0)]) == (5.0, math.sqrt(30) - 5)
    assert effect_of([Variance(-1.0, 4.0)]) == (0.0, 2.0)
