"""The inverse q/p of a ratio p/q."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from flowratio.ratios.base import RatioEstimator


class InverseRatio(RatioEstimator):
    """Turn a ratio over: q/p from an estimate of p/q. `RatioEstimator.inverse` makes one without another fit.

    Parameters
    ----------
    estimator
        The ratio p/q; p is y = 1 here too.

    Attributes
    ----------
    estimator_
        The fitted ratio p/q.
    """

    estimator_: RatioEstimator
    _sign = -1

    @property
    def _rows(self) -> Literal["given"]:
        return "given"

    def __init__(self, estimator: RatioEstimator) -> None:
        self.estimator = estimator

    def inverse(self) -> RatioEstimator:
        """Return the ratio that was turned over."""
        check_is_fitted(self)
        return self.estimator_

    def _centre_and_scale(self, X: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(X.shape[1]), np.ones(X.shape[1])  # the ratio inside standardizes

    def _standardized(self, X: np.ndarray) -> np.ndarray:
        return X

    def _fit(self, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> None:
        if not isinstance(self.estimator, RatioEstimator):
            raise TypeError(f"`estimator` is {self.estimator!r}: give a ratio, such as `ClassifierRatio()`.")
        estimator: Any = clone(self.estimator)
        self.estimator_ = estimator.fit(X, self.classes_[y], w)
        self.effective_draws_, self._inverse_draws = estimator._inverse_draws, estimator.effective_draws_
        estimator.log_odds_ = self.log_odds_
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = names

    def _log_ratio(self, X: np.ndarray) -> np.ndarray:
        return -self.estimator_._log_ratio(self.estimator_._seen(X))

    def _check_overlap(self, X_p: np.ndarray, w_p: np.ndarray, X_q: np.ndarray, w_q: np.ndarray) -> None:
        """Leave the warning to the ratio inside."""
