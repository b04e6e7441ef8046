"""Divergences of Gaussians have closed forms; their estimates are bounds, with standard errors that cover."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from flowratio import RatioEstimator, Verdict
from flowratio.applications.crossfit import CrossFitted, FoldScores, cross_fit, folds_of
from flowratio.applications.divergences import (
    KINDS,
    Divergence,
    FlexibleCheck,
    Kind,
    clipped_terms,
    divergence,
    estimate,
    kl_terms,
)
from flowratio.applications.result import gaussian_interval
from flowratio.applications.support import with_support
from flowratio.ratios.auto.convex import ConvexRatio
from flowratio.ratios.base import Requires
from flowratio.samples.two_samples import TwoSamples, two_samples


def truth(kind: str, m: float) -> float:
    """Return a divergence of N(m, 1) from N(0, 1)."""
    forms: dict[str, Any] = {
        "kl": m**2 / 2,
        "reverse-kl": m**2 / 2,
        "pearson": math.exp(m**2) - 1,
        "tv": math.erf(m / math.sqrt(8)),
        "hellinger": 1 - math.exp(-(m**2) / 8),
    }
    if kind in forms:
        return float(forms[kind])
    x = np.linspace(-10, 10 + m, 20_001)
    p, q = (np.exp(-((x - at) ** 2) / 2) / math.sqrt(2 * math.pi) for at in (m, 0.0))
    return float(np.sum(p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q))) * (x[1] - x[0]) / 2)


class Known(RatioEstimator):
    """log r of N(m, 1) and N(0, 1) in the first column, whatever is fitted."""

    requires: ClassVar[Requires] = Requires(units="own")

    def __init__(self, m: float = 1.0, off: float = 0.0) -> None:
        self.m, self.off = m, off

    def _fit(self, samples: TwoSamples) -> None:
        del samples

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return self.m * X[:, 0] - self.m**2 / 2 + self.off


def draw(m: float, n_p: int, n_q: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(m, 1, (n_p, 1)), rng.normal(0, 1, (n_q, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_p", "n_q"), [(20_000, 20_000), (2_000, 50_000), (50_000, 2_000)])
def test_the_true_ratio_gives_the_closed_form(kind: Kind, n_p: int, n_q: int) -> None:
    result = divergence(*draw(0.5, n_p, n_q), kind, ratio=Known(0.5), n_folds=2, random_state=0)
    assert result.value == result.raw == pytest.approx(result.held_out, abs=1e-12)  # nothing is fitted
    assert abs(result.value - truth(kind, 0.5)) < 4 * result.standard_error  # a normal mean is outside in 1 of 16 000
    # the least known is Pearson's: mean r⁴ = e^{6/4} = 4.5, so that 2000 rows know mean r² = 1.28 to 0.04
    assert result.standard_error < 0.05


@pytest.mark.parametrize("kind", ["kl", "reverse-kl", "js", "hellinger"])
def test_an_error_of_the_ratio_enters_squared(kind: Kind) -> None:
    X = draw(1.0, 20_000, 20_000)
    right = divergence(*X, kind, ratio=Known(1.0), n_folds=2, random_state=0)
    for off in (0.1, -0.1):
        wrong = divergence(*X, kind, ratio=Known(1.0, off), n_folds=2, random_state=0)
        # a bound loses at most off²/2 · e^|off|, and the sample adds noise of `off` times the standard error
        assert right.raw - wrong.raw < 0.006 + 0.1 * right.standard_error
        assert right.raw - wrong.raw > -0.1 * right.standard_error


def test_far_apart_kl_rests_on_log_r_itself() -> None:
    X_p, X_q = draw(6.0, 5_000, 5_000)  # KL = 18, and no row of q lies where p does
    result = divergence(X_p, X_q, ratio=Known(6.0), n_folds=2, random_state=0)
    assert abs(result.value - 18) < 4 * 6 / math.sqrt(5_000)  # log r has the standard deviation 6
    assert result.standard_error == pytest.approx(6 / math.sqrt(5_000), rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [0.0, 40.0, 1e3])
def test_nothing_is_ever_nan(kind: Kind, far: float) -> None:
    X_p, X_q = draw(far, 60, 50)
    result = divergence(X_p, X_q, kind, ratio="logistic", random_state=0)
    values = [result.value, result.standard_error, result.raw, result.confirmed, result.interval()[0]]
    assert np.isfinite(values).all()
    assert not math.isnan(result.interval()[1])
    assert result.value >= 0
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("kind", KINDS)
def test_identical_samples(kind: Kind) -> None:
    X = np.random.default_rng(0).normal(size=(500, 3))
    result = divergence(X, X, kind, ratio="logistic", random_state=0)
    assert result.interval()[0] == pytest.approx(0, abs=1e-12)
    assert result.value < 0.05


@pytest.mark.parametrize("m", [0.1, 0.5, 1.0, 2.0, 3.0])
def test_intervals_cover(m: float) -> None:
    normal, whole = (dict.fromkeys(KINDS, 0) for _ in range(2))
    truths = {kind: truth(kind, m) for kind in KINDS}
    for seed in range(200):
        scores = _linear(*draw(m, 400, 600, seed), seed)
        for kind in KINDS:
            result = estimate(cast(Kind, kind), scores, nothing_found(scores))
            low, high = result.interval()
            normal[kind] += abs(result.raw - truths[kind]) < 1.96 * result.standard_error
            whole[kind] += low <= truths[kind] <= high
    # 95 % ± 3 %, and 200 draws have a standard error of 1.5 %
    assert {kind: n for kind, n in whole.items() if n < 181} == {}
    # Pearson's is a bound only where ratios are above √n, and KL rests on the fits of five folds where they are above n
    left_out = {1.0: ["pearson"], 2.0: ["pearson"], 3.0: ["pearson", "kl", "reverse-kl"]}.get(m, [])
    normal = {kind: n for kind, n in normal.items() if kind not in left_out}
    assert {kind: n for kind, n in normal.items() if not 181 <= n <= 199} == {}


def nothing_found(scores: CrossFitted) -> FlexibleCheck:
    """Return the check of a ratio of the right form, on many rows."""
    return FlexibleCheck(np.zeros(len(scores.p.w)), np.zeros(len(scores.q.w)), 1000.0)


def _linear(X_p: np.ndarray, X_q: np.ndarray, seed: int) -> CrossFitted:
    """Cross-fit logistic regression of one column by Newton's method, all folds at once."""
    both = two_samples(X_p, X_q)
    fold, n_p = folds_of(both, 5, np.random.default_rng([seed, 0, 7])), len(X_p)
    X = both.X
    A = np.column_stack([X, np.ones(len(X))])  # (n, 2)
    y = both.y.astype(float)
    n_folds = int(fold.max()) + 1
    w = 1.0 * (fold != np.arange(n_folds)[:, None])  # (n_folds, n)
    theta = np.zeros((n_folds, 2))
    for _ in range(12):
        probability = expit(theta @ A.T)
        hessian = np.einsum("kn,ni,nj->kij", w * probability * (1 - probability), A, A, optimize=True)
        theta += np.linalg.solve(hessian, ((w * (y - probability)) @ A)[:, :, None])[:, :, 0]
    log_r = theta @ A.T - np.log((w @ y) / (w @ (1 - y)))[:, None]
    parts = slice(n_p), slice(n_p, None)
    return CrossFitted(*(FoldScores.of(log_r[:, part], both.w[part], fold[part]) for part in parts))


