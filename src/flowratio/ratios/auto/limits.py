"""A limit on the time of a fit, for ratios that train a network or a flow. Others cannot be interrupted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sklearn.base import clone
from torch import nn

from flowratio._support.errors import ArgumentError
from flowratio.latent.featurizer import FlowFeaturizer
from flowratio.ratios.base import RatioEstimator
from flowratio.ratios.featurized.featurized import FeaturizedRatio, is_fitted
from flowratio.ratios.neural.difference import FlowDifferenceRatio
from flowratio.ratios.neural.network_ratio import NetworkRatio
from flowratio.ratios.registry import fit_prepared, named_ratio
from flowratio.samples.two_samples import TwoSamples
from flowratio.training.run import TimeLimit

_FLOW_SHARE = 0.7  # of the time of a ratio in latent space, for the flow
_FITS_WITH_BASE = 3  # of an estimator, one of them over the base and one without it to compare the two


def can_be_limited(ratio: Any) -> bool:
    """Return whether most of the time of a fit is training that can be interrupted."""
    if isinstance(ratio, str):
        try:
            ratio = named_ratio(ratio)
        except ArgumentError:  # the fit refuses it
            return False
    if isinstance(ratio, FeaturizedRatio):
        return _trains_flow(ratio.featurizer) or can_be_limited(ratio.estimator)
    return isinstance(ratio, RatioEstimator) and "callback" in _settings(ratio)


def fit_limited(ratio: Any, samples: TwoSamples, seconds: float) -> Any:
    """Fit a ratio, and end its training after about these seconds. Its settings stay unchanged."""
    if math.isinf(seconds):
        return fit_prepared(ratio, samples)
    settings = _settings(ratio)
    changes = _limits(ratio, seconds)
    if not changes:
        return fit_prepared(ratio, samples)
    model = fit_prepared(ratio.set_params(**changes), samples)
    for part in _parts(model):
        if isinstance(getattr(part, "callback", None), TimeLimit):
            part.callback = part.callback.callback
    return model.set_params(**{name: settings[name] for name in changes})


def was_cut(model: Any) -> bool:
    """Return whether a training of a fitted ratio ended for lack of time."""
    return any(getattr(getattr(part, "history_", None), "stop_reason", "") == "time" for part in _parts(model))


def _limits(ratio: Any, seconds: float) -> dict[str, Any]:
    """Return the settings of a ratio that limit its time."""
    if isinstance(ratio, FeaturizedRatio):
        limits: dict[str, Any] = {}
        if _trains_flow(ratio.featurizer):
            flow: Any = FlowFeaturizer() if ratio.featurizer is None else clone(ratio.featurizer)
            limits["featurizer"] = flow.set_params(callback=TimeLimit(_FLOW_SHARE * seconds, flow.callback))
            seconds *= 1 - _FLOW_SHARE
        if can_be_limited(ratio.estimator):
            name = ratio.estimator
            estimator: Any = named_ratio(name, "estimator") if isinstance(name, str) else clone(name)
            seconds /= _FITS_WITH_BASE if _compares_base(ratio, estimator) else 1
            limits["estimator"] = estimator.set_params(**_limits(estimator, seconds))
        return limits
    settings = _settings(ratio)
    if not can_be_limited(ratio):
        return {}
    parts = 2 if isinstance(ratio, FlowDifferenceRatio) else 1  # two flows
    return {"callback": TimeLimit(seconds / parts, settings["callback"])}


def _compares_base(ratio: FeaturizedRatio, estimator: Any) -> bool:
    """Return whether an estimator is fitted with and without a base, to choose: a network on a flow, by default."""
    on_flow = ratio.featurizer is None or isinstance(ratio.featurizer, FlowFeaturizer)
    automatic = isinstance(ratio.base, str) and ratio.base == "auto"
    return automatic and on_flow and isinstance(estimator, NetworkRatio) and estimator.network == "mlp"


def _settings(ratio: Any) -> dict[str, Any]:
    return ratio.get_params(deep=False) if hasattr(ratio, "get_params") else {}


def _trains_flow(featurizer: Any) -> bool:
    if featurizer is None:
        return True
    flow = getattr(featurizer, "flow", None)
    return isinstance(featurizer, FlowFeaturizer) and not isinstance(flow, nn.Module) and not is_fitted(featurizer)


def _parts(model: Any) -> Iterator[Any]:
    """Yield a fitted ratio, and the estimators that it contains."""
    yield model
    for value in vars(model).values() if hasattr(model, "get_params") else ():
        if hasattr(value, "get_params") and not isinstance(value, type):
            yield from _parts(value)
