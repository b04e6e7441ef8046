from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from flowratio.ratios.auto.combination import HeldOut, can_help, choose_stack, convex_weights, hedge


def even(n_p: int, n_q: int) -> HeldOut:
    """Return rows of p, then of q, that count alike."""
    return HeldOut(np.repeat([1.0, -1.0], [n_p, n_q]), np.repeat([0.5 / n_p, 0.5 / n_q], [n_p, n_q]))


def shifted(n: int, seed: int = 0) -> tuple[np.ndarray, HeldOut]:
    """Return log r of rows of p = N(1, 1) and of q = N(0, 1), of shape (2n,), and the held-out rows."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(1, 1, n), rng.normal(0, 1, n)]) - 0.5, even(n, n)


def loss(weights: np.ndarray, log_ratios: np.ndarray, held_out: HeldOut) -> float:
    return held_out.mean(held_out.losses(log_ratios @ weights))


def mixed_columns(n: int, m: int, seed: int) -> tuple[np.ndarray, HeldOut]:
    """Return m log-ratios that tell parts of the truth, of shape (2n, m)."""
    log_r, held_out = shifted(n, seed)
    rng = np.random.default_rng([seed, 1])
    return log_r[:, None] * rng.uniform(0.3, 2.5, m) + rng.normal(size=(2 * n, m)) * rng.uniform(0.2, 2, m), held_out


# Held-out rows


def test_losses_and_their_mean() -> None:
    rng = np.random.default_rng(0)
    w, log_r, sign = rng.exponential(size=50), 3 * rng.normal(size=50), np.repeat([1.0, -1.0], [20, 30])
    share = np.where(sign > 0, w / w[:20].sum(), w / w[20:].sum()) / 2
    held_out = HeldOut(sign, share)
    losses = held_out.losses(log_r)
    np.testing.assert_allclose(losses, -np.log(expit(sign * log_r)), rtol=1e-12)
    by_hand = 0.5 * np.average(losses[:20], weights=w[:20]) + 0.5 * np.average(losses[20:], weights=w[20:])
    assert held_out.mean(losses) == pytest.approx(by_hand, rel=1e-12)
    assert np.isfinite(held_out.losses(np.full(50, 1e300))).all()


def test_standard_error_of_rows_that_count_alike() -> None:
    values = np.random.default_rng(0).normal(size=500)
    by_hand = 0.5 * math.sqrt(values[:200].var() / 200 + values[200:].var() / 300)
    assert even(200, 300).standard_error(values) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_standard_error_is_the_deviation_of_the_mean_over_many_draws(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    n_p, n_q, n_draws = 80, 120, 4000
    sign = np.repeat([1.0, -1.0], [n_p, n_q])
    w = rng.exponential(size=n_p + n_q) + 0.5 if weighted else np.ones(n_p + n_q)
    held_out = HeldOut(sign, np.where(sign > 0, w / w[:n_p].sum(), w / w[n_p:].sum()) / 2)
    draws = np.where(sign > 0, rng.exponential(size=(n_draws, n_p + n_q)), 3 + 2 * rng.normal(size=(n_draws, len(w))))
    deviation = np.std([held_out.mean(draw) for draw in draws])
    errors = np.sqrt(np.mean([held_out.standard_error(draw) ** 2 for draw in draws]))
    # a deviation of 4000 draws is known to 1/√8000 = 1.1 %; means that are fitted take 1/80 of the variance
    assert errors == pytest.approx(deviation, rel=0.05)


def test_some_rows_count_one_half_in_each_sample_again() -> None:
    held_out = even(20, 30).rows(np.arange(50) % 3 == 0)
    assert len(held_out.sign) == len(held_out.share) == 17
    for sign in (1, -1):
        assert held_out.share[held_out.sign == sign].sum() == pytest.approx(0.5, rel=1e-12)


# Convex weights


@pytest.mark.parametrize("seed", range(6))
def test_convex_weights_beat_a_grid(seed: int) -> None:
    log_ratios, held_out = mixed_columns(300, 3, seed)
    weights = convex_weights(log_ratios, held_out)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    steps = np.linspace(0, 1, 51)
    grid = [np.array([a, b, 1 - a - b]) for a in steps for b in steps if a + b <= 1 + 1e-12]
    # what rounding of small weights to zero may cost is far below a step of the grid
    assert loss(weights, log_ratios, held_out) <= min(loss(point, log_ratios, held_out) for point in grid) + 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_convex_weights_fulfil_the_karush_kuhn_tucker_conditions(seed: int) -> None:
    log_ratios, held_out = mixed_columns(300, 5, seed)
    weights = convex_weights(log_ratios, held_out)
    signed = held_out.sign[:, None] * log_ratios
    gradient = -(held_out.share * expit(-signed @ weights)) @ signed
    level = weights @ gradient
    used = weights > 0
    # a weight below 0.01 that is left out moves the gradient by as much as the Hessian, which is about 1/4, tells
    np.testing.assert_allclose(gradient[used], level, rtol=0, atol=5e-3)
    assert (gradient[~used] > level - 5e-3).all()
    assert used.any()


def test_one_column_has_all_the_weight() -> None:
    log_r, held_out = shifted(20)
    assert convex_weights(log_r[:, None], held_out).tolist() == [1.0]


def test_the_truth_has_all_the_weight_beside_noise_and_its_inverse() -> None:
    log_r, held_out = shifted(2000)
    noise = np.random.default_rng(1).normal(size=len(log_r))
    weights = convex_weights(np.column_stack([noise, log_r, -log_r]), held_out)
    assert weights[1] > 0.9  # the slope of log r is known to √(2/4000 · 4) = 0.05


@pytest.mark.parametrize("size", [1e-6, 1e3, 1e6])
def test_convex_weights_of_any_size(size: float) -> None:
    log_ratios, held_out = mixed_columns(200, 3, 0)
    weights = convex_weights(size * log_ratios, held_out)
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    corners = [loss(corner, size * log_ratios, held_out) for corner in np.eye(3)]
    assert loss(weights, size * log_ratios, held_out) <= min(corners) * (1 + 1e-3) + 1e-6


# Stacks


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9, 1e12])
def test_a_column_that_is_off_by_millions_leaves_the_others_their_weights(size: float) -> None:
    log_ratios, held_out = mixed_columns(300, 3, seed=0)
    bad = log_ratios[:, 0].copy()
    bad[[3, 400]] = -size, size  # a row of p and one of q, both assigned to the other sample
    weights = convex_weights(np.column_stack([bad, log_ratios, bad]), held_out)
    np.testing.assert_allclose(weights[1:4], convex_weights(log_ratios, held_out), atol=1e-4)
    assert weights[[0, 4]].tolist() == [0, 0]


def test_of_equal_columns_the_first_is_taken() -> None:
    log_r, held_out = shifted(500)
    assert choose_stack(np.column_stack([log_r, log_r, log_r]), held_out).tolist() == [1.0, 0.0, 0.0]
    weights = choose_stack(np.column_stack([np.zeros(len(log_r)), log_r, log_r]), held_out)
    assert weights[2] == 0.0 < weights[1]


def test_the_simplest_of_those_that_are_level_is_taken() -> None:
    log_r, held_out = shifted(500)
    other = log_r + 0.05 * np.random.default_rng(1).normal(size=len(log_r))  # 0.0003 nats: chance
    for columns in ([log_r, other], [other, log_r]):
        assert choose_stack(np.column_stack(columns), held_out, max_columns=1).tolist() == [1.0, 0.0]


def test_r_is_one_where_nothing_is_better() -> None:
    held_out = even(300, 300)
    n_other = 0
    for seed in range(20):
        noise = 0.3 * np.random.default_rng(seed).normal(size=(600, 4))
        weights = choose_stack(np.column_stack([np.zeros(600), noise]), held_out)
        n_other += weights[0] < 1
    assert n_other <= 3  # four of them gain by chance now and then


def test_a_column_that_adds_truth_joins() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(1, 1, (2000, 2)), rng.normal(0, 1, (2000, 2))])
    # each column tells one half of log r = x₁ + x₂ - 1, twice as surely as it should: their mean is the truth
    log_ratios = 2 * X - 1
    weights = choose_stack(log_ratios, even(2000, 2000))
    np.testing.assert_allclose(weights, 0.5, atol=0.05)


def test_noise_does_not_join() -> None:
    joined = 0
    for seed in range(20):
        log_r, held_out = shifted(500, seed)
        noisy = log_r + np.random.default_rng([seed, 1]).normal(size=len(log_r))
        joined += bool(choose_stack(np.column_stack([log_r, noisy]), held_out)[1] > 0)
    assert joined <= 2


def test_a_stack_is_never_worse_than_the_columns_by_more_than_chance() -> None:
    for seed in range(6):
        log_ratios, held_out = mixed_columns(400, 5, seed)
        weights = choose_stack(log_ratios, held_out)
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        stack = held_out.losses(log_ratios @ weights)
        best = min((held_out.losses(column) for column in log_ratios.T), key=held_out.mean)
        assert held_out.mean(stack - best) <= 1.5 * held_out.standard_error(stack - best) + 1e-12


@pytest.mark.parametrize("most", [1, 2])
def test_at_most_so_many_columns(most: int) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(1, 1, (2000, 3)), rng.normal(0, 1, (2000, 3))])
    log_ratios = 3 * X - 1.5  # all three are needed
    assert np.count_nonzero(choose_stack(log_ratios, even(2000, 2000))) == 3
    assert np.count_nonzero(choose_stack(log_ratios, even(2000, 2000), max_columns=most)) == most


# Few rows


@pytest.mark.parametrize("n", [100, 500, 5000])
def test_a_stack_of_few_is_hedged_by_one_of_all_columns_where_rows_are_few(n: int) -> None:
    log_ratios, held_out = mixed_columns(n, 4, 0)
    few, every = choose_stack(log_ratios, held_out, max_columns=1), convex_weights(log_ratios, held_out)
    weights = hedge(few, log_ratios, held_out)
    blend = (2 * n * few + 1000 * every) / (2 * n + 1000)
    blend[blend < 0.05] = 0  # not worth their cost
    np.testing.assert_allclose(weights, blend / blend.sum(), rtol=1e-12)
    assert weights.sum() == pytest.approx(1, abs=1e-12)


def test_r_is_one_needs_no_hedge() -> None:
    log_r, held_out = shifted(100)
    few = np.array([1.0, 0.0])
    assert hedge(few, np.column_stack([np.zeros(200), log_r]), held_out).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("seed", range(3))
def test_a_hedge_is_no_worse_than_the_worse_of_the_two(seed: int) -> None:
    log_ratios, held_out = mixed_columns(100, 6, seed)
    few = choose_stack(log_ratios, held_out)
    assert loss(hedge(few, log_ratios, held_out), log_ratios, held_out) <= loss(few, log_ratios, held_out) + 1e-3


# Giving up early


def test_what_can_help() -> None:
    log_r, held_out = shifted(500)
    noise = np.random.default_rng(1).normal(size=len(log_r))
    assert can_help(np.zeros(len(log_r)), log_r, held_out)  # better
    assert can_help(log_r, log_r, held_out)  # level
    assert not can_help(log_r, -log_r, held_out)
    assert not can_help(log_r, 4 * log_r + 8 * noise, held_out)
    assert not can_help(log_r, 10 * noise, held_out)


def test_what_is_worse_alone_may_help_beside_others() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(1, 1, (2000, 2)), rng.normal(0, 1, (2000, 2))])
    held_out = even(2000, 2000)
    first, second = 2 * X[:, 0] - 1, 2 * X[:, 1] - 1 + 1.5 * rng.normal(size=4000)
    worse = held_out.losses(second) - held_out.losses(first)
    assert held_out.mean(worse) > 2 * held_out.standard_error(worse)
    assert can_help(first, second, held_out)