@pytest.mark.parametrize("kind", ["kl", "js", "tv"])
def test_what_covers_is_what_users_get(kind: Kind) -> None:
    X_p, X_q = draw(1.0, 400, 600)
    scores = _linear(X_p, X_q, 0)
    result = estimate(kind, scores, nothing_found(scores))
    public = divergence(X_p, X_q, kind, ratio="logistic", n_folds=5, random_state=0)  # with a small penalty
    assert public.raw == pytest.approx(result.raw, abs=0.2 * result.standard_error)
    assert public.standard_error == pytest.approx(result.standard_error, rel=0.1)


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("kind", ["kl", "reverse-kl"])
def test_kl_beyond_all_rows_is_announced(kind: Kind, n: int) -> None:
    result = divergence(*draw(10.0, n, n), kind, ratio="logistic", random_state=0)  # KL = 50
    assert (result.verdict, result.limit) == ("use with care", "near the ln n ceiling")
    assert "separates the samples except for 0 of" in result.reason
    low, high = result.interval()
    assert 1 < low < 50
    assert high == math.inf
    assert result.to_dict()["interval"][1] is None
    assert "or more)\nVerdict: use with care. " in str(result)


@pytest.mark.parametrize("kind", KINDS)
def test_constants(kind: Kind) -> None:
    largest = {"js": math.log(2), "tv": 1.0, "hellinger": 1.0}.get(kind, math.inf)
    for n in (20, 1000):
        result = divergence(np.ones((n, 1)), np.zeros((n, 1)), kind, ratio="logistic", random_state=0)
        assert result.limit in ("lower bound", "near the ln n ceiling")
        assert result.interval()[1] == largest
        assert result.standard_error > 0.5 / n  # rows that are all alike do not know the next one
    with pytest.raises(ValueError, match="All rows of `X_p` and `X_q` are equal"):
        divergence(np.ones((20, 1)), np.ones((30, 1)), kind)


