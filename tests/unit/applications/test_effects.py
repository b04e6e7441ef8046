"""Average effects with a known ratio and a known prediction equal the formulas, whatever holds the table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from flowratio import average_effect, target_mean
from flowratio._support.errors import ArgumentError

ESTIMANDS = "att", "ate", "overlap"


def draw(n: int = 400, seed: int = 0, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariates, treatment and outcome with an effect of 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    treatment = rng.random(n) < 1 / (1 + np.exp(-slope * X[:, 0]))
    return X, treatment, 1.0 * treatment + 2 * X[:, 0] + rng.normal(size=n)


def shared_interaction(k: float, seed: int, n: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows whose treatment and outcome depend on x0 · x1, which no linear model sees. The effect is 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    product = X[:, 0] * X[:, 1]
    treatment = rng.random(n) < 1 / (1 + np.exp(0.7 - k * product - 0.5 * X[:, 2]))
    return X, treatment, 2 * product + X[:, 2] + treatment + rng.normal(size=n)


def by_hand(X: np.ndarray, t: np.ndarray, y: np.ndarray, estimand: str, method: str) -> float:
    """Return the estimate row by row."""
    n_1, n_0 = t.sum(), (~t).sum()
    m = 0.7 * X[:, 0]
    sums = {name: [0.0, 0.0] for name in ("treated", "controls", "target")}
    for i in range(len(y)):
        odds = np.exp(-0.1 + 0.5 * X[i, 0]) * n_1 / n_0
        e = odds / (1 + odds)
        weights = {"att": (1, odds), "ate": (1 / e, 1 / (1 - e)), "overlap": (1 - e, e)}[estimand]
        group, weight = ("treated", weights[0]) if t[i] else ("controls", weights[1])
        value = y[i] - m[i] if method == "doubly-robust" else y[i]
        sums[group][0] += weight * value
        sums[group][1] += weight
        target = {"att": float(t[i]), "ate": 1.0, "overlap": (t[i] - e) ** 2}[estimand]
        sums["target"][0] += target * m[i]
        sums["target"][1] += target
    means = {name: total / size for name, (total, size) in sums.items()}
    # both groups have the same prediction, so that of the target cancels
    if method == "doubly-robust" and estimand == "att":
        return float(y[t].mean() - means["target"] - means["controls"])
    return means["treated"] - means["controls"]


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("method", ["doubly-robust", "hajek"])
def test_estimates_are_the_formulas_row_by_row(estimand: str, method: str, models: dict[str, Any]) -> None:
    X, t, y = draw(60)
    result = average_effect(X, t, y, estimand, method=method, **models)
    assert result.value == pytest.approx(by_hand(X, t, y, estimand, method))
    assert result.weighted == pytest.approx(by_hand(X, t, y, estimand, "hajek"))
    assert result.unweighted == pytest.approx(y[t].mean() - y[~t].mean())


def test_the_effect_on_the_treated_is_their_mean_minus_a_target_mean() -> None:
    X, t, y = draw()
    settings: dict[str, Any] = {"ratio": "logistic", "outcome_model": "linear", "random_state": 3}
    effect, mean = average_effect(X, t, y, **settings), target_mean(X[t], X[~t], y[~t], **settings)
    assert effect.value == pytest.approx(y[t].mean() - mean.value)
    assert effect.weighted == pytest.approx(y[t].mean() - mean.weighted)


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_the_order_of_rows_does_not_matter(estimand: str) -> None:
    X, t, y = draw()
    order = np.random.default_rng(1).permutation(len(y))
    settings: dict[str, Any] = {"ratio": "logistic", "outcome_model": "linear", "random_state": 0}
    one = average_effect(X, t, y, estimand, **settings)
    other = average_effect(X[order], t[order], y[order], estimand, **settings)
    assert other.value == pytest.approx(one.value, rel=1e-5)
    assert other.standard_error == pytest.approx(one.standard_error, rel=1e-5)
    np.testing.assert_allclose(other.weights.weights, one.weights.weights[order], rtol=1e-4)


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("method", ["doubly-robust", "hajek"])
def test_integer_weights_are_counts(estimand: str, method: str, models: dict[str, Any]) -> None:
    X, t, y = draw(60)
    y -= 1.3 * X[:, 0]  # the known prediction is right, so no other model is better
    counts = np.random.default_rng(1).integers(0, 4, 60)
    one = average_effect(X, t, y, estimand, method=method, sample_weight=counts, **models)
    rows = np.repeat(np.arange(60), counts)
    other = average_effect(X[rows], t[rows], y[rows], estimand, method=method, **models)
    assert one.value == pytest.approx(other.value)
    assert one.standard_error == pytest.approx(other.standard_error)
    assert one.interval() == pytest.approx(other.interval())
    assert (one.weights.weights[counts == 0] == 0).all()


def test_units_of_the_outcome_do_not_matter() -> None:
    X, t, y = draw()
    settings: dict[str, Any] = {"ratio": "logistic", "outcome_model": LinearRegression(), "random_state": 0}
    one, other = average_effect(X, t, y, "ate", **settings), average_effect(X, t, 5 - 3 * y, "ate", **settings)
    assert other.value == pytest.approx(-3 * one.value)
    assert other.standard_error == pytest.approx(3 * one.standard_error)


def test_a_good_prediction_makes_the_estimate_more_accurate() -> None:
    X, t, y = draw(2000)
    settings: dict[str, Any] = {"ratio": "logistic", "outcome_model": "linear", "random_state": 0}
    robust, plain = (average_effect(X, t, y, method=m, **settings) for m in ("doubly-robust", "hajek"))
    assert robust.standard_error < 0.9 * plain.standard_error
    assert abs(robust.value - 1) < 4 * robust.standard_error


def test_the_better_of_two_models_predicts_the_outcome() -> None:
    X, t, y = draw(1000)
    assert average_effect(X, t, y, ratio="lda", random_state=0).outcome_model == "linear"
    curved = 5 * np.abs(X[:, 0]) * (X[:, 1] > 0) + 0.1 * y
    assert average_effect(X, t, curved, ratio="lda", random_state=0).outcome_model == "boosting"


def test_an_outcome_of_zeros_and_ones() -> None:
    X, t, _ = draw(3000)
    rng = np.random.default_rng(5)
    y = rng.random(3000) < np.where(t, 0.5, 0.3)  # the effect is 0.2 everywhere
    for model in ("linear", LogisticRegression()):
        effect = average_effect(X, t, y, "ate", ratio="logistic", outcome_model=model, random_state=0)
        assert abs(effect.value - 0.2) < 4 * effect.standard_error < 0.12


def test_tables_of_every_library_give_one_result() -> None:
    X, t, y = draw(300)
    rng = np.random.default_rng(0)
    columns = {"age": np.where(rng.random(300) < 0.1, np.nan, X[:, 0]).tolist(), "city": rng.choice(["a", "b"], 300)}
    frame = pd.DataFrame(columns)
    settings: dict[str, Any] = {"ratio": "logistic", "outcome_model": "linear", "random_state": 0}
    one = average_effect(frame, pd.Series(t), pd.Series(y), **settings)
    table = pl.DataFrame({"age": pl.Series(columns["age"]).fill_nan(None), "city": columns["city"]})
    for other in (table, table.to_arrow()):
        result = average_effect(other, pl.Series(t), pl.Series(y), **settings)
        assert result.value == pytest.approx(one.value)
    assert {"age", "age is missing"} <= set(one.balance.names)


def test_little_overlap_must_not_be_used() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(400) < 200
    X = rng.normal(size=(400, 1)) + 4 * t[:, None]
    y = X[:, 0] + rng.normal(size=400)
    effect = average_effect(X, t, y, ratio="logistic", outcome_model="linear", random_state=0)
    assert str(effect.verdict) == "do not use"
    assert "treated rows lie where fewer than one of the controls is expected" in effect.reason


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("method", ["doubly-robust", "hajek"])
def test_a_column_that_separates_the_groups_gives_finite_numbers(estimand: str, method: str, known_line: Any) -> None:
    t = np.arange(100) < 50
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1)) + 1000 * t[:, None]
    settings: dict[str, Any] = {"ratio": known_line(-1e6, 2e3), "outcome_model": "linear", "random_state": 0}
    effect = average_effect(X, t, rng.normal(size=100), estimand, method=method, **settings)
    assert np.isfinite([effect.value, effect.standard_error, *effect.interval()]).all()
    assert str(effect.verdict) == "do not use"
    json.dumps(effect.to_dict(), allow_nan=False)


def test_a_ratio_of_the_wrong_form_is_not_reliable() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(2000) < 1000
    X = np.where(t, 0.6, 1.0)[:, None] * rng.normal(size=(2000, 1))  # same mean, other variance
    y = X[:, 0] ** 2 + rng.normal(size=2000)
    wrong = average_effect(X, t, y, ratio="logistic", outcome_model="linear", random_state=0)
    right = average_effect(X, t, y, ratio="quadratic", outcome_model="linear", random_state=0)
    assert str(wrong.verdict) == "use with care"
    assert "wrong form" in wrong.reason
    assert str(right.verdict) == "reliable"
    assert abs(right.value) < 4 * right.standard_error < abs(wrong.value)  # the true effect is 0


@pytest.mark.parametrize("estimand", ESTIMANDS)
def test_a_ratio_without_a_product_of_columns_is_not_reliable(estimand: str) -> None:
    """Treatment and outcome depend on x1 x2, which no column and no square of a column shows. The effect is 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    product = X[:, 0] * X[:, 1]
    t = rng.random(3000) < 1 / (1 + np.exp(-1.2 * product))
    y = t + 2 * product + rng.normal(size=3000)
    settings: dict[str, Any] = {"outcome_model": "linear", "random_state": 0}
    wrong = average_effect(X, t, y, estimand, ratio="logistic", **settings)
    assert abs(wrong.value - 1) > 1
    assert wrong.interval()[0] < 1
    assert str(wrong.verdict) != "reliable"
    assert "wrong form" in wrong.reason
    right = average_effect(np.column_stack([X, product]), t, y, estimand, ratio="logistic", **settings)
    assert "wrong form" not in right.reason
    assert abs(right.value - 1) < 4 * right.standard_error


