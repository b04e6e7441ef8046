"""Fit any estimator of scikit-learn to weighted rows: find out where its `fit` takes weights, or resample the rows."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from flowratio._support.types import TableLike, Vector
from flowratio.samples.weighting import systematic

# classes of scikit-learn whose `fit` passes keywords on to the estimator inside; others need metadata routing for it
_PASS_ON = "BaseSearchCV", "BaseSuccessiveHalving", "FrozenEstimator", "RFE", "TransformedTargetRegressor"


class ResampledWarning(UserWarning):
    """The estimator takes no weights, and was fitted to rows that were resampled by weight."""


def fit_weighted(estimator: Any, X: TableLike, y: Any, w: Vector, seed: int) -> Any:
    """Fit an estimator to weighted rows, or to rows resampled by weight if it takes no weights."""
    refusing = _refusing(estimator)
    if refusing is None:
        return estimator.fit(X, y, **{"sample_weight" if _is_routed() else _name_of_weights(estimator): w})
    routing = " without metadata routing" if _has_keywords(refusing) and _inside(refusing) else ""
    positive = np.flatnonzero(w)
    rows = positive[systematic(w[positive], len(w), np.random.default_rng([seed, 2]).random())]
    problem = f"{type(refusing).__name__} takes no `sample_weight`{routing}"
    name = "It" if refusing is estimator else type(estimator).__name__
    remedy = f"is fitted to {len(w)} rows resampled by weight, {len(np.unique(rows))} of them distinct"
    words = f"{problem}. {name} {remedy}. An estimator that takes weights is more accurate."
    warnings.warn(words, ResampledWarning, stacklevel=5)
    return estimator.fit(_safe_indexing(X, rows), _safe_indexing(y, rows))


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or of the pipeline that is its last step. Others are unchanged."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def _refusing(estimator: Any) -> Any:
    """Return the estimator that takes no weights, this one or one inside that would receive them. None if all do."""
    inside = _inside(estimator)
    if not (isinstance(estimator, Pipeline) or _passes_on(estimator)):
        if not has_fit_parameter(estimator, "sample_weight") and not hasattr(estimator, "estimators"):
            return estimator
        for part in inside:
            if isinstance(part, Pipeline) and not _is_routed():
                return part  # it knows weights by the names of its steps only
    return next((refusing for part in inside if (refusing := _refusing(part)) is not None), None)


def _inside(estimator: Any) -> list[Any]:
    """Return the estimators that an estimator fits, where it is made of others."""
    if isinstance(estimator, Pipeline):
        return [estimator.steps[-1][1]]
    many = [part for _, part in getattr(estimator, "estimators", [])]
    one = [getattr(estimator, name, None) for name in ("estimator", "regressor", "final_estimator")]
    return [part for part in (*many, *one) if hasattr(part, "fit")]  # not those that are None or 'drop'


def _passes_on(estimator: Any) -> bool:
    """Return whether `fit` passes keywords that it does not know on to the estimator inside."""
    has_one = hasattr(estimator, "estimator") or hasattr(estimator, "regressor")
    if not _has_keywords(estimator) or hasattr(estimator, "estimators") or not has_one:
        return False
    fit = type(estimator).fit
    return (
        not fit.__module__.startswith("sklearn.") or fit.__qualname__.removesuffix(".fit") in _PASS_ON or _is_routed()
    )


def _has_keywords(estimator: Any) -> bool:
    parameters = inspect.signature(estimator.fit).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _is_routed() -> bool:
    return get_config()["enable_metadata_routing"]


def _name_of_weights(estimator: Any) -> str:
    """Return the keyword by which `fit` takes weights. For a pipeline it is that of its last step."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        return f"{step}__{_name_of_weights(last)}"
    if has_fit_parameter(estimator, "sample_weight") or not _passes_on(estimator) or not _inside(estimator):
        return "sample_weight"
    return _name_of_weights(_inside(estimator)[0])
