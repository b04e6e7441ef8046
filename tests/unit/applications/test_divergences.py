"""Divergences of Gaussians have closed forms; their estimates are bounds, with standard errors that cover."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from flowratio import RatioEstimator
from flowratio.applications.crossfit import CrossFitted, Sample
from flowratio.applications.divergences import KINDS, Kind, divergence, estimate, interval, kl_terms, two_samples


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

    def integrand(x: float) -> float:
        p, q = float(norm.pdf(x, m)), float(norm.pdf(x))
        return 0.5 * (p * math.log(2 * p / (p + q)) + q * math.log(2 * q / (p + q)))

    total: Any = quad(integrand, -10, 10 + m)
    return total[0]


class Known(RatioEstimator):
    """log r of N(m, 1) and N(0, 1) in the first column, whatever is fitted."""

    def __init__(self, m: float = 1.0, off: float = 0.0) -> None:
        self.m, self.off = m, off

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        del X, y, w

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        x = X[:, 0] * self.scale_[0] + self.mean_[0]
        return self.m * x - self.m**2 / 2 + self.off


def draw(m: float, n_p: int, n_q: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(m, 1, (n_p, 1)), rng.normal(0, 1, (n_q, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_p", "n_q"), [(20_000, 20_000), (2_000, 50_000), (50_000, 2_000)])
def test_the_true_ratio_gives_the_closed_form(kind: Kind, n_p: int, n_q: int) -> None:
    found = divergence(*draw(0.5, n_p, n_q), kind, ratio=Known(0.5), n_folds=2, random_state=0)
    assert found.value == found.raw
    assert abs(found.value - truth(kind, 0.5)) < 4 * found.standard_error  # a normal mean is outside in 1 of 16 000
    # the least known is Pearson's: mean r⁴ = e^{6/4} = 4.5, so that 2000 rows know mean r² = 1.28 to 0.04
    assert found.standard_error < 0.05


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
    found = divergence(X_p, X_q, ratio=Known(6.0), n_folds=2, random_state=0)
    assert abs(found.value - 18) < 4 * 6 / math.sqrt(5_000)  # log r has the standard deviation 6
    assert found.standard_error == pytest.approx(6 / math.sqrt(5_000), rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("far", [0.0, 40.0, 1e3])
def test_nothing_is_ever_nan(kind: Kind, far: float) -> None:
    X_p, X_q = draw(far, 60, 50)
    found = divergence(X_p, X_q, kind, ratio="logistic", random_state=0)
    values = [found.value, found.standard_error, found.raw, *found.interval()]
    assert np.isfinite(values).all()
    assert found.value >= 0


@pytest.mark.parametrize("kind", KINDS)
def test_identical_samples(kind: Kind) -> None:
    X = np.random.default_rng(0).normal(size=(500, 3))
    found = divergence(X, X, kind, ratio="logistic", random_state=0)
    assert found.interval()[0] == 0
    assert found.value < 0.05


def test_standard_errors_cover() -> None:
    m, hits = 1.0, dict.fromkeys(KINDS, 0)
    for seed in range(200):
        p, q, _ = two_samples(*draw(m, 400, 700, seed), None, None, 10, seed)
        found = _linear(p, q)
        for kind in hits:
            made = estimate(cast(Kind, kind), found, p, q)
            hits[kind] += abs(made.raw - truth(kind, m)) < 1.96 * made.standard_error
    hits.pop("pearson")  # r² has hardly a variance: of 700 rows the bound of ratios up to √n misses the largest
    # 95 % ± 3 %: 200 draws have a standard error of 1.5 %
    assert {kind: n for kind, n in hits.items() if not 184 <= n <= 196} == {}


def _linear(p: Sample, q: Sample) -> CrossFitted:
    """Cross-fit logistic regression of one column by Newton's method, without the checks of a ratio."""
    from flowratio.ratios.presets import newton

    n_folds = int(p.fold.max()) + 1
    each_p, each_q = np.empty((n_folds, len(p.X))), np.empty((n_folds, len(q.X)))
    for k in range(n_folds):
        X = np.concatenate([p.X[p.fold != k], q.X[q.fold != k]])
        n_p = int((p.fold != k).sum())
        y = np.repeat([1.0, 0.0], [n_p, len(X) - n_p])
        slope, intercept = newton(X, y, np.ones(len(X)), np.zeros(2))
        log_odds = math.log(n_p / (len(X) - n_p))
        each_p[k], each_q[k] = (slope * s.X[:, 0] + intercept - log_odds for s in (p, q))
    return CrossFitted(each_p[p.fold, np.arange(len(p.X))], each_q[q.fold, np.arange(len(q.X))], each_p, each_q)


