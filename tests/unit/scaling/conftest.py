"""Rows and checks that the tests of several scalers share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from flowratio.scaling.base import Scaler


@pytest.fixture
def transfusion() -> pd.DataFrame:
    n = 300
    rng = np.random.default_rng(3)
    frequency = rng.poisson(5, n) + 1
    return pd.DataFrame(
        {
            "Recency": rng.poisson(9, n),
            "Frequency": frequency,
            "Monetary": 250 * frequency,
            "Time": rng.poisson(30, n) + frequency,
            "Site": np.full(n, 4),
        }
    )


@pytest.fixture
def check_log_det() -> Callable[[Scaler, np.ndarray, np.ndarray, float], None]:
    return _check_log_det


def _check_log_det(scaler: Scaler, X: np.ndarray, step: np.ndarray, atol: float) -> None:
    """Compare log_det with central differences; valid for maps that act on each column by itself."""
    up, down = scaler.forward(X + step)[0], scaler.forward(X - step)[0]
    width = (X + step) - (X - step)  # what the rounding of X left of 2 * step
    _, log_det = scaler.forward(X)
    np.testing.assert_allclose(log_det, np.log((up - down) / width).sum(axis=1), atol=atol)
