"""Checks of weights: overlap against closed forms, and columns that a check must not use."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowratio.applications.weight_checks import (
    SourceOverlap,
    form_findings,
    overlap_findings,
    plain_columns,
    rarity_findings,
    reason_of,
    source_overlap,
)
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


def test_a_wrong_form_is_found_and_a_right_one_is_not() -> None:
    samples, log_r = of_shift(1.0)
    assert form_findings(samples, samples.w, log_r, 0) == []
    assert "wrong form" in form_findings(samples, samples.w, 0 * log_r, 0)[0].words


def test_codes_of_categories_are_not_compared() -> None:
    samples: Any = SimpleNamespace(X=np.arange(6.0).reshape(2, 3), names=("a", "b", "c"), codes=(1,))
    X, names = plain_columns(samples)
    assert X.tolist() == [[0, 2], [3, 5]]
    assert names == ["a", "c"]


def test_rare_categories_lower_the_verdict() -> None:
    samples: Any = SimpleNamespace(encoder=SimpleNamespace(rare_shares_={"shop": 0.3, "city": 0.02}))
    (finding,) = rarity_findings(samples)
    assert "shop (30% of the rows)" in finding.words
    assert "city" not in finding.words
    assert rarity_findings(of_shift(0.1, 10)[0]) == []


def test_grave_findings_come_first() -> None:
    assert reason_of([Finding("B.", False), Finding("A.", True)], "good") == "A. B."
    assert reason_of([], "good") == "good"
