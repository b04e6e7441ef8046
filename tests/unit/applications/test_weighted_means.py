"""Weighted and doubly robust means: formulas by brute force, and standard errors against textbooks and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from flowratio._support.errors import ArgumentError
from flowratio.applications.weighted_means import (
    Share,
    Tangent,
    checked_method,
    checked_values,
    estimate_of,
    row_counts,
    spread,
    weighted_mean,
)
from flowratio.diagnostics.verdict import verdict_of


def tiny() -> dict[str, np.ndarray]:
    return {
        "values": np.array([1.0, 4.0, 2.0, 9.0, 3.0]),
        "prediction": np.array([1.5, 3.0, 2.5, 7.0, 1.0]),
        "target": np.array([0.5, 0.3, 0.2, 0.0, 0.0]),
        "source": np.array([0.0, 0.0, 0.2, 0.5, 0.3]),
    }


def test_both_means_are_the_formulas_written_out() -> None:
    v = tiny()
    mean = weighted_mean(v["values"], v["prediction"], v["target"], Share(v["source"], 1.0), np.ones(5))
    assert mean.hajek == pytest.approx(0.2 * 2 + 0.5 * 9 + 0.3 * 3)
    robust = 0.5 * 1.5 + 0.3 * 3 + 0.2 * 2.5 + 0.2 * (2 - 2.5) + 0.5 * (9 - 7) + 0.3 * (3 - 1)
    assert mean.hajek + mean.correction == pytest.approx(robust)


def test_an_exact_prediction_makes_the_weights_irrelevant() -> None:
    v = tiny()
    for source in (v["source"], np.array([0, 0, 0.9, 0.05, 0.05])):
        mean = weighted_mean(v["values"], v["values"], v["target"], Share(source, 1.0), np.ones(5))
        assert mean.hajek + mean.correction == pytest.approx(v["target"] @ v["values"])


def test_a_mean_without_weights_has_the_textbook_standard_error() -> None:
    rng = np.random.default_rng(0)
    y, n = rng.normal(size=500), 500
    share = np.full(n, 1 / n)
    mean = weighted_mean(y, np.zeros(n), share, Share(share, 0.0), np.ones(n))
    error, df = spread(mean.known, np.ones(n))
    assert error == pytest.approx(y.std(ddof=1) / math.sqrt(n))
    assert 0.6 * n < df < 1.6 * n  # n for a Gaussian. The fourth moment of 500 rows has a relative error of 0.15


def test_a_row_that_counts_twice_is_two_rows() -> None:
    v, counts = tiny(), np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    twice = {name: np.repeat(values, counts.astype(int)) for name, values in v.items()}
    for name in ("target", "source"):  # shares are divided among the copies
        twice[name] = np.repeat(v[name] / counts, counts.astype(int))
    one = weighted_mean(v["values"], v["prediction"], v["target"], Share(v["source"], 1.0), counts)
    other = weighted_mean(
        twice["values"], twice["prediction"], twice["target"], Share(twice["source"], 1.0), np.ones(9)
    )
    assert one[:2] == pytest.approx(other[:2])
    for name in ("known", "adjusted"):
        assert spread(getattr(one, name), counts) == pytest.approx(spread(getattr(other, name), np.ones(9)))


def test_heavy_weights_leave_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(0)
    parts = rng.normal(size=1000)
    parts[:3] *= 100  # three rows decide
    assert spread(parts, np.ones(1000)).df < 10 < 500 < spread(rng.normal(size=1000), np.ones(1000)).df
    assert spread(np.zeros(3), np.ones(3)).error == 0


def test_the_standard_error_accounts_for_the_fit_of_the_ratio() -> None:
    """Weights of a fitted ratio balance the groups better than those of a known ratio: a difference varies less."""
    values, errors, known_errors = [], [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 2))
        is_p = rng.random(400) < 1 / (1 + np.exp(-0.8 * X[:, 0]))
        y = 3 * X[:, 0] + rng.normal(size=400)
        log_odds = LogisticRegression(C=1e6).fit(X, is_p).decision_function(X)
        source = np.where(is_p, 0.0, np.exp(log_odds))
        share = Share(source / source.sum(), 1.0)
        target = is_p / is_p.sum()
        own = weighted_mean(y, np.zeros(400), target, Share(target, 0.0), np.ones(400))
        mean = own.minus(weighted_mean(y, np.zeros(400), target, share, np.ones(400)))
        tangent = Tangent(X, is_p, np.ones(400), log_odds)
        values.append(mean.hajek)
        errors.append(spread(tangent.influence(mean), np.ones(400)).error)
        known_errors.append(spread(mean.known, np.ones(400)).error)
    # a standard deviation of 300 draws has a relative error of 4 %
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)
    assert np.mean(known_errors) > 1.3 * np.std(values)


@pytest.mark.parametrize("method", ["doubly-robust", "hajek"])
def test_a_wrong_ratio_is_named(method: str) -> None:
    """The weights are those of another target, so the prediction of the source stays off."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(1, 1, 500), rng.normal(0, 1, 500)])
    is_p = np.arange(1000) < 500
    share = Share(np.where(is_p, 0, 1 / 500), 1.0)
    y = 2 * x + rng.normal(size=1000)
    tangent = Tangent(x[:, None], is_p, np.ones(1000), np.zeros(1000))
    estimate = estimate_of(
        weighted_mean(y, 2 * x, is_p / 500, share, np.ones(1000)), checked_method(method), np.ones(1000), tangent
    )
    assert str(verdict_of(estimate.findings)) == "use with care"
    assert ("balance" in estimate.findings[-1].words) == (method == "hajek")
    value = 2.0 if method == "doubly-robust" else 0.0
    assert abs(estimate.value - value) < 4 * 2 / math.sqrt(500)


@pytest.mark.parametrize("method", ["doubly-robust", "hajek"])
def test_rounding_is_not_a_wrong_ratio(method: str) -> None:
    """A constant value has no error but rounding, of 1e-16 of its size. A shift of 1e-6 of it is no rounding."""
    rng = np.random.default_rng(0)
    is_p = np.arange(1000) < 500
    source = np.where(is_p, 0, rng.uniform(0.5, 2, 1000))
    share, tangent = (
        Share(source / source.sum(), 1.0),
        Tangent(rng.normal(size=(1000, 1)), is_p, np.ones(1000), 0 * source),
    )
    y = np.full(1000, 1e6 / 3)
    for shift, n_findings in ((1e-11, 0), (1e-6, 1)):
        mean = weighted_mean(y, y * (1 + shift * is_p), is_p / 500, share, np.ones(1000))
        for one in (mean, mean.minus(mean._replace(correction=0.0))):
            assert len(estimate_of(one, checked_method(method), np.ones(1000), tangent).findings) == n_findings


def test_row_counts_are_integer_weights() -> None:
    assert row_counts(np.array([1.0, 3.0]), np.array([0.5, 2.0])).tolist() == [1, 3, 1, 1]


def test_refusals() -> None:
    assert checked_method("Hájek") == "hajek"
    assert checked_method("doubly_robust") == "doubly-robust"
    with pytest.raises(ArgumentError, match="`method` is 'ipw'"):
        checked_method("ipw")
    with pytest.raises(ArgumentError, match="`outcome` has 2 values but `X` has 3 rows"):
        checked_values([1, 2], 3, "outcome", "X")
    with pytest.raises(ValueError, match="NaN or infinite in 1 of 2 rows, the first 1"):
        checked_values([1, np.nan], 2, "outcome", "X")
