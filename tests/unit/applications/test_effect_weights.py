"""Weights of treated rows and controls: formulas, balance, and what is reported about large weights."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from flowratio import effect_weights


def draw(n: int = 400, seed: int = 0, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return covariates and treatment."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    treatment = rng.random(n) < 1 / (1 + np.exp(-slope * X[:, 0]))
    return X, treatment


@pytest.mark.parametrize("estimand", ["att", "ate", "overlap"])
def test_weights_are_those_of_the_propensity(estimand: str, known_line: Any) -> None:
    X, t = draw(200)
    result = effect_weights(X, t, estimand, ratio=known_line(-0.1, 0.5), random_state=0)
    e = expit(-0.1 + 0.5 * X[:, 0] + np.log(t.sum() / (~t).sum()))
    np.testing.assert_allclose(result.propensity, e)
    np.testing.assert_allclose(result.log_ratio, -0.1 + 0.5 * X[:, 0])
    forms = {"att": (np.ones(200), e / (1 - e)), "ate": (1 / e, 1 / (1 - e)), "overlap": (1 - e, e)}[estimand]
    for group, w in zip((t, ~t), forms, strict=True):
        np.testing.assert_allclose(result.weights[group], w[group] / w[group].mean())
    sizes = [w[group].sum() ** 2 / (w[group] ** 2).sum() for group, w in zip((t, ~t), forms, strict=True)]
    assert [result.ess_treated, result.ess_control] == pytest.approx(sizes)


@pytest.mark.parametrize("estimand", ["att", "ate", "overlap"])
def test_the_balance_table_compares_weighted_means(estimand: str) -> None:
    X, t = draw(1000)
    result = effect_weights(X, t, estimand, ratio="logistic", random_state=0)
    scale = np.sqrt((X[t].var(axis=0) + X[~t].var(axis=0)) / 2)
    after = [np.average(X[group], axis=0, weights=result.weights[group]) for group in (t, ~t)]
    np.testing.assert_allclose(result.balance.before, (X[t].mean(axis=0) - X[~t].mean(axis=0)) / scale)
    np.testing.assert_allclose(result.balance.after, (after[0] - after[1]) / scale, atol=1e-12)
    spread = [
        np.sqrt(np.average((X[group] - mean) ** 2, axis=0, weights=result.weights[group]))
        for group, mean in zip((t, ~t), after, strict=True)
    ]
    np.testing.assert_allclose(result.balance.deviation_after, spread[1] / spread[0])
    assert np.abs(result.balance.after).max() < 0.15 < np.abs(result.balance.before).max()
    assert str(result.verdict) == "reliable"


def test_weights_are_not_clipped_but_reported(known_line: Any) -> None:
    X, t = draw(1000, slope=3.0)
    result = effect_weights(X, t, "ate", ratio=known_line(0.0, 3.0), random_state=0)
    e = expit(3 * X[:, 0] + np.log(t.sum() / (~t).sum()))
    w = 1 / e[t]
    assert result.weights[t].max() == pytest.approx(w.max() / w.mean())
    assert str(result.verdict) != "reliable"
    assert "of the weight" in result.reason or "tail of the weights" in result.reason
    softer = effect_weights(X, t, "overlap", ratio=known_line(0.0, 3.0), random_state=0)
    assert softer.ess_treated > result.ess_treated


def test_few_distinct_weights_are_not_a_heavy_tail() -> None:
    """A binary column gives two weights, and cross-fitting moves them a little: Pareto k̂ means nothing."""
    rng = np.random.default_rng(3)
    for seed in range(5):
        X = (rng.random((1000, 1)) < 0.5) * 1.0
        t = rng.random(1000) < np.where(X[:, 0] > 0, 0.6, 0.3)
        assert str(effect_weights(X, t, "ate", ratio="logistic", random_state=seed).verdict) == "reliable"


@pytest.mark.parametrize("estimand", ["att", "ate", "overlap"])
def test_the_balance_table_has_every_category(estimand: str) -> None:
    rng = np.random.default_rng(0)
    city, t = rng.choice(["Bonn", "Köln", "Ulm"], 600, p=[0.6, 0.3, 0.1]), rng.random(600) < 0.4
    X = pl.DataFrame({"age": rng.normal(size=600), "city": city})
    result = effect_weights(X, t, estimand, ratio="logistic", random_state=0)
    assert result.balance.names == ["age", "city = Bonn", "city = Köln", "city = Ulm"]
    is_bonn = (city == "Bonn") * 1.0
    scale = np.sqrt((is_bonn[t].var() + is_bonn[~t].var()) / 2)
    after = [np.average(is_bonn[group], weights=result.weights[group]) for group in (t, ~t)]
    assert result.balance.before[1] == pytest.approx((is_bonn[t].mean() - is_bonn[~t].mean()) / scale)
    assert result.balance.after[1] == pytest.approx((after[0] - after[1]) / scale)


@pytest.mark.parametrize("estimand", ["att", "ate", "overlap"])
def test_integer_weights_count_in_every_size(estimand: str, known_line: Any) -> None:
    X, t = draw(100)
    counts = np.random.default_rng(1).integers(1, 4, 100)
    rows = np.repeat(np.arange(100), counts)
    ratio = known_line(-0.1, 0.5)
    one = effect_weights(X, t, estimand, ratio=ratio, sample_weight=counts, random_state=0)
    other = effect_weights(X[rows], t[rows], estimand, ratio=ratio, random_state=0)
    assert [one.ess_treated, one.ess_control] == pytest.approx([other.ess_treated, other.ess_control])
    sizes = [[(group.n, group.ess, group.inflation) for group in result.overlap] for result in (one, other)]
    np.testing.assert_allclose(sizes[0], sizes[1])


@pytest.mark.parametrize("estimand", ["att", "ate", "overlap"])
def test_the_effective_sample_size_has_one_definition(estimand: str) -> None:
    X, t = draw(1000, slope=2.0)
    result = effect_weights(X, t, estimand, ratio="logistic", random_state=0)
    sizes = {"treated rows": result.ess_treated, "controls": result.ess_control}
    assert [group.ess for group in result.overlap] == pytest.approx([sizes[group.name] for group in result.overlap])


@pytest.mark.parametrize("estimand", ["att", "ate", "overlap"])
def test_a_handful_of_treated_rows_must_not_be_used(estimand: str) -> None:
    X, t = np.random.default_rng(0).normal(size=(1000, 1)), np.arange(1000) < 8
    result = effect_weights(X, t, estimand, ratio="lda", random_state=0)
    assert str(result.verdict) == "do not use"


def test_rows_of_weight_zero_have_weight_zero() -> None:
    X, t = draw(100)
    w = (np.arange(100) % 5 > 0) * 1.0
    result = effect_weights(X, t, ratio="lda", sample_weight=w, random_state=0)
    assert (result.weights[w == 0] == 0).all()
    assert np.isnan(result.propensity[w == 0]).all()
    assert np.isfinite(result.propensity[w > 0]).all()


def test_the_result_prints_and_is_ready_for_json() -> None:
    X, t = draw(100)
    result = effect_weights(X, t.astype(int).tolist(), ratio="lda", random_state=0)
    facts = json.loads(json.dumps(result.to_dict()))
    assert [group["name"] for group in facts["overlap"]] == ["controls"]
    assert facts["balance"][0].keys() == {"column", "before", "after", "standard_error"}
    assert result.plot().axes
    assert ">after weighting</th>" in result._repr_html_()
    assert repr(result).startswith("Weights for the average effect on the treated (ATT): effective sample size")
