"""Rules at their edges: a finding must be beyond chance and large enough to matter."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from flowratio.diagnostics.balance import Balance
from flowratio.diagnostics.identities import BoundedIdentity, Identities, Identity
from flowratio.diagnostics.overlap import Overlap
from flowratio.diagnostics.reliability import Reliability
from flowratio.diagnostics.residual import Residual
from flowratio.diagnostics.scored_sample import ScoredSample, Separation
from flowratio.diagnostics.trust import grouped, unstable, wrong_form, wrong_slope
from flowratio.diagnostics.verdict import (
    direction,
    errors,
    far_out,
    imbalanced,
    low_overlap,
    miscalibrated,
    out_of_range,
    reliability_advice,
    verdict_of,
    wrong_scale,
)

NONE = np.zeros(100, bool)
OVERLAP = Overlap(
    ess_q=80.0,
    ess_error=5.0,
    ess_p=80.0,
    kl=0.1,
    headroom=4.5,
    inflation_q=1.1,
    inflation_p=1.1,
    k_hat_q=0.5,
    k_hat_p=0.5,
    n_p=100.0,
    n_q=100.0,
    p_beyond_q=NONE,
    q_beyond_p=NONE,
    share_p_beyond_q=0.0,
    share_q_beyond_p=0.0,
)
REST = Residual(np.zeros(100), 0.0, 0.01, 0.0, 0.0, 500.0, 500.0)
RIGHT = Identities(Identity(0.0, 0.1, 0.0), Identity(0.0, 0.1, 0.0), BoundedIdentity(0.4, 0.4, 0.01, 0.0, 0.0))
ONE = np.array([0.5])
CURVE = Reliability(ONE, ONE, ONE, ONE, ONE, 0.02, 0.02, 10.0, 10, 0.5, 1.0, 0.1)
CHANCE = Separation(0.5, 0.02, 0.0)


def balanced(after: float, error: float) -> Balance:
    return Balance(["a"], np.array([1.0]), np.array([after]), np.array([error]), ONE, ONE)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    findings = [
        *direction(Separation(0.8, 0.01, 30.0), 0.2, 0.01),
        *low_overlap(OVERLAP),
        *wrong_scale(RIGHT, OVERLAP),
        *miscalibrated(CURVE),
        *wrong_slope(CURVE, 1.0),
        *wrong_form(REST),
        *unstable(0.05),
        *grouped({"shop": 0.04}),
        *imbalanced(balanced(0.05, 0.01), CHANCE, CURVE, 80.0),
    ]
    assert findings == []
    assert verdict_of(findings) == "reliable"


@pytest.mark.parametrize(("auc", "z", "n"), [(0.4, -5.0, 1), (0.4, -2.0, 0), (0.6, 5.0, 0)])
def test_direction(auc: float, z: float, n: int) -> None:
    assert len(direction(Separation(auc, 0.02, z), 0.1, 0.1)) == n


@pytest.mark.parametrize(("score", "error", "n"), [(-0.1, 0.01, 1), (-0.1, 0.05, 0), (-0.005, 1e-6, 0), (0.1, 0.01, 0)])
def test_score_below_that_of_no_ratio(score: float, error: float, n: int) -> None:
    assert len(direction(CHANCE, score, error)) == n


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"ess_q": 19.0}, "use with care"),
        ({"ess_q": 9.0}, "do not use"),
        ({"headroom": 3.4}, "use with care"),
        ({"headroom": 1.9}, "do not use"),
        ({"inflation_q": 2.1}, "use with care"),
        ({"k_hat_q": 0.51}, "use with care"),  # of 100 rows: 1 - 1/log10(100)
        ({"k_hat_q": 0.69, "n_q": 1e4}, "reliable"),
        ({"k_hat_q": 0.71, "n_q": 1e4}, "use with care"),
        ({"k_hat_q": math.inf}, "reliable"),  # not known, but most rows are left
        ({"k_hat_q": math.inf, "ess_q": 40.0}, "use with care"),
        ({"k_hat_q": math.inf, "n_q": 20.0, "ess_q": 19.0}, "use with care"),
        ({"k_hat_q": -math.inf, "n_q": 20.0, "ess_q": 20.0}, "reliable"),
        ({"k_hat_q": 1.1, "ess_q": 45.0}, "do not use"),
        ({"k_hat_q": 1.1}, "use with care"),  # a tail of nearly equal weights
        ({"k_hat_p": 3.0}, "reliable"),  # weights 1/r are not judged
        ({"share_p_beyond_q": 0.02}, "use with care"),
        ({"share_p_beyond_q": 0.3}, "do not use"),
        ({"share_q_beyond_p": 0.9}, "reliable"),  # weights r are nearly 0 there
        ({"n_q": 40.0, "ess_q": 15.0, "k_hat_q": 0.3}, "reliable"),  # few rows, but a good part of them
    ],
)
def test_few_draws(change: dict[str, float], verdict: str) -> None:
    assert verdict_of(low_overlap(replace(OVERLAP, **change))) == verdict


def test_scale_is_wrong_only_beyond_chance_and_by_a_fifth() -> None:
    def bounded(z: float, log_factor: float) -> Identities:
        return replace(RIGHT, bounded=BoundedIdentity(0.5, 0.4, 0.01, z, log_factor))

    assert verdict_of(wrong_scale(bounded(20.0, 0.1), OVERLAP)) == "reliable"
    assert verdict_of(wrong_scale(bounded(2.0, 1.0), OVERLAP)) == "reliable"
    assert verdict_of(wrong_scale(bounded(-4.0, -0.3), OVERLAP)) == "use with care"
    assert "too small by a factor of about 1.35" in wrong_scale(bounded(-4.0, -0.3), OVERLAP)[0].words
    far = wrong_scale(bounded(40.0, 5.0), OVERLAP)
    assert verdict_of(far) == "use with care"  # self-normalized weights are as good as those of the truth
    assert "Divide it by this constant" in far[0].words


def test_means_of_heavy_tails_are_not_blamed() -> None:
    off = replace(RIGHT, ratio_q=Identity(1.0, 0.1, 6.0))
    assert wrong_scale(off, OVERLAP)[0].words.startswith("mean_q r is 2.72, 6.0 standard errors from 1")
    assert wrong_scale(off, replace(OVERLAP, k_hat_q=0.9)) == []
    assert wrong_scale(off, replace(OVERLAP, ess_q=5.0)) == []
    assert wrong_scale(off, replace(OVERLAP, k_hat_q=math.inf, ess_q=40.0)) == []
    assert len(wrong_scale(off, replace(OVERLAP, k_hat_q=math.inf))) == 1  # 66 of 100 rows: no tail to speak of


@pytest.mark.parametrize(
    ("error", "p_value", "verdict"),
    [(0.04, 1e-9, "reliable"), (0.06, 0.01, "reliable"), (0.2, 1e-4, "use with care"), (0.3, 1e-9, "do not use")],
)
def test_calibration(error: float, p_value: float, verdict: str) -> None:
    assert verdict_of(miscalibrated(replace(CURVE, error=error, p_value=p_value))) == verdict


@pytest.mark.parametrize(
    ("slope", "error", "words"),
    [
        (0.5, 0.1, "overconfident, and log r should be multiplied by 0.5. Fit with a stronger penalty or more rows"),
        (
            2.0,
            0.1,
            "underconfident, and log r should be multiplied by 2. Fit with a weaker penalty, or use a more flexible",
        ),
        (-1.0, 0.1, "inverted, and log r should be multiplied by -1. Use 1/r"),
        (2.0, 0.5, "see `plot()`. Try another ratio"),  # by chance
        (1.1, 0.01, "see `plot()`. Try another ratio"),  # small
    ],
)
def test_cure_is_that_of_the_slope(slope: float, error: float, words: str) -> None:
    curve = replace(CURVE, error=0.06, p_value=1e-4, slope=slope, slope_error=error)
    assert words in miscalibrated(curve)[0].words
    left = imbalanced(balanced(0.3, 0.01), CHANCE, curve, 80.0)[0].words
    assert ("fix that first" in left) == (abs(slope - 1) > 3 * error and abs(slope - 1) > 0.15)
    assert ("misses a" in left) != ("fix that first" in left)


@pytest.mark.parametrize(
    ("after", "error", "verdict"),
    [(0.09, 0.001, "reliable"), (0.3, 0.1, "reliable"), (-0.3, 0.05, "use with care"), (0.6, 0.05, "do not use")],
)
def test_balance(after: float, error: float, verdict: str) -> None:
    assert verdict_of(imbalanced(balanced(after, error), CHANCE, CURVE, 80.0)) == verdict
    assert imbalanced(balanced(after, error), CHANCE, CURVE, 5.0) == []


@pytest.mark.parametrize(
    ("auc", "z", "verdict"),
    [(0.58, 9.0, "reliable"), (0.8, 2.0, "reliable"), (0.65, 4.0, "use with care"), (0.8, 9.0, "do not use")],
)
def test_classifier_after_weighting(auc: float, z: float, verdict: str) -> None:
    assert verdict_of(imbalanced(balanced(0.0, 0.1), Separation(auc, 0.02, z), CURVE, 80.0)) == verdict


def test_rows_beyond_every_row_of_q_are_told_whatever_the_ratio_says() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.uniform(0, 1, (400, 2)), rng.uniform(0, 1, (400, 2))
    X_p[:, 1] += 0.25  # a quarter of p beyond q: 4 binomial errors above the bound
    p, q = (ScoredSample(X, np.zeros(400), np.full(400, 1 / 400)) for X in (X_p, X_q))
    (finding,) = out_of_range(p, q, ["a", "b"])
    assert "in b (2" in finding.words
    assert not finding.grave
    assert out_of_range(q, q, ["a", "b"]) == []
    X_p[:, 1] += 0.3
    assert out_of_range(ScoredSample(X_p, p.log_r, p.share), q, ["a", "b"])[0].grave


def test_few_rows_far_from_every_row_of_q_are_named() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    X_p[0, 1] = 30.0
    p, q = (ScoredSample(X, np.zeros(400), np.full(400, 1 / 400)) for X in (X_p, X_q))
    assert out_of_range(p, q, ["a", "b"]) == []
    (finding,) = far_out(p, q, ["a", "b"])
    assert finding.words == "Rows of p lie far from every row of q in b (1 row): their log r is extrapolated."
    assert not finding.grave


def test_numbers_are_written_short() -> None:
    assert [errors(z) for z in (-3.21, 1e6)] == ["3.2 standard errors", "over 1000 standard errors"]
    assert (
        "by a factor of about e^800"
        in wrong_scale(replace(RIGHT, bounded=BoundedIdentity(0.9, 0.1, 0.01, 50.0, 800.0)), OVERLAP)[0].words
    )


def test_advice_is_that_of_the_slope() -> None:
    assert reliability_advice(2.0, 0.1) == "Fit with a weaker penalty, or use a more flexible ratio"


@pytest.mark.parametrize(
    ("z", "error_p", "n", "verdict"),
    [
        (2.4, 0.5, 500.0, "reliable"),  # by chance
        (9.0, 0.04, 500.0, "reliable"),  # too small to matter
        (2.6, 0.5, 500.0, "use with care"),
        (9.0, 1.6, 500.0, "do not use"),
        (0.0, 0.0, 199.0, "use with care"),  # too few rows to find anything
    ],
)
def test_form(z: float, error_p: float, n: float, verdict: str) -> None:
    findings = wrong_form(replace(REST, gain=0.01 * z, z=z, error_p=error_p, n_q=n))
    assert verdict_of(findings) == verdict
    assert all("wrong form" in finding.words for finding in findings)


@pytest.mark.parametrize(
    ("stability", "verdict"),
    [(None, "reliable"), (0.09, "reliable"), (0.11, "use with care"), (2.1, "do not use")],
)
def test_stability(stability: float | None, verdict: str) -> None:
    assert verdict_of(unstable(stability)) == verdict


@pytest.mark.parametrize(
    ("slope", "error", "word"),
    [(0.74, 0.1, "overconfident"), (1.4, 0.1, "underconfident"), (0.74, 0.2, ""), (0.85, 0.01, ""), (1.0, 1e6, "")],
)
def test_slope_alone(slope: float, error: float, word: str) -> None:
    findings = wrong_slope(replace(CURVE, slope=slope, slope_error=error, error=0.03), 1.0)
    assert [word in finding.words for finding in findings] == [True] * bool(word)
    assert wrong_slope(replace(CURVE, slope=slope, slope_error=error, error=0.03), 0.1) == []  # nearly constant


def test_rare_categories_lower_the_verdict() -> None:
    (finding,) = grouped({"shop": 0.2, "town": 0.06, "color": 0.01})
    assert "one by one: shop (20 % of the rows), town (6.0 % of the rows)." in finding.words
    assert not finding.grave


def test_column_that_weighting_makes_worse_is_named() -> None:
    worse = Balance(["a", "b"], np.array([1.0, 0.02]), np.array([0.01, 0.16]), np.array([0.05, 0.05]), ONE, ONE)
    (finding,) = imbalanced(worse, CHANCE, CURVE, 80.0)
    assert finding.words == "Weighting moves columns of q away from p: b (before +0.02, after +0.16)."
    assert imbalanced(replace(worse, standard_error=np.array([0.05, 0.06])), CHANCE, CURVE, 80.0) == []  # by chance


def test_columns_that_the_ratio_misses_are_named_only_if_it_is_confirmed() -> None:
    (advice,), (plain,) = (imbalanced(balanced(0.3, 0.01), CHANCE, CURVE, 80.0, known) for known in (True, False))
    assert advice.words.endswith("The ratio misses a.")
    assert "misses" not in plain.words
