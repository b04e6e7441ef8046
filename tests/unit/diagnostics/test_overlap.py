"""Effective draws, tails and flags where the ratio is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flowratio.diagnostics.overlap import overlap
from flowratio.diagnostics.scored_sample import ScoredSample


def sample(log_r: np.ndarray) -> ScoredSample:
    return ScoredSample(np.zeros((len(log_r), 1)), log_r, np.full(len(log_r), 1 / len(log_r)))


def normal(n_p: int, n_q: int, shift: float, seed: int = 0) -> tuple[ScoredSample, ScoredSample]:
    """Return log r of N(shift, 1) and N(0, 1)."""
    rng = np.random.default_rng(seed)
    p, q = (sample(shift * rng.normal(m, 1, n) - shift**2 / 2) for m, n in ((shift, n_p), (0.0, n_q)))
    return p, q


def test_effective_draws_of_normal_laws() -> None:
    p, q = normal(50_000, 50_000, 0.7)
    found = overlap(p, q, p.log_r, q.log_r)
    # n / E_q r^2 = n exp(-shift^2), up to a few standard errors of a mean with E_q r^8 < inf
    for draws in (found.ess_q, found.ess_p, found.draws_q, found.draws_p):
        assert draws == pytest.approx(50_000 * math.exp(-(0.7**2)), rel=0.05)


def test_draws_notice_that_no_row_of_q_is_where_p_is_and_the_ess_does_not() -> None:
    p, q = sample(np.full(100, 30.0)), sample(np.full(200, -30.0))
    found = overlap(p, q, p.log_r, q.log_r)
    assert found.ess_q == pytest.approx(200)
    assert found.draws_q == 1.0
    assert found.inflation == pytest.approx(math.sqrt(200))
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
    assert all(math.isfinite(x) for x in (found.ess_q, found.ess_p, found.draws_q, found.draws_p, found.inflation))