def test_large_ratios_are_announced() -> None:
    result = divergence(*draw(3.0, 2000, 2000), ratio=Known(3.0), n_folds=2, random_state=0)
    assert (result.verdict, result.limit) == (
        "use with care",
        "near the ln n ceiling",
    )  # r > n for x > 4.03, which are 15 % of the rows
    assert "15 % of the rows have a ratio above 2000, the number of rows" in result.reason
    assert result.confirmed < 4.5 < result.interval()[1] == math.inf
    near = divergence(*draw(1.0, 2000, 2000), ratio=Known(1.0), n_folds=2, random_state=0)
    assert (near.verdict, near.limit) == ("reliable", "none")
    assert near.interval()[1] < 1


def test_pearson_says_that_it_is_cut_off() -> None:
    for seed in range(10):
        result = divergence(*draw(2.0, 400, 700, seed), "pearson", ratio=Known(2.0), n_folds=2, random_state=0)
        assert (result.verdict, result.limit) == ("use with care", "lower bound")
        assert "above √n = 26.5, where it is cut off" in result.reason
        low, high = result.interval()
        assert low < truth("pearson", 2.0) < high == math.inf
    hardly = divergence(*draw(1.2, 100, 100, 3), "pearson", ratio=Known(0.5), n_folds=2, random_state=0)
    assert (hardly.limit, "effective sample size" in hardly.reason) == ("lower bound", True)


def test_what_is_confirmed_is_a_bound_whatever_the_ratio() -> None:
    X_p, X_q = draw(1.0, 100_000, 100_000)  # KL = 0.5
    for slope in (0.5, 1.0, 3.0):
        of_p, of_q = clipped_terms(slope * (X_p[:, 0] - 0.5), slope * (X_q[:, 0] - 0.5), 20.0)
        assert of_p.mean() + of_q.mean() < 0.5 + 4 * math.sqrt((of_p.var() + of_q.var()) / 1e5)


def test_a_wrong_ratio_is_not_to_be_used() -> None:
    result = divergence(*draw(1.0, 500, 500), ratio=Known(-2.0), n_folds=2, random_state=0)
    assert (result.value, result.verdict) == (0.0, "do not use")
    assert "worse than none" in result.reason
    assert result.interval() == (0.0, math.inf)