@pytest.mark.parametrize("estimand", ESTIMANDS)
@pytest.mark.parametrize("method", ["doubly-robust", "hajek"])
def test_a_constant_outcome_does_not_make_the_ratio_wrong(estimand: str, method: str) -> None:
    X, t, _ = draw(1000)
    settings: dict[str, Any] = {"method": method, "ratio": "logistic", "outcome_model": "linear", "random_state": 0}
    effect = average_effect(X, t, np.full(1000, 1e6 / 3), estimand, **settings)
    assert "doubly robust" not in effect.reason
    assert "standard error" not in effect.reason
    assert abs(effect.value) < 1e-6


def test_the_result_is_ready_for_json_figures_and_pages() -> None:
    X, t, y = draw(100)
    effect = average_effect(X, t, y, "ATO", ratio="lda", outcome_model="linear", random_state=0)
    facts = json.loads(json.dumps(effect.to_dict()))
    assert facts["estimand"] == "overlap"
    assert facts["interval"] == pytest.approx(list(effect.interval()))
    assert [row["column"] for row in facts["balance"]] == ["x1", "x2"]
    assert effect.plot().axes
    assert ">Average effect where " in effect._repr_html_()
    assert str(effect).startswith("Average effect where the groups overlap (ATO): ")


def test_refusals() -> None:
    X, t, y = draw(40)
    with pytest.raises(ArgumentError, match="`estimand` is 'atc'"):
        average_effect(X, t, y, "atc")
    with pytest.raises(ArgumentError, match="`outcome` has 39 values but `X` has 40 rows"):
        average_effect(X, t, y[1:])
    with pytest.raises(ValueError, match="`outcome` is NaN or infinite in 1 of 40 rows, the first 2"):
        average_effect(X, t, np.where(np.arange(40) == 2, np.nan, y))
    with pytest.raises(ValueError, match="`outcome` is not an array of numbers"):
        average_effect(X, t, ["good"] * 40)
    with pytest.raises(ArgumentError, match=r"`outcome_model` is 'ridge'\. Use one of linear, quadratic, boosting"):
        average_effect(X, t, y, outcome_model="ridge")
    with pytest.raises(TypeError, match="`outcome_model` is 7"):
        average_effect(X, t, y, outcome_model=7)
    with pytest.raises(ArgumentError, match="a classifier, but the values are not 0 and 1"):
        average_effect(X, t, y, outcome_model=LogisticRegression())


