"""Cross-fitted predictions: no row is predicted by a model that has seen it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from flowratio.applications.outcome_model import Measurement, better_prediction, is_binary, prediction_of
from flowratio.applications.weighted_fit import ResampledWarning


def measurement(values: np.ndarray, X: np.ndarray, **others: object) -> Measurement:
    n = len(values)
    one = Measurement(X, values, np.ones(n, bool), np.ones(n), np.arange(n) % 5)
    return one._replace(**others)  # type: ignore[arg-type]


def test_no_row_is_predicted_by_its_own_value() -> None:
    """A tree memorizes noise: the values of rows that it was fitted to are exact."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 2)), rng.normal(size=500)
    prediction = prediction_of(DecisionTreeRegressor(random_state=0), measurement(y, X), np.full(500, 1 / 500), 0)
    assert abs(np.corrcoef(prediction.values, y)[0, 1]) < 4 / np.sqrt(500)
    assert prediction.model == "DecisionTreeRegressor"


def test_only_measured_rows_are_fitted() -> None:
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(400, 1)), np.arange(400) < 200
    y = np.where(rows, X[:, 0], 1e6)
    prediction = prediction_of("linear", measurement(y, X, rows=rows), rows / 200, 0)
    np.testing.assert_allclose(prediction.values, X[:, 0], atol=0.01)


def test_codes_of_categories_become_the_mean_of_the_category() -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 100, 5000)
    effect = rng.normal(size=100)  # in no order of the codes
    y = effect[code] + 0.1 * rng.normal(size=5000)
    X = np.column_stack([rng.normal(size=5000), code])
    with_codes = prediction_of("linear", measurement(y, X, codes=(1,)), np.full(5000, 1 / 5000), 0).values
    without = prediction_of("linear", measurement(y, X), np.full(5000, 1 / 5000), 0).values
    assert np.corrcoef(with_codes, effect[code])[0, 1] > 0.98 > 0.3 > np.corrcoef(without, effect[code])[0, 1]


def test_models_of_the_user_get_no_codes() -> None:
    """A line through codes in no order explains nothing."""
    rng = np.random.default_rng(0)
    code, effect = rng.integers(0, 100, 3000), rng.normal(size=100)
    y = effect[code] + 0.1 * rng.normal(size=3000)
    X = np.column_stack([rng.normal(size=3000), code])
    for w in (np.ones(3000), rng.integers(1, 4, 3000).astype(float)):
        own = prediction_of(LinearRegression(), measurement(y, X, codes=(1,), w=w), np.full(3000, 1 / 3000), 0)
        assert own.model == "LinearRegression"
        assert np.corrcoef(own.values, effect[code])[0, 1] > 0.95


def test_a_constant_value_is_predicted() -> None:
    X = np.random.default_rng(0).normal(size=(50, 1))
    assert (prediction_of(None, measurement(np.ones(50), X), np.full(50, 0.02), 0).values == 1).all()


def test_weights_reach_the_model_or_resample_the_rows() -> None:
    X, y = np.zeros((100, 1)), (np.arange(100) < 50) * 2.0
    w = np.where(y > 0, 3.0, 1.0)
    mean = prediction_of(DecisionTreeRegressor(), measurement(y, X, w=w), np.full(100, 0.01), 0).values
    np.testing.assert_allclose(mean, 1.5, atol=0.03)  # 2 · 3/4. The folds have 49 to 51 of either kind
    with pytest.warns(ResampledWarning):
        prediction_of(KNeighborsRegressor(), measurement(y, X + np.arange(100)[:, None], w=w), np.full(100, 0.01), 0)


def test_zeros_and_ones_are_binary() -> None:
    assert is_binary(np.array([0.0, 1.0, 1.0]))
    assert not is_binary(np.array([0.0, 1.0, 2.0]))
    assert not is_binary(np.ones(3))


def test_a_better_model_needs_held_out_rows_to_confirm_it() -> None:
    rng = np.random.default_rng(0)
    X, noise, share = rng.normal(size=(600, 2)), rng.normal(size=600), np.full(600, 1 / 600)
    line, product, step = X[:, 0], X[:, 0] * X[:, 1], np.sin(3 * X[:, 0])
    names = []
    for values in (line + noise, product + noise, step + noise):
        one = measurement(values, X)
        better = better_prediction(prediction_of("linear", one, share, 0), one, share, 0)
        names.append(better and better.model)
    assert names == [None, "quadratic", "boosting"]


def test_the_best_model_of_a_product_is_quadratic() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X[:, 0] * X[:, 1]
    best = prediction_of(None, measurement(y, X), np.full(500, 1 / 500), 0)
    assert best.model == "quadratic"
    assert np.corrcoef(best.values, y)[0, 1] > 0.9


def test_many_columns_have_squares_and_no_products() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 40))
    y = X[:, 0] ** 2 + 0.1 * rng.normal(size=400)
    best = prediction_of("quadratic", measurement(y, X), np.full(400, 1 / 400), 0)
    assert np.corrcoef(best.values, y)[0, 1] > 0.9


def test_rows_with_missing_values_are_predicted_by_trees() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    X[::10] = np.nan
    one, share = measurement(y, X), np.full(300, 1 / 300)
    prediction = prediction_of(None, one, share, 0)
    assert prediction.model == "boosting"
    assert better_prediction(prediction, one, share, 0) is None