def test_an_overfitted_ratio_is_not_to_be_used() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    from flowratio import ClassifierRatio

    ratio = ClassifierRatio(KNeighborsClassifier(3))
    result = divergence(*draw(0.5, 200, 200), "js", ratio=ratio, n_folds=3, random_state=0)
    assert (result.verdict, result.raw) == ("do not use", result.held_out)
    assert "overfitted" in result.reason


def test_swapping_the_samples_turns_kl_over() -> None:
    X_p, X_q = draw(1.0, 300, 500)
    scores = _linear(X_p, X_q, 0)
    check = nothing_found(scores)
    there, back = estimate("kl", scores, check), estimate("reverse-kl", scores.swapped(), check.swapped())
    assert (there.raw, there.standard_error) == (back.raw, back.standard_error)


def test_the_correction_cancels_for_the_true_ratio_whatever_its_reach() -> None:
    X_p, X_q = draw(1.0, 200_000, 200_000)
    for reach in (0.5, 3.0, 400.0):
        of_p, of_q = kl_terms(X_p[:, 0] - 0.5, X_q[:, 0] - 0.5, reach)
        correction = of_p - (X_p[:, 0] - 0.5)
        error = math.sqrt(correction.var() / 2e5 + of_q.var() / 2e5)
        assert abs(correction.mean() + of_q.mean()) < 4 * error


def _same(one: Divergence, other: Divergence) -> bool:
    return (one.raw, one.standard_error, one.reason) == (other.raw, other.standard_error, other.reason)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_are_not_there(kind: Kind) -> None:
    X_p, X_q = draw(1.0, 200, 300)
    whole = divergence(X_p, X_q, kind, ratio=Known(1.0), random_state=0)
    w = np.repeat([1.0, 0.0], [300, 2000])
    more = np.concatenate([X_q, np.full((2000, 1), 1.0)])
    assert _same(divergence(X_p, more, kind, ratio=Known(1.0), sample_weight_q=w, random_state=0), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_count_rows_and_others_have_no_scale(kind: Kind) -> None:
    X_p, X_q = draw(1.0, 200, 300)

    def unchecked(*rows: Any) -> Divergence:
        samples = two_samples(*rows)
        fold = folds_of(samples, 2, np.random.default_rng(0))
        scores = cross_fit(Known(1.0), samples, fold, 0)  # Known learns from no copy, but a flexible check would
        return estimate(kind, scores, nothing_found(scores))

    def weighted(w: float) -> Divergence:
        return unchecked(X_p, X_q, np.full(200, w), np.full(300, w))

    whole = unchecked(X_p, X_q)
    assert _same(weighted(1.0), whole)
    assert _same(weighted(0.3), whole)
    doubled = unchecked(np.concatenate([X_p, X_p]), np.concatenate([X_q, X_q]))
    assert weighted(2.0).raw == pytest.approx(doubled.raw, abs=1e-12)
    assert weighted(2.0).standard_error == pytest.approx(doubled.standard_error, rel=1e-3)
    assert weighted(2.0).standard_error < 0.8 * whole.standard_error or kind == "pearson"  # which then reaches further


def test_unequal_weights_are_worth_fewer_rows() -> None:
    X_p, X_q = draw(1.0, 400, 400)
    w = np.random.default_rng(1).uniform(0.1, 3.0, 400)
    result = divergence(X_p, X_q, "js", ratio=Known(1.0), sample_weight_p=w, n_folds=2, random_state=0)
    share, of_p = w / w.sum(), (math.log(2) + np.log(expit(X_p[:, 0] - 0.5))) / 2
    assert result.standard_error**2 > float(share**2 @ (of_p - share @ of_p) ** 2)
    assert abs(result.raw - truth("js", 1.0)) < 4 * result.standard_error


def test_what_the_automatic_choice_did_not_try_is_part_of_the_reason() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q, note = rng.normal(0, 1.6, (600, 1)), rng.normal(size=(600, 1)), "3 of 4 candidates were not fully tried."
    result = divergence(X_p, X_q, "js", ratio=ConvexRatio(["logistic"], note=note), n_folds=5, random_state=0)
    assert result.reason.endswith(f"more. {note}")  # no advice to use what was used
    assert "wrong form" in result.reason


@pytest.mark.parametrize("kind", ["kl", "js", "tv", "hellinger"])
def test_a_ratio_of_the_wrong_form_gives_a_lower_bound(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.normal(0, 1.6, (600, 1)), rng.normal(size=(600, 1))  # log r is quadratic
    result = divergence(X_p, X_q, kind, ratio="logistic", n_folds=5, random_state=0)
    assert (result.verdict, result.limit) == ("use with care", "lower bound")
    assert "The ratio has the wrong form: a flexible check finds" in result.reason
    assert "Use a more flexible ratio, such as 'quadratic', 'boosting' or 'auto'." in result.reason
    x = np.linspace(-14, 14, 20_001)
    p, q = np.exp(-((x / 1.6) ** 2) / 2) / 1.6, np.exp(-(x**2) / 2)
    forms = {
        "kl": np.sum(p * np.log(p / q)) / p.sum(),
        "js": np.sum(p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q))) / 2 / p.sum(),
        "tv": np.abs(p - q).sum() / 2 / p.sum(),
        "hellinger": 1 - np.sqrt(p * q).sum() / p.sum(),
    }
    assert result.interval()[0] <= forms[kind] <= result.interval()[1]
    right = divergence(X_p, X_q, kind, ratio="qda", n_folds=5, random_state=0)
    if kind == "kl":  # one row of p lies far from every row of q, where only the form of the ratio says what r is
        assert "1 row of p lies far from every row of q in 'x1'" in right.reason
    else:
        assert right.verdict == "reliable"
    assert abs(right.raw - forms[kind]) < 3 * right.standard_error


