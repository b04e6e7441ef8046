"""A ratio and a prediction that are known: estimates with them equal formulas."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from flowratio import RatioEstimator
from flowratio.ratios.base import Requires
from flowratio.samples.two_samples import TwoSamples


class KnownLine(RatioEstimator):
    """log r = a + b x of the first column, whatever is fitted."""

    requires: ClassVar[Requires] = Requires(units="own")

    def __init__(self, a: float = 0.0, b: float = 1.0) -> None:
        self.a, self.b = a, b

    def _fit(self, samples: TwoSamples) -> None:
        del samples

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return self.a + self.b * X[:, 0]


class KnownPrediction(RegressorMixin, BaseEstimator):
    """Predict a multiple of the first column, whatever is fitted."""

    def __init__(self, slope: float = 1.0) -> None:
        self.slope = slope

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KnownPrediction:
        del X, y, sample_weight
        self.fitted_ = True
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.slope * X[:, 0]


@pytest.fixture
def known_line() -> type[RatioEstimator]:
    """The class of a ratio with log r = a + b x of the first column."""
    return KnownLine


@pytest.fixture
def models() -> dict[str, Any]:
    """Settings with log r = -0.1 + 0.5 x and a prediction of 0.7 x, of the first column."""
    return {"ratio": KnownLine(-0.1, 0.5), "outcome_model": KnownPrediction(0.7), "random_state": 0}
