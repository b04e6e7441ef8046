"""Effective sample sizes, tails and flags where the ratio is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flowratio.diagnostics.overlap import overlap, size_text, stability
from flowratio.diagnostics.scored_sample import ScoredSample


def sample(log_r: np.ndarray) -> ScoredSample:
    return ScoredSample(np.zeros((len(log_r), 1)), log_r, np.full(len(log_r), 1 / len(log_r)))


def normal(n_p: int, n_q: int, shift: float, seed: int = 0) -> tuple[ScoredSample, ScoredSample]:
    """Return log r of N(shift, 1) and N(0, 1)."""
    rng = np.random.default_rng(seed)
    p, q = (sample(shift * rng.normal(m, 1, n) - shift**2 / 2) for m, n in ((shift, n_p), (0.0, n_q)))
    return p, q


def test_effective_sample_sizes_of_gaussians() -> None:
    p, q = normal(50_000, 50_000, 0.7)
    found = overlap(p, q, p.log_r, q.log_r)
    # n / E_q r^2 = n exp(-shift^2), up to a few standard errors of a mean with E_q r^8 < inf
    for size in (found.ess_q, found.ess_p):
        assert size == pytest.approx(50_000 * math.exp(-(0.7**2)), rel=0.05)
    assert found.inflation_q == pytest.approx(1, abs=0.03)
    assert found.kl == pytest.approx(0.7**2 / 2, abs=4 * 0.7 / math.sqrt(50_000) + 0.01)
    assert found.headroom == pytest.approx(math.log(50_000) - found.kl)


def test_standard_error_of_the_effective_sample_size_is_its_spread() -> None:
    found = [overlap(p, q, p.log_r, q.log_r) for p, q in (normal(10, 2_000, 0.6, seed) for seed in range(200))]
    spread = np.std([one.ess_q for one in found])
    assert np.mean([(one.ess_high - one.ess_low) / 2 for one in found]) == pytest.approx(
        spread, rel=0.2
    )  # 200 draws: 5 %, and its bias


def test_models_of_folds_add_to_the_standard_error() -> None:
    p, q = normal(100, 1_000, 0.5)
    slopes = np.array([0.8, 0.9, 1.0, 1.1, 1.2])
    alone, folds = (overlap(p, q, p.log_r, q.log_r, each) for each in (None, slopes[:, None] * q.log_r))
    sizes = [overlap(p, sample(b * q.log_r), p.log_r, q.log_r).ess_q for b in slopes]
    jackknife = math.sqrt(4 / 5 * np.sum((np.array(sizes) - np.mean(sizes)) ** 2))
    expected = math.hypot(alone.ess_high - alone.ess_q, jackknife)
    assert folds.ess_high - folds.ess_q == pytest.approx(expected)
    assert folds.ess_q - folds.ess_low == pytest.approx(expected)  # the shrinkage is smaller than the jackknife here


def test_noise_of_log_r_lowers_only_the_lower_end() -> None:
    """Models of folds that differ by noise, and have the same ESS: the true weights are less equal than theirs."""
    p, q = normal(100, 1_000, 0.5)
    noise = 0.5 * np.random.default_rng(1).choice([-1.0, 1.0], 1_000) * (q.log_r < np.median(q.log_r))
    each = np.array([q.log_r + noise, q.log_r - noise])
    alone, folds = (overlap(p, q, p.log_r, q.log_r, models) for models in (None, each))
    below, above = folds.ess_q - folds.ess_low, folds.ess_high - folds.ess_q
    assert below > 1.5 * above
    assert above < 1.5 * (alone.ess_high - alone.ess_q)


def test_the_ends_of_the_effective_sample_size_are_possible() -> None:
    p, q = sample(np.full(20, 0.01)), sample(np.r_[np.zeros(19), 0.01])
    few = overlap(p, sample(np.r_[np.full(19, -9.0), 9.0]), p.log_r, q.log_r)
    assert (few.ess_low, few.ess_q) == pytest.approx((1.0, 1.0), rel=1e-3)
    assert overlap(p, q, p.log_r, q.log_r).ess_high <= 20


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((80.0, 50.0, 110.0), "80 ± 30"),
        ((80.0, 50.2, 110.0), "80 ± 30"),
        ((80.0, 50.0, 85.0), "80 (50 to 85)"),
        ((3.2, 1.0, 7.1), "3.2 (1 to 7.1)"),
        ((12345.0, 12000.0, 12690.0), "12345 ± 345"),
    ],
)
def test_text_of_an_effective_sample_size(ends: tuple[float, float, float], text: str) -> None:
    assert size_text(*ends) == text


def test_stability_is_the_jackknife_variance() -> None:
    """Of the mean of n rows, the jackknife over single rows is the usual variance of a mean."""
    x = np.random.default_rng(0).normal(size=40)
    each = ((x.sum() - x) / 39)[:, None] + np.zeros(3)  # means without one row, the same for all rows of p
    assert stability(each, np.full(3, 1 / 3)) == pytest.approx(x.var(ddof=1) / 40)


def test_no_row_of_q_where_p_is_leaves_no_headroom_although_the_ess_is_large() -> None:
    p, q = sample(np.full(100, 30.0)), sample(np.full(200, -30.0))
    found = overlap(p, q, p.log_r, q.log_r)
    assert found.ess_q == pytest.approx(200)
    assert found.inflation_q == pytest.approx(math.sqrt(200))
    assert found.headroom == pytest.approx(math.log(200) - 60)
    assert not found.reliable_q


def test_flags_are_where_fewer_than_one_row_of_the_other_sample_is_expected() -> None:
    p, q = sample(np.log([1.0, 3.9, 4.1])), sample(np.log([1.0, 1.0, 1 / 2.9, 1 / 3.1]))
    found = overlap(p, q, p.log_r, q.log_r)  # n_q = 4, n_p = 3
    assert found.p_beyond_q.tolist() == [False, False, True]
    assert found.q_beyond_p.tolist() == [False, False, False, True]
    assert (found.share_p_beyond_q, found.share_q_beyond_p) == pytest.approx((1 / 3, 1 / 4))


def test_fewer_than_one_row_is_beyond_the_bound_for_the_true_ratio() -> None:
    _, q = normal(2, 1_000_000, 2.0)
    for log_bound in (2.0, 3.0, 5.0):  # what the docstring says of Markov: Q(r > t) < 1/t
        assert np.mean(q.log_r > log_bound) < math.exp(-log_bound)


def test_log_ratios_of_hundreds_give_finite_numbers() -> None:
    p, q = sample(np.linspace(-800, 800, 50)), sample(np.linspace(800, -800, 60))
    found = overlap(p, q, p.log_r, q.log_r)
    assert all(math.isfinite(x) for x in (found.ess_q, found.ess_p, found.ess_low, found.ess_high, found.inflation_q))