def test_rare_categories_lower_the_verdict() -> None:
    class Encoder:
        rare_shares_: ClassVar[dict[str, float]] = {"shop": 0.4}

        def category_codes(self, X: np.ndarray) -> dict[str, Any]:
            return {}

    X_p, X_q = draw(1.0, 100, 100)
    result = divergence(X_p, X_q, ratio="logistic", random_state=0)
    samples = two_samples(X_p, X_q)
    assert with_support(result, samples).reason == result.reason
    lower = with_support(result, replace(samples, encoder=cast(Any, Encoder())))
    assert (result.verdict, lower.verdict, lower.limit) == ("reliable", "use with care", "lower bound")
    assert "shop (40 % of the rows)" in lower.reason
    few = SimpleNamespace(rare_shares_={"shop": 0.04}, category_codes=lambda X: {})
    stated = with_support(result, replace(samples, encoder=cast(Any, few)))
    assert (stated.verdict, stated.limit) == (result.verdict, result.limit)
    assert stated.reason.endswith("one by one: shop (4.0 % of the rows).")


def test_an_interval_is_normal_and_cut_off() -> None:
    low, high = gaussian_interval(1.0, 0.1, 0.95)
    assert (low, high) == (pytest.approx(0.804, abs=1e-3), pytest.approx(1.196, abs=1e-3))
    assert gaussian_interval(0.0, 0.1, 0.95)[0] == 0.0
    assert gaussian_interval(0.65, 0.1, 0.95, math.log(2))[1] == math.log(2)


def test_it_prints_with_its_verdict() -> None:
    result = divergence(*draw(1.0, 200, 200), ratio="logistic", random_state=0)
    assert str(result).startswith("KL(p ‖ q): ")
    assert " nats (95 % interval: " in str(result)
    assert "\nVerdict: reliable. Fitted and held-out rows agree to" in str(result)
    assert result.to_dict()["verdict"] == "reliable"


