"""Ratios r(x) = p(x) / q(x) on any space: p is the sample with y = 1, q that with y = 0.

Each is imported when it is first asked for, so that the kernel methods and scikit-learn's classifiers load no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowratio.ratios.auto import AutoRatio
    from flowratio.ratios.base import InverseRatio, OverlapWarning, RatioEstimator, kl_score
    from flowratio.ratios.classifier import ClassifierRatio
    from flowratio.ratios.difference import FlowDifferenceRatio
    from flowratio.ratios.featurized import FeaturizedRatio
    from flowratio.ratios.joint import JointFeaturizedRatio
    from flowratio.ratios.kliep import KLIEP
    from flowratio.ratios.kmm import KMM
    from flowratio.ratios.lsif import RULSIF, ULSIF
    from flowratio.ratios.telescoping import TelescopingRatio

__all__ = [
    "KLIEP",
    "KMM",
    "RULSIF",
    "ULSIF",
    "AutoRatio",
    "ClassifierRatio",
    "FeaturizedRatio",
    "FlowDifferenceRatio",
    "InverseRatio",
    "JointFeaturizedRatio",
    "OverlapWarning",
    "RatioEstimator",
    "TelescopingRatio",
    "kl_score",
]

_MODULES = {
    "base": ["RatioEstimator", "InverseRatio", "OverlapWarning", "kl_score"],
    "kmm": ["KMM"],
    "kliep": ["KLIEP"],
    "lsif": ["ULSIF", "RULSIF"],
    "classifier": ["ClassifierRatio"],
    "difference": ["FlowDifferenceRatio"],
    "telescoping": ["TelescopingRatio"],
    "featurized": ["FeaturizedRatio"],
    "joint": ["JointFeaturizedRatio"],
    "auto": ["AutoRatio"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # the next look-up does not come here
    return value
