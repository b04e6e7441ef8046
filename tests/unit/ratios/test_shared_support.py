"""How well weighted rows of q represent p, and the words of the warning."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flowratio.ratios.shared_support import SharedSupport, kish, shared_support
from flowratio.samples.two_samples import two_samples
from flowratio.weights import effective_sample_size

RNG = np.random.default_rng(0)
X_P, X_Q = RNG.normal(1, 1, 4000), RNG.normal(0, 1, 4000)
ONES = np.ones(4000)


def test_kish_by_brute_force() -> None:
    log_r = np.array([0.0, 1.0, -2.0])
    r = np.exp(log_r)
    assert kish(log_r, np.ones(3)) == pytest.approx(r.sum() ** 2 / (r @ r))
    w = np.array([0.5, 1.5, 0.7])
    assert kish(log_r, w) == pytest.approx((w @ r) ** 2 / np.square(w * r).sum())
    assert kish(log_r + 900, np.ones(3)) == pytest.approx(kish(log_r, np.ones(3)))


def test_integer_weights_count_rows() -> None:
    log_r, w = RNG.normal(size=20), RNG.integers(1, 5, 20)
    assert kish(log_r, w.astype(float)) == pytest.approx(effective_sample_size(np.repeat(log_r, w)))


def test_two_gaussians() -> None:
    # log r = x - 1/2, mean_q r² = e. r² is lognormal with sigma 2: its mean over 4000 rows is off by √(e⁴ - 1) / √4000
    support = shared_support(X_P - 0.5, ONES, X_Q - 0.5, ONES)
    assert support.ess == pytest.approx(4000 / math.e, rel=3 * math.sqrt(math.expm1(4) / 4000))
    assert support.ess == pytest.approx(effective_sample_size(X_Q - 0.5), rel=1e-12)
    assert support.n == pytest.approx(4000)
    assert support.is_far is None
    assert not support.is_poor


def test_far_rows_of_p_decide_where_the_weights_of_q_do_not_show_it() -> None:
    log_p = np.where(np.arange(4000) < 800, 12.0, 0.0)  # a fifth of p lies where q has no rows
    support = shared_support(log_p, ONES, np.zeros(4000), ONES)
    assert support.ess == pytest.approx(4000)
    assert support.is_poor
    assert support.is_far is not None
    assert support.is_far.mean() == 0.2
    # with gamma = 0 all weights are equal, and nothing depends on few rows
    assert not shared_support(log_p, ONES, np.zeros(4000), ONES, gamma=0.0).is_poor


def test_the_share_of_far_rows_is_that_of_their_weights() -> None:
    is_far, w = np.arange(4000) < 800, np.where(np.arange(4000) < 800, 6.0, 1.0)
    support = shared_support(np.where(is_far, 12.0, 0.0), w, np.zeros(4000), ONES)
    assert support.far_share == pytest.approx(0.6)  # 4800 of 8000
    assert support.problem(None).startswith("60 % of the rows of p lie where q has hardly any rows")


def test_words() -> None:
    rows = two_samples(X_P[:50], X_Q[:50])
    apart = two_samples(np.column_stack([X_P[:50], X_P[:50] + 90]), np.column_stack([X_Q[:50], X_Q[:50]]))
    small = SharedSupport(2.0, 50.0, None)
    assert small.problem(apart) == (
        "The effective sample size is 2 of 50, because column `x2` separates the samples. Leave the column out "
        "of the ratio if the outcome does not depend on it. Otherwise restrict p to rows like those of q, or see the "
        'page "Limits" (docs/limits.md).'
    )
    assert small.problem(rows, ("new", "old"), "Try this.") == (
        "The effective sample size is 2 of 50, because new and old hardly overlap. Weights depend on a handful of rows "
        "of old. Try this."
    )
    assert small.problem(None).startswith("The effective sample size is 2 of 50, because p and q hardly overlap")
    assert SharedSupport(15.0, 80.0, None).problem(rows, ("the target", "the source"), "Try this.") == (
        "The effective sample size is 15 of 80, because there are few rows. Weights depend on a handful of rows of the "
        "source. Try this."
    )
    hidden = SharedSupport(49.0, 50.0, np.arange(50) < 5)
    assert hidden.problem(rows, advice="Try this.") == (
        "10 % of the rows of p lie where q has hardly any rows. No weights of q can represent them, and the effective "
        "sample size of 49 of 50 does not show it. Try this."
    )


def test_three_columns_are_named() -> None:
    shift = np.full(5, 50.0)
    samples = two_samples(RNG.normal(size=(30, 5)) + shift, RNG.normal(size=(30, 5)))
    text = SharedSupport(1.0, 30.0, None).problem(samples)
    assert "columns `x1`, `x2` and `x3` separate the samples, and 2 more columns differ so. Leave the columns" in text
    assert "if the outcome does not depend on them. Otherwise" in text
