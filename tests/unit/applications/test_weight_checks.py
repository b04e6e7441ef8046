"""Checks of weights: overlap against closed forms, and columns that a check must not use."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowratio.applications.treatment import HeldOutRatios
from flowratio.applications.weight_checks import (
    SourceOverlap,
    balance_findings,
    form_check,
    overlap_findings,
    rarity_findings,
    reason_of,
    size_findings,
    source_overlap,
    warn_of_inversion,
)
from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.trust import wrong_form
from flowratio.diagnostics.verdict import Finding, verdict_of
from flowratio.samples.two_samples import TwoSamples, two_samples


def of_shift(m: float, n: int = 4000) -> tuple[TwoSamples, np.ndarray]:
    """Return samples of N(m, 1) and N(0, 1), and their true log r."""
    rng = np.random.default_rng(0)
    samples = two_samples(rng.normal(m, 1, (n, 1)), rng.normal(0, 1, (n, 1)))
    return samples, m * samples.X[:, 0] - m**2 / 2


def overlap_of(m: float) -> SourceOverlap:
    samples, log_r = of_shift(m)
    n = samples.n_p
    return source_overlap("controls", log_r[:n], samples.w_p, log_r[n:], samples.w_q)


def test_the_effective_sample_size_of_gaussians() -> None:
    """mean_q r² = exp(m²), so the share is exp(-m²). Its relative error is about 4 % at m = 0.7 and 4000 rows."""
    source = overlap_of(0.7)
    assert source.ess == pytest.approx(4000 * math.exp(-0.49), rel=0.16)
    assert source.n == 4000
    assert source.beyond == 0
    assert overlap_findings(source, "treated rows") == []


@pytest.mark.parametrize(("m", "verdict"), [(0.7, "reliable"), (2.3, "use with care"), (5.0, "do not use")])
def test_verdicts_follow_the_overlap(m: float, verdict: str) -> None:
    assert str(verdict_of(overlap_findings(overlap_of(m), "treated rows"))) == verdict


def held_out(log_r: np.ndarray) -> HeldOutRatios:
    """Return log r of a known ratio, which is the same in all of four folds."""
    return HeldOutRatios(log_r, np.tile(log_r, (4, 1)), np.arange(len(log_r)) % 4)


def test_a_wrong_form_is_found_and_a_right_one_is_not() -> None:
    samples, log_r = of_shift(1.0)
    assert wrong_form(form_check(samples, samples.w, held_out(log_r), 0)) == []
    rest = form_check(samples, samples.w, held_out(0 * log_r), 0)
    assert "wrong form" in wrong_form(rest)[0].words


def test_rows_of_integer_weight_are_checked_as_often() -> None:
    samples, log_r = of_shift(1.0, 300)
    w = np.repeat(3.0, 600)
    thrice = form_check(samples, w, held_out(log_r), 0)
    assert thrice.n_overlap == pytest.approx(3 * form_check(samples, w / 6, held_out(log_r), 0).n_overlap)


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_more_flexible_ratio_is_advice_only_if_confirmed(is_confirmed: bool) -> None:
    one = np.array([0.4])
    table = Balance(["age"], one, one, np.array([0.01]), one, one)
    (finding,) = balance_findings(table, 1000.0, is_confirmed)
    assert "age (before +0.40, after +0.40)" in finding.words
    assert ("more flexible" in finding.words) == is_confirmed


@pytest.mark.parametrize(("n", "verdict"), [(25, "reliable"), (15, "use with care"), (9, "do not use")])
def test_small_groups_lower_the_verdict(n: int, verdict: str) -> None:
    assert str(verdict_of(size_findings("treated rows", n))) == verdict
    source = source_overlap("controls", np.zeros(50), np.ones(50), np.zeros(n), np.ones(n))
    assert str(verdict_of(overlap_findings(source, "treated rows"))) == verdict


def test_rows_of_the_target_show_that_errors_are_larger() -> None:
    """Controls of equal weight have an effective size of 100, but the target has ratios of 9 and 0: 4.5 on average."""
    source = source_overlap("controls", np.log([9.0, 1e-9]), np.ones(2), np.zeros(100), np.ones(100))
    assert source.ess == pytest.approx(100)
    assert source.inflation == pytest.approx(math.sqrt(4.5))
    (finding,) = overlap_findings(source, "treated rows")
    assert "2.1 times as large as the controls suggest" in finding.words
    assert not finding.grave


def test_rare_categories_lower_the_verdict() -> None:
    samples: Any = SimpleNamespace(encoder=SimpleNamespace(rare_shares_={"shop": 0.3, "city": 0.02}))
    (finding,) = rarity_findings(samples)
    assert "shop (30 % of the rows)" in finding.words
    assert "city" not in finding.words
    assert rarity_findings(of_shift(0.1, 10)[0]) == []


def test_grave_findings_come_first() -> None:
    assert reason_of([Finding("B.", False), Finding("A.", True)], "good") == "A. B."
    assert reason_of([], "good") == "good"


@pytest.mark.parametrize("m", [0.0, 0.3, 2.0])
def test_a_ratio_of_the_right_direction_does_not_look_inverted(m: float) -> None:
    samples, log_r = of_shift(m)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_inversion(log_r[samples.n_p :], samples.w_q, "X_target", "X")


def test_an_inverted_ratio_is_named_with_its_remedy() -> None:
    samples, log_r = of_shift(0.5)
    expected = r"^`ratio` looks inverted: the mean of log r over the rows of `X` is 0\.1\d ± 0\.008\. .*"
    expected += r"`fit_samples\(X_target, X\)`\. If the samples were swapped, use `ratio\.inverse\(\)`\.$"
    with pytest.warns(UserWarning, match=expected):
        warn_of_inversion(-log_r[samples.n_p :], samples.w_q, "X_target", "X")


def test_inversion_needs_more_than_a_handful_of_rows_and_ignores_rows_of_weight_0() -> None:
    w = np.repeat([1.0, 0.0], [50, 50])
    log_r = np.repeat([-0.1, 5.0], [50, 50])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_inversion(log_r, w, "X_target", "X")
        warn_of_inversion(np.ones(3), np.ones(3), "X_target", "X")
    with pytest.warns(UserWarning, match="looks inverted"):
        warn_of_inversion(log_r, 1 - w, "X_target", "X")
