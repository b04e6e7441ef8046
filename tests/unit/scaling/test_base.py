"""What every scaler does with its input."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from flowratio.scaling.base import Scaler
from flowratio.scaling.chain import ScalerChain
from flowratio.scaling.gaussianizer import Gaussianizer
from flowratio.scaling.images import Dequantizer, Logit
from flowratio.scaling.standardizer import Standardizer

SCALERS = [Standardizer(), Gaussianizer(), Dequantizer(levels=2), Logit(), ScalerChain([Logit(), Gaussianizer()])]


def fresh(scaler: Scaler) -> Any:
    return clone(scaler)


@pytest.mark.parametrize("scaler", SCALERS, ids=lambda scaler: type(scaler).__name__)
class TestEveryScaler:
    def test_one_column(self, scaler):
        X = np.tile([[0.0], [1.0]], (10, 1))
        fitted = fresh(scaler).fit(X)
        Z, log_det = fitted.forward(X)
        assert Z.shape == (20, 1)
        assert log_det.shape == (20,)
        assert Z.dtype == log_det.dtype == np.float64
        np.testing.assert_allclose(fitted.inverse(Z)[0], X, atol=1e-12)

    def test_not_fitted(self, scaler):
        for call in (scaler.forward, scaler.inverse, scaler.transform, scaler.inverse_transform):
            with pytest.raises(NotFittedError):
                call(np.zeros((2, 2)))

    def test_wrong_number_of_columns(self, scaler):
        fitted = fresh(scaler).fit(np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1)))
        for call in (fitted.forward, fitted.inverse):
            with pytest.raises(ValueError, match=r"`[XZ]` has shape \(4, 3\).*2 columns"):
                call(np.zeros((4, 3)))
        with pytest.raises(ValueError, match="3 features"):
            fitted.transform(np.zeros((4, 3)))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8, bool])
    def test_number_types(self, scaler, dtype):
        X = np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1))
        np.testing.assert_allclose(
            fresh(scaler).fit_transform(X.astype(dtype)), fresh(scaler).fit_transform(X), atol=1e-12
        )

    @pytest.mark.parametrize(
        "X", [np.empty((0, 2)), [[0.0, 1.0]], [[0.0], [np.nan]], [[0.0], [np.inf]], [["a"], ["b"]]]
    )
    def test_bad_rows(self, scaler, X):
        with pytest.raises(ValueError, match=r"sample|NaN|infinity|convert"):
            fresh(scaler).fit(X)

    def test_fitted_state_is_plain(self, scaler):
        fitted = fresh(scaler).fit(np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1)))
        todo = [fitted]
        while todo:
            for value in vars(todo.pop()).values():
                if isinstance(value, (list, tuple)) and all(isinstance(item, Scaler) for item in value):
                    todo.extend(value)
                elif isinstance(value, np.ndarray):
                    assert value.dtype.kind in "fi"
                else:
                    json.dumps(value)

    def test_input_stays_as_it_is(self, scaler):
        X = np.tile([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], (5, 1))
        original = X.copy()
        fitted = fresh(scaler).fit(X)
        Z = fitted.transform(X)
        Z_kept = Z.copy()
        fitted.inverse(Z)
        np.testing.assert_array_equal(X, original)
        np.testing.assert_array_equal(Z, Z_kept)


def test_no_warning_without_cause():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ScalerChain([Standardizer(), Gaussianizer()]).fit_transform(np.random.default_rng(0).normal(size=(300, 5)))
