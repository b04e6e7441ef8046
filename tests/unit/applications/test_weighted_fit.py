"""Estimators that take no weights are fitted to rows resampled by weight."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flowratio.applications.weighted_fit import ResampledWarning, fit_weighted, last_step


def test_resampling_skips_rows_of_weight_zero() -> None:
    X, w = np.arange(6.0)[:, None], np.array([0.0, 0.1, 0.0, 0.7, 0.2, 0.0])
    for seed in range(50):
        with pytest.warns(ResampledWarning, match=r"fitted to 6 rows resampled by weight, [23] of them distinct"):
            model = fit_weighted(KNeighborsRegressor(1), X, X[:, 0], w, seed)
        rows = model._fit_X[:, 0].astype(int)
        assert set(rows) <= {1, 3, 4}
        assert np.bincount(rows, minlength=6)[3] in (4, 5)  # 6 · 0.7


def test_the_last_step_of_a_pipeline_receives_the_weights() -> None:
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(40, 2)), rng.normal(size=40), rng.random(40)
    inner = make_pipeline(StandardScaler(), LinearRegression())
    model = fit_weighted(make_pipeline(StandardScaler(), inner), X, y, w, 0)
    Z = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(last_step(model).coef_, LinearRegression().fit(Z, y, sample_weight=w).coef_)