@pytest.mark.parametrize("seed", range(3))
def test_an_interaction_that_ratio_and_outcome_model_miss_is_not_reliable(seed: int) -> None:
    X, t, y = shared_interaction(0.25, seed)
    settings: dict[str, Any] = {"ratio": "logistic", "outcome_model": "linear", "random_state": seed}
    result = average_effect(X, t, y, **settings)
    assert abs(result.value - 1) > 0.2  # the error of the ratio times that of the prediction
    assert result.verdict == "use with care"
    assert "The outcome model has the wrong form" in result.reason
    assert "Use `outcome_model='quadratic'`." in result.reason
    low, high = result.interval()
    assert low < 1 < high
    mean = target_mean(X[t], X[~t], y[~t], **settings)
    low, high = mean.interval()
    assert mean.verdict == "use with care"
    assert low < (y[t] - 1).mean() < high


def test_a_wrong_outcome_model_with_the_right_ratio_stays_reliable() -> None:
    X, t, y = shared_interaction(0.0, 1)
    linear, own = (
        average_effect(X, t, y, ratio="logistic", outcome_model=model, random_state=0) for model in ("linear", None)
    )
    assert linear.verdict == own.verdict == "reliable"
    assert own.outcome_model == "quadratic"
    assert own.standard_error < 0.6 * linear.standard_error


def test_the_group_with_too_few_rows_is_named() -> None:
    X, t, y = draw(3000)
    some = np.concatenate([np.flatnonzero(t)[:120], np.flatnonzero(~t)])
    settings: dict[str, Any] = {"ratio": "logistic", "outcome_model": "linear", "random_state": 0}
    few = average_effect(X[some], t[some], y[some], **settings)
    assert "The effective sample size of the treated rows in the overlap is" in few.reason
    assert few.reason.endswith("Get more treated rows.")
    some = np.concatenate([np.flatnonzero(t)[:5], np.flatnonzero(~t)[:200]])
    for estimand in ("att", "overlap"):
        fewer = average_effect(X[some], t[some], y[some], estimand, **settings)
        assert "There are 5 treated rows, too few" in fewer.reason