def test_bad_input() -> None:
    X_p, X_q = draw(1.0, 30, 30)
    with pytest.raises(ValueError, match=r"`kind` is 'kld'\. Use one of kl, reverse-kl, js"):
        divergence(X_p, X_q, "kld")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`X_p` has 1 columns but `X_q` has 2"):
        divergence(X_p, np.zeros((30, 2)))
    with pytest.raises(ValueError, match=r"`n_folds` is 1\. Use an integer of 2 or more"):
        divergence(X_p, X_q, n_folds=1)
    for kind in ([], None):
        with pytest.raises(ValueError, match=r"`kind` is .*\. Use one of kl"):
            divergence(X_p, X_q, kind)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"`X_p` has 3 rows\. Give at least 4 rows of each"):
        divergence(X_p[:3], X_q)
    with pytest.raises(ValueError, match=r"`X_q` has 2 rows of positive `sample_weight_q`\. Give at least 4"):
        divergence(X_p, X_q, sample_weight_q=np.arange(30) < 2)
    with pytest.raises(ValueError, match="`sample_weight_p` is not an array of numbers"):
        divergence(X_p, X_q, sample_weight_p=["a"] * 30)
    with pytest.raises(ValueError, match=r"`sample_weight_q` has shape \(29,\) but `X_q` has 30 rows"):
        divergence(X_p, X_q, sample_weight_q=np.ones(29))
    with pytest.raises(ValueError, match="`sample_weight_p` is zero on all 30 rows"):
        divergence(X_p, X_q, sample_weight_p=np.zeros(30))
    with pytest.raises(ValueError, match=r"`ratio` is 'logstic'\. Did you mean 'logistic'\? Use a ratio, or one of"):
        divergence(X_p, X_q, ratio="logstic")
    for level in (95, "95", True):
        with pytest.raises(ValueError, match="`level` is "):
            divergence(X_p, X_q, ratio="logistic").interval(level)  # pyright: ignore[reportArgumentType]


def test_categories_of_one_sample_only_are_named_and_lower_the_verdict() -> None:
    rng = np.random.default_rng(0)
    shops = [f"s{k:03d}" for k in range(600)]
    P, Q = (pl.DataFrame({"shop": rng.choice(shops[first : first + 400], 3000)}) for first in (0, 200))
    tv = divergence(P, Q, "tv", ratio="logistic", random_state=0)  # the true value is 0.5
    assert abs(tv.value - 0.5) < 0.1
    assert tv.verdict is Verdict.CARE
    assert re.search(r"In 'shop', (4[5-9]|5[0-5]) % of the rows of p and .* a category that the other", tv.reason)
    kl = divergence(P, Q, "kl", ratio="logistic", random_state=0)  # it is infinite
    assert kl.interval()[1] == math.inf
    same = divergence(P[:1500], P[1500:], "tv", ratio="logistic", random_state=0)
    assert "have a category that the other" not in same.reason


@pytest.mark.parametrize("ratio", ["boosting", "additive"])
def test_rows_far_from_the_other_sample_make_a_lower_bound(ratio: str) -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.standard_t(3, (2000, 1)), rng.normal(size=(2000, 1))
    kl = divergence(X_p, X_q, "kl", ratio=ratio, random_state=0)  # the true value is 0.645, by quadrature
    assert kl.verdict is not Verdict.RELIABLE
    assert kl.verdict is Verdict.DO_NOT_USE or kl.interval()[1] == math.inf
    js = divergence(X_p, X_q, "js", ratio=ratio, random_state=0)
    assert "far from every row" not in js.reason


def test_a_wide_interval_is_not_reliable() -> None:
    rng = np.random.default_rng(0)
    X_p, X_q = rng.standard_t(2, (2000, 1)), rng.normal(size=(2000, 1))
    assert divergence(X_p, X_q, "kl", ratio="qda", random_state=0).verdict is not Verdict.RELIABLE
