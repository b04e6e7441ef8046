from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel

from flowratio_paper.verdicts import (
    Answer,
    Gain,
    beyond,
    every,
    half_width,
    of_runs,
    standard_error,
    welch_quantile,
    with_interval,
)


@pytest.mark.parametrize(
    ("differences", "answer"),
    [
        ([1.0, 1.1, 0.9], Answer.YES),
        ([-1.0, -1.1, -0.9], Answer.NO),
        ([1.0, -0.5, 0.2], Answer.INCONCLUSIVE),
        ([0.1, 0.2, 0.3], Answer.INCONCLUSIVE),  # 3.5 standard errors, and the quantile of three runs is 4.3
        ([5.0], Answer.INCONCLUSIVE),
    ],
)
def test_beyond_the_t_interval(differences: list[float], answer: Answer) -> None:
    assert beyond(np.array(differences)) is answer


def test_one_run_is_no_mean() -> None:
    assert of_runs(1) == "one run"
    assert of_runs(1, "trial") == "one trial"
    assert of_runs(30, "trial") == "mean ± standard error of 30 trials"


@pytest.mark.parametrize("n", [2, 3, 10, 30])
def test_the_interval_is_that_of_the_paired_t_test(n: int) -> None:
    rng = np.random.default_rng(n)
    ours, other = rng.normal(size=(2, n)) + rng.normal(size=n)
    interval = ttest_rel(ours, other).confidence_interval(0.95)
    half = half_width(ours - other)
    assert (ours - other).mean() - half == pytest.approx(interval.low)
    assert (ours - other).mean() + half == pytest.approx(interval.high)


def test_verdicts_without_a_difference_are_wrong_in_one_case_of_twenty() -> None:
    runs = np.random.default_rng(0).normal(size=(20_000, 3))
    wrong = np.mean([beyond(one) is not Answer.INCONCLUSIVE for one in runs])
    assert wrong == pytest.approx(0.05, abs=5 * (0.05 * 0.95 / len(runs)) ** 0.5)
    test: Any = ttest_1samp(runs, 0, axis=1)
    assert np.mean(test.pvalue < 0.05) == wrong


@pytest.mark.parametrize(("n", "n_other", "spread"), [(10, 30, 1.0), (5, 30, 7.0), (3, 3, 0.2)])
def test_means_without_shared_seeds_are_compared_by_welch(n: int, n_other: int, spread: float) -> None:
    rng = np.random.default_rng(n)
    ours, other = rng.normal(size=n), spread * rng.normal(size=n_other)
    errors = standard_error(ours), standard_error(other)
    interval = ttest_ind(ours, other, equal_var=False).confidence_interval(0.95)
    half = float(welch_quantile(*errors, n, n_other) * np.hypot(*errors))
    assert 2 * half == pytest.approx(interval.high - interval.low)
    assert welch_quantile(0 * errors[0], 0 * errors[1], n, n_other) == pytest.approx(1.96, abs=1e-3)


def test_an_interval_in_words() -> None:
    assert with_interval(np.array([0.1, 0.2, 0.3]), ".2f") == "0.20 (-0.05 to 0.45)"  # 4.303 / √300 = .248
    assert with_interval(np.array([0.1])) == "+0.100"


def test_a_gain_within_its_interval_or_of_one_run_is_inconclusive() -> None:
    assert Gain(np.array([0.1, 0.1]), of_draws=0.05).verdict is Answer.YES  # 1.96 · .05 = .098
    assert Gain(np.array([-0.1, -0.1]), of_draws=0.05).verdict is Answer.NO
    assert Gain(np.array([0.1, 0.1]), of_draws=0.052).verdict is Answer.INCONCLUSIVE
    runs = np.array([0.20, 0.18])  # an error of .01 over two runs, whose quantile is 12.7
    assert Gain(runs, of_draws=0.001).verdict is Answer.YES
    assert Gain(runs - 0.1, of_draws=0.001).verdict is Answer.INCONCLUSIVE
    assert Gain(np.array([0.5]), of_draws=0.01).verdict is Answer.INCONCLUSIVE
    assert str(Gain(runs, of_draws=0.001)) == "+0.190 (+0.063 to +0.317)"


def test_what_all_runs_share_comes_on_top_of_their_spread() -> None:
    runs = np.array([0.19, 0.21])  # half an interval of .127
    assert Gain(runs).verdict is Answer.YES
    assert Gain(runs, shared=0.078).verdict is Answer.YES  # hypot(.127, .153) = .199
    assert Gain(runs, shared=0.079).verdict is Answer.INCONCLUSIVE
    assert str(Gain(runs, of_draws=0.03, shared=0.04)) == "+0.200 (+0.051 to +0.349)"
    assert str(Gain(runs[:1], shared=0.04)) == "+0.190, one run"


def test_every_is_no_if_one_is_no_and_yes_if_all_are() -> None:
    yes, no, inconclusive = Answer
    assert every([yes, inconclusive, no]) is no
    assert every([yes, inconclusive]) is inconclusive
    assert every([yes, yes]) is yes


def test_the_opposite_claim_has_the_opposite_answer() -> None:
    yes, no, inconclusive = Answer
    assert [one.opposite for one in Answer] == [no, yes, inconclusive]
    assert (Answer.of(True), Answer.of(False)) == (yes, no)
    assert [f"{one}" for one in Answer] == ["yes", "no", "inconclusive"]
