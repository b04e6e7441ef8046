"""The inverse q/p of a ratio p/q."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from flowratio._support.types import Matrix, TableLike, Vector, VectorLike
from flowratio.ratios.base import Design, RatioEstimator
from flowratio.ratios.registry import is_additive
from flowratio.samples.two_samples import TwoSamples

if TYPE_CHECKING:
    from flowratio.latent.featurizer import FlowFeaturizer
    from flowratio.ratios.categories import CategoryOdds
    from flowratio.tables.encoder import TableEncoder


class InverseRatio(RatioEstimator):
    """Estimate q/p from an estimator of p/q. `RatioEstimator.inverse` returns it without another fit.

    Parameters
    ----------
    estimator
        The ratio p/q. p is y = 1 here too. The fitted one is `estimator_`.
    """

    estimator_: RatioEstimator
    _direction = "q/p"

    def __init__(self, estimator: RatioEstimator) -> None:
        self.estimator = estimator

    def inverse(self) -> RatioEstimator:
        """Return the ratio p/q."""
        check_is_fitted(self)
        return self.estimator_

    def _two_samples(
        self,
        X: TableLike,
        y: VectorLike,
        sample_weight: VectorLike | None,
        encoder: TableEncoder | None,
        mixed: bool,
        named: bool,
    ) -> TwoSamples:
        self.estimator_ = self._new()
        return self.estimator_._two_samples(X, y, sample_weight, encoder, mixed, named)

    def _fit_public(self, samples: TwoSamples) -> None:
        self.estimator_._fit_public(samples)

    def fit_prepared(self, samples: TwoSamples) -> Self:
        self.estimator_ = self._new().fit_prepared(samples)
        return self

    def _new(self) -> Any:
        if not isinstance(self.estimator, RatioEstimator):
            raise TypeError(f"`estimator` is {self.estimator!r}. Use a ratio, such as `ClassifierRatio()`.")
        return clone(self.estimator)

    def _fit(self, samples: TwoSamples) -> None:
        self.fit_prepared(samples)

    def log_ratio_prepared(self, X: Matrix) -> Vector:
        return -self.estimator_.log_ratio_prepared(X)

    _log_ratio = log_ratio_prepared

    def is_additive(self) -> bool:
        return is_additive(self.estimator)

    def mixture_flow(self) -> FlowFeaturizer | None:
        return self.estimator_.mixture_flow()

    def mixture_odds(self) -> CategoryOdds | None:
        return self.estimator_.mixture_odds()

    def design(self, X: TableLike) -> Design:
        check_is_fitted(self)
        return self.estimator_.design(X)

    def decision_function(self, X: TableLike) -> Vector:
        """Return the logit of y = 1, which is that of the ratio p/q, (n, d) to (n,)."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def labeled_scores(
        self, X: TableLike, y: VectorLike, sample_weight: VectorLike | None = None
    ) -> tuple[Vector, Vector, Vector]:
        """Return log(q/p), whether a row belongs to q, and weights of labeled rows, each of shape (n,)."""
        check_is_fitted(self)
        log_r, is_p, w = self.estimator_.labeled_scores(X, y, sample_weight)
        return -log_r, ~is_p, w

    def __getattr__(self, name: str) -> Any:
        """Return the fitted state that both directions share, such as `classes_` and `encoder_`."""
        if name not in _SHARED or "estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if not hasattr(self.estimator_, _SHARED[name]):  # it was fitted as a part of another estimator
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.estimator_, _SHARED[name])


# fitted attributes, and those of the ratio p/q that they are
_SHARED = {name: name for name in ("encoder_", "classes_", "log_odds_", "mean_", "scale_")}
_SHARED |= {name: name for name in ("n_features_in_", "feature_names_in_")}
_SHARED |= {"effective_sample_size_": "inverse_sample_size_", "inverse_sample_size_": "effective_sample_size_"}
