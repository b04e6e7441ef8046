"""The mean over p of a value of q: formulas, weights, and tables."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from flowratio import target_mean
from flowratio._support.errors import ArgumentError


def draw(n_p: int = 300, n_q: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X_p, X_q = rng.normal(0.5, 1, (n_p, 2)), rng.normal(0, 1, (n_q, 2))
    return X_p, X_q, X_q[:, 0] + rng.normal(size=n_q)


def test_both_methods_are_the_formulas(models: dict[str, Any]) -> None:
    X_p, X_q, y = draw()
    r = np.exp(-0.1 + 0.5 * X_q[:, 0])
    m_p, m_q = 0.7 * X_p[:, 0], 0.7 * X_q[:, 0]
    robust = target_mean(X_p, X_q, y, **models)
    assert robust.value == pytest.approx(m_p.mean() + np.average(y - m_q, weights=r))
    share = r / r.sum()
    rest = y - m_q - np.average(y - m_q, weights=r)
    variance = m_p.var(ddof=1) / 300 + np.sum((share * rest) ** 2) / (1 - np.sum(share**2))
    assert robust.standard_error == pytest.approx(np.sqrt(variance))
    plain = target_mean(X_p, X_q, y, method="hajek", **models)
    assert plain.value == robust.weighted == pytest.approx(np.average(y, weights=r))
    assert plain.unweighted == pytest.approx(y.mean())


def test_integer_weights_are_counts(models: dict[str, Any]) -> None:
    X_p, X_q, y = draw(40, 50)
    rng = np.random.default_rng(1)
    w_p, w_q = rng.integers(0, 3, 40), rng.integers(0, 3, 50)
    p, q = np.repeat(np.arange(40), w_p), np.repeat(np.arange(50), w_q)
    one = target_mean(X_p, X_q, y, sample_weight_p=w_p, sample_weight_q=w_q, **models)
    other = target_mean(X_p[p], X_q[q], y[q], **models)
    assert one.value == pytest.approx(other.value)
    assert one.standard_error == pytest.approx(other.standard_error)
    assert len(one.log_ratio) == np.count_nonzero(w_q)


def test_the_scale_of_other_weights_does_not_matter(models: dict[str, Any]) -> None:
    X_p, X_q, y = draw(40, 50)
    w = np.random.default_rng(1).uniform(0.5, 2, 50)
    one, other = (target_mean(X_p, X_q, y, sample_weight_q=factor * w, **models) for factor in (1.0, 7.3))
    assert one.value == pytest.approx(other.value)
    assert one.standard_error == pytest.approx(other.standard_error)


def test_a_mixed_table_with_a_known_mean() -> None:
    """The value depends on a category whose share differs: 0.8 · 2 + 0.2 · 1 instead of 1.5."""
    rng = np.random.default_rng(0)
    kinds = [rng.random(2000) < share for share in (0.8, 0.5)]
    tables = [pl.DataFrame({"kind": np.where(kind, "new", "old"), "z": rng.normal(size=2000)}) for kind in kinds]
    y = 1 + kinds[1] + 0.1 * rng.normal(size=2000)
    mean = target_mean(tables[0], tables[1], y, ratio="logistic", outcome_model="linear", random_state=0)
    assert abs(mean.value - 1.8) < 4 * mean.standard_error < 0.08
    assert str(mean.verdict) == "reliable"
    assert mean.balance.names == ["z", "kind = new", "kind = old"]


@pytest.mark.parametrize(("n_p", "verdict"), [(4, "do not use"), (15, "use with care")])
def test_a_handful_of_target_rows_is_named(n_p: int, verdict: str) -> None:
    mean = target_mean(*draw(n_p, 1000), ratio="lda", outcome_model="linear", random_state=0)
    assert str(mean.verdict) == verdict
    assert f"There are {n_p} rows of `X_p`, too few" in mean.reason


def test_no_overlap_must_not_be_used() -> None:
    X_p, X_q, y = draw()
    mean = target_mean(X_p + 6, X_q, y, ratio="logistic", outcome_model="linear", random_state=0)
    assert str(mean.verdict) == "do not use"
    for text in (str(mean).splitlines()[0], mean._repr_html_()):
        assert f"{mean.value:.4g}" in text
        assert "95 %" not in text
        assert "standard error</" not in text
    assert "±" not in str(mean).splitlines()[0]


def test_an_interval_with_few_degrees_of_freedom_has_its_reason() -> None:
    few, many = (target_mean(*draw(n, n), ratio="lda", outcome_model="linear", random_state=0) for n in (20, 2000))
    assert few.degrees_of_freedom < 30 < many.degrees_of_freedom
    reason = f", Student's t with {few.degrees_of_freedom:.0f} degrees of freedom)"
    assert str(few).splitlines()[0].endswith(reason)
    assert "Student" not in str(many)


def test_the_result_is_ready_for_json_figures_and_pages() -> None:
    mean = target_mean(*draw(), ratio="lda", outcome_model="linear", random_state=0)
    facts = json.loads(json.dumps(mean.to_dict()))
    assert facts["method"] == "doubly-robust"
    assert facts["n_q"] == 400
    low, high = mean.interval(0.5)
    assert mean.interval()[0] < low < mean.value < high < mean.interval()[1]
    assert mean.plot().axes
    assert ">Target mean</caption>" in mean._repr_html_()
    assert str(mean).startswith("Target mean: ")


def test_refusals() -> None:
    X_p, X_q, y = draw(20, 30)
    with pytest.raises(ArgumentError, match="`values_q` has 29 values but `X_q` has 30 rows"):
        target_mean(X_p, X_q, y[1:])
    with pytest.raises(ValueError, match="`values_q` is NaN or infinite in 30 of 30 rows"):
        target_mean(X_p, X_q, y * np.nan)
    settings: dict[str, Any] = {"ratio": "lda", "random_state": 0}
    with pytest.raises(ValueError, match="smaller sample has 3 rows"):
        target_mean(X_p[:3], X_q, y, **settings)
