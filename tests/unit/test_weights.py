"""Weights against closed forms, brute force and a peer, and at the ends of what a float holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest

from flowratio.weights import (
    cap,
    cap_to_design_effect,
    effective_sample_size,
    effective_sample_size_of_ratio,
    is_small,
    largest_k_hat,
    log_cap,
    pareto_smooth,
    ratios_from_logs,
    rebalance,
    self_normalize,
    temper,
)

LOG_W = np.random.default_rng(0).normal(size=400) * 1.5
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "self_normalize": self_normalize,
    "temper": lambda log_r: temper(log_r, 0.5),
    "rebalance": rebalance,
    "cap": cap,
    "pareto_smooth": lambda log_w: pareto_smooth(log_w).log_w,
    "cap_to_design_effect": lambda log_w: cap_to_design_effect(log_w, 3.0).log_w,
    "effective_sample_size": effective_sample_size,
}
every = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def design_effect(log_w: np.ndarray) -> float:
    return len(log_w) / effective_sample_size(log_w)


def generalized_pareto(n: int, k: float, seed: int) -> np.ndarray:
    """Draw from the distribution of scale 1 by its quantile function."""
    u = np.random.default_rng(seed).uniform(size=n)
    return -np.log(u) if k == 0 else np.expm1(-k * np.log(u)) / k


class TestWhatAllShare:
    @every
    @pytest.mark.parametrize(
        ("log_w", "words"),
        [
            ([], "has shape"),
            (0.5, "has shape"),
            ([[0.0, 1.0]], "has shape"),
            ([0.0, math.nan], "NaN or infinite in 1 of 2 rows, the first 1"),
            ([math.inf, 0.0], "NaN or infinite in 1 of 2 rows, the first 0"),
            ([-math.inf, -math.inf], "all weights are zero"),
            (["a"], "not an array of numbers"),
            ([[1.0], [1.0, 2.0]], "not an array of numbers"),
        ],
    )
    def test_what_is_no_set_of_weights_is_refused(self, function: Any, log_w: Any, words: str) -> None:
        with pytest.raises(ValueError, match=rf"`log_[wr]` .*{words}"):
            function(log_w)

    @every
    def test_lists_and_columns_are_as_good_as_arrays_and_are_left_alone(self, function: Any) -> None:
        values = LOG_W.copy()
        expected = function(values)
        np.testing.assert_array_equal(values, LOG_W)
        np.testing.assert_array_equal(function(LOG_W.tolist()), expected)
        np.testing.assert_array_equal(function(pd.Series(LOG_W, index=range(400, 0, -1))), expected)
        np.testing.assert_allclose(function(LOG_W.astype(np.float32)), expected, rtol=1e-4)
        assert np.asarray(function(LOG_W.astype(np.float32))).dtype == np.float64

    @every
    @pytest.mark.parametrize("scale", [800.0, 1e300, 1.5e308])
    def test_extremes_give_sound_weights(self, function: Any, scale: float) -> None:
        log_w = np.concatenate([scale * np.linspace(-1, 1, 60), [-np.inf]])
        log_w = log_w[:-1] if function is FUNCTIONS["cap_to_design_effect"] else log_w
        result = np.atleast_1d(function(log_w))
        assert not np.isnan(result).any()
        assert (result < np.inf).all()
        assert result.max() > -np.inf

    @pytest.mark.parametrize("name", ["self_normalize", "effective_sample_size"])
    @pytest.mark.parametrize("constant", [-1000.0, 7.0, 1000.0])
    def test_constant_cancels(self, name: str, constant: float) -> None:
        # adding 1000 rounds a log-weight by 1e-13
        np.testing.assert_allclose(FUNCTIONS[name](LOG_W + constant), FUNCTIONS[name](LOG_W), rtol=1e-12)

    @pytest.mark.parametrize("name", ["cap", "pareto_smooth", "cap_to_design_effect"])
    @pytest.mark.parametrize("constant", [-1000.0, 7.0, 1000.0])
    def test_constant_is_kept(self, name: str, constant: float) -> None:
        # rounding of 1e-13, enlarged by the fit of the tail
        np.testing.assert_allclose(FUNCTIONS[name](LOG_W + constant) - constant, FUNCTIONS[name](LOG_W), atol=1e-10)

    @pytest.mark.parametrize("name", ["cap", "pareto_smooth", "cap_to_design_effect"])
    def test_order_of_weights_is_kept(self, name: str) -> None:
        mixed = np.random.default_rng(1).permutation(400)
        np.testing.assert_allclose(FUNCTIONS[name](LOG_W[mixed]), FUNCTIONS[name](LOG_W)[mixed], atol=1e-12)
        assert (np.diff(FUNCTIONS[name](np.sort(LOG_W))) >= 0).all()


class TestSelfNormalize:
    def test_weights_are_shares(self) -> None:
        w = np.array([1.0, 2.0, 0.0, 5.0])
        with np.errstate(divide="ignore"):
            log_w = np.log(w)
        np.testing.assert_allclose(self_normalize(log_w), w / 8, rtol=1e-15)
        np.testing.assert_allclose(self_normalize(log_w, total=4), w / 2, rtol=1e-15)

    @pytest.mark.parametrize("total", [0, -1.0, math.inf, math.nan, "1", True, None])
    def test_other_totals_are_refused(self, total: Any) -> None:
        with pytest.raises(ValueError, match=r"`total` is .*\. Use a finite number above 0"):
            self_normalize([0.0], total)


class TestTemper:
    def test_power_of_the_ratio(self) -> None:
        np.testing.assert_allclose(np.exp(temper(LOG_W, 0.2)), np.exp(LOG_W) ** 0.2, rtol=1e-14)
        np.testing.assert_array_equal(temper(LOG_W, 1), LOG_W)

    def test_power_zero_is_one_also_of_zero(self) -> None:
        assert temper([-math.inf], 0).tolist() == [0.0]
        assert temper([-math.inf, 0.0, 1e300], 0).tolist() == [0.0, 0.0, 0.0]
        assert temper([-math.inf, 2.0], 0.5).tolist() == [-math.inf, 1.0]

    @pytest.mark.parametrize("gamma", [-0.1, -math.inf, math.inf, math.nan, "1", None, True])
    def test_other_powers_are_refused(self, gamma: Any) -> None:
        with pytest.raises(ValueError, match=r"`gamma` is .*\. Use a finite number of 0 or more"):
            temper(LOG_W, gamma)

    def test_overflow_is_told(self) -> None:
        with pytest.raises(ValueError, match="The product overflows"):
            temper([1e300], 1e10)


class TestRebalance:
    @pytest.mark.parametrize("proportion", [0, 0.1, 0.25, 0.5])
    @pytest.mark.parametrize("toward", ["p", "q"])
    def test_closed_form(self, proportion: float, toward: Literal["p", "q"]) -> None:
        r = np.exp(LOG_W)
        expected = (r if toward == "p" else 1) / (proportion * r + 1 - proportion)
        np.testing.assert_allclose(np.exp(rebalance(LOG_W, proportion, toward)), expected, rtol=1e-13)

    def test_one_half_is_the_form_of_the_paper(self) -> None:
        r = np.exp(LOG_W)
        np.testing.assert_allclose(np.exp(rebalance(LOG_W)), r / (0.5 * (r + 1)), rtol=1e-13)

    @pytest.mark.parametrize("proportion", [0.1, 0.25, 0.5])
    @pytest.mark.parametrize("toward", ["p", "q"])
    def test_mixture_of_gaussians_becomes_its_target(self, proportion: float, toward: Literal["p", "q"]) -> None:
        # p = N(1, 1), q = N(-1, 1): log r = 2 x
        rng = np.random.default_rng(3)
        n = 20_000
        x = rng.normal(size=n) + np.where(rng.uniform(size=n) < proportion, 1.0, -1.0)
        w = np.exp(rebalance(2 * x, proportion, toward))
        target = 1.0 if toward == "p" else -1.0
        # each of the means is of n independent terms, and the truth is their expectation: 4 standard errors
        for terms, truth in ((w, 1.0), (w * (x - target), 0.0), (w * (x - target) ** 2, 1.0)):
            assert abs(terms.mean() - truth) < 4 * terms.std() / math.sqrt(n)
        # the other direction misses the mean by 2
        other = np.exp(rebalance(2 * x, proportion, "q" if toward == "p" else "p"))
        assert abs(np.average(x, weights=other) - target) > 1.5

    @pytest.mark.parametrize("scale", [800.0, 1e300])
    def test_weights_are_bounded(self, scale: float) -> None:
        log_r = np.array([-scale, 0.0, scale])
        np.testing.assert_allclose(rebalance(log_r, 0.1, "p")[1:], [0.0, math.log(10)], atol=1e-15)
        np.testing.assert_allclose(rebalance(log_r, 0.1, "q")[:2], [-math.log(0.9), 0.0], atol=1e-15)
        np.testing.assert_allclose(rebalance(log_r, 0.1, "p")[0], -scale - math.log(0.9))
        np.testing.assert_allclose(rebalance(log_r, 0.1, "q")[2], -scale - math.log(0.1))

    def test_rows_that_p_never_has_are_rows_of_q(self) -> None:
        np.testing.assert_allclose(rebalance([-math.inf], 0.1, "q"), [-math.log(0.9)])
        with pytest.raises(ValueError, match="all weights are zero"):
            rebalance([-math.inf], 0.1, "p")

    @pytest.mark.parametrize("proportion", [1, -0.5, 2, math.nan, "0.5", None, True])
    def test_other_proportions_are_refused(self, proportion: Any) -> None:
        with pytest.raises(ValueError, match=r"`proportion` is .*\. It must be 0 or more and below 1"):
            rebalance(LOG_W, proportion)

    @pytest.mark.parametrize("toward", ["P", "target", None, 1])
    def test_other_directions_are_refused(self, toward: Any) -> None:
        with pytest.raises(ValueError, match=r"`toward` is .*\. Use one of p, q"):
            rebalance(LOG_W, toward=toward)


class TestCap:
    def test_default_is_the_mean_times_the_root_of_n(self) -> None:
        w = np.exp(3 * LOG_W)
        assert (w > 20 * w.mean()).any()
        np.testing.assert_allclose(np.exp(cap(3 * LOG_W)), np.minimum(w, 20 * w.mean()), rtol=1e-13)

    @pytest.mark.parametrize("largest", [1, 1.0001, 1.5, 3, 50, 399])
    @pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 300.0, 1e7])
    def test_no_weight_is_above_a_multiple_of_the_mean(self, largest: float, spread: float) -> None:
        log_w = spread * LOG_W + 700
        capped = cap(log_w, largest)
        relative = self_normalize(capped, total=len(log_w))
        rounding = 1e-12 + 4 * np.finfo(float).eps * abs(log_w).max()  # of log-weights, which is relative in weights
        assert relative.max() <= largest * (1 + rounding)
        if (capped < log_w).any():  # not lower than it must be
            assert relative.max() == pytest.approx(largest, rel=rounding)

    @pytest.mark.parametrize("largest", [1, 1.5, 3, 50])
    def test_cap_agrees_with_brute_force(self, largest: float) -> None:
        # with k weights at the cap, the cap is c times the sum of the others over n - c k
        w = np.sort(np.exp(2 * LOG_W))[::-1]
        limits = [largest * math.fsum(w[k:]) / (len(w) - largest * k) for k in range(len(w)) if largest * k < len(w)]
        exact = min(limits, key=lambda limit: abs(limit / (largest * np.minimum(w, limit).mean()) - 1))
        np.testing.assert_allclose(np.exp(cap(np.log(w), largest)), np.minimum(w, exact), rtol=1e-11)

    def test_weights_below_the_cap_do_not_change(self) -> None:
        np.testing.assert_array_equal(cap(LOG_W, 399), LOG_W)
        np.testing.assert_array_equal(cap([3.0, 3.0], 1), [3.0, 3.0])
        assert cap([5.0], 1.0).tolist() == [5.0]

    def test_equal_weights_are_the_smallest_cap(self) -> None:
        np.testing.assert_allclose(cap(LOG_W, 1), LOG_W.min(), rtol=0, atol=1e-12)

    def test_blocks_give_the_same_cap_in_few_passes(self) -> None:
        log_w, n_passes = 200 * LOG_W, 0

        def blocks() -> list[np.ndarray]:
            nonlocal n_passes
            n_passes += 1
            return np.array_split(log_w, 7)

        limit = log_cap(blocks, 2.0)
        assert np.minimum(log_w, limit) == pytest.approx(cap(log_w, 2.0), rel=1e-13)
        # without bisection it takes a pass for every six nats, and half of the range of 1200 nats lies above the cap
        assert n_passes < 30

    def test_weights_of_zero(self) -> None:
        log_w = np.array([0.0, 2.0, -math.inf, -math.inf])
        np.testing.assert_allclose(np.exp(cap(log_w, 2)), [1, 1, 0, 0], rtol=1e-12)
        with pytest.raises(ValueError, match=r"2 of 4 weights are zero, so that no cap brings it below 2\. Use"):
            cap(log_w, 1.9)

    @pytest.mark.parametrize("largest", [0, 0.99, -1, math.inf, math.nan, "2", True])
    def test_other_caps_are_refused(self, largest: Any) -> None:
        with pytest.raises(ValueError, match=r"`largest` is .*\. Use a finite number of 1 or more"):
            cap(LOG_W, largest)


class TestParetoSmooth:
    @pytest.mark.parametrize("k", [-0.2, 0.0, 0.3, 0.7, 1.0])
    def test_shape_of_exact_draws(self, k: float) -> None:
        # the tail of such a distribution has the same shape; 60 fits to M = 300 of 10 000 weights each
        results = [pareto_smooth(np.log(generalized_pareto(10_000, k, seed))).k_hat for seed in range(60)]
        prior = (300 * k + 10 * 0.5) / 310
        # (1 + k) / sqrt(M) is the error of the likelihood estimate; its bias, and that of the posterior mean, is O(1/M)
        error = (1 + k) / math.sqrt(300)
        assert abs(np.mean(results) - prior) < 4 * error / math.sqrt(60) + 3 / 300
        assert 0.6 * error < np.std(results) < 1.4 * error

    def test_smoothed_weights_are_quantiles_of_the_fit_and_none_exceeds_the_largest(self) -> None:
        log_w = np.log(generalized_pareto(1000, 0.5, 0) + 0.1)
        smooth, k = pareto_smooth(log_w)
        order = np.argsort(log_w)
        body, tail = order[:-94], order[-94:]  # 3 sqrt(1000) = 94.9
        np.testing.assert_array_equal(smooth[body], log_w[body])
        assert smooth.max() <= log_w.max()
        # a quantile function in u of shape k is a straight line in ((1 - p)^-k - 1) / k; the largest may be capped
        p = (np.arange(94) + 0.5) / 94
        line = np.expm1(-k * np.log1p(-p)) / k
        excess = np.exp(smooth[tail]) - np.exp(log_w[order[-95]])
        np.testing.assert_allclose(excess[:-5] / line[:-5], excess[0] / line[0], rtol=1e-9)

    def test_smoothing_lowers_the_variance_of_a_weighted_mean(self) -> None:
        # w has infinite variance at k = 0.6, mean 1 / (1 - k) = 2.5
        plain, smooth = [], []
        for seed in range(200):
            log_w = np.log(generalized_pareto(500, 0.6, seed))
            plain.append(np.exp(log_w).mean())
            smooth.append(np.exp(pareto_smooth(log_w).log_w).mean())
        assert np.square(np.array(smooth) - 2.5).mean() < np.square(np.array(plain) - 2.5).mean()

    @pytest.mark.parametrize("n", [1, 3, 24, 25, 1000])
    @pytest.mark.parametrize("value", [0.0, 800.0, 1e300])
    def test_constant_weights_have_no_tail(self, n: int, value: float) -> None:
        log_w = np.full(n, value)
        smooth, k = pareto_smooth(log_w)
        assert k == -math.inf
        np.testing.assert_array_equal(smooth, log_w)
        noise = 1e-16 * np.random.default_rng(0).normal(size=n)
        assert pareto_smooth(log_w * (1 + noise)).k_hat == -math.inf

    def test_weights_at_a_cap_have_no_tail(self) -> None:
        assert pareto_smooth(np.minimum(LOG_W, 0.5)).k_hat == -math.inf

    @pytest.mark.parametrize("n", [2, 4, 24])
    def test_few_weights_tell_no_tail(self, n: int) -> None:
        smooth, k = pareto_smooth(LOG_W[:n])
        assert k == math.inf
        np.testing.assert_array_equal(smooth, LOG_W[:n])
        assert math.isfinite(pareto_smooth(LOG_W[:25]).k_hat)

    def test_largest_k_hat_grows_with_n_up_to_a_limit(self) -> None:
        assert largest_k_hat(100) == 0.5
        assert largest_k_hat(10 ** (10 / 3)) == pytest.approx(0.7)
        assert largest_k_hat(10**9) == 0.7
        assert largest_k_hat(1) == -math.inf

    def test_few_weights_that_stand_out_raise_the_alarm(self) -> None:
        log_w = np.zeros(1000)
        log_w[:4] = [5.0, 6.0, 7.0, 8.0]
        assert pareto_smooth(log_w).k_hat == math.inf
        assert pareto_smooth(np.linspace(-1e5, 0, 100)).k_hat == math.inf

    def test_ties_hardly_matter(self) -> None:
        log_w = np.log(generalized_pareto(10_000, 0.4, 0) + 1)
        rounded = pareto_smooth(np.log(np.round(np.exp(log_w), 1)))
        assert abs(rounded.k_hat - pareto_smooth(log_w).k_hat) < 0.05  # one standard error of k is 0.08
        assert pareto_smooth(np.repeat(np.log([1.0, 2.0, 4.0, 8.0]), 50)).k_hat < 0

    def test_zero_weights_count(self) -> None:
        few = np.where(np.arange(400) < 20, LOG_W, -np.inf)
        smooth, k = pareto_smooth(few)
        assert math.isfinite(k)
        np.testing.assert_array_equal(np.isneginf(smooth), np.isneginf(few))

    @pytest.mark.parametrize("n", [25, 100, 1000, 5000])
    @pytest.mark.parametrize("k", [-0.5, 0.1, 0.7, 2.0])
    def test_agrees_with_arviz(self, n: int, k: float) -> None:
        peer: Any = pytest.importorskip("arviz_stats.base")
        log_w = np.log(generalized_pareto(n, k, n) + 0.3)
        log_peer, k_peer = peer.array_stats.psislw(-log_w)  # it takes log-likelihoods, whose weights are inverse
        smooth, k_hat = pareto_smooth(log_w)
        np.testing.assert_allclose(k_hat, k_peer, rtol=1e-9)
        np.testing.assert_allclose(self_normalize(smooth), np.exp(log_peer), rtol=1e-9)


class TestCapToDesignEffect:
    @pytest.mark.parametrize("bound", [1.001, 1.2, 2.0, 5.0])
    @pytest.mark.parametrize("seed", range(5))
    def test_largest_cap_that_meets_the_bound(self, bound: float, seed: int) -> None:
        log_w = np.random.default_rng(seed).normal(size=200) * 3
        capped, n_capped = cap_to_design_effect(log_w, bound)
        assert n_capped == np.count_nonzero(capped < log_w) > 0
        cap = capped.max()
        np.testing.assert_array_equal(capped, np.minimum(log_w, cap))
        assert design_effect(capped) == pytest.approx(bound, rel=1e-10)
        assert design_effect(np.minimum(log_w, cap + 1e-6)) > bound

    def test_against_bisection(self) -> None:
        low, high = LOG_W.min(), LOG_W.max()
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if design_effect(np.minimum(LOG_W, middle)) <= 1.5 else (low, middle)
        assert cap_to_design_effect(LOG_W, 1.5).log_w.max() == pytest.approx(low, abs=1e-9)

    def test_bound_that_holds_already_touches_nothing(self) -> None:
        capped, n_capped = cap_to_design_effect(LOG_W, design_effect(LOG_W) + 1e-9)
        assert n_capped == 0
        np.testing.assert_array_equal(capped, LOG_W)
        assert cap_to_design_effect([1.0, 1.0, 1.0], 1.0).n_capped == 0
        assert cap_to_design_effect([3.0], 1.0).log_w.tolist() == [3.0]

    def test_bound_of_one_makes_all_weights_equal(self) -> None:
        capped, n_capped = cap_to_design_effect(LOG_W, 1)
        np.testing.assert_allclose(capped, LOG_W.min(), atol=1e-9)
        assert n_capped == 399

    def test_ties_are_touched_together(self) -> None:
        capped, n_capped = cap_to_design_effect(np.log([1.0, 1.0, 4.0, 4.0]), 1.2)
        # 4 (2 + 2 c^2) = 1.2 (2 + 2 c)^2
        c = (2.4 + math.sqrt(2.4**2 - 4 * 0.8**2)) / 1.6
        np.testing.assert_allclose(np.exp(capped), [1, 1, c, c], rtol=1e-12)
        assert n_capped == 2

    def test_weights_that_differ_by_more_than_a_float_holds(self) -> None:
        capped, n_capped = cap_to_design_effect([-800.0, 800.0, 800.0], 1.2)
        # 3 (1 + 2 c^2) = 1.2 (1 + 2 c)^2, in units of the smallest
        c = (4.8 + math.sqrt(4.8**2 - 4 * 1.2 * 1.8)) / 2.4
        np.testing.assert_allclose(capped, [-800, -800 + math.log(c), -800 + math.log(c)], atol=1e-12)
        assert n_capped == 2

    def test_zero_weights_set_a_floor(self) -> None:
        log_w = np.array([-math.inf, 0.0, 1.0, 2.0])
        assert cap_to_design_effect(log_w, 4 / 3).log_w.tolist() == [-math.inf, 0.0, 0.0, 0.0]
        assert design_effect(cap_to_design_effect(log_w, 1.5).log_w) == pytest.approx(1.5, rel=1e-12)
        with pytest.raises(ValueError, match=r"1 of 4 weights are zero, so that no cap brings it below 1\.333"):
            cap_to_design_effect(log_w, 1.3)

    @pytest.mark.parametrize("bound", [0.99, -1, math.inf, math.nan, "2", None, True])
    def test_other_bounds_are_refused(self, bound: Any) -> None:
        with pytest.raises(ValueError, match=r"`design_effect` is .*\. Use a finite number of 1 or more"):
            cap_to_design_effect(LOG_W, bound)


class TestEffectiveSampleSize:
    def test_closed_forms(self) -> None:
        assert effective_sample_size(np.full(7, 800.0)) == 7.0
        assert effective_sample_size([0.0, -800.0]) == 1.0
        assert effective_sample_size(np.log([1.0, 3.0])) == pytest.approx(16 / 10, rel=1e-14)
        w = np.exp(LOG_W)
        assert effective_sample_size(LOG_W) == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-12)


def test_the_effective_sample_size_of_a_ratio_counts_rows_of_both_samples() -> None:
    rng = np.random.default_rng(0)
    log_p, log_q, w_p, w_q = rng.normal(size=7), rng.normal(size=9), rng.random(7), rng.random(9)
    r_p, r_q = np.exp(log_p), np.exp(log_q)
    by_q = (w_q @ r_q) ** 2 / (w_q @ r_q**2 * w_q.sum())
    by_p = w_p.sum() / (w_p @ r_p)
    assert effective_sample_size_of_ratio(log_p, w_p, log_q, w_q, 9.0) == pytest.approx(
        9 * min(1, by_q, by_p), rel=1e-12
    )
    assert effective_sample_size_of_ratio(log_p - 50, w_p, log_q, w_q, 9.0) == pytest.approx(
        9 * min(1, by_q), rel=1e-12
    )
    assert effective_sample_size_of_ratio(log_p + 900, w_p, log_q, w_q, 9.0) == 1  # no weights leave less than one row


@pytest.mark.parametrize(("n", "largest"), [(1000, 20.0), (80, 20.0), (40, 10.0), (2, 1.0)])
def test_small_is_20_or_a_quarter_of_the_rows(n: int, largest: float) -> None:
    assert is_small(largest, n)
    assert not is_small(largest + 0.1, n)


def test_ratios_are_never_infinite() -> None:
    assert ratios_from_logs(np.array([-np.inf, 0.0, 1.0])).tolist() == [0.0, 1.0, math.e]
    assert np.isfinite(ratios_from_logs(np.array([1e4, 1e300]))).all()