def test_swapping_the_samples_turns_kl_over() -> None:
    X_p, X_q = draw(1.0, 300, 500)
    p, q, _ = two_samples(X_p, X_q, None, None, 5, 0)
    found = _linear(p, q)
    there, back = estimate("kl", found, p, q), estimate("reverse-kl", found.swapped(), q, p)
    assert (there.raw, there.standard_error) == (back.raw, back.standard_error)


def test_the_correction_cancels_for_the_true_ratio_whatever_its_reach() -> None:
    X_p, X_q = draw(1.0, 200_000, 200_000)
    for reach in (0.5, 3.0, 400.0):
        of_p, of_q = kl_terms(X_p[:, 0] - 0.5, X_q[:, 0] - 0.5, reach)
        correction = of_p - (X_p[:, 0] - 0.5)
        error = math.sqrt(correction.var() / 2e5 + of_q.var() / 2e5)
        assert abs(correction.mean() + of_q.mean()) < 4 * error


def test_weights_count_rows() -> None:
    X_p, X_q = draw(1.0, 400, 300)
    w = np.zeros(400)
    w[:200] = 1.0
    some = divergence(X_p, X_q, ratio=Known(1.0), sample_weight_p=w, random_state=0)
    whole = divergence(X_p[:200], X_q, ratio=Known(1.0), random_state=0)
    assert some.raw == pytest.approx(whole.raw, abs=1e-12)
    assert some.standard_error == pytest.approx(whole.standard_error, rel=0.01)


def test_an_interval_is_normal_and_cut_off() -> None:
    low, high = interval(1.0, 0.1, 0.95)
    assert (low, high) == (pytest.approx(0.804, abs=1e-3), pytest.approx(1.196, abs=1e-3))
    assert interval(0.0, 0.1, 0.95)[0] == 0.0
    assert interval(0.65, 0.1, 0.95, math.log(2))[1] == math.log(2)


def test_it_prints_as_a_line() -> None:
    found = divergence(*draw(1.0, 200, 200), ratio="logistic", random_state=0)
    assert str(found).startswith("KL(p ‖ q): ")
    assert " nats (95 %: " in str(found)


def test_bad_input() -> None:
    X_p, X_q = draw(1.0, 30, 30)
    with pytest.raises(ValueError, match="`kind` is 'kld': give one of kl, reverse-kl, js"):
        divergence(X_p, X_q, "kld")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`X_p` has 1 columns but `X_q` has 2"):
        divergence(X_p, np.zeros((30, 2)))
    with pytest.raises(ValueError, match="`n_folds` is 1: give a whole number of 2 or more"):
        divergence(X_p, X_q, n_folds=1)
    with pytest.raises(ValueError, match="smaller sample has 3 rows: give at least 4 of each"):
        divergence(X_p[:3], X_q)
    with pytest.raises(ValueError, match=r"`sample_weight_q` has shape \(29,\) but `X_q` has 30 rows"):
        divergence(X_p, X_q, sample_weight_q=np.ones(29))
    with pytest.raises(ValueError, match="`sample_weight_p` is zero on all 30 rows"):
        divergence(X_p, X_q, sample_weight_p=np.zeros(30))
    with pytest.raises(ValueError, match="`ratio` is 'logstic': give a ratio, or one of"):
        divergence(X_p, X_q, ratio="logstic")
    with pytest.raises(ValueError, match="`level` is 95"):
        divergence(X_p, X_q, ratio="logistic").interval(95)
